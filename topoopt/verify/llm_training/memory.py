"""Memory of the fullest GPU, as the checker recomputes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from topoopt.core.arrays import Bools, Floats
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import Recompute
from topoopt.core.pipeline import PipelineSchedule as S
from topoopt.verify.llm_training.model_sizes import on_tensor_ranks, sizes_of
from topoopt.verify.llm_training.space import Records
from topoopt.verify.llm_training.transfers import TWO_WAY

Weights = tuple[Floats, Floats]
"""Dense ones, and those of routed experts."""


def weights_at(problem: LlmTrainingProblem, r: Records, load: Floats, early: Bools, late: Bools) -> Weights:
    """Of a rank with so many layers, the first, an inner or the last one."""
    model, sizes, alone = problem.model, sizes_of(problem.model), r.p == 1
    rank = on_tensor_ranks(model, r.t)
    head = rank.final_norm + np.where(alone & model.tied, 0.0, rank.vocabulary)
    ends = np.where(early, rank.embedding, 0.0) + np.where(late, head, 0.0)
    further = np.where(late, float(model.mtp_layers), 0.0)
    if model.experts is None:
        return (load + further) * rank.dense_layer + ends, np.zeros_like(ends)
    plain = np.where(early, np.minimum(sizes.dense_layers, load), 0.0)
    of_experts = load - plain + further
    routed = sizes.expert * model.experts.count / (r.x * r.y)
    return plain * rank.dense_layer + of_experts * rank.routed_layer + ends, of_experts * routed


def kept_of_layer(problem: LlmTrainingProblem, r: Records) -> Floats:
    """Bytes of a layer and micro-batch that wait for the backward pass, where whole layers are not computed again."""
    model, formats = problem.model, problem.formats
    tokens = r.b * problem.batch.length / r.c
    spread = np.where(r.split > 0, r.t, 1.0)
    a, d, h = model.heads, model.head_size, model.hidden
    keys = np.maximum(1.0, model.kv_heads / r.t) * d
    lean = model.gated or formats.flash
    if lean:
        found = 8.0 * h / spread + 4.0 * (a * d + a) / r.t + 4.0 * keys
        inner = 6.0 if model.gated else 4.0
    else:
        found = 10.0 * h / spread + 8.0 * a * d / r.t
        inner = 4.0
    experts = model.experts
    if experts is None:
        found = found + inner * model.ffn_hidden / r.t
    else:
        found = found + inner * (experts.per_token + experts.shared) * experts.hidden / r.t
        found = found + 4.0 * experts.per_token * h / r.t
    if not formats.flash:
        scores = 5.0 * a / r.t * problem.batch.length / r.c
        found = found + np.where(r.again(Recompute.SELECTIVE), 0.0, scores)
    return np.asarray(tokens * found)


def held_micro_batches(r: Records, m: Floats, rank: Floats) -> Floats:
    """Micro-batches, in all chunks, whose activations a rank holds at most."""
    waiting = np.minimum(m, r.p - rank)
    warm_up = 2.0 * (r.p - rank - 1.0) + (r.v - 1.0) * r.p
    rules = (
        (r.runs(S.INTERLEAVED), np.minimum(m, (warm_up + 1.0) / r.v)),
        (r.runs(S.GPIPE), m),
        (r.runs(S.ZB_H1), np.minimum(m, r.p)),
        (r.runs(S.ZB_2P), np.minimum(m, 2.0 * r.p)),
        (r.runs(*TWO_WAY), np.minimum(m, r.p + 1.0)),
    )
    return np.select([rule for rule, _ in rules], [value for _, value in rules], waiting)


def memory_of(
    problem: LlmTrainingProblem, r: Records, m: Floats, loads: Sequence[Floats] | None = None
) -> dict[str, Floats]:
    """Bytes by what they hold, of the rank that holds most.

    Args:
        loads: layers of every rank; None: the ends have theirs, and of those between the second is the fullest.
    """
    ranks, end = range(3) if loads is None else range(len(loads)), r.p - 1.0
    best: dict[str, Floats] = {}
    for place in ranks:
        if loads is None:
            load, rank = (r.first, r.inner, r.last)[place], (0.0 * end, np.minimum(1.0, end), end)[place]
            there = (r.p > 2) if place == 1 else np.ones(len(end), dtype=bool)
        else:
            load, rank, there = loads[place], np.full_like(end, place), place <= end
        own = bytes_at(problem, r, m, load, rank)
        if not best:
            best = own
            continue
        fuller = there & (sum(own.values()) > sum(best.values()))
        best = {name: np.where(fuller, own[name], best[name]) for name in best}
    return best


def bytes_at(problem: LlmTrainingProblem, r: Records, m: Floats, load: Floats, rank: Floats) -> dict[str, Floats]:
    """Bytes by what they hold, of a rank with so many layers."""
    formats, last = problem.formats, rank == r.p - 1.0
    kinds = weights_at(problem, r, load, rank == 0, last)
    other = weights_at(problem, r, np.where(last, r.first, r.last), last, rank == 0)
    outer = r.runs(*TWO_WAY) & ((rank == 0) | last)  # each holds the first and the last stage
    found = dict.fromkeys(("weights", "gradients", "optimizer"), np.zeros_like(m))
    for here, there, n in zip(kinds, other, r.sharers, strict=True):
        held = r.copies * np.where(outer, (here + there) / 2.0, here)
        found["weights"] = found["weights"] + 2.0 * held / np.where(r.zero == 3, n, 1.0)
        found["gradients"] = found["gradients"] + held * formats.gradient_bytes / np.where(r.zero >= 2, n, 1.0)
        states = held * (4.0 + 2.0 * formats.moment_bytes)
        found["optimizer"] = found["optimizer"] + states / np.where(r.zero >= 1, n, 1.0)
    tokens = r.b * problem.batch.length / r.c
    inputs = 2.0 * tokens * problem.model.hidden / np.where(r.split > 0, r.t, 1.0)
    layer = np.where(r.again(Recompute.FULL), inputs, kept_of_layer(problem, r))
    logits = np.where(last, 6.0 * tokens * problem.model.vocabulary / r.t, 0.0)
    found["activations"] = held_micro_batches(r, m, rank) * load * layer + _plain_layer(problem, r) + logits
    return found


def _plain_layer(problem: LlmTrainingProblem, r: Records) -> Floats:
    """Of the layer that is being computed, nothing of which is left out."""
    return kept_of_layer(problem, replace(r, recompute=np.zeros_like(r.recompute)))
