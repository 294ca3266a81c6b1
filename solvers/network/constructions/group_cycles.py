"""Hamiltonian cycles of a group of servers that together take every link inside it alike."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Int32s
from topoopt.core.topology import Topology
from topoopt.native import graph


def cycles_inside(
    topology: Topology, members: tuple[int, ...], limit: int, *, seed: int
) -> tuple[tuple[int, ...], ...]:
    """Orders of the members, each every link inside the group once, where they have an even number of them; twice where
    it is odd and the switches have matchings of which each is a Hamiltonian cycle with the next one. Else none.

    Args:
        topology: bidirectional.
        members: two different servers or more.
        limit: most links of a member inside the group.
        seed: of the search for cycles.
    """
    place = np.full(topology.servers, -1)
    place[list(members)] = range(len(members))
    ends = place[topology.arcs]
    within = (ends >= 0).all(axis=1)
    counts = np.zeros((len(members),) * 2, dtype=np.int64)
    counts[ends[within, 0], ends[within, 1]] = topology.multiplicity[within]
    inside = counts.sum(axis=1)
    if inside.min() < 2 or inside.min() != inside.max() or inside[0] > limit:
        return ()
    if inside[0] % 2 == 0:
        orders = graph.hamiltonian_cycles(counts, seed % 2**64).tolist()
        return tuple(tuple(members[member] for member in order) for order in orders)
    rows = topology.switches[:, list(members)]
    matched = topology.switches[(place[rows] >= 0).all(axis=1) & (rows >= 0).all(axis=1)]
    if len(matched) != inside[0]:
        return ()
    cycles = tuple(
        _cycle(members[0], one, other) for one, other in zip(matched, np.roll(matched, -1, axis=0), strict=True)
    )
    return cycles if all(len(cycle) == len(members) for cycle in cycles) else ()


def _cycle(start: int, one: Int32s, other: Int32s) -> tuple[int, ...]:
    """Servers in the order of two matchings in turn, back to the start."""
    order = [start]
    while True:
        order.append(int(one[order[-1]]))
        there = int(other[order[-1]])
        if there == start:
            return tuple(order)
        order.append(there)
