"""Iterations by the order of their passes, again: weights gathered ahead, gradients reduced behind, then the step.

Gradients of a layer are reduced when its last backward pass is through, one layer after the other; no pass of a stage
begins before its weights (ZeRO 1 and 2) are gathered, layer by layer in the order of the stages; the step of the
optimizer waits for all ranks. With ZeRO 3 what passes do not hide of both comes on top.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import lru_cache

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy, Recompute
from topoopt.core.pipeline import PipelineSchedule as S
from topoopt.verify.llm_training.divisions import layers_of
from topoopt.verify.llm_training.greedy_rounds import planned_order
from topoopt.verify.llm_training.order_bounds import OrderBounds
from topoopt.verify.llm_training.order_ends import OrderCosts, done_of
from topoopt.verify.llm_training.pass_levels import Levels, levelled
from topoopt.verify.llm_training.space import RECOMPUTES, SCHEDULES, Records, records_of, row_of
from topoopt.verify.llm_training.stage_rows import StageRows, stage_rows
from topoopt.verify.llm_training.transfers import DimensionRates, ideal_rates

EQUAL = 1e-9
"""Ranks whose work differs by no more have as much to do."""

PLAIN = float(RECOMPUTES.index(Recompute.NONE))

MOST_STAGES = 1_000_000
"""Stages of strategies that are bounded together."""


Rates = Callable[[Records], DimensionRates]
"""Of the groups of strategies."""


def given_rates(rates: DimensionRates, _: Records) -> DimensionRates:
    """Those of the groups on a network, which are known."""
    return rates


@dataclass(frozen=True, eq=False)
class AlikeStrategies:
    """Strategies of one schedule, with as many stages and micro-batches.

    Attributes:
        places: of the strategies among all.
        usual: their stages on an ideal switch, where ZB-2P is planned.
    """

    problem: LlmTrainingProblem
    places: Ints
    schedule: S
    p: int
    v: int
    m: int
    zero3: bool
    rows: StageRows
    usual: StageRows

    @property
    def bounds(self) -> OrderBounds:
        """What their orders do not go below."""
        count = len(self.places)
        every = np.full(count, float(self.m)), np.full(count, self.zero3)
        return OrderBounds(self.problem, self.schedule, self.p, self.rows, *every)

    def home(self) -> list[list[int]]:
        """Stages of every rank, or of every pair of ranks that hold the same two."""
        return self.bounds.held()

    def passes(self) -> Floats:
        """Seconds until the last pass ends, weights being there."""
        found = np.empty(len(self.places))
        for own, made in self._orders():
            rows = self.rows.of(own)
            found[own] = self._run(rows, np.zeros_like(rows.forward), made)[0]
        return found

    def finished(self) -> Floats:
        """Seconds until the last gradient is reduced."""
        found, ready = np.empty(len(self.places)), self._ready()
        for own, made in self._orders():
            rows = self.rows.of(own)
            found[own] = self._finished(*self._run(rows, ready[:, own], made), rows)
        return found

    def _orders(self) -> Iterator[tuple[Ints, Levels | None]]:
        """Strategies that have an order in common, and their passes; None: by the rule of the schedule."""
        every = np.arange(len(self.places))
        if self.schedule is not S.ZB_2P:
            yield every, None
            return
        for place in every:
            yield every[place : place + 1], self._planned(int(place))

    def _run(self, rows: StageRows, ready: Floats, made: Levels | None) -> tuple[Floats, Floats]:
        """When the last pass ends, and the last one of every stage."""
        hop = rows.hop if self.p > 1 else 0.0 * rows.hop
        costs = OrderCosts.of(rows.forward, rows.inputs, rows.weights, hop, ready, self.m)
        blocking = not self.problem.overlap.pipeline
        return done_of(self.schedule, self.p, self.v, self.m, costs, blocking=blocking, made=made)

    def _planned(self, place: int) -> Levels:
        rows = self.usual
        times = tuple(tuple(table[:, place].tolist()) for table in (rows.forward, rows.inputs, rows.weights))
        return _greedy(times, float(rows.hop[place]), self.m, not self.problem.overlap.pipeline)

    def _ready(self) -> Floats:
        """Before when no pass of a stage begins."""
        rows, found = self.rows, np.zeros_like(self.rows.forward)
        if self.zero3:
            return found
        for own in self.home():
            before = np.zeros_like(rows.hop)
            for s in own:
                n, gathered = rows.layers[s], rows.gathered[s]
                late = np.maximum(gathered / n, gathered - rows.forward[s] * (n - 1.0) / n)
                found[s] = before + late if self.problem.overlap.data else rows.gathered[own].sum(axis=0)
                before = before + gathered
        return found

    def _finished(self, last: Floats, done: Floats, rows: StageRows) -> Floats:
        """When every rank has reduced its gradients, those of the stage that is through first before the others."""
        found = last.copy()
        if self.zero3:
            return found
        back = rows.weights if self.bounds.split else rows.back
        lanes = np.arange(len(last))
        for own in self.home():
            free = np.zeros_like(last) if self.problem.overlap.data else done[own].max(axis=0)
            for s in np.array(own)[np.argsort(done[own], axis=0, kind="stable")]:
                end, n, reduced = done[s, lanes], rows.layers[s, lanes], rows.reduced[s, lanes]
                if not self.problem.overlap.data:
                    free = free + reduced
                    continue
                shown = np.maximum(end + reduced / n, end - back[s, lanes] * (n - 1.0) / n + reduced)
                free = np.maximum(free + reduced, shown)
            found = np.maximum(found, free)
        return found


@lru_cache(maxsize=8)
def _greedy(times: tuple[tuple[float, ...], ...], hop_s: float, m: int, blocking: bool) -> Levels:
    """The order of ZB-2P for F, I and W of every rank; one strategy is followed several times in a solution."""
    order = planned_order(dict(zip("FIW", times, strict=True)), hop_s, m)
    return levelled(order, len(times[0]), blocking=blocking)


def alike(
    problem: LlmTrainingProblem, r: Records, rates: Rates | None = None, layers: list[tuple[int, ...]] | None = None
) -> Iterator[AlikeStrategies]:
    """Strategies by schedule, stages and micro-batches.

    Args:
        rates: None: on an ideal switch.
        layers: of every stage of each; None: as their ends have them.
    """
    m = problem.batch.sequences / (r.d * r.b)
    keys = np.stack([r.schedule, r.p, r.v, m, r.zero == 3], axis=1).astype(np.int64)
    kinds, group = np.unique(keys, axis=0, return_inverse=True)
    for number, (schedule, p, v, batches, zero3) in enumerate(kinds.tolist()):
        places = np.flatnonzero(group.ravel() == number)
        own = Records(*(getattr(r, part.name)[places] for part in fields(Records)))
        if layers is None:
            dealt_layers = layers_of(problem, own, p, v)
        else:
            dealt_layers = np.array([layers[place] for place in places], dtype=np.float64).T
        usual = stage_rows(problem, own, dealt_layers, ideal_rates(problem, own))
        rows = usual if rates is None else stage_rows(problem, own, dealt_layers, rates(own))
        yield AlikeStrategies(problem, places, SCHEDULES[schedule], p, v, batches, bool(zero3), rows, usual)


def least_seconds(problem: LlmTrainingProblem, r: Records, rates: Rates | None = None, *, free: bool = False) -> Floats:
    """What the orders of strategies do not go below.

    Args:
        free: gradients, weights and the step take no time, and nothing is computed again.
    """
    found, m = np.empty(len(r.t)), problem.batch.sequences / (r.d * r.b)
    keys, group = np.unique(np.stack([r.schedule, r.p, r.v], axis=1), axis=0, return_inverse=True)
    for number, (schedule, p, v) in enumerate(keys.astype(np.int64).tolist()):
        every = np.flatnonzero(group.ravel() == number)
        for places in np.array_split(every, 1 + len(every) * p * v // MOST_STAGES):
            own = Records(*(getattr(r, part.name)[places] for part in fields(Records)))
            layers = layers_of(problem, own, p, v)
            if free:
                own = replace(own, zero=0.0 * own.zero, recompute=0.0 * own.recompute + PLAIN)
            rows = stage_rows(problem, own, layers, ideal_rates(problem, own) if rates is None else rates(own))
            rows = rows.without_exchange() if free else rows
            bounds = OrderBounds(problem, SCHEDULES[schedule], p, rows, m[places], own.zero == 3)
            found[places] = bounds.seconds()
    return found + _fixed(problem)


def _fixed(problem: LlmTrainingProblem) -> float:
    return problem.cluster.slowdown * problem.device.reached.iteration_ms / 1e3


def seconds_of(problem: LlmTrainingProblem, r: Records, rates: Rates | None = None) -> Floats:
    """Iterations of strategies, float64[R]."""
    found = np.empty(len(r.t))
    for group in alike(problem, r, rates):
        found[group.places] = group.finished() + group.bounds.around()
    return found + _fixed(problem)


def parts_of(problem: LlmTrainingProblem, strategy: ParallelStrategy, rates: Rates | None = None) -> dict[str, float]:
    """Seconds of an iteration of a strategy: what the rank with most to do computes and exchanges in its passes; the
    rest that hops are not to blame for, `bubble`; hops, `pipeline`; gradients and weights, `data`; the step."""
    group = next(alike(problem, records_of([row_of(strategy)]), rates, [strategy.stage_layers]))
    rows, m = group.rows, float(group.m)
    passes, finished = float(group.passes()[0]), float(group.finished()[0])
    near = AlikeStrategies(
        problem, group.places, group.schedule, group.p, group.v, group.m, group.zero3,
        StageRows(**{**vars(rows), "hop": 0.0 * rows.hop}), group.usual,
    )  # fmt: skip
    without_hops = float(near.passes()[0])
    load = rows.forward + rows.back
    each = 0.5 if group.schedule is S.DUALPIPE else 1.0  # of the micro-batches meet a stage on a rank
    shares = [dict.fromkeys(own, each) for own in group.home()]
    work = [sum(share * float(load[s, 0]) for s, share in own.items()) for own in shares]
    busiest = next(rank for rank, own in enumerate(work) if own >= max(work) * (1.0 - EQUAL))
    found = {
        name: m * sum(share * float(table[s, 0]) for s, share in shares[busiest].items())
        for name, table in rows.parts.items()
    }
    whole = sum(found.values())
    step = float(rows.step.sum() if group.p == 1 else max(float(rows.step[own, 0].sum()) for own in group.home()))
    return found | {
        "bubble": max(0.0, without_hops - whole),
        "pipeline": max(0.0, passes - max(without_hops, whole)),
        "data": max(0.0, finished - passes) + float(group.bounds.around()[0]) - step,
        "optimizer": step + _fixed(problem),
    }
