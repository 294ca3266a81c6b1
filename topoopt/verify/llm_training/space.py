"""All strategies of an instance as the checker counts them: ways to divide the GPUs, and strategies of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import product

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.llm_training import END_SLOTS, LlmTrainingProblem
from topoopt.core.llm_training_plan import PHOTONIC_RAILS, StrategyShape
from topoopt.core.parallelism import RANK_ORDERS, LayerDivision, ParallelStrategy, Recompute
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.core.pipeline import PipelineSchedule as S

SCHEDULES = tuple(S)
BALANCED = -1.0
"""In place of the loads of a strategy whose layers are balanced."""

RECOMPUTES = tuple(Recompute)


@dataclass(frozen=True, eq=False)
class Records:
    """Strategies, one value each; schedules, recomputation and orders by their places in the tables.

    `ends` are layers of the first rank, of the fullest between, and of the last.
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
    def copies(self) -> np.ndarray:
        """Of the model along the ranks of a pipeline."""
        return np.where(self.runs(S.DUALPIPE), 2.0, 1.0)

    @property
    def sharers(self) -> tuple[np.ndarray, np.ndarray]:
        """Ranks that hold the same dense weights, and the same experts."""
        group = self.copies * self.d * self.c
        return group, group * self.t / (self.x * self.y)

    def runs(self, *schedules: S) -> np.ndarray:
        """Whether the schedule is one of these."""
        return np.isin(self.schedule, [SCHEDULES.index(one) for one in schedules])

    def again(self, recompute: Recompute) -> np.ndarray:
        """Whether this is computed again."""
        return np.asarray(self.recompute == RECOMPUTES.index(recompute))


def records_of(rows: Floats | Sequence[tuple[float, ...]]) -> Records:
    """Columns of rows, in the order of the fields."""
    table = np.asarray(rows, dtype=np.float64).reshape(-1, len(fields(Records)))
    return Records(*np.ascontiguousarray(table.T))


def row_of(strategy: ParallelStrategy) -> tuple[float, ...]:
    """A strategy as a row; its loads are those of its chunks."""
    s = strategy
    loads = [sum(s.stage_layers[rank :: s.pipeline]) for rank in range(s.pipeline)]
    return (
        s.tensor, s.sequence, s.context, s.pipeline, s.chunks, s.data, s.expert, s.expert_tensor, s.zero,
        s.micro_batch, SCHEDULES.index(s.schedule), RECOMPUTES.index(s.recompute),
        loads[0], max(loads[1:-1] or loads), loads[-1], RANK_ORDERS.index(s.order),
    )  # fmt: skip


