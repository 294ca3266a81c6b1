"""What strategies cost: weights of a rank, transfers of groups, bytes sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb

import numpy as np

from topoopt.core.arrays import Bools, Floats
from topoopt.core.language_models import Experts, LanguageModel, LayerKind
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import RANK_ORDERS, Recompute
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.simulate.llm_training.strategies import BOTH_ENDS, Column, StrategyColumns
from topoopt.workloads.language_models import end_weights, routed_parameters, whole_ends
from topoopt.workloads.layer_kinds import (
    expert_weights,
    layer_weights,
    matrix_weights,
    passed_elements,
)

WHOLE = 1.0 - 1e-9
"""A part of a group that is all of it but for rounding."""


def ranks_beside(problem: LlmTrainingProblem, columns: StrategyColumns) -> tuple[dict[D, Column], Column]:
    """Ranks of a group on one server: along each dimension, and of those that share out the experts of a layer."""
    gpus_per_server = problem.cluster.gpus_per_server
    sizes = {D.TENSOR: columns.tensor, D.CONTEXT: columns.context, D.DATA: columns.data, D.PIPELINE: columns.pipeline}
    beside = {dimension: np.ones_like(columns.tensor) for dimension in sizes}
    for code in np.unique(columns.order).tolist():
        chosen, stride = columns.order == code, np.ones_like(columns.tensor)
        for dimension in RANK_ORDERS[int(code)]:
            here = np.minimum(np.maximum(gpus_per_server / stride, 1.0), sizes[dimension])
            beside[dimension] = np.where(chosen, here, beside[dimension])
            stride = stride * sizes[dimension]
    # Experts are shared out along tensor first, then context, then data.
    left, expert = columns.expert * columns.expert_tensor, np.ones_like(columns.tensor)
    for dimension in (D.TENSOR, D.CONTEXT, D.DATA):
        part = np.minimum(np.maximum(left, 1.0), sizes[dimension])
        expert = expert * np.minimum(part, beside[dimension])
        left = left / sizes[dimension]
    return beside, expert


EMBEDDING, HEAD, CHUNK = -3, -2, -1
"""Parts of stages behind the kinds of layers: what the first and what the last stage has, what each costs anyway."""


Weights = tuple[Column, Column]
"""All but experts, and experts."""


def part_weights(problem: LlmTrainingProblem, columns: StrategyColumns) -> list[Weights]:
    """Parameters on a rank of a layer of each kind, of the embedding and of the head."""
    model, t = problem.model, columns.tensor
    h, zero, shares = model.hidden, np.zeros_like(t), columns.expert * columns.expert_tensor
    parts = list[Weights]()
    for kind in model.kinds:
        routed = kind.experts
        experts = zero if routed is None else routed.count * expert_weights(routed, h) / shares
        parts.append((layer_weights(kind, h, t), experts))
    ends, whole = end_weights(model), whole_ends(model)
    embedding, head = ((all_of - own) / t + own for all_of, own in zip(ends, whole, strict=True))
    # The last stage has a copy of a tied embedding, but for one stage alone.
    copied = np.where(columns.pipeline > 1, model.vocabulary * h / t, 0.0) if model.tied else zero
    return [*parts, (embedding, zero), (head + copied, zero)]


Layers = Floats
"""float64[kinds, R], layers of each kind on a rank, those that predict further tokens included."""


def rank_weights(parts: list[Weights], layers: Layers, first: Bools, last: Bools) -> Weights:
    """Parameters on a rank with so many layers, by those of its parts."""
    counts = (*layers, first, last)
    sums = [sum(count * own[kind] for count, own in zip(counts, parts, strict=True)) for kind in range(2)]
    return np.asarray(sums[0]), np.asarray(sums[1])


BYTES_PER_GBIT = 1.25e8

LARGE_GROUP = 8
"""Ranks from which on groups reach most of the rate inside a server."""

ALL_SHARED = 3
"""ZeRO of weights that are gathered in every pass."""


@dataclass(frozen=True, eq=False)
class LayerTransfers:
    """Exposed seconds of a layer and micro-batch, one value a strategy.

    Attributes:
        tensor: of tensor groups forward, backward and in recomputation.
        context: of context groups forward and backward.
        expert: of tokens to experts in each direction, before another micro-batch hides them.
    """

    tensor: tuple[Column, Column, Column]
    context: tuple[Column, Column]
    expert: Column


@dataclass(frozen=True)
class GroupHops:
    """Hops on the longest way between ranks of a group; a switch is one."""

    tensor: int = 1
    context: int = 1
    expert: int = 1
    pipeline: int = 1


@dataclass(frozen=True, eq=False)
class GroupRates:
    """Bytes a second of a GPU in its groups, one value a strategy.

    Attributes:
        tensor, context, data, expert_data: of what it passes round; `expert_data`: among replicas of experts.
        expert: of tokens that leave the server.
        hop: to the next stage.
        inside: of links inside a server.
        hops: of the ways.
    """

    tensor: Column
    context: Column
    expert: Column
    hop: Column
    data: Column
    expert_data: Column
    inside: float
    hops: GroupHops = GroupHops()

    @staticmethod
    def of(problem: LlmTrainingProblem, columns: StrategyColumns) -> GroupRates:
        """Rates of the groups of strategies on an ideal switch.

        A group inside a server uses its links, any other one the interfaces, where those of all members in a server
        serve it.
        """
        cluster, reached = problem.cluster, problem.device.reached
        links = cluster.intra_server_gbps * BYTES_PER_GBIT
        outside = cluster.gpu_gbps * BYTES_PER_GBIT * reached.network
        near, expert = ranks_beside(problem, columns)
        tensor, context, data, pipeline = near[D.TENSOR], near[D.CONTEXT], near[D.DATA], near[D.PIPELINE]

        def rate(beside: Column, ranks: Column, sending: Column) -> Column:
            shares = [reached.scale_up_2, reached.scale_up_4]
            inside = links * np.select([beside < LARGE_GROUP / 2, beside < LARGE_GROUP], shares, reached.scale_up)
            return np.where(beside >= WHOLE * ranks, inside, np.minimum(inside, outside * sending))

        ones = np.ones_like(columns.tensor)
        # The other copy of DualPipe stands on the server where the whole pipeline does.
        inner = np.where(pipeline >= WHOLE * columns.pipeline, columns.copies, 1.0)
        of_data, of_experts = inner * context * data, inner * (tensor * context * data / expert)
        return GroupRates(
            tensor=rate(tensor, columns.tensor, ones),
            context=rate(context, columns.context, context),
            expert=outside * ones,
            hop=rate(pipeline, columns.pipeline, pipeline),
            data=rate(of_data, columns.replicas, of_data),
            expert_data=rate(of_experts, columns.expert_replicas, np.maximum(1.0, of_experts)),
            inside=links * reached.scale_up,
        )


def data_share(problem: LlmTrainingProblem, zero: Column) -> Column:
    """Of the rates of groups, what reducing gradients and gathering weights reach."""
    reached = problem.device.reached
    # Behind passes they share memory and processors with these.
    return np.where(zero >= ALL_SHARED, reached.gather, reached.data if problem.overlap.data else 1.0)


def round_waits(problem: LlmTrainingProblem, zero: Column, replicas: Column) -> Column:
    """Seconds that a layer of a pass of ZeRO 3 waits, beside its bytes: a ring of replicas has as many messages."""
    return np.where(zero >= ALL_SHARED, problem.cluster.message_latency_us * 1e-6 * (replicas - 1.0), 0.0)


def layer_transfers(
    problem: LlmTrainingProblem, columns: StrategyColumns, rates: GroupRates
) -> tuple[list[LayerTransfers], Column]:
    """Of a layer of each kind; and seconds of a hop to the next stage."""
    cluster, overlap = problem.cluster, problem.overlap

    def start(hops: int) -> float:
        return (cluster.message_latency_us + hops * cluster.hop_latency_us) * 1e-6

    def collective(sent: Column, rate: Column, ranks: Column, fixed: float) -> Column:
        rounds = np.ceil(np.log2(np.maximum(ranks, 1.0)))
        return np.where((ranks > 1) & (sent > 0), sent / rate + rounds * fixed, 0.0)

    reached = problem.device.reached
    tensor = rates.tensor * reached.tensor
    of_context, both = 2.0 * start(rates.hops.context), columns.scheduled(*BOTH_ENDS)
    transfers = list[LayerTransfers]()
    for kind in problem.model.kinds:
        traffic, of_tensor = layer_traffic(problem, columns, kind), 2.0 * blocks_of(kind) * start(rates.hops.tensor)
        forward, backward, again = (
            (1.0 - overlap.tensor) * collective(sent, tensor, columns.tensor, of_tensor) for sent in traffic.tensor
        )
        here, there = (
            reached.context * collective(sent, rates.context, columns.context, of_context) for sent in traffic.context
        )
        exchange = np.maximum(traffic.expert_crossing / rates.expert, traffic.expert / rates.inside)
        exchange = exchange + 2.0 * start(rates.hops.expert)
        exchange = np.where((columns.expert > 1) & (kind.experts is not None), exchange, 0.0)
        exchange = np.where(both, 1.0, 1.0 - overlap.expert) * exchange
        split = traffic.expert_tensor / tensor
        transfers.append(LayerTransfers((forward + split, backward + split, again), (here, there), exchange))
    hop = hop_bytes(problem, columns) / rates.hop + start(rates.hops.pipeline)
    return transfers, np.where(columns.pipeline > 1, hop, 0.0)


ELEMENT = 2.0


def blocks_of(kind: LayerKind) -> int:
    """Parts of a layer that add to what passes through it: mixer, MLP; tensor ranks sum up behind each."""
    return (kind.mixer is not None) + (kind.mlp is not None)


@dataclass(frozen=True, eq=False)
class LayerTraffic:
    """Bytes sent by a GPU for one micro-batch, one value a strategy.

    Attributes:
        tensor: (forward, backward, recomputation) of a layer; `tensor_again`: of backward, what gathers inputs a
            second time, which products of the backward pass hide.
        context: (forward, backward) of a layer.
        expert, expert_crossing: of a layer and direction; what leaves the server when a token goes to a server once.
        expert_tensor: of a layer and pass: inputs and outputs of an expert among the ranks that share its matrices.
    """

    tensor: tuple[Column, Column, Column]
    tensor_again: Column
    context: tuple[Column, Column]
    expert: Column
    expert_crossing: Column
    expert_tensor: Column


def expected_servers(experts: Experts, servers: Column) -> Column:
    """Servers that a token's experts lie on, if its router takes any K of E equally often."""

    def of(count: float) -> float:
        own = experts.count // max(1, round(count))
        missed = comb(experts.count - own, experts.per_token) / comb(experts.count, experts.per_token)
        mean = count * (1.0 - missed)
        return mean if experts.node_limit is None else min(mean, float(experts.node_limit))

    values = {count: of(count) for count in np.unique(servers).tolist()}
    return np.array([values[count] for count in servers.tolist()])


