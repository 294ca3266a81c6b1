"""Seconds that the layers of a model take on one GPU, as the checker recomputes them.

A product of (r, k) by (k, n) matrices takes (2 r k n + half) / rate, or 2 (r k + k n + r n) bytes over the rate of
memory where that is longer; attention its operations over a rate of its own; what lies between, its bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import Recompute
from topoopt.verify.llm_training.model_sizes import mean_keys
from topoopt.verify.llm_training.space import Records

HALF_PRECISION = 2.0
"""Bytes of an element."""

SCORE_TRAFFIC = 13.0
"""Bytes for each score of attention that is written (softmax, dropout with its mask), where it works without tiles."""


@dataclass(frozen=True, eq=False)
class Seconds:
    """Of one micro-batch: forward, gradients of inputs, gradients of weights, what is computed again."""

    forward: Floats
    inputs: Floats
    weights: Floats
    again: Floats

    def times(self, factor: Floats | float) -> Seconds:
        """All parts so many times."""
        return Seconds(self.forward * factor, self.inputs * factor, self.weights * factor, self.again * factor)

    def __add__(self, other: Seconds) -> Seconds:
        return Seconds(
            self.forward + other.forward,
            self.inputs + other.inputs,
            self.weights + other.weights,
            self.again + other.again,
        )

    @property
    def back(self) -> Floats:
        """Both gradients."""
        return self.inputs + self.weights


class GpuSeconds:
    """What a GPU does with the matrices of an instance."""

    def __init__(self, problem: LlmTrainingProblem, records: Records) -> None:
        device, reached = problem.device, problem.device.reached
        self.problem, self.r = problem, records
        self.tokens = records.b * problem.batch.length / records.c
        self.wide = device.matrix_tflops * reached.products * 1e12
        eight = problem.formats.fp8 and device.fp8_tflops is not None
        self.rate = (device.fp8_tflops or 0.0) * reached.fp8_products * 1e12 if eight else self.wide
        self.half = reached.half_gflops * 1e9
        self.memory = device.memory_gbytes_per_s * reached.memory * 1e9

    def product(self, rows: Floats, inner: Floats | float, columns: Floats | float, rate: float) -> Floats:
        """Seconds of one product of matrices."""
        computing = (2.0 * rows * inner * columns + self.half) / rate
        moving = HALF_PRECISION * (rows * (inner + columns) + inner * columns) / self.memory
        return np.asarray(np.maximum(computing, moving))

    def layer(self, *, routed: bool) -> Seconds:
        """A dense layer, or one of experts."""
        reached = self.problem.device.reached
        matrices = self._attention() + (self._experts() if routed else self._mlp(self.problem.model.ffn_hidden))
        here, back = self._core()
        between = self._between(routed=routed)
        # Each expert of a GPU starts products of its own, for gradients of weights too.
        starts = reached.expert_us / 1e6 * self._local() if routed else np.zeros_like(here)
        launch = reached.pass_us / 1e6 + starts
        forward = matrices + here + between + launch
        again = np.where(self.r.again(Recompute.FULL), forward, 0.0)
        if not self.problem.formats.flash:
            again = np.where(self.r.again(Recompute.SELECTIVE), here, again)
        return Seconds(forward, matrices + back + 1.5 * between + launch, matrices + starts, again)

    def attention(self) -> tuple[Floats, Floats]:
        """What a layer computes before its MLP or experts: forward, and gradients of the inputs."""
        here, back = self._core()
        return self._attention() + here, self._attention() + back

    def ends(self) -> tuple[Seconds, Seconds]:
        """The embedding, and the head with the loss."""
        model, none = self.problem.model, np.zeros_like(self.tokens)
        rows = 2 * HALF_PRECISION * self.tokens * model.hidden / self.memory
        part = model.vocabulary / self.r.t
        matrix = self.product(self.tokens, model.hidden, part, self.wide)
        loss = 12.0 * self.tokens * part / self.memory
        return Seconds(rows, none, 2 * rows, none), Seconds(matrix + loss, matrix + loss, matrix, none)

    def _attention(self) -> Floats:
        model, n, t = self.problem.model, self.tokens, self.r.t
        h, latent = model.hidden, model.latent
        if latent is None:
            queries = model.heads * model.head_size / t
            keys = np.maximum(1.0, model.kv_heads / t) * model.head_size
            return self.product(n, h, queries + keys + keys, self.rate) + self.product(n, queries, h, self.rate)
        own = model.heads / t
        low = float(latent.query_rank + latent.key_value_rank + latent.rotary_size)
        sizes = (
            (h, low),
            (latent.query_rank or h, own * (latent.plain_size + latent.rotary_size)),
            (latent.key_value_rank, own * (latent.plain_size + latent.value_size)),
            (own * latent.value_size, h),
        )
        return np.asarray(sum(self.product(n, inner, columns, self.rate) for inner, columns in sizes))

    def _mlp(self, width: float) -> Floats:
        model, part = self.problem.model, width / self.r.t
        up = self.product(self.tokens, model.hidden, part * (1 + model.gated), self.rate)
        return up + self.product(self.tokens, part, model.hidden, self.rate)

    def _experts(self) -> Floats:
        model, r = self.problem.model, self.r
        experts = model.experts
        assert experts is not None
        mine, local = self.tokens / r.t, self._local()
        rows, width = mine * experts.per_token * r.y / local, experts.hidden / r.y
        group = self.product(rows, model.hidden, width * (1 + model.gated), self.rate)
        group = local * (group + self.product(rows, width, model.hidden, self.rate))
        found = group + self.product(mine, model.hidden, float(experts.count), self.wide)
        if experts.shared > 0:
            found = found + self._mlp(float(experts.shared * experts.hidden))
        return found

    def _local(self) -> Floats:
        """Experts of a GPU in a layer."""
        experts = self.problem.model.experts
        return np.zeros_like(self.r.x) if experts is None else experts.count / self.r.x

    def _core(self) -> tuple[Floats, Floats]:
        model, problem = self.problem.model, self.problem
        latent, length = model.latent, problem.batch.length
        widths = 2 * model.head_size
        if latent is not None:
            widths = latent.plain_size + latent.rotary_size + latent.value_size
        own = self.tokens * length * model.heads / self.r.t
        if problem.formats.flash:
            part = 2.0 * mean_keys(model, length) / length  # of the square; tiles before a window are left out
            forward = own * part * widths / (problem.device.matrix_tflops * problem.device.reached.attention * 1e12)
            return forward, 2.5 * forward
        forward = 2.0 * own * widths / self.rate + SCORE_TRAFFIC * own / self.memory
        return forward, 2.0 * forward

    def _between(self, *, routed: bool) -> Floats:
        model, r = self.problem.model, self.r
        norms = 10.0 * self.tokens * model.hidden / np.where(r.split > 0, r.t, 1.0)
        inner, mine = 2 + model.gated, self.tokens / r.t
        experts = model.experts
        if routed and experts is not None:
            width = experts.hidden * (experts.per_token + experts.shared)
            activations = mine * (inner * width + 4.0 * experts.per_token * model.hidden)
        else:
            activations = mine * inner * model.ffn_hidden
        return HALF_PRECISION * (norms + activations) / self.memory
