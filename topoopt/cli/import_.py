"""`topoopt import`: files of other tools become instance files; each format says which settings it takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from annotated_types import Ge, Le
from rich.console import Console

from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.core.process import verbose
from topoopt.files.atomic import require_new, sole_target
from topoopt.files.issues import nearest_text, value_text
from topoopt.files.results import check_document
from topoopt.formats.table import IMPORTERS, Imported, NameOption, imported_placement, name_of, require_choice
from topoopt.page import options
from topoopt.page.output import Output, say
from topoopt.page.render import TerminalTable


def _formats() -> list[str]:
    return [*IMPORTERS, *OWN]


def import_(
    form: Annotated[
        str | None,
        typer.Argument(
            metavar="FORMAT", help="What the file is; --list names all.", autocompletion=options.complete_from(_formats)
        ),
    ] = None,
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="File, folder or prefix of files.")] = None,
    settings: options.Settings = None,
    listed: options.Listed = False,
    output_files: options.OutputOption = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Turn files of another tool into an instance file.

    Default file: NAME.yaml. What a format needs beside its file are settings; `topoopt import FORMAT --list` lists
    them. Format `expert-split` writes a checked solution, default FILE-solution.json; exit code 6 if it breaks a rule.
    """
    output = Output.choose(as_json)

    def command() -> int:
        if form is not None and form not in _formats():
            text = nearest_text(form, tuple(_formats()))
            raise InputError([Problem("no such format", None, None, "FORMAT", value_text(form), text)])
        if listed:
            return _list(output, _formats() if form is None else [form])
        missing = [name for name, value in (("FORMAT", form), ("FILE", file)) if value is None]
        if form is None or file is None:
            raise InputError([Problem("missing", path=name, allowed="--list needs none") for name in missing])
        importer = _importer(form)
        first, *others = _parameters(importer)
        values = _values(others, options.settings_of(settings))
        try:
            made = importer(**{first.name: file}, **values)
        except InputError as error:
            raise InputError([_as_setting(problem) for problem in error.problems]) from None
        if isinstance(made, Imported):
            return _write_imported(made, output_files, force, output)
        return _write_split(made, file, output_files, force, output)

    output.run(command)


def _importer(form: str) -> Callable[..., Any]:
    return IMPORTERS[form] if form in IMPORTERS else OWN[form]


def _as_setting(problem: Problem) -> Problem:
    """The problem of an option of an importer as that of a setting."""
    if problem.path is None or not problem.path.startswith("--") or problem.path.startswith("--set"):
        return problem
    return replace(problem, path=f"--set {problem.path[2:].replace('-', '_')}")


