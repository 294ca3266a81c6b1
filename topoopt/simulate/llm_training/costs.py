"""What strategies cost: weights of a rank, transfers of groups, seconds of layers, bytes sent, memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb

import numpy as np

from topoopt.core.arrays import Bools, Floats
from topoopt.core.llm_training import LlmTrainingProblem, NumberFormats
from topoopt.core.parallelism import RANK_ORDERS, LanguageModel, PipelineSchedule, Recompute
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.simulate.llm_training.strategies import BOTH_ENDS, Column, StrategyColumns, loads_of_ranks
from topoopt.workloads.language_models import (
    LayerWeights,
    end_weights,
    expert_layers,
    keys_attended,
    layer_weights,
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


DENSE, ROUTED, EMBEDDING, HEAD, CHUNK = range(5)
"""Kinds of parts: a layer with one MLP, one with experts, what the first and what the last stage has, what each stage
costs anyway."""


Weights = tuple[Column, Column]
"""All but experts, and experts."""


def matrices_on_rank(model: LanguageModel, own: LayerWeights, t: Column) -> Column:
    """Weights of the matrices of a layer on a tensor rank, but for routed experts: those that all ranks have whole, and
    a part of the others. No rank has less than one head of keys and values."""
    copied = 0.0 if model.latent is not None else 2.0 * model.hidden * model.head_size * _copied_heads(model, t)
    return (own.attention + own.dense - own.whole + copied) / t + own.whole


def _copied_heads(model: LanguageModel, t: Column) -> Column:
    return np.maximum(t - model.kv_heads, 0.0)


def _layer_on_rank(model: LanguageModel, own: LayerWeights, t: Column) -> Column:
    has = model.latent is None and (model.biases or model.attention_biases)
    copied = 2.0 * model.head_size * _copied_heads(model, t) if has else 0.0
    return matrices_on_rank(model, own, t) + (own.split_biases + copied) / t + own.small - own.split_biases


def part_weights(problem: LlmTrainingProblem, columns: StrategyColumns) -> list[Weights]:
    """Parameters on a rank by kind of part but CHUNK."""
    model, t = problem.model, columns.tensor
    plain, zero = layer_weights(model, expert_layer=False), np.zeros_like(t)
    ends, whole = end_weights(model), whole_ends(model)
    embedding, head = ((all_of - own) / t + own for all_of, own in zip(ends, whole, strict=True))
    dense = _layer_on_rank(model, plain, t)
    routed, experts = dense, zero
    if model.experts is not None:
        own = layer_weights(model, expert_layer=True)
        routed = _layer_on_rank(model, own, t)
        experts = own.expert * own.experts / (columns.expert * columns.expert_tensor)
    # The last stage has a copy of a tied embedding, but for one stage alone.
    copied = np.where(columns.pipeline > 1, model.vocabulary * model.hidden / t, 0.0) if model.tied else zero
    return [(dense, zero), (routed, experts), (embedding, zero), (head + copied, zero)]


def rank_weights(
    problem: LlmTrainingProblem, parts: list[Weights], layers: Column, first: Bools, last: Bools
) -> Weights:
    """Parameters on a rank with so many layers, by those of its parts; layers without experts are the first rank's."""
    model = problem.model
    plain = layers if model.experts is None else np.where(first, np.minimum(model.experts.dense_layers, layers), 0.0)
    further = np.where(last, float(model.mtp_layers), 0.0)
    counts = plain, layers - plain + further, first, last
    sums = [sum(count * own[kind] for count, own in zip(counts, parts, strict=True)) for kind in range(2)]
    return np.asarray(sums[0]), np.asarray(sums[1])


BYTES_PER_GBIT = 1.25e8


LayerTransfers = tuple[tuple[Column, Column, Column], tuple[Column, Column], Column, Column]
"""Exposed seconds of a layer and micro-batch, one value a strategy: of tensor groups forward, backward and in
recomputation; of context groups forward and backward; of tokens to experts in each direction, before another
micro-batch hides them; and of a hop to the next stage."""


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
        inside = cluster.intra_server_gbps * BYTES_PER_GBIT * reached.scale_up
        outside = cluster.gpu_gbps * BYTES_PER_GBIT * reached.network
        near, expert = ranks_beside(problem, columns)
        tensor, context, data, pipeline = near[D.TENSOR], near[D.CONTEXT], near[D.DATA], near[D.PIPELINE]

        def rate(beside: Column, ranks: Column, sending: Column) -> Column:
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
            inside=inside,
        )


