"""`topoopt fabrics`: a job runs on other fabrics, and its strategy is searched anew on each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement

from topoopt.core.comparison import FabricRow
from topoopt.core.errors import InputError, LimitError, Problem
from topoopt.core.job import CoOptimisation, FabricChoice
from topoopt.core.process import take
from topoopt.core.proofs import StopReason
from topoopt.core.switching import devices_text, parse_delay
from topoopt.files.atomic import require_targets
from topoopt.kinds.kind import SolveOptions
from topoopt.page.long_run import MemoryOption, counting_bar, memory_bytes
from topoopt.page.output import EXIT_OF_STOP, JsonOption, Output
from topoopt.page.process import INTERRUPTED
from topoopt.page.render import TerminalTable

if TYPE_CHECKING:
    from solvers.job.fabrics import FabricSearch
    from topoopt.analyses.fabrics.run import CircuitSearch
    from topoopt.core.job import JobPlan
    from topoopt.core.llm_training import LlmTrainingProblem
    from topoopt.core.result import Result
    from topoopt.page.long_run import AttendedRun


KIND = "co-optimisation, llm-training"
DEVICES = devices_text()
DEFAULT_DEVICE = "3d-mems"
FLOW_LEVEL_NOTE = (
    "circuits that follow demand have no time by the model `rounds`: theirs is of the flow-level model (max-min fair "
    "shares), to be compared with the flow-level times of the others"
)
PART_OF_BUDGET = 10
"""Proposals on each fabric unless said otherwise: this part of what `topoopt solve` takes."""


def fabrics(
    instance: Annotated[Path, typer.Argument(help="Instance file of kind co-optimisation or llm-training.")],
    fabrics: Annotated[
        str | None,
        typer.Option(
            help="Names, parted by commas, also ocs-reconfig and sip-ml (circuits that follow demand); "
            "default: those of the instance, else all that stay as they are."
        ),
    ] = None,
    solution: Annotated[
        Path | None, typer.Option(help="solution.json of the instance: its plan is a row, its strategy a start.")
    ] = None,
    budget: Annotated[
        int | None, typer.Option(min=0, max=10**12, help="Strategy proposals on each fabric; default: from the size.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**63 - 1, help="Seed; default: of the instance.")] = None,
    reconfiguration_delay: Annotated[
        str | None,
        typer.Option(help=f"Of circuits that follow demand: a duration or a device ({DEVICES}); default: 3d-mems."),
    ] = None,
    time_limit: Annotated[float | None, typer.Option(min=0.0, help="Seconds for all fabrics together.")] = None,
    memory_limit: Annotated[str | None, MemoryOption] = None,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="CSV file to write.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Bars to write, as .html or .svg.")] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Best iteration time of a job on each fabric, with a strategy searched on it.

    Ctrl-C ends the comparison; the rows made so far are shown and written. A fabric that the cluster cannot have is
    left out with the reason. Circuits that follow demand are simulated by a flow-level model; if there are any, the
    other rows have the time by that model beside that of their own.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.fabrics.report import answer
        from topoopt.page.long_run import attended

        require_targets(csv_file, plot)
        training = _training(instance)
        if training is not None:
            beside = {"--solution": solution, "--budget": budget, "--reconfiguration-delay": reconfiguration_delay}
            _refuse_options(beside)
            options = SolveOptions(seed=seed, time_limit_s=time_limit, memory_bytes=memory_bytes(memory_limit))
            return _on_training(output, training, fabrics, options, (csv_file, plot))
        with attended(output, time_limit, memory_bytes(memory_limit)) as run:
            job, plan = run.first(lambda: _read(instance, solution))
            names = None if fabrics is None else [name.strip() for name in fabrics.split(",")]
            own_seed = job.search.seed if seed is None else seed
            chosen, search, circuits = run.first(
                lambda: _chosen(job, names, budget, own_seed, reconfiguration_delay, plan)
            )
            rows, total, stopped = _rows(output, job, plan, chosen, search, circuits, run)
            notes = [] if circuits is None else [FLOW_LEVEL_NOTE]
            run.doing = "files"  # what was found is written, however late Ctrl-C comes
            files = _written(job.name, rows, csv_file, plot)
            document = {
                "kind": "fabrics",
                "name": job.name,
                "instance_sha256": job.sha256,
                "seed": own_seed,
                "stopped_by": stopped.value,
                "missing": total - len(rows),
                "reconfiguration_delay_ms": None if circuits is None else circuits.delay_ms,
                "rows": [asdict(row) for row in rows],
                "notes": notes,
                **files,
            }
            output.result(
                document, lambda console: _show(console, job.name, rows, notes, (csv_file, plot)), answer(rows)
            )
        if stopped is StopReason.INTERRUPTED:
            output.remarks.print(f"interrupted: {len(rows)} of {total} rows made", highlight=False)
            return INTERRUPTED
        return EXIT_OF_STOP.get(stopped, 0)

    output.run(command)


def _training(instance: Path) -> LlmTrainingProblem | None:
    """A language model in training; None for jobs, and for what is refused later."""
    from topoopt.core.llm_training import LlmTrainingProblem
    from topoopt.kinds.files import read_instance

    problem: Any = read_instance(instance)
    return problem if isinstance(problem, LlmTrainingProblem) else None


def _refuse_options(jobs_alone: Mapping[str, object]) -> None:
    """Refuse options that only jobs have."""
    wrong = [name for name, value in jobs_alone.items() if value is not None]
    if wrong:
        raise InputError([Problem("not with a language model in training", path=name) for name in wrong])


def _on_training(
    output: Output,
    problem: LlmTrainingProblem,
    fabrics: str | None,
    options: SolveOptions,
    files: tuple[Path | None, Path | None],
) -> int:
    """A language model in training; `files`: table and plot to write."""
    from topoopt.analyses.fabrics import run as training
    from topoopt.files.atomic import csv_text, write_targets

    names = None if fabrics is None else [name.strip() for name in fabrics.split(",")]
    solution, requested = training.training_on_fabrics(problem, names, options)
    rows = training.fabric_rows_of(solution)
    bars = training.training_bars(problem.name, rows)
    written = write_targets(*files, text=lambda: csv_text(*training.table_of(rows)), svg=bars.svg, html=bars.html)

    def show(console: Console) -> None:
        training.show(console, rows)
        _say_written(console, files)

    output.result(training.document(solution, rows, requested) | written, show, bars.answer)
    return EXIT_OF_STOP.get(solution.stopped_by, 0)


def _read(instance: Path, solution: Path | None) -> tuple[CoOptimisation, Result[CoOptimisation, JobPlan] | None]:
    from topoopt.kinds.files import read_instance
    from topoopt.kinds.job import SOLUTION_FILE

    job: Any = read_instance(instance)
    if not isinstance(job, CoOptimisation):
        text = "only jobs run on fabrics"
        raise InputError([Problem(text, file=str(instance), path="kind", value=job.kind, allowed=KIND)])
    return job, None if solution is None else SOLUTION_FILE.read(solution)


def _chosen(
    job: CoOptimisation,
    names: list[str] | None,
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
    option = "--reconfiguration-delay"
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
        console.print(text, markup=False, soft_wrap=True, highlight=False)
    for note in notes:
        console.print(f"note: {note}", markup=False, soft_wrap=True, highlight=False)
    _say_written(console, files)


def _say_written(console: Console, files: tuple[Path | None, ...]) -> None:
    for written in files:
        if written is not None:
            console.print(f"written: {written}", markup=False, soft_wrap=True, highlight=False)