def divisors(whole: int) -> list[int]:
    """Ascending."""
    found = [one for one in range(1, int(whole**0.5) + 2) if whole % one == 0]
    return sorted({*found, *(whole // one for one in found)})


def _in(values: tuple[int, ...] | None, value: int) -> bool:
    return values is None or value in values


def shapes_of(problem: LlmTrainingProblem) -> Iterator[StrategyShape]:
    """Every way to divide the GPUs that heads, layers, sequences and the instance allow."""
    model, space, n = problem.model, problem.space, problem.cluster.gpus
    parts = divisors(n)
    for t, c, p in product(parts, repeat=3):
        if n % (t * c * p):
            continue
        d = n // (t * c * p)
        allowed = (_in(space.tensor, t), _in(space.context, c), _in(space.pipeline, p), _in(space.data, d))
        even = not (model.heads % t or model.hidden % t or model.ffn_hidden % t or problem.batch.sequences % d)
        heads = model.latent is not None or model.kv_heads % t == 0 or t % model.kv_heads == 0
        cut = c == 1 or problem.batch.length % (2 * c) == 0
        if all(allowed) and even and heads and cut and p <= model.layers + END_SLOTS:
            yield from _in_pods(problem, [StrategyShape(t, c, p, d, x, y) for x, y in _expert_parts(problem, n // p)])


def _in_pods(problem: LlmTrainingProblem, shapes: list[StrategyShape]) -> Iterator[StrategyShape]:
    """Those that pods hold, where there are any: a group of GPUs that exchange tensors or parts of sequences, or
    experts that share out tokens, is not cut by the border of a pod; a pod has one stage."""
    pods = problem.pods
    if pods is None:
        yield from shapes
        return
    for one in shapes:
        whole, of_stage = one.tensor * one.context, one.tensor * one.context * one.data
        uncut = math.lcm(whole, pods.gpus) == math.gcd(of_stage, pods.gpus) == pods.gpus
        if uncut and one.expert_tensor == 1 and math.gcd(pods.gpus, one.expert) in (pods.gpus, one.expert):
            yield one


def _expert_parts(problem: LlmTrainingProblem, of_stage: int) -> list[tuple[int, int]]:
    experts, space = problem.model.experts, problem.space
    count, width = (1, 1) if experts is None else (experts.count, experts.hidden)
    return [
        (x, y)
        for x, y in product(divisors(count), divisors(width))
        if of_stage % (x * y) == 0 and _in(space.expert, x) and _in(space.expert_tensor, y)
    ]


def pipelines(problem: LlmTrainingProblem, p: int, m: int) -> list[tuple[S, int]]:
    """Schedules with their chunks for p stages and m micro-batches."""
    if p == 1:
        found = [(S.ONE_F_ONE_B, 1)]
    else:
        most = (problem.model.layers + END_SLOTS) // p
        rules = {
            S.INTERLEAVED: range(2, most + 1) if m % p == 0 else range(0),
            S.DUALPIPE: [1] if p % 2 == 0 and m % 2 == 0 and m >= 2 * p else [],
            S.DUALPIPE_V: [2] if most >= 2 and m >= 2 * p else [],
        }
        names = SCHEDULES if problem.space.schedule is None else problem.space.schedule
        found = [(name, v) for name in names for v in rules.get(name, [1])]
    if problem.pods is not None:
        found = [(name, v) for name, v in found if name is not S.DUALPIPE]
    return [(name, v) for name, v in found if _in(problem.space.chunks, v)]


@lru_cache(maxsize=4096)
def even_ends(layers: int, p: int, v: int) -> tuple[int, int, int]:
    """Layers of the first rank, of the fullest between, and of the last: chunks are full, and those that are missing
    are taken from the ranks one at a time, the last one first, then the first, then those between."""
    full = -(-layers // (p * v))
    loads = [full * v] * p
    order = [p - 1, *range(p - 1)]
    for missing in range(full * v * p - layers):
        loads[order[missing % p]] -= 1
    return loads[0], max(loads[1:-1] or loads), loads[-1]


def uneven_ends(problem: LlmTrainingProblem, p: int, v: int) -> list[tuple[int, int, int]]:
    """The same for all numbers of layers that the instance allows the ends to be short of; none stands twice."""
    layers, found = problem.model.layers, set()
    for i, j in product(problem.space.short_ends, repeat=2):
        inner = -(-(layers + i + j) // p)
        between = layers - (inner - i) - (inner - j)
        if p == 2:
            fits = between == 0 and max(inner - i, inner - j) == inner
        else:
            least, fullest = between // (p - 2), -(-between // (p - 2))
            fits = fullest == inner and least >= v
        if fits and min(inner - i, inner - j) >= v - 1:
            found.add((inner - i, inner, inner - j))
    return sorted(found)


def divisions(problem: LlmTrainingProblem, schedule: S, p: int, v: int) -> Sequence[tuple[float, float, float]]:
    """Layers of the first rank, of the fullest between, and of the last, for all ways to divide them."""
    if problem.space.layers is LayerDivision.BALANCED and p > 1 and schedule not in (S.DUALPIPE, S.DUALPIPE_V):
        return [(BALANCED, BALANCED, BALANCED)]
    uneven = problem.space.short_ends and p > 1
    return uneven_ends(problem, p, v) if uneven else [even_ends(problem.model.layers, p, v)]


def strategies_of(problem: LlmTrainingProblem, shape: StrategyShape) -> Floats:
    """float64[records, 16], all strategies of a shape."""
    space, batch = problem.space, problem.batch
    t, c, p, d = shape.tensor, shape.context, shape.pipeline, shape.data
    zeros: tuple[int, ...] = (0, 1) if p > 1 else (0, 1, 2, 3)
    zeros = (0,) if d * c == 1 else zeros if space.zero is None else space.zero
    again = RECOMPUTES if space.recompute is None else space.recompute
    if problem.formats.flash and Recompute.NONE in again:  # its backward pass computes scores again anyway
        again = tuple(one for one in again if one is not Recompute.SELECTIVE)
    tables = []
    for b in divisors(batch.sequences // d):
        if not _in(space.micro_batch, b):
            continue
        splits = (0,) if t == 1 else splits_of(problem, t, b * batch.length // c)
        ways = []
        for name, v in pipelines(problem, p, batch.sequences // (d * b)):
            ways += [(v, SCHEDULES.index(name), *loads) for loads in divisions(problem, name, p, v)]
        rest = [
            (split, zero, RECOMPUTES.index(one), order)
            for split, zero, one, order in product(splits, zeros, again, orders_of(problem, shape))
        ]
        if ways and rest:
            v, schedule, first, inner, last = np.repeat(np.array(ways, dtype=np.float64), len(rest), axis=0).T
            split, zero, one, order = np.tile(np.array(rest, dtype=np.float64), (len(ways), 1)).T
            here = [np.full_like(v, part) for part in (t, c, p, d, shape.expert, shape.expert_tensor, b)]
            columns = (
                here[0],
                split,
                *here[1:3],
                v,
                *here[3:6],
                zero,
                here[6],
                schedule,
                one,
                first,
                inner,
                last,
                order,
            )
            tables.append(np.stack(columns, axis=1))
    rows = np.concatenate(tables) if tables else np.zeros((0, len(fields(Records))))
    return rows[on_rails(problem, shape, records_of(rows))] if PHOTONIC_RAILS in problem.fabrics else rows


def on_rails(problem: LlmTrainingProblem, shape: StrategyShape, r: Records) -> np.ndarray:
    """bool[records]: strategies of a shape that can stand on rails, where an instance asks for them."""
    assert problem.switching is not None
    found = np.zeros(len(r.t), dtype=bool)
    sizes = {D.TENSOR: shape.tensor, D.CONTEXT: shape.context, D.PIPELINE: shape.pipeline, D.DATA: shape.data}
    for order in np.unique(r.order):
        near = beside(RANK_ORDERS[int(order)], sizes, problem.cluster.gpus_per_server)
        whole = near[D.TENSOR] * near[D.CONTEXT] == shape.tensor * shape.context
        servers = shape.data * shape.context / (near[D.DATA] * near[D.CONTEXT])
        joined = max(shape.pipeline, servers)  # a line of stages or a ring of servers: one port to each side
        ports = 0 if joined == 1 else 1 if joined == 2 else 2
        if whole and near[D.PIPELINE] == 1 and ports <= problem.switching.ports:
            found |= (r.order == order) & ((r.zero < 3) | (servers == 1))
    return np.asarray(found & ~r.runs(S.DUALPIPE, S.DUALPIPE_V))


def beside(order: Sequence[D], sizes: Mapping[D, int], g: int) -> dict[D, float]:
    """Ranks of each dimension on a server of g, all others standing still."""
    found, before = {}, 1
    for one in order:
        found[one] = min(float(sizes[one]), max(1.0, g / before))
        before *= sizes[one]
    return found


def orders_of(problem: LlmTrainingProblem, shape: StrategyShape) -> list[int]:
    """Orders of the ranks; none puts the same groups on a server as one before it."""
    allowed = problem.space.order or tuple(one for one in RANK_ORDERS if one[0] is D.TENSOR)
    sizes = {D.TENSOR: shape.tensor, D.CONTEXT: shape.context, D.PIPELINE: shape.pipeline, D.DATA: shape.data}
    found: list[int] = []
    seen: list[dict[D, float]] = []
    for order in allowed:
        own = beside(order, sizes, problem.cluster.gpus_per_server)
        if own not in seen:
            seen.append(own)
            found.append(RANK_ORDERS.index(order))
    return found


def splits_of(problem: LlmTrainingProblem, t: int, tokens: int) -> tuple[int, ...]:
    """Whether what lies between matrices may be split over t > 1 GPUs."""
    wanted = problem.space.sequence
    return tuple(split for split in (0, 1) if (wanted is None or bool(split) in wanted) and not (split and tokens % t))