def layer_traffic(problem: LlmTrainingProblem, columns: StrategyColumns, kind: LayerKind) -> LayerTraffic:
    """Of a layer of a kind."""
    model, formats, length = problem.model, problem.formats, problem.batch.length
    t, c = columns.tensor, columns.context
    split = columns.sequence > 0
    tokens = columns.micro_batch * length / c
    ring = blocks_of(kind) * (tokens * model.hidden * ELEMENT) * (t - 1) / t
    full = columns.recomputes(Recompute.FULL)
    of_token, of_sequence = passed_elements(kind.mixer, t)
    context = (c - 1) * (tokens * of_token + columns.micro_batch * of_sequence) * ELEMENT
    zero = np.zeros_like(t)
    expert, crossing, split_experts, experts = zero, zero, zero, kind.experts
    if experts is not None:
        x = columns.expert
        sizes = (1.0 if formats.fp8_dispatch else ELEMENT) + ELEMENT
        own = tokens / t * (experts.latent or model.hidden) * sizes
        expert = own * experts.per_token * (x - 1) / x
        width = experts.latent or model.hidden
        split_experts = tokens / t * width * (2.0 * ELEMENT) * experts.per_token * (columns.expert_tensor - 1)
        servers = np.maximum(1.0, x * columns.expert_tensor / ranks_beside(problem, columns)[1])
        crossing = own * expected_servers(experts, servers) * (servers - 1) / servers
    return LayerTraffic(
        tensor=(2.0 * ring, 2.0 * ring, np.where(full, np.where(split, 1.5, 2.0) * ring, 0.0)),
        tensor_again=np.where(split, ring, 0.0),
        context=(context, 2.0 * context),
        expert=expert,
        expert_crossing=crossing,
        expert_tensor=split_experts,
    )


