"""A job runs on other fabrics, and its strategy is searched anew on each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement

from topoopt.core.errors import InputError, LimitError, Problem
from topoopt.core.job import CoOptimisation, FabricChoice
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.outcomes import FabricRow
from topoopt.core.process import INTERRUPTED, take
from topoopt.core.proofs import StopReason
from topoopt.core.switching import parse_delay
from topoopt.kinds.kind import SolveOptions
from topoopt.page.options import counting_bar
from topoopt.page.output import EXIT_OF_STOP, Output, say
from topoopt.page.render import TerminalTable

if TYPE_CHECKING:
    from solvers.job.fabrics import FabricSearch
    from topoopt.analyses.fabrics.run import CircuitSearch
    from topoopt.core.job import JobPlan
    from topoopt.core.result import Result
    from topoopt.page.options import AttendedRun


KIND = "co-optimisation, llm-training"
DEFAULT_DEVICE = "3d-mems"
FLOW_LEVEL_NOTE = (
    "circuits that follow demand have no time by the model `rounds`: theirs is of the flow-level model (max-min fair "
    "shares), to be compared with the flow-level times of the others"
)
PART_OF_BUDGET = 10
"""Proposals on each fabric unless said otherwise: this part of what `topoopt solve` takes."""


def compare_fabrics(
    output: Output,
    file: Path,
    names: Sequence[str] | None,
    options: SolveOptions,
    delay: str | None,
    files: tuple[Path | None, Path | None],
) -> int:
    """Show the best iteration time of a job on each fabric, with a strategy searched on it; the exit code.

    Ctrl-C ends the comparison; the rows made so far are shown and written. A fabric that the cluster cannot have is
    left out with the reason. Circuits that follow demand are simulated by a flow-level model; if there are any, the
    other rows have the time by that model beside that of their own.

    Args:
        output: of the command.
        file: instance of a job or a language model; or a solution of a job: its plan is a row, its strategy a start.
        names: of fabrics; None: those of the instance, else all that stay as they are.
        options: limits, and the budget of each fabric.
        delay: of circuits that follow demand; None: that of `DEFAULT_DEVICE`.
        files: table and plot to write.
    """
    from topoopt.analyses.fabrics.report import answer
    from topoopt.kinds.files import problem_and_solution
    from topoopt.page.options import attended

    with attended(output, options.time_limit_s, options.memory_bytes) as run:
        job, plan = run.first(lambda: problem_and_solution(file))
        if isinstance(job, LlmTrainingProblem):
            _refuse_options({"--budget": options.budget, "--delays": delay})
            return _on_training(output, job, names, options, files)
        if not isinstance(job, CoOptimisation):
            text = "only jobs run on fabrics"
            raise InputError([Problem(text, file=str(file), path="kind", value=job.kind, allowed=KIND)])
        seed = job.search.seed if options.seed is None else options.seed
        chosen, search, circuits = run.first(lambda: _chosen(job, names, options.budget, seed, delay, plan))
        rows, total, stopped = _rows(output, job, plan, chosen, search, circuits, run)
        notes = [] if circuits is None else [FLOW_LEVEL_NOTE]
        run.doing = "files"  # what was found is written, however late Ctrl-C comes
        document = {
            "kind": "fabrics",
            "name": job.name,
            "instance_sha256": job.sha256,
            "seed": seed,
            "stopped_by": stopped.value,
            "missing": total - len(rows),
            "reconfiguration_delay_ms": None if circuits is None else circuits.delay_ms,
            "rows": [asdict(row) for row in rows],
            "notes": notes,
            **_written(job.name, rows, *files),
        }
        output.result(document, lambda console: _show(console, job.name, rows, notes, files), answer(rows))
    if stopped is StopReason.INTERRUPTED:
        output.remarks.print(f"interrupted: {len(rows)} of {total} rows made", highlight=False)
        return INTERRUPTED
    return EXIT_OF_STOP.get(stopped, 0)


def _refuse_options(jobs_alone: Mapping[str, object]) -> None:
    """Refuse options that only jobs have."""
    wrong = [name for name, value in jobs_alone.items() if value is not None]
    if wrong:
        raise InputError([Problem("not with a language model in training", path=name) for name in wrong])


def _on_training(
    output: Output,
    problem: LlmTrainingProblem,
    names: Sequence[str] | None,
    options: SolveOptions,
    files: tuple[Path | None, Path | None],
) -> int:
    """A language model in training; `files`: table and plot to write."""
    from topoopt.analyses.fabrics import run as training
    from topoopt.files.atomic import csv_text, write_targets

    solution, requested = training.training_on_fabrics(problem, names, options)
    rows = training.fabric_rows_of(solution)
    bars = training.training_bars(problem.name, rows)
    written = write_targets(*files, text=lambda: csv_text(*training.table_of(rows)), svg=bars.svg, html=bars.html)

    def show(console: Console) -> None:
        training.show(console, rows)
        say(console, written=files)

    output.result(training.document(solution, rows, requested) | written, show, bars.answer)
    return EXIT_OF_STOP.get(solution.stopped_by, 0)


def _chosen(
    job: CoOptimisation,
    names: Sequence[str] | None,
    budget: int | None,
    seed: int,
    delay: str | None,
    plan: Result[CoOptimisation, JobPlan] | None,
) -> tuple[tuple[FabricChoice, ...], FabricSearch, CircuitSearch | None]:
    """Fabrics; those that stay are searched, and demand-driven circuits try some strategies."""
    from solvers.job.methods import default_budget
    from topoopt.analyses.fabrics.run import CircuitSearch, named_fabrics
    from topoopt.kinds.job.methods import fabric_search
    from topoopt.simulate.circuits import DYNAMIC_FABRICS

    chosen = named_fabrics(job, names)
    staying = tuple(choice for choice in chosen if choice.fabric not in DYNAMIC_FABRICS)
    proposals = default_budget(job.cluster, job.workload) // PART_OF_BUDGET if budget is None else budget
    search = fabric_search(replace(job, baselines=replace(job.baselines, fabrics=staying)), proposals, seed)
    option = "--delays"
    if len(staying) == len(chosen):
        if delay is not None:
            allowed = "with --fabrics of " + ", ".join(DYNAMIC_FABRICS)
            raise InputError([Problem("no fabric of the list reconfigures", path=option, value=delay, allowed=allowed)])
        return chosen, search, None
    try:
        delay_ms = parse_delay(DEFAULT_DEVICE if delay is None else delay)
    except InputError as error:
        raise InputError([replace(problem, path=option) for problem in error.problems]) from None
    strategy = None if plan is None else plan.plan.strategy
    return chosen, search, CircuitSearch(delay_ms, proposals, seed, strategy)


def _rows(
    output: Output,
    job: CoOptimisation,
    plan: Result[CoOptimisation, JobPlan] | None,
    fabrics: tuple[FabricChoice, ...],
    search: FabricSearch,
    circuits: CircuitSearch | None,
    run: AttendedRun,
) -> tuple[list[FabricRow], int, StopReason]:
    """Rows made, how many there would be, and why it ended."""
    from topoopt.analyses.fabrics.run import fabric_rows, plan_row

    rows = [] if plan is None else [plan_row(job, plan, flow_level=circuits is not None)]
    if plan is not None:  # what it is compared with has links shared as it has
        job = job.shared_as(plan.plan.link_sharing)
    total = len(rows) + len(fabrics)
    bar = counting_bar(output)
    stop = run.timing.stop
    with bar:
        task = bar.add_task(escape(fabrics[0].name), total=len(fabrics))
        try:
            strategies = [] if plan is None else [plan.plan.strategy]
            made = fabric_rows(job, fabrics, search, strategies, stop, circuits)
            for rank in range(1, len(fabrics) + 1):
                run.doing = fabrics[rank - 1].name
                row = run.part(lambda: next(made, None))
                if row is None:
                    break
                rows.append(row)
                following = fabrics[rank].name if rank < len(fabrics) else "done"
                bar.update(task, completed=rank, description=escape(following))
        except KeyboardInterrupt:  # a second Ctrl-C
            take()
            return rows, total, StopReason.INTERRUPTED
        except LimitError:
            if not rows:
                raise
            return rows, total, StopReason.MEMORY if stop.memory.exceeded.is_set() else StopReason.TIME
        if stop.interrupted.is_set():
            return rows, total, StopReason.INTERRUPTED
    early = any(row.outcome == StopReason.TIME.value for row in rows)
    return rows, total, StopReason.TIME if early else StopReason.CONVERGED


def _written(name: str, rows: list[FabricRow], csv_file: Path | None, plot: Path | None) -> dict[str, str | None]:
    from topoopt.analyses.fabrics.report import fabric_bars
    from topoopt.files.atomic import csv_text, write_targets

    return write_targets(
        csv_file,
        plot,
        text=lambda: csv_text([field.name for field in fields(FabricRow)], map(astuple, rows)),
        svg=lambda: fabric_bars(name, rows).svg(),
        html=lambda: fabric_bars(name, rows).html(),
    )


def _show(console: Console, name: str, rows: list[FabricRow], notes: list[str], files: tuple[Path | None, ...]) -> None:
    from topoopt.analyses.fabrics.report import HEADINGS, ordered, table_cells

    table = TerminalTable(title=escape(name))
    for index, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if index in {0, len(HEADINGS) - 1} else "right", overflow="fold")
    for row in ordered(rows):
        table.add_row(*map(escape, table_cells(row, rows)[: len(HEADINGS)]))
    if not console.is_terminal:  # a file has no width that a table must fit
        widest = Measurement.get(console, console.options.update(width=500), table).maximum
        console.width = max(console.width, widest)
    console.print(table)
    for row in ordered(rows):
        text = row.description if row.outcome == "left out" else f"{row.name}: {row.description}"
        say(console, text)
    say(console, notes=notes, written=files)
