"""What strategies cost, by the checker's own model: weights, transfers, stages, bytes of memory.

All functions take strategies as columns (`Records`), so one strategy is a column of length 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import comb

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.llm_training import Experts, LanguageModel, LayerKind, LlmTrainingProblem
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.core.parallelism import ParallelStrategy, Recompute
from topoopt.core.parallelism import PipelineSchedule as S
from topoopt.verify.llm_training.layers import (
    BALANCED,
    BIDIRECTIONAL,
    GpuSeconds,
    Records,
    beside,
    even_ends,
    experts_of,
    kept_elements,
    layer_on_rank,
    memory_rate,
    mixing_of,
    parts_of,
    records_of,
    row_of,
)

HALF_PRECISION = 2.0
"""Bytes of an element."""

HIDDEN_COST = 132.0 / 112.0
"""How much longer a GPU computes while 20 of its 132 processors exchange tokens (arXiv:2412.19437)."""

STEP_BYTES, CLEARED_BYTES = 30.0, 6.0
"""Of a weight in the optimizer step: 16 are read, 14 written; of its gradient on each rank that has it."""

MAX_CASES = 1_000_000
"""Ranks that layers are dealt to together."""

Rates = Callable[[Records], "DimensionRates"]
"""Of the groups of strategies."""


def ends_on_rank(model: LanguageModel, t: Floats) -> tuple[Floats, Floats, Floats]:
    """Return weights of the embedding on a rank, of the head, and of what stands before the head.

    Nothing cuts positions and norms; biases of the head go with its rows.
    """
    h = 1.0 * model.hidden
    vocabulary = h * model.vocabulary / t
    front = vocabulary + h * (model.positions + model.embedding_norms)
    return front, vocabulary, h * model.final_norms + model.head_biases * model.vocabulary / t


def fixed_seconds(problem: LlmTrainingProblem) -> float:
    """Return what every iteration takes besides: data, norms of gradients."""
    return problem.cluster.slowdown * problem.device.reached.iteration_ms / 1e3


@dataclass(frozen=True, eq=False)
class DimensionRates:
    """Bytes a second of a GPU in its groups, float64[R], and hops of the longest routes; a switch is one.

    Attributes:
        inside: of links inside a server.
        tensor, context, data, expert_data: of what is passed round; `expert_data`: among replicas of experts.
        expert: of tokens that leave the server.
        pipeline: to the next stage.
    """

    inside: float
    tensor: Floats
    context: Floats
    data: Floats
    expert_data: Floats
    expert: Floats
    pipeline: Floats
    tensor_hops: int = 1
    context_hops: int = 1
    expert_hops: int = 1
    pipeline_hops: int = 1


def near(problem: LlmTrainingProblem, r: Records) -> tuple[dict[D, Floats], Floats]:
    """Return ranks on a server along each dimension, and of the group that shares out the experts of a layer."""
    local, group = beside(problem, r), r.x * r.y
    experts, before = np.ones_like(r.t), np.ones_like(r.t)
    for dimension in (D.TENSOR, D.CONTEXT, D.DATA):
        size = r.sizes[dimension]
        experts = experts * np.minimum(local[dimension], np.minimum(size, np.maximum(1.0, group / before)))
        before = before * size
    return local, experts


def ideal_rates(problem: LlmTrainingProblem, r: Records) -> DimensionRates:
    """Return the rates on an ideal switch.

    Groups inside a server use its links. Any other group uses the interfaces of the server; GPUs of other groups
    leave it theirs.
    """
    cluster, reached = problem.cluster, problem.device.reached
    links = cluster.intra_server_gbps * 1e9 / 8
    outside = cluster.degree * cluster.link_gbps / cluster.gpus_per_server * 1e9 / 8 * reached.network
    local, experts = near(problem, r)

    def within(ranks: Floats) -> Floats:
        small = np.where(ranks < 4, reached.scale_up_2, reached.scale_up_4)
        return links * np.where(ranks < 8, small, reached.scale_up)

    def rate(ranks: Floats, size: Floats) -> Floats:
        inside = within(ranks)
        return np.where(ranks > size * (1 - 1e-9), inside, np.minimum(inside, outside * np.maximum(1.0, ranks)))

    # With a whole pipeline on a server the other copy of a stage is there too.
    both = np.where(local[D.PIPELINE] > r.p * (1 - 1e-9), r.copies, 1.0) * local[D.CONTEXT] * local[D.DATA]
    group, of_experts = r.sharers
    return DimensionRates(
        links * reached.scale_up,
        np.where(
            local[D.TENSOR] > r.t * (1 - 1e-9), within(local[D.TENSOR]), np.minimum(within(local[D.TENSOR]), outside)
        ),
        rate(local[D.CONTEXT], r.c),
        rate(both, group),
        rate(both * local[D.TENSOR] / experts, of_experts),
        np.full_like(r.t, outside),
        rate(local[D.PIPELINE], r.p),
    )


def hopped_rates(problem: LlmTrainingProblem, r: Records) -> DimensionRates:
    """Return the rates on an ideal switch where a byte to an expert takes as many interfaces as links on its path."""
    ideal = ideal_rates(problem, r)
    counts, index = np.unique(np.maximum(1, r.x * r.y // problem.cluster.gpus_per_server), return_inverse=True)
    hops = np.array([_mean_hops(problem, int(count)) for count in counts])
    return replace(ideal, expert=ideal.expert / hops[index.ravel()])


def _mean_hops(problem: LlmTrainingProblem, servers: int) -> float:
    """Return the least mean distance from a server to the others of its group.

    Links lead to d servers, from each of these to d more, or to d - 1 where one leads back (Hoffman, Singleton 1960).
    """
    degree = max(2, problem.cluster.degree)
    further = degree - (problem.cluster.links == "bidirectional")
    remaining, ring, distance, total = servers - 1, degree, 1, 0
    while remaining > 0:
        reached = min(remaining, ring)
        total += reached * distance
        remaining, ring, distance = remaining - reached, ring * further, distance + 1
    return total / (servers - 1) if servers > 1 else 1.0


def servers_met(experts: Experts, servers: float) -> float:
    """Return on how many servers the experts of a token lie, any of them equally often."""
    share = experts.count // max(1, round(servers))
    none = comb(experts.count - share, experts.per_token) / comb(experts.count, experts.per_token)
    met = servers * (1.0 - none)
    return min(met, experts.node_limit) if experts.node_limit is not None else met


@dataclass(frozen=True, eq=False)
class Transfers:
    """What a GPU sends for one micro-batch in layers of one kind, float64[R].

    Attributes:
        tensor: exposed seconds of a layer: forward, backward, of what is recomputed.
        context: exposed seconds of a layer: forward, backward.
        expert: exposed seconds of a layer and direction.
        sent: bytes by name: of a layer `tensor` and `context`, of a layer and direction `expert` and `crossing`.
    """

    tensor: tuple[Floats, Floats, Floats]
    context: tuple[Floats, Floats]
    expert: Floats
    sent: dict[str, Floats]


def latency(problem: LlmTrainingProblem, hops: int) -> float:
    """Return the seconds that one message takes besides its bytes."""
    return (problem.cluster.message_latency_us + hops * problem.cluster.hop_latency_us) / 1e6


def activations_of(problem: LlmTrainingProblem, r: Records) -> Floats:
    """Return the bytes that pass from layer to layer in a micro-batch."""
    return 2.0 * r.b * problem.batch.length / r.c * problem.model.hidden


def hop_of(problem: LlmTrainingProblem, r: Records, rates: DimensionRates) -> tuple[Floats, Floats]:
    """Return the bytes to the next stage, and their seconds."""
    sent = activations_of(problem, r) / np.where(r.split > 0, r.t, 1.0)
    return sent, np.where(r.p > 1, sent / rates.pipeline + latency(problem, rates.pipeline_hops), 0.0)


def transfers_of(problem: LlmTrainingProblem, r: Records, kind: LayerKind, rates: DimensionRates) -> Transfers:
    """Return bytes and exposed seconds of the transfers inside passes of layers of a kind."""
    parts, mixing = parts_of(kind), mixing_of(kind, problem.model.hidden, r.t)
    activations = activations_of(problem, r)
    ring, split = parts * activations * (r.t - 1) / r.t, r.split > 0  # there or back, of all parts
    repeated = np.where(r.again(Recompute.FULL), ring * np.where(split, 1.5, 2.0), 0.0)
    waits = 2.0 * parts * np.ceil(np.log2(r.t)) * latency(problem, rates.tensor_hops)
    exposed, reaching = (1.0 - problem.overlap.tensor) * (r.t > 1), rates.tensor * problem.device.reached.tensor
    forward, again = (exposed * (sent > 0) * (sent / reaching + waits) for sent in (2 * ring, repeated))
    elements = r.b * problem.batch.length / r.c * mixing.passed + r.b * mixing.passed_once
    passed = HALF_PRECISION * (r.c - 1) * elements
    wait = 2.0 * np.ceil(np.log2(r.c)) * latency(problem, rates.context_hops)
    share = problem.device.reached.context * (passed > 0)
    context = tuple(share * (sent / rates.context + wait) for sent in (passed, 2.0 * passed))
    expert, tokens, crossing = _exchange(problem, r, kind, activations, rates)
    gathered = _split_experts(problem, r, kind, activations)
    both = forward + gathered / reaching
    return Transfers(
        (both, both, again),
        (context[0], context[1]),
        expert,
        {
            "tensor": 4 * ring + np.where(split, ring, 0.0) + repeated + 2 * gathered, "context": 3.0 * passed,
            "expert": tokens, "crossing": crossing,
        },
    )  # fmt: skip


def _split_experts(problem: LlmTrainingProblem, r: Records, kind: LayerKind, activations: Floats) -> Floats:
    """Return the bytes of a pass that ranks with parts of an expert gather, and add up of what they made."""
    experts = experts_of(kind)
    if experts is None:
        return np.zeros_like(r.t)
    rows = experts.per_token * activations / r.t * ((experts.latent or problem.model.hidden) / problem.model.hidden)
    return np.asarray(2.0 * rows * (r.y - 1.0))


def _exchange(
    problem: LlmTrainingProblem, r: Records, kind: LayerKind, activations: Floats, rates: DimensionRates
) -> tuple[Floats, Floats, Floats]:
    experts, none = experts_of(kind), np.zeros_like(r.t)
    if experts is None:
        return none, none, none
    token = activations / r.t * (1.5 if problem.formats.fp8_dispatch else 2.0)
    if experts.latent:
        token = token * (experts.latent / problem.model.hidden)
    sent = token * experts.per_token * (1.0 - 1.0 / r.x)
    servers, index = np.unique(np.maximum(1.0, r.x * r.y / near(problem, r)[1]), return_inverse=True)
    met = np.array([servers_met(experts, count) * (1.0 - 1.0 / count) for count in servers.tolist()])
    crossing = token * met[index.ravel()]
    start = 2.0 * latency(problem, rates.expert_hops)
    takes = np.where(r.x > 1, np.maximum(crossing / rates.expert, sent / rates.inside) + start, 0.0)
    return np.where(r.runs(*BIDIRECTIONAL), takes, takes * (1.0 - problem.overlap.expert)), sent, crossing


def gradient_bytes(
    problem: LlmTrainingProblem, weights: Floats, ranks: Floats, zero: Floats, m: Floats | float = 1.0
) -> tuple[Floats, Floats]:
    """Return the bytes of an iteration to reduce gradients, and to gather weights."""
    moved = weights * (1.0 - 1.0 / np.maximum(1.0, ranks))
    scatter = np.where(zero == 0, 2.0, np.where(zero == 3, m, 1.0)) * moved * problem.formats.gradient_bytes
    return scatter, np.where(zero == 0, 0.0, np.where(zero == 3, 2.0 * m, 1.0)) * moved * 2.0


@dataclass(frozen=True, eq=False)
class StageRows:
    """Stages of strategies that have as many, float64[stages, R]; `hop` float64[R].

    Attributes:
        forward, inputs, weights: passes of a micro-batch with their exposed transfers.
        layers: at least 1.
        kinds: layers of each kind, float64[kinds, stages, R].
        reduced, gathered, step: seconds of gradients, of weights (of ZeRO 3 for one micro-batch), of the optimizer.
        hop: seconds to the next stage.
        parts: passes by what they are.
        moved: bytes that are reduced and gathered, of dense weights and of experts.
    """

    forward: Floats
    inputs: Floats
    weights: Floats
    layers: Floats
    kinds: Floats
    reduced: Floats
    gathered: Floats
    step: Floats
    hop: Floats
    parts: dict[str, Floats]
    moved: tuple[tuple[Floats, Floats], tuple[Floats, Floats]]

    @property
    def back(self) -> Floats:
        return self.inputs + self.weights


def kinds_before(model: LanguageModel) -> Ints:
    """Return how many layers of each kind stand before each layer, and in all, int64[L + 1, kinds]."""
    of_layer = [[0] * len(model.kinds)]
    for kind in model.order:
        of_layer.append([count + (index == kind) for index, count in enumerate(of_layer[-1])])
    return np.array(of_layer, dtype=np.int64)


def kinds_of_stages(model: LanguageModel, layers: Floats) -> Floats:
    """Return the layers of each kind in stages whose layers are float64[stages, R], as float64[kinds, stages, R].

    Layers that predict further tokens stand in none.
    """
    before, ends = kinds_before(model), np.cumsum(layers, axis=0).astype(np.int64)
    return np.moveaxis((before[ends] - before[ends - layers.astype(np.int64)]).astype(np.float64), 2, 0)


def stage_rows(problem: LlmTrainingProblem, r: Records, layers: Floats, rates: DimensionRates) -> StageRows:
    """Return the stages of strategies whose layers are float64[stages, R]."""
    early = np.zeros((len(layers), 1))
    early[0] = 1.0
    return _rows(problem, r, kinds_of_stages(problem.model, layers), (early, early[::-1]), rates, 1)


def inner_rank(problem: LlmTrainingProblem, r: Records, layers: Floats, rates: DimensionRates) -> StageRows:
    """Return the passes of one rank, all its chunks together: of those between the ends the first of the longest.

    With two ranks it is the longer one; with one it has both ends.

    Args:
        layers: float64[stages, 1] of the only strategy.
    """
    p = int(r.p[0])
    loads = layers[:, 0].reshape(-1, p).sum(axis=0)
    inner = range(1, p - 1) if p > 2 else range(p)
    rank = max(inner, key=lambda k: (loads[k], -k))
    kinds = kinds_of_stages(problem.model, layers)[:, rank::p].sum(axis=1, keepdims=True)
    only = np.array([[float(p == 1)]])
    return _rows(problem, r, kinds, (only, only), rates, len(layers) // p)


def _rows(
    problem: LlmTrainingProblem,
    r: Records,
    kinds: Floats,
    ends: tuple[Floats, Floats],
    rates: DimensionRates,
    chunks: int,
) -> StageRows:
    """Return stages of so many chunks by layers of each kind, and whether embedding and head are there."""
    model, gpu = problem.model, GpuSeconds(problem, r)
    slow, (early, late) = problem.cluster.slowdown, ends
    kinds = kinds.copy()
    kinds[model.order[-1]] = kinds[model.order[-1]] + late * model.mtp_layers
    embedding, head = gpu.ends()
    took = embedding[:, None] * early + head[:, None] * late * (1.0 + model.mtp_layers)
    took = took + chunks * gpu.handing_over(hop_of(problem, r, rates)[0])[:, None]
    sent = {name: np.zeros_like(kinds[0]) for name in ("ahead", "back", "here", "there", "exchange")}
    front, vocabulary, behind = ends_on_rank(model, r.t)
    dense = early * front + late * (behind + np.where((r.p == 1) & model.tied, 0.0, vocabulary))
    experts, routed = np.zeros_like(kinds[0]), np.zeros_like(kinds[0])
    for kind, count in zip(model.kinds, kinds, strict=True):
        took = took + gpu.layer(kind)[:, None] * count
        moved, (_, own, routed_own) = transfers_of(problem, r, kind, rates), layer_on_rank(kind, model.hidden, r.t)
        seconds = moved.tensor[0], moved.tensor[1] + moved.tensor[2], *moved.context, moved.expert
        for name, value in zip(sent, seconds, strict=True):
            sent[name] = sent[name] + slow * count * value
        dense, experts = dense + count * own, experts + count * (routed_own / (r.x * r.y))
        routed = routed + count * (experts_of(kind) is not None)
    bidirectional, exchange = r.runs(*BIDIRECTIONAL) & (r.x > 1), sent["exchange"]
    forward, inputs, weights, again = took * slow * np.where(bidirectional, HIDDEN_COST, 1.0)
    exchange = exchange - np.where(bidirectional, np.minimum(exchange, (forward + inputs + weights) / 2.0), 0.0)
    group, of_experts = r.sharers
    both = gradient_bytes(problem, dense, group, r.zero), gradient_bytes(problem, experts, of_experts, r.zero)
    reached = problem.device.reached
    part = slow / np.where(r.zero == 3, reached.gather, reached.data if problem.overlap.data else 1.0)
    # All replicas pass a layer round in every pass, a message each.
    waits = (
        slow * np.where(r.zero == 3, group - 1.0, 0.0) * problem.cluster.message_latency_us / 1e6 * kinds.sum(axis=0)
    )
    reduced, gathered = (
        part * (a / rates.data + b / rates.expert_data) + times * waits
        for times, (a, b) in zip((1.0, 2.0), zip(*both, strict=True), strict=True)
    )
    one_by_one = early * group * reached.replica_ms / 1e3
    cleared = CLEARED_BYTES * (
        dense / np.where(r.zero == 3, group, 1.0) + experts / np.where(r.zero == 3, np.maximum(1.0, of_experts), 1.0)
    )
    held = dense / np.where(r.zero > 0, group, 1.0) + experts / np.where(r.zero > 0, np.maximum(1.0, of_experts), 1.0)
    return StageRows(
        forward + sent["ahead"] + sent["here"] + exchange,
        inputs + again + sent["back"] + sent["there"] + exchange,
        weights,
        np.maximum(1.0, kinds.sum(axis=0)),
        kinds,
        reduced,
        gathered,
        slow * ((held * STEP_BYTES + cleared) / memory_rate(problem) + one_by_one),
        slow * hop_of(problem, r, rates)[1],
        {
            "forward": forward, "backward": inputs + weights, "recompute": again,
            "tensor": sent["ahead"] + sent["back"], "context": sent["here"] + sent["there"], "expert": 2.0 * exchange,
        },
        both,
    )  # fmt: skip


def layers_of(problem: LlmTrainingProblem, r: Records, p: int, v: int) -> Floats:
    """Return the layers of every stage of strategies of p ranks with v chunks, float64[p v, R]."""
    layers, balanced = _dealt(problem.model.layers, p, v, r.first, r.last), np.flatnonzero(r.first == BALANCED)
    for index in np.array_split(balanced, 1 + len(balanced) * p // MAX_CASES) if len(balanced) else ():
        layers[:, index] = _balanced(problem, r.of(index), p, v)
    return layers


def _dealt(layers: int, p: int, v: int, first: Floats, last: Floats) -> Floats:
    """Return layers where the ranks between the ends have as many as they can alike.

    A rank's longer chunks are its last ones; of the last rank the one before the head stays short.
    """
    if p == 1:
        return np.full((1, len(first)), float(layers))
    stages, between = np.zeros((p * v, len(first))), layers - first - last
    for rank in range(p):
        inner = np.floor((between + (p - 2) - rank) / max(1, p - 2))  # the first ones have one more
        load = first if rank == 0 else last if rank == p - 1 else inner
        more, stop = load - v * np.floor(load / v), v - 1 if rank == p - 1 else v
        for chunk in range(v):
            stages[chunk * p + rank] = np.floor(load / v) + ((stop - more <= chunk) & (chunk < stop))
    return stages


def _balanced(problem: LlmTrainingProblem, r: Records, p: int, v: int) -> Floats:
    """Return balanced layers.

    Layers beyond what no chunk goes without go one by one to the rank that is through with one more first and that
    memory lets have it; of ranks that are through together to the later one.
    """
    layers, lanes, dense_count = problem.model.layers, np.arange(len(r.t)), lead_of(problem.model)
    capacity, (around, dense, routed) = _capacities(problem, r, p), _rank_seconds(problem, r, p)
    loads = np.repeat([[float(v - (rank in (0, p - 1)))] for rank in range(p)], len(lanes), axis=1)
    fits = (loads <= capacity).all(axis=0) & (loads.sum(axis=0) <= layers)

    def through(rank: Ints) -> Floats:
        load = loads[rank, lanes] + 1.0
        plain = np.where(rank == 0, np.minimum(dense_count, load), 0.0)
        took = around[rank, lanes] + plain * dense + (load - plain) * routed
        return np.where(load <= capacity[rank, lanes], took, np.inf)

    took = np.stack([through(np.full_like(lanes, rank)) for rank in range(p)])
    for _ in range(int(layers - loads[:, 0].sum())):
        rank = p - 1 - took[::-1].argmin(axis=0)
        fits &= took[rank, lanes] < np.inf
        loads[rank, lanes] += 1.0
        took[rank, lanes] = through(rank)
    first, _, last = even_ends(layers, p, v)
    stages = _dealt(layers, p, v, np.where(fits, loads[0], first), np.where(fits, loads[-1], last))
    for rank in range(1, p - 1):
        least, more = np.divmod(loads[rank], v)
        for chunk in range(v):
            stages[chunk * p + rank] = np.where(fits, least + (v - more <= chunk), stages[chunk * p + rank])
    return stages


def _rank_seconds(problem: LlmTrainingProblem, r: Records, p: int) -> tuple[Floats, Floats, Floats]:
    """Return for a micro-batch on an ideal switch: what ranks compute besides layers, float64[p, R]; a layer without
    experts; a layer with them."""
    model, gpu, slow, ideal = problem.model, GpuSeconds(problem, r), problem.cluster.slowdown, ideal_rates(problem, r)
    seconds = list[Floats]()
    for kind in model.kinds:
        sent = transfers_of(problem, r, kind, ideal)
        exposed = sum(sent.tensor) + sum(sent.context) + 2.0 * sent.expert
        seconds.append(slow * (gpu.layer(kind).sum(axis=0) + exposed))
    dense, routed = _lead_and_others(model, seconds)
    embedding, head = gpu.ends()
    around = np.zeros((p, len(r.t)))
    chunks = r.v * gpu.handing_over(hop_of(problem, r, ideal)[0]).sum(axis=0)
    around += slow * chunks
    around[0] += slow * embedding.sum(axis=0)
    around[-1] += (1.0 + model.mtp_layers) * slow * head.sum(axis=0) + model.mtp_layers * seconds[model.order[-1]]
    return around, dense, routed


def lead_of(model: LanguageModel) -> int:
    """Return how many first layers are of a kind that stands nowhere else, where there are other layers."""
    first = model.order[0]
    lead = next((index for index, kind in enumerate(model.order) if kind != first), 0)
    return 0 if first in model.order[lead:] else lead


def _lead_and_others(model: LanguageModel, values: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return a value of the first layers, and the mean of all others, of values of each kind."""
    lead = lead_of(model)
    others = model.order[lead:]
    met = sorted(set(others))
    total = [others.count(kind) * values[kind] for kind in met]
    mean = values[met[0]] if len(met) == 1 else np.asarray(np.sum(total, axis=0) / len(others))
    return values[model.order[0]] if lead else mean, mean