def layer_transfers(problem: LlmTrainingProblem, columns: StrategyColumns, rates: GroupRates) -> LayerTransfers:
    cluster, overlap, traffic = problem.cluster, problem.overlap, layer_traffic(problem, columns)

    def start(hops: int) -> float:
        return (cluster.message_latency_us + hops * cluster.hop_latency_us) * 1e-6

    def collective(sent: Column, rate: Column, ranks: Column, fixed: float) -> Column:
        rounds = np.ceil(np.log2(np.maximum(ranks, 1.0)))
        return np.where(ranks > 1, sent / rate + rounds * fixed, 0.0)

    of_tensor, of_context = 4.0 * start(rates.hops.tensor), 2.0 * start(rates.hops.context)
    forward, backward, again = (
        (1.0 - overlap.tensor) * collective(sent, rates.tensor, columns.tensor, of_tensor) for sent in traffic.tensor
    )
    again = np.where(traffic.tensor[2] > 0, again, 0.0)
    here, there = (collective(sent, rates.context, columns.context, of_context) for sent in traffic.context)
    crossing = traffic.expert_crossing / rates.expert
    inside = traffic.expert / rates.inside
    exchange = np.where(columns.expert > 1, np.maximum(crossing, inside) + 2.0 * start(rates.hops.expert), 0.0)
    both = columns.scheduled(*BOTH_ENDS)
    exchange = np.where(both, 1.0, 1.0 - overlap.expert) * exchange
    hop = np.where(columns.pipeline > 1, traffic.hop / rates.hop + start(rates.hops.pipeline), 0.0)
    return (forward, backward, again), (here, there), exchange, hop


ELEMENT = 2.0
FLASH_BACKWARD = 2.5
"""Products of the backward pass of attention over those of the forward pass, with its scores computed again."""

SCORE_BYTES = 13.0
"""Moved for each score of attention that is written: product, softmax, dropout with its mask, product."""


PassTimes = Floats
"""float64[4, R], seconds of one micro-batch: the forward pass, gradients of inputs, gradients of weights, and what the
backward pass computes again."""


