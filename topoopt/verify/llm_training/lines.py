"""Every line of the certificate again: bounds derived, shapes that were searched gone through strategy by strategy.

Of the strategies that fit those have their passes followed whose bound is no slower than the last one ranked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import partial

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import DIRECT_FABRICS, ShapeOutcome, ShapeVerdict, StrategyShape
from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.verdict import StopReason, Tolerance, beats
from topoopt.verify.laws.findings import ViolationLog, differs
from topoopt.verify.llm_training.certificate import bounds_of
from topoopt.verify.llm_training.divisions import held_by
from topoopt.verify.llm_training.fabric_bound import hopped_rates
from topoopt.verify.llm_training.iteration import Rates, least_seconds, seconds_of
from topoopt.verify.llm_training.space import records_of, shapes_of, strategies_of
from topoopt.verify.llm_training.work import WorkBudget, bounding_work, following_work

BLOCK = 1 << 17
"""Strategies that are evaluated together."""

FIRST = 64
"""Strategies whose passes are followed first where only the fastest is asked for; twice as many each time."""

RELATIVE = Tolerance.ROUNDING.relative


def shape_of(strategy: ParallelStrategy) -> StrategyShape:
    """How a strategy divides the GPUs."""
    return StrategyShape(*(getattr(strategy, part.name) for part in fields(StrategyShape)))


def check_lines(
    findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution, budget: WorkBudget
) -> float:
    """All shapes have one, in order; none hides a strategy that is faster than the last one stated.

    Returns:
        the fastest of the searched shapes where tokens take the hops that direct links need; inf where no plan on such
        a fabric is slower than that.

    Raises:
        BeyondWorkError: there are more strategies than the check may go through.
    """
    lines = {line.shape: line for line in solution.shapes}
    if len(lines) != len(solution.shapes):
        findings.add("certificate", "a shape stands twice")
    shapes = sorted(shapes_of(problem))
    if [line.shape for line in solution.shapes] != [shape for shape in shapes if shape in lines]:
        findings.add("certificate", "shapes are not those of the instance, in order")
        return np.inf
    best, cutoff = _BestTimes(max(1 + problem.top, len(solution.ranked))), _cutoff(problem, solution)
    tables: dict[StrategyShape, Floats] = {}
    searched: list[tuple[ShapeOutcome, Floats]] = []
    for shape, bound in zip(shapes, bounds_of(problem, shapes, budget).tolist(), strict=True):
        if not np.isfinite(bound):
            _absent(findings, lines, shape)
            continue
        line = lines.get(shape)
        open_line = line is not None and line.verdict in (ShapeVerdict.BOUND, ShapeVerdict.LEFT)
        if line is not None and differs(line.bound_s, bound, RELATIVE):
            findings.add("certificate", f"the bound of {shape} is {bound!r}, not {line.bound_s!r}")
        if line is not None and open_line:
            _check_open(findings, solution, line, cutoff)
            continue
        plain = replace(shape, expert=1, expert_tensor=1)
        if plain not in tables:
            tables[plain] = strategies_of(problem, plain)
        rows = tables[plain].copy()
        rows[:, 6:8] = shape.expert, shape.expert_tensor
        if not len(rows):
            _absent(findings, lines, shape)
        elif line is None:
            findings.add("certificate", f"nothing is said of {shape}")
        else:
            searched.append((line, rows))
    slowest = max((one.iteration_time_s for one in solution.fabrics if one.fabric in DIRECT_FABRICS), default=0.0)
    hopped = np.inf
    for block in _blocks(searched):
        hopped = min(hopped, _check_searched(findings, problem, block, best, (cutoff, min(slowest, hopped)), budget))
    _check_best(findings, solution, best)
    return hopped


def _cutoff(problem: LlmTrainingProblem, solution: LlmTrainingSolution) -> float:
    """What is slower than this stands nowhere; inf where all that fit are stated."""
    return np.inf if len(solution.ranked) <= problem.top else solution.ranked[-1].iteration_time_s


def _absent(findings: ViolationLog, lines: dict[StrategyShape, ShapeOutcome], shape: StrategyShape) -> None:
    if shape in lines:
        findings.add("certificate", f"{shape} has no strategies")


def _check_open(findings: ViolationLog, solution: LlmTrainingSolution, line: ShapeOutcome, cutoff: float) -> None:
    """A shape that was not searched."""
    if (line.records, line.fitting, line.least_bytes) != (0, 0, None):
        findings.add("certificate", f"{line.shape} was not searched, and has figures")
    left = beats(line.bound_s, cutoff, Tolerance.ROUNDING)
    if line.verdict is ShapeVerdict.BOUND and left:
        findings.add("certificate", f"{line.shape} may hold a strategy of {line.bound_s!r} s, and was not searched")
    if line.verdict is ShapeVerdict.LEFT and solution.stopped_by is StopReason.CONVERGED:
        findings.add("certificate", f"{line.shape} is left, and nothing ended the search")
    if line.verdict is ShapeVerdict.LEFT and beats(cutoff, line.bound_s, Tolerance.ROUNDING):
        findings.add("certificate", f"{line.shape} is left, and its bound says enough")


def _blocks(searched: list[tuple[ShapeOutcome, Floats]]) -> Iterator[list[tuple[ShapeOutcome, Floats]]]:
    block: list[tuple[ShapeOutcome, Floats]] = []
    size = 0
    for line, rows in searched:
        block.append((line, rows))
        size += len(rows)
        if size >= BLOCK:
            yield block
            block, size = [], 0
    if block:
        yield block


class _BestTimes:
    """The fastest times of all that were searched."""

    def __init__(self, count: int) -> None:
        self.count, self.times = count, np.zeros(0)

    def add(self, times: Floats) -> None:
        """Those of a shape."""
        self.times = np.sort(np.concatenate([self.times, times]))[: self.count]


def _check_searched(
    findings: ViolationLog,
    problem: LlmTrainingProblem,
    block: list[tuple[ShapeOutcome, Floats]],
    best: _BestTimes,
    slowest: tuple[float, float],
    budget: WorkBudget,
) -> float:
    """Shapes whose strategies were all gone through; their fastest where tokens take hops.

    Args:
        slowest: times beyond which strategies do not matter: on an ideal switch, and on direct links.
    """
    rows = np.concatenate([part for _, part in block])
    r = records_of(rows)
    usable = problem.cluster.usable_bytes
    budget.take(bounding_work(r))
    held = held_by(problem, r)
    fits = np.ones(len(rows), dtype=bool) if usable is None else held <= usable
    times = np.full(len(rows), np.inf)
    times[fits] = _followed(problem, rows[fits], slowest[0], budget)
    begin = 0
    for line, part in block:
        here = slice(begin, begin + len(part))
        begin += len(part)
        fitting = int(fits[here].sum())
        best.add(times[here][np.isfinite(times[here])])
        due = ShapeOutcome(
            line.shape,
            ShapeVerdict.SEARCHED if fitting else ShapeVerdict.MEMORY,
            line.bound_s,
            len(part),
            fitting,
            float(held[here].min()),
        )
        if not _same(line, due):
            findings.add("certificate", f"all strategies of {line.shape}: {due}; not {line}")
    if slowest[1] > 0:
        return _fastest(problem, rows[fits], slowest[1], partial(hopped_rates, problem), budget)
    return float(times.min(initial=np.inf))


def _fastest(problem: LlmTrainingProblem, rows: Floats, slowest: float, rates: Rates, budget: WorkBudget) -> float:
    """The fastest of strategies, by their bounds until these are slower; inf where all bounds are."""
    if not len(rows):
        return np.inf
    budget.take(bounding_work(records_of(rows)))
    bounds = least_seconds(problem, records_of(rows), rates)
    order, found, begin, count = np.argsort(bounds, kind="stable"), np.inf, 0, FIRST
    while begin < len(order):
        own = order[begin : begin + count]
        own = own[bounds[own] <= min(slowest, found) * (1.0 + RELATIVE)]
        if not len(own):
            break
        budget.take(following_work(problem, records_of(rows[own])))
        found = min(found, float(seconds_of(problem, records_of(rows[own]), rates).min()))
        begin, count = begin + count, 2 * count
    return found


def _followed(problem: LlmTrainingProblem, rows: Floats, slowest: float, budget: WorkBudget) -> Floats:
    """Times of strategies; inf of those whose bound is slower."""
    found = np.full(len(rows), np.inf)
    if len(rows):
        open_ones = least_seconds(problem, records_of(rows)) <= slowest * (1.0 + RELATIVE)
        if open_ones.any():
            budget.take(following_work(problem, records_of(rows[open_ones])))
            found[open_ones] = seconds_of(problem, records_of(rows[open_ones]))
    return found


def _same(line: ShapeOutcome, due: ShapeOutcome) -> bool:
    def near(one: float | None, other: float | None) -> bool:
        if one is None or other is None:
            return one is other
        return not differs(one, other, RELATIVE)

    return replace(line, least_bytes=due.least_bytes) == due and near(line.least_bytes, due.least_bytes)


def _check_best(findings: ViolationLog, solution: LlmTrainingSolution, best: _BestTimes) -> None:
    """The strategies that are stated are the fastest of the shapes searched, and of those that a limit left, as stated:
    whether these are of the space and take so long is for others to say."""
    left = {line.shape for line in solution.shapes if line.verdict is ShapeVerdict.LEFT}
    best.add(np.array([one.iteration_time_s for one in solution.ranked if shape_of(one.strategy) in left]))
    own = [one.iteration_time_s for one in solution.ranked]
    if len(own) != len(best.times):
        findings.add("order", f"{len(own)} strategies, {len(best.times)} are due")
        return
    for place, (stated, due) in enumerate(zip(own, best.times.tolist(), strict=True)):
        if differs(stated, due, RELATIVE):
            findings.add("order", f"the strategy in place {place} takes {stated!r} s, one of {due!r} s is due")
