"""Certificates and the flow check: exact values by hand, tampering found, files round trip."""

from __future__ import annotations

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.network.routes import circulant_topology
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.network import SourceFlow
from topoopt.core.topology import Topology
from topoopt.verify.laws.routing import all_pairs, certified_theta_bound, check_flow, exact_theta_bound


def ring(n: int, links: int = 1) -> Topology:
    """Directed ring with `links` parallel links everywhere."""
    arcs = np.array(sorted((i, (i + 1) % n) for i in range(n)), dtype=np.int32)
    switches = np.tile((np.arange(n, dtype=np.int32) + 1) % n, (links, 1)).astype(np.int32)
    return Topology(n, links, LinkDirection.UNIDIRECTIONAL, arcs, np.full(n, links, dtype=np.int32), switches)


def all_to_all(n: int) -> np.ndarray:
    """One unit between every ordered pair."""
    return np.ones((n, n)) - np.eye(n)


def ring_flow(n: int) -> np.ndarray:
    """The only all-to-all routing of a directed ring: source s still has n - 1 - k units after k hops."""
    return np.array([[n - 1 - (a - s) % n for a in range(n)] for s in range(n)], dtype=float)


def test_bound_of_equal_lengths_by_hand() -> None:
    """On a ring of five with equal lengths: sum of distances 5 (1 + 2 + 3 + 4) over 5 arcs is exactly 10."""
    assert exact_theta_bound(ring(5), all_to_all(5), np.full(5, 0.3)) == Fraction(10)
    assert certified_theta_bound(ring(5), all_to_all(5), np.full(5, 0.3)) == 10.0
    assert exact_theta_bound(ring(5, 2), all_to_all(5), np.ones(5)) == Fraction(5)


def test_large_networks_lose_no_more_than_the_margin() -> None:
    """Above 128 servers the value is below the exact one, n (n - 1) / 2, by less than 1e-9 of it."""
    n = 160
    value = certified_theta_bound(ring(n), all_to_all(n), np.ones(n))
    truth = n * (n - 1) / 2
    assert truth * (1 - 1e-9) < value < truth


@given(st.lists(st.floats(0, 1e6, allow_subnormal=False), min_size=6, max_size=6))
@settings(max_examples=30)
def test_no_lengths_prove_more_than_the_truth(lengths: list[float]) -> None:
    """Weak duality: whatever the lengths, the bound on a ring of six is at most its theta, 15."""
    if max(lengths) == 0:
        with pytest.raises(InputError):
            exact_theta_bound(ring(6), all_to_all(6), np.array(lengths))
        return
    assert exact_theta_bound(ring(6), all_to_all(6), np.array(lengths)) <= 15


def test_circulant_bound_by_hand() -> None:
    """Offsets 1 and 3 on six servers, lengths 1 and 2: distances 1 2 2 3 4 over a price of 3 give 4."""
    topology = circulant_topology(6, 2, LinkDirection.UNIDIRECTIONAL, [1, 3])
    steps = (topology.arcs[:, 1] - topology.arcs[:, 0]) % 6
    assert exact_theta_bound(topology, all_to_all(6), np.where(steps == 1, 1.0, 2.0)) == pytest.approx(4.0, rel=1e-12)


@pytest.mark.parametrize("shape", ["random", "ring of many hops", "circulant", "circulant of unequal lengths"])
@pytest.mark.parametrize("seed", range(4))
def test_distances_are_those_of_dijkstra(shape: str, seed: int) -> None:
    """Whichever way they are found: server by server, going on with Floyd and Warshall, or from one server for all."""
    draw = np.random.default_rng(seed)
    n = int(draw.integers(20, 40))
    if shape == "random":
        arcs = np.unique(draw.integers(0, n, (3 * n, 2)), axis=0)
        arcs = arcs[arcs[:, 0] != arcs[:, 1]]
    else:
        steps = [1] if shape == "ring of many hops" else [1, 4, n - 3]
        arcs = np.array([(v, (v + step) % n) for v in range(n) for step in steps])
    topology = Topology.of_arcs(n, arcs)
    lengths = draw.integers(0, 2**40, len(topology.arcs))
    if shape == "circulant":
        lengths = lengths[:n][(topology.arcs[:, 1] - topology.arcs[:, 0]) % n]
    graph = nx.DiGraph()
    graph.add_nodes_from(range(n))
    ends = zip(topology.arcs.tolist(), lengths.tolist(), strict=True)
    graph.add_weighted_edges_from((i, j, length) for (i, j), length in ends)
    due = np.full((n, n), 2**60)
    for i, row in nx.all_pairs_dijkstra_path_length(graph):
        due[i, list(row)] = list(row.values())
    np.testing.assert_array_equal(np.minimum(all_pairs(topology, lengths), 2**60), due)


def test_a_right_flow_passes() -> None:
    """The ring's only routing conserves and has theta 15."""
    check = check_flow(ring(6), all_to_all(6), SourceFlow(ring_flow(6)))
    assert check.ok
    assert check.theta == 15.0


@pytest.mark.parametrize(("source", "arc", "change"), [(0, 0, 0.5), (2, 4, -0.5), (3, 2, -1e-6), (1, 0, -7.0)])
def test_a_changed_flow_is_found(source: int, arc: int, change: float) -> None:
    """A single entry too large or too small breaks conservation, or is negative."""
    flow = ring_flow(6)
    flow[source, arc] += change
    assert not check_flow(ring(6), all_to_all(6), SourceFlow(flow)).ok


def test_flow_of_another_problem_is_found() -> None:
    """Wrong shape, NaN, and a demand the flow does not deliver."""
    assert not check_flow(ring(6), all_to_all(6), SourceFlow(np.zeros((6, 5)))).ok
    assert not check_flow(ring(6), all_to_all(6), SourceFlow(np.full((6, 6), np.nan))).ok
    assert not check_flow(ring(6), 2 * all_to_all(6), SourceFlow(ring_flow(6))).ok


def test_bad_lengths_are_refused() -> None:
    """Negative, NaN, all-zero and miscounted lengths prove nothing and are errors."""
    for lengths in ([-1.0, 1, 1, 1], [np.nan, 1, 1, 1], [0.0, 0, 0, 0], [1.0, 1, 1]):
        with pytest.raises(InputError):
            certified_theta_bound(ring(4), all_to_all(4), np.array(lengths))


def test_unreachable_demand_is_infeasible() -> None:
    """A pair with demand that no path joins is named."""
    path = ring(3)
    cut = Topology(3, 1, path.links, path.arcs[:2], path.multiplicity[:2], path.switches)
    with pytest.raises(InfeasibleError, match="server 1 to server 0"):
        exact_theta_bound(cut, all_to_all(3), np.ones(2))
