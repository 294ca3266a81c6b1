"""Times of strategies: an iteration followed pass by pass, a cheap lower bound, and proofs of optimality by both.

Weights are gathered ahead, gradients reduced behind, then the optimizer steps. Gradients of a layer are reduced when
its last backward pass is through. No pass of a stage starts before its weights (ZeRO 1 and 2) are gathered, layer by
layer in the order of the stages. With ZeRO 3, what passes do not hide of both comes on top.

Orders: arXiv:1811.06965 (GPipe), arXiv:2104.04473 (1F1B, interleaved), arXiv:2401.10241 (ZB-H1: gradients of weights
of a micro-batch behind the backward pass r later ones on rank r; ZB-2P: greedy rounds, section 4), arXiv:2412.19437
(DualPipe: the model is held twice, stages p to 2p-1 are the copy that runs down the ranks).

The certificate lists the shapes alone. Bounds are taken over columns of strategies at once, first where gradients,
weights and recomputation are free, a shape at a time. Only strategies whose bound is not above the limit are followed
pass by pass, in the order of their bounds, until the next bound is above what was reached. So a claimed bound holds
whichever bounds the search had: no strategy is found below it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import DIRECT_FABRICS, ShapeOutcome, ShapeVerdict, StrategyShape
from topoopt.core.parallelism import ParallelStrategy, Recompute, StageCosts
from topoopt.core.parallelism import PipelineSchedule as S
from topoopt.core.process import end_if_left
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
from topoopt.verify.llm_training.layers import (
    BALANCED,
    BIDIRECTIONAL,
    RECOMPUTES,
    SCHEDULES,
    Records,
    records_of,
    row_of,
    shape_of,
    shapes_of,
    strategies_of,
)

Pass = tuple[str, int, int]
"""F, J (F together with the B behind it), B (both gradients), I (of inputs), W (of weights); micro-batch; stage."""

Orders = Sequence[Sequence[Pass]]
"""Passes of every rank."""

DIGITS = 9
"""Of the times that ZB-2P is planned with."""

HELD = {"F": 34, "I": -2, "W": -32}
"""Bytes over s b h that a pass leaves behind (arXiv:2401.10241, table 2)."""


@lru_cache(maxsize=16)
def ruled_orders(schedule: S, p: int, v: int, m: int) -> Orders:
    """Return the passes of all ranks, of a schedule whose order is a rule."""
    return [rank_order(schedule, rank, p, v, m) for rank in range(p)]


def rank_order(schedule: S, rank: int, p: int, v: int, m: int) -> list[Pass]:
    """Return the passes of a rank, of a schedule whose order is a rule."""
    if schedule in BIDIRECTIONAL:
        return _bidirectional(rank, p, m, folded=schedule is S.DUALPIPE_V)
    if schedule is S.GPIPE:
        return [("F", i, rank) for i in range(m)] + [("B", m - 1 - i, rank) for i in range(m)]
    slots, ahead = [(i, 0) for i in range(m)], min(p - 1 - rank, m)
    if schedule is S.INTERLEAVED:
        slots = [(i, chunk) for group in range(0, m, p) for chunk in range(v) for i in range(group, group + p)]
        ahead = min(2 * (p - rank - 1) + (v - 1) * p, m * v)
    forward: list[Pass] = [("F", i, chunk * p + rank) for i, chunk in slots]
    order = forward[:ahead]
    for number, (i, chunk) in enumerate(slots):
        order += forward[ahead + number : ahead + number + 1]
        stage = (v - 1 - chunk) * p + rank
        order.append(("I" if schedule is S.ZB_H1 else "B", i, stage))
        if schedule is S.ZB_H1 and i >= rank:
            order.append(("W", i - rank, stage))
    if schedule is S.ZB_H1:
        order += [("W", i, rank) for i in range(max(0, m - rank), m)]
    return order


def _bidirectional(rank: int, p: int, m: int, *, folded: bool) -> list[Pass]:
    """Return eight steps: a rank has a stream of micro-batches from the nearer end, and another from the far end."""
    half, depth = (p, rank) if folded else (p // 2, min(rank, p - 1 - rank))
    rest, count = half - depth - 1, m if folded else m // 2
    near, far = (rank, 0), (2 * p - 1 - rank, 0)
    if not folded:
        streams = ((rank, 0), (2 * p - 1 - rank, count))
        near, far = streams if rank < half else streams[::-1]
    begun, back = {near: 0, far: 0}, {near: 0, far: 0}
    deferred: list[Pass] = []
    order: list[Pass] = []

    def ahead(*streams: tuple[int, int], kind: str = "F") -> None:
        for stream in streams:
            order.append((kind, stream[1] + begun[stream], stream[0]))
            begun[stream] += 1

    def behind(stream: tuple[int, int], kind: str = "B") -> None:
        order.append((kind, stream[1] + back[stream], stream[0]))
        if kind == "I":
            deferred.append(("W", stream[1] + back[stream], stream[0]))
        back[stream] += 1

    ahead(*[near] * (2 * rest), *[near, far] * (depth + 1))
    for _ in range(rest):
        behind(far, "I")
        order.append(deferred.pop(0))
        ahead(far)
    for number in range(count - 2 * half + depth + 1):
        ahead(near, kind="J" if number or rest else "F")
        behind(far)
        ahead(far, kind="J")
        behind(near)
    for _ in range(rest):
        behind(far)
        ahead(far, kind="J")
        behind(near)
    for number in range(2 * (depth + 1)):
        behind(near if number % 2 else far, "I" if number > depth else "B")
    for _ in range(rest):
        order.append(deferred.pop(0))
        behind(near, "I")
    return order + deferred


class _Rounds:
    """Greedy rounds of ZB-2P in whole numbers.

    Warm-up until the first micro-batch is back or the memory of 2p micro-batches is full. Then every rank has one
    forward and one backward pass a round, gradients of weights in the gaps, and early where memory or the rank that
    idles most needs it. Three switches decide the rest.
    """

    def __init__(self, cost: Mapping[str, Sequence[int]], hop: int, m: int, switches: tuple[bool, bool, bool]) -> None:
        self.cost, self.hop, self.m, self.p = cost, hop, m, len(cost["F"])
        self.early, self.backward_first, self.greedy = switches
        p = self.p
        self.capacity = 2 * p * HELD["F"]
        self.done = {kind: [0] * p for kind in HELD}
        self.ends: dict[str, list[list[int]]] = {kind: [[] for _ in range(p)] for kind in ("F", "I")}
        self.free, self.idle, self.held, self.begun = [0] * p, [0] * p, [0] * p, [0] * p
        self.order: list[list[Pass]] = [[] for _ in range(p)]

    def ready(self, kind: str, j: int) -> int:
        i = self.done[kind][j]
        if kind == "F" and j > 0:
            return self.ends["F"][j - 1][i] + self.hop
        if kind == "I" and j < self.p - 1:
            return self.ends["I"][j + 1][i] + self.hop
        return 0

    def do(self, kind: str, j: int) -> None:
        begin = max(self.free[j], self.ready(kind, j) if kind != "W" else 0)
        if self.done["F"][j]:
            self.idle[j] += begin - self.free[j]
        else:
            self.begun[j] = begin
        self.free[j] = begin + self.cost[kind][j]
        if kind != "W":
            self.ends[kind][j].append(self.free[j])
        self.held[j] += HELD[kind]
        self.order[j].append((kind, self.done[kind][j], j))
        self.done[kind][j] += 1

    def warm_up(self) -> None:
        p, m = self.p, self.m
        for j in range(p):
            self.do("F", j)
        more, back = [0] * p, self.free[p - 1] + self.cost["I"][p - 1]
        for j in reversed(range(p - 1)):
            held, end, come = self.held[j], self.free[j], back + self.hop
            while 1 + more[j] < m and held + HELD["F"] <= self.capacity:
                if (end + self.cost["F"][j] > come) if self.early else (end >= come):
                    break
                held += HELD["F"]
                end += self.cost["F"][j]
                more[j] += 1
            back = max(end, come) + self.cost["I"][j]
        for j in range(1, p):
            if more[j] >= more[j - 1] and 1 + more[j] < m:
                more[j] = max(0, more[j - 1] - 1)
            more[j] = min(more[j], more[j - 1])
        for j in range(p):
            for _ in range(more[j]):
                self.do("F", j)
        for j in reversed(range(p)):
            self.do("I", j)

    def goes_ahead(self, j: int) -> bool:
        done = self.done
        if done["F"][j] >= self.m:
            return False
        if j == self.p - 1 or not self.backward_first or done["F"][j] < done["F"][j + 1] + 2:
            return True
        behind = self.free[j + 1] + self.cost["F"][j + 1] + self.cost["I"][j + 1] + self.hop
        if self.free[j] >= behind:
            return False
        held, spent = self.held[j] + HELD["F"], 0
        for _ in range(done["I"][j] - done["W"][j]):
            if held <= self.capacity:
                break
            held += HELD["W"]
            spent += self.cost["W"][j]
        if self.free[j] + self.cost["F"][j] + spent <= behind:
            return True
        return behind - self.free[j] > max(self.idle) - self.idle[j]

    def fill(self, kind: str, j: int) -> bool:
        done = self.done
        while self.held[j] + HELD[kind] > self.capacity:
            if done["W"][j] >= done["I"][j]:
                return False
            self.do("W", j)
        come = self.ready(kind, j)
        while done["W"][j] < done["I"][j] and self.free[j] + self.cost["W"][j] <= come:
            self.do("W", j)
        late = self.greedy or come - self.free[j] > max(self.idle) - self.idle[j]
        if late and done["W"][j] < done["I"][j] and self.free[j] < come:
            self.do("W", j)
        return True

    def run(self, least: int | None) -> bool:
        self.warm_up()
        work = [self.m * sum(self.cost[kind][j] for kind in HELD) for j in range(self.p)]
        for _ in range(1, self.m):
            end_if_left()
            if least is not None and max(map(sum, zip(work, self.idle, strict=True))) >= least:
                return False
            go = [self.goes_ahead(j) for j in range(self.p)]
            for j in range(self.p):
                if all(go[j:]):
                    if not self.fill("F", j):
                        return False
                    self.do("F", j)
            for j in reversed(range(self.p)):
                if not self.fill("I", j):
                    return False
                while j == 0 and self.done["F"][0] == self.m and self.done["W"][0] < self.done["I"][0]:
                    self.do("W", 0)
                self.do("I", j)
        for j in range(self.p):
            while self.done["W"][j] < self.m:
                self.do("W", j)
        return True


def planned_order(times: Mapping[str, Sequence[float]], hop_s: float, m: int) -> Orders:
    """Return the passes of ZB-2P: of the eight settings of the switches the first whose slowest rank is done soonest.

    Args:
        times: of F, I and W on every rank, s, counted with `DIGITS` digits.

    Raises:
        ValueError: the memory never suffices.
    """
    unit = 10.0 ** (DIGITS - 1 - math.floor(math.log10(max(hop_s, *(max(row) for row in times.values())))))
    cost = {kind: [round(value * unit) for value in row] for kind, row in times.items()}
    best: tuple[int, Orders] | None = None
    for early, backward_first, greedy in product((True, False), repeat=3):
        rounds = _Rounds(cost, round(hop_s * unit), m, (early, backward_first, greedy))
        if rounds.run(None if best is None else best[0]):
            span = max(end - begin for end, begin in zip(rounds.free, rounds.begun, strict=True))
            if best is None or span < best[0]:
                best = span, rounds.order
    if best is None:
        raise ValueError("greedy rounds do not fit")
    return best[1]


@lru_cache(maxsize=8)
def _planned(times: tuple[tuple[float, ...], ...], hop_s: float, m: int) -> Orders:
    return planned_order(dict(zip("FIW", times, strict=True)), hop_s, m)


def pass_ends(orders: Orders, costs: StageCosts, ready: Sequence[float] | None = None) -> list[list[float]]:
    """Return when every pass of every rank ends; a joined pass ends with the one behind it.

    Args:
        ready: before when no forward pass of a stage starts; None: the begin.

    Raises:
        ValueError: passes wait for each other.
    """
    forward_s, inputs, weights = costs.forward_s.tolist(), costs.inputs_s.tolist(), costs.weights_s.tolist()
    stages, hop, blocking = len(forward_s), costs.transfer_s, costs.blocking
    ready = [0.0] * stages if ready is None else ready
    home = {s: rank for rank, order in enumerate(orders) for _, _, s in order}
    copies = 1 + max(home)
    cost = {"F": forward_s, "J": forward_s, "I": inputs, "W": weights}
    cost["B"] = [i + w for i, w in zip(inputs, weights, strict=True)]
    ends: list[list[float]] = [[] for _ in orders]
    forward: list[dict[int, float]] = [{} for _ in range(copies)]
    back: list[dict[int, float]] = [{} for _ in range(copies)]
    # Of F and J the stage before, of B and I the one behind, if there is one in the same copy of the model.
    before = [s - 1 if s % stages else -1 for s in range(copies)]
    behind = [s + 1 if (s + 1) % stages else -1 for s in range(copies)]
    free, moved = [0.0] * len(orders), True
    while moved:
        moved = False
        for rank, order in enumerate(orders):
            done, at = ends[rank], len(ends[rank])
            while at < len(order):
                begin, took, stop, leaves = free[rank], 0.0, at + 1 + (order[at][0] == "J"), False
                for kind, micro, s in order[at:stop]:
                    took += cost[kind][s % stages]
                    if kind == "W":
                        continue
                    ahead = kind in "FJ"
                    source, target = (before[s], behind[s]) if ahead else (behind[s], before[s])
                    if ahead and ready[s % stages] > begin:
                        begin = ready[s % stages]
                    if source >= 0:
                        come = (forward if ahead else back)[source].get(micro, -1.0)
                        if come < 0.0:
                            stop = 0
                            break
                        if home[source] != rank:
                            come += hop
                        begin = max(begin, come)
                    leaves = leaves or (target >= 0 and home[target] != rank)
                if not stop:
                    break
                end, moved = begin + took, True
                for kind, micro, s in order[at:stop]:
                    done.append(end)
                    if kind != "W":
                        (forward if kind in "FJ" else back)[s][micro] = end
                free[rank] = end + hop if leaves and blocking else end
                at = stop
    if any(len(done) < len(order) for done, order in zip(ends, orders, strict=True)):
        raise ValueError("passes wait for each other")
    return ends


def held_stages(schedule: S, p: int, v: int) -> list[list[int]]:
    """Return the stages of every rank; of DualPipe, where two ranks hold the same two, of every pair."""
    if schedule in BIDIRECTIONAL:
        return [[s, p * v - 1 - s] for s in range(p * v // 2)]
    return [list(range(rank, p * v, p)) for rank in range(p)]


def around_seconds(problem: LlmTrainingProblem, schedule: S, p: int, rows: StageRows, m: Floats, z: Bools) -> Floats:
    """Return the optimizer step, and what ZeRO 3 (z) exposes: a rank hides rounds behind its passes, but for a layer.

    Half of the gathering is for the forward passes, half goes with reducing in the backward ones.
    """
    step, exposed = np.zeros_like(m), np.zeros_like(m)
    met = m / 2.0 if schedule is S.DUALPIPE else m  # micro-batches that a stage meets on a rank
    for stages in held_stages(schedule, p, len(rows.forward) // p):
        step = np.maximum(step, rows.step[stages].sum(axis=0))
        n, half, total = rows.layers[stages].sum(axis=0), rows.gathered[stages].sum(axis=0) / 2.0, np.zeros_like(m)
        for moved, hiding in ((rows.reduced[stages].sum(axis=0) + half, rows.back), (half, rows.forward)):
            rounds, busy = met * moved, met * hiding[stages].sum(axis=0)
            shown = np.maximum(rounds / n / met, rounds - (1.0 - 1.0 / n) * busy)
            total = total + (shown if problem.overlap.data else rounds)
        exposed = np.maximum(exposed, total)
    return step + np.where(z, exposed, 0.0)


class Iteration:
    """One iteration of one strategy.

    Args:
        r: the strategy, a column of length 1.
        layers: of its stages; None: by the rule of the space.
        rates: of its groups; None: on an ideal switch, where ZB-2P is planned in any case.
    """

    def __init__(
        self, problem: LlmTrainingProblem, r: Records, layers: Sequence[int] | None = None, rates: Rates | None = None
    ) -> None:
        self.problem, self.r = problem, r
        self.schedule, self.p, self.v = SCHEDULES[int(r.schedule[0])], int(r.p[0]), int(r.v[0])
        self.m, self.zero3 = round(problem.batch.sequences / float(r.d[0] * r.b[0])), r.zero == 3
        stages = layers_of(problem, r, self.p, self.v) if layers is None else np.array(layers, dtype=float)[:, None]
        self.usual = stage_rows(problem, r, stages, ideal_rates(problem, r))
        self.rows = self.usual if rates is None else stage_rows(problem, r, stages, rates(r))
        self.held = held_stages(self.schedule, self.p, self.v)

    def orders(self, m: int | None = None) -> Orders:
        """Return the passes of all ranks, of m micro-batches in place of all."""
        m = self.m if m is None else m
        if self.schedule is not S.ZB_2P:
            return ruled_orders(self.schedule, self.p, self.v, m)
        rows = (self.usual.forward, self.usual.inputs, self.usual.weights)
        return _planned(tuple(tuple(row[:, 0].tolist()) for row in rows), float(self.usual.hop[0]), m)

    def costs(self) -> StageCosts:
        """Return the seconds of passes and hops."""
        rows, several = self.rows, self.p > 1
        hop, blocking = float(rows.hop[0]) if several else 0.0, several and not self.problem.overlap.pipeline
        return StageCosts(rows.forward[:, 0], rows.inputs[:, 0], rows.weights[:, 0], hop, blocking)

    def around(self) -> float:
        """Return the optimizer step, and what ZeRO 3 exposes."""
        m = np.array([float(self.m)])
        return float(around_seconds(self.problem, self.schedule, self.p, self.rows, m, self.zero3)[0])

    def finished(self) -> float:
        """Return the seconds until the last gradient is reduced."""
        rows, stages, done = self.rows, len(self.rows.forward), [0.0] * len(self.rows.forward)
        orders, zero3 = self.orders(), bool(self.zero3[0])
        ends = pass_ends(orders, self.costs(), None if zero3 else self._ready())
        last = max(row[-1] for row in ends)
        if zero3:
            return last
        split = self.schedule not in (S.GPIPE, S.ONE_F_ONE_B, S.INTERLEAVED)
        for order, row in zip(orders, ends, strict=True):
            for (kind, _, s), end in zip(order, row, strict=True):
                if kind in "BW" and end > done[s % stages]:
                    done[s % stages] = end
        reduced, layers = rows.reduced[:, 0].tolist(), rows.layers[:, 0].tolist()
        back = (rows.weights if split else rows.back)[:, 0].tolist()
        for held in self.held:
            free = 0.0 if self.problem.overlap.data else max(done[s] for s in held)
            for s in sorted(held, key=lambda s: done[s]):
                free += reduced[s]
                if self.problem.overlap.data:
                    behind = max(reduced[s] / layers[s], reduced[s] - back[s] * (1.0 - 1.0 / layers[s]))
                    free = max(free, done[s] + behind)
            last = max(last, free)
        return last

    def _ready(self) -> list[float]:
        rows, ready = self.rows, [0.0] * len(self.rows.forward)
        gathered, forward, layers = (row[:, 0].tolist() for row in (rows.gathered, rows.forward, rows.layers))
        for held in self.held:
            before = 0.0
            for s in held:
                ready[s] = before + max(gathered[s] / layers[s], gathered[s] - forward[s] * (1.0 - 1.0 / layers[s]))
                before += gathered[s]
            if not self.problem.overlap.data:
                for s in held:
                    ready[s] = before
        return ready

    def seconds(self) -> float:
        return self.finished() + self.around() + fixed_seconds(self.problem)


def iteration_of(problem: LlmTrainingProblem, strategy: ParallelStrategy, rates: Rates | None = None) -> Iteration:
    """Return the iteration of a strategy with the layers that it states."""
    return Iteration(problem, records_of([row_of(strategy)]), strategy.stage_layers, rates)


def plan_seconds(problem: LlmTrainingProblem, strategy: ParallelStrategy, rates: Rates | None = None) -> float:
    """Return the value of a plan: seconds of an iteration of a strategy."""
    return iteration_of(problem, strategy, rates).seconds()


def seconds_of(problem: LlmTrainingProblem, r: Records, rates: Rates | None = None) -> Floats:
    """Return the seconds of iterations, float64[R], strategy by strategy."""
    return np.array([Iteration(problem, r.of(slice(k, k + 1)), None, rates).seconds() for k in range(len(r.t))])


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
    return float(np.sum(ALONE + 3.0 * PASS * r.p * r.v * m + np.where(r.runs(S.ZB_2P), GREEDY * r.p * m, 0.0)))


def pass_bounds(problem: LlmTrainingProblem, schedule: S, p: int, rows: StageRows, m: Floats, zero3: Bools) -> Floats:
    """Return what iterations do not go below, without what each costs in any case.

    A rank starts when the first micro-batch has come through the stages before it, and does all its work. Its last
    gradients are reduced behind that. Or the last micro-batch goes back to the first stage, from work without the
    gradients of weights that the schedule may put off so far.

    Args:
        rows: stages of strategies of one schedule and p.
        m: micro-batches, float64[R].
        zero3: weights are gathered in every pass, bool[R].
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


