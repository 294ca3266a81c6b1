"""`topoopt solve`, and what is done with the solution file it writes: `topoopt show`, `report` and `convert`."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from topoopt.analyses.costs import given_book
from topoopt.cli.app import complete_solver
from topoopt.core.errors import CheckError, InfeasibleError, InputError, LimitError, Problem
from topoopt.core.process import versions
from topoopt.core.result import SolutionHead
from topoopt.files.results import bound_document, check_document
from topoopt.kinds import kind_named, kind_of
from topoopt.kinds.kind import Instance, Kind, Method, SolveOptions
from topoopt.page.long_run import AttendedRun, attended, memory_bytes, solving_bar
from topoopt.page.output import JsonOption, Output
from topoopt.page.process import INTERRUPTED
from topoopt.page.text import full_answer
from topoopt.verify.checker import FULL

if TYPE_CHECKING:
    from solvers.processes import Gather


def solve(
    instance: Annotated[Path, typer.Argument(help="Instance file (YAML or JSON).")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Directory for solution.json and report.html; default: out/NAME of the file."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**63 - 1, help="Seed; default: of the instance.")] = None,
    time_limit: Annotated[float | None, typer.Option(min=0.0, help="Seconds of the whole run.")] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            help="Resident memory of the run and its solvers together, such as 4GiB or 500MB; the best so far is kept."
        ),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(min=0, max=10**12, help="Proposals of the search in all: strategies, or moves of a placement."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(help="One of `topoopt methods INSTANCE`; default: of the instance, which is auto by default."),
    ] = None,
    jobs: JobsOption = 1,
    executor: ExecutorOption = None,
    executor_option: ExecutorOptionOption = None,
    slack: SlackOption = None,
    prices: Annotated[
        Path | None,
        typer.Option(help="Price book, for kind co-optimisation; 2023 (default) and h200 are shipped."),
    ] = None,
    solver: Annotated[
        str | None,
        typer.Option(
            help="Solve the kind's formulation by this solver: one of `topoopt doctor`.", autocompletion=complete_solver
        ),
    ] = None,
    formulation: Annotated[
        str | None, typer.Option(help="The same, by another formulation whose solutions are plans of this kind.")
    ] = None,
    model_hook: Annotated[
        Path | None,
        typer.Option(
            help="The same, with constraints of your own: Python file with change(model, problem), which is RUN and "
            "may do whatever you may. Never take one from a stranger."
        ),
    ] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Find a parallelization strategy, a topology and routes of least iteration time; write and check the plan.

    Instances of kind routing and topology: route a demand, or choose the links as well, so that theta, the largest
    link utilisation, is least. Kind hierarchical-bandwidth: choose the bandwidth of every dimension of a hierarchical
    network, and strategies and shape where the instance leaves them open. Kind placement: put the operators of
    a graph on devices, so that the busiest one is least loaded.
    """
    output = Output.choose(as_json)

    def command() -> int:
        if model_hook is not None:
            output.remarks.print(f"running the program {model_hook}", markup=False, highlight=False, soft_wrap=True)
        memory = memory_bytes(memory_limit)
        folder = out or Path("out") / instance.stem
        own = (solver, formulation, model_hook)
        crew = chosen_crew(executor, executor_option or [], jobs, folder)
        options = SolveOptions(seed, time_limit, budget, method, memory_bytes=memory, jobs=jobs, crew=crew)
        with attended(output, time_limit) as run:
            try:
                kind, problem, given = run.first(lambda: _read(instance, slack, folder, prices, options, own))
            except LimitError as error:
                return output.fail(error)
            if time_limit is None:
                run.limit(problem.search.time_limit_s)
            return _solve(kind, problem, given, output, folder, run)

    output.run(command)


