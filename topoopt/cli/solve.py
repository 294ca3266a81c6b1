"""`topoopt solve`, and what is done with the solution file it writes: `topoopt show`, `report` and `convert`."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from annotated_types import Ge, Le
from rich.console import Console

from topoopt.analyses.costs import given_book
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem, raise_any, raise_rejected
from topoopt.core.process import INTERRUPTED, versions
from topoopt.core.result import SolutionHead
from topoopt.files.atomic import require_new, sole_target
from topoopt.files.results import bound_document, check_document
from topoopt.kinds import kind_named, kind_of
from topoopt.kinds.kind import Instance, Kind, Method, SolveOptions
from topoopt.page import options
from topoopt.page.options import AttendedRun, attended, memory_bytes, solving_bar
from topoopt.page.output import Output, say
from topoopt.page.text import full_answer
from topoopt.verify.checker import FULL

if TYPE_CHECKING:
    from solvers.processes import Gather


SETTINGS = {"solver": str, "formulation": str, "model_hook": Path, "slack_percent": Annotated[float, Ge(0), Le(1000)]}


def solve(
    instance: Annotated[Path, typer.Argument(help="Instance file (YAML or JSON).")],
    method: options.Method = None,
    seed: options.Seed = None,
    budget: options.Budget = None,
    time_limit: options.TimeLimit = None,
    memory_limit: options.MemoryLimit = None,
    jobs: options.Jobs = None,
    executor: options.Executor = None,
    executor_settings: options.ExecutorSettings = None,
    prices: options.Prices = None,
    settings: options.Settings = None,
    output_files: options.OutputOption = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Find a parallelization strategy, a topology and routes of least iteration time; write and check the plan.

    Instances of kind routing and topology: route a demand, or choose the links as well, so that theta, the largest
    link utilisation, is least. Kind hierarchical-bandwidth: choose the bandwidth of every dimension of a hierarchical
    network, and strategies and shape where the instance leaves them open. Kind placement: put the operators of
    a graph on devices, so that the busiest one is least loaded.

    solution.json and report.html go into the folder of --output, default out/NAME of the file. --jobs and --executor
    are for kinds co-optimisation and topology, --prices for kind co-optimisation.

    Settings: `solver` solves the kind's formulation, one of `topoopt doctor`; `formulation`, another one whose
    solutions are plans of this kind; `model_hook`, a Python file with change(model, problem), constraints of your own,
    which is RUN and may do whatever you may: never take one from a stranger. Of circuits between pods `slack_percent`,
    in place of that of the instance: what the job may take longer where that saves circuits.
    """
    output = Output.choose(as_json)

    def command() -> int:
        given = options.typed_settings(options.settings_of(settings, SETTINGS), SETTINGS)
        own = (given.get("solver"), given.get("formulation"), given.get("model_hook"))
        if own[2] is not None:
            say(output.remarks, f"running the program {own[2]}")
        memory = memory_bytes(memory_limit)
        folder = sole_target(output_files, Path("out") / instance.stem)
        slack = given.get("slack_percent")
        crew = chosen_crew(executor, executor_settings or [], jobs or 1, folder)
        limits = SolveOptions(seed, time_limit, budget, method, memory_bytes=memory, jobs=jobs or 1, crew=crew)
        with attended(output, time_limit) as run:
            try:
                kind, problem, chosen = run.first(lambda: _read(instance, slack, folder, force, prices, limits, own))
            except LimitError as error:
                return output.fail(error)
            if time_limit is None:
                run.limit(problem.search.time_limit_s)
            return _solve(kind, problem, chosen, output, folder, run)

    output.run(command)


def _read(
    instance: Path,
    slack: float | None,
    out: Path,
    force: bool,
    prices: Path | None,
    options: SolveOptions,
    choice: tuple[str | None, str | None, Path | None],
) -> tuple[Kind, Any, SolveOptions]:
    """Read everything, and load the solvers; run a file of constraints.

    Raises:
        InputError, WriteError: something is wrong with it.
    """
    from topoopt.kinds.files import located, read_instance
    from topoopt.kinds.pipeline import search_problems

    changes = () if slack is None else (("slack_percent", slack, "--set slack_percent"),)
    problem = read_instance(instance, changes)
    kind = kind_named(problem.kind)
    _require_writable(out, force)
    book = given_book(prices, [kind])
    own = located(search_problems(kind, problem), instance) if options.method is None else []
    raise_any(own)
    kind.solver()
    chosen = None if choice == (None, None, None) else _own_method(problem, options, *choice)
    return kind, problem, replace(options, book=book, chosen=chosen)


