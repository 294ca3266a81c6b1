"""Distance-regular graphs by name (Brouwer, Cohen, Neumaier 1989): breadth-first broadcasts balance on all of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from topoopt.core.arrays import Ints

if TYPE_CHECKING:
    import networkx as nx

    Graph = nx.Graph[Any]


@dataclass(frozen=True)
class NamedGraph:
    """Servers, links of each, and how it is made."""

    servers: int
    degree: int
    make: Callable[[], Graph]


def _by_name(function: str) -> Graph:
    import networkx

    made: Graph = getattr(networkx, function)()
    return made


def _lcf(servers: int, shifts: list[int]) -> Graph:
    """A Hamiltonian cubic graph by the chords along its cycle (Lederberg, Coxeter and Frucht)."""
    import networkx

    made: Graph = networkx.LCF_graph(servers, shifts, servers // len(shifts))
    return made


def _line(of: Callable[[], Graph]) -> Graph:
    """Undirected line graph."""
    import networkx

    made: Graph = networkx.line_graph(of())
    return made


def _plane(difference_set: tuple[int, ...], points: int) -> Graph:
    """Points and lines of a projective plane: point i is on line i - s for all s of a difference set (Singer 1938)."""
    import networkx

    return networkx.Graph((i, points + (i - s) % points) for i in range(points) for s in difference_set)


def _disjoint(elements: int, size: int) -> Graph:
    """Kneser graph: sets of so many of the elements, linked where they are disjoint; n = 2 k + 1: an odd graph."""
    import networkx

    sets = list(itertools.combinations(range(elements), size))
    return networkx.Graph((a, b) for a, b in itertools.combinations(sets, 2) if not set(a) & set(b))


def _folded_cube(dimension: int) -> Graph:
    """Hypercube whose opposite corners are one."""
    import networkx

    n = 1 << (dimension - 1)
    steps = [*(1 << bit for bit in range(dimension - 1)), n - 1]
    return networkx.Graph((x, x ^ step) for x in range(n) for step in steps)


_PETERSEN = partial(_by_name, "petersen_graph")
_HEAWOOD = partial(_by_name, "heawood_graph")
_CAGE_8 = partial(_lcf, 30, [-13, -9, 7, -7, 9, 13])

DISTANCE_REGULAR: Mapping[str, NamedGraph] = {
    "petersen": NamedGraph(10, 3, _PETERSEN),
    "heawood": NamedGraph(14, 3, _HEAWOOD),
    "pappus": NamedGraph(18, 3, partial(_by_name, "pappus_graph")),
    "desargues": NamedGraph(20, 3, partial(_by_name, "desargues_graph")),
    "dodecahedron": NamedGraph(20, 3, partial(_by_name, "dodecahedral_graph")),
    "tutte-8-cage": NamedGraph(30, 3, _CAGE_8),
    "tutte-12-cage": NamedGraph(
        126, 3, partial(_lcf, 126, [17, 27, -13, -59, -35, 35, -11, 13, -53, 53, -27, 21, 57, 11, -21, -57, 59, -17])
    ),
    "octahedron": NamedGraph(6, 4, partial(_by_name, "octahedral_graph")),
    "line-petersen": NamedGraph(15, 4, partial(_line, _PETERSEN)),
    "line-heawood": NamedGraph(21, 4, partial(_line, _HEAWOOD)),
    "line-tutte-8-cage": NamedGraph(45, 4, partial(_line, _CAGE_8)),
    "odd-4": NamedGraph(35, 4, partial(_disjoint, 7, 3)),
    "odd-5": NamedGraph(126, 5, partial(_disjoint, 9, 4)),
    "icosahedron": NamedGraph(12, 5, partial(_by_name, "icosahedral_graph")),
    "clebsch": NamedGraph(16, 5, partial(_folded_cube, 5)),
    "folded-6-cube": NamedGraph(32, 6, partial(_folded_cube, 6)),
    "folded-7-cube": NamedGraph(64, 7, partial(_folded_cube, 7)),
    "hoffman-singleton": NamedGraph(50, 7, partial(_by_name, "hoffman_singleton_graph")),
    "projective-plane-3": NamedGraph(26, 4, partial(_plane, (0, 1, 3, 9), 13)),
    "projective-plane-4": NamedGraph(42, 5, partial(_plane, (0, 1, 4, 14, 16), 21)),
    "projective-plane-5": NamedGraph(62, 6, partial(_plane, (0, 1, 3, 8, 12, 18), 31)),
    "projective-plane-7": NamedGraph(114, 8, partial(_plane, (0, 1, 3, 13, 32, 36, 43, 52), 57)),
}
"""By name; planes by the number of points of a line, less one."""


def distance_regular(name: str) -> Ints:
    """int64[m, 2], the links of a graph of the table both ways."""
    import networkx

    graph = networkx.convert_node_labels_to_integers(DISTANCE_REGULAR[name].make(), ordering="sorted")
    pairs = np.array(sorted(graph.edges()), dtype=np.int64)
    return np.concatenate((pairs, pairs[:, ::-1]))