def _capacities(problem: LlmTrainingProblem, r: Records, p: int) -> Floats:
    """Return the most layers that the memory of each rank holds, float64[p, R]; all but the first at their mean."""
    model, usable, capacity = problem.model, problem.usable_bytes, np.full((p, len(r.t)), np.inf)
    if usable is None:
        return capacity
    h, m, lead, last_kind = model.hidden, problem.batch.sequences / (r.d * r.b), lead_of(model), model.order[-1]
    bytes_of_weights = [np.sum(_state(problem, r, *_weights_of_layer(model, kind, r)), axis=0) for kind in model.kinds]
    of_lead, of_others = _lead_and_others(model, bytes_of_weights)
    kept = _lead_and_others(model, [_kept(problem, r, kind, h) for kind in model.kinds])[1]
    working = np.max([_kept(problem, r, kind, h, computed=True) for kind in model.kinds], axis=0)
    front, vocabulary, behind = ends_on_rank(model, r.t)
    for rank in range(p):
        around = working
        if rank == 0:
            around = around + sum(_state(problem, r, front, 0.0 * r.t))
        if rank == p - 1:
            head = behind + np.where((r.p == 1) & model.tied, 0.0, vocabulary)
            around = around + sum(_state(problem, r, head, 0.0 * r.t)) + model.mtp_layers * bytes_of_weights[last_kind]
            around = around + np.maximum(0.0, _logits(problem, r) - working)
        held = _held_micro_batches(r, m, np.full_like(r.t, float(rank))) * kept
        begin = lead if rank == 0 else 0
        some = around + begin * (of_lead + held)
        capacity[rank] = begin + np.floor((usable - some) / (of_others + held))
        if begin:
            plain = np.floor((usable - around) / (of_lead + held))
            capacity[rank] = np.where(some <= usable, capacity[rank], plain)
    return capacity