class LayerTimes:
    """Times of layers of a model on a device.

    Args:
        problem: of whose model, device, formats and length of sequences.
        columns: strategies.
    """

    def __init__(self, problem: LlmTrainingProblem, columns: StrategyColumns) -> None:
        device, formats, reached = problem.device, problem.formats, problem.device.reached
        self._model, self._columns, self._length = problem.model, columns, problem.batch.length
        self._reached = reached
        self._flash = formats.flash
        peak = device.matrix_tflops * reached.products
        if formats.fp8 and device.fp8_tflops is not None:
            peak = device.fp8_tflops * reached.fp8_products
        self._rate = peak * 1e12
        self._head_rate = device.matrix_tflops * reached.products * 1e12
        self._half = reached.half_gflops * 1e9
        self._attention_rate = device.matrix_tflops * reached.attention * 1e12
        self._memory_rate = device.memory_gbytes_per_s * reached.memory * 1e9
        self.tokens = columns.micro_batch * self._length / columns.context
        self._split = np.where(columns.sequence > 0, columns.tensor, 1.0)

    def kinds(self) -> list[PassTimes]:
        """Of the kinds of parts, DENSE to CHUNK; without experts ROUTED is DENSE."""
        dense = self.layer(expert_layer=False)
        routed = dense if self._model.experts is None else self.layer(expert_layer=True)
        fixed, none = np.full_like(self.tokens, self._reached.chunk_us * 1e-6), np.zeros_like(self.tokens)
        return [dense, routed, self.embedding(), self.head(), np.stack([fixed, fixed, none, none])]

    def layer(self, *, expert_layer: bool) -> PassTimes:
        attention = self._attention_products()
        core, core_back = self._core()
        other = self._between(expert_layer=expert_layer)
        mlp = self._expert_products() if expert_layer else self._mlp_products(self._model.ffn_hidden)
        products = attention + mlp
        launches = self._launches() if expert_layer else np.zeros_like(products)
        fixed = self._reached.pass_us * 1e-6 + launches
        forward = products + core + other + fixed
        inputs = products + core_back + 1.5 * other + fixed
        full = self._columns.recomputes(Recompute.FULL)
        selective = self._columns.recomputes(Recompute.SELECTIVE)
        again = np.where(full, forward, np.where(selective & (not self._flash), core, 0.0))
        return np.stack([forward, inputs, products + launches, again])

    def head(self) -> PassTimes:
        """Projection to the vocabulary, and the loss."""
        model = self._model
        share = model.vocabulary / self._columns.tensor
        product = self._product(self.tokens, model.hidden, share, self._head_rate)
        loss = self.tokens * share * 12.0 / self._memory_rate
        return np.stack([product + loss, product + loss, product, np.zeros_like(product)])

    def attention(self) -> tuple[Column, Column]:
        """Computing of a layer before its MLP or experts: forward, and gradients of the inputs."""
        products, (core, core_back) = self._attention_products(), self._core()
        return products + core, products + core_back

    def embedding(self) -> PassTimes:
        """Rows that are looked up, and gradients added to them."""
        moved = self.tokens * self._model.hidden * 2 * ELEMENT / self._memory_rate
        return np.stack([moved, np.zeros_like(moved), 2 * moved, np.zeros_like(moved)])

    def _product(self, rows: Column, inner: Column | float, columns: Column | float, rate: float) -> Column:
        work = 2.0 * rows * inner * columns
        moved = ELEMENT * (rows * inner + inner * columns + rows * columns)
        return np.asarray(np.maximum((work + self._half) / rate, moved / self._memory_rate))

    def _attention_products(self) -> Column:
        model, t, rows = self._model, self._columns.tensor, self.tokens
        h, latent = model.hidden, model.latent
        if latent is None:
            width = model.heads * model.head_size / t
            keys = np.maximum(model.kv_heads / t, 1.0) * model.head_size
            return self._product(rows, h, width + 2 * keys, self._rate) + self._product(rows, width, h, self._rate)
        key, heads = latent.plain_size + latent.rotary_size, model.heads / t
        query = latent.query_rank or h
        seconds = self._product(
            rows, latent.key_value_rank, heads * (latent.plain_size + latent.value_size), self._rate
        )
        seconds = seconds + self._product(rows, query, heads * key, self._rate)
        down = (latent.query_rank or 0) + latent.key_value_rank + latent.rotary_size
        seconds = seconds + self._product(rows, h, float(down), self._rate)
        return seconds + self._product(rows, heads * latent.value_size, h, self._rate)

    def _mlp_products(self, inner: float) -> Column:
        model, rows = self._model, self.tokens
        share = inner / self._columns.tensor
        first = self._product(rows, model.hidden, share * (2 if model.gated else 1), self._rate)
        return first + self._product(rows, share, model.hidden, self._rate)

    def _expert_products(self) -> Column:
        model, columns = self._model, self._columns
        experts = model.experts
        assert experts is not None
        own = self.tokens / columns.tensor
        local = experts.count / columns.expert
        rows = own * experts.per_token * columns.expert_tensor / local
        inner = experts.hidden / columns.expert_tensor
        first = self._product(rows, model.hidden, inner * (2 if model.gated else 1), self._rate)
        seconds = local * (first + self._product(rows, inner, model.hidden, self._rate))
        seconds = seconds + self._product(own, model.hidden, float(experts.count), self._head_rate)
        if experts.shared:
            seconds = seconds + self._mlp_products(float(experts.shared * experts.hidden))
        return seconds

    def _launches(self) -> Column:
        """What it costs to start the products of each expert of a GPU.

        Grouped products are a loop over experts that starts each product alone on one of several streams
        (Transformer Engine, pull request 853), and a layer learns of its tokens only when they are counted, so that
        nothing is started ahead (arXiv:2603.07685 on training that is bound by the host).
        """
        experts = self._model.experts
        assert experts is not None
        return self._reached.expert_us * 1e-6 * experts.count / self._columns.expert

    def _core(self) -> tuple[Column, Column]:
        model, columns = self._model, self._columns
        latent = model.latent
        both = 2 * model.head_size if latent is None else latent.plain_size + latent.rotary_size + latent.value_size
        heads = model.heads / columns.tensor
        if self._flash:
            work = 2.0 * self.tokens * keys_attended(model, self._length) * heads * both
            return work / self._attention_rate, FLASH_BACKWARD * work / self._attention_rate
        # Without tiles the whole square of scores is computed, written and read, be some of it masked.
        work = self.tokens * self._length * heads * both
        moved = self.tokens * self._length * heads * SCORE_BYTES / self._memory_rate
        forward = 2 * work / self._rate + moved
        return forward, 2 * forward

    def _between(self, *, expert_layer: bool) -> Column:
        model, columns = self._model, self._columns
        moved = self.tokens * model.hidden * 10 * ELEMENT / self._split
        per_inner = 3 if model.gated else 2
        if not expert_layer or model.experts is None:
            return (moved + self.tokens * model.ffn_hidden / columns.tensor * per_inner * ELEMENT) / self._memory_rate
        experts = model.experts
        inner = experts.hidden * (experts.per_token + experts.shared)
        own = self.tokens / columns.tensor
        moved = moved + own * (inner * per_inner + 4 * experts.per_token * model.hidden) * ELEMENT
        return moved / self._memory_rate


