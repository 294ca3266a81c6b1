"""What strategies cost: weights of a rank, transfers of groups, bytes sent, and the memory that ranks need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from math import comb

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.llm_training import (
    Attention,
    Experts,
    LanguageModel,
    LatentAttention,
    LayerKind,
    LlmTrainingProblem,
    Mlp,
    NumberFormats,
    TrainingMemory,
)
from topoopt.core.parallelism import RANK_ORDERS, PipelineSchedule, Recompute
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.native import pipeline
from topoopt.simulate.llm_training.strategies import (
    BOTH_ENDS,
    BYTES_PER_GBIT,
    LARGE_GROUP,
    Column,
    StrategyColumns,
    hop_bytes,
)
from topoopt.workloads.language_models import (
    end_weights,
    expert_weights,
    layer_weights,
    matrix_weights,
    mixer_kept,
    passed_elements,
    routed_parameters,
    whole_ends,
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


ALL_SHARED = 3
"""ZeRO of weights that are gathered in every pass."""


LayerTransfers = tuple[Column, Column, Column, Column, Column]
"""Exposed seconds of a layer and micro-batch, one value a strategy: of tensor groups forward, and backward with what is
recomputed; of context groups forward and backward; of tokens to experts in each direction, before another micro-batch
hides them."""


Hops = tuple[int, int, int, int]
"""On the longest way between ranks of a group: tensor, context, expert, pipeline; a switch is one."""


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
    hops: Hops = (1, 1, 1, 1)

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
    start_tensor, start_context, start_expert, start_hop = map(start, rates.hops)
    of_context, both = 2.0 * start_context, columns.scheduled(*BOTH_ENDS)
    transfers = list[LayerTransfers]()
    for kind in problem.model.kinds:
        traffic, of_tensor = layer_traffic(problem, columns, kind), 2.0 * blocks_of(kind) * start_tensor
        forward, backward, again = (
            (1.0 - overlap.tensor) * collective(sent, tensor, columns.tensor, of_tensor) for sent in traffic.tensor
        )
        here, there = (
            reached.context * collective(sent, rates.context, columns.context, of_context) for sent in traffic.context
        )
        exchange = np.maximum(traffic.expert_crossing / rates.expert, traffic.expert / rates.inside)
        exchange = exchange + 2.0 * start_expert
        exchange = np.where((columns.expert > 1) & (kind.experts is not None), exchange, 0.0)
        exchange = np.where(both, 1.0, 1.0 - overlap.expert) * exchange
        split = traffic.expert_tensor / tensor
        transfers.append((forward + split, backward + again + split, here, there, exchange))
    hop = hop_bytes(problem, columns) / rates.hop + start_hop
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
    # Selective recomputation leaves out scores. Tiles do not keep them; software that computes products again leaves
    # out outputs of norms and functions as well.
    selective = columns.recomputes(Recompute.SELECTIVE)
    again = np.where(selective & formats.flash & (problem.device.reached.again > 0.0), ELEMENT, 0.0)
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
