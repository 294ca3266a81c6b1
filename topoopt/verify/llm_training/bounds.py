"""Proofs of optimality: a cheap lower bound of every strategy, and a plain evaluation of the few below a limit.

The bounds are taken over columns of strategies at once. Only strategies whose bound is not above the limit are followed
pass by pass (`iteration`), in the order of their bounds, until the next bound is above what was reached.
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
from topoopt.core.proofs import Tolerance, beats
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
from topoopt.verify.llm_training.iteration import around_seconds, seconds_of
from topoopt.verify.llm_training.space import (
    BALANCED,
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


class OrderBounds:
    """What the order of the passes of strategies does not go below: paths through passes that wait for each other.

    For each rank r of p: all its work, between what passes the ranks before it both ways. And what returns from the
    ranks behind it, as w = p-1-r other micro-batches wait.

    Parameters
    ----------
    rows : stages of strategies of one schedule and p.
    m : micro-batches, float64[R].
    zero3 : weights are gathered in every pass, bool[R].
    """

    def __init__(
        self, problem: LlmTrainingProblem, schedule: S, p: int, rows: StageRows, m: Floats, zero3: Bools
    ) -> None:
        self.problem, self.schedule, self.p, self.v = problem, schedule, p, len(rows.forward) // p
        self.m, self.rows, self.zero3, self.hides = m, rows, zero3, problem.overlap.data
        self.c = rows.hop if p > 1 else 0.0 * rows.hop
        self.wait = 0.0 * self.c if problem.overlap.pipeline else self.c
        nothing = np.zeros((1, len(m)))
        self.before_f, self.before_i, self.before_b = (
            np.concatenate([nothing, np.cumsum(table, axis=0)]) for table in (rows.forward, rows.inputs, rows.back)
        )
        self.late, self.tail = self._late(), self._tail()

    def _late(self) -> Floats:
        """Return how much later than behind those before it each stage starts, for its weights and theirs."""
        rows, late, begun = self.rows, np.zeros_like(self.rows.forward), np.zeros_like(self.m)
        for s in range(len(late)):
            n, gathered = rows.layers[s], rows.gathered[s]
            exposed = np.maximum(gathered / n, gathered - (n - 1.0) / n * rows.forward[s])
            begun = np.maximum(begun, np.where(self.zero3, 0.0, exposed if self.hides else gathered))
            late[s] = begun - self.before_f[s] - s * self.c
            begun = begun + rows.forward[s] + self.c
        return late

    def _tail(self) -> Floats:
        """Return what is reduced of each stage behind its last pass."""
        rows, n = self.rows, self.rows.layers
        split = self.schedule not in (S.GPIPE, S.ONE_F_ONE_B, S.INTERLEAVED)
        back = rows.weights if split else rows.back
        exposed = np.maximum(rows.reduced / n, rows.reduced - (n - 1.0) / n * back) if self.hides else rows.reduced
        return np.where(self.zero3, 0.0, exposed)

    def seconds(self) -> Floats:
        """Return the bounds of iterations, without what each costs in any case."""
        rules = {
            S.GPIPE: self._gpipe, S.ONE_F_ONE_B: self._one_f_one_b, S.INTERLEAVED: self._interleaved,
            S.ZB_H1: self._zb_h1, S.ZB_2P: self._zb_2p,
            S.DUALPIPE: self._bidirectional, S.DUALPIPE_V: self._bidirectional,
        }  # fmt: skip
        rule = self._single if self.p == 1 else rules[self.schedule]
        return rule() + around_seconds(self.problem, self.schedule, self.p, self.rows, self.m, self.zero3)

    def _sends(self, rank: int) -> Floats:
        """Return the seconds for which a rank waits for what it sends of a micro-batch in one chunk, both ways."""
        return self.wait * float((rank < self.p - 1) + (rank > 0))

    def _single(self) -> Floats:
        return np.asarray(self.late[0] + self.m * (self.rows.forward[0] + self.rows.back[0]) + self.tail[0])

    def _gpipe(self) -> Floats:
        rows, p, m = self.rows, self.p, self.m
        ahead = np.maximum.reduce([rows.forward[r] + (self.wait if r < p - 1 else 0.0) for r in range(p)])
        back = np.maximum.reduce([rows.back[r] + (self.wait if r > 0 else 0.0) for r in range(p)])
        whole = self.before_f[p] + self.before_b[p] + 2.0 * self.c * (p - 1)
        return np.asarray(self.late[0] + whole + (m - 1.0) * (ahead + back) + self.tail[0])

    def _one_f_one_b(self) -> Floats:
        rows, p, m, best = self.rows, self.p, self.m, np.zeros_like(self.m)
        whole = self.before_f[p] + self.before_b[p] + 2.0 * self.c * (p - 1)
        for r in range(p):
            f, b = rows.forward[r], rows.back[r]
            turn, w = f + b + self._sends(r), p - 1 - r
            value = whole + (m - 1.0) * turn - np.minimum(w, m - 1.0) * (np.minimum(f, b) + self.wait)
            gain = whole - 2.0 * self.c * r - self.before_f[r] - self.before_b[r] - (w + 1) * turn
            times = np.floor((m - 1.0) / (w + 1))
            returns = whole + (m - 1.0) * turn + np.where(gain > 0, times, 1.0) * gain
            value = self.late[r] + np.where(times >= 1, np.maximum(value, returns), value)
            ahead = self.before_b[r] + self.c * r
            best = np.maximum(best, np.maximum(value + self.tail[0], value - ahead + self.tail[r]))
        return best

    def _passes(self, r: int, count: Floats, *, ahead: bool) -> Floats:
        """Return the seconds of so many turns of a rank: p of each chunk, from chunk 0 on."""
        p, stages, chunk = self.p, self.p * self.v, np.arange(self.v)[:, None]
        sent = chunk * p + r != (stages - 1 if ahead else 0)
        took = (self.rows.forward if ahead else self.rows.back)[r::p] + sent * self.wait
        times = np.floor(count / stages) * p + np.clip(count % stages - chunk * p, 0, p)
        return np.asarray((took * times).sum(axis=0))

    def _interleaved(self) -> Floats:
        p, v, m, best = self.p, self.v, self.m, np.zeros_like(self.m)
        end, f, b = p * v, self.before_f, self.before_b
        for r in range(p):
            w, z = 2.0 * (p - r - 1) + (v - 1) * p, (v - 1) * p + r
            work = self._passes(r, m * v, ahead=True) + self._passes(r, m * v, ahead=False) - 2.0 * self.wait
            hops, ahead = self.c * (2 * end - 2 - r - z), np.full_like(m, w + 1)
            first = f[end] - f[r] + b[end] - b[z + 1] + hops - self._passes(r, ahead, ahead=True)
            last = f[end] - f[z + 1] + b[end] - b[r] + hops - self._passes(r, ahead, ahead=False)
            first, last = np.maximum(0.0, first), np.maximum(0.0, last)
            idle = np.where(w + 2 <= m * v, first + last, np.where(w + 1 <= m * v, np.maximum(first, last), 0.0))
            value = self.late[r] + f[r] + self.c * r + work + idle
            best = np.maximum(best, np.maximum(value + b[r] + self.c * r + self.tail[0], value + self.tail[r]))
        return best

    def _zb_h1(self) -> Floats:
        rows, p, m, best = self.rows, self.p, self.m, np.zeros_like(self.m)
        whole = self.before_f[p] + self.before_i[p] + 2.0 * self.c * (p - 1)
        for r in range(p):
            both, late, w = rows.forward[r] + rows.inputs[r], rows.weights[r], p - 1 - r
            turn, come = both + self._sends(r), self.before_f[r] + self.c * r
            value = come + both + (m - 1.0) * turn + m * late + self.tail[r]
            waited = come + self.before_i[r] + self.c * r + both + (m - 1.0) * turn
            waited = waited + np.maximum(0.0, m - 1.0 - r) * late
            through = whole - 2.0 * self.c * r - self.before_f[r] - self.before_i[r]
            times = np.floor((m - 1.0) / (w + 1))
            for a in (np.ones_like(m), times):
                returns = whole + (m - 1.0 - a * (w + 1)) * turn + a * through
                returns = returns + np.maximum(0.0, m - 1.0 - a * w - r) * late
                waited = np.where(times >= 1, np.maximum(waited, returns), waited)
            best = np.maximum(best, self.late[r] + np.maximum(value, waited + rows.weights[0] + self.tail[0]))
        return best

    def _zb_2p(self) -> Floats:
        rows, p, m, best = self.rows, self.p, self.m, np.zeros_like(self.m)
        for r in range(p):
            both, late = rows.forward[r] + rows.inputs[r], rows.weights[r]
            value = self.before_f[r] + self.c * r + both + (m - 1.0) * (both + self._sends(r))
            waited = value + self.before_i[r] + self.c * r + np.maximum(0.0, m - 1.0 - int(WAITING * p)) * late
            waited = waited + rows.weights[0] + self.tail[0]
            best = np.maximum(best, self.late[r] + np.maximum(value + m * late + self.tail[r], waited))
        return best

    def _bidirectional(self) -> Floats:
        """Return bounds with half of the micro-batches on each of two stages of a rank, or all in the V shape."""
        rows, folded, best = self.rows, self.schedule is S.DUALPIPE_V, np.zeros_like(self.m)
        end = len(rows.forward) - 1
        for r in range(self.p if folded else self.p // 2):
            work = sum(rows.forward[s] + rows.back[s] for s in (r, end - r))
            value = self.late[0] + self.before_f[r] + self.c * r + work * (self.m if folded else self.m / 2.0)
            waited = value - (r + 1) * np.maximum(rows.weights[r], rows.weights[end - r]) + self.before_i[r]
            waited = waited + self.c * r + np.minimum(rows.weights[0], rows.weights[end])
            waited = waited + np.minimum(self.tail[0], self.tail[end])
            best = np.maximum(best, np.maximum(value + np.minimum(self.tail[r], self.tail[end - r]), waited))
        return best


StageCosts = Callable[[Records, Floats], StageRows]
"""(strategies of one schedule and p, their layers) -> their stages."""


def order_bounds(problem: LlmTrainingProblem, r: Records, stages: StageCosts) -> Floats:
    """Return what the iterations of strategies do not go below, float64[R]."""
    bounds, m = np.empty(len(r.t)), problem.batch.sequences / (r.d * r.b)
    for schedule, p, v, every in r.kinds():
        for index in np.array_split(every, 1 + len(every) * p * v // MAX_STAGES):
            part = r.of(index)
            rows = stages(part, layers_of(problem, part, p, v))
            bounds[index] = OrderBounds(problem, schedule, p, rows, m[index], part.zero == 3).seconds()
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
        if not len(rows):
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


def _searched(
    problem: LlmTrainingProblem, shapes: Sequence[StrategyShape], ideal: Fastest, hopped: Fastest, budget: WorkBudget
) -> dict[StrategyShape, tuple[int, int, float]]:
    """Go through shapes; return of each the strategies, those that fit into memory, and the bytes of the smallest."""
    counts, usable = dict[StrategyShape, tuple[int, int, float]](), problem.usable_bytes
    for table, index in tables_of(problem, shapes):
        budget.take(bounding_work(records_of(table)))
        held = held_by(problem, records_of(table))
        fits = held <= (np.inf if usable is None else usable)
        ideal.add(table[fits], budget)
        if hopped.limit > 0:
            hopped.add(table[fits], budget)
        for number in np.unique(index).tolist():
            of_shape = index == number
            row = int(of_shape.sum()), int(fits[of_shape].sum()), float(held[of_shape].min())
            counts[shapes[number]] = row
    return counts


def check_shapes(
    findings: ViolationLog, problem: LlmTrainingProblem, outcomes: Sequence[ShapeOutcome],
    ranked: Sequence[tuple[ParallelStrategy, float]], slowest: float, budget: WorkBudget, *, converged: bool,
) -> float:  # fmt: skip
    """Check that every shape has one line, in order, and that none hides a strategy faster than the last one ranked.

    Parameters
    ----------
    ranked : strategies with their seconds on an ideal switch, the best first.
    slowest : seconds of the slowest plan on a fabric of direct links; 0: there is none.
    converged : nothing ended the search.

    Returns
    -------
    Seconds of the fastest strategy that fits, where tokens take the hops that direct links need; inf: none is within
    the slowest plan.

    Raises
    ------
    BeyondWorkError
        There are more strategies than the check may go through.
    """
    add, lines = findings.add, {line.shape: line for line in outcomes}
    limit = np.inf if len(ranked) <= problem.top else ranked[-1][1]
    ideal = Fastest(problem, limit, max(1 + problem.top, len(ranked)))
    hopped = Fastest(problem, slowest, 1, partial(hopped_rates, problem))
    shapes = sorted(shapes_of(problem))
    bounds = dict(zip(shapes, shape_bounds(problem, shapes, budget).tolist(), strict=True))
    if len(lines) != len(outcomes):
        add("certificate", "a shape is listed twice")
    if [line.shape for line in outcomes] != [shape for shape in shapes if shape in lines]:
        add("certificate", "shapes are not those of the instance, in order")
        return hopped.least
    searched: list[ShapeOutcome] = []
    for shape, bound in bounds.items():
        line, used = lines.get(shape), bound < np.inf
        if line is None or not used:
            if (line is None) == used:
                add("certificate", f"nothing is said of {shape}" if used else f"{shape} has no strategies")
            continue
        if differs(line.bound_s, bound, RELATIVE):
            add("certificate", f"the bound of {shape} is {bound!r}, not {line.bound_s!r}")
        if line.verdict in (ShapeVerdict.BOUND, ShapeVerdict.LEFT):
            _check_open(add, line, limit, converged=converged)
        else:
            searched.append(line)
    for shape, (records, fitting, least) in _searched(
        problem, [line.shape for line in searched], ideal, hopped, budget
    ).items():
        line, verdict = lines[shape], ShapeVerdict.SEARCHED if fitting else ShapeVerdict.MEMORY
        expected = replace(line, verdict=verdict, records=records, fitting=fitting, least_bytes=line.least_bytes)
        if line != expected or line.least_bytes is None or differs(line.least_bytes, least):
            add("certificate", f"{shape}: {line}; not {replace(expected, least_bytes=least)}")
    open_shapes = {line.shape for line in outcomes if line.verdict is ShapeVerdict.LEFT}
    ideal.insert(seconds for strategy, seconds in ranked if shape_of(strategy) in open_shapes)
    if len(ranked) != len(ideal.times):
        add("order", f"{len(ranked)} strategies in place of {len(ideal.times)}")
        return hopped.least
    for number, ((_, seconds), value) in enumerate(zip(ranked, ideal.times, strict=True)):
        if differs(seconds, value, RELATIVE):
            add("order", f"strategy {number} takes {seconds!r} s, where there is one of {value!r} s")
    return hopped.least


def _check_open(add: Callable[[str, str], None], line: ShapeOutcome, limit: float, *, converged: bool) -> None:
    """Check a shape that was not searched."""
    if (line.records, line.fitting, line.least_bytes) != (0, 0, None):
        add("certificate", f"{line.shape} was not searched, and has figures")
    if line.verdict is ShapeVerdict.BOUND and beats(line.bound_s, limit, Tolerance.ROUNDING):
        add("certificate", f"{line.shape} may hold a strategy of {line.bound_s!r} s, and was not searched")
    if line.verdict is ShapeVerdict.LEFT and converged:
        add("certificate", f"{line.shape} is left, and nothing ended the search")
    if line.verdict is ShapeVerdict.LEFT and beats(limit, line.bound_s, Tolerance.ROUNDING):
        add("certificate", f"{line.shape} is left, and its bound says enough")


def fabric_bound(outcomes: Sequence[ShapeOutcome], fabric: str, value: float, fastest_s: float, hopped: float) -> float:
    """Return the seconds that no strategy is below on a fabric, where the lines of the certificate hold.

    Parameters
    ----------
    value : of the plan.
    fastest_s : of the fastest strategy on an ideal switch.
    hopped : of the fastest where tokens take the hops that direct links need.
    """
    direct = fabric in DIRECT_FABRICS
    verdicts = (ShapeVerdict.LEFT, ShapeVerdict.BOUND) if direct else (ShapeVerdict.LEFT,)
    lines = [line.bound_s for line in outcomes if line.verdict in verdicts]
    return min([value, hopped if direct else fastest_s, *lines])
