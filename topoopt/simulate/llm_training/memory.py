"""What the ranks of strategies hold: weights, gradients and optimizer, activations, and what is needed for a moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.llm_training import (
    Attention,
    LatentAttention,
    LayerKind,
    LlmTrainingProblem,
    Mlp,
    NumberFormats,
    TrainingMemory,
)
from topoopt.core.parallelism import PipelineSchedule, Recompute
from topoopt.native import pipeline
from topoopt.simulate.llm_training.costs import ELEMENT, Layers, Weights, blocks_of, part_weights, rank_weights
from topoopt.simulate.llm_training.strategies import BOTH_ENDS, Column, StrategyColumns
from topoopt.workloads.language_models import mixer_kept

LOGIT_BYTES = 6.0
"""Of a logit: 16 bits, and 32 in the loss."""


DROPOUT_MASKS = 2.0
"""Bytes of a token and an element of its width: a mask behind attention and one behind the MLP, in layers as GPT has
them, whose matrices have biases (arXiv:2205.05198, section 4.1)."""


def layer_activations(problem: LlmTrainingProblem, columns: StrategyColumns, kind: LayerKind) -> Column:
    """Bytes that a layer of a kind keeps of one micro-batch for its backward pass.

    Inputs and outputs of norms; what mixers keep; of an MLP both products and what is between; with experts rows on
    their way there and back, and scores of the router. Held against measured peaks of Megatron-LM and torchtitan.
    """
    model, formats, length, mlp = problem.model, problem.formats, problem.batch.length, kind.mlp
    t, h = columns.tensor, model.hidden
    split = np.where(columns.sequence > 0, t, 1.0)
    tokens = columns.micro_batch * length / columns.context
    cut, whole = mixer_kept(kind.mixer, t)
    # Selective recomputation leaves out scores, or where tiles do not keep them outputs of norms and functions.
    selective = columns.recomputes(Recompute.SELECTIVE)
    again = np.where(selective & formats.flash, ELEMENT, 0.0)
    kept = ((4.0 - again) * blocks_of(kind) * h + ELEMENT * whole) / split + ELEMENT * cut
    if isinstance(mlp, Mlp):
        kept = kept + ((6.0 if mlp.gated else 4.0) - again) * mlp.hidden / t
        kept = kept + (DROPOUT_MASKS * h / split if mlp.biases and not mlp.gated else 0.0)
    elif mlp is not None:
        inner, passed = mlp.per_token * mlp.hidden + mlp.shared_hidden, (mlp.per_token + 1.0) * (mlp.latent or h)
        kept = kept + (((6.0 if mlp.gated else 4.0) - again) * inner + ELEMENT * passed + 4.0 * mlp.count) / t
    if not formats.flash and isinstance(kind.mixer, Attention | LatentAttention):
        scores = 5.0 * kind.mixer.heads / t * length / columns.context
        kept = kept + np.where(selective, 0.0, scores)
    return tokens * np.where(columns.recomputes(Recompute.FULL), 2.0 * h / split, kept)


def logit_bytes(problem: LlmTrainingProblem, columns: StrategyColumns) -> Column:
    """Bytes of the logits of a micro-batch and their loss on a rank of the last stage."""
    tokens = columns.micro_batch * problem.batch.length / columns.context
    return tokens * problem.model.vocabulary * LOGIT_BYTES / columns.tensor


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


def ranks_of_layouts(problem: LlmTrainingProblem, columns: StrategyColumns) -> tuple[Floats, Ints]:
    """Layers of each kind on the ranks of pipelines, those that predict further tokens among them.

    Where micro-batches enter at both ends a rank holds the mean of a stage and of the one as far from the other end.

    Returns:
        float64[layouts, most ranks, kinds], and the layout of each strategy.
    """
    model = problem.model
    p, v, first, last = (
        part.astype(np.int64) for part in (columns.pipeline, columns.chunks, columns.first_layers, columns.last_layers)
    )
    both = columns.scheduled(*BOTH_ENDS)
    if columns.stages is None:
        _, chosen, layout = np.unique(
            ((((p << 14 | v) << 14 | first) << 14 | last) << 1) | both, return_index=True, return_inverse=True
        )
        p, v, both, layout = p[chosen], v[chosen], both[chosen], layout.ravel()
        stages = pipeline.even_stages(model.layers, p, v, first[chosen], last[chosen])
    else:
        stages, layout = columns.stages, np.arange(len(p))
    ends = np.cumsum(stages, axis=1)
    own = model.before[ends] - model.before[ends - stages]
    lines, most = np.arange(len(p)), int(p.max(initial=1))
    ranks = np.zeros((len(p), most, len(model.kinds)))
    for stage in range(stages.shape[1]):
        there = np.flatnonzero(stage < p * v)
        ranks[there, stage % p[there]] += own[there, stage]
    ranks[lines, p - 1, model.order[-1]] += model.mtp_layers
    mirrored = ranks[lines[:, None], np.maximum(p[:, None] - 1 - np.arange(most), 0)]
    return np.where(both[:, None, None], (ranks + mirrored) / 2.0, ranks), layout


def _candidates(ranks: Floats, p: Ints) -> Ints:
    """int64[slots, layouts]: ranks that may hold most, or -1: both ends, and those between that no earlier one has all
    kinds of layers of; earlier ones keep more micro-batches."""
    most = ranks.shape[1]
    open_ranks = np.zeros(ranks.shape[:2], dtype=bool)
    for rank in range(1, most - 1):
        covered = np.zeros(len(p), dtype=bool)
        for earlier in np.flatnonzero(open_ranks[:, :rank].any(axis=0)).tolist():
            covered |= open_ranks[:, earlier] & (ranks[:, earlier] >= ranks[:, rank]).all(axis=1)
        open_ranks[:, rank] = ~covered & (rank < p - 1)
    slots = int(open_ranks.sum(axis=1).max(initial=0))
    inner = np.argsort(~open_ranks, axis=1, kind="stable")[:, :slots].T
    inner = np.where(np.take_along_axis(open_ranks, inner.T, axis=1).T, inner, -1)
    return np.concatenate([np.zeros((1, len(p)), dtype=np.int64), np.where(p > 1, p - 1, -1)[None], inner])


PARTS = tuple(part.name for part in fields(TrainingMemory))


def ledger(problem: LlmTrainingProblem, columns: StrategyColumns) -> Floats:
    """float64[7, R]: bytes of the rank that holds most, by the parts of `TrainingMemory`."""
    model, m = problem.model, problem.batch.sequences / columns.data / columns.micro_batch
    ranks, layout = ranks_of_layouts(problem, columns)
    of_layout = np.zeros(len(ranks), dtype=np.int64)
    of_layout[layout] = columns.pipeline.astype(np.int64)
    plain = replace(columns, recompute=np.zeros_like(columns.recompute))
    kept = [layer_activations(problem, columns, kind) for kind in model.kinds]
    computed = [layer_activations(problem, plain, kind) for kind in model.kinds]
    parts, last_rank = part_weights(problem, columns), columns.pipeline - 1
    logits = logit_bytes(problem, columns)
    half = np.where(columns.scheduled(*BOTH_ENDS) & (columns.pipeline > 1), 0.5, 1.0)
    best = np.zeros((len(PARTS), len(m)))
    for slot in _candidates(ranks, of_layout):
        rank = slot[layout].astype(np.float64)
        layers = ranks[layout, slot[layout]].T
        ends = ((rank == 0) | (rank == last_rank)) * half
        first, last = (np.where((half < 1) | at, ends, 0.0) for at in (rank == 0, rank == last_rank))
        states = state_bytes(columns, problem.formats, rank_weights(parts, layers, first, last))
        activations = in_flight(columns, m, rank) * sum(count * own for count, own in zip(layers, kept, strict=True))
        working = np.max([np.where(count > 0, own, 0.0) for count, own in zip(layers, computed, strict=True)], axis=0)
        at_end = np.where(last > 0, logits, 0.0)
        gathered = _gathered(columns, problem.formats, parts, layers)
        own = np.stack(
            [
                *states,
                activations,
                np.where(at_end >= working, at_end, 0.0),
                np.where(at_end >= working, 0.0, working),
                gathered,
            ]
        )
        best = np.where((rank >= 0) & (total_bytes(own) > total_bytes(best)), own, best)
    return best


def total_bytes(held: Floats) -> Column:
    """Of all that a ledger lists, added up in its order."""
    return np.asarray(sum(held))


def _gathered(columns: StrategyColumns, formats: NumberFormats, parts: Sequence[Weights], layers: Layers) -> Column:
    """Bytes of what ZeRO 3 has whole for a moment: weights of two layers, of which the second comes while the first is
    computed, and gradients of one (arXiv:2304.11277)."""
    largest = np.zeros_like(columns.tensor)
    for count, (dense, experts) in zip(layers, parts, strict=False):
        largest = np.maximum(largest, np.where(count > 0, dense + experts, 0.0))
    return np.where(columns.zero >= 3, (2.0 * ELEMENT + formats.gradient_bytes) * largest, 0.0)


def state_bytes(columns: StrategyColumns, formats: NumberFormats, weights: Weights) -> tuple[Column, Column, Column]:
    """Bytes of weights, of their gradients, and of the optimizer (master copy and two moments), copies included."""
    held, gradients, optimizer = (np.zeros_like(columns.tensor) for _ in range(3))
    states = formats.master_bytes + 2.0 * formats.moment_bytes
    for kind, replicas in zip(weights, (columns.replicas, columns.expert_replicas), strict=True):
        n, own = np.maximum(replicas, 1.0), columns.copies * kind
        held = held + own * formats.weight_bytes / np.where(columns.zero >= 3, n, 1.0)
        gradients = gradients + own * formats.gradient_bytes / np.where(columns.zero >= 2, n, 1.0)
        optimizer = optimizer + own * states / np.where(columns.zero >= 1, n, 1.0)
    return held, gradients, optimizer
