"""Links, ring orders and routing together on small clusters: bounds, known topologies, then branch and bound.

The program is `allreduce_topology`, with all orders of groups of up to `ALL_ORDERS_SIZE` members and the
relaxation of larger ones, so that its bound holds for every topology and every order. The links it finds get their
rings and routes from `mix_rings`, and count with the theta recomputed there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from formulations.job.allreduce_mix import RingGroup
from formulations.job.allreduce_topology import ALL_ORDERS_SIZE, AllReduceTopology, build_arrays, group_tables
from formulations.network.joint_topology import JointTopology, find_symmetry
from formulations.network.joint_topology_arrays import link_counts
from solvers.backends import SOLVERS, SolverLimits
from solvers.job.allreduce_mix import mix_rings
from solvers.job.mix_result import OPTIMALITY, MixLimits, RingMix
from solvers.job.ring_orders import every_order
from solvers.network.constructions.assemble import assemble
from solvers.network.constructions.candidates import candidate_topologies
from solvers.network.exact.bounds import layer_sizes, total_distance
from solvers.network.search.link_counts import filled
from solvers.stop import Stop
from topoopt.core.arrays import Ints
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.proofs import Argument, Bound, Status, StopReason
from topoopt.core.routing import Demand
from topoopt.core.topology import Topology

INCUMBENT_SLACK = 1e-6


@dataclass(frozen=True)
class RingTopologyLimits:
    """How far to go.

    Attributes:
        nodes: of branch and bound; None: no limit. Unlike a time limit it leaves results reproducible.
        time_s: of branch and bound; None: no limit.
        seed: of the solver.
    """

    nodes: int | None = None
    time_s: float | None = None
    seed: int = 0


@dataclass(frozen=True, eq=False)
class RingTopology:
    """Best topology found, and what is proven about all of them.

    Attributes:
        mix: the topology with rings and routing; `mix.bound` holds on this topology.
        bound: lower bound on theta, ms, over all topologies, orders and routings, and who proved it.
        status: OPTIMAL when theta meets it to 1e-6.
        stopped_by: CONVERGED when branch and bound ended or was not needed.
    """

    mix: RingMix
    bound: Bound
    status: Status
    stopped_by: StopReason

    @property
    def theta(self) -> float:
        """ms the busiest link carries traffic."""
        return self.mix.theta


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
    limits: RingTopologyLimits | None = None,
    known: Sequence[Topology] | None = None,
    stop: Stop | None = None,
) -> RingTopology:
    """Topology, ring orders, shares and routing of least theta.

    Args:
        cluster: servers, degree, kind of links and rate; two servers at least.
        demand: with some traffic.
        known: topologies to begin with; None: a few of TopologyFinder's.
        stop: looked at between steps.

    Raises:
        InputError: no traffic, or a demand for another cluster.
        InfeasibleError: no topology connects the servers.
        LimitError: a linear program was not solved.
    """
    limits, stop = limits or RingTopologyLimits(), stop or Stop()
    if cluster.servers < 2:
        raise InputError([Problem("too few servers", path="servers", value=str(cluster.servers), allowed=">= 2")])
    started = candidate_topologies(cluster, demand, limit=4, seed=limits.seed) if known is None else list(known)
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
    data = program_data(cluster, demand, scale, upper=1.0, lower=(1 - INCUMBENT_SLACK) * bound.value / best.theta)
    options = {} if limits.nodes is None else {"mip_max_nodes": limits.nodes}
    solved = SOLVERS["highs"](build_arrays(data), SolverLimits(time_s=limits.time_s, seed=limits.seed % 2**31), options)
    x = solved.x if solved.x is not None else None
    if x is not None:
        found = _completed(cluster, link_counts(data.joint, x))
        if found is not None:
            mix = _mixed(cluster, demand, found, stop)
            best = min(best, mix, key=lambda each: each.theta)
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
    return mix_rings(topology, demand, link_bytes_per_ms=cluster.link_bytes_per_ms, limits=MixLimits(), stop=stop)


def _completed(cluster: Cluster, counts: Ints) -> Topology | None:
    """The topology of link counts with free interfaces used as well; None if it does not connect all servers."""
    arcs = filled(counts, counts.astype(np.float64), cluster.degree, cluster.links)
    try:
        return assemble(cluster.servers, cluster.degree, cluster.links, [arcs], "joint program with rings")
    except InfeasibleError:
        return None


def _result(mix: RingMix, bound: Bound, reason: StopReason) -> RingTopology:
    closed = mix.theta <= bound.value * (1 + OPTIMALITY)
    proven = replace(bound, value=min(bound.value, mix.theta))
    status = Status.OPTIMAL if closed else Status.FEASIBLE
    return RingTopology(mix, proven, status, StopReason.CONVERGED if closed else reason)
