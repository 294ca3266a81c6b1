"""Seconds that a GPU computes, by the checker's own model: layers of a kind, embedding and head, for one micro-batch.

A product of (r, k) by (k, n) matrices takes a = (2 r k n + half) / rate, and its weights take b at the rate of memory:
together (a^4 + b^4)^(1/4). All functions take strategies as columns (`Records`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.language_models import Experts, LayerKind, Mlp
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import Recompute
from topoopt.verify.llm_training.layers import Mixing, Product, mean_keys, mixing_of, parts_of
from topoopt.verify.llm_training.space import Records

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
        each = np.where(self.r.p > 1, self.reached.hop * sent * 8 / (gbps * 1e9), 0.0)
        return np.stack([each, each, 0.0 * each, 0.0 * each])

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
