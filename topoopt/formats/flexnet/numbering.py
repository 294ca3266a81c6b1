"""Rings as the format says them, jumps that all members of a group size share, and numbers of servers that allow it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from topoopt.core.errors import InputError
from topoopt.core.routing import GroupRings
from topoopt.core.topology import Topology
from topoopt.core.workload import TaskGraph
from topoopt.formats.exporter import refuse
from topoopt.formats.hosts.planned_paths import PlannedPath

Jumps = dict[int, tuple[tuple[int, ...], ...]]
"""By group size the jumps of each ring from a member to the next, hop by hop, modulo the number of servers."""


def ring_jumps(groups: Sequence[GroupRings], number: Sequence[int]) -> Jumps:
    """Jumps of the rings by group size.

    Args:
        groups: rings of all groups.
        number: what each server is called.

    Raises:
        InputError: a ring whose members do not all jump alike, or groups of one size with different rings.
    """
    found: Jumps = {}
    for group in groups:
        jumps = []
        for ring in group.rings:
            hops = {
                tuple((number[b] - number[a]) % len(number) for a, b in itertools.pairwise(path)) for path in ring.paths
            }
            if len(hops) != 1:
                raise refuse(
                    f"a ring of {len(group.members)} servers is not the same jump from every server, as the format has "
                    "rings, nor is it by the other orders of the servers tried",
                    path="plan.rings",
                    allowed="rings i -> i + p of servers in some order: --method fixed-topology mostly has them",
                )
            jumps.append(hops.pop())
        if found.setdefault(len(group.members), tuple(sorted(jumps))) != tuple(sorted(jumps)):
            raise refuse(f"groups of {len(group.members)} servers use different rings", path="plan.rings")
    return found


def numbers_and_jumps(groups: Sequence[GroupRings], servers: int) -> tuple[tuple[int, ...], Jumps]:
    """Numbers of the servers, their own if these will do, by which every ring is a jump; and the jumps.

    If rings of all servers are jumps by any numbers, they are by those of the first ring's order: numbers multiplied by
    a number prime to n, or shifted, leave every jump a jump.

    Raises:
        InputError: no numbers tried will do.
    """
    own = tuple(range(servers))
    refused: InputError | None = None
    for number in itertools.chain([own], _along_rings(groups, servers)):
        try:
            return number, ring_jumps(groups, number)
        except InputError as error:
            refused = refused or error
    raise refused or refuse("no rings", path="plan.rings")


def _along_rings(groups: Sequence[GroupRings], servers: int) -> Iterator[tuple[int, ...]]:
    """Numbers by which the k-th rings of the largest groups, which share no server, are jumps of n / group size."""
    size = max((len(group.members) for group in groups), default=0)
    largest = [group for group in groups if len(group.members) == size]
    covered = [server for group in largest for server in group.members]
    if not largest or servers % size or len(set(covered)) < len(covered):
        return
    stride = servers // size
    for k in range(min(len(group.rings) for group in largest)):
        number = [-1] * servers
        for place, group in enumerate(largest):
            for step, server in enumerate(group.rings[k].order):
                number[server] = place + stride * step
        left = iter(sorted(set(range(servers)) - set(number)))
        yield tuple(next(left) if at < 0 else at for at in number)


def renumbered_graph(graph: TaskGraph, number: Sequence[int]) -> TaskGraph:
    """The same tasks on servers called otherwise."""
    names = np.array([*number, -1], dtype=np.int32)  # the last one for tasks without a server, which have -1
    groups = tuple(tuple(sorted(number[member] for member in members)) for members in graph.groups)
    return replace(graph, source=names[graph.source], target=names[graph.target], groups=groups)


def renumbered_topology(topology: Topology, number: Sequence[int]) -> Topology:
    """The same links between servers called otherwise."""
    arcs = np.repeat(np.array(number)[topology.arcs], topology.multiplicity, axis=0)
    return Topology.of_arcs(
        topology.servers, arcs, degree=topology.degree, links=topology.links, origin=topology.origin
    )


def renumbered_path(path: PlannedPath, number: Sequence[int]) -> PlannedPath:
    """The same path between servers called otherwise."""
    nodes = tuple(number[node] for node in path.nodes)
    return replace(path, source=nodes[0], target=nodes[-1], nodes=nodes)
