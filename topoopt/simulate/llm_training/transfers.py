"""Seconds of the transfers of one micro-batch, by the rates of the cluster, where each runs alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.llm_training import GpuCluster, ReachedRates
from topoopt.core.parallelism import Overlap
from topoopt.core.pipeline import PipelineSchedule
from topoopt.simulate.llm_training.placing import WHOLE, ranks_beside
from topoopt.simulate.llm_training.strategies import Column, StrategyColumns
from topoopt.simulate.llm_training.traffic import LayerTraffic

BYTES_PER_GBIT = 1.25e8


@dataclass(frozen=True, eq=False)
class LayerTransfers:
    """Exposed seconds of a layer and micro-batch, and of a hop, one value a strategy.

    Attributes:
        tensor: forward, backward, recomputation.
        context: forward, backward.
        expert: of each direction, before another micro-batch hides it.
        hop: to the next stage.
    """

    tensor: tuple[Column, Column, Column]
    context: tuple[Column, Column]
    expert: Column
    hop: Column


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
    def of(cluster: GpuCluster, reached: ReachedRates, columns: StrategyColumns) -> GroupRates:
        """Rates of the groups of strategies on an ideal switch.

        A group inside a server uses its links, any other one the interfaces, where those of all members in a server
        serve it.
        """
        inside = cluster.intra_server_gbps * BYTES_PER_GBIT * reached.scale_up
        outside = cluster.gpu_gbps * BYTES_PER_GBIT * reached.network
        near = ranks_beside(columns, cluster.gpus_per_server)

        def rate(beside: Column, ranks: Column, sending: Column) -> Column:
            return np.where(beside >= WHOLE * ranks, inside, np.minimum(inside, outside * sending))

        one = np.ones_like(columns.tensor)
        # The other copy of DualPipe stands on the server where the whole pipeline does.
        inner = np.where(near.pipeline >= WHOLE * columns.pipeline, columns.copies, 1.0)
        of_data, of_experts = inner * near.context * near.data, inner * near.replicas
        return GroupRates(
            tensor=rate(near.tensor, columns.tensor, one),
            context=rate(near.context, columns.context, near.context),
            expert=outside * one,
            hop=rate(near.pipeline, columns.pipeline, near.pipeline),
            data=rate(of_data, columns.replicas, of_data),
            expert_data=rate(of_experts, columns.expert_replicas, np.maximum(1.0, of_experts)),
            inside=inside,
        )


def layer_transfers(
    cluster: GpuCluster, overlap: Overlap, columns: StrategyColumns, traffic: LayerTraffic, rates: GroupRates
) -> LayerTransfers:
    """Seconds of one micro-batch."""

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
    both = columns.scheduled(PipelineSchedule.DUALPIPE, PipelineSchedule.DUALPIPE_V)
    exchange = np.where(both, 1.0, 1.0 - overlap.expert) * exchange
    hop = np.where(columns.pipeline > 1, traffic.hop / rates.hop + start(rates.hops.pipeline), 0.0)
    return LayerTransfers((forward, backward, again), (here, there), exchange, hop)
