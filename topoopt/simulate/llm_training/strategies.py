"""Strategies as columns, so that many are evaluated at once, and the seconds of each kind of layer on a rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import Problem
from topoopt.core.llm_training import (
    END_SLOTS,
    Attention,
    DeltaAttention,
    Experts,
    LanguageModel,
    LatentAttention,
    LayerKind,
    LightningAttention,
    LlmTrainingProblem,
    Mixer,
    Mlp,
    StateSpace,
)
from topoopt.core.parallelism import RANK_ORDERS, ParallelStrategy, PipelineSchedule, PipelineShape, Recompute
from topoopt.native import pipeline as native
from topoopt.simulate.pipeline import schedule_problems
from topoopt.workloads.language_models import (
    Matrix,
    core_operations,
    expert_matrices,
    mixer_matrices,
    mlp_matrices,
    router_matrices,
    score_widths,
    state_operations,
)

Column = NDArray[np.float64]

SCHEDULE_CODES = {schedule: code for code, schedule in enumerate(PipelineSchedule)}
BOTH_ENDS = (PipelineSchedule.DUALPIPE, PipelineSchedule.DUALPIPE_V)
"""Schedules in which micro-batches enter at both ends, or turn there."""

RECOMPUTE_CODES = {recompute: code for code, recompute in enumerate(Recompute)}


@dataclass(frozen=True, eq=False)
class StrategyColumns:
    """One value a strategy.

    Attributes:
        tensor, sequence, context, pipeline, chunks, data, expert, expert_tensor, zero, micro_batch: as in
            `ParallelStrategy`; `sequence` is 0 or 1.
        schedule, recompute: places in their enumerations.
        first_layers, inner_layers, last_layers: layers on the first rank of a pipeline, on the fullest of those
            between, on the last one.
        order: of the ranks, a place in `RANK_ORDERS`.
        stages: int64[R, most stages], layers of every stage; None: those between the ends are as even as can be.
    """

    tensor: Column
    sequence: Column
    context: Column
    pipeline: Column
    chunks: Column
    data: Column
    expert: Column
    expert_tensor: Column
    zero: Column
    micro_batch: Column
    schedule: Column
    recompute: Column
    first_layers: Column
    inner_layers: Column
    last_layers: Column
    order: Column
    stages: Ints | None = None

    @property
    def copies(self) -> Column:
        """Of the model along the ranks of a pipeline: DualPipe holds two."""
        return np.where(self.scheduled(PipelineSchedule.DUALPIPE), 2.0, 1.0)

    @property
    def replicas(self) -> Column:
        """Ranks that hold the same weights, but for experts."""
        return self.copies * self.data * self.context

    @property
    def expert_replicas(self) -> Column:
        return self.tensor * self.replicas / (self.expert * self.expert_tensor)

    def rows(self, rows: Ints) -> StrategyColumns:
        parts: dict[str, Any] = {name: None if part is None else part[rows] for name, part in vars(self).items()}
        return replace(self, **parts)

    def scheduled(self, *schedules: PipelineSchedule) -> NDArray[np.bool_]:
        """Whether the schedule is one of these."""
        mask = np.zeros(len(self.schedule), dtype=bool)
        for schedule in schedules:
            mask |= self.schedule == SCHEDULE_CODES[schedule]
        return mask

    def recomputes(self, recompute: Recompute) -> NDArray[np.bool_]:
        """Whether this is what is computed again."""
        return np.asarray(self.recompute == RECOMPUTE_CODES[recompute])


def loads_of_ranks(columns: StrategyColumns) -> Ints:
    """int64[R, most ranks]: layers of every rank, of strategies whose stages are told."""
    assert columns.stages is not None
    return native.loads_of_ranks(columns.pipeline.astype(np.int64), np.ascontiguousarray(columns.stages))


def with_stages(columns: StrategyColumns, stages: Ints) -> StrategyColumns:
    """The same with layers of every stage told, int64[R, most stages]."""
    own = replace(columns, stages=stages)
    loads, p = loads_of_ranks(own).astype(np.float64), columns.pipeline.astype(np.int64)
    lines, ranks = np.arange(len(p)), np.arange(loads.shape[1])
    between = (ranks[None] > 0) & (ranks[None] < p[:, None] - 1)
    inner = np.where(p > 2, np.where(between, loads, 0.0).max(axis=1), loads.max(axis=1))
    return replace(own, first_layers=loads[:, 0], inner_layers=inner, last_layers=loads[lines, p - 1])


def even_layers(layers: int, pipeline: Column, chunks: Column) -> tuple[Column, Column, Column]:
    """Layers of the first rank, of the fullest between, and of the last, as even as can be.

    Where chunks cannot be equal the last rank is the first to be short, for the head, then the first, for the
    embedding (arXiv:2407.21783, section 3.3.2), then the others; then all ranks once more.
    """
    stages = pipeline * chunks
    most = np.ceil(layers / stages)
    rounds, rest = np.divmod(stages * most - layers, pipeline)
    inner = chunks * most - rounds
    return inner - (rest >= 2), inner, inner - (rest >= 1)


def short_ends(
    layers: int, pipeline: Column, chunks: Column, fewer: tuple[Column, Column]
) -> tuple[Column, Column, Column, NDArray[np.bool_]]:
    """The same where the first and the last rank have so many layers fewer than the fullest of the others, and whether
    that can be: no chunk is empty but for one at each end, and no other numbers come to the same."""
    i, j = fewer
    inner = np.ceil((layers + i + j) / pipeline)
    missing = pipeline * inner - (layers + i + j)
    between = np.where(pipeline > 2, missing < pipeline - 2, (missing == 0) & (np.minimum(i, j) == 0))
    able = between & (np.minimum(inner - i, inner - j) >= chunks - 1)
    able &= (pipeline <= 2) | (inner - (missing > 0) >= chunks)
    return inner - i, inner, inner - j, able & (pipeline > 1)


def stage_layers(layers: int, pipeline: int, chunks: int, ends: tuple[int, int] | None = None) -> tuple[int, ...]:
    """Layers of every chunk in the order of the model, for loads of the first and the last rank; None: even ones.

    Where chunks of a rank differ, all ranks have the longer ones at the same turns, as ranks that go round in step wait
    for the slowest at each turn: the last turns, but for the last rank not the one that the head stands behind.
    """
    if ends is None:
        first, _, last = even_layers(layers, np.array([float(pipeline)]), np.array([float(chunks)]))
        ends = (int(first[0]), int(last[0]))
    p, v, first, last = np.array([[pipeline], [chunks], [ends[0]], [ends[1]]], dtype=np.int64)
    return tuple(native.even_stages(layers, p, v, first, last)[0].tolist())


def columns_of(strategies: Sequence[ParallelStrategy], layers: int) -> StrategyColumns:
    """Columns of strategies of a model of so many layers."""

    def column(name: str) -> Column:
        return np.array([float(getattr(strategy, name)) for strategy in strategies])

    pipeline, chunks = column("pipeline"), column("chunks")
    stages = np.zeros((len(strategies), int((pipeline * chunks).max(initial=1))), dtype=np.int64)
    for row, strategy in enumerate(strategies):
        counts = strategy.stage_layers or stage_layers(layers, strategy.pipeline, strategy.chunks)
        stages[row, : len(counts)] = counts
    names = ("tensor", "sequence", "context", "data", "expert", "expert_tensor", "zero", "micro_batch")
    tensor, sequence, context, data, expert, expert_tensor, zero, micro_batch = map(column, names)
    schedule = np.array([float(SCHEDULE_CODES[strategy.schedule]) for strategy in strategies])
    recompute = np.array([float(RECOMPUTE_CODES[strategy.recompute]) for strategy in strategies])
    order, none = np.array([float(RANK_ORDERS.index(strategy.order)) for strategy in strategies]), np.zeros_like(zero)
    columns = StrategyColumns(
        tensor, sequence, context, pipeline, chunks, data, expert, expert_tensor, zero, micro_batch, schedule,
        recompute, none, none, none, order,
    )  # fmt: skip
    return with_stages(columns, stages)


PARTS = {"stages": "pipeline", "chunks": "chunks", "micro-batches": "micro_batch", "group": "schedule"}
"""Sizes of a pipeline by the part of a strategy that sets them."""


def strategy_problems(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> list[Problem]:
    """All that is wrong with a strategy; paths are those of its parts."""
    return [
        *_of_model(problem.model, strategy),
        *_of_ranks(problem, strategy),
        *_of_batch(problem, strategy),
        *_of_pipeline(problem, strategy),
    ]


def _divides(part: str, count: int, whole: int, what: str) -> Iterator[Problem]:
    if whole % count:
        yield Problem(f"does not divide {what}", path=part, value=str(count), allowed=f"divisors of {whole}")


def _of_model(model: LanguageModel, strategy: ParallelStrategy) -> Iterator[Problem]:
    t = strategy.tensor
    for heads in model.heads:
        yield from _divides("tensor", t, heads, f"the {heads} heads")
    yield from _divides("tensor", t, model.hidden, f"the width {model.hidden}")
    for inner in model.inner:
        yield from _divides("tensor", t, inner, f"the inner width {inner}")
    for heads in model.kv_heads:
        if heads % t and t % heads:
            allowed = f"a divisor or a multiple of {heads}"
            yield Problem("does not go with the heads of keys and values", path="tensor", value=str(t), allowed=allowed)
    experts = model.experts
    if experts is None:
        for part, count in (("expert", strategy.expert), ("expert_tensor", strategy.expert_tensor)):
            if count > 1:
                yield Problem("the model has no experts", path=part, value=str(count), allowed="1")
    else:
        yield from _divides("expert", strategy.expert, experts.count, f"the {experts.count} experts")
        y, inner = strategy.expert_tensor, experts.hidden
        yield from _divides("expert_tensor", y, inner, f"the inner width {inner} of experts")


def _of_ranks(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> Iterator[Problem]:
    gpus = problem.cluster.gpus
    if strategy.gpus != gpus:
        text = "tensor x context x pipeline x data is not the number of GPUs"
        yield Problem(text, path="data", value=str(strategy.gpus), allowed=str(gpus))
        return
    of_stage = gpus // strategy.pipeline
    if of_stage % (strategy.expert * strategy.expert_tensor):
        text = f"expert x expert_tensor does not divide the {of_stage} GPUs of a stage"
        value = str(strategy.expert * strategy.expert_tensor)
        yield Problem(text, path="expert", value=value, allowed=f"divisors of {of_stage}")
    if strategy.zero and strategy.data * strategy.context == 1:
        yield Problem("nothing to share with one replica", path="zero", value=str(strategy.zero), allowed="0")


def _of_batch(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> Iterator[Problem]:
    batch, s = problem.batch, problem.batch.length
    if batch.sequences % (strategy.data * strategy.micro_batch):
        text = f"data x micro_batch does not divide the {batch.sequences} sequences of an iteration"
        value = f"{strategy.data} x {strategy.micro_batch}"
        yield Problem(text, path="micro_batch", value=value, allowed=f"divisors of {batch.sequences}")
    c = strategy.context
    if c > 1 and s % (2 * c):
        # A rank takes one part from the head and one from the tail, so that causal attention is even.
        yield Problem("does not cut a sequence into 2c parts", path="context", value=str(c), allowed=f"2c divides {s}")
    tokens = strategy.micro_batch * s // c
    if strategy.sequence and tokens % strategy.tensor:
        text = f"the {tokens} tokens of a micro-batch are not divisible by tensor"
        yield Problem(text, path="sequence", value=str(strategy.tensor), allowed=f"divisors of {tokens}")
    if strategy.sequence and strategy.tensor == 1:
        yield Problem("plays no part with tensor 1", path="sequence", value="true", allowed="false")


def _of_pipeline(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> Iterator[Problem]:
    p, v, layers = strategy.pipeline, strategy.chunks, problem.model.layers
    slots = layers + END_SLOTS
    if p * v > slots:
        text = f"more stages than layers: {p} x {v} chunks for {layers} layers, embedding and head"
        yield Problem(text, path="pipeline", value=str(p * v), allowed=f"at most {slots}")
    if p == 1:
        if v > 1:
            yield Problem("one stage has one run of layers", path="chunks", value=str(v), allowed="1")
        if strategy.schedule is not PipelineSchedule.ONE_F_ONE_B:
            text = "plays no part with one stage"
            yield Problem(text, path="schedule", value=strategy.schedule.value, allowed="1f1b")
        return
    if strategy.schedule is PipelineSchedule.INTERLEAVED and v == 1:
        yield Problem("with one run of layers it is 1f1b", path="chunks", value="1", allowed="2 or more")
    m = problem.batch.sequences // (strategy.data * strategy.micro_batch)
    if m:
        for message in schedule_problems(strategy.schedule, PipelineShape(p, m, v)):
            yield replace(message, path=PARTS[message.path or ""])
    if strategy.stage_layers and (len(strategy.stage_layers) != p * v or sum(strategy.stage_layers) != layers):
        value = f"{len(strategy.stage_layers)} chunks, {sum(strategy.stage_layers)} layers"
        yield Problem("not all layers on all chunks", path="stage_layers", value=value, allowed=f"{p * v}, {layers}")


PassTimes = Floats
"""float64[4, R], seconds of one micro-batch: the forward pass, gradients of inputs, gradients of weights, and what the
backward pass computes again."""

BYTES_PER_GBIT = 1.25e8

LARGE_GROUP = 8
"""Ranks from which on groups reach most of the rate inside a server."""

ELEMENT = 2.0
SHARPNESS = 4.0
"""Power of the mean of what goes on at once."""

FLASH_BACKWARD = 2.5
"""Products of the backward pass of attention over those of the forward pass, with its scores computed again."""

SCORE_BYTES = 10.0
"""Moved for each score of attention that is written: product, softmax, dropout with its mask, product."""

# Bytes of a token that fused kernels move in both passes: of a width h for each part of a layer, of queries, keys and
# values, of an inner width and product of an MLP, of a token's copy at an expert, of a channel of states, of a logit.
HIDDEN_BYTES, HEAD_BYTES, INNER_BYTES, COPY_BYTES, STATE_BYTES, LOGIT_BYTES = 22.0, 12.0, 5.4, 24.0, 80.0, 14.0
QUANTISED_BYTES = 4.0
"""Of an input or output of a product in 8 or 4 bits: read, written and transposed."""

AHEAD = 0.4
"""Share of these bytes that the forward pass moves."""

WEIGHT_PASSES = 3.0
"""Passes that read a weight of 2 bytes; the last of them adds its gradient to what is there, read and written."""

LAUNCHED_AGAIN = 1.0 / 3.0
"""Fixed cost of what is computed again over that of both passes."""


def hop_bytes(problem: LlmTrainingProblem, columns: StrategyColumns) -> Column:
    """Bytes of a micro-batch to the next stage, of a chunk."""
    tokens = columns.micro_batch * problem.batch.length / columns.context
    activations = tokens * problem.model.hidden * ELEMENT
    return np.where(columns.sequence > 0, activations / columns.tensor, activations)


class LayerTimes:
    """Times of layers of a model on a device.

    Args:
        problem: of whose model, device, formats and length of sequences.
        columns: strategies.
    """

    def __init__(self, problem: LlmTrainingProblem, columns: StrategyColumns) -> None:
        device, formats, reached = problem.device, problem.formats, problem.device.reached
        self._columns, self._length, self._reached = columns, problem.batch.length, reached
        self._hidden, self._vocabulary = problem.model.hidden, problem.model.vocabulary
        self._flash = formats.flash
        cluster = problem.cluster
        # In a server that spans racks stages reach each other by its links.
        inside = cluster.intra_server_gbps * reached.scale_up_2
        spans = cluster.gpus_per_server > LARGE_GROUP
        self._interface_rate = (inside if spans else cluster.gpu_gbps) * BYTES_PER_GBIT
        low = device.fp4_tflops if formats.fp4 else device.fp8_tflops if formats.fp8 else None
        self._rate = (device.matrix_tflops if low is None else low) * reached.low_products * 1e12
        self._wide_rate = device.matrix_tflops * reached.products * 1e12
        self._half, self._wide_half = reached.low_half_gflops * 1e9, reached.half_gflops * 1e9
        # Half of the efficiency is reached at so many tokens: as much longer do shorter sequences take.
        self._attention_rate = device.matrix_tflops * reached.attention * 1e12
        self._attention_rate /= 1.0 + reached.half_keys / self._length
        self._memory_rate = device.memory_gbytes_per_s * reached.memory * 1e9
        self._weight_bytes = ELEMENT + 2.0 * formats.gradient_bytes / WEIGHT_PASSES
        self.tokens = columns.micro_batch * self._length / columns.context
        self._split = np.where(columns.sequence > 0, columns.tensor, 1.0)
        full, selective = columns.recomputes(Recompute.FULL), columns.recomputes(Recompute.SELECTIVE)
        self._again = np.where(full, 1.0, np.where(selective, reached.again, 0.0))
        self._core_again = np.where(full, 1.0, np.where(selective & (not self._flash), 1.0, 0.0))

    def layer(self, kind: LayerKind) -> PassTimes:
        products, (core, core_back), other = self._products(kind), self._core(kind.mixer), self._between(kind)
        fixed, quantised = self._fixed(kind), self._quantised(kind) / 2.0
        forward = products + core + AHEAD * other + quantised + fixed / 2.0
        inputs = products + core_back + (1.0 - AHEAD) * other + quantised + fixed / 2.0
        again = self._again * (products + AHEAD * other + LAUNCHED_AGAIN * fixed) + self._core_again * core
        return self._reached.computing * np.stack([forward, inputs, products, again])

    def head(self) -> PassTimes:
        """Projection to the vocabulary, and the loss."""
        words = self._vocabulary / self._columns.tensor
        product = self._wide_product(self.tokens, self._hidden, words)
        loss = self._moved(self.tokens * words * LOGIT_BYTES * self._reached.between)
        passes = product + AHEAD * loss, product + (1.0 - AHEAD) * loss, product, np.zeros_like(product)
        return self._reached.computing * np.stack(passes)

    def attention(self, kind: LayerKind) -> tuple[Column, Column]:
        """Computing of a layer before its MLP or experts: forward, and gradients of the inputs."""
        products = self._plain(mixer_matrices(kind.mixer, self._hidden, self._columns.tensor))
        core, back = self._core(kind.mixer)
        return self._reached.computing * (products + core), self._reached.computing * (products + back)

    def handing_over(self, sent: Column) -> PassTimes:
        """What a stage takes to hand so many bytes over, beside the seconds on their way."""
        waited = self._reached.hop * sent / self._interface_rate * (self._columns.pipeline > 1)
        none = np.zeros_like(waited)
        return np.stack([waited, waited, none, none])

    def embedding(self) -> PassTimes:
        """Rows that are looked up, and gradients added to them."""
        moved = self._moved(self.tokens * self._hidden * 2 * ELEMENT)
        return np.stack([moved, np.zeros_like(moved), 2 * moved, np.zeros_like(moved)])

    def _moved(self, moved_bytes: Column) -> Column:
        return np.asarray(moved_bytes / self._memory_rate)

    def _product(
        self, rows: Column, inner: Column | float, columns: Column | float, rate: float, half: float
    ) -> Column:
        """As long as its operations take, or its weights: longer than either where both take as long."""
        computing = (2.0 * rows * inner * columns + half) / rate
        reading = self._moved(self._weight_bytes * inner * columns + 0.0 * rows)
        return np.asarray((computing**SHARPNESS + reading**SHARPNESS) ** (1.0 / SHARPNESS))

    def _wide_product(self, rows: Column, inner: Column | float, columns: Column | float) -> Column:
        return self._product(rows, inner, columns, self._wide_rate, self._wide_half)

    def _plain(self, matrices: Iterable[Matrix]) -> Column:
        """Products of all tokens of a rank."""
        seconds = np.zeros_like(self.tokens)
        for inner, outer in matrices:
            seconds = seconds + self._product(self.tokens, inner, outer, self._rate, self._half)
        return seconds

    def _products(self, kind: LayerKind) -> Column:
        h, t, mlp = self._hidden, self._columns.tensor, kind.mlp
        seconds = self._plain(mixer_matrices(kind.mixer, h, t))
        if isinstance(mlp, Mlp):
            return seconds + self._plain(mlp_matrices(mlp.hidden, h, t, gated=mlp.gated))
        if mlp is None:
            return seconds
        return seconds + self._plain(mlp_matrices(mlp.shared_hidden, h, t, gated=mlp.gated)) + self._routed(mlp)

    def _routed(self, experts: Experts) -> Column:
        """The router in 16 bits, projections to a latent width, and the experts of a rank, one after another."""
        columns = self._columns
        own, local = self.tokens / columns.tensor, experts.count / columns.expert
        rows = own * experts.per_token * columns.expert_tensor / local
        (inner, outer), *latent = router_matrices(experts, self._hidden)
        seconds = self._wide_product(own, inner, outer)
        for inner, outer in latent:
            seconds = seconds + self._product(own, inner, outer, self._rate, self._half)
        rate = self._rate * self._reached.grouped
        for inner, outer in expert_matrices(experts, self._hidden, columns.expert_tensor):
            seconds = seconds + local * self._product(rows, inner, outer, rate, self._half)
        return seconds

    def _core(self, mixer: Mixer | None) -> tuple[Column, Column]:
        if not isinstance(mixer, Attention | LatentAttention):  # what states take is in their bytes
            return np.zeros_like(self.tokens), np.zeros_like(self.tokens)
        own = self.tokens / self._columns.tensor
        if self._flash:
            seconds = own * core_operations(mixer, self._length) / self._attention_rate
            return seconds, FLASH_BACKWARD * seconds
        # All scores are written: what is masked, by causality or a window, is computed too.
        work = 2.0 * self._length * score_widths(mixer) + state_operations(mixer, self._length)
        moved = self._moved(own * self._length * mixer.heads * SCORE_BYTES * self._reached.between)
        seconds = own * work / self._attention_rate + moved
        return seconds, FLASH_BACKWARD * seconds

    def _between(self, kind: LayerKind) -> Column:
        """What norms, functions and copies move."""
        reached, own, mixer, mlp = self._reached, self.tokens / self._columns.tensor, kind.mixer, kind.mlp
        parts = (mixer is not None) + (mlp is not None)
        seconds = self._moved(reached.between * HIDDEN_BYTES * parts * self._hidden * self.tokens / self._split)
        seconds = seconds + self._moved(own * _mixer_bytes(mixer, reached.between, reached.state_between))
        if isinstance(mlp, Mlp):
            return seconds + self._moved(own * reached.between * INNER_BYTES * (2 + mlp.gated) * mlp.hidden)
        if mlp is None:
            return seconds
        width = INNER_BYTES * (2 + mlp.gated)
        shared = reached.between * width * mlp.shared_hidden
        routed = mlp.per_token * (width * mlp.hidden + COPY_BYTES * (mlp.latent or self._hidden))
        return seconds + self._moved(own * (shared + reached.expert_between * routed))

    def _quantised(self, kind: LayerKind) -> Column:
        """What formats of 8 and 4 bits move for scales, casts and transposes."""
        h, mlp, widths, alone = self._hidden, kind.mlp, 0.0, np.ones(1)
        matrices = mixer_matrices(kind.mixer, h, alone)
        if isinstance(mlp, Mlp):
            matrices = matrices + mlp_matrices(mlp.hidden, h, alone, gated=mlp.gated)
        elif mlp is not None:
            widths = mlp.per_token * _widths(expert_matrices(mlp, h, alone))
        widths += _widths(matrices)
        return self._moved(self.tokens / self._columns.tensor * QUANTISED_BYTES * self._reached.quantised * widths)

    def _fixed(self, kind: LayerKind) -> float:
        parts = (kind.mixer is not None) + isinstance(kind.mlp, Mlp)
        return (self._reached.layer_us * parts / 2.0 + self._reached.expert_us * (kind.experts is not None)) * 1e-6


def _widths(matrices: Iterable[Matrix]) -> float:
    """Inputs and outputs of products, together."""
    return float(sum(np.sum(inner) + np.sum(outer) for inner, outer in matrices))


def _mixer_bytes(mixer: Mixer | None, between: float, state: float) -> float:
    """Of a token, around the core of a mixer: heads of queries, keys and values, or channels of states."""
    match mixer:
        case Attention():
            width = mixer.queries * (1 + mixer.gated) + 2 * mixer.kv_heads * mixer.head_size
            return between * HEAD_BYTES * width
        case LatentAttention():
            return between * HEAD_BYTES * mixer.heads * (2 * mixer.key_size + mixer.value_size)
        case DeltaAttention():
            return state * STATE_BYTES * mixer.values
        case LightningAttention():
            return state * STATE_BYTES * mixer.queries
        case StateSpace():
            return state * STATE_BYTES * mixer.inner
        case None:
            return 0.0


def part_times(problem: LlmTrainingProblem, columns: StrategyColumns) -> list[PassTimes]:
    """Of layers of each kind, of the embedding, of the head, and of what a chunk costs anyway."""
    times = LayerTimes(problem, columns)
    ends = times.embedding(), times.head(), times.handing_over(hop_bytes(problem, columns))
    return [*map(times.layer, problem.model.kinds), *ends]