def order_bounds(problem: LlmTrainingProblem, r: Records, stages: Callable[[Records, Floats], StageRows]) -> Floats:
    """Return what iterations do not go below, float64[R]; `stages`: of strategies of one schedule and p, and layers."""
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

    Raises:
        BeyondWorkError: there are more strategies than the check may go through.
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

    Attributes:
        limit: seconds beyond which strategies do not matter.
        times: ascending.
    """

    def __init__(self, problem: LlmTrainingProblem, limit: float, count: int, rates: Rates | None = None) -> None:
        self.problem, self.limit, self.count, self.rates = problem, limit, count, rates
        self.times: list[float] = []

    def add(self, rows: Floats, budget: WorkBudget) -> None:
        """Go through strategies by their bounds.

        Raises:
            BeyondWorkError: more would have to be followed than the check may.
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

    Args:
        ranked: strategies with their seconds on an ideal switch, the best first.
        slowest: seconds of the slowest plan on a fabric of direct links; 0: there is none.
        claimed: the largest bound that rests on shapes that are left; 0: there is none.
        converged: nothing ended the search.

    Returns:
        Seconds of the fastest strategy that fits where tokens take the hops that direct links need, and of the fastest
        on
        an ideal switch of shapes that are left; inf: none is within the slowest plan, or below the claimed bound.

    Raises:
        BeyondWorkError: there are more strategies than the check may go through.
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

    Args:
        value: of the plan.
        limits: of the first and of the last strategy ranked, on an ideal switch.
        fastest: the fastest where tokens take hops, and the fastest of the shapes that are left.
    """
    left = any(line.verdict is ShapeVerdict.LEFT for line in outcomes)
    if fabric in DIRECT_FABRICS:
        least = min(value, fastest[0])
        closed = any(not _counted(line) for line in outcomes) and claimed >= limits[1]
        return min(least, claimed) if left or closed else least
    least = min(value, limits[0])
    return min(least, claimed if claimed <= fastest[1] else fastest[1]) if left else least
