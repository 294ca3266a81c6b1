"""Seconds of one micro-batch in one layer on one GPU: products of matrices, attention, the rest, by a roofline.

Each product takes (x + half) / (peak * efficiency) for x operations, or the time its bytes take where that is more:
the efficiency x / (x + half) of small products is smooth. The backward pass of a product is two of the same size.
What lies between the products (norms, residuals, activation functions) moves bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.language_model import LanguageModel
from topoopt.core.llm_training import NumberFormats, TrainingDevice
from topoopt.core.parallelism import Recompute
from topoopt.simulate.llm_training.strategies import Column, StrategyColumns
from topoopt.workloads.llm_training.facts import keys_attended

ELEMENT = 2.0
FLASH_BACKWARD = 2.5
"""Products of the backward pass of attention over those of the forward pass, with its scores computed again."""

SCORE_BYTES = 13.0
"""Moved for each score of attention that is written: product, softmax, dropout with its mask, product."""


@dataclass(frozen=True, eq=False)
class ComputeTimes:
    """Seconds of one micro-batch, one value a strategy.

    Attributes:
        forward: of the forward pass.
        inputs, weights: gradients of the inputs, and of the weights.
        again: what the backward pass computes again.
    """

    forward: Column
    inputs: Column
    weights: Column
    again: Column

    def plus(self, other: ComputeTimes, times: Column | float = 1.0) -> ComputeTimes:
        """The sum with so many of the other."""
        return ComputeTimes(
            self.forward + times * other.forward,
            self.inputs + times * other.inputs,
            self.weights + times * other.weights,
            self.again + times * other.again,
        )

    def scaled(self, factor: Column) -> ComputeTimes:
        """All passes, so many times as long."""
        return ComputeTimes(self.forward * factor, self.inputs * factor, self.weights * factor, self.again * factor)

    @property
    def backward(self) -> Column:
        """Both gradients."""
        return self.inputs + self.weights


class LayerTimes:
    """Times of layers of a model on a device.

    Args:
        model, device, formats: what is computed, where, on what numbers.
        columns: strategies.
        length: tokens of a sequence.
    """

    def __init__(
        self,
        model: LanguageModel,
        device: TrainingDevice,
        formats: NumberFormats,
        columns: StrategyColumns,
        length: int,
    ) -> None:
        reached = device.reached
        self._model, self._columns, self._length = model, columns, length
        self._reached = reached
        self._flash = formats.flash
        peak = device.matrix_tflops * reached.products
        if formats.fp8 and device.fp8_tflops is not None:
            peak = device.fp8_tflops * reached.fp8_products
        self._rate = peak * 1e12
        self._head_rate = device.matrix_tflops * reached.products * 1e12
        self._half = reached.half_gflops * 1e9
        self._attention_rate = device.matrix_tflops * reached.attention * 1e12
        self._memory_rate = device.memory_gbytes_per_s * reached.memory * 1e9
        self.tokens = columns.micro_batch * length / columns.context
        self._split = np.where(columns.sequence > 0, columns.tensor, 1.0)

    def layer(self, *, expert_layer: bool) -> ComputeTimes:
        """One layer, dense or of experts."""
        attention = self._attention_products()
        core, core_back = self._core()
        other = self._between(expert_layer=expert_layer)
        mlp = self._expert_products() if expert_layer else self._mlp_products(self._model.ffn_hidden)
        products = attention + mlp
        launches = self._launches() if expert_layer else np.zeros_like(products)
        fixed = self._reached.pass_us * 1e-6 + launches
        forward = products + core + other + fixed
        inputs = products + core_back + 1.5 * other + fixed
        full = self._columns.recomputes(Recompute.FULL)
        selective = self._columns.recomputes(Recompute.SELECTIVE)
        again = np.where(full, forward, np.where(selective & (not self._flash), core, 0.0))
        return ComputeTimes(forward, inputs, products + launches, again)

    def head(self) -> ComputeTimes:
        """Projection to the vocabulary, and the loss."""
        model = self._model
        share = model.vocabulary / self._columns.tensor
        product = self._product(self.tokens, model.hidden, share, self._head_rate)
        loss = self.tokens * share * 12.0 / self._memory_rate
        return ComputeTimes(product + loss, product + loss, product, np.zeros_like(product))

    def attention(self) -> tuple[Column, Column]:
        """Computing of a layer before its MLP or experts: forward, and gradients of the inputs."""
        products, (core, core_back) = self._attention_products(), self._core()
        return products + core, products + core_back

    def embedding(self) -> ComputeTimes:
        """Rows that are looked up, and gradients added to them."""
        moved = self.tokens * self._model.hidden * 2 * ELEMENT / self._memory_rate
        return ComputeTimes(moved, np.zeros_like(moved), 2 * moved, np.zeros_like(moved))

    def _product(self, rows: Column, inner: Column | float, columns: Column | float, rate: float) -> Column:
        """A product of (rows, inner) by (inner, columns)."""
        work = 2.0 * rows * inner * columns
        moved = ELEMENT * (rows * inner + inner * columns + rows * columns)
        return np.asarray(np.maximum((work + self._half) / rate, moved / self._memory_rate))

    def _attention_products(self) -> Column:
        model, t, rows = self._model, self._columns.tensor, self.tokens
        h, latent = model.hidden, model.latent
        if latent is None:
            width = model.heads * model.head_size / t
            keys = np.maximum(model.kv_heads / t, 1.0) * model.head_size
            return self._product(rows, h, width + 2 * keys, self._rate) + self._product(rows, width, h, self._rate)
        key, heads = latent.plain_size + latent.rotary_size, model.heads / t
        query = latent.query_rank or h
        found = self._product(rows, latent.key_value_rank, heads * (latent.plain_size + latent.value_size), self._rate)
        found = found + self._product(rows, query, heads * key, self._rate)
        down = (latent.query_rank or 0) + latent.key_value_rank + latent.rotary_size
        found = found + self._product(rows, h, float(down), self._rate)
        return found + self._product(rows, heads * latent.value_size, h, self._rate)

    def _mlp_products(self, inner: float) -> Column:
        model, rows = self._model, self.tokens
        share = inner / self._columns.tensor
        first = self._product(rows, model.hidden, share * (2 if model.gated else 1), self._rate)
        return first + self._product(rows, share, model.hidden, self._rate)

    def _expert_products(self) -> Column:
        """Router, shared experts, and routed ones with equally many tokens each."""
        model, columns = self._model, self._columns
        experts = model.experts
        assert experts is not None
        own = self.tokens / columns.tensor
        local = experts.count / columns.expert
        rows = own * experts.per_token * columns.expert_tensor / local
        inner = experts.hidden / columns.expert_tensor
        first = self._product(rows, model.hidden, inner * (2 if model.gated else 1), self._rate)
        found = local * (first + self._product(rows, inner, model.hidden, self._rate))
        found = found + self._product(own, model.hidden, float(experts.count), self._head_rate)
        if experts.shared:
            found = found + self._mlp_products(float(experts.shared * experts.hidden))
        return found

    def _launches(self) -> Column:
        """What it costs to start the products of each expert of a GPU.

        Grouped products are a loop over experts that starts each product alone on one of several streams
        (Transformer Engine, pull request 853), and a layer learns of its tokens only when they are counted, so that
        nothing is started ahead (arXiv:2603.07685 on training that is bound by the host).
        """
        experts = self._model.experts
        assert experts is not None
        return self._reached.expert_us * 1e-6 * experts.count / self._columns.expert

    def _core(self) -> tuple[Column, Column]:
        """Scores and their sums, forward and backward."""
        model, columns = self._model, self._columns
        latent = model.latent
        both = 2 * model.head_size if latent is None else latent.plain_size + latent.rotary_size + latent.value_size
        heads = model.heads / columns.tensor
        if self._flash:
            work = 2.0 * self.tokens * keys_attended(model, self._length) * heads * both
            return work / self._attention_rate, FLASH_BACKWARD * work / self._attention_rate
        # Without tiles the whole square of scores is computed, written and read, be some of it masked.
        work = self.tokens * self._length * heads * both
        moved = self.tokens * self._length * heads * SCORE_BYTES / self._memory_rate
        forward = 2 * work / self._rate + moved
        return forward, 2 * forward

    def _between(self, *, expert_layer: bool) -> Column:
        """Norms and residuals, activation functions, and tokens that are sorted to experts."""
        model, columns = self._model, self._columns
        moved = self.tokens * model.hidden * 10 * ELEMENT / self._split
        per_inner = 3 if model.gated else 2
        if not expert_layer or model.experts is None:
            return (moved + self.tokens * model.ffn_hidden / columns.tensor * per_inner * ELEMENT) / self._memory_rate
        experts = model.experts
        inner = experts.hidden * (experts.per_token + experts.shared)
        own = self.tokens / columns.tensor
        moved = moved + own * (inner * per_inner + 4 * experts.per_token * model.hidden) * ELEMENT
        return moved / self._memory_rate
