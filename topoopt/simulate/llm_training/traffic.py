"""Bytes that a GPU sends, by dimension: of one layer and micro-batch, and of a whole iteration.

With A = b (s/c) h bytes of activations of a micro-batch, n ranks of a group and ring collectives (bytes sent):

    tensor     4 A (n-1)/n forward; backward as much, and with sequence parallelism half as much again, as inputs are
               gathered a second time; full recomputation repeats the forward ones (arXiv:2205.05198)
    context    rings pass keys and values (c-1) times forward, them and their gradients backward (arXiv:2310.01889);
               all of them behind a window of attention too, whose tokens would need those of near ranks alone
    expert     each token to its experts and back; a token goes once to a server and is passed on inside
    pipeline   A a chunk and direction, a part of it from each tensor rank that holds a part
    data       AllReduce of gradients; with ZeRO a ReduceScatter of them and an AllGather of 16-bit weights
               (arXiv:1910.02054); with ZeRO 3 weights are gathered in both passes of every micro-batch
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np

from topoopt.core.language_model import LanguageModel
from topoopt.core.llm_training import NumberFormats
from topoopt.core.parallelism import Recompute
from topoopt.simulate.llm_training.part_weights import matrices_on_rank
from topoopt.simulate.llm_training.placing import ranks_beside
from topoopt.simulate.llm_training.strategies import Column, StrategyColumns
from topoopt.workloads.llm_training.facts import expert_layers, layer_weights

ELEMENT = 2.0


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


def layer_traffic(
    model: LanguageModel, formats: NumberFormats, columns: StrategyColumns, length: int, gpus_per_server: int
) -> LayerTraffic:
    """Bytes of one micro-batch."""
    t, c = columns.tensor, columns.context
    split = columns.sequence > 0
    tokens = columns.micro_batch * length / c
    one = tokens * model.hidden * ELEMENT
    ring = 2.0 * one * (t - 1) / t
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
        servers = np.maximum(1.0, x * columns.expert_tensor / ranks_beside(columns, gpus_per_server).expert)
        crossing = own * expected_servers(model, servers) * (servers - 1) / servers
    return LayerTraffic(
        tensor=(2.0 * ring, 2.0 * ring, np.where(full, np.where(split, 1.5, 2.0) * ring, 0.0)),
        tensor_again=np.where(split, ring, 0.0),
        context=(context, 2.0 * context),
        expert=expert,
        expert_crossing=crossing,
        hop=np.where(split, one / t, one),
    )


@dataclass(frozen=True, eq=False)
class IterationTraffic:
    """Bytes sent by a GPU of an average stage in an iteration, without embedding and head, one value a strategy."""

    tensor: Column
    context: Column
    pipeline: Column
    expert: Column
    expert_crossing: Column
    data_dense: Column
    data_expert: Column


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


def iteration_traffic(
    model: LanguageModel,
    formats: NumberFormats,
    columns: StrategyColumns,
    length: int,
    sequences: int,
    gpus_per_server: int,
) -> IterationTraffic:
    """Volumes of a whole iteration."""
    layer = layer_traffic(model, formats, columns, length, gpus_per_server)
    m = sequences / columns.data / columns.micro_batch
    passes = m * model.layers / columns.pipeline
    moe = m * expert_layers(model) / columns.pipeline
    directions = np.where(columns.pipeline > 1, 2.0 * m * columns.chunks, 0.0)
    dense, experts = matrix_weights(model, columns.tensor)
    held = columns.copies / columns.pipeline
    routed = held * experts / (columns.expert * columns.expert_tensor)
    rest = (columns.zero, formats.gradient_bytes, m / columns.copies)
    return IterationTraffic(
        tensor=passes * (sum(layer.tensor) + layer.tensor_again),
        context=passes * sum(layer.context),
        pipeline=directions * layer.hop,
        expert=2.0 * moe * layer.expert,
        expert_crossing=2.0 * moe * layer.expert_crossing,
        data_dense=np.asarray(sum(data_bytes(held * dense, columns.replicas, *rest))),
        data_expert=np.asarray(sum(data_bytes(routed, columns.expert_replicas, *rest))),
    )
