"""What strategies cost, by the checker's own model: weights, seconds of layers, transfers, bytes of memory.

All functions take strategies as columns (`Records`), so one strategy is a column of length 1. A product of (r, k) by
(k, n) matrices takes (2 r k n + half) / rate, or where that is longer 2 (r k + k n + r n) bytes at the rate of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import comb

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import LanguageModel, ParallelStrategy, Recompute
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.core.parallelism import PipelineSchedule as S
from topoopt.verify.llm_training.space import BALANCED, BIDIRECTIONAL, Records, beside, even_ends, records_of, row_of

HALF_PRECISION = 2.0
"""Bytes of an element."""

SCORE_TRAFFIC = 13.0
"""Bytes for each score of attention that is written (softmax, dropout with its mask), where there are no tiles."""

HIDDEN_COST = 132.0 / 112.0
"""How much longer a GPU computes while 20 of its 132 processors exchange tokens (arXiv:2412.19437)."""

STEP_BYTES = 30.0
"""Of a weight in the optimizer step: 16 are read, 14 written."""

MAX_CASES = 1_000_000
"""Ranks that layers are dealt to together."""

Rates = Callable[[Records], "DimensionRates"]
"""Of the groups of strategies."""


@dataclass(frozen=True, eq=False)
class RankWeights:
    """Weights on one of t ranks that share each matrix, float64[R]; experts are counted apart.

    Attributes
    ----------
    dense, routed : matrices of a layer, without routed experts.
    dense_layer, routed_layer : the same with norms and biases.
    embedding, vocabulary, final_norm : of the first and the last stage; `vocabulary`: without positions.
    experts : of all routed experts of a layer together.
    """

    dense: Floats
    routed: Floats
    dense_layer: Floats
    routed_layer: Floats
    embedding: Floats
    vocabulary: Floats
    final_norm: int
    experts: int


def rank_weights(model: LanguageModel, t: Floats) -> RankWeights:
    """Return weights of a rank: heads of keys and values are cut into no more parts than there are.

    Nothing cuts norms, routers, gates, biases behind a sum over ranks, projections to low ranks, positions.
    """
    h, e, latent, rows = model.hidden, model.experts, model.latent, 2 + model.gated
    heads, keys = model.heads * model.head_size, 2 * model.kv_heads * model.head_size
    shares = np.minimum(t, model.kv_heads) if latent is None else t
    norms = 2 * h + (2 * model.head_size if model.query_key_norms else 0) + (3 * h if model.biases else 0)
    if latent is None:
        attention = 2 * h * heads / t + h * keys / shares
    else:
        low, query_key = latent.query_rank, latent.plain_size + latent.rotary_size
        cut = (low or h) * query_key + h * latent.value_size
        cut = model.heads * (cut + latent.key_value_rank * (latent.plain_size + latent.value_size))
        attention = cut / t + h * (low + latent.key_value_rank + latent.rotary_size)
        norms += low + latent.key_value_rank
    dense = routed = attention + rows * h * model.ffn_hidden / t
    experts = balance = 0
    if e is not None:
        experts, balance = rows * h * e.hidden * e.count, e.count if e.balanced else 0
        routed = attention + rows * h * e.hidden * e.shared / t + h * (e.count + e.shared_gate)
    biases = (heads / t + keys / shares) * (model.biases or model.attention_biases)
    return RankWeights(
        dense,
        routed,
        dense + norms + biases + (model.ffn_hidden / t + h) * model.biases,
        routed + norms + biases + balance,
        h * model.vocabulary / t + h * model.positions,
        h * model.vocabulary / t,
        (1 + model.biases) * h,
        experts,
    )


def mean_keys(model: LanguageModel, length: int) -> float:
    """Return the mean number of keys that a token attends to; behind a window always as many as it has."""
    w = float(min(length, model.attention_window or length))
    return (w * w / 2.0 + (length - w) * w) / length


def dense_layers(model: LanguageModel) -> int:
    """Return how many first layers have no experts."""
    return model.layers if model.experts is None else model.experts.dense_layers


class GpuSeconds:
    """Seconds of a micro-batch on one GPU, float64[4, R]: forward, gradients of inputs and of weights, recomputed."""

    def __init__(self, problem: LlmTrainingProblem, records: Records) -> None:
        device, reached = problem.device, problem.device.reached
        self.problem, self.model, self.r = problem, problem.model, records
        self.tokens = records.b * problem.batch.length / records.c
        self.wide = device.matrix_tflops * reached.products * 1e12
        eight = problem.formats.fp8 and device.fp8_tflops is not None
        self.rate = (device.fp8_tflops or 0.0) * reached.fp8_products * 1e12 if eight else self.wide
        self.half = reached.half_gflops * 1e9
        self.memory = memory_rate(problem)

    def product(self, rows: Floats, inner: Floats | float, columns: Floats | float, rate: float) -> Floats:
        """Return the seconds of one product of matrices."""
        computing = (2.0 * rows * inner * columns + self.half) / rate
        moving = HALF_PRECISION * (rows * (inner + columns) + inner * columns) / self.memory
        return np.asarray(np.maximum(computing, moving))

    def layer(self, *, routed: bool) -> Floats:
        """Return the seconds of a dense layer, or of one of experts."""
        reached = self.problem.device.reached
        matrices = self._attention() + (self._experts() if routed else self._mlp(self.model.ffn_hidden))
        core, back = self._core()
        between = self._between(routed=routed)
        # Each expert of a GPU starts products of its own, for gradients of weights too.
        starts = reached.expert_us / 1e6 * self._local() if routed else np.zeros_like(core)
        launch = reached.pass_us / 1e6 + starts
        forward = matrices + core + between + launch
        again = np.where(self.r.again(Recompute.FULL), forward, 0.0)
        if not self.problem.formats.flash:
            again = np.where(self.r.again(Recompute.SELECTIVE), core, again)
        return np.stack([forward, matrices + back + 1.5 * between + launch, matrices + starts, again])

    def attention(self) -> tuple[Floats, Floats]:
        """Return what a layer computes before its MLP or experts: forward, and gradients of the inputs."""
        core, back = self._core()
        return self._attention() + core, self._attention() + back

    def ends(self) -> tuple[Floats, Floats]:
        """Return the seconds of the embedding, and of the head with the loss."""
        none, part = np.zeros_like(self.tokens), self.model.vocabulary / self.r.t
        rows = 2 * HALF_PRECISION * self.tokens * self.model.hidden / self.memory
        matrix = self.product(self.tokens, self.model.hidden, part, self.wide)
        loss = 12.0 * self.tokens * part / self.memory
        return np.stack([rows, none, 2 * rows, none]), np.stack([matrix + loss, matrix + loss, matrix, none])

    def _attention(self) -> Floats:
        model, t, h, latent = self.model, self.r.t, self.model.hidden, self.model.latent
        sizes: tuple[tuple[Floats | float, Floats | float], ...]
        if latent is None:
            queries = model.heads * model.head_size / t
            keys = np.maximum(1.0, model.kv_heads / t) * model.head_size
            sizes = (h, queries + keys + keys), (queries, h)
        else:
            heads, low = model.heads / t, float(latent.query_rank + latent.key_value_rank + latent.rotary_size)
            sizes = (
                (h, low),
                (latent.query_rank or h, heads * (latent.plain_size + latent.rotary_size)),
                (latent.key_value_rank, heads * (latent.plain_size + latent.value_size)),
                (heads * latent.value_size, h),
            )
        return np.asarray(sum(self.product(self.tokens, inner, columns, self.rate) for inner, columns in sizes))

    def _mlp(self, width: float) -> Floats:
        h, part = self.model.hidden, width / self.r.t
        up = self.product(self.tokens, h, part * (1 + self.model.gated), self.rate)
        return up + self.product(self.tokens, part, h, self.rate)

    def _experts(self) -> Floats:
        r, h, experts = self.r, self.model.hidden, self.model.experts
        assert experts is not None
        tokens, local, width = self.tokens / r.t, self._local(), experts.hidden / r.y
        rows = tokens * experts.per_token * r.y / local
        group = self.product(rows, h, width * (1 + self.model.gated), self.rate)
        group = local * (group + self.product(rows, width, h, self.rate))
        total = group + self.product(tokens, h, float(experts.count), self.wide)
        return total + self._mlp(float(experts.shared * experts.hidden)) if experts.shared > 0 else total

    def _local(self) -> Floats:
        experts = self.model.experts
        return np.zeros_like(self.r.x) if experts is None else experts.count / self.r.x

    def _core(self) -> tuple[Floats, Floats]:
        problem, latent, length = self.problem, self.model.latent, self.problem.batch.length
        widths = 2 * self.model.head_size
        if latent is not None:
            widths = latent.plain_size + latent.rotary_size + latent.value_size
        scores = self.tokens * length * self.model.heads / self.r.t
        if problem.formats.flash:
            part = 2.0 * mean_keys(self.model, length) / length  # of the square; tiles before a window are skipped
            rate = problem.device.matrix_tflops * problem.device.reached.attention * 1e12
            forward = scores * part * widths / rate
            return forward, 2.5 * forward
        forward = 2.0 * scores * widths / self.rate + SCORE_TRAFFIC * scores / self.memory
        return forward, 2.0 * forward

    def _between(self, *, routed: bool) -> Floats:
        model, r, experts = self.model, self.r, self.model.experts
        norms = 10.0 * self.tokens * model.hidden / np.where(r.split > 0, r.t, 1.0)
        inner, tokens = 2 + model.gated, self.tokens / r.t
        if routed and experts is not None:
            width = experts.hidden * (experts.per_token + experts.shared)
            activations = tokens * (inner * width + 4.0 * experts.per_token * model.hidden)
        else:
            activations = tokens * inner * model.ffn_hidden
        return HALF_PRECISION * (norms + activations) / self.memory


def memory_rate(problem: LlmTrainingProblem) -> float:
    """Return the bytes a second that a GPU moves."""
    return problem.device.memory_gbytes_per_s * problem.device.reached.memory * 1e9


def fixed_seconds(problem: LlmTrainingProblem) -> float:
    """Return what every iteration takes besides: data, norms of gradients."""
    return problem.cluster.slowdown * problem.device.reached.iteration_ms / 1e3


@dataclass(frozen=True, eq=False)
class DimensionRates:
    """Bytes a second of a GPU in its groups, float64[R], and hops of the longest routes; a switch is one.

    Attributes
    ----------
    inside : of links inside a server.
    tensor, context, data, expert_data : of what is passed round; `expert_data`: among replicas of experts.
    expert : of tokens that leave the server.
    pipeline : to the next stage.
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
    inside = cluster.intra_server_gbps * 1e9 / 8 * reached.scale_up
    outside = cluster.degree * cluster.link_gbps / cluster.gpus_per_server * 1e9 / 8 * reached.network
    local, experts = near(problem, r)

    def rate(ranks: Floats, size: Floats) -> Floats:
        return np.where(ranks > size * (1 - 1e-9), inside, np.minimum(inside, outside * np.maximum(1.0, ranks)))

    # With a whole pipeline on a server the other copy of a stage is there too.
    both = np.where(local[D.PIPELINE] > r.p * (1 - 1e-9), r.copies, 1.0) * local[D.CONTEXT] * local[D.DATA]
    group, of_experts = r.sharers
    return DimensionRates(
        inside,
        np.where(local[D.TENSOR] > r.t * (1 - 1e-9), inside, min(inside, outside)),
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


def servers_met(problem: LlmTrainingProblem, servers: float) -> float:
    """Return on how many servers the experts of a token lie, any of them equally often."""
    experts = problem.model.experts
    assert experts is not None
    share = experts.count // max(1, round(servers))
    none = comb(experts.count - share, experts.per_token) / comb(experts.count, experts.per_token)
    met = servers * (1.0 - none)
    return min(met, experts.node_limit) if experts.node_limit is not None else met


@dataclass(frozen=True, eq=False)
class Transfers:
    """What a GPU sends for one micro-batch, float64[R].

    Attributes
    ----------
    tensor : exposed seconds of a layer: forward, backward, of what is recomputed.
    context : exposed seconds of a layer: forward, backward.
    expert : exposed seconds of a layer and direction.
    hop : seconds to the next stage.
    sent : bytes by name: of a layer `tensor` and `context`, of a layer and direction `expert` and `crossing`, of a hop.
    """

    tensor: tuple[Floats, Floats, Floats]
    context: tuple[Floats, Floats]
    expert: Floats
    hop: Floats
    sent: dict[str, Floats]


def latency(problem: LlmTrainingProblem, hops: int) -> float:
    """Return the seconds that one message takes besides its bytes."""
    return (problem.cluster.message_latency_us + hops * problem.cluster.hop_latency_us) / 1e6


def transfers_of(problem: LlmTrainingProblem, r: Records, rates: DimensionRates) -> Transfers:
    """Return bytes and exposed seconds of the transfers inside and between passes."""
    model = problem.model
    activations = 2.0 * r.b * problem.batch.length / r.c * model.hidden
    ring, split = 2.0 * activations * (r.t - 1) / r.t, r.split > 0
    repeated = np.where(r.again(Recompute.FULL), ring * np.where(split, 1.5, 2.0), 0.0)
    waits = 4.0 * np.ceil(np.log2(r.t)) * latency(problem, rates.tensor_hops)
    exposed = (1.0 - problem.overlap.tensor) * (r.t > 1)
    forward, again = (exposed * (sent > 0) * (sent / rates.tensor + waits) for sent in (2 * ring, repeated))
    keys = np.maximum(1.0, model.kv_heads / r.t) * model.head_size * 2.0
    if model.latent is not None:
        keys = np.full_like(r.t, float(model.latent.key_value_rank + model.latent.rotary_size))
    passed = 2.0 * (r.c - 1) * r.b * problem.batch.length / r.c * keys
    wait = 2.0 * np.ceil(np.log2(r.c)) * latency(problem, rates.context_hops)
    context = tuple((r.c > 1) * (sent / rates.context + wait) for sent in (passed, 2.0 * passed))
    expert, tokens, crossing = _exchange(problem, r, activations, rates)
    hop = np.where(split, activations / r.t, activations)
    return Transfers(
        (forward, forward, again),
        (context[0], context[1]),
        expert,
        np.where(r.p > 1, hop / rates.pipeline + latency(problem, rates.pipeline_hops), 0.0),
        {
            "tensor": 4 * ring + np.where(split, ring, 0.0) + repeated, "context": 3.0 * passed,
            "expert": tokens, "crossing": crossing, "hop": hop,
        },
    )  # fmt: skip


def _exchange(
    problem: LlmTrainingProblem, r: Records, activations: Floats, rates: DimensionRates
) -> tuple[Floats, Floats, Floats]:
    experts, none = problem.model.experts, np.zeros_like(r.t)
    if experts is None:
        return none, none, none
    token = activations / r.t * (1.5 if problem.formats.fp8_dispatch else 2.0)
    sent = token * experts.per_token * (1.0 - 1.0 / r.x)
    servers, index = np.unique(np.maximum(1.0, r.x * r.y / near(problem, r)[1]), return_inverse=True)
    met = np.array([servers_met(problem, count) * (1.0 - 1.0 / count) for count in servers.tolist()])
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

    Attributes
    ----------
    forward, inputs, weights : passes of a micro-batch with their exposed transfers.
    layers : at least 1.
    routed : layers with experts.
    reduced, gathered, step : seconds of gradients, of weights (of ZeRO 3 for one micro-batch), of the optimizer.
    hop : seconds to the next stage.
    parts : passes by what they are.
    moved : bytes that are reduced and gathered, of dense weights and of experts.
    """

    forward: Floats
    inputs: Floats
    weights: Floats
    layers: Floats
    routed: Floats
    reduced: Floats
    gathered: Floats
    step: Floats
    hop: Floats
    parts: dict[str, Floats]
    moved: tuple[tuple[Floats, Floats], tuple[Floats, Floats]]

    @property
    def back(self) -> Floats:
        return self.inputs + self.weights


def stage_rows(problem: LlmTrainingProblem, r: Records, layers: Floats, rates: DimensionRates) -> StageRows:
    """Return the stages of strategies whose layers are float64[stages, R]."""
    ends, dense = np.cumsum(layers, axis=0), dense_layers(problem.model)
    plain = np.minimum(ends, dense) - np.minimum(ends - layers, dense)
    early = np.zeros((len(layers), 1))
    early[0] = 1.0
    return _rows(problem, r, plain, layers - plain, (early, early[::-1]), np.ones_like(r.t), rates)


def inner_rank(problem: LlmTrainingProblem, r: Records, rates: DimensionRates) -> StageRows:
    """Return the passes of the fullest rank between the ends, all its chunks together; of the only one where p = 1."""
    only = (r.p == 1).astype(float)[None]
    plain = r.inner[None]
    if problem.model.experts is not None:
        plain = only * np.minimum(dense_layers(problem.model), r.inner)
    return _rows(problem, r, plain, r.inner - plain, (only, only), r.v, rates)


def _rows(
    problem: LlmTrainingProblem,
    r: Records,
    plain: Floats,
    routed: Floats,
    ends: tuple[Floats, Floats],
    launches: Floats,
    rates: DimensionRates,
) -> StageRows:
    """Return stages by layers without and with experts, whether embedding and head are there, and starts of a pass."""
    model, gpu, sent = problem.model, GpuSeconds(problem, r), transfers_of(problem, r, rates)
    slow, (early, late) = problem.cluster.slowdown, ends
    if model.experts is None:
        plain = plain + late * model.mtp_layers
    else:
        routed = routed + late * model.mtp_layers
    launch = launches * problem.device.reached.chunk_us / 1e6
    embedding, head = gpu.ends()
    took = np.stack([launch, launch, 0.0 * launch, 0.0 * launch])[:, None] + gpu.layer(routed=False)[:, None] * plain
    if model.experts is not None:
        took = took + gpu.layer(routed=True)[:, None] * routed
    took = took + embedding[:, None] * early + head[:, None] * late * (1.0 + model.mtp_layers)
    bidirectional = r.runs(*BIDIRECTIONAL) & (r.x > 1)
    forward, inputs, weights, again = took * slow * np.where(bidirectional, HIDDEN_COST, 1.0)
    exchange = routed * slow * sent.expert
    exchange = exchange - np.where(bidirectional, np.minimum(exchange, (forward + inputs + weights) / 2.0), 0.0)
    every = slow * (plain + routed)
    rank = rank_weights(model, r.t)
    last = rank.final_norm + np.where((r.p == 1) & model.tied, 0.0, rank.vocabulary)
    dense = plain * rank.dense_layer + routed * rank.routed_layer + early * rank.embedding + late * last
    experts, (group, of_experts) = routed * (rank.experts / (r.x * r.y)), r.sharers
    moved = gradient_bytes(problem, dense, group, r.zero), gradient_bytes(problem, experts, of_experts, r.zero)
    reduced, gathered = (slow * (a / rates.data + b / rates.expert_data) for a, b in zip(*moved, strict=True))
    held = dense / np.where(r.zero > 0, group, 1.0) + experts / np.where(r.zero > 0, np.maximum(1.0, of_experts), 1.0)
    return StageRows(
        forward + every * (sent.tensor[0] + sent.context[0]) + exchange,
        inputs + again + every * (sent.tensor[1] + sent.tensor[2] + sent.context[1]) + exchange,
        weights,
        np.maximum(1.0, plain + routed),
        routed,
        reduced,
        gathered,
        slow * held * STEP_BYTES / memory_rate(problem),
        slow * sent.hop,
        {
            "forward": forward, "backward": inputs + weights, "recompute": again,
            "tensor": every * sum(sent.tensor), "context": every * sum(sent.context), "expert": 2.0 * exchange,
        },
        moved,
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
    layers, lanes, dense_count = problem.model.layers, np.arange(len(r.t)), dense_layers(problem.model)
    dense_count = 0 if problem.model.experts is None else dense_count
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
    model, gpu, slow = problem.model, GpuSeconds(problem, r), problem.cluster.slowdown
    sent = transfers_of(problem, r, ideal_rates(problem, r))
    exposed = slow * (sum(sent.tensor) + sum(sent.context))
    dense = routed = slow * gpu.layer(routed=False).sum(axis=0) + exposed
    if model.experts is not None:
        routed = slow * gpu.layer(routed=True).sum(axis=0) + exposed + 2.0 * slow * sent.expert
    embedding, head = gpu.ends()
    around = np.repeat([2.0 * slow * r.v * problem.device.reached.chunk_us / 1e6], p, axis=0)
    around[0] += slow * embedding.sum(axis=0)
    around[-1] += (1.0 + model.mtp_layers) * slow * head.sum(axis=0) + model.mtp_layers * routed
    return around, dense, routed


def _capacities(problem: LlmTrainingProblem, r: Records, p: int) -> Floats:
    """Return the most layers that the memory of each rank holds, float64[p, R]; bytes grow evenly with layers."""
    layers, usable, capacity = problem.model.layers, problem.usable_bytes, np.full((p, len(r.t)), np.inf)
    if usable is None:
        return capacity
    early = 0 if problem.model.experts is None else min(dense_layers(problem.model), layers - 1)
    for rank in range(p):
        begin = early if rank == 0 else 0
        none, some, every = (
            sum(bytes_at(problem, r, np.full_like(r.t, load), np.full_like(r.t, rank)).values())
            for load in (0, begin, layers)
        )
        capacity[rank] = begin + np.floor((usable - some) * (layers - begin) / (every - some))
        if begin:
            plain = np.floor((usable - none) * begin / (some - none))
            capacity[rank] = np.where(some <= usable, capacity[rank], plain)
    return capacity


def held_by(problem: LlmTrainingProblem, r: Records) -> Floats:
    """Return the bytes of the fullest rank, float64[R]."""
    held, balanced = np.empty(len(r.t)), r.first == BALANCED
    plain = np.flatnonzero(~balanced)
    if len(plain):
        some = r.of(plain)
        end = some.p - 1.0
        inner = np.where(some.p > 2, some.inner, some.last), np.minimum(1.0, end)
        held[plain] = sum(memory_of(problem, some, [(some.first, 0.0 * end), inner, (some.last, end)]).values())
    for _, p, v, every in r.kinds():
        index = every[balanced[every]]
        if len(index):
            layers = layers_of(problem, r.of(index), p, v)
            loads = [(layers[k::p].sum(axis=0), np.full(len(index), float(k))) for k in range(p)]
            held[index] = sum(memory_of(problem, r.of(index), loads).values())
    return held


def bytes_of(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> dict[str, float]:
    """Return the bytes of the fullest rank of a strategy that states its layers, by what they hold."""
    layers, p = strategy.stage_layers, strategy.pipeline
    loads = [(np.array([float(sum(layers[rank::p]))]), np.array([float(rank)])) for rank in range(p)]
    return {name: float(held[0]) for name, held in memory_of(problem, records_of([row_of(strategy)]), loads).items()}


def memory_of(problem: LlmTrainingProblem, r: Records, loads: Iterable[tuple[Floats, Floats]]) -> dict[str, Floats]:
    """Return bytes by what they hold, of the rank that holds most, of ranks with their layers and numbers."""
    best = dict[str, Floats]()
    for load, rank in loads:
        held = bytes_at(problem, r, load, rank)
        fuller = sum(held.values()) > sum(best.values())
        best = {name: np.where(fuller, held[name], best[name]) for name in held} if best else held
    return best


def bytes_at(problem: LlmTrainingProblem, r: Records, load: Floats, rank: Floats) -> dict[str, Floats]:
    """Return bytes by what they hold, of a rank with so many layers."""
    formats, last, m = problem.formats, rank == r.p - 1.0, problem.batch.sequences / (r.d * r.b)
    kinds = weights_at(problem, r, load, rank == 0, last)
    opposite = weights_at(problem, r, np.where(last, r.first, r.last), last, rank == 0)
    outer = r.runs(*BIDIRECTIONAL) & ((rank == 0) | last)  # each holds the first and the last stage
    held = dict.fromkeys(("weights", "gradients", "optimizer"), np.zeros_like(m))
    for local, other, n in zip(kinds, opposite, r.sharers, strict=True):
        count = r.copies * np.where(outer, (local + other) / 2.0, local)
        held["weights"] = held["weights"] + 2.0 * count / np.where(r.zero == 3, n, 1.0)
        held["gradients"] = held["gradients"] + count * formats.gradient_bytes / np.where(r.zero >= 2, n, 1.0)
        states = count * (4.0 + 2.0 * formats.moment_bytes)
        held["optimizer"] = held["optimizer"] + states / np.where(r.zero >= 1, n, 1.0)
    tokens = r.b * problem.batch.length / r.c
    inputs = 2.0 * tokens * problem.model.hidden / np.where(r.split > 0, r.t, 1.0)
    layer = np.where(r.again(Recompute.FULL), inputs, _activations(problem, r, r.again(Recompute.SELECTIVE)))
    current = _activations(problem, r, np.zeros_like(last))  # of the layer that is being computed
    logits = np.where(last, 6.0 * tokens * problem.model.vocabulary / r.t, 0.0)
    held["activations"] = _held_micro_batches(r, m, rank) * load * layer + current + logits
    return held


def weights_at(
    problem: LlmTrainingProblem, r: Records, load: Floats, early: Bools, late: Bools
) -> tuple[Floats, Floats]:
    """Return dense weights and those of routed experts of a rank with so many layers, the first, inner or last."""
    model, rank = problem.model, rank_weights(problem.model, r.t)
    head = rank.final_norm + np.where((r.p == 1) & model.tied, 0.0, rank.vocabulary)
    ends, further = early * rank.embedding + late * head, np.where(late, float(model.mtp_layers), 0.0)
    if model.experts is None:
        return (load + further) * rank.dense_layer + ends, np.zeros_like(ends)
    plain = np.where(early, np.minimum(dense_layers(model), load), 0.0)
    routed = load - plain + further
    return plain * rank.dense_layer + routed * rank.routed_layer + ends, routed * rank.experts / (r.x * r.y)


def _activations(problem: LlmTrainingProblem, r: Records, without_scores: Bools) -> Floats:
    """Return bytes of a layer and micro-batch that wait for the backward pass, where layers are not recomputed."""
    model, formats, experts = problem.model, problem.formats, problem.model.experts
    a, d, h = model.heads, model.head_size, model.hidden
    spread, inner = np.where(r.split > 0, r.t, 1.0), 6.0 if model.gated else 4.0
    if model.gated or formats.flash:
        size = 8.0 * h / spread + 4.0 * (a * d + a) / r.t + 4.0 * np.maximum(1.0, model.kv_heads / r.t) * d
    else:
        size = 10.0 * h / spread + 8.0 * a * d / r.t
    width = model.ffn_hidden if experts is None else (experts.per_token + experts.shared) * experts.hidden
    size = size + inner * width / r.t
    if experts is not None:
        size = size + 4.0 * experts.per_token * h / r.t
    if not formats.flash:
        size = size + np.where(without_scores, 0.0, 5.0 * a / r.t * problem.batch.length / r.c)
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
