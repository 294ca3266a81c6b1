"""From link counts to a `Topology`: arcs, switches, circulant offsets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from solvers.network.constructions.switches import assign_switches
from topoopt.core.arrays import Int32s, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError
from topoopt.core.graphs import strongly_connected
from topoopt.core.topology import Topology

ArcList = Ints
"""int64[m, 2], rows (tail, head), one per unit link and direction."""


def ring_arcs(n: int, distance: int, links: LinkDirection) -> ArcList:
    """Arcs i -> i + distance of all servers, and back for bidirectional links (once for the antipodal distance)."""
    start = np.arange(n, dtype=np.int64)
    forward = np.column_stack((start, (start + distance) % n))
    if links is LinkDirection.UNIDIRECTIONAL or 2 * distance % n == 0:
        return forward
    return np.vstack((forward, forward[:, ::-1]))


def link_arcs(pairs: Iterable[tuple[int, int]]) -> ArcList:
    """Both arcs of each bidirectional link."""
    array = np.array(list(pairs), dtype=np.int64).reshape(-1, 2)
    return np.vstack((array, array[:, ::-1]))


def assemble(n: int, degree: int, links: LinkDirection, parts: Sequence[ArcList], origin: str) -> Topology:
    """Topology with all unit arcs of `parts`; equal arcs become parallel links.

    Raises:
        InfeasibleError: some server cannot reach another one.
        InputError: a server has more arcs than interfaces.
    """
    unit = np.vstack([np.zeros((0, 2), dtype=np.int64), *parts])
    topology = Topology.of_arcs(n, unit, degree=degree, links=links, origin=origin)
    if not strongly_connected(n, topology.arcs):
        raise InfeasibleError(f"the links of this topology ({origin}) do not connect all {n} servers")
    return switched(topology)


def switched(topology: Topology) -> Topology:
    """The same with all its links given to switches.

    Raises:
        InputError: a server has more arcs than interfaces.
    """
    n, degree = topology.servers, topology.degree
    duplex = topology.links is LinkDirection.BIDIRECTIONAL
    switches = assign_switches(n, degree, topology.arcs, topology.multiplicity, duplex=duplex)
    return replace(topology, switches=switches)


def common_offsets(n: int, arcs: Int32s, multiplicity: Int32s) -> dict[int, int]:
    """Displacements that every server has an arc of, ascending, with the parallel links all of them have."""
    shift = (arcs[:, 1].astype(np.int64) - arcs[:, 0]) % n
    present = np.bincount(shift, minlength=n)
    fewest = np.full(n, np.iinfo(np.int32).max, dtype=np.int32)
    np.minimum.at(fewest, shift, multiplicity)
    return {int(p): int(fewest[p]) for p in np.flatnonzero(present == n)}
