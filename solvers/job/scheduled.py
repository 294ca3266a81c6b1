"""Schedules for the AllReduces of a job on a topology, by group and size of the payload."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np

from solvers.collective.options import AllReduceOption, GroupOption, GroupOptions, best_option
from solvers.stop import Stop
from topoopt.core.cluster import Cluster
from topoopt.core.collective import GroupSchedule, TimeLine
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.routing import GroupRings
from topoopt.core.search_settings import AllReduceChoice
from topoopt.core.topology import Topology
from topoopt.core.workload import TaskGraph, TaskKind

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
    number = {(tail, head): place for place, (tail, head) in enumerate(topology.arcs.tolist())}
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
        self._known: dict[tuple[bytes, tuple[int, ...]], tuple[GroupOption, ...]] = {}

    def options(self, topology: Topology, members: tuple[int, ...]) -> tuple[GroupOption, ...]:
        """All schedules of a group on a topology: over the links between members, and over all links."""
        key = (topology.arcs.tobytes() + topology.multiplicity.tobytes(), members)
        if key not in self._known:
            self._known[key] = self._made.of(group_network(self.cluster, topology, members))
        return self._known[key]

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
        families = {each.family for members in sizes for each in self.options(topology, members)}
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
        found: list[GroupSchedule] = []
        for members, own in sizes.items():
            known = self.options(topology, members)
            options = tuple(each.option for each in known if each.family == family)
            options = options or tuple(each.option for each in known)
            picks: list[tuple[AllReduceOption, int] | None] = []
            for size in own:
                option, line = best_option(options, size)
                slower = members in lines and line.time_us(size) >= lines[members].time_us(size)
                picks.append(None if slower else (option, line.pieces))
            found += _ranges(members, own, picks)
        return tuple(found)


def _ranges(
    members: tuple[int, ...], sizes: Sequence[int], picks: Sequence[tuple[AllReduceOption, int] | None]
) -> list[GroupSchedule]:
    """One schedule for neighbouring sizes of one pick; the first is for smaller, the last for larger ones, too."""
    starts = [place for place, pick in enumerate(picks) if place == 0 or pick != picks[place - 1]]
    found = []
    for place, following in itertools.zip_longest(starts, starts[1:]):
        pick = picks[place]
        if pick is not None:
            low, high = sizes[place] if place else 0, None if following is None else sizes[following]
            found.append(GroupSchedule(members, low, high, pick[0].method, pick[1], pick[0].schedule))
    return found
