"""Proofs of optimality: a cheap lower bound of every strategy, and a plain evaluation of the few below a limit.

The certificate lists the shapes alone. Bounds are taken over columns of strategies at once, first where gradients,
weights and recomputation are free, a shape at a time. Only strategies whose bound is not above the limit are followed
pass by pass (`iteration`), in the order of their bounds, until the next bound is above what was reached. So a claimed
bound holds whichever bounds the search had: no strategy is found below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import DIRECT_FABRICS, ShapeOutcome, ShapeVerdict, StrategyShape
from topoopt.core.parallelism import ParallelStrategy, Recompute
from topoopt.core.parallelism import PipelineSchedule as S
from topoopt.core.proofs import Tolerance
from topoopt.core.result import Decides
from topoopt.verify.checker import BeyondWorkError, ViolationLog, WorkBudget, differs
from topoopt.verify.llm_training.costs import (
    Rates,
    StageRows,
    fixed_seconds,
    held_by,
    hopped_rates,
    ideal_rates,
    layers_of,
    stage_rows,
)
from topoopt.verify.llm_training.iteration import around_seconds, held_stages, seconds_of
from topoopt.verify.llm_training.space import (
    BALANCED,
    BIDIRECTIONAL,
    RECOMPUTES,
    Records,
    records_of,
    row_of,
    shape_of,
    shapes_of,
    strategies_of,
)

RELATIVE = Tolerance.ROUNDING.relative

BLOCK = 1 << 17
"""Strategies that are bounded together."""

MAX_STAGES = 1_000_000
"""Stages of strategies that are bounded together."""

WAITING = 2.125
"""Gradients of weights for each rank of a pipeline that ZB-2P may put off: 2 x 34 over 32 (arXiv:2401.10241)."""

PASS, STAGE, STRATEGY, ALONE, GREEDY = 0.5, 0.2, 5.0, 300.0, 36.0
"""Events of a pass that is followed, of a stage and of a strategy that are bounded, of a strategy that is followed, and
of a rank and micro-batch of an order that is planned greedily; an event is some two microseconds."""

TIMES = 3.0
"""How often the passes of a strategy are followed whose figures are compared."""

ZERO, RECOMPUTE, FIRST = 8, 11, 12
"""Columns of a row."""


def take_followed(budget: WorkBudget, problem: LlmTrainingProblem, strategies: Iterable[ParallelStrategy]) -> None:
    """Spend what all figures of strategies take."""
    for strategy in strategies:
        budget.take(TIMES * following_work(problem, records_of([row_of(strategy)])))


def within_work(findings: ViolationLog, figure: str, check: Callable[[], object], *decides: Decides) -> None:
    """Run a part of a check; beyond the work that is left, say that the figure is left out, and what rests on it."""
    try:
        check()
    except BeyondWorkError as error:
        for what in decides or (Decides.NOTHING,):
            findings.leave_out(figure, str(error), what)


def bounding_work(r: Records) -> float:
    """Return the events that bounds of strategies take."""
    return float(np.sum(STRATEGY + STAGE * r.p * r.v))


def following_work(problem: LlmTrainingProblem, r: Records) -> float:
    """Return the events that following the passes of strategies takes."""
    m = problem.batch.sequences / (r.d * r.b)
    planned = np.where(r.runs(S.ZB_2P), GREEDY * r.p * m, 0.0)
    return float(np.sum(ALONE + 3.0 * PASS * r.p * r.v * m + planned))


def pass_bounds(problem: LlmTrainingProblem, schedule: S, p: int, rows: StageRows, m: Floats, zero3: Bools) -> Floats:
    """Return what iterations do not go below, without what each costs in any case.

    A rank starts when the first micro-batch has come through the stages before it, and does all its work. Its last
    gradients are reduced behind that. Or the last micro-batch goes back to the first stage, from work without the
    gradients of weights that the schedule may put off so far.

    Parameters
    ----------
    rows : stages of strategies of one schedule and p.
    m : micro-batches, float64[R].
    zero3 : weights are gathered in every pass, bool[R].
    """
    hides, both = problem.overlap.data, schedule in BIDIRECTIONAL
    split = schedule not in (S.GPIPE, S.ONE_F_ONE_B, S.INTERLEAVED)
    last, hop, best = len(rows.forward) - 1, rows.hop * (p > 1), np.zeros_like(m)
    wait = hop * (not (problem.overlap.pipeline or both))

    def shown(moved: Floats, hiding: Floats) -> Floats:
        n = rows.layers
        exposed = np.maximum(moved / n, moved - (n - 1.0) / n * hiding) if hides else moved
        return np.where(zero3, 0.0, exposed)

    gathered, tail = shown(rows.gathered, rows.forward), shown(rows.reduced, rows.weights if split else rows.back)
    begin, begun = list[Floats](), np.zeros_like(m)
    for s in range(p):
        begin.append(np.maximum(begun, gathered[s]))
        begun = begin[-1] + rows.forward[s] + hop
    returned = np.cumsum(rows.inputs if split else rows.back, axis=0)
    ends = [0, last] if both else [0]
    end = tail[ends].min(axis=0) + (rows.weights[ends].min(axis=0) if split else 0.0)
    met = m / 2.0 if schedule is S.DUALPIPE else m
    for rank, stages in enumerate(held_stages(schedule, p, len(rows.forward) // p)):
        sends = sum((s > 0) + (s < last) for s in stages)
        done = begin[rank] + met * (rows.forward + rows.back)[stages].sum(axis=0)
        done = done + np.maximum(0.0, met * sends - 2.0) * wait
        off = np.minimum(m, int(WAITING * p) + 1 if schedule is S.ZB_2P else rank + 1) * split
        back = done - off * rows.weights[stages].max(axis=0) + rank * hop + (returned[rank - 1] if rank else 0.0)
        best = np.maximum(best, np.maximum(done + tail[stages].min(axis=0), back + end))
    return best + around_seconds(problem, schedule, p, rows, m, zero3)


StageCosts = Callable[[Records, Floats], StageRows]
"""(strategies of one schedule and p, their layers) -> their stages."""


def order_bounds(problem: LlmTrainingProblem, r: Records, stages: StageCosts) -> Floats:
    """Return what the iterations of strategies do not go below, float64[R]."""
    bounds, m = np.empty(len(r.t)), problem.batch.sequences / (r.d * r.b)
    for schedule, p, v, every in r.kinds():
        for index in np.array_split(every, 1 + len(every) * p * v // MAX_STAGES):
            part = r.of(index)
            rows = stages(part, layers_of(problem, part, p, v))
            bounds[index] = pass_bounds(problem, schedule, p, rows, m[index], part.zero == 3)
    return bounds + fixed_seconds(problem)


def least_seconds(problem: LlmTrainingProblem, r: Records, rates: Rates | None = None) -> Floats:
    """Return lower bounds at rates of the groups, on an ideal switch unless given, float64[R]."""
    return order_bounds(
        problem,
        r,
        lambda part, layers: stage_rows(problem, part, layers, (rates or partial(ideal_rates, problem))(part)),
    )


def _free_seconds(problem: LlmTrainingProblem, r: Records) -> Floats:
    """Return lower bounds where gradients, weights and the optimizer take no time and nothing is recomputed."""

    def stages(part: Records, layers: Floats) -> StageRows:
        free = replace(part, zero=0.0 * part.zero, recompute=0.0 * part.recompute + RECOMPUTES.index(Recompute.NONE))
        rows = stage_rows(problem, free, layers, ideal_rates(problem, free))
        none = np.zeros_like(rows.reduced)
        return replace(rows, reduced=none, gathered=none, step=none)

    return order_bounds(problem, r, stages)


def tables_of(problem: LlmTrainingProblem, shapes: Iterable[StrategyShape]) -> Iterator[tuple[Floats, Ints]]:
    """Yield the strategies of shapes in blocks, and the index of the shape of each."""
    plain: dict[StrategyShape, Floats] = {}
    tables, index, size = list[Floats](), list[Ints](), 0
    for number, shape in enumerate(shapes):
        key = replace(shape, expert=1, expert_tensor=1)
        if key not in plain:
            plain[key] = strategies_of(problem, key)
        rows = plain[key].copy()
        rows[:, 6:8] = shape.expert, shape.expert_tensor
        tables.append(rows)
        index.append(np.full(len(rows), number))
        size += len(rows)
        if size >= BLOCK:
            yield np.concatenate(tables), np.concatenate(index)
            tables, index, size = [], [], 0
    if size:
        yield np.concatenate(tables), np.concatenate(index)


def shape_bounds(problem: LlmTrainingProblem, shapes: Sequence[StrategyShape], budget: WorkBudget) -> Floats:
    """Return for each shape the least bound of its strategies, s; inf where it has none.

    Strategies that differ in ZeRO and recomputation alone have one bound, as both are free; balanced layers differ.

    Raises
    ------
    BeyondWorkError
        There are more strategies than the check may go through.
    """
    bounds = np.full(len(shapes), np.inf)
    for table, index in tables_of(problem, shapes):
        least = np.full((len(shapes), 2), np.inf)
        np.minimum.at(least, index, table[:, [ZERO, RECOMPUTE]])
        differing = (table[:, FIRST] == BALANCED) | (table[:, [ZERO, RECOMPUTE]] == least[index]).all(axis=1)
        r = records_of(table[differing])
        budget.take(bounding_work(r))
        np.minimum.at(bounds, index[differing], _free_seconds(problem, r))
    return bounds


class Fastest:
    """The least times of strategies, as many as asked for, of all whose bound is not above a limit.

    Attributes
    ----------
    limit : seconds beyond which strategies do not matter.
    times : ascending.
    """

    def __init__(self, problem: LlmTrainingProblem, limit: float, count: int, rates: Rates | None = None) -> None:
        self.problem, self.limit, self.count, self.rates = problem, limit, count, rates
        self.times: list[float] = []

    def add(self, rows: Floats, budget: WorkBudget) -> None:
        """Go through strategies by their bounds.

        Raises
        ------
        BeyondWorkError
            More would have to be followed than the check may.
        """
        if not len(rows) or not self.limit > 0:
            return
        budget.take(bounding_work(records_of(rows)))
        bounds = least_seconds(self.problem, records_of(rows), self.rates)
        for k in np.argsort(bounds, kind="stable").tolist():
            reached = self.times[-1] if len(self.times) == self.count else np.inf
            if bounds[k] > min(self.limit, reached) * (1.0 + RELATIVE):
                break
            r = records_of(rows[k])
            budget.take(following_work(self.problem, r))
            self.insert([float(seconds_of(self.problem, r, self.rates)[0])])

    def insert(self, times: Iterable[float]) -> None:
        """Add times."""
        self.times = sorted([*self.times, *times])[: self.count]

    @property
    def least(self) -> float:
        """The least time; inf where no strategy is within the limit."""
        return self.times[0] if self.times else np.inf


def check_shapes(
    findings: ViolationLog, problem: LlmTrainingProblem, outcomes: Sequence[ShapeOutcome],
    ranked: Sequence[tuple[ParallelStrategy, float]], slowest: float, claimed: float, budget: WorkBudget,
    *, converged: bool,
) -> tuple[float, float]:  # fmt: skip
    """Check that every shape has one line, in order, and that none hides a strategy faster than the last one ranked.

    Parameters
    ----------
    ranked : strategies with their seconds on an ideal switch, the best first.
    slowest : seconds of the slowest plan on a fabric of direct links; 0: there is none.
    claimed : the largest bound that rests on shapes that are left; 0: there is none.
    converged : nothing ended the search.

    Returns
    -------
    Seconds of the fastest strategy that fits where tokens take the hops that direct links need, and of the fastest on
    an ideal switch of shapes that are left; inf: none is within the slowest plan, or below the claimed bound.

    Raises
    ------
    BeyondWorkError
        There are more strategies than the check may go through.
    """
    add, lines = findings.add, {line.shape: line for line in outcomes}
    limit = np.inf if len(ranked) <= problem.top else ranked[-1][1]
    ideal = Fastest(problem, limit, max(1 + problem.top, len(ranked)))
    hopped, left = Fastest(problem, slowest, 1, partial(hopped_rates, problem)), Fastest(problem, claimed, 1)
    shapes = sorted(shapes_of(problem))
    bounds = shape_bounds(problem, shapes, budget)
    if len(lines) != len(outcomes):
        add("certificate", "a shape is listed twice")
    if [line.shape for line in outcomes] != [shape for shape in shapes if shape in lines]:
        add("certificate", "shapes are not those of the instance, in order")
        return hopped.least, left.least
    near, opened = list[StrategyShape](), {line.shape for line in outcomes if line.verdict is ShapeVerdict.LEFT}
    for shape, bound in zip(shapes, bounds.tolist(), strict=True):
        line, used = lines.get(shape), bound < np.inf
        if line is None or not used:
            if (line is None) == used:
                add("certificate", f"nothing is said of {shape}" if used else f"{shape} has no strategies")
            continue
        if _counted(line) or bound <= max(left.limit if shape in opened else limit, slowest) * (1.0 + RELATIVE):
            near.append(shape)
        if not _counted(line) and (line.records, line.fitting, line.least_bytes) != (0, 0, None):
            add("certificate", f"{shape} was not searched, and has figures")
        if shape in opened and converged:
            add("certificate", f"{shape} is left, and nothing ended the search")
    usable = np.inf if problem.usable_bytes is None else problem.usable_bytes
    for table, index in tables_of(problem, near):
        budget.take(bounding_work(records_of(table)))
        held = held_by(problem, records_of(table))
        unsearched, fits = np.array([shape in opened for shape in near])[index], held <= usable
        ideal.add(table[fits & ~unsearched], budget)
        left.add(table[fits & unsearched], budget)
        hopped.add(table[fits], budget)
        for number in np.unique(index).tolist():
            of_shape, line = index == number, lines[near[number]]
            least, fitting = float(held[of_shape].min()), int(fits[of_shape].sum())
            verdict = ShapeVerdict.SEARCHED if fitting else ShapeVerdict.MEMORY
            expected = replace(line, verdict=verdict, records=int(of_shape.sum()), fitting=fitting)
            wrong = line != expected or line.least_bytes is None or differs(line.least_bytes, least)
            if _counted(line) and wrong:
                add("certificate", f"{line.shape}: {line}; not {replace(expected, least_bytes=least)}")
    ideal.insert(seconds for strategy, seconds in ranked if shape_of(strategy) in opened)
    if len(ranked) != len(ideal.times):
        add("order", f"{len(ranked)} strategies in place of {len(ideal.times)}")
        return hopped.least, left.least
    for number, ((_, seconds), value) in enumerate(zip(ranked, ideal.times, strict=True)):
        if differs(seconds, value, RELATIVE):
            add("order", f"strategy {number} takes {seconds!r} s, where there is one of {value!r} s")
    return hopped.least, left.least


def _counted(line: ShapeOutcome) -> bool:
    return line.verdict in (ShapeVerdict.SEARCHED, ShapeVerdict.MEMORY)


def fabric_bound(
    outcomes: Sequence[ShapeOutcome], fabric: str, claimed: float, value: float, limits: tuple[float, float],
    fastest: tuple[float, float],
) -> float:  # fmt: skip
    """Return the seconds that no strategy is below on a fabric: the claimed ones where none is below these.

    Parameters
    ----------
    value : of the plan.
    limits : of the first and of the last strategy ranked, on an ideal switch.
    fastest : the fastest where tokens take hops, and the fastest of the shapes that are left.
    """
    left = any(line.verdict is ShapeVerdict.LEFT for line in outcomes)
    if fabric in DIRECT_FABRICS:
        least = min(value, fastest[0])
        closed = any(not _counted(line) for line in outcomes) and claimed >= limits[1]
        return min(least, claimed) if left or closed else least
    least = min(value, limits[0])
    return min(least, claimed if claimed <= fastest[1] else fastest[1]) if left else least