def _read(
    instance: Path,
    slack: float | None,
    out: Path,
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

    changes = () if slack is None else (("slack_percent", slack, "--slack"),)
    problem = read_instance(instance, changes)
    kind = kind_named(problem.kind)
    _require_writable(out)
    book = given_book(prices, [kind])
    own = located(search_problems(kind, problem), instance) if options.method is None else []
    if own:
        raise InputError(own)
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
        allowed = "--solver, --formulation and --model-hook, or --method"
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


def _require_writable(out: Path) -> None:
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


JobsOption = Annotated[
    int,
    typer.Option(min=1, max=256, help="Processes for kinds co-optimisation and topology; the plan stays the same."),
]
ExecutorOption = Annotated[
    str | None,
    typer.Option(
        help="Kind co-optimisation: local, slurm, dask or MODULE:CALLABLE, which makes a concurrent.futures.Executor, "
        "does the --jobs parts at once; the plan stays the same."
    ),
]
ExecutorOptionOption = Annotated[
    list[str] | None,
    typer.Option("--executor-option", help="KEY=VALUE for the executor, as of `topoopt study run`; may be repeated."),
]
SlackOption = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=1000.0,
        help="Circuits between pods (dag-topology, llm-training): percent the job may take longer where that saves "
        "circuits, in place of slack_percent.",
    ),
]


def chosen_crew(executor: str | None, options: list[str], jobs: int, folder: Path) -> Gather | None:
    """Who does the parts of the search; None: processes here.

    Raises:
        InputError: an unknown executor, or options without one.
    """
    if executor is None and options:
        problem = Problem(
            "options of no executor", path="--executor-option", value=options[0], allowed="with --executor"
        )
        raise InputError([problem])
    if executor is None:
        return None
    from topoopt.studies.executors import crew_of, option_pairs

    return crew_of(executor, option_pairs(options), jobs, folder)


SolutionArgument = Annotated[Path, typer.Argument(help="solution.json of `topoopt solve`.")]
InstanceOption = Annotated[
    Path | None, typer.Option(help="Instance file; needed only where the solution carries no instance.")
]


def show(
    solution: SolutionArgument,
    instance: InstanceOption = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Show the figures of a solution, computed again from its plan; with --json all of them, tables as well.

    Exit code 6 if a brief check rejects the plan.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.kinds.files import solution_of

        problem, result = solution_of(solution, instance)
        pages = kind_of(result).pages()
        document = document_of(result, dict(pages.everything(problem, result)), solution)

        def display(console: Console) -> None:
            pages.show(console, result, None)
            for note in result.notes:
                console.print(f"note: {note}", markup=False, soft_wrap=True, highlight=False)

        output.result(document, display, full_answer(pages.answer(result), result.check))
        return 0

    output.run(command)


def report(
    solution: SolutionArgument,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="HTML file to write; default: report.html beside SOLUTION.")
    ] = None,
    instance: InstanceOption = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Write the self-contained HTML report of a solution; exit code 6 if a brief check rejects the plan."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.files.atomic import write_text_atomically
        from topoopt.kinds.files import solution_of

        _, result = solution_of(solution, instance)
        file = out or solution.with_name("report.html")
        write_text_atomically(file, kind_of(result).pages().report(result))
        output.result({"report": str(file)}, lambda console: console.print(f"written: {file}", markup=False))
        return 0

    output.run(command)


def convert(
    solution: Annotated[Path, typer.Argument(help="solution.json of the release before, format 2.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Solution file to write; default: converted.json beside SOLUTION."),
    ] = None,
    instance: InstanceOption = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Write a solution file of format 2 in the present format, once its plan and its proof have been checked.

    Exit code 6, and no file, if the checker rejects it.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.kinds.files import converted, write_solution

        result = converted(solution, instance, FULL)
        if not result.check.ok:
            raise CheckError("the checker rejects the solution:\n" + "\n".join(result.check.violations))
        file = out or solution.with_name("converted.json")
        write_solution(result, file)
        document = {"solution": str(file), "status": result.status.value, "check": check_document(result.check)}
        output.result(document, lambda console: console.print(f"written: {file}", markup=False))
        return output.exit_code(result.check, result.stopped_by, searched=False)

    output.run(command)


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
