"""Bandwidth allocation: rates of transfers on a fixed topology, with fixed routes or some to choose from."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.search_settings import SearchSettings
from topoopt.core.shown import Shown
from topoopt.core.stated import Stated
from topoopt.core.topology import Topology

GBIT_BYTES = 1.25e8
"""Bytes of one Gbit."""


class AllocationGoal(StrEnum):
    """What the rates shall be.

    `max-min`: no rate can grow unless one that is no larger falls. `weighted`: the same for rate over weight.
    `min-guarantee`: every transfer gets its minimum, and what is left is shared (see `Surplus`). `completion-time`: all
    transfers start together and keep their rates; the last one ends first possible, then the last but one, and so on.
    """

    MAX_MIN = "max-min"
    WEIGHTED = "weighted"
    MIN_GUARANTEE = "min-guarantee"
    COMPLETION_TIME = "completion-time"


class Surplus(StrEnum):
    """How bandwidth above the guarantees is shared: max-min fair by weight, or so that the weighted sum is largest."""

    MAX_MIN = "max-min"
    SUM = "sum"


@dataclass(frozen=True, eq=False, repr=False)
class Route(Shown):
    """One unit of traffic from a source to a destination over the arcs of a topology.

    Attributes:
        arcs: int64[k], distinct arcs in use.
        fraction: float64[k], part of the unit on each of them, above 0; all 1 for a single path.
    """

    arcs: Ints
    fraction: Floats


@dataclass(frozen=True, eq=False, repr=False)
class Transfer(Shown):
    """Traffic from one server to another.

    Attributes:
        name: unique among the transfers of a problem.
        source, destination: different servers.
        routes: one: how the traffic is split is given; several: how it is split among them is to be chosen.
        weight: of the fair share, above 0.
        min_gbps: guaranteed rate, Gbit/s.
        max_gbps: largest useful rate, Gbit/s; infinite for none.
        size_bytes: amount to transfer; None if the transfer goes on for ever.
    """

    name: str
    source: int
    destination: int
    routes: tuple[Route, ...]
    weight: float = 1.0
    min_gbps: float = 0.0
    max_gbps: float = float("inf")
    size_bytes: float | None = None


@dataclass(frozen=True, eq=False, repr=False)
class AllocationProblem(Stated):
    """Kind `allocation`: rates of transfers that share links.

    What is shared is numbered: 0..m-1 the arcs of the topology, m..m+n-1 what each server sends of its own, and
    m+n..m+2n-1 what each server receives for itself (traffic it forwards for others does not count there).

    Attributes:
        name: of the instance.
        topology: arcs with multiplicities.
        capacity_gbps: float64[m], rate of each arc with all its parallel links, above 0.
        transfers: one at least.
        goal, surplus: what the rates shall be; `surplus` counts for `min-guarantee` alone.
        egress_gbps, ingress_gbps: float64[n], infinite for no limit.
    """

    name: str
    topology: Topology
    capacity_gbps: Floats
    transfers: tuple[Transfer, ...]
    goal: AllocationGoal = AllocationGoal.MAX_MIN
    surplus: Surplus = Surplus.MAX_MIN
    egress_gbps: Floats | None = None
    ingress_gbps: Floats | None = None
    search: SearchSettings = field(default_factory=SearchSettings)
    sha256: str = ""
    notes: tuple[str, ...] = ()

    kind = "allocation"

    def shared_gbps(self) -> Floats:
        """float64[m+2n]: capacity of everything that is shared, in the numbering above; infinite for no limit."""
        endless = np.full(self.topology.servers, np.inf)
        egress = endless if self.egress_gbps is None else self.egress_gbps
        ingress = endless if self.ingress_gbps is None else self.ingress_gbps
        return np.concatenate((self.capacity_gbps, egress, ingress))

    def shared_name(self, index: int) -> str:
        """What stands at a place of the numbering above, for people."""
        arcs, n = self.topology.arcs, self.topology.servers
        if index < len(arcs):
            return f"link {arcs[index, 0]} → {arcs[index, 1]}"
        server = (index - len(arcs)) % n
        return f"{'egress' if index < len(arcs) + n else 'ingress'} of server {server}"

    @property
    def single_route(self) -> bool:
        """Whether no transfer has a choice of routes."""
        return all(len(transfer.routes) == 1 for transfer in self.transfers)
