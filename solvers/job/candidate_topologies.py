"""Candidate topologies of a job are annealed random graphs, dense groups with few links across, products of circulants,
and graphs made for collectives on schedules.

A circulant of degree d has paths of some n^(2/d) hops, a random regular graph of log n (TopoOpt, NSDI'23, section
5.3, compares with them as expanders), and still an AllReduce of all servers may use all of its links: of even degree
almost all of them are made of link-disjoint Hamiltonian cycles (Kim and Wormald 2001).

Dense groups are for strategies that have parts of the model on groups of their own. Each group is a random regular
graph, whose links its AllReduces fill along Hamiltonian cycles; what goes from one part to the next takes the links
across. A circulant of degree 4 is not divided so: each of its two distances is inside or across.

A product of circulants joins equally spaced groups, and blocks of consecutive servers. It suits experts: a part that
stands on one server of a block reads the samples of that block.

On schedules AllReduces need no rings, so that any regular graph of small diameter whose breadth-first broadcasts
balance will do: Cayley digraphs of Z_m x| Z_k stand beside the portfolio of circulants (arXiv 2202.03356).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import inf, log

import numpy as np

from solvers.collective.breadth_first import MOST_DEGREE, search_cayley, step_loads
from solvers.collective.options import AllReduceOption, GroupOptions, best_option
from solvers.network.annealing import anneal, table_of, table_of_arcs, topology_of
from solvers.network.assembly import assemble, assign_switches, coset_size, ring_arcs
from solvers.network.distances import Selection, select_offsets
from solvers.network.finder import find_topology
from solvers.network.seeds import fits, grouped_links, random_seed
from solvers.stop import Stop
from topoopt.core.arrays import Bools
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.collective import GroupSchedule, TimeLine
from topoopt.core.errors import InfeasibleError
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.result import AllReduceChoice
from topoopt.core.topology import Topology
from topoopt.core.workload import Demand, GroupRings, TaskGraph, TaskKind

PROPOSALS, LEAST_PROPOSALS = 16, 2_000
"""Exchanges of links proposed for each server, and at least: ten times as many gain 1 % of the hops at 128 servers."""


def proposals_for(n: int) -> int:
    """Exchanges of links that are proposed for graphs of n servers."""
    return max(LEAST_PROPOSALS, PROPOSALS * n)


def annealed_topologies(
    cluster: Cluster, demand: Demand, *, count: int, seed: int, stop: Stop | None = None
) -> Iterator[Topology]:
    """At most `count` connected topologies of the cluster's degree; none where there is no traffic.

    Args:
        cluster: of n servers.
        demand: of n servers; AllReduces count for nothing here.
        count: annealed apart, from graphs of their own.
        seed: of the graphs and the proposals.
        stop: looked at between pieces of an annealing.
    """
    traffic = demand.model_parallel_bytes
    n, degree, links = cluster.servers, cluster.degree, cluster.links
    if n < 6 or degree < 2 or not traffic.any():  # below, circulants and matchings are nearly all there is
        return
    # Random matchings of an odd number of servers leave one out each; TopologyFinder's links are all there can be.
    uneven = n % 2 == 1 and links is LinkDirection.BIDIRECTIONAL
    allowed = ~np.eye(n, dtype=np.bool_)
    for stream in range(count):
        rng = np.random.default_rng((seed, stream))
        try:
            first = find_topology(cluster, demand) if uneven else random_seed(n, degree, links, traffic, rng)
            heads = anneal(
                table_of(first), traffic, allowed, proposals_for(n), seed=int(rng.integers(2**31)), stop=stop
            )
            yield topology_of(heads, links, "annealed random graph")
        except InfeasibleError:  # no such graph, or in pieces that no traffic joins
            continue


TRIED, TRIED_PRODUCTS = 2, 4
"""Numbers of links across, those of least estimate: of random graphs, and of products, which take no time."""


def grouped_topologies(
    cluster: Cluster, demand: Demand, *, count: int, seed: int, stop: Stop | None = None
) -> Iterator[Topology]:
    """At most `TRIED` connected topologies for each of `count` random graphs; none where links are unidirectional, no
    AllReduce runs in groups of equally spaced servers, or no links would be left across.

    Args:
        cluster: of n servers.
        demand: of n servers.
        count: of random graphs.
        seed: of the graphs and of their annealing on the hops of the model-parallel traffic.
        stop: looked at between pieces of an annealing.
    """
    degree, traffic = cluster.degree, demand.model_parallel_bytes
    size = busiest_size(demand)
    if cluster.links is not LinkDirection.BIDIRECTIONAL or size is None or not traffic.any():
        return
    for across in list(links_across(demand, size, degree))[:TRIED]:
        for stream in range(count):
            try:
                yield _annealed(cluster, demand, size, across, np.random.default_rng((seed, stream, across)), stop)
            except InfeasibleError:  # no such graph, or in pieces
                continue


def product_topologies(cluster: Cluster, demand: Demand) -> Iterator[Topology]:
    """Cartesian products of two circulants: one joins each of the equally spaced groups that reduce most, the other one
    each block of consecutive servers, of which every group has one.

    At most `TRIED_PRODUCTS`; none where links are unidirectional, or the demand is not `in_blocks`.

    Args:
        cluster: of n servers.
        demand: of n servers.
    """
    n, degree, links = cluster.servers, cluster.degree, cluster.links
    size = busiest_size(demand)
    if links is not LinkDirection.BIDIRECTIONAL or size is None or not in_blocks(demand):
        return
    groups = n // size
    for across in list(links_across(demand, size, degree))[:TRIED_PRODUCTS]:
        try:
            inside = select_offsets(size, degree - across, links, Selection.FLEXNET)
            block = select_offsets(groups, across, links, Selection.FLEXNET)
        except InfeasibleError:  # a single link joins no more than two servers
            continue
        parts = [groups * ring_arcs(size, p, links) + group for p in inside for group in range(groups)]
        parts += [ring_arcs(groups, p, links) + groups * first for p in block for first in range(size)]
        yield assemble(n, degree, links, parts, f"product of circulants, {across} of {degree} links in blocks")


def in_blocks(demand: Demand) -> bool:
    """Whether more than half of what is sent stays in the blocks of consecutive servers across the busiest groups."""
    size, traffic = busiest_size(demand), demand.model_parallel_bytes
    if size is None:
        return False
    block = np.arange(demand.servers) // (demand.servers // size)
    return bool(traffic[np.equal.outer(block, block)].sum() > 0.5 * traffic.sum())


def busiest_size(demand: Demand) -> int | None:
    """Servers of the equally spaced groups, of all sizes but all servers, that reduce most bytes; None if none do."""
    n = demand.servers
    reduced: dict[int, float] = {}
    for group in demand.allreduce:
        size = coset_size(n, group.members)
        if size is not None and 4 <= size < n:  # below, a group has no room for a cycle and for links beside it
            reduced[size] = reduced.get(size, 0.0) + size * group.wire_bytes_per_member
    return max(reduced, key=lambda size: (reduced[size], size), default=None)


def links_across(demand: Demand, size: int, degree: int) -> dict[int, float]:
    """Numbers of links of a server to other groups, those first with which the fullest links have least to carry, each
    with an estimate of that, bytes: inside groups AllReduces and transfers, over as many hops as a random graph has;
    across what goes from group to group.

    Two links or more stay inside, for a cycle both ways.
    """
    n, traffic, reduced = demand.servers, demand.model_parallel_bytes, np.zeros(demand.servers)
    for group in demand.allreduce:
        reduced[list(group.members)] += group.wire_bytes_per_member
    crossing, sent = float(traffic[~_same_group(n, size)].sum()) / n, float(traffic.sum()) / n
    loads = {}
    for across in range(1, degree - 1):
        inside = degree - across
        if fits(n, size, across, degree):
            hops = max(1.0, log(size) / log(max(2, inside - 1)))
            loads[across] = max((float(reduced.max()) + hops * sent) / inside, crossing / across)
    return dict(sorted(loads.items(), key=lambda entry: entry[1]))


def grouped_ms(cluster: Cluster, demand: Demand) -> float:
    """Estimate of the time that links are busy, ms, on the best of such topologies; infinite where there are none."""
    size = busiest_size(demand)
    if cluster.links is not LinkDirection.BIDIRECTIONAL or size is None:
        return inf
    return min(links_across(demand, size, cluster.degree).values(), default=inf) / cluster.link_bytes_per_ms


def _annealed(
    cluster: Cluster, demand: Demand, size: int, across: int, rng: np.random.Generator, stop: Stop | None
) -> Topology:
    """Random links, exchanged within groups and across; within groups not where that may break cycles."""
    n, degree, links = cluster.servers, cluster.degree, cluster.links
    inside = degree - across
    origin = f"annealed random graphs of {size} servers, {across} of {degree} links across"
    matched, within, between = grouped_links(demand.model_parallel_bytes, size, inside, across, rng)
    kept = inside == 2 or inside % 2 == 1
    same = _same_group(n, size)
    heads = anneal(
        table_of_arcs(n, degree, links, np.vstack((within, between))),
        demand.model_parallel_bytes,
        ~same if kept else ~np.eye(n, dtype=np.bool_),
        proposals_for(n),
        group=np.arange(n, dtype=np.int64) % (n // size),
        seed=int(rng.integers(2**31)),
        stop=stop,
    )
    made = topology_of(heads, links, origin)
    if not len(matched):
        return made
    crossing = ~same[made.arcs[:, 0], made.arcs[:, 1]]
    others = assign_switches(n, across, made.arcs[crossing], made.multiplicity[crossing], duplex=True)
    return replace(made, switches=np.vstack((matched, others)))


def _same_group(n: int, size: int) -> Bools:
    group = np.arange(n) % (n // size)
    return np.equal.outer(group, group)


Sizes = Mapping[tuple[int, ...], tuple[int, ...]]
"""Sorted members of a group -> the sizes of its AllReduces, ascending, bytes."""


def allreduce_sizes(graph: TaskGraph) -> Sizes:
    """What is reduced over the network in one iteration."""
    reduced = np.flatnonzero((graph.kind == TaskKind.ALLREDUCE) & (graph.group >= 0))
    of_task, size = graph.group[reduced], graph.bytes[reduced]
    return {
        tuple(sorted(graph.groups[group])): tuple(np.unique(size[of_task == group]).tolist())
        for group in np.unique(of_task).tolist()
    }


def group_network(cluster: Cluster, topology: Topology, members: tuple[int, ...]) -> RatedNetwork:
    """The topology with the members as ranks; other servers pass on, as switches do."""
    rate = Fraction(str(cluster.link_gbps)) / 8
    links = [
        (tail, head, rate * count)
        for (tail, head), count in zip(topology.arcs.tolist(), topology.multiplicity.tolist(), strict=True)
    ]
    passing = [server not in members for server in range(cluster.servers)]
    return RatedNetwork.of_links(passing, links, latency_us=cluster.hop_latency_us, origin=topology.origin)


def ring_line(cluster: Cluster, topology: Topology, group: GroupRings) -> TimeLine:
    """Time of an AllReduce on rings by its bytes: in each round every member of a ring sends its part on at once."""
    k = len(group.members)
    number = {(tail, head): index for index, (tail, head) in enumerate(topology.arcs.tolist())}
    load = np.zeros(len(number))
    for ring in group.rings:
        for path in ring.paths:
            for hop in itertools.pairwise(path):
                load[number[hop]] += ring.share / k
    gbytes_per_s = topology.multiplicity * cluster.link_gbps / 8
    hops = max(len(path) - 1 for ring in group.rings for path in ring.paths)
    steps = 2 * (k - 1)
    latency = cluster.ring_round_latency_us + (hops - 1) * cluster.hop_latency_us
    return TimeLine("rings", 1, steps, steps * latency, steps * float((load / gbytes_per_s).max()) * 1e3)


class JobSchedules:
    """Schedules for the groups of one job, kept by topology and group."""

    def __init__(self, cluster: Cluster, choice: AllReduceChoice, stop: Stop) -> None:
        self.cluster = cluster
        message_us = max(cluster.ring_round_latency_us - cluster.hop_latency_us, 0.0)
        self._made = GroupOptions(choice, message_us=message_us, stop=stop)
        self._options: dict[tuple[bytes, tuple[int, ...]], tuple[AllReduceOption, ...]] = {}

    def options(self, topology: Topology, members: tuple[int, ...]) -> tuple[AllReduceOption, ...]:
        """All schedules of a group on a topology: over the links between members, and over all links."""
        key = (topology.arcs.tobytes() + topology.multiplicity.tobytes(), members)
        if key not in self._options:
            self._options[key] = self._made.of(group_network(self.cluster, topology, members))
        return self._options[key]

    def proposals(
        self, topology: Topology, sizes: Sizes, rings: Sequence[GroupRings]
    ) -> Iterator[tuple[GroupSchedule, ...]]:
        """Worth a simulation: what is fastest alone for each size; the same of each family, where a group has it.

        Args:
            topology: of the job.
            sizes: of its AllReduces.
            rings: that are chosen where they are faster alone; none where they are not asked for.
        """
        lines = {tuple(sorted(group.members)): ring_line(self.cluster, topology, group) for group in rings}
        families = {entry.family for members in sizes for entry in self.options(topology, members)}
        for family in (None, *(sorted(families) if len(families) > 1 else ())):
            yield self._chosen(topology, sizes, {}, family)
            if lines:
                yield self._chosen(topology, sizes, lines, family)

    def _chosen(
        self,
        topology: Topology,
        sizes: Sizes,
        lines: Mapping[tuple[int, ...], TimeLine],
        family: tuple[str, bool] | None,
    ) -> tuple[GroupSchedule, ...]:
        """The fastest alone for every group and size, where it is faster than the line of rings."""
        schedules: list[GroupSchedule] = []
        for members, own in sizes.items():
            available = self.options(topology, members)
            options = tuple(entry for entry in available if entry.family == family)
            options = options or available
            picks: list[tuple[AllReduceOption, int] | None] = []
            for size in own:
                option, line = best_option(options, size)
                slower = members in lines and line.time_us(size) >= lines[members].time_us(size)
                picks.append(None if slower else (option, line.pieces))
            schedules += _ranges(members, own, picks)
        return tuple(schedules)


def _ranges(
    members: tuple[int, ...], sizes: Sequence[int], picks: Sequence[tuple[AllReduceOption, int] | None]
) -> list[GroupSchedule]:
    """One schedule for neighbouring sizes of one pick; the first is for smaller, the last for larger ones, too."""
    starts = [index for index, pick in enumerate(picks) if index == 0 or pick != picks[index - 1]]
    ranges = []
    for index, following in itertools.zip_longest(starts, starts[1:]):
        pick = picks[index]
        if pick is not None:
            low, high = sizes[index] if index else 0, None if following is None else sizes[following]
            ranges.append(GroupSchedule(members, low, high, pick[0].method, pick[1], pick[0].schedule))
    return ranges


VISITS = 2_000_000
"""Links followed in a search for Cayley digraphs: well under a second."""

MOST_STEPS = 12

BEST_SCORED = 2
"""Topologies, the best by score, that are simulated."""


GraphScore = tuple[int, Fraction, float]
"""What a topology gives to collectives of all servers.

