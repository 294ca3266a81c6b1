"""Circuits from the matrix of volumes alone, as rivals choose them: when a volume is needed plays no part."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from solvers.dag_topology.box import BoxLaws
from solvers.dag_topology.branching import CLOSED
from solvers.dag_topology.search import FoundCircuits, root_bound, root_circuits
from solvers.dag_topology.starts import dealt, used_ports
from solvers.stop import Stop
from topoopt.core.arrays import Ints
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.dag_topology_solution import CircuitProof
from topoopt.core.verdict import StopReason
from topoopt.simulate.dag.shared_circuits import makespan

Choice = Callable[[BoxLaws], Ints]
"""Circuits of each pair, at least one, within the ports."""


def _largest(laws: BoxLaws) -> Ints:
    return dealt(laws, np.ones_like(laws.most), laws.most, laws.pair_volume)


def _square_roots(laws: BoxLaws) -> Ints:
    return dealt(laws, np.ones_like(laws.most), laws.most, np.sqrt(laws.pair_volume))


def _equal(laws: BoxLaws) -> Ints:
    return dealt(laws, np.ones_like(laws.most), laws.most, np.ones(len(laws.most)))


def _proportional(laws: BoxLaws) -> Ints:
    """Shares of the ports of the busier end, rounded down; what is left goes to the largest volume a circuit."""
    volume = laws.pair_volume
    at_pod = np.bincount(laws.ends.ravel(), np.repeat(volume, 2), minlength=len(laws.ports))
    share = (laws.ports / np.maximum(at_pod, 1e-300))[laws.ends].min(axis=1)
    wanted = np.clip(np.floor(volume * share), 1, laws.most).astype(np.int64)
    wanted = wanted if (used_ports(laws, wanted) <= laws.ports).all() else np.ones_like(laws.most)
    return dealt(laws, wanted, laws.most, volume)


def _matchings(laws: BoxLaws) -> Ints:
    """Again and again one circuit for each pair of the heaviest matching of the volume a circuit."""
    import networkx as nx  # takes a while

    circuits, volume = np.ones_like(laws.most), laws.pair_volume
    place = {(int(a), int(b)): p for p, (a, b) in enumerate(laws.ends)}
    while True:
        free = laws.ports - used_ports(laws, circuits)
        room = (free[laws.ends] > 0).all(axis=1) & (circuits < laws.most)
        if not room.any():
            return circuits
        graph: nx.Graph[int] = nx.Graph()
        largest = float((volume / circuits)[room].max())
        for p in np.flatnonzero(room).tolist():
            graph.add_edge(*laws.ends[p].tolist(), weight=float(volume[p] / circuits[p]) / largest)
        for ends in nx.max_weight_matching(graph):
            circuits[place[min(ends), max(ends)]] += 1


MATRIX_METHODS: Mapping[str, tuple[str, Choice]] = {
    "volume": ("by volume: each circuit to the pair with most volume a circuit", _largest),
    "proportional": ("in proportion to volumes, rounded down, the rest as `volume`", _proportional),
    "square-root": ("in proportion to square roots of volumes (least sum of times)", _square_roots),
    "matching": ("heaviest matchings of the volume a circuit, one after the other", _matchings),
    "equal": ("dealt out in turn", _equal),
}
"""What each does, in words, and how."""


def by_matrix(name: str, problem: DagTopologyProblem, stop: Stop) -> FoundCircuits:
    """Circuits by a method of the table, and what the root says of all."""
    laws = BoxLaws.of(problem)
    circuits = MATRIX_METHODS[name][1](laws)
    value = makespan(laws.graph, circuits, laws.rate)
    bound = root_bound(laws, value)
    few = root_circuits(laws, value * (1 + problem.slack_percent / 100))
    proof = CircuitProof((CLOSED,), few, (CLOSED,))
    return FoundCircuits(circuits, circuits, bound, proof, stop.reason() or StopReason.CONVERGED)
