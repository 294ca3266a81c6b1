"""Seconds of layers on a rank: products of matrices, the core of attention, what lies between, and fixed costs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.language_models import (
    Attention,
    DeltaAttention,
    Experts,
    LatentAttention,
    LayerKind,
    LightningAttention,
    Mixer,
    Mlp,
    StateSpace,
)
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import Recompute
from topoopt.simulate.llm_training.costs import BYTES_PER_GBIT, LARGE_GROUP, hop_bytes
from topoopt.simulate.llm_training.strategies import Column, StrategyColumns
from topoopt.workloads.layer_kinds import (
    Matrix,
    core_operations,
    expert_matrices,
    mixer_matrices,
    mlp_matrices,
    router_matrices,
    score_widths,
    state_operations,
)

PassTimes = Floats
"""float64[4, R], seconds of one micro-batch: the forward pass, gradients of inputs, gradients of weights, and what the
backward pass computes again."""

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
