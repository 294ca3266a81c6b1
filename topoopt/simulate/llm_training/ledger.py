"""Memory of the fullest rank: state of the weights, and activations of the micro-batches on their way.

State follows ZeRO (arXiv:1910.02054); activations those of arXiv:2205.05198, without scores where attention works in
tiles. Bytes a token and layer with n = tensor: norms, products and residuals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from topoopt.core.arrays import Bools
from topoopt.core.language_model import LanguageModel
from topoopt.core.llm_training import NumberFormats
from topoopt.core.parallelism import Recompute
from topoopt.core.pipeline import PipelineSchedule
from topoopt.simulate.llm_training.rank_weights import RankWeights
from topoopt.simulate.llm_training.strategies import Column, StrategyColumns

LOGIT_BYTES = 6.0
"""Of a logit: 16 bits, and 32 in the loss."""


@dataclass(frozen=True, eq=False)
class LedgerColumns:
    """Bytes on the fullest rank, one value a strategy."""

    weights: Column
    gradients: Column
    optimizer: Column
    activations: Column

    @property
    def total(self) -> Column:
        """All of them."""
        return self.weights + self.gradients + self.optimizer + self.activations


def layer_activations(
    model: LanguageModel, formats: NumberFormats, columns: StrategyColumns, length: int, *, expert_layer: bool
) -> Column:
    """Bytes that one layer keeps of one micro-batch for its backward pass."""
    t = columns.tensor
    split = np.where(columns.sequence > 0, t, 1.0)
    tokens = columns.micro_batch * length / columns.context
    h, width = model.hidden, model.heads * model.head_size
    keys = np.maximum(model.kv_heads / t, 1.0) * model.head_size
    full = columns.recomputes(Recompute.FULL)
    selective = columns.recomputes(Recompute.SELECTIVE)
    if model.gated or formats.flash:
        # Inputs of two norms and two products; queries, output and its gradient's partner, keys, values, log-sums.
        between = 8.0 * h / split + (4.0 * width / t + 4.0 * keys + 4.0 * model.heads / t)
        per_inner = 6.0 if model.gated else 4.0
    else:
        # 34 s b h with masks of dropout: 10 of them outside tensor parallelism unless it splits the sequence too.
        between = 10.0 * h / split + 8.0 * width / t
        per_inner = 4.0
    inner = model.ffn_hidden / t
    if expert_layer and model.experts is not None:
        experts = model.experts
        inner = (experts.per_token + experts.shared) * experts.hidden / t
        between = between + 4.0 * experts.per_token * h / t
    kept = between + per_inner * inner
    if not formats.flash:
        scores = 5.0 * model.heads / t * length / columns.context
        kept = kept + np.where(selective, 0.0, scores)
    return tokens * np.where(full, 2.0 * h / split, kept)


def in_flight(columns: StrategyColumns, micro_batches: Column) -> tuple[Column, Column, Column]:
    """Micro-batches that the first, the second and the last rank keep activations of, in all their chunks."""
    p, v, m = columns.pipeline, columns.chunks, micro_batches
    found = []
    for rank in (np.zeros_like(p), np.minimum(1.0, p - 1), p - 1):
        plain = np.minimum(m, p - rank)
        # Warm-up of 2 (p - rank - 1) + (v - 1) p passes of chunks, and the one that follows.
        interleaved = np.minimum(m, (2 * (p - rank - 1) + (v - 1) * p + 1) / v)
        held = np.where(columns.scheduled(PipelineSchedule.INTERLEAVED), interleaved, plain)
        held = np.where(columns.scheduled(PipelineSchedule.GPIPE), m, held)
        held = np.where(columns.scheduled(PipelineSchedule.ZB_H1), np.minimum(m, p), held)
        held = np.where(columns.scheduled(PipelineSchedule.ZB_2P), np.minimum(m, 2 * p), held)
        both = columns.scheduled(PipelineSchedule.DUALPIPE, PipelineSchedule.DUALPIPE_V)
        found.append(np.where(both, np.minimum(m, p + 1), held))
    return found[0], found[1], found[2]


def ledger(
    model: LanguageModel,
    formats: NumberFormats,
    columns: StrategyColumns,
    weights: RankWeights,
    length: int,
    micro_batches: Column,
) -> LedgerColumns:
    """Bytes of the rank that holds most."""
    held = in_flight(columns, micro_batches)
    layer = layer_activations(model, formats, columns, length, expert_layer=model.experts is not None)
    tokens = columns.micro_batch * length / columns.context
    logits = tokens * model.vocabulary * LOGIT_BYTES / columns.tensor
    loads = (columns.first_layers, columns.inner_layers, columns.last_layers)
    # The layer that is being computed has its activations, or their gradients, beside what all layers keep.
    whole = _plain_layer(model, formats, columns, length)
    copies, shared_out = columns.copies, (columns.replicas, columns.expert_replicas)
    best: LedgerColumns | None = None
    for rank in range(3):
        states = [
            _state(copies * _both_ends(columns, kind, rank), replicas, formats, columns.zero)
            for kind, replicas in zip((weights.dense, weights.experts), shared_out, strict=True)
        ]
        parts = [one + other for one, other in zip(*states, strict=True)]
        kept = held[rank] * loads[rank] * layer + whole
        kept = kept + np.where((rank == 2) | (columns.pipeline == 1), logits, 0.0)
        own = LedgerColumns(parts[0], parts[1], parts[2], kept)
        best = own if best is None else _fuller(best, own, (rank != 1) | (columns.pipeline > 2))
    assert best is not None
    return best


def _plain_layer(model: LanguageModel, formats: NumberFormats, columns: StrategyColumns, length: int) -> Column:
    plain = replace(columns, recompute=np.zeros_like(columns.recompute))
    return layer_activations(model, formats, plain, length, expert_layer=model.experts is not None)


def _both_ends(columns: StrategyColumns, held: tuple[Column, Column, Column], rank: int) -> Column:
    """Weights of a rank; where micro-batches enter at both ends, the ranks there hold the first and the last stage."""
    if rank == 1:
        return held[1]
    both = columns.scheduled(PipelineSchedule.DUALPIPE, PipelineSchedule.DUALPIPE_V)
    return np.where(both, (held[0] + held[2]) / 2.0, held[rank])


def _fuller(one: LedgerColumns, other: LedgerColumns, there: Bools) -> LedgerColumns:
    """The fuller of a rank and another one, where there is such a rank."""
    more = there & (other.total > one.total)
    return LedgerColumns(
        np.where(more, other.weights, one.weights),
        np.where(more, other.gradients, one.gradients),
        np.where(more, other.optimizer, one.optimizer),
        np.where(more, other.activations, one.activations),
    )


def _state(weights: Column, replicas: Column, formats: NumberFormats, zero: Column) -> tuple[Column, Column, Column]:
    """Bytes of weights, gradients and the optimizer (master copy and two moments)."""
    n = np.maximum(replicas, 1.0)
    held = weights * 2.0 / np.where(zero >= 3, n, 1.0)
    gradients = weights * formats.gradient_bytes / np.where(zero >= 2, n, 1.0)
    optimizer = weights * (4.0 + 2.0 * formats.moment_bytes) / np.where(zero >= 1, n, 1.0)
    return held, gradients, optimizer