def _own_method(
    problem: Instance, options: SolveOptions, solver: str | None, formulation: str | None, hook: Path | None
) -> Method:
    """The method that solves a formulation, changed by a file of constraints, with a solver.

    Raises:
        InputError: a method was asked for as well, the solver is not there, or the kind has no such formulation.
    """
    from solvers.backends.table import any_solver
    from topoopt.library.calls import hooked_model

    if options.method is not None:
        allowed = "--set solver, formulation and model_hook, or --method"
        raise InputError([Problem("not both", path="--method", value=options.method, allowed=allowed)])
    any_solver(solver or DEFAULT_SOLVER)
    return hooked_model(problem, formulation, solver or DEFAULT_SOLVER, hook).method()


DEFAULT_SOLVER = "highs"


def _solve(kind: Kind, problem: Any, options: SolveOptions, output: Output, out: Path, run: AttendedRun) -> int:
    """Solve, check, write solution.json and report.html, show; the exit code."""
    from topoopt.files.atomic import make_directory, write_text_atomically
    from topoopt.kinds.pipeline import solve as solved
    from topoopt.page.render import show_end

    run.doing = "start"
    try:
        with solving_bar(output) as progress:
            options = replace(options, progress=run.telling(progress), timing=run.timing)
            solution = solved(problem, options)
    except (InfeasibleError, LimitError) as error:
        return output.fail(error, no_result(problem, options.seed, time.monotonic() - run.began.at_s))
    run.doing = "files"  # what was found is written, however late Ctrl-C comes
    wall_s = time.monotonic() - run.began.at_s
    pages = kind.pages()
    extra = pages.table(solution)
    make_directory(out)
    files = [out / "solution.json"]
    kind.files.solutions.write(solution, files[0])
    for name, text in [] if extra is None else [extra]:
        files.append(out / name)
        write_text_atomically(files[-1], text)
    page = run.timing.closing(lambda: pages.report(solution))
    report = out / "report.html"
    if page is None:
        report.unlink(missing_ok=True)  # that of another solution
        output.remarks.print(f"{REPORT_LEFT}: topoopt report {files[0]} writes it", markup=False, highlight=False)
    else:
        files.append(report)
        write_text_atomically(report, page)
    figures = dict(pages.figures(problem, solution))
    if extra is not None:
        figures["table"] = str(files[1])

    def show(console: Console) -> None:
        pages.show(console, solution, wall_s)
        show_end(console, solution, files)

    document = summary_of(solution, wall_s, figures, files[0], None if page is None else report)
    output.result(document, show, full_answer(pages.answer(solution), solution.check))
    code = output.exit_code(solution.check, solution.stopped_by)
    return INTERRUPTED if solution.check.ok and run.timing.stop.interrupted.is_set() else code


REPORT_LEFT = "left out (no time): report.html"
"""Said when there was none for the report."""


def summary_of(
    solution: SolutionHead, wall_s: float, figures: Mapping[str, Any], file: Path, report: Path | None
) -> dict[str, Any]:
    """The JSON object of a solve: what all kinds have, around the figures of one, and its files."""
    document = document_of(solution, dict(figures), file)
    return {**document, "wall_s": round(wall_s, 3), "report": None if report is None else str(report)}


def no_result(problem: Instance, seed: int | None, wall_s: float) -> dict[str, Any]:
    """The keys of the JSON object of a solve that found nothing."""
    return {
        "kind": problem.kind,
        "name": problem.name,
        "objective": None,
        "bound": None,
        "claimed_bound": None,
        "gap": None,
        "check": None,
        "seed": problem.search.seed if seed is None else seed,
        "wall_s": round(wall_s, 3),
        "versions": dict(versions()),
        "instance_sha256": problem.sha256,
        "solution": None,
    }