def _parameters(importer: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of an importer, the file first, each with the type and the words of its annotation."""
    hints = get_type_hints(importer, include_extras=True)
    given = [
        parameter.replace(annotation=hints[parameter.name])
        for parameter in inspect.signature(importer).parameters.values()
    ]
    return sorted(given, key=lambda parameter: not isinstance(_words(parameter), typer.models.ArgumentInfo))


def _words(parameter: inspect.Parameter) -> Any:
    return get_args(parameter.annotation)[1]


def _key(parameter: inspect.Parameter) -> str:
    """The key of a setting: the name that its option declares, else that of the parameter."""
    words = _words(parameter)  # inside `Annotated` the name stands where a default would
    declared = [text for text in (words.default, *(words.param_decls or ())) if isinstance(text, str)]
    return [*declared, parameter.name][0].removeprefix("--").replace("-", "_")


def _values(parameters: list[inspect.Parameter], settings: dict[str, str]) -> dict[str, Any]:
    """Arguments of an importer.

    Raises:
        InputError: unknown or missing settings, and values out of range.
    """
    keys = {_key(parameter): parameter for parameter in parameters}
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    types: dict[str, Any] = {}
    for key, text in settings.items():
        parameter = keys.get(key.partition(".")[0])
        if parameter is None or ("." in key) != any(
            get_origin(kind) is list for kind in get_args(_words_type(parameter))
        ):
            problems.append(Problem("no such setting", path="--set", value=key, allowed=nearest_text(key, tuple(keys))))
        elif "." in key:
            values.setdefault(parameter.name, []).append(f"{key.partition('.')[2]}={text}")
        elif key == "bytes":
            values[parameter.name] = options.size_of(text, "--set bytes")
        else:
            words = _words(parameter)
            limits = [limit(bound) for limit, bound in ((Ge, words.min), (Le, words.max)) if bound is not None]
            types[key] = Annotated[(_words_type(parameter), *limits)] if limits else _words_type(parameter)
    needed = [key for key, parameter in keys.items() if parameter.default is inspect.Parameter.empty]
    problems += [Problem("missing", path=f"--set {key}") for key in needed if key not in settings]
    raise_any(problems)
    plain = {key: text for key, text in settings.items() if key in types}
    return values | {keys[key].name: value for key, value in options.typed_settings(plain, types).items()}


def _words_type(parameter: inspect.Parameter) -> Any:
    return get_args(parameter.annotation)[0]


def _list(output: Output, forms: list[str]) -> int:
    """The formats, what each makes, and its settings."""
    described: dict[str, Any] = {}
    for form in forms:
        importer = _importer(form)
        first, *others = _parameters(importer)
        described[form] = {
            "makes": (importer.__doc__ or "").strip().split("\n\n")[0],
            "file": _words(first).help,
            "settings": {
                _key(parameter): {
                    "meaning": _words(parameter).help,
                    "required": parameter.default is inspect.Parameter.empty,
                }
                for parameter in others
            },
        }

    def brief(console: Console) -> None:
        for form, words in described.items():
            text = f"{form:20} {' '.join(words['makes'].split())}"
            console.print(text, markup=False, highlight=False, no_wrap=True, overflow="ellipsis")
        console.print("`topoopt import FORMAT --list` says the settings of a format, --verbose those of all.")

    def show(console: Console) -> None:
        if len(forms) > 1 and not verbose():
            brief(console)
            return
        for form, words in described.items():
            table = TerminalTable(title=form, show_header=False)
            table.add_row("makes", words["makes"])
            table.add_row("FILE", words["file"])
            for key, setting in words["settings"].items():
                table.add_row(key, f"{setting['meaning']}{' Required.' if setting['required'] else ''}")
            console.print(table)

    output.result({"formats": described}, show)
    return 0


def _write_imported(made: Imported, files: list[Path] | None, force: bool, output: Output) -> int:
    """Write an instance, then say so: figures for programs, the line for people, notes for both.

    Raises:
        InputError: the document is no valid instance, the file is there; WriteError: the file cannot be written.
    """
    from topoopt.kinds.files import write_instance

    document = made.document
    out = require_new(sole_target(files, Path(f"{document['name']}.yaml")), force)
    write_instance(document, out)
    notes = list(dict.fromkeys(made.notes))
    result = {"instance": str(out), "kind": document["kind"], "name": document["name"], **made.figures, "notes": notes}

    def show(console: Console) -> None:
        say(console, f"written: {out} ({document['kind']}; {made.line})", notes=notes)

    output.result(result, show)
    return 0


OBJECTIVES = ("throughput", "latency")


def job(
    file: Annotated[Path, typer.Argument(help="Instance of kind co-optimisation.")],
    objective: Annotated[str, typer.Option(help="throughput or latency.")],
    inference: Annotated[bool, typer.Option("--inference", help="Forward operators only.")] = False,
    name: NameOption = None,
) -> Imported:
    """The job of a co-optimisation instance, every operator whole on one server of its cluster, to be placed."""
    from topoopt.kinds.files import read_instance
    from topoopt.kinds.placement.read import job_document

    require_choice("--objective", objective, OBJECTIVES)
    problem: Any = read_instance(file)
    if problem.kind != "co-optimisation":
        allowed = "co-optimisation"
        raise InputError([Problem("no job in this kind", file=str(file), value=problem.kind, allowed=allowed)])
    document = job_document(problem, objective=objective, name=name or name_of(file), training=not inference)
    return imported_placement(document)


def expert_split(
    file: Annotated[Path, typer.Argument(help="Split (JSON) of msr-fiddle/dnn-partitioning, by a human expert.")],
    instance: Annotated[Path, typer.Option(help="Instance of kind placement, from `import dnn-partitioning`.")],
) -> tuple[Any, tuple[str, ...]]:
    """A split made by hand, evaluated and checked: a solution, and notes."""
    from topoopt.formats.dnn_partitioning import read_expert_split
    from topoopt.kinds.files import document_to_embed, read_instance
    from topoopt.kinds.placement.methods import evaluate_given

    problem: Any = read_instance(instance)
    if problem.kind != "placement":
        raise InputError([Problem("no placement", file=str(instance), value=problem.kind, allowed="placement")])
    split, notes = read_expert_split(file)
    return replace(evaluate_given(problem, split, "expert-split"), instance=document_to_embed(problem)), notes


def _write_split(
    made: tuple[Any, tuple[str, ...]], file: Path, files: list[Path] | None, force: bool, output: Output
) -> int:
    from topoopt.kinds.placement import SOLUTION_FILE

    solution, notes = made
    path = require_new(sole_target(files, Path(f"{name_of(file)}-solution.json")), force)
    SOLUTION_FILE.write(solution, path)
    summary = {
        "solution": str(path),
        "max_load_ms": solution.objective.value,
        "check": check_document(solution.check),
        "notes": list(notes),
    }
    text = f"written: {path} (max load {solution.objective.value:.6f} ms)"
    output.result(summary, lambda console: say(console, text, notes=notes))
    return output.exit_code(solution.check, solution.stopped_by)


OWN: dict[str, Callable[..., Any]] = {"expert-split": expert_split, "job": job}
"""What is made of files of our own."""