T_L, steps of breadth-first broadcasts, the diameter; T_B, where one takes T_B M / B if a server sends at rate B; and
the mean distance in hops: an all-to-all takes at least hops times what a server sends, over B.
"""


def score_ms(score: GraphScore, cluster: Cluster, sizes: Sizes, model_parallel_bytes: float) -> float:
    """All AllReduces of all servers one after the other, and model-parallel traffic as if it were an all-to-all."""
    steps, bandwidth, hops = score
    rate = cluster.degree * cluster.link_bytes_per_ms
    own = sizes.get(tuple(range(cluster.servers)), ())
    latency_ms = cluster.ring_round_latency_us / 1000
    reduced = sum(2 * (steps * latency_ms + float(bandwidth) * size / rate) for size in own)
    return reduced + hops * model_parallel_bytes / (cluster.servers * rate)


def graph_score(cluster: Cluster, topology: Topology) -> GraphScore:
    n = cluster.servers
    network = group_network(cluster, topology, tuple(range(n)))
    loads, distance = step_loads(network)
    units = Fraction(int(cluster.degree * network.units.sum()), int(topology.multiplicity.sum()))
    return len(loads), sum(loads, Fraction(0)) * units / n, float(distance.sum()) / (n * (n - 1))


def cayley_topologies(cluster: Cluster, stop: Stop, *, seed: int) -> list[Topology]:
    """Cayley digraphs with the best breadth-first broadcasts found of every number of steps."""
    n, degree = cluster.servers, cluster.degree
    if degree > min(n - 1, MOST_DEGREE):
        return []
    graphs = search_cayley(n, degree, cluster.links, stop, visits=VISITS, most_steps=MOST_STEPS, seed=seed)
    return [
        assemble(
            n,
            degree,
            cluster.links,
            [graph.group.arcs(graph.generators)],
            f"Cayley graph of Z_{graph.group.modulus} x| Z_{graph.group.order} (twist {graph.group.twist}), generators "
            f"{', '.join(map(str, graph.generators))}",
        )
        for graph in graphs
    ]


class CollectiveGraphs:
    """Scores of topologies for the collectives of one job, each found once."""

    def __init__(self, cluster: Cluster, stop: Stop, *, seed: int) -> None:
        self.cluster, self.stop, self.seed = cluster, stop, seed
        self._scores: dict[bytes, GraphScore] = {}
        self._cayley: list[Topology] | None = None

    def best(self, topologies: Sequence[Topology], graph: TaskGraph, demand: Demand) -> list[Topology]:
        """Of these and of Cayley digraphs those of the least estimated time for a strategy's traffic, best first."""
        if self._cayley is None:
            self._cayley = cayley_topologies(self.cluster, self.stop, seed=self.seed)
        sizes, moved = allreduce_sizes(graph), float(demand.model_parallel_bytes.sum())
        both = (*topologies, *self._cayley)
        times = [score_ms(self.score(topology), self.cluster, sizes, moved) for topology in both]
        return [both[index] for index in np.argsort(times, kind="stable")[:BEST_SCORED]]

    def score(self, topology: Topology) -> GraphScore:
        key = topology.arcs.tobytes() + topology.multiplicity.tobytes()
        if key not in self._scores:
            self._scores[key] = graph_score(self.cluster, topology)
        return self._scores[key]