def hop_bytes(problem: LlmTrainingProblem, columns: StrategyColumns) -> Column:
    """Bytes of a micro-batch to the next stage, of a chunk."""
    tokens = columns.micro_batch * problem.batch.length / columns.context
    activations = tokens * problem.model.hidden * ELEMENT
    return np.where(columns.sequence > 0, activations / columns.tensor, activations)


def data_bytes(
    weights: Column, replicas: Column, zero: Column, gradient_bytes: int, micro_batches: Column
) -> tuple[Column, Column]:
    """Bytes of reducing gradients, and of gathering weights, of a GPU in an iteration."""
    ring = (replicas - 1) / np.maximum(replicas, 1.0)
    reduced = weights * gradient_bytes * ring
    gathered = weights * ELEMENT * ring
    scattered = np.where(zero >= 3, micro_batches, 1.0) * reduced
    return (
        np.where(zero == 0, 2.0 * reduced, scattered),
        np.where(zero == 0, 0.0, np.where(zero >= 3, 2.0 * micro_batches, 1.0) * gathered),
    )


def all_matrix_weights(model: LanguageModel, t: Column) -> tuple[Column, int]:
    """Weights of the matrices of all layers: what every token meets, on a tensor rank, and all routed experts."""
    dense = np.zeros_like(t)
    for count, kind in zip(model.counts, model.kinds, strict=True):
        dense = dense + count * matrix_weights(kind, model.hidden, t)
    return dense, routed_parameters(model)


