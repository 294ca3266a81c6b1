"""Mathematical programs give topologies for a demand: links, ring orders and routing together on small clusters, rings
and routing on searched topologies.

`exact`: branch and bound over links, ring orders and routing, small clusters only. The program is
`allreduce_topology`, with all orders of groups of up to `ALL_ORDERS_SIZE` members and the relaxation of larger ones,
so that its bound holds for every topology and every order. The links it finds get their rings and routes from
`mix_rings`, and count with the theta recomputed there.

`search`: a ring mix makes AllReduce a demand like any other; the topology search finds links for the sum, on which
rings are mixed anew, and so on.

Work is limited in nodes, proposals and programs, never in seconds, so that a seed gives the same topologies
everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from formulations.joint_topology import JointTopology, find_symmetry, link_counts
from formulations.mixtures import (
    ALL_ORDERS_SIZE,
    AllReduceTopology,
    RingGroup,
    allreduce_topology_arrays,
    group_tables,
)
from solvers.backends import SOLVERS, SolverLimits
from solvers.job.allreduce_mix import OPTIMALITY, RingMix, Shares, arithmetic_orders, every_order, mix_rings
from solvers.network.assembly import assemble
from solvers.network.finder import candidate_topologies
from solvers.network.polish import SearchBudget
from solvers.network.search import filled, search_topology
from solvers.network.space import layer_sizes, total_distance
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem
from topoopt.core.network import TopologyProblem
from topoopt.core.proofs import Argument, Bound, StopReason
from topoopt.core.result import SearchResult
from topoopt.core.topology import Topology
from topoopt.core.workload import Demand


def ring_topology_bound(cluster: Cluster, demand: Demand) -> Bound:
    """Cheap lower bound on theta, ms, over all topologies and ring orders.

    Node cut: all a server sends, or receives, over its interfaces. Distances: model-parallel bytes over the least hops
    that degrees allow (Moore), ring steps over one hop each, on all links together.
    """
    moved = demand.model_parallel_bytes
    wire = np.zeros(cluster.servers)
    for group in demand.allreduce:
        wire[list(group.members)] += group.wire_bytes_per_member
    rate = cluster.link_bytes_per_ms
    cut = float(np.maximum(moved.sum(axis=1) + wire, moved.sum(axis=0) + wire).max()) / cluster.degree / rate
    within = layer_sizes(cluster.servers, cluster.degree, cluster.links)
    hops = total_distance(moved, within) if moved.any() else 0.0
    ends = cluster.servers * cluster.degree
    links = ends if cluster.links is LinkDirection.UNIDIRECTIONAL else ends - ends % 2
    far = (hops + float(wire.sum())) / links / rate
    return Bound(cut, Argument.NODE_CUT) if cut >= far else Bound(far, Argument.RING_DISTANCES)


def solve_ring_topology(
    cluster: Cluster,
    demand: Demand,
    *,
    nodes: int | None = None,
    time_s: float | None = None,
    seed: int = 0,
    warm_start: Sequence[Topology] | None = None,
    stop: Stop | None = None,
) -> SearchResult[RingMix]:
    """Topology, ring orders, shares and routing of least theta, with a bound on it over all topologies.

    Args:
        cluster: servers, degree, kind of links and rate; two servers at least.
        demand: with some traffic.
        nodes: of branch and bound; None: no limit. Unlike a time limit it leaves results reproducible.
        time_s: of branch and bound; None: no limit.
        seed: of the solver.
        warm_start: topologies to begin with; None: a few of TopologyFinder's.
        stop: looked at between steps.

    Raises:
        InputError: no traffic, or a demand for another cluster.
        InfeasibleError: no topology connects the servers.
        LimitError: a linear program was not solved.
    """
    stop = stop or Stop()
    if cluster.servers < 2:
        raise InputError([Problem("too few servers", path="servers", value=str(cluster.servers), allowed=">= 2")])
    started = candidate_topologies(cluster, demand, limit=4, seed=seed) if warm_start is None else list(warm_start)
    mixes = []
    for topology in started:
        mixes.append(_mixed(cluster, demand, topology, stop))
        if stop.reason() is not None:
            break
    best = min(mixes, key=lambda mix: mix.theta)
    bound = ring_topology_bound(cluster, demand)
    if best.theta <= bound.value * (1 + OPTIMALITY) or stop.reason() is not None:
        return _result(best, bound, stop.reason() or StopReason.CONVERGED)
    scale = bound.value * cluster.link_bytes_per_ms
    data = program_data(cluster, demand, scale, upper=1.0, lower=(1 - 1e-6) * bound.value / best.theta)
    options = {} if nodes is None else {"mip_max_nodes": nodes}
    solved = SOLVERS["highs"](allreduce_topology_arrays(data), SolverLimits(time_s=time_s, seed=seed % 2**31), options)
    x = solved.x if solved.x is not None else None
    if x is not None:
        completed = _completed(cluster, link_counts(data.joint, x))
        if completed is not None:
            mix = _mixed(cluster, demand, completed, stop)
            best = min(best, mix, key=lambda entry: entry.theta)
    if solved.bound is not None and -solved.bound > 0 and bound.value / -solved.bound > bound.value:
        bound = Bound(bound.value / -solved.bound, Argument.RING_BRANCHING)
    return _result(best, bound, solved.stopped_by)


def program_data(
    cluster: Cluster, demand: Demand, scale: float, *, upper: float = np.inf, lower: float = 0.0
) -> AllReduceTopology:
    """The program of a cluster, traffic divided by `scale` bytes; lambda within the bounds given."""
    n = cluster.servers
    groups = tuple(
        RingGroup(
            tuple(group.members),
            group.wire_bytes_per_member / scale,
            tuple(every_order(group.members)) if len(group.members) <= ALL_ORDERS_SIZE else (),
        )
        for group in demand.allreduce
        if group.payload_bytes > 0
    )
    moved, allowed = demand.model_parallel_bytes / scale, ~np.eye(n, dtype=np.bool_)
    joint = JointTopology(
        servers=n,
        degree=cluster.degree,
        bidirectional=cluster.links is LinkDirection.BIDIRECTIONAL,
        demand=moved,
        allowed=allowed,
        most_links=cluster.degree,
        lower=lower,
        upper=upper,
        symmetry=find_symmetry(moved, allowed, None, group_tables(n, groups)),
        senders=tuple(sorted({server for group in groups for server in group.members})),
    )
    return AllReduceTopology(joint, groups)


def _mixed(cluster: Cluster, demand: Demand, topology: Topology, stop: Stop) -> RingMix:
    return mix_rings(topology, demand, link_bytes_per_ms=cluster.link_bytes_per_ms, stop=stop)


def _completed(cluster: Cluster, counts: Ints) -> Topology | None:
    """The topology of link counts with free interfaces used as well; None if it does not connect all servers."""
    arcs = filled(counts, counts.astype(np.float64), cluster.degree, cluster.links)
    try:
        return assemble(cluster.servers, cluster.degree, cluster.links, [arcs], "joint program with rings")
    except InfeasibleError:
        return None


def _result(mix: RingMix, bound: Bound, reason: StopReason) -> SearchResult[RingMix]:
    closed = mix.theta <= bound.value * (1 + OPTIMALITY)
    return SearchResult(
        plan=mix,
        stopped_by=StopReason.CONVERGED if closed else reason,
        method="exact",
        bounds=(replace(bound, value=min(bound.value, mix.theta)),),
    )


HOP_PRICE = 1e-3
ACCURACY = 1e-4
TURNS = 2
"""Searches from each first mix, each for the ring mix on the topology before it."""

SEARCH_SLACK = 0.02
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
        return bool(self.demand.model_parallel_bytes.any()) or self.demand.allreduce_wire_bytes > 0

    def mix(self, topology: Topology) -> RingMix | None:
        """Ring mix and routes of the demand on a topology; None without traffic, or if it was not solved."""
        key = key_of(topology)
        if key not in self.mixes:
            rate = self.cluster.link_bytes_per_ms
            try:
                solved = (
                    mix_rings(
                        topology,
                        self.demand,
                        link_bytes_per_ms=rate,
                        rounds=30,
                        accuracy=ACCURACY,
                        hop_price=HOP_PRICE,
                        stop=self.stop,
                    )
                    if self.traffic
                    else None
                )
            except LimitError:
                solved = None
            self.mixes[key] = solved
        return self.mixes[key]


Program = tuple[str, int, Callable[[TopologyQuestion, Topology], Iterator[Topology]]]
"""Summary for people, servers beyond which it is left out, and topologies from a question and the topology at hand."""


def exact_topologies(question: TopologyQuestion, base: Topology, *, nodes: int = 60) -> Iterator[Topology]:
    time_s = question.stop.remaining_s()
    try:
        yield solve_ring_topology(
            question.cluster,
            question.demand,
            nodes=nodes,
            time_s=time_s,
            seed=question.seed,
            warm_start=[base],
            stop=question.stop,
        ).plan.topology
    except LimitError:
        return


def searched_topologies(question: TopologyQuestion, base: Topology) -> Iterator[Topology]:
    """Topologies searched for model-parallel traffic and the ring steps of a mix, mixed anew and searched again.

    Begins with evenly shared arithmetic orders, as many as there are interfaces, and with the mix on the topology at
    hand. Nothing is searched where that mix is within `SEARCH_SLACK` of the bound over all topologies.
    """
    cluster, demand, seed, stop = question.cluster, question.demand, question.seed, question.stop
    mix = question.mix(base)
    if mix is None or mix.theta <= (1.0 + SEARCH_SLACK) * ring_topology_bound(cluster, demand).value:
        return
    n = cluster.servers
    budget = SearchBudget(proposals=4_000 * n, evaluations=25 * n, accuracy=1e-3)
    for first in (_arithmetic_rings(cluster, demand), mix.rings):
        rings = first
        for turn in range(TURNS):
            total = _with_rings(demand, rings)
            problem = TopologyProblem("job", n, cluster.degree, cluster.links, total / (total.sum() / (n * (n - 1))))
            try:
                searched = search_topology(problem, seed=seed * TURNS + turn, budget=budget, stop=stop).topology
            except InfeasibleError:
                break
            yield searched
            again = question.mix(searched)
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
    "exact": ("joint program of links, rings and routes", 8, exact_topologies),
    "search": ("topology search for all traffic, rings and links in turn", 32, searched_topologies),
}


def program_topologies(names: tuple[str, ...], question: TopologyQuestion, base: Topology) -> list[Topology]:
    """Topologies of the programs named that take clusters of this size; none without traffic or for one server."""
    servers = question.cluster.servers
    if servers < 2 or not question.traffic:
        return []
    seen = {key_of(base)}
    fresh = []
    for name in names:
        _, most_servers, topologies = PROGRAMS[name]
        if servers > most_servers or question.stop.reason() is not None:
            continue
        for topology in topologies(question, base):
            if key_of(topology) not in seen:
                seen.add(key_of(topology))
                fresh.append(topology)
    return fresh


def key_of(topology: Topology) -> bytes:
    """One name for topologies of the same links."""
    return topology.arcs.tobytes() + np.ascontiguousarray(topology.multiplicity).tobytes()