def _require_writable(out: Path, force: bool) -> None:
    """Refuse a directory that cannot be written before minutes are spent on what should go there.

    Raises:
        WriteError: something else has the name of the directory or of a file in it, or writing is not permitted.
    """
    from topoopt.files.atomic import WriteError

    try:
        there = next(path for path in (out, *out.absolute().parents) if path.exists())
        if not there.is_dir():
            raise WriteError(f"{out}: cannot be written: {there} is not a folder")
        if not os.access(there, os.W_OK | os.X_OK):
            raise WriteError(f"{out}: cannot be written: no permission to write to {there}")
        for name in ("solution.json", "report.html"):
            if (out / name).exists() and not (out / name).is_file():
                raise WriteError(f"{out / name}: cannot be written: not a regular file")
    except (OSError, ValueError) as error:  # a name too long, a folder that may not be looked into
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise WriteError(f"{out}: cannot be written: {reason}") from None
    require_new(out / "solution.json", force)


def chosen_crew(executor: str | None, words: list[str], jobs: int, folder: Path) -> Gather | None:
    """Who does the parts of the search; None: processes here.

    Raises:
        InputError: an unknown executor, or options without one.
    """
    if executor is None and words:
        problem = Problem("options of no executor", path="--executor-option", value=words[0], allowed="with --executor")
        raise InputError([problem])
    if executor is None:
        return None
    from topoopt.studies.executors import gather_of

    gather = gather_of(executor, options.settings_of(words, option="--executor-option"), jobs, folder)
    return None if executor == "local" else gather


SolutionArgument = Annotated[Path, typer.Argument(help="solution.json of `topoopt solve`.")]


def show(solution: SolutionArgument, as_json: options.Json = False) -> None:
    """Show the figures of a solution, computed again from its plan; with --json all of them, tables as well.

    Exit code 6 if a brief check rejects the plan.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.kinds.files import solution_of

        problem, result = solution_of(solution)
        pages = kind_of(result).pages()
        document = document_of(result, dict(pages.everything(problem, result)), solution)

        def display(console: Console) -> None:
            pages.show(console, result, None)
            say(console, notes=result.notes)

        output.result(document, display, full_answer(pages.answer(result), result.check))
        return 0

    output.run(command)


def convert(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="[INSTANCE] SOLUTION",
            help="solution.json of the release before, format 2; its instance, where the solution carries none.",
        ),
    ],
    output_files: options.OutputOption = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Write a solution file of format 2 in the present format, once its plan and its proof have been checked.

    Default file: converted.json beside SOLUTION. Exit code 6, and no file, if the checker rejects it.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.kinds.files import converted, write_solution

        instance, solution = instance_and_solution(files)
        file = require_new(sole_target(output_files, solution.with_name("converted.json")), force)
        result = converted(solution, instance, FULL)
        raise_rejected(result.check.violations)
        write_solution(result, file)
        document = {"solution": str(file), "status": result.status.value, "check": check_document(result.check)}
        output.result(document, lambda console: say(console, written=[file]))
        return output.exit_code(result.check, result.stopped_by, searched=False)

    output.run(command)


def instance_and_solution(files: list[Path]) -> tuple[Path | None, Path]:
    """The instance, if one is given, and the solution after it.

    Raises:
        InputError: there are more files.
    """
    if len(files) > 2:
        allowed = "an instance and its solution, or a solution that carries its instance"
        raise InputError([Problem("too many files", value=str(len(files)), allowed=allowed)])
    return (files[0] if len(files) == 2 else None), files[-1]


def document_of(solution: SolutionHead, figures: dict[str, Any], file: Path) -> dict[str, Any]:
    """Return the JSON object of a solution: what all kinds have, around the figures of one."""
    objective, claimed = solution.objective, solution.claimed_bound
    return {
        "kind": solution.kind,
        "name": solution.name,
        "status": solution.status.value,
        "stopped_by": solution.stopped_by.value,
        "objective": {"name": objective.name, "value": objective.value, "unit": objective.unit},
        "bound": bound_document(solution.bound),
        "claimed_bound": None if claimed is None else bound_document(claimed),
        "gap": solution.gap,
        **figures,
        "method": solution.method,
        "check": check_document(solution.check),
        "seed": solution.seed,
        "versions": dict(solution.versions),
        "instance_sha256": solution.instance_sha256,
        "notes": list(solution.notes),
        "solution": str(file),
    }
