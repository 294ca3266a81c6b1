"""The space of strategies as the checker counts it: divisions of the GPUs (shapes), and the strategies of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import product

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.llm_training import END_SLOTS, LlmTrainingProblem
from topoopt.core.llm_training_plan import PHOTONIC_RAILS, StrategyShape
from topoopt.core.parallelism import RANK_ORDER, RANK_ORDERS, ParallelStrategy, Recompute
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.core.parallelism import PipelineSchedule as S

SCHEDULES, RECOMPUTES = tuple(S), tuple(Recompute)
BIDIRECTIONAL = (S.DUALPIPE, S.DUALPIPE_V)

BALANCED = -1.0
"""Stands for the layers of the first, inner and last rank where layers are balanced."""


@dataclass(frozen=True, eq=False)
class Records:
    """Strategies as columns float64[R].

    Attributes
    ----------
    t, split, c, p, v, d, x, y, zero, b : sizes of a strategy; `split`: sequence parallelism; b: of a micro-batch.
    schedule, recompute, order : indices into `SCHEDULES`, `RECOMPUTES`, `RANK_ORDERS`.
    first, inner, last : layers of the first rank, of the fullest one between, of the last; `BALANCED` for all three.
    """

    t: Floats
    split: Floats
    c: Floats
    p: Floats
    v: Floats
    d: Floats
    x: Floats
    y: Floats
    zero: Floats
    b: Floats
    schedule: Floats
    recompute: Floats
    first: Floats
    inner: Floats
    last: Floats
    order: Floats

    @property
    def copies(self) -> Floats:
        """Copies of the model along the ranks of a pipeline."""
        return np.where(self.runs(S.DUALPIPE), 2.0, 1.0)

    @property
    def sharers(self) -> tuple[Floats, Floats]:
        """Ranks that hold the same dense weights, and the same experts."""
        group = self.copies * self.d * self.c
        return group, group * self.t / (self.x * self.y)

    @property
    def sizes(self) -> dict[D, Floats]:
        """Ranks along each dimension that orders ranks."""
        return {D.TENSOR: self.t, D.CONTEXT: self.c, D.DATA: self.d, D.PIPELINE: self.p}

    def runs(self, *schedules: S) -> Bools:
        """Return where the schedule is among these."""
        return np.isin(self.schedule, [SCHEDULES.index(name) for name in schedules])

    def again(self, recompute: Recompute) -> Bools:
        """Return where the backward pass recomputes this."""
        return np.asarray(self.recompute == RECOMPUTES.index(recompute))

    def of(self, index: Ints | slice) -> Records:
        """Return some of the strategies."""
        return Records(*(getattr(self, column.name)[index] for column in fields(Records)))

    def kinds(self) -> Iterator[tuple[S, int, int, Ints]]:
        """Yield schedule, p, v and the indices of the strategies that have them."""
        keys, group = np.unique(np.stack([self.schedule, self.p, self.v]), axis=1, return_inverse=True)
        for number, (schedule, p, v) in enumerate(keys.T.astype(np.int64).tolist()):
            yield SCHEDULES[schedule], p, v, np.flatnonzero(group.ravel() == number)


def records_of(rows: Floats | Sequence[tuple[float, ...]]) -> Records:
    """Return the columns of rows in the order of the fields."""
    table = np.asarray(rows, dtype=np.float64).reshape(-1, len(fields(Records)))
    return Records(*np.ascontiguousarray(table.T))


def row_of(strategy: ParallelStrategy) -> tuple[float, ...]:
    """Return a strategy as a row, with the layers of its chunks."""
    s = strategy
    loads = [sum(s.stage_layers[rank :: s.pipeline]) for rank in range(s.pipeline)]
    return (
        s.tensor, s.sequence, s.context, s.pipeline, s.chunks, s.data, s.expert, s.expert_tensor, s.zero,
        s.micro_batch, SCHEDULES.index(s.schedule), RECOMPUTES.index(s.recompute),
        loads[0], max(loads[1:-1] or loads), loads[-1], RANK_ORDERS.index(s.order),
    )  # fmt: skip


def row_in(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> tuple[float, ...]:
    """Return a strategy as a row of the space, where balanced layers are not spelled out."""
    row, schedule = row_of(strategy), strategy.schedule
    return (*row[:12], *[BALANCED] * 3, row[15]) if _balances(problem, schedule, strategy.pipeline) else row


def shape_of(strategy: ParallelStrategy) -> StrategyShape:
    """Return how a strategy divides the GPUs."""
    return StrategyShape(*(getattr(strategy, size.name) for size in fields(StrategyShape)))


def rank_positions(strategy: ParallelStrategy) -> Iterator[dict[D, int]]:
    """Yield the coordinates of each rank; ranks count fastest along the first dimension of the order."""
    sizes = {dimension: getattr(strategy, dimension.value) for dimension in RANK_ORDER}
    for rank in range(strategy.gpus):
        at, rest = {}, rank
        for dimension in strategy.order:
            rest, at[dimension] = divmod(rest, sizes[dimension])
        yield at


def divisors(number: int) -> list[int]:
    small = [k for k in range(1, math.isqrt(number) + 1) if number % k == 0]
    return sorted({*small, *(number // k for k in small)})


def _in(values: tuple[int, ...] | None, value: int) -> bool:
    return values is None or value in values


def shapes_of(problem: LlmTrainingProblem) -> Iterator[StrategyShape]:
    """Yield every division of the GPUs that heads, layers, sequences, pods and the instance allow."""
    model, space, n = problem.model, problem.space, problem.cluster.gpus
    for t, c, p in product(divisors(n), repeat=3):
        if n % (t * c * p):
            continue
        d = n // (t * c * p)
        allowed = _in(space.tensor, t) and _in(space.context, c) and _in(space.pipeline, p) and _in(space.data, d)
        cut_widths = (*model.heads, model.hidden, *model.inner)
        even = problem.batch.sequences % d == 0 and all(width % t == 0 for width in cut_widths)
        heads = all(count % t == 0 or t % count == 0 for count in model.kv_heads)
        cut = c == 1 or problem.batch.length % (2 * c) == 0
        if allowed and even and heads and cut and p <= model.layers + END_SLOTS:
            for x, y in _expert_sizes(problem, n // p):
                if _in_pods(problem, t * c, n // p, x, y):
                    yield StrategyShape(t, c, p, d, x, y)


def _in_pods(problem: LlmTrainingProblem, inner: int, of_stage: int, x: int, y: int) -> bool:
    if problem.pods is None:
        return True
    gpus = problem.pods.gpus
    uncut = math.lcm(inner, gpus) == math.gcd(of_stage, gpus) == gpus
    return uncut and y == 1 and math.gcd(gpus, x) in (gpus, x)


def _expert_sizes(problem: LlmTrainingProblem, of_stage: int) -> Iterator[tuple[int, int]]:
    experts, space = problem.model.experts, problem.space
    count, width = (1, 1) if experts is None else (experts.count, experts.hidden)
    for x, y in product(divisors(count), divisors(width)):
        if of_stage % (x * y) == 0 and _in(space.expert, x) and _in(space.expert_tensor, y):
            yield x, y


def pipelines(problem: LlmTrainingProblem, p: int, m: int) -> list[tuple[S, int]]:
    """Return the schedules with their chunks for p stages and m micro-batches."""
    pairs = [(S.ONE_F_ONE_B, 1)]
    if p > 1:
        chunks = (problem.model.layers + END_SLOTS) // p
        rules = {
            S.INTERLEAVED: range(2, chunks + 1) if m % p == 0 else (),
            S.DUALPIPE: (1,) if p % 2 == 0 and m % 2 == 0 and m >= 2 * p and problem.pods is None else (),
            S.DUALPIPE_V: (2,) if chunks >= 2 and m >= 2 * p else (),
        }
        pairs = [(name, v) for name in problem.space.schedule or SCHEDULES for v in rules.get(name, (1,))]
    return [(name, v) for name, v in pairs if _in(problem.space.chunks, v)]


@lru_cache(maxsize=4096)
def even_ends(layers: int, p: int, v: int) -> tuple[int, int, int]:
    """Return layers of the first, fullest inner and last rank: missing ones go from the last, then the first."""
    full = -(-layers // (p * v))
    loads, order = [full * v] * p, [p - 1, *range(p - 1)]
    for missing in range(full * v * p - layers):
        loads[order[missing % p]] -= 1
    return loads[0], max(loads[1:-1] or loads), loads[-1]


def _uneven_ends(problem: LlmTrainingProblem, p: int, v: int) -> list[tuple[int, int, int]]:
    layers, triples = problem.model.layers, set()
    for i, j in product(problem.space.short_ends, repeat=2):
        inner = -(-(layers + i + j) // p)
        between = layers - (inner - i) - (inner - j)
        if p == 2:
            fits = between == 0 and min(i, j) == 0
        else:
            fits = -(-between // (p - 2)) == inner and between // (p - 2) >= v
        if fits and inner - max(i, j) >= v - 1:
            triples.add((inner - i, inner, inner - j))
    return sorted(triples)


def _balances(problem: LlmTrainingProblem, schedule: S, p: int) -> bool:
    return problem.space.layers == "balanced" and p > 1 and schedule not in BIDIRECTIONAL


def _divisions(problem: LlmTrainingProblem, schedule: S, p: int, v: int) -> Sequence[tuple[float, float, float]]:
    if _balances(problem, schedule, p):
        return [(BALANCED, BALANCED, BALANCED)]
    uneven = problem.space.short_ends and p > 1
    return _uneven_ends(problem, p, v) if uneven else [even_ends(problem.model.layers, p, v)]


def strategies_of(problem: LlmTrainingProblem, shape: StrategyShape) -> Floats:
    """Return all strategies of a shape, float64[R, 16]."""
    space, batch = problem.space, problem.batch
    t, c, p, d = shape.tensor, shape.context, shape.pipeline, shape.data
    zeros: tuple[int, ...] = (0, 1) if p > 1 else (0, 1, 2, 3)
    zeros = (0,) if d * c == 1 else zeros if space.zero is None else space.zero
    recomputes = RECOMPUTES if space.recompute is None else space.recompute
    same = problem.formats.flash and problem.device.reached.again == 0.0
    if same and Recompute.NONE in recomputes:  # tiles recompute scores in any case
        recomputes = tuple(name for name in recomputes if name is not Recompute.SELECTIVE)
    tables = [np.zeros((0, len(fields(Records))))]
    for b in divisors(batch.sequences // d):
        if not _in(space.micro_batch, b):
            continue
        layouts = [
            (v, SCHEDULES.index(name), *loads)
            for name, v in pipelines(problem, p, batch.sequences // (d * b))
            for loads in _divisions(problem, name, p, v)
        ]
        options = [
            (split, zero, RECOMPUTES.index(name), order)
            for split, zero, name, order in product(
                _splits(problem, t, b * batch.length // c), zeros, recomputes, orders_of(problem, shape)
            )
        ]
        if layouts and options:
            table = np.empty((len(layouts) * len(options), len(fields(Records))))
            table[:, [0, 2, 3, 5, 6, 7, 9]] = t, c, p, d, shape.expert, shape.expert_tensor, b
            table[:, [4, 10, 12, 13, 14]] = np.repeat(np.array(layouts, dtype=np.float64), len(options), axis=0)
            table[:, [1, 8, 11, 15]] = np.tile(np.array(options, dtype=np.float64), (len(layouts), 1))
            tables.append(table)
    rows = np.concatenate(tables)
    return rows[_on_rails(problem, records_of(rows))] if PHOTONIC_RAILS in problem.fabrics else rows


def _splits(problem: LlmTrainingProblem, t: int, tokens: int) -> tuple[int, ...]:
    if t == 1:
        return (0,)
    allowed = problem.space.sequence
    return tuple(s for s in (0, 1) if (allowed is None or bool(s) in allowed) and not (s and tokens % t))


def _on_rails(problem: LlmTrainingProblem, r: Records) -> Bools:
    assert problem.switching is not None
    near = beside(problem, r)
    inner = near[D.TENSOR] * near[D.CONTEXT] == r.t * r.c
    servers = r.d * r.c / (near[D.DATA] * near[D.CONTEXT])
    joined = np.maximum(r.p, servers)  # a line of stages or a ring of servers: one port to each side
    ports = np.minimum(2, joined - 1)
    fits = inner & (near[D.PIPELINE] == 1) & (ports <= problem.switching.ports) & ((r.zero < 3) | (servers == 1))
    return np.asarray(fits & ~r.runs(*BIDIRECTIONAL))


def _beside(sizes: Mapping[D, float] | Mapping[D, Floats], order: Sequence[D], gpus: int) -> dict[D, Floats]:
    near, before = {}, np.asarray(1.0)
    for dimension in order:
        near[dimension] = np.minimum(sizes[dimension], np.maximum(1.0, gpus / before))
        before = before * sizes[dimension]
    return near


def beside(problem: LlmTrainingProblem, r: Records) -> dict[D, Floats]:
    """Return the ranks of each dimension on a server, all others standing still."""
    near = {dimension: np.empty_like(r.t) for dimension in r.sizes}
    for order in np.unique(r.order):
        rows = r.order == order
        for dimension, count in _beside(r.sizes, RANK_ORDERS[int(order)], problem.cluster.gpus_per_server).items():
            near[dimension] = np.where(rows, count, near[dimension])
    return near


def orders_of(problem: LlmTrainingProblem, shape: StrategyShape) -> list[int]:
    """Return the orders of the ranks, of those that put the same groups on a server the first."""
    allowed = problem.space.order or tuple(order for order in RANK_ORDERS if order[0] is D.TENSOR)
    sizes = {dimension: float(getattr(shape, dimension.value)) for dimension in RANK_ORDER}
    orders: dict[tuple[float, ...], int] = {}
    for order in allowed:
        near = _beside(sizes, order, problem.cluster.gpus_per_server)
        orders.setdefault(tuple(float(near[dimension]) for dimension in sizes), RANK_ORDERS.index(order))
    return list(orders.values())
