"""Network demand of one iteration: mutable AllReduce traffic and fixed model-parallel traffic."""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.core.arrays import Floats
from topoopt.core.shown import Shown


@dataclass(frozen=True, repr=False)
class AllReduceDemand(Shown):
    """Total payload (bytes of gradients) all-reduced by one group of servers in an iteration."""

    members: tuple[int, ...]
    payload_bytes: float

    @property
    def wire_bytes_per_member(self) -> float:
        """Bytes each member sends in a ring AllReduce: 2 (k-1)/k * payload."""
        k = len(self.members)
        return 2.0 * (k - 1) / k * self.payload_bytes if k > 1 else 0.0


@dataclass(frozen=True, eq=False, repr=False)
class Demand(Shown):
    """What the network must carry.

    Attributes:
        model_parallel_bytes: float64[n, n], bytes i -> j, forward plus backward; zero diagonal.
        allreduce: one entry per distinct group of two or more servers.
    """

    model_parallel_bytes: Floats
    allreduce: tuple[AllReduceDemand, ...]

    @property
    def servers(self) -> int:
        """n."""
        return int(self.model_parallel_bytes.shape[0])

    @property
    def allreduce_wire_bytes(self) -> float:
        """Bytes sent by all members of all ring AllReduces at one hop."""
        return sum(len(group.members) * group.wire_bytes_per_member for group in self.allreduce)
