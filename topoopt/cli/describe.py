"""`topoopt describe`: kinds of problems, fields of their files, methods for an instance, families of topologies."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from topoopt.core.errors import InputError, Problem
from topoopt.core.process import verbose
from topoopt.files.codec import FieldWords, SectionWords, sections_of
from topoopt.files.issues import nearest_text, value_text
from topoopt.page import options
from topoopt.page.output import Output, say
from topoopt.page.render import TerminalTable

TOPOLOGY = "topology"
"""The kind whose families are described."""


def _kinds() -> list[str]:
    from topoopt.kinds import KINDS
    from topoopt.kinds.files import OTHER_FILES

    return [*KINDS, *OTHER_FILES]


def describe(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND|INSTANCE",
            help="Kind of problem or file, or an instance file.",
            autocompletion=options.complete_from(_kinds),
        ),
    ] = None,
    field: Annotated[
        str | None,
        typer.Argument(
            metavar="FIELD|FAMILY",
            help="Only this field or section, such as cluster.degree; or a family of topologies, such as totient.",
        ),
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema; without KIND that of all.")] = False,
    servers: options.Servers = None,
    degree: options.Degree = None,
    links: options.Links = "bidirectional",
    seed: options.Seed = None,
    output_files: options.OutputOption = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Describe a kind of problem, a field of its files, the methods for an instance, or a family of topologies.

    Of a kind: every field of an instance file, what is allowed there, its default and its meaning, and the methods.
    Of an instance: its methods, and which of them do not cover it. Of `topology` and a family, with --servers and
    --degree: offsets of circulants, diameter and mean hops beside their bounds; --output writes an SVG picture.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.topologies import FAMILIES
        from topoopt.kinds import KINDS
        from topoopt.kinds.files import OTHER_FILES, json_schema

        if schema:
            document = json_schema(what)
            output.result(document, lambda console: console.print_json(json.dumps(document)))
            return 0
        if what is None:
            raise InputError([Problem("missing", path="KIND|INSTANCE", allowed=", ".join(_kinds()))])
        if what == TOPOLOGY and field is not None and field in FAMILIES:
            return _describe_family(output, field, (servers, degree, links, seed or 0), output_files, force)
        if what not in KINDS and what not in OTHER_FILES and Path(what).exists():
            groups = _for_instance(Path(what))
            output.result({"groups": groups}, lambda console: _show_methods(console, groups))
            return 0
        sections = sections_of(json_schema(what))
        selected = sections if field is None else _matching(what, sections, field)
        methods = _of_kind(what) if field is None and what in KINDS else []

        def show(console: Console) -> None:
            brief = field is None and not verbose()
            if not brief:
                _show_sections(console, selected)
            if brief:
                left_out = _show_fields(console, selected)
                like = f", such as {left_out[0]}" if left_out else ""
                console.print(f"`topoopt describe {what} FIELD` says more of a field{like}; --verbose of all of them.")
            if methods:
                console.print()
                _show_methods(console, methods)

        described = {"kind": what, "sections": [asdict(section) for section in selected]}
        output.result({**described, **({"groups": methods} if methods else {})}, show)
        return 0

    output.run(command)


def _describe_family(
    output: Output, family: str, size: tuple[int | None, int | None, str, int], files: list[Path] | None, force: bool
) -> int:
    """Diameter, mean hops and bounds of a member of a family, and its picture."""
    from topoopt.analyses.topologies import FAMILIES, answer, family_document, picture
    from topoopt.core.cluster import LinkDirection
    from topoopt.files.atomic import targets, write_text_atomically

    (file,) = targets(files, force, (".svg",))
    servers, degree, links, seed = size
    problems = [
        Problem("missing", path=f"--{name}", allowed="a whole number")
        for name, value in (("servers", servers), ("degree", degree))
        if value is None
    ]
    if links not in list(LinkDirection):
        problems.append(Problem("unknown links", path="--links", value=links, allowed=", ".join(LinkDirection)))
    if problems or servers is None or degree is None:
        raise InputError(problems)
    direction = LinkDirection(links)
    measured = FAMILIES[family](servers, degree, direction, seed)
    document = family_document(family, servers, degree, direction, measured)
    if file is not None:
        write_text_atomically(file, picture(family, servers, degree, direction, measured, seed))

    def show(console: Console) -> None:
        if document.get("offsets"):
            console.print(f"offsets {document['offsets']}", soft_wrap=True, highlight=False)
        text = f"{family} n={servers} d={degree} {links}: diameter {document['diameter']} "
        text += f"(Moore {document['moore_diameter']}, d n^(1/d) {document['diameter_bound']:.3f}), mean hops "
        text += f"{document['mean_hops']:.4f} (Moore {document['moore_mean_hops']:.4f})"
        console.print(text, soft_wrap=True, highlight=False)
        say(console, written=[file])

    document["picture"] = None if file is None else str(file)
    output.result(document, show, answer(family, servers, degree, measured, direction))
    return 0


def _show_methods(console: Console, groups: list[dict[str, Any]]) -> None:
    for group in groups:
        if group["problems"]:
            console.print(Text(f"{group['problems']}:", style="bold"))
        table = TerminalTable(show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for line in group["methods"]:
            left = line.get("not_covered")
            table.add_row(Text(line["name"], style="dim" if left else ""), Text(left or line["summary"]))
        console.print(table)


def _of_kind(name: str) -> list[dict[str, Any]]:
    from topoopt.kinds import kind_named

    tables = kind_named(name).solver().tables(name)
    return [
        {
            "problems": problems,
            "methods": [{"name": method.name, "summary": method.summary} for method in table.values()],
        }
        for problems, table in tables
    ]


def _for_instance(path: Path) -> list[dict[str, Any]]:
    from topoopt.kinds import kind_of
    from topoopt.kinds.files import read_instance

    problem = read_instance(path)
    lines = []
    for method in kind_of(problem).methods(problem).values():
        wrong = method.covers(problem)
        left = {} if wrong is None else {"not_covered": f"not covered: {wrong}"}
        lines.append({"name": method.name, "summary": method.summary, **left})
    return [{"problems": f"{problem.name} ({problem.kind})", "methods": lines}]


def _matching(kind: str, sections: tuple[SectionWords, ...], wanted: str) -> tuple[SectionWords, ...]:
    """What a path names: one field in its section, and all sections that may stand there or below.

    Raises:
        InputError: no such field; names those near.
    """
    by_name = {section.name: section for section in sections}
    *above, last = wanted.split(".")
    places = [by_name[""]] if above else list(sections)
    for name in above:
        fields = [field for candidate in places for field in candidate.fields if field.name == name]
        places = [by_name[section_name] for field in fields for section_name in field.sections]
    result = []
    for candidate in places:
        chosen = tuple(field for field in candidate.fields if field.name == last)
        if chosen:
            result.append(SectionWords(candidate.name, "", "", chosen))
    if last in by_name and not above:
        result.append(by_name[last])
    for section in result:  # grows
        below = [by_name[section_name] for field in section.fields for section_name in field.sections]
        result += [section_name for section_name in dict.fromkeys(below) if section_name not in result]
    if not result:
        names = [field.name for candidate in places or sections for field in candidate.fields]
        allowed = nearest_text(last, tuple(dict.fromkeys(names)))
        raise InputError([Problem(f"no such field of {kind}", path=wanted, value=value_text(last), allowed=allowed)])
    return tuple(result)


BRIEF_LINES = 30
"""Of a field and the sections below it, without `--verbose`."""


def _show_sections(console: Console, sections: Sequence[SectionWords]) -> None:
    """Each section with all its fields; without `--verbose` the names alone of those that make the text long."""
    lines, cut = 0, False
    for section in sections:
        with console.capture() as captured:
            _show_section(console, section)
        length = captured.get().count("\n")
        if lines + length <= BRIEF_LINES or verbose():
            lines += length
            _show_section(console, section)
        else:
            names = ", ".join(f"{field.name}{'*' if field.required else ''}" for field in section.fields)
            console.print(Text.assemble((section.name, "bold"), f": {names or section.value}"))
            cut = True
    if cut:
        console.print("--verbose says more of these.")


def _show_section(console: Console, section: SectionWords) -> None:
    """A heading, then each field: its name and value on a line, its meaning below, both folded to the width."""
    if section.name:
        console.print()
        console.print(Text.assemble((section.name, "bold"), f"  {section.meaning}" if section.meaning else ""))
    elif section.meaning:
        console.print(Text(section.meaning))
    if not section.fields:
        console.print(Padding(Text(section.value), (0, 0, 0, 2)))
    for field in section.fields:
        console.print(Padding(_line(field), (0, 0, 0, 2)))
        if field.meaning:
            console.print(Padding(Text(field.meaning, style="dim"), (0, 0, 0, 6)))


def _show_fields(console: Console, sections: Sequence[SectionWords]) -> list[str]:
    """The fields of each section on a line, behind the path that leads there; those that are required are marked.

    Returns:
        Paths of the deepest sections, which are left out where all together are too long.
    """
    by_name, paths, names = {section.name: section for section in sections}, {"": ""}, [""]
    lines: list[tuple[str, Text]] = []
    for name in names:  # grows
        fields = by_name[name].fields
        for field in fields:
            below = [part for part in field.sections if part not in paths]
            paths.update((part, f"{paths[name]}.{field.name}".lstrip(".")) for part in below)
            names += below
        text = ", ".join(f"{field.name}{'*' if field.required else ''}" for field in fields)
        lines.append((paths[name], Text.assemble((paths[name] or "file", "bold"), f": {text or by_name[name].value}")))
    deepest = max(path.count(".") for path, _ in lines)
    with console.capture() as captured:
        for _, line in lines:
            console.print(line)
    long = deepest > 0 and captured.get().count("\n") > BRIEF_LINES
    for path, line in lines:
        if not long or path.count(".") < deepest:
            console.print(line)
    return [path for path, _ in lines if long and path.count(".") == deepest]


def _line(field: FieldWords) -> Text:
    end = "required" if field.required else f"default {field.default}" if field.default else ""
    return Text.assemble((field.name, "bold"), f": {field.value}", f"; {end}" if end else "")


LIBRARIES = ("topoopt", "numpy", "scipy", "networkx", "highspy", "ortools", "pyomo", "pydantic")


def doctor(as_json: options.Json = False) -> None:
    """Print versions and solve a tiny problem with every solver found; exit code 1 if something is broken."""
    output = Output.choose(as_json)

    def command() -> int:
        libraries = {name: _version(name) for name in LIBRARIES}
        solvers, absent = _try_solvers()
        document: dict[str, Any] = {
            "python": sys.version.split()[0],
            "platform": platform.platform(),
            "libraries": libraries,
            "solvers": solvers,
            "solvers_absent": absent,
            "ok": None not in libraries.values() and all(entry["ok"] for entry in solvers.values()),
        }

        def show(console: Console) -> None:
            table = TerminalTable("part", "version", "state")
            table.add_row("python", document["python"], "ok")
            for name, release in libraries.items():
                table.add_row(name, release or "-", "ok" if release else "missing")
            for name, entry in solvers.items():
                table.add_row(
                    f"solver {name}", "", f"ok, {entry['by']}" if entry["ok"] else f"broken: {entry['reason']}"
                )
            table.add_row("not found", "", ", ".join(absent))
            console.print(table)

        output.result(document, show)
        return 0 if document["ok"] else 1

    output.run(command)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _try_solvers() -> tuple[dict[str, dict[str, Any]], list[str]]:
    """What solving min x, x >= 1 came to with every backend and every solver that is found; and those not found."""
    from solvers.backends import SOLVERS, self_test
    from solvers.backends.table import FOREIGN, any_solver, place_of

    there = [name for name in FOREIGN if place_of(name) is not None]
    table = {**SOLVERS, **{name: any_solver(name) for name in there}}
    tried = {
        name: {"ok": reason is None, "reason": reason, "by": table[name].library}
        for name, reason in self_test(table).items()
    }
    return tried, [name for name in FOREIGN if name not in there]