@dataclass(frozen=True, eq=False)
class LayerTraffic:
    """Bytes sent by a GPU for one micro-batch, one value a strategy.

    Attributes:
        tensor: (forward, backward, recomputation) of a layer; `tensor_again`: of backward, what gathers inputs a
            second time, which products of the backward pass hide.
        context: (forward, backward) of a layer.
        expert, expert_crossing: of a layer and direction; what leaves the server when a token goes to a server once.
        hop: to the next stage, a chunk.
    """

    tensor: tuple[Column, Column, Column]
    tensor_again: Column
    context: tuple[Column, Column]
    expert: Column
    expert_crossing: Column
    hop: Column


def expected_servers(model: LanguageModel, servers: Column) -> Column:
    """Servers that a token's experts lie on, if its router takes any K of E equally often."""
    experts = model.experts
    assert experts is not None

    def of(count: float) -> float:
        own = experts.count // max(1, round(count))
        missed = comb(experts.count - own, experts.per_token) / comb(experts.count, experts.per_token)
        mean = count * (1.0 - missed)
        return mean if experts.node_limit is None else min(mean, float(experts.node_limit))

    values = {count: of(count) for count in np.unique(servers).tolist()}
    return np.array([values[count] for count in servers.tolist()])


def layer_traffic(problem: LlmTrainingProblem, columns: StrategyColumns) -> LayerTraffic:
    model, formats, length = problem.model, problem.formats, problem.batch.length
    t, c = columns.tensor, columns.context
    split = columns.sequence > 0
    tokens = columns.micro_batch * length / c
    activations = tokens * model.hidden * ELEMENT
    ring = 2.0 * activations * (t - 1) / t
    full = columns.recomputes(Recompute.FULL)
    keys = np.maximum(model.kv_heads / t, 1.0) * model.head_size
    if model.latent is not None:
        keys = np.full_like(t, (model.latent.key_value_rank + model.latent.rotary_size) / 2.0)
    context = (c - 1) * tokens * 2.0 * keys * ELEMENT
    zero = np.zeros_like(t)
    expert, crossing = zero, zero
    if model.experts is not None:
        x = columns.expert
        sizes = (1.0 if formats.fp8_dispatch else ELEMENT) + ELEMENT
        own = tokens / t * model.hidden * sizes
        expert = own * model.experts.per_token * (x - 1) / x
        servers = np.maximum(1.0, x * columns.expert_tensor / ranks_beside(problem, columns)[1])
        crossing = own * expected_servers(model, servers) * (servers - 1) / servers
    return LayerTraffic(
        tensor=(2.0 * ring, 2.0 * ring, np.where(full, np.where(split, 1.5, 2.0) * ring, 0.0)),
        tensor_again=np.where(split, ring, 0.0),
        context=(context, 2.0 * context),
        expert=expert,
        expert_crossing=crossing,
        hop=np.where(split, activations / t, activations),
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


def matrix_weights(model: LanguageModel, t: Column) -> tuple[Column, int]:
    """Weights of the matrices of all layers: what every token meets, on a tensor rank, and all routed experts."""
    plain, routed = layer_weights(model, expert_layer=False), expert_layers(model)
    dense = (model.layers - routed) * matrices_on_rank(model, plain, t)
    if model.experts is None:
        return dense, 0
    own = layer_weights(model, expert_layer=True)
    return dense + routed * matrices_on_rank(model, own, t), routed * own.expert * own.experts


def iteration_traffic(problem: LlmTrainingProblem, columns: StrategyColumns) -> dict[str, Column]:
    """Bytes sent by a GPU of an average stage in an iteration, by name, without embedding and head."""
    model, formats, layer = problem.model, problem.formats, layer_traffic(problem, columns)
    m = problem.batch.sequences / columns.data / columns.micro_batch
    passes = m * model.layers / columns.pipeline
    moe = m * expert_layers(model) / columns.pipeline
    directions = np.where(columns.pipeline > 1, 2.0 * m * columns.chunks, 0.0)
    dense, experts = matrix_weights(model, columns.tensor)
    held = columns.copies / columns.pipeline
    routed = held * experts / (columns.expert * columns.expert_tensor)
    rest = (columns.zero, formats.gradient_bytes, m / columns.copies)
    return {
        "tensor": passes * (sum(layer.tensor) + layer.tensor_again),
        "context": passes * sum(layer.context),
        "pipeline": directions * layer.hop,
        "expert": 2.0 * moe * layer.expert,
        "expert_crossing": 2.0 * moe * layer.expert_crossing,
        "data_dense": np.asarray(sum(data_bytes(held * dense, columns.replicas, *rest))),
        "data_expert": np.asarray(sum(data_bytes(routed, columns.expert_replicas, *rest))),
    }


LOGIT_BYTES = 6.0
"""Of a logit: 16 bits, and 32 in the loss."""


def layer_activations(problem: LlmTrainingProblem, columns: StrategyColumns) -> Column:
    """Bytes that one layer, of experts if there are any, keeps of one micro-batch for its backward pass."""
    model, formats, length = problem.model, problem.formats, problem.batch.length
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
    if model.experts is not None:
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


def bytes_around(problem: LlmTrainingProblem, columns: StrategyColumns) -> tuple[Column, Column]:
    """Bytes that a rank needs once: for the layer that is being computed, which has its activations, or their
    gradients, beside what all layers keep; and the last rank for logits."""
    plain = replace(columns, recompute=np.zeros_like(columns.recompute))
    tokens = columns.micro_batch * problem.batch.length / columns.context
    return layer_activations(problem, plain), tokens * problem.model.vocabulary * LOGIT_BYTES / columns.tensor


def ledger(problem: LlmTrainingProblem, columns: StrategyColumns) -> Floats:
    """float64[4, R]: bytes of weights, gradients, optimizer and activations of the rank that holds most."""
    m = problem.batch.sequences / columns.data / columns.micro_batch
    layer, (whole, logits) = layer_activations(problem, columns), bytes_around(problem, columns)
    parts, alone = part_weights(problem, columns), columns.pipeline == 1
    load, inside = _fullest_inside(problem, columns, m, layer)
    ranks = (columns.first_layers, np.zeros_like(m)), (load, inside), (columns.last_layers, columns.pipeline - 1)
    weights = [
        rank_weights(problem, parts, layers, alone | (rank_index == 0), alone | (rank_index == 2))
        for rank_index, (layers, _) in enumerate(ranks)
    ]
    best = np.zeros((4, len(m)))
    for rank_index, (layers, rank) in enumerate(ranks):
        states = state_bytes(columns, problem.formats, _both_ends(columns, weights, rank_index))
        kept = in_flight(columns, m, rank) * layers * layer + whole
        kept = kept + np.where(alone | (rank_index == 2), logits, 0.0)
        own = np.stack([*states, kept])
        there = (rank_index != 1) | (columns.pipeline > 2)
        best = np.where(there & (total_bytes(own) > total_bytes(best)), own, best)
    return best


def total_bytes(held: Floats) -> Column:
    """Of all that a ledger lists, added up in its order."""
    weights, gradients, optimizer, activations = held
    return np.asarray(weights + gradients + optimizer + activations)


def _fullest_inside(
    problem: LlmTrainingProblem, columns: StrategyColumns, m: Column, layer: Column
) -> tuple[Column, Column]:
    load, rank = columns.inner_layers, np.minimum(1.0, columns.pipeline - 1)
    if columns.stages is None:
        return load, rank
    expert_bytes = sum(state_bytes(columns, problem.formats, part_weights(problem, columns)[ROUTED]))
    most, p = np.full_like(load, -np.inf), columns.pipeline
    for rank_index, own in enumerate(loads_of_ranks(columns).T):
        held = own * (expert_bytes + in_flight(columns, m, np.full_like(m, rank_index)) * layer)
        more = (rank_index > 0) & (rank_index < p - 1) & (held > most)
        load, rank, most = np.where(more, own, load), np.where(more, rank_index, rank), np.where(more, held, most)
    return load, rank


def _both_ends(columns: StrategyColumns, weights: list[Weights], rank: int) -> Weights:
    """Weights of a rank; where micro-batches enter at both ends, the ranks there hold the first and the last stage."""
    if rank == 1:
        return weights[1]
    both = columns.scheduled(*BOTH_ENDS)
    first, _, last = weights
    own = [np.where(both, (a + b) / 2.0, c) for a, b, c in zip(first, last, weights[rank], strict=True)]
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
