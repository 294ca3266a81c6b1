"""Memory of the fullest GPU, as the checker recomputes it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import Recompute
from topoopt.core.pipeline import PipelineSchedule as S
from topoopt.verify.llm_training.model_sizes import sizes_of
from topoopt.verify.llm_training.space import Records
from topoopt.verify.llm_training.transfers import TWO_WAY

Places = tuple[Floats, Floats, Floats]
"""Of the first rank, the fullest between, and the last."""


def weights_of(problem: LlmTrainingProblem, r: Records) -> tuple[Places, Places]:
    """Dense weights, and those of routed experts, of the three ranks."""
    model, sizes, alone = problem.model, sizes_of(problem.model), r.p == 1
    dense_layer = (sizes.attention + sizes.mlp) / r.t + sizes.small_dense
    expert_layer = (sizes.attention + sizes.met) / r.t + sizes.small_expert
    copied = model.vocabulary * model.hidden if model.tied else 0
    head = (sizes.head + np.where(alone, 0.0, copied)) / r.t
    embedding = sizes.embedding / r.t
    ends = (embedding + np.where(alone, head, 0.0), np.zeros_like(r.t), head + np.where(alone, embedding, 0.0))
    count = 0 if model.experts is None else model.experts.count
    routed = sizes.expert * count / (r.x * r.y)
    dense, experts = [], []
    for place, (load, end) in enumerate(zip((r.first, r.inner, r.last), ends, strict=True)):
        if model.experts is None:
            dense.append(load * dense_layer + end)
            experts.append(np.zeros_like(r.t))
            continue
        early = alone | (place == 0)
        plain = np.where(early, np.minimum(sizes.dense_layers, r.first), 0.0)
        further = np.where(alone | (place == 2), float(model.mtp_layers), 0.0)
        of_experts = load - plain + further
        dense.append(plain * dense_layer + of_experts * expert_layer + end)
        experts.append(of_experts * routed)
    between = r.p > 2
    dense[1], experts[1] = np.where(between, dense[1], dense[0]), np.where(between, experts[1], experts[0])
    return (dense[0], dense[1], dense[2]), (experts[0], experts[1], experts[2])


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


def memory_of(problem: LlmTrainingProblem, r: Records, m: Floats) -> dict[str, Floats]:
    """Bytes by what they hold, of the rank that holds most."""
    formats = problem.formats
    both = r.runs(*TWO_WAY)
    tokens = r.b * problem.batch.length / r.c
    logits = 6.0 * tokens * problem.model.vocabulary / r.t
    plain = _plain_layer(problem, r)
    inputs = 2.0 * tokens * problem.model.hidden / np.where(r.split > 0, r.t, 1.0)
    layer = np.where(r.again(Recompute.FULL), inputs, kept_of_layer(problem, r))
    best: dict[str, Floats] = {}
    kinds = weights_of(problem, r)
    ranks = (np.zeros_like(m), np.minimum(1.0, r.p - 1.0), r.p - 1.0)
    for place, (rank, load) in enumerate(zip(ranks, (r.first, r.inner, r.last), strict=True)):
        own = dict.fromkeys(("weights", "gradients", "optimizer"), np.zeros_like(m))
        for kind, n in zip(kinds, r.sharers, strict=True):
            held = kind[place] if place == 1 else np.where(both, (kind[0] + kind[2]) / 2.0, kind[place])
            held = r.copies * held
            own["weights"] = own["weights"] + 2.0 * held / np.where(r.zero == 3, n, 1.0)
            gradients = held * formats.gradient_bytes / np.where(r.zero >= 2, n, 1.0)
            own["gradients"] = own["gradients"] + gradients
            states = held * (4.0 + 2.0 * formats.moment_bytes)
            own["optimizer"] = own["optimizer"] + states / np.where(r.zero >= 1, n, 1.0)
        activations = held_micro_batches(r, m, rank) * load * layer + plain
        own["activations"] = activations + np.where((r.p == 1) | (place == 2), logits, 0.0)
        if not best:
            best = own
            continue
        fuller = (sum(own.values()) > sum(best.values())) & ((place != 1) | (r.p > 2))
        best = {name: np.where(fuller, own[name], best[name]) for name in best}
    return best


def _plain_layer(problem: LlmTrainingProblem, r: Records) -> Floats:
    """Of the layer that is being computed, nothing of which is left out."""
    return kept_of_layer(problem, replace(r, recompute=np.zeros_like(r.recompute)))
