"""Rates of exchanges on the ports of each stage, over those of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.switching import PortUse, RailJob, StagePorts
from topoopt.simulate.switching.ports import exchange_share, hop_share, ring_share


@dataclass(frozen=True, eq=False)
class RailShares:
    """Rates over those of a GPU, of each rank.

    Attributes:
        hops: float64[p] to a neighbour.
        rings: float64[p] of gradients and weights.
        inside: float64[p] of what passes exchange.
    """

    hops: Floats
    rings: Floats
    inside: Floats

    @staticmethod
    def whole(ranks: int) -> RailShares:
        """Of a network that gives all of them at once."""
        return RailShares(*np.ones((3, ranks)))

    @staticmethod
    def of(job: RailJob, plan: Sequence[StagePorts]) -> RailShares:
        """On ports."""
        return RailShares(*np.array([shares_of(job, rank, one) for rank, one in enumerate(plan)]).T)

    @staticmethod
    def forwarded(job: RailJob) -> RailShares:
        """On one ring through all servers of a rail, in which others forward.

        Servers of a replica stand beside each other in the order of the stages: neighbouring stages are joined, and
        rings of all p stages pass over every arc. Chunks that go back to the first stage share the arcs with these.
        What is sent at the same time for different ends is counted as if it did not meet.
        """
        hop = min(1.0, job.ports // 2 * job.circuit_share) / min(job.chunks, 2)
        rings = ring_share(max(job.data_servers, 3), job.ports, job.circuit_share / job.ranks)
        inside = rings
        if job.inside is PortUse.EXPERT:
            inside = exchange_share(max(job.expert_servers, 3), job.ports, job.circuit_share / job.ranks)
        return RailShares(*(np.full(job.ranks, one) for one in (hop, rings, inside)))


def shares_of(job: RailJob, rank: int, one: StagePorts) -> tuple[float, float, float]:
    """Rates of a rank over those of a GPU: of hops, rings, and what passes exchange."""
    share, inside = job.circuit_share, 1.0
    if job.inside is PortUse.EXPERT:
        inside = exchange_share(job.expert_servers, one.inside.expert, share)
    elif job.inside is PortUse.DATA:
        inside = ring_share(job.data_servers, one.inside.data, share)
    rings = ring_share(job.data_servers, one.data.data, share) if job.reduces else 1.0
    return hop_share(job.neighbours(rank), one.pipeline.pipeline, share), rings, inside
