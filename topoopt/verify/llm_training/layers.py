"""Strategies as columns, and kinds of layers, by the checker's own model: what a rank holds and what a token costs.

A layer is added up mixer by mixer: each function has all that one of them is about, its weights, the products of a
token, its scores, what it keeps and what it passes on. Sizes on one of t ranks are float64[R].
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import product

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.llm_training import (
    END_SLOTS,
    Attention,
    DeltaAttention,
    Experts,
    LatentAttention,
    LayerKind,
    LightningAttention,
    LlmTrainingProblem,
    Mlp,
    StateSpace,
)
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

    Attributes:
        t, split, c, p, v, d, x, y, zero, b: sizes of a strategy; `split`: sequence parallelism; b: of a micro-batch.
        schedule, recompute, order: indices into `SCHEDULES`, `RECOMPUTES`, `RANK_ORDERS`.
        first, inner, last: layers of the first rank, of the fullest one between, of the last; `BALANCED` for all three.
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


Size = Floats | float
Product = tuple[Size, Size]
"""Rows and columns of a matrix."""


@dataclass(frozen=True, eq=False)
class Mixing:
    """A mixer on a rank.

    Attributes:
        products: matrices that a token meets.
        small: weights beside matrices.
        pairs: products of a token with each key that it attends to, on all ranks together.
        heads: that scores are written for where they are written, on all ranks together.
        indexed: operations of a token in the scores of an indexer, for each token of a sequence, on all ranks together.
        around: elements of queries, keys and values, on all ranks together.
        channels: that go through states, on all ranks together.
        kept, kept_whole: elements that wait for the backward pass, on the rank, and on all ranks together.
        passed, passed_once: elements that go round context ranks, of a token and of a sequence.
    """

    products: Sequence[Product]
    small: Size
    pairs: float = 0.0
    heads: int = 0
    indexed: float = 0.0
    around: float = 0.0
    channels: float = 0.0
    kept: Size = 0.0
    kept_whole: float = 0.0
    passed: Size = 0.0
    passed_once: Size = 0.0


def _attention(own: Attention, h: int, t: Floats) -> Mixing:
    a, k, d, gates = own.heads / t, np.maximum(1.0, own.kv_heads / t), own.head_size, int(own.gated)
    wide = (a + a * gates + 2 * k) * d
    small = own.biases * wide + own.output_biases * h + own.sinks * a
    small = small + {"none": 0.0, "head": 2.0 * d, "row": (a + k) * d}[own.norms]
    return Mixing(
        [(h, wide), (a * d, h)],
        small,
        pairs=2.0 * d * own.heads,
        heads=own.heads,
        around=1.0 * d * (own.heads * (1 + gates) + 2 * own.kv_heads),
        kept=2 * (a + k + a * gates) * d,
        passed=2 * k * d,
    )


def _latent(own: LatentAttention, h: int, t: Floats) -> Mixing:
    low, kv, key, value = own.query_rank, own.key_value_rank, own.plain_size + own.rotary_size, own.value_size
    a, index = own.heads / t, own.index_heads * own.index_size
    products: list[Product] = [
        (h, 1.0 * (low + kv + own.rotary_size)),
        (low or h, a * key),
        (kv, a * (own.plain_size + value)),
        (a * value, h),
    ]
    if index:
        products += [(low or h, 1.0 * index), (h, 1.0 * (own.index_size + own.index_heads))]
    return Mixing(
        products,
        1.0 * (low + kv + 2 * own.index_size),
        pairs=1.0 * own.heads * (key + value),
        heads=own.heads,
        indexed=1.0 * index,
        around=1.0 * own.heads * (2 * key + value),
        kept=2 * a * (key + value),
        kept_whole=2.0 * (low + kv + own.rotary_size) + own.index_size,
        passed=np.full_like(t, 1.0 * (kv + own.rotary_size)),
    )


def _delta(own: DeltaAttention, h: int, t: Floats) -> Mixing:
    q, v, heads = own.key_heads * own.key_size, own.value_heads * own.value_size, own.value_heads
    wide, chunk = 2 * q + v, 64
    return Mixing(
        [(h, 2 * (q + v + heads) / t), (v / t, h)],
        (wide * own.kernel + 2 * heads) / t + own.value_size,
        channels=1.0 * v,
        kept=(2 * wide + 3 * v + heads * (2 + chunk)) / t,
        passed_once=heads // own.key_heads * q * own.value_size / t,
    )


def _lightning(own: LightningAttention, h: int, t: Floats) -> Mixing:
    wide = own.heads * own.head_size
    return Mixing(
        [(h, 4 * wide / t), (wide / t, h)],
        wide / t,
        channels=1.0 * wide,
        kept=6 * wide / t,
        passed_once=wide * own.head_size / t,
    )


def _state_space(own: StateSpace, h: int, t: Floats) -> Mixing:
    d, n, rank = own.inner, own.state, own.step_rank
    convolved = d if rank else d + 2 * own.groups * n
    filters = convolved * (own.kernel + own.convolution_biases)
    if rank:  # Mamba
        products: list[Product] = [(h, 2 * d / t), (d / t, rank + 2.0 * n), (rank, d / t), (d / t, h)]
        small = (filters + d * n + 2 * d + 2 * d * own.biases) / t + rank + 2 * n + h * own.biases
    else:
        enters = 2 * d + 2 * own.groups * n + own.heads
        products = [(h, enters / t), (d / t, h)]
        small = (filters + 3 * own.heads + d + enters * own.biases) / t + h * own.biases
    return Mixing(
        products, small, channels=1.0 * d, kept=(2 * convolved + 4 * d + own.heads + rank) / t, passed_once=d * n / t
    )


def mixing_of(kind: LayerKind, h: int, t: Floats) -> Mixing:
    """Return what the mixer of a layer has and does on one of t ranks."""
    match kind.mixer:
        case Attention() as own:
            return _attention(own, h, t)
        case LatentAttention() as own:
            return _latent(own, h, t)
        case DeltaAttention() as own:
            return _delta(own, h, t)
        case LightningAttention() as own:
            return _lightning(own, h, t)
        case StateSpace() as own:
            return _state_space(own, h, t)
        case None:
            return Mixing([], 0.0)


def mean_keys(kind: LayerKind, length: int) -> float:
    """Return the mean number of keys that a token attends to.

    Behind a window always as many as it has, once they are there; in parts of a sequence half a part.
    """
    own, most = kind.mixer, length
    if isinstance(own, Attention):
        if own.chunk and own.chunk < length:
            return own.chunk / 2.0
        most = min(length, own.window or length)
    elif isinstance(own, LatentAttention):
        most = min(length, own.index_keys or length)
    return (most * most / 2.0 + (length - most) * float(most)) / length


def experts_of(kind: LayerKind) -> Experts | None:
    """Return the experts of a layer."""
    return kind.mlp if isinstance(kind.mlp, Experts) else None


def parts_of(kind: LayerKind) -> int:
    """Return how many parts of a layer sum up over tensor ranks: mixer, MLP or experts."""
    return sum(part is not None for part in (kind.mixer, kind.mlp))


def layer_on_rank(kind: LayerKind, h: int, t: Floats) -> tuple[Floats, Floats, int]:
    """Return the weights of a layer on one of t ranks, of all but routed experts: matrices, and all; and of experts.

    The first two are float64[R], the last is of all routed experts together, on all ranks.
    Nothing cuts norms, routers, gates, biases behind a sum over ranks, projections to low ranks.
    """
    mixing, mlp, routed = mixing_of(kind, h, t), kind.mlp, 0
    matrices = sum((inputs * outputs for inputs, outputs in mixing.products), np.zeros_like(t))
    small = mixing.small + np.full_like(t, float(kind.norms * h))
    if isinstance(mlp, Mlp):
        rows = 2 + mlp.gated
        matrices = matrices + rows * h * mlp.hidden / t
        small = small + mlp.biases * ((rows - 1) * mlp.hidden / t + h)
    elif mlp is not None:
        rows, width, shared = 2 + mlp.gated, mlp.latent or h, mlp.shared_hidden
        matrices = matrices + rows * h * shared / t + h * (mlp.count + mlp.shared_gate) + 2 * h * mlp.latent
        small = small + mlp.count * (mlp.router_biases + mlp.balanced)
        small = small + (mlp.biases and shared > 0) * ((rows - 1) * shared / t + h)
        routed = mlp.count * (rows * width * mlp.hidden + mlp.biases * ((rows - 1) * mlp.hidden + width))
    return np.asarray(matrices), np.asarray(matrices + small), routed


def kept_elements(kind: LayerKind, h: int, t: Floats, split: Floats, once: Floats) -> Floats:
    """Return the bytes of a token that a layer keeps for its backward pass, scores apart.

    Parts keep what goes into their norm and out of it; layers as GPT has them also two masks of dropout. Where `once`
    is 0 outputs of norms and of functions are computed again.
    """
    mixing, mlp = mixing_of(kind, h, t), kind.mlp
    size = ((2.0 + 2.0 * once) * h * parts_of(kind) + 2.0 * mixing.kept_whole) / split + 2.0 * mixing.kept
    if isinstance(mlp, Mlp):
        dropped = 2.0 * h / split if mlp.biases and not mlp.gated else 0.0
        return np.asarray(size + dropped + (2.0 * once + 2.0 * (1 + mlp.gated)) * mlp.hidden / t)
    if mlp is not None:
        inner = (2.0 * once + 2.0 * (1 + mlp.gated)) * (mlp.shared_hidden + mlp.hidden * mlp.per_token)
        rows = 2.0 * (mlp.latent or h) * (1.0 + mlp.per_token)
        size = size + (inner + rows + 4.0 * mlp.count) / t
    return np.asarray(size)


FIRST_PASS = 2.0 / 5.0
"""Of the bytes between products, those of the forward pass."""

TOKEN_BYTES = {"part": 22.0, "head": 12.0, "inner": 5.4, "copy": 24.0, "channel": 80.0, "word": 14.0, "score": 10.0}
"""Moved for a token in both passes; of a score in the forward pass."""


def memory_rate(problem: LlmTrainingProblem) -> float:
    """Return the bytes a second that a GPU moves."""
    return problem.device.memory_gbytes_per_s * problem.device.reached.memory * 1e9


class GpuSeconds:
    """Seconds of a micro-batch on one GPU, float64[4, R]: forward, gradients of inputs and of weights, recomputed."""

    def __init__(self, problem: LlmTrainingProblem, records: Records) -> None:
        device, formats, reached = problem.device, problem.formats, problem.device.reached
        self.problem, self.r, self.h, self.reached = problem, records, problem.model.hidden, reached
        self.tokens = records.b * problem.batch.length / records.c
        self.wide = device.matrix_tflops * reached.products * 1e12, reached.half_gflops * 1e9
        peak = (device.fp4_tflops if formats.fp4 else device.fp8_tflops if formats.fp8 else None) or (
            device.matrix_tflops
        )
        self.low = peak * reached.low_products * 1e12, reached.low_half_gflops * 1e9
        self.memory = memory_rate(problem)
        self.full = records.again(Recompute.FULL)
        self.some = records.again(Recompute.SELECTIVE)

    def product(
        self, rows: Floats, inner: Floats | float, columns: Floats | float, speed: tuple[float, float]
    ) -> Floats:
        """Return the seconds of one product of matrices; `speed`: operations a second, and those that are added."""
        rate, half = speed
        # Weights are read in three passes; gradients are added once, read and written.
        moved = (3 * 2.0 + 2 * self.problem.formats.gradient_bytes) / 3.0
        reading = np.zeros_like(rows) + moved * inner * columns / self.memory
        squares = ((2.0 * rows * inner * columns + half) / rate) ** 2, reading**2
        return np.asarray(np.sqrt(np.hypot(*squares)))

    def layer(self, kind: LayerKind) -> Floats:
        """Return the seconds of a layer."""
        mlp, own, e = kind.mlp, self.tokens / self.r.t, self.reached
        mixing, alone = mixing_of(kind, self.h, self.r.t), mixing_of(kind, self.h, np.ones(1)).products
        matrices = self._sum(mixing.products)
        widths = sum(float(np.sum(inner)) + float(np.sum(outer)) for inner, outer in alone)
        fused = TOKEN_BYTES["head"] * mixing.around
        extra, launch = e.state_between * TOKEN_BYTES["channel"] * mixing.channels, 0.0
        if isinstance(mlp, Mlp):
            matrices = matrices + self._sum(self._inner(mlp.hidden, mlp.gated))
            widths += 2 * self.h + (2 + mlp.gated) * mlp.hidden
            fused += TOKEN_BYTES["inner"] * (2 + mlp.gated) * mlp.hidden
        elif mlp is not None:
            matrices = matrices + self._sum(self._inner(mlp.shared_hidden, mlp.gated)) + self._routed(mlp)
            copy = mlp.latent or self.h
            widths += mlp.per_token * (2 * copy + (2 + mlp.gated) * mlp.hidden)
            values = (2 + mlp.gated) * TOKEN_BYTES["inner"]
            fused += values * mlp.shared_hidden
            extra += e.expert_between * mlp.per_token * (values * mlp.hidden + TOKEN_BYTES["copy"] * copy)
            launch = e.expert_us / 1e6
        launch += e.layer_us / 2e6 * ((kind.mixer is not None) + isinstance(mlp, Mlp))
        spread = np.where(self.r.split > 0, self.r.t, 1.0)
        around = e.between * TOKEN_BYTES["part"] * parts_of(kind) * self.h * self.tokens / spread
        between = (around + own * (e.between * fused + extra)) / self.memory
        low = 2.0 * own * e.quantised * widths / self.memory  # of either pass; both are 4 bytes
        core, back = self._core(kind, mixing)
        share = np.where(self.full, 1.0, np.where(self.some, e.again, 0.0))
        scores = self.full if self.problem.formats.flash else self.full | self.some
        again = share * (matrices + FIRST_PASS * between + launch / 3.0) + np.where(scores, core, 0.0)
        first = matrices + core + FIRST_PASS * between + low + launch / 2.0
        inputs = matrices + back + (1.0 - FIRST_PASS) * between + low + launch / 2.0
        return e.computing * np.stack([first, inputs, matrices, again])

    def attention(self, kind: LayerKind) -> tuple[Floats, Floats]:
        """Return what a layer computes before its MLP or experts: forward, and gradients of the inputs."""
        mixing = mixing_of(kind, self.h, self.r.t)
        (core, back), products = self._core(kind, mixing), self._sum(mixing.products)
        return self.reached.computing * (products + core), self.reached.computing * (products + back)

    def ends(self) -> tuple[Floats, Floats]:
        """Return the seconds of the embedding, and of the head with the loss."""
        none, words = np.zeros_like(self.tokens), self.problem.model.vocabulary / self.r.t
        rows = 4.0 * self.tokens * self.h / self.memory
        matrix = self.product(self.tokens, self.h, words, self.wide)
        loss = TOKEN_BYTES["word"] * self.reached.between * self.tokens * words / self.memory
        head = np.stack([matrix + FIRST_PASS * loss, matrix + (1.0 - FIRST_PASS) * loss, matrix, none])
        return np.stack([rows, none, 2 * rows, none]), self.reached.computing * head

    def handing_over(self, sent: Floats) -> Floats:
        """Return the seconds of a stage besides those that so many bytes are on their way."""
        cluster = self.problem.cluster
        gbps = cluster.degree * cluster.link_gbps / cluster.gpus_per_server
        if cluster.gpus_per_server > 8:  # its links span racks
            gbps = cluster.intra_server_gbps * self.reached.scale_up_2
        waited = np.where(self.r.p > 1, self.reached.hop * sent * 8 / (gbps * 1e9), 0.0)
        return np.stack([waited, waited, 0.0 * waited, 0.0 * waited])

    def _sum(self, sizes: Iterable[Product]) -> Floats:
        seconds = [self.product(self.tokens, inner, outer, self.low) for inner, outer in sizes]
        return np.asarray(sum(seconds, 0.0 * self.tokens))

    def _inner(self, hidden: int, gated: bool) -> list[Product]:
        part = hidden / self.r.t
        return [(self.h, part + gated * part), (part, self.h)] if hidden else []

    def _routed(self, experts: Experts) -> Floats:
        r, copy = self.r, float(experts.latent or self.h)
        own, local = self.tokens / r.t, experts.count / r.x
        seconds = self.product(own, self.h, float(experts.count + experts.shared_gate), self.wide)
        if experts.latent:
            seconds = seconds + 2.0 * self.product(own, self.h, copy, self.low)
        rows, part = own * experts.per_token * r.y / local, experts.hidden / r.y
        speed = self.low[0] * self.reached.grouped, self.low[1]
        first = self.product(rows, copy, part + experts.gated * part, speed)
        return seconds + local * (first + self.product(rows, part, copy, speed))

    def _core(self, kind: LayerKind, mixing: Mixing) -> tuple[Floats, Floats]:
        length, own = self.problem.batch.length, self.tokens / self.r.t
        written = not self.problem.formats.flash and mixing.heads > 0
        keys = float(length) if written else mean_keys(kind, length)
        work = 2.0 * keys * mixing.pairs + mixing.indexed * length
        slower = 1.0 + self.reached.half_keys / length
        forward = own * work * slower / (self.problem.device.matrix_tflops * self.reached.attention * 1e12)
        if written:
            scores = own * length * mixing.heads
            forward = forward + TOKEN_BYTES["score"] * self.reached.between * scores / self.memory
        return forward, 2.5 * forward
