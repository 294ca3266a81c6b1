"""Bytes and seconds of transfers, as the checker recomputes them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, comb

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import RANK_ORDERS, Recompute
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.core.pipeline import PipelineSchedule as S
from topoopt.verify.llm_training.model_sizes import on_tensor_ranks, sizes_of
from topoopt.verify.llm_training.space import Records, beside

TWO_WAY = (S.DUALPIPE, S.DUALPIPE_V)


@dataclass(frozen=True, eq=False)
class DimensionTransfers:
    """Bytes that a GPU sends for one micro-batch, and seconds that nothing hides.

    Attributes:
        tensor: seconds of a layer: forward, backward, of what is computed again.
        context: seconds of a layer: forward, backward.
        expert: seconds of a layer and direction.
        hop: seconds to the next stage.
        totals: bytes of a whole iteration by name.
        group, expert_group: ranks that share dense weights, and those of experts.
    """

    tensor: tuple[Floats, Floats, Floats]
    context: tuple[Floats, Floats]
    expert: Floats
    hop: Floats
    totals: dict[str, Floats]
    group: Floats
    expert_group: Floats


@dataclass(frozen=True, eq=False)
class DimensionRates:
    """Bytes a second of a GPU in its groups, and hops of their ways.

    Attributes:
        inside: of links inside a server.
        tensor, context, data, expert_data: of what is passed round; `expert_data`: among replicas of experts.
        expert: of tokens that leave the server.
        hop: to the next stage.
        tensor_hops, context_hops, expert_hops, stage_hops: on the longest way; a switch is one.
    """

    inside: float
    tensor: Floats
    context: Floats
    data: Floats
    expert_data: Floats
    expert: Floats
    hop: Floats
    tensor_hops: int = 1
    context_hops: int = 1
    expert_hops: int = 1
    stage_hops: int = 1


def near(problem: LlmTrainingProblem, r: Records) -> tuple[dict[D, Floats], Floats]:
    """Ranks on a server of a group along each dimension, and of the group that shares out the experts of a layer."""
    sizes = {D.TENSOR: r.t, D.CONTEXT: r.c, D.DATA: r.d, D.PIPELINE: r.p}
    found = {one: np.empty_like(r.t) for one in sizes}
    rows, place = np.unique(np.stack([r.t, r.c, r.d, r.p, r.order]), axis=1, return_inverse=True)
    for number, (t, c, d, p, order) in enumerate(rows.T.astype(np.int64).tolist()):
        own = {D.TENSOR: t, D.CONTEXT: c, D.DATA: d, D.PIPELINE: p}
        for one, count in beside(RANK_ORDERS[order], own, problem.cluster.gpus_per_server).items():
            found[one][place.ravel() == number] = count
    whole, experts = r.x * r.y, np.ones_like(r.t)
    before = np.ones_like(r.t)
    for one in (D.TENSOR, D.CONTEXT, D.DATA):
        experts = experts * np.minimum(found[one], np.minimum(sizes[one], np.maximum(1.0, whole / before)))
        before = before * sizes[one]
    return found, experts


def ideal_rates(problem: LlmTrainingProblem, r: Records) -> DimensionRates:
    """On an ideal switch.

    Groups inside a server use its links; any other one the interfaces of the server, where the GPUs that stand in
    other groups leave theirs.
    """
    cluster, reached, g = problem.cluster, problem.device.reached, problem.cluster.gpus_per_server
    inside = cluster.intra_server_gbps * 1e9 / 8 * reached.scale_up
    outside = cluster.degree * cluster.link_gbps / g * 1e9 / 8 * reached.network
    here, experts = near(problem, r)

    def rate(own: Floats, size: Floats) -> Floats:
        return np.where(own > size * (1 - 1e-9), inside, np.minimum(inside, outside * np.maximum(1.0, own)))

    stage = here[D.TENSOR] * here[D.CONTEXT] * here[D.DATA]
    # With a whole pipeline on a server the other copy of a stage is there too.
    both = np.where(here[D.PIPELINE] > r.p * (1 - 1e-9), r.copies, 1.0)
    group, of_experts = r.sharers
    return DimensionRates(
        inside,
        np.where(here[D.TENSOR] > r.t * (1 - 1e-9), inside, min(inside, outside)),
        rate(here[D.CONTEXT], r.c),
        rate(both * here[D.CONTEXT] * here[D.DATA], group),
        rate(both * stage / experts, of_experts),
        np.full_like(r.t, outside),
        rate(here[D.PIPELINE], r.p),
    )


def servers_met(problem: LlmTrainingProblem, servers: float) -> float:
    """Servers that the experts of a token lie on: E experts in equal parts, any K of them equally often."""
    experts = problem.model.experts
    assert experts is not None
    share = experts.count // max(1, round(servers))
    none = comb(experts.count - share, experts.per_token) / comb(experts.count, experts.per_token)
    met = servers * (1.0 - none)
    return min(met, experts.node_limit) if experts.node_limit is not None else met


def gradient_bytes(
    problem: LlmTrainingProblem, weights: Floats, ranks: Floats, zero: Floats, m: Floats
) -> tuple[Floats, Floats]:
    """Bytes of an iteration to reduce gradients, and to gather weights."""
    part = 1.0 - 1.0 / np.maximum(1.0, ranks)
    scatter = weights * part * problem.formats.gradient_bytes
    gather = weights * part * 2.0
    times = np.where(zero == 3, m, 1.0)
    return np.where(zero == 0, 2.0, times) * scatter, np.where(
        zero == 0, 0.0, np.where(zero == 3, 2.0 * m, 1.0)
    ) * gather


def sent_by(problem: LlmTrainingProblem, r: Records, rates: DimensionRates) -> DimensionTransfers:
    """Of strategies."""
    model, cluster = problem.model, problem.cluster

    def start(hops: int) -> float:
        return (cluster.message_latency_us + hops * cluster.hop_latency_us) / 1e6

    def rounds(n: Floats) -> Floats:
        return np.array([float(ceil(np.log2(one))) if one > 1 else 0.0 for one in n.tolist()])

    activations = 2.0 * r.b * problem.batch.length / r.c * model.hidden
    ring = 2.0 * activations * (r.t - 1) / r.t
    split = r.split > 0
    full = r.again(Recompute.FULL)
    repeated = np.where(full, ring * np.where(split, 1.5, 2.0), 0.0)
    waits = np.where(r.t > 1, 4.0 * rounds(r.t) * start(rates.tensor_hops), 0.0)
    shown = 1.0 - problem.overlap.tensor
    tensor = tuple(
        shown * np.where((r.t > 1) & (sent > 0), sent / rates.tensor + waits, 0.0)
        for sent in (2 * ring, 2 * ring, repeated)
    )
    keys = np.maximum(1.0, model.kv_heads / r.t) * model.head_size * 2.0
    if model.latent is not None:
        keys = np.full_like(r.t, float(model.latent.key_value_rank + model.latent.rotary_size))
    passed = 2.0 * (r.c - 1) * r.b * problem.batch.length / r.c * keys
    wait = 2.0 * rounds(r.c) * start(rates.context_hops)
    context = tuple(np.where(r.c > 1, sent / rates.context + wait, 0.0) for sent in (passed, 2.0 * passed))
    expert, whole, crossing = _exchange(problem, r, activations, rates, start(rates.expert_hops))
    hop = np.where(split, activations / r.t, activations)
    m = problem.batch.sequences / (r.d * r.b)
    sizes, layers = sizes_of(model), model.layers / r.p
    rank = on_tensor_ranks(model, r.t)
    dense = sizes.dense_layers * rank.dense + sizes.expert_layers * rank.routed
    count = 0 if model.experts is None else model.experts.count
    routed = sizes.expert_layers * sizes.expert * count / (r.x * r.y) / r.p
    group, expert_group = r.sharers
    of_one = m / r.copies  # micro-batches that a stage meets on a rank
    totals = {
        "tensor_sent_bytes": m * layers * (4 * ring + np.where(split, ring, 0.0) + repeated),
        "context_sent_bytes": 3.0 * m * layers * passed,
        "pipeline_sent_bytes": np.where(r.p > 1, 2.0 * m * r.v * hop, 0.0),
        "expert_sent_bytes": 2.0 * m * sizes.expert_layers / r.p * whole,
        "expert_crossing_sent_bytes": 2.0 * m * sizes.expert_layers / r.p * crossing,
        "data_dense_sent_bytes": sum(gradient_bytes(problem, r.copies * dense / r.p, group, r.zero, of_one)),
        "data_expert_sent_bytes": sum(gradient_bytes(problem, r.copies * routed, expert_group, r.zero, of_one)),
    }
    return DimensionTransfers(
        (tensor[0], tensor[1], tensor[2]),
        (context[0], context[1]),
        expert,
        np.where(r.p > 1, hop / rates.hop + start(rates.stage_hops), 0.0),
        {name: np.asarray(value, dtype=np.float64) for name, value in totals.items()},
        group,
        expert_group,
    )


def _exchange(
    problem: LlmTrainingProblem, r: Records, activations: Floats, rates: DimensionRates, start: float
) -> tuple[Floats, Floats, Floats]:
    """Of tokens to experts in one layer and direction: seconds, bytes, bytes that leave the server."""
    experts, none = problem.model.experts, np.zeros_like(r.t)
    if experts is None:
        return none, none, none
    one = activations / r.t * (1.5 if problem.formats.fp8_dispatch else 2.0)
    whole = one * experts.per_token * (1.0 - 1.0 / r.x)
    servers = np.maximum(1.0, r.x * r.y / near(problem, r)[1])
    met = {count: servers_met(problem, count) for count in set(servers.tolist())}
    crossing = one * np.array([met[count] for count in servers.tolist()]) * (1.0 - 1.0 / servers)
    takes = np.where(r.x > 1, np.maximum(crossing / rates.expert, whole / rates.inside) + 2.0 * start, 0.0)
    return np.where(r.runs(*TWO_WAY), takes, takes * (1.0 - problem.overlap.expert)), whole, crossing
