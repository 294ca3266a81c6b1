"""Methods on instances, and schedules of a pipeline, are set side by side."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem, TopooptError, extra, raise_any
from topoopt.core.outcomes import ComparedRun, Comparison, compared, record
from topoopt.core.parallelism import PipelineSchedule, PipelineShape, StageCosts
from topoopt.core.price_book import PriceBook
from topoopt.core.proofs import StopReason
from topoopt.kinds import kind_of
from topoopt.kinds.files import read_instance
from topoopt.kinds.kind import Kind, SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.library.calls import html_table, problem_of
from topoopt.simulate.pipeline import (
    SCHEDULES,
    PassOrders,
    PipelineMemory,
    makespan_bound_s,
    most_held,
    pipeline_time,
    schedule_problems,
)

DEFAULT_LIMIT_S = 30.0

NOT_COVERED = "not covered"
"""Outcome of a method that the kind has not, or that does not do what the instance asks."""

FAILURES: tuple[tuple[type[Exception], str], ...] = (
    (InputError, NOT_COVERED),
    (InfeasibleError, "infeasible"),
    (LimitError, "limit"),
    (Exception, "error"),
)
"""Outcome of a run that raised; the first that fits."""


@dataclass(frozen=True, repr=False)
class ComparisonTable:
    """Runs beside each other, as `topoopt compare` shows them.

    Attributes:
        rows: one for each run.
        refused: what is wrong with the instances that were left out.
        interrupted: Ctrl-C ended the comparison; the rows are those of the runs made so far.
    """

    rows: tuple[Comparison, ...]
    refused: tuple[Problem, ...] = ()
    interrupted: bool = False

    def records(self) -> list[dict[str, Any]]:
        """The rows as `topoopt compare --json` has them."""
        return [record(row) for row in self.rows]

    def table(self) -> Any:
        """The rows as a table of Arrow (`pyarrow.Table`)."""
        return extra("pyarrow", "tables of Arrow").Table.from_pylist(self.records())

    def to_pandas(self) -> Any:
        """The rows as a DataFrame; needs pandas."""
        return self.table().to_pandas()

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        left_out = [f"left out: {problem}" for problem in self.refused]
        return "\n".join([*(" | ".join(row) for row in self._cells()), *left_out])

    def _repr_html_(self) -> str:
        return str(html_table(self._cells()))

    def _cells(self) -> list[tuple[str, ...]]:
        heads = ("instance", "method", "seed", "value", "bound", "to best", "to bound", "s", "outcome")
        return [heads, *(tuple(map(str, _shown(row))) for row in self.rows)]


def _shown(row: Comparison) -> tuple[object, ...]:
    run = row.run
    bounded = None if run.bound is None else run.bound.value
    value, bound = ("-" if number is None else f"{number:.6g}" for number in (run.value, bounded))
    gaps = ("-" if gap is None else f"{gap:.2%}" for gap in (row.gap_to_best, row.gap_to_bound))
    return run.instance, run.method, run.seed, value, bound, *gaps, f"{run.wall_s:.2f}", run.outcome


@dataclass(frozen=True)
class Entrant:
    """An instance to be solved by several methods.

    Attributes:
        file: as given.
        instance: as read.
        kind: its record.
        methods: names of its methods.
    """

    file: str
    instance: Any
    kind: Kind
    methods: tuple[str, ...]


@dataclass(frozen=True)
class PlannedRun:
    """A run to be made; None for `options`: the kind has no such method."""

    entrant: Entrant
    method: str
    seed: int
    options: SolveOptions | None


def compare(
    instances: Any,
    *,
    methods: Sequence[str] | None = None,
    seeds: int | Sequence[int] = 1,
    time_limit_s: float | None = None,
    budget: int | None = None,
    book: PriceBook | None = None,
) -> ComparisonTable:
    """Solve every instance by every method with every seed; what a method cannot do is a row, not an error.

        rows = topoopt.compare(["a.yaml", problem], methods=["portfolio", "exact"], seeds=3, time_limit_s=10)
        rows.to_pandas().groupby("method")["gap_to_bound"].max()

    Args:
        instances: problems, or names of instance files, of any kinds; one or a list.
        methods: names; None: all but `auto`.
        seeds: seeds 0, 1, ..., or the seeds themselves.
        time_limit_s: seconds of each run; None: 30, and no limit for runs with a budget.
        budget: proposals of the search of each run, for kinds that count them.
        book: prices, for kinds that take them; None: those shipped.

    Returns:
        What `topoopt compare` shows: a row for each run, with its gaps to the best value and the best bound found.
        Instances that are refused are left out of it, and named; Ctrl-C ends it with the rows so far.

    Raises:
        InputError: everything wrong with the instances, where none is left, or with a name.
    """
    single = isinstance(instances, str | os.PathLike) or not isinstance(instances, Iterable)
    entrants, refused = entrants_of([instances] if single else instances)
    runs: list[ComparedRun] = []
    interrupted = False
    try:
        for start in starts_of(entrants, methods, seeds, time_limit_s, budget, book):
            runs.append(run_of(start))
            if interrupted := runs[-1].stopped_by == StopReason.INTERRUPTED:
                break
    except KeyboardInterrupt:
        interrupted = True
    return ComparisonTable(tuple(compared(runs)), tuple(refused), interrupted)


def entrants_of(instances: Iterable[Any]) -> tuple[list[Entrant], list[Problem]]:
    """Problems as they are, files read; what is given twice counts once. And what is wrong with those refused.

    Raises:
        InputError: everything wrong, where none is left.
    """
    entrants: dict[str, Entrant] = {}
    problems: list[Problem] = []
    for given in instances:
        named = isinstance(given, str | os.PathLike)
        name = os.fspath(given) if named else given.name
        if name in entrants:
            if named or entrants[name].instance is given:
                continue
            name = f"{name} ({len(entrants) + 1})"
        try:
            instance = read_instance(given) if named else problem_of(given)
            kind = kind_of(instance)
        except InputError as error:
            problems += error.problems
            continue
        entrants[name] = Entrant(name, instance, kind, tuple(kind.methods(instance)))
    if problems and not entrants:
        raise InputError(problems)
    return list(entrants.values()), problems


def starts_of(
    entrants: Sequence[Entrant],
    methods: Sequence[str] | None,
    seeds: int | Sequence[int],
    time_limit_s: float | None,
    budget: int | None,
    book: PriceBook | None = None,
    dashes: str = "",
) -> list[PlannedRun]:
    """All runs to be made, in order: instance, method, seed.

    A method of one kind only is a run of no effect on the others. With a budget, kinds that take one run without a time
    limit unless one is given; all others have 30 seconds a run unless another limit is given.

    Args:
        entrants: the instances.
        methods: names; None for all but `auto`.
        seeds: seeds 0, 1, ... of each method, or the seeds themselves.
        time_limit_s, budget: of each run; None if not given.
        book: prices, for kinds that take them; None: those shipped.
        dashes: what stands before the names of arguments in messages.

    Raises:
        InputError: all names that no kind among the instances knows, no name at all, a budget that no kind takes.
    """
    problems = []
    names = None if methods is None else list(dict.fromkeys(methods))
    method_names = list(dict.fromkeys(name for entrant in entrants for name in entrant.methods))
    kinds = ", ".join(dict.fromkeys(entrant.instance.kind for entrant in entrants))
    for name in names or ():
        if name not in method_names:
            text = f"no such method of kind {kinds}"
            problems.append(Problem(text, path=f"{dashes}methods", value=repr(name), allowed=", ".join(method_names)))
    if budget is not None and not any(entrant.kind.takes_budget for entrant in entrants):
        text = f"no such limit for kind {kinds}"
        problems.append(Problem(text, path=f"{dashes}budget", value=str(budget), allowed="a time limit"))
    raise_any(problems)
    starts = []
    for entrant in entrants:
        budgeted = budget is not None and entrant.kind.takes_budget
        options = SolveOptions(
            budget=budget if budgeted else None,
            time_limit_s=DEFAULT_LIMIT_S if time_limit_s is None and not budgeted else time_limit_s,
            objective_only=True,
            book=book,
        )
        own = [name for name in entrant.methods if name != "auto"] or ["auto"]
        for name in own if names is None else names:
            for seed in range(seeds) if isinstance(seeds, int) else seeds:
                fits = replace(options, seed=seed, method=name) if name in entrant.methods else None
                starts.append(PlannedRun(entrant, name, seed, fits))
    return starts


def _said(error: Exception) -> str:
    if isinstance(error, TopooptError):
        return str(error)
    if isinstance(error, MemoryError):
        return "out of memory"
    return f"{type(error).__name__}: {error}".rstrip(": ")


def run_of(start: PlannedRun) -> ComparedRun:
    """Make a run; what a method cannot do is a row, not an error."""
    entrant, instance = start.entrant, start.entrant.instance
    failed = ComparedRun(
        file=entrant.file,
        instance=instance.name,
        kind=instance.kind,
        method=start.method,
        seed=start.seed,
        outcome=NOT_COVERED,
        stopped_by="",
        objective="",
        unit="",
        value=None,
        bound=None,
        claimed_bound=None,
        reason=f"no such method of kind {instance.kind}",
        checked=False,
        wall_s=0.0,
        maximise=entrant.kind.maximise(entrant.instance),
    )
    if start.options is None:
        return failed
    began = time.monotonic()
    try:
        solution = solve(instance, start.options)
    except Exception as error:  # a method that breaks costs its own row
        outcome = next(text for kind, text in FAILURES if isinstance(error, kind))
        return replace(failed, outcome=outcome, reason=_said(error), wall_s=time.monotonic() - began)
    return replace(
        failed,
        outcome=solution.status.value,
        stopped_by=solution.stopped_by.value,
        objective=solution.objective.name,
        unit=solution.objective.unit,
        value=solution.objective.value,
        bound=solution.bound if solution.bound.verified else None,
        claimed_bound=solution.claimed_bound or (None if solution.bound.verified else solution.bound),
        reason="",
        checked=solution.check.ok,
        value_per_million_usd=entrant.kind.value_per_million_usd(solution),
        wall_s=time.monotonic() - began,
    )


Times = float | Sequence[float]
"""ms of a micro-batch on every rank, or on each stage in the order of the model."""

DOUBLED = (PipelineSchedule.DUALPIPE, PipelineSchedule.DUALPIPE_V)
"""The bound is not theirs: micro-batches enter at both ends."""


@dataclass(frozen=True)
class PipelineTimes:
    """What a schedule comes to.

    Attributes:
        makespan_ms: from the first begin to the last end.
        longest_rank_ms: the longest time between the first begin and the last end of one rank.
        bubble_ms: of that, beyond the work of the busiest rank.
        in_flight: the most that each rank holds at a time, in activations of one micro-batch in all its stages.
        micro_batches_followed: the others are proven to repeat them.
        bound_ms: no order is below; None for DualPipe.
    """

    makespan_ms: float
    longest_rank_ms: float
    bubble_ms: float
    in_flight: tuple[float, ...]
    micro_batches_followed: int
    bound_ms: float | None


def pipeline_schedules(
    ranks: int,
    micro_batches: int,
    schedules: Sequence[str] | None = None,
    *,
    chunks: int = 1,
    group: int = 0,
    forward_ms: Times = 1.0,
    backward_ms: Times = 2.0,
    weights_ms: Times | None = None,
    transfer_ms: float = 0.0,
    blocking: bool = False,
) -> dict[str, PipelineTimes]:
    """Times of schedules of one pipeline.

    Args:
        ranks: of the pipeline, p.
        micro_batches: of one iteration, m.
        schedules: names; None: all that allow the sizes.
        chunks: stages of each rank, v.
        group: micro-batches that pass a chunk in turn; 0: p.
        forward_ms: of a micro-batch on a rank, or one number for each of the p v stages.
        backward_ms: the same, gradients of inputs and weights together.
        weights_ms: the part of it for weights; None: half.
        transfer_ms: from a stage to the next.
        blocking: a rank waits for what it sends to arrive.

    Raises:
        InputError: unknown names, times of another length, sizes that a schedule does not allow.
    """
    shape = PipelineShape(ranks, micro_batches, chunks, group)
    _require(shape, schedules)
    ahead, back = _stage_times("forward_ms", forward_ms, shape), _stage_times("backward_ms", backward_ms, shape)
    late = back / 2 if weights_ms is None else _stage_times("weights_ms", weights_ms, shape)
    if (late > back).any():
        text = "more than the whole backward pass"
        raise InputError([Problem(text, path="weights_ms", value=str(weights_ms), allowed=f"at most {backward_ms}")])
    costs = StageCosts(ahead * 1e-3, (back - late) * 1e-3, late * 1e-3, transfer_ms * 1e-3, blocking)
    named = [PipelineSchedule(name) for name in schedules or PipelineSchedule]
    wrong = {name: schedule_problems(name, shape) for name in named}
    if schedules is not None and any(wrong.values()):
        raise InputError([problem for problems in wrong.values() for problem in problems])
    return {name.value: _times(name, shape, costs) for name in named if not wrong[name]}


def _require(shape: PipelineShape, schedules: Sequence[str] | None) -> None:
    problems = []
    for path, value in (("ranks", shape.ranks), ("micro_batches", shape.micro_batches), ("chunks", shape.chunks)):
        if value < 1:
            problems.append(Problem("too small", path=path, value=str(value), allowed="1 or more"))
    allowed = ", ".join(PipelineSchedule)
    problems += [
        Problem("unknown schedule", path="schedules", value=name, allowed=allowed)
        for name in schedules or ()
        if name not in list(PipelineSchedule)
    ]
    raise_any(problems)


def _stage_times(path: str, times: Times, shape: PipelineShape) -> Floats:
    """float64[stages], ms; one number for a rank is shared by its chunks."""
    values = np.array(times, dtype=np.float64)
    if values.ndim == 0:
        values = np.full(shape.stages, values / shape.chunks)
    if values.shape != (shape.stages,) or not ((values >= 0) & (values < 1e9)).all():
        allowed = f"one number of at least 0 and below 1e9 for all ranks, or {shape.stages}"
        raise InputError([Problem("not times of the stages", path=path, value=str(times), allowed=allowed)])
    return values


def _times(schedule: PipelineSchedule, shape: PipelineShape, costs: StageCosts) -> PipelineTimes:
    memory = PipelineMemory.usual(shape.stages)
    time = pipeline_time(schedule, shape, costs, memory)
    share = np.full(shape.stages, 1.0 / shape.chunks)
    held = most_held(time.orders, share, share * memory.for_weights)
    bound_s = None if schedule in DOUBLED else makespan_bound_s(shape, costs, split=SCHEDULES[schedule].splits)
    return PipelineTimes(
        time.makespan_s * 1e3,
        time.longest_span_s * 1e3,
        (time.longest_span_s - _busiest_s(time.orders, costs, shape.micro_batches)) * 1e3,
        tuple(held.tolist()),
        time.orders.micro_batches,
        None if bound_s is None else bound_s * 1e3,
    )


def _busiest_s(orders: PassOrders, costs: StageCosts, micro_batches: int) -> float:
    """Work of the rank that has the most, micro-batches shared out evenly where the model is held several times."""
    work = costs.forward_s + costs.inputs_s + costs.weights_s
    of_rank = np.zeros(orders.ranks)
    np.add.at(of_rank, orders.rank_of_stage, np.tile(work, orders.copies) * (micro_batches / orders.copies))
    return float(of_rank.max())