def held_by(problem: LlmTrainingProblem, r: Records) -> Floats:
    """Return the bytes of the fullest rank, float64[R]."""
    held = np.empty(len(r.t))
    for _, p, v, every in r.kinds():
        some = r.of(every)
        layouts = np.stack([some.first, some.inner, some.last])
        same, first, index = np.unique(layouts, axis=1, return_index=True, return_inverse=True)
        balanced = bool((same == BALANCED).any())
        stages = layers_of(problem, some if balanced else some.of(first), p, v)
        kinds = kinds_of_stages(problem.model, stages).reshape(len(problem.model.kinds), v, p, -1).sum(axis=1)
        held[every] = _fullest(problem, some, kinds, None if balanced else index.ravel())[1]
    return held


def bytes_of(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> dict[str, float]:
    """Return the bytes of the fullest rank of a strategy that states its layers, by what they hold."""
    layers, p, v = np.array([strategy.stage_layers], dtype=np.float64).T, strategy.pipeline, strategy.chunks
    kinds = kinds_of_stages(problem.model, layers).reshape(len(problem.model.kinds), v, p, -1).sum(axis=1)
    held, _ = _fullest(problem, records_of([row_of(strategy)]), kinds, None)
    return {name: float(value[0]) for name, value in held.items()}


def _fullest(
    problem: LlmTrainingProblem, r: Records, kinds: Floats, layout: Ints | None
) -> tuple[dict[str, Floats], Floats]:
    """Return bytes by what they hold, of the rank that holds most, and all of them together.

    Args:
        kinds: float64[kinds, p, layouts], layers of the ranks; strategies all have one schedule and number of ranks.
        layout: of each strategy; None: each has its own.
    """
    model, p, m = problem.model, kinds.shape[1], problem.batch.sequences / (r.d * r.b)
    kinds = kinds.copy()
    kinds[model.order[-1], -1] += model.mtp_layers
    mirrored = bool(r.runs(*BIDIRECTIONAL).all()) and p > 1
    if mirrored:  # a rank holds a stage and the one as far from the other end
        kinds = (kinds + kinds[:, ::-1]) / 2.0
    front, vocabulary, behind = ends_on_rank(model, r.t)
    head, logits = behind + np.where((p == 1) & model.tied, 0.0, vocabulary), _logits(problem, r)
    weights = [_weights_of_layer(model, kind, r) for kind in model.kinds]
    kept = [_kept(problem, r, kind, model.hidden) for kind in model.kinds]
    computed = [_kept(problem, r, kind, model.hidden, computed=True) for kind in model.kinds]
    best, most, met = dict[str, Floats](), np.full(len(r.t), -1.0), list[Floats]()
    for rank in range(p):
        own, inner = kinds[:, rank], 0 < rank < p - 1
        if inner and any((own <= other).all() for other in met):
            continue  # an earlier rank has as many layers of every kind, and more micro-batches
        met += [own] if inner else []
        of_rank = own if layout is None else own[:, layout]
        share = 0.5 if mirrored else 1.0
        early, late = share * (rank == 0), share * (rank == p - 1)
        if mirrored and not inner:
            early = late = share
        dense = sum((n * part[0] for n, part in zip(of_rank, weights, strict=True)), early * front + late * head)
        experts = sum((n * part[1] for n, part in zip(of_rank, weights, strict=True)), 0.0 * r.t)
        states = _state(problem, r, dense, experts)
        flight = _held_micro_batches(r, m, np.full_like(m, float(rank)))
        activations = flight * sum((n * size for n, size in zip(of_rank, kept, strict=True)), 0.0 * m)
        working = np.max([np.where(n > 0, size, 0.0) for n, size in zip(of_rank, computed, strict=True)], axis=0)
        at_end = logits if late else 0.0 * m
        layer = np.max([np.where(n > 0, sum(part), 0.0) for n, part in zip(of_rank, weights, strict=True)], axis=0)
        held = {
            **dict(zip(("weights", "gradients", "optimizer"), states, strict=True)),
            "activations": activations,
            "logits": np.where(at_end >= working, at_end, 0.0),
            "working": np.where(at_end >= working, 0.0, working),
            "gathered": np.where(r.zero == 3, (4.0 + problem.formats.gradient_bytes) * layer, 0.0),
        }
        total = sum(held.values(), 0.0 * m)
        fuller = total > most
        best = {name: np.where(fuller, held[name], best[name]) for name in held} if best else held
        most = np.maximum(total, most)
    return best, most


def _weights_of_layer(model: LanguageModel, kind: LayerKind, r: Records) -> tuple[Floats, Floats]:
    """Return what a rank holds of a layer: all but routed experts, and these."""
    _, weights, experts = layer_on_rank(kind, model.hidden, r.t)
    return weights, experts / (r.x * r.y)


def _state(problem: LlmTrainingProblem, r: Records, dense: Floats, experts: Floats) -> tuple[Floats, Floats, Floats]:
    """Return bytes of weights, gradients and optimizer, shared out among the ranks that hold the same."""
    formats, parts = problem.formats, [np.zeros_like(r.t) for _ in range(3)]
    sizes = formats.weight_bytes, formats.gradient_bytes, formats.master_bytes + 2 * formats.moment_bytes
    for local, n in zip((dense, experts), r.sharers, strict=True):
        for index, (size, zero) in enumerate(zip(sizes, (3, 2, 1), strict=True)):
            shared = np.where(r.zero >= zero, np.maximum(1.0, n), 1.0)
            parts[index] = parts[index] + r.copies * local * size / shared
    return parts[0], parts[1], parts[2]


def _logits(problem: LlmTrainingProblem, r: Records) -> Floats:
    return 6.0 * r.b * problem.batch.length / r.c * problem.model.vocabulary / r.t


def _kept(problem: LlmTrainingProblem, r: Records, kind: LayerKind, h: int, *, computed: bool = False) -> Floats:
    """Return bytes of a layer and micro-batch that wait for the backward pass.

    Args:
        computed: of the layer that is being computed, which keeps all for the moment.
    """
    split = np.where(r.split > 0, r.t, 1.0)
    some = r.again(Recompute.SELECTIVE) & problem.formats.flash & (problem.device.reached.again > 0.0)
    once = np.where(some & (not computed), 0.0, 1.0)
    size, heads = kept_elements(kind, h, r.t, split, once), mixing_of(kind, h, r.t).heads
    if heads and not problem.formats.flash:
        scores = 5.0 * heads / r.t * problem.batch.length / r.c
        size = size + (scores if computed else np.where(r.again(Recompute.SELECTIVE), 0.0, scores))
    if not computed:
        size = np.where(r.again(Recompute.FULL), 2.0 * h / split, size)
    return np.asarray(r.b * problem.batch.length / r.c * size)


def _held_micro_batches(r: Records, m: Floats, rank: Floats) -> Floats:
    warm_up = 2.0 * (r.p - rank - 1.0) + (r.v - 1.0) * r.p
    rules = {
        (S.INTERLEAVED,): np.minimum(m, (warm_up + 1.0) / r.v),
        (S.GPIPE,): m,
        (S.ZB_H1,): np.minimum(m, r.p),
        (S.ZB_2P,): np.minimum(m, 2.0 * r.p),
        BIDIRECTIONAL: np.minimum(m, r.p + 1.0),
    }
    return np.select([r.runs(*names) for names in rules], list(rules.values()), np.minimum(m, r.p - rank))
