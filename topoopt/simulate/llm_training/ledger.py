"""Memory of the fullest rank: state of the weights, and activations of the micro-batches on their way.

State follows ZeRO (arXiv:1910.02054); activations those of arXiv:2205.05198, without scores where attention works in
tiles. Bytes a token and layer with n = tensor: norms, products and residuals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from topoopt.core.arrays import Bools
from topoopt.core.language_model import LanguageModel
from topoopt.core.llm_training import LlmTrainingProblem, NumberFormats
from topoopt.core.parallelism import Recompute
from topoopt.core.pipeline import PipelineSchedule
from topoopt.simulate.llm_training.part_weights import ROUTED, Weights, part_weights, rank_weights
from topoopt.simulate.llm_training.strategies import BOTH_ENDS, Column, StrategyColumns, loads_of_ranks

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


def in_flight(columns: StrategyColumns, micro_batches: Column, rank: Column) -> Column:
    """Micro-batches that a rank of a pipeline keeps activations of, in all its chunks."""
    p, v, m = columns.pipeline, columns.chunks, micro_batches
    plain = np.minimum(m, p - rank)
    # Warm-up of 2 (p - rank - 1) + (v - 1) p passes of chunks, and the one that follows.
    interleaved = np.minimum(m, (2 * (p - rank - 1) + (v - 1) * p + 1) / v)
    held = np.where(columns.scheduled(PipelineSchedule.INTERLEAVED), interleaved, plain)
    held = np.where(columns.scheduled(PipelineSchedule.GPIPE), m, held)
    held = np.where(columns.scheduled(PipelineSchedule.ZB_H1), np.minimum(m, p), held)
    held = np.where(columns.scheduled(PipelineSchedule.ZB_2P), np.minimum(m, 2 * p), held)
    return np.where(columns.scheduled(*BOTH_ENDS), np.minimum(m, p + 1), held)


def bytes_around(
    model: LanguageModel, formats: NumberFormats, columns: StrategyColumns, length: int
) -> tuple[Column, Column]:
    """Bytes that a rank needs once: for the layer that is being computed, which has its activations, or their
    gradients, beside what all layers keep; and the last rank for logits."""
    plain = replace(columns, recompute=np.zeros_like(columns.recompute))
    whole = layer_activations(model, formats, plain, length, expert_layer=model.experts is not None)
    return whole, columns.micro_batch * length / columns.context * model.vocabulary * LOGIT_BYTES / columns.tensor


def ledger(problem: LlmTrainingProblem, columns: StrategyColumns) -> LedgerColumns:
    """Bytes of the rank that holds most."""
    model, formats, length = problem.model, problem.formats, problem.batch.length
    m = problem.batch.sequences / columns.data / columns.micro_batch
    layer = layer_activations(model, formats, columns, length, expert_layer=model.experts is not None)
    whole, logits = bytes_around(model, formats, columns, length)
    parts, alone = part_weights(problem, columns), columns.pipeline == 1
    load, inside = _fullest_inside(problem, columns, m, layer)
    ranks = (columns.first_layers, np.zeros_like(m)), (load, inside), (columns.last_layers, columns.pipeline - 1)
    weights = [
        rank_weights(problem, parts, layers, alone | (place == 0), alone | (place == 2))
        for place, (layers, _) in enumerate(ranks)
    ]
    best: LedgerColumns | None = None
    for place, (layers, rank) in enumerate(ranks):
        states = state_bytes(columns, formats, _both_ends(columns, weights, place))
        kept = in_flight(columns, m, rank) * layers * layer + whole
        kept = kept + np.where(alone | (place == 2), logits, 0.0)
        own = LedgerColumns(*states, kept)
        best = own if best is None else _fuller(best, own, (place != 1) | (columns.pipeline > 2))
    assert best is not None
    return best


def _fullest_inside(
    problem: LlmTrainingProblem, columns: StrategyColumns, m: Column, layer: Column
) -> tuple[Column, Column]:
    """Layers and place of the rank between the first and the last that holds most."""
    load, rank = columns.inner_layers, np.minimum(1.0, columns.pipeline - 1)
    if columns.stages is None:
        return load, rank
    each = sum(state_bytes(columns, problem.formats, part_weights(problem, columns)[ROUTED]))
    most, p = np.full_like(load, -np.inf), columns.pipeline
    for place, own in enumerate(loads_of_ranks(columns).T):
        held = own * (each + in_flight(columns, m, np.full_like(m, place)) * layer)
        more = (place > 0) & (place < p - 1) & (held > most)
        load, rank, most = np.where(more, own, load), np.where(more, place, rank), np.where(more, held, most)
    return load, rank


def _both_ends(columns: StrategyColumns, weights: list[Weights], place: int) -> Weights:
    """Weights of a rank; where micro-batches enter at both ends, the ranks there hold the first and the last stage."""
    if place == 1:
        return weights[1]
    both = columns.scheduled(*BOTH_ENDS)
    first, _, last = weights
    own = [np.where(both, (a + b) / 2.0, c) for a, b, c in zip(first, last, weights[place], strict=True)]
    return own[0], own[1]


def state_bytes(columns: StrategyColumns, formats: NumberFormats, weights: Weights) -> tuple[Column, Column, Column]:
    """Bytes of weights, of their gradients, and of the optimizer (master copy and two moments), copies included."""
    held, gradients, optimizer = (np.zeros_like(columns.tensor) for _ in range(3))
    for kind, replicas in zip(weights, (columns.replicas, columns.expert_replicas), strict=True):
        n, own = np.maximum(replicas, 1.0), columns.copies * kind
        held = held + own * 2.0 / np.where(columns.zero >= 3, n, 1.0)
        gradients = gradients + own * formats.gradient_bytes / np.where(columns.zero >= 2, n, 1.0)
        optimizer = optimizer + own * (4.0 + 2.0 * formats.moment_bytes) / np.where(columns.zero >= 1, n, 1.0)
    return held, gradients, optimizer


def _fuller(one: LedgerColumns, other: LedgerColumns, there: Bools) -> LedgerColumns:
    """The fuller of a rank and another one, where there is such a rank."""
    more = there & (other.total > one.total)
    return LedgerColumns(
        np.where(more, other.weights, one.weights),
        np.where(more, other.gradients, one.gradients),
        np.where(more, other.optimizer, one.optimizer),
        np.where(more, other.activations, one.activations),
    )