def iteration_traffic(problem: LlmTrainingProblem, columns: StrategyColumns) -> dict[str, Column]:
    """Bytes sent by a GPU of an average stage in an iteration, by name, without embedding and head."""
    model, formats = problem.model, problem.formats
    m = problem.batch.sequences / columns.data / columns.micro_batch
    passes = m / columns.pipeline
    traffic = [layer_traffic(problem, columns, kind) for kind in model.kinds]
    layers = list(zip(model.counts, traffic, strict=True))

    def of_all(part: Callable[[LayerTraffic], Column]) -> Column:
        return np.asarray(sum(passes * count * part(traffic) for count, traffic in layers))

    directions = np.where(columns.pipeline > 1, 2.0 * m * columns.chunks, 0.0)
    dense, experts = all_matrix_weights(model, columns.tensor)
    held = columns.copies / columns.pipeline
    routed = held * experts / (columns.expert * columns.expert_tensor)
    rest = (columns.zero, formats.gradient_bytes, m / columns.copies)
    return {
        "tensor": of_all(lambda traffic: sum(traffic.tensor) + traffic.tensor_again + 2.0 * traffic.expert_tensor),
        "context": of_all(lambda traffic: np.asarray(sum(traffic.context))),
        "pipeline": directions * hop_bytes(problem, columns),
        "expert": of_all(lambda traffic: 2.0 * traffic.expert),
        "expert_crossing": of_all(lambda traffic: 2.0 * traffic.expert_crossing),
        "data_dense": np.asarray(sum(data_bytes(held * dense, columns.replicas, *rest))),
        "data_expert": np.asarray(sum(data_bytes(routed, columns.expert_replicas, *rest))),
    }
