"""Topologies for a demand from the mathematical programs, to stand beside the portfolio of the alternating loop.

`exact`: links, ring orders and routing by branch and bound (`solvers.job.allreduce_topology`), small clusters only.
`search`: a ring mix makes AllReduce a demand like any other; the topology search finds links for the sum, on which
rings are mixed anew, and so on.

Work is limited in nodes, proposals and programs, never in seconds, so that a seed gives the same topologies everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from solvers.job.allreduce_mix import mix_rings
from solvers.job.allreduce_topology import RingTopologyLimits, ring_topology_bound, solve_ring_topology
from solvers.job.mix_result import MixLimits, RingMix, Shares
from solvers.job.ring_pricing import arithmetic_orders
from solvers.network.search import SearchBudget, search_topology
from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InfeasibleError, LimitError
from topoopt.core.network import TopologyProblem
from topoopt.core.routing import Demand
from topoopt.core.topology import Topology

HOP_PRICE = 1e-3
ACCURACY = 1e-4
TURNS = 2
"""Searches from each first mix, each for the ring mix on the topology before it."""

WORTH = 0.02
"""Relative room below the busiest link that makes a topology search worth its time."""


@dataclass(frozen=True, eq=False)
class TopologyQuestion:
    """What topologies are wanted for; ring mixes are worked out once per topology.

    Attributes:
        cluster, demand: links for this traffic.
        seed: of the searches and the solver.
        stop: looked at between steps.
    """

    cluster: Cluster
    demand: Demand
    seed: int
    stop: Stop
    mixes: dict[bytes, RingMix | None] = field(default_factory=dict)

    @property
    def traffic(self) -> bool:
        """Whether there is any."""
        return bool(self.demand.model_parallel_bytes.any()) or self.demand.allreduce_wire_bytes > 0

    def mix(self, topology: Topology) -> RingMix | None:
        """Ring mix and routes of the demand on a topology; None without traffic, or if it was not solved."""
        key = key_of(topology)
        if key not in self.mixes:
            limits = MixLimits(rounds=30, accuracy=ACCURACY, hop_price=HOP_PRICE)
            rate = self.cluster.link_bytes_per_ms
            try:
                solved = (
                    mix_rings(topology, self.demand, link_bytes_per_ms=rate, limits=limits, stop=self.stop)
                    if self.traffic
                    else None
                )
            except LimitError:
                solved = None
            self.mixes[key] = solved
        return self.mixes[key]


@dataclass(frozen=True)
class Program:
    """A line of the table.

    Attributes:
        summary: for people.
        most_servers: it is left out on larger clusters.
        topologies: from the question and the topology at hand.
    """

    summary: str
    most_servers: int
    topologies: Callable[[TopologyQuestion, Topology], Iterator[Topology]]


def exact_topologies(question: TopologyQuestion, base: Topology, *, nodes: int = 60) -> Iterator[Topology]:
    """The topology of the joint program."""
    limits = RingTopologyLimits(nodes=nodes, time_s=question.stop.remaining_s(), seed=question.seed)
    try:
        yield solve_ring_topology(
            question.cluster, question.demand, limits=limits, known=[base], stop=question.stop
        ).mix.topology
    except LimitError:
        return


def searched_topologies(question: TopologyQuestion, base: Topology) -> Iterator[Topology]:
    """Topologies searched for model-parallel traffic and the ring steps of a mix, mixed anew and searched again.

    Begins with evenly shared arithmetic orders, as many as there are interfaces, and with the mix on the topology at
    hand. Nothing is searched where that mix is within `WORTH` of the bound over all topologies.
    """
    cluster, demand, seed, stop = question.cluster, question.demand, question.seed, question.stop
    mix = question.mix(base)
    if mix is None or mix.theta <= (1.0 + WORTH) * ring_topology_bound(cluster, demand).value:
        return
    n = cluster.servers
    budget = SearchBudget(proposals=4_000 * n, evaluations=25 * n, accuracy=1e-3)
    for first in (_arithmetic_rings(cluster, demand), mix.rings):
        rings = first
        for turn in range(TURNS):
            total = _with_rings(demand, rings)
            problem = TopologyProblem("job", n, cluster.degree, cluster.links, total / (total.sum() / (n * (n - 1))))
            try:
                found = search_topology(problem, seed=seed * TURNS + turn, budget=budget, stop=stop).topology
            except InfeasibleError:
                break
            yield found
            again = question.mix(found)
            if again is None or stop.reason() is not None:
                return
            rings = again.rings


def _arithmetic_rings(cluster: Cluster, demand: Demand) -> tuple[Shares, ...]:
    """For each group coprime steps round its members, each both ways, evenly shared (TotientPerms)."""
    mixes = []
    for group in demand.allreduce:
        members = sorted(group.members)
        orders = arithmetic_orders(len(members))
        forth = orders[: max(1, min(cluster.degree // 2, (len(orders) + 1) // 2))]
        both = dict.fromkeys((*forth, *((order[0], *reversed(order[1:])) for order in forth)))
        mixes.append(tuple((tuple(members[i] for i in order), 1.0 / len(both)) for order in both))
    return tuple(mixes)


def _with_rings(demand: Demand, rings: tuple[Shares, ...]) -> Floats:
    """float64[n, n]: model-parallel bytes and ring steps."""
    total = demand.model_parallel_bytes.copy()
    for group, shares in zip(demand.allreduce, rings, strict=True):
        for order, share in shares:
            for here, there in zip(order, (*order[1:], order[0]), strict=True):
                total[here, there] += share * group.wire_bytes_per_member
    return total


PROGRAMS: Mapping[str, Program] = {
    "exact": Program("joint program of links, rings and routes", 8, exact_topologies),
    "search": Program("topology search for all traffic, rings and links in turn", 32, searched_topologies),
}


def program_topologies(names: tuple[str, ...], question: TopologyQuestion, base: Topology) -> list[Topology]:
    """Topologies of the programs named that take clusters of this size; none without traffic or for one server."""
    servers = question.cluster.servers
    if servers < 2 or not question.traffic:
        return []
    seen = {key_of(base)}
    fresh = []
    for name in names:
        if servers > PROGRAMS[name].most_servers or question.stop.reason() is not None:
            continue
        for topology in PROGRAMS[name].topologies(question, base):
            if key_of(topology) not in seen:
                seen.add(key_of(topology))
                fresh.append(topology)
    return fresh


def key_of(topology: Topology) -> bytes:
    """One name for topologies of the same links."""
    return topology.arcs.tobytes() + np.ascontiguousarray(topology.multiplicity).tobytes()
