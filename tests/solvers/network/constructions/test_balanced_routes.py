"""Routes of all pairs: shortest, complete, balanced; the split by linear program against known optima."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from solvers.network.assembly import assemble
from solvers.network.distances import hop_table, totient
from solvers.network.finder import FinderSettings, find_topology
from solvers.network.routes import balanced_routes, circulant_routes, circulant_topology, link_loads, split_routes_lp
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.topology import Topology
from topoopt.core.workload import AllReduceDemand, Demand, PathTable
from topoopt.simulate.network import hop_matrix

BOTH = LinkDirection.BIDIRECTIONAL
ONE_WAY = LinkDirection.UNIDIRECTIONAL


def digraph(topology: Topology) -> nx.DiGraph[int]:
    """Arcs without parallel ones."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_edges_from(topology.arcs.tolist())
    return graph


def check(topology: Topology, routes: PathTable, *, slack: int = 0) -> None:
    """All ordered pairs, simple paths over arcs, within `slack` of the shortest, shares summing to one."""
    n = topology.servers
    pairs = list(zip(routes.source.tolist(), routes.target.tolist(), strict=True))
    assert pairs == [(s, t) for s in range(n) for t in range(n) if s != t]
    hops = dict(nx.all_pairs_shortest_path_length(digraph(topology)))
    arcs = {(a, b) for a, b in topology.arcs.tolist()}
    for index, (s, t) in enumerate(pairs):
        first, last = int(routes.pair_ptr[index]), int(routes.pair_ptr[index + 1])
        assert routes.share[first:last].sum() == pytest.approx(1.0)
        paths = [routes.path(p) for p in range(first, last)]
        assert len(set(paths)) == len(paths)
        for path in paths:
            assert (path[0], path[-1]) == (s, t)
            assert len(set(path)) == len(path)
            assert len(path) - 1 <= hops[s][t] + slack
            assert all(step in arcs for step in pairwise(path))


def naive_peak(topology: Topology, weights: NDArray[np.float64]) -> float:
    """Largest load when every pair takes networkx's first shortest path."""
    load: dict[tuple[int, int], float] = {}
    capacity = {(int(a), int(b)): int(m) for (a, b), m in zip(topology.arcs, topology.multiplicity, strict=True)}
    for s, paths in nx.all_pairs_shortest_path(digraph(topology)):
        for t, path in paths.items():
            for step in pairwise(path):
                load[step] = load.get(step, 0.0) + weights[s, t] / capacity[step]
    return max(load.values())


@pytest.mark.parametrize(
    ("n", "distances", "links", "optimum"),
    # Optima of one decomposition per displacement, found by an integer program over all of them.
    [
        (12, (1, 5), BOTH, 6),
        (16, (1, 5), BOTH, 9),
        (16, (1, 4), BOTH, 8),
        (16, (1, 3, 5, 9), BOTH, 3),
        (128, (1, 13), BOTH, 189),
        (128, (1, 5, 13, 39), BOTH, 48),
        (16, (1, 3, 7, 12), ONE_WAY, 8),
        (32, (1, 5, 8, 18), ONE_WAY, 20),
    ],
)
def test_circulant_routes_are_balanced_over_the_coins(
    n: int, distances: tuple[int, ...], links: LinkDirection, optimum: int
) -> None:
    """Uniform all-to-all: the largest load is the optimum over routes that are the same from every source."""
    degree = len(distances) * (2 if links is BOTH else 1)
    topology = circulant_topology(n, degree, links, distances)
    routes = circulant_routes(n, topology.offsets)
    if n <= 32:
        check(topology, routes)
    load = link_loads(topology, routes)
    assert load.max() == pytest.approx(optimum)
    assert load.sum() == pytest.approx(n * hop_table(n, topology.offsets).sum()), "every path is shortest"


@pytest.mark.parametrize(("n", "degree", "distances"), [(16, 4, (1, 5)), (16, 8, (1, 3, 5, 9)), (12, 4, (1, 5))])
def test_split_traffic_meets_the_distance_bound(n: int, degree: int, distances: tuple[int, ...]) -> None:
    """Four parcels per pair bring the largest load within 5 % of sum(hops) / d, which nothing can beat."""
    topology = circulant_topology(n, degree, BOTH, distances)
    bound = hop_table(n, topology.offsets).sum() / degree
    peak = link_loads(topology, balanced_routes(topology, paths_per_pair=4)).max()
    assert bound * (1 - 1e-9) <= peak <= 1.05 * bound


@settings(max_examples=25)
@given(n=st.integers(2, 14), degree=st.integers(2, 5), seed=st.integers(0, 2**31), parcels=st.integers(1, 3))
def test_balanced_routes_on_any_topology(n: int, degree: int, seed: int, parcels: int) -> None:
    """Skewed demand on the finder's topologies: complete, shortest, repeatable, every byte carried."""
    rng = np.random.default_rng(seed)
    weights = rng.lognormal(0, 1.5, (n, n)) * (rng.random((n, n)) < 0.7)
    np.fill_diagonal(weights, 0.0)
    topology = find_topology(Cluster(n, 4, degree, 100.0), Demand(weights, ()))
    routes = balanced_routes(topology, weights, paths_per_pair=parcels, seed=seed)
    check(topology, routes)
    assert np.diff(routes.pair_ptr).max() <= parcels
    again = balanced_routes(topology, weights, paths_per_pair=parcels, seed=seed)
    assert again.node.tobytes() == routes.node.tobytes()
    carried = link_loads(topology, routes, weights) * topology.multiplicity
    assert np.isclose(carried.sum(), (weights * hop_matrix(topology)).sum())


def test_balanced_routes_beat_first_shortest_paths() -> None:
    """Single paths by search order load the worst link 1.6 times the balanced load or more (n = 16, d = 4)."""
    topology = circulant_topology(16, 4, BOTH, (1, 5))
    uniform = np.ones((16, 16)) - np.eye(16)
    balanced = link_loads(topology, balanced_routes(topology)).max()
    assert naive_peak(topology, uniform) >= 1.2 * balanced


@settings(max_examples=40)
@given(
    n=st.integers(3, 14),
    degree=st.integers(2, 4),
    skew=st.floats(0.0, 2.5),
    seed=st.integers(0, 2**31),
    parcels=st.integers(1, 2),
    links=st.sampled_from(list(LinkDirection)),
)
def test_balanced_routes_are_never_worse_than_plain_shortest_paths(
    n: int, degree: int, skew: float, seed: int, parcels: int, links: LinkDirection
) -> None:
    """The largest load is at most that of the first shortest path of every pair, whatever the demand."""
    weights = np.random.default_rng(seed).lognormal(0, skew, (n, n))
    np.fill_diagonal(weights, 0.0)
    topology = find_topology(Cluster(n, 4, degree, 100.0, links), Demand(weights, ()))
    routes = balanced_routes(topology, weights, paths_per_pair=parcels, seed=seed)
    check(topology, routes)
    assert link_loads(topology, routes, weights).max() <= naive_peak(topology, weights) * (1 + 1e-9)


def test_balanced_routes_on_a_ring_of_ten() -> None:
    """A ring has two paths for opposite servers alone, so plain paths can be lucky: they are never undercut."""
    topology = circulant_topology(10, 2, BOTH, (1,))
    for seed in range(40):
        weights = np.random.default_rng(seed).lognormal(0, 1.5, (10, 10))
        np.fill_diagonal(weights, 0.0)
        peak = link_loads(topology, balanced_routes(topology, weights), weights).max()
        assert peak <= naive_peak(topology, weights) * (1 + 1e-9)


def test_invariant_weights_and_parallel_links() -> None:
    """Traffic by displacement on a circulant with double +-1 links: these carry twice as much."""
    topology = circulant_topology(16, 6, BOTH, (1, 1, 5))
    weights = np.zeros((16, 16))
    for i in range(16):
        weights[i, (i + 6) % 16] = 1.0  # 6 = 1 + 5 in two hops
        weights[i, (i + 2) % 16] = 1.0  # 2 = 1 + 1
    load = link_loads(topology, balanced_routes(topology, weights), weights)
    shift = (topology.arcs[:, 1] - topology.arcs[:, 0]) % 16
    np.testing.assert_allclose(load[shift == 1], 1.5)
    np.testing.assert_allclose(load[shift == 5], 1.0)


def test_routes_at_1024_servers() -> None:
    """All 1 047 552 pairs in one table, every path shortest, largest load within 6 % of the distance bound."""
    n = 1024
    result = totient(n, 8, BOTH, "flexnet")
    topology = circulant_topology(n, 8, BOTH, result.distances)
    routes = balanced_routes(topology)
    assert len(routes.source) == n * (n - 1)
    hops = hop_table(n, result.offsets)
    assert np.array_equal(np.diff(routes.path_ptr) - 1, hops[(routes.target - routes.source) % n])
    assert link_loads(topology, routes).max() <= 1.06 * hops.sum() / 8


def test_balanced_routes_refuse_bad_input() -> None:
    """Wrong shape, negative or infinite traffic, no path at all."""
    topology = circulant_topology(8, 4, BOTH, (1, 3))
    for bad in (np.ones((3, 3)), -np.ones((8, 8)), np.full((8, 8), np.inf)):
        with pytest.raises(InputError):
            balanced_routes(topology, bad)
    with pytest.raises(InputError, match="paths_per_pair"):
        balanced_routes(topology, paths_per_pair=0)
    cut = replace(topology, arcs=topology.arcs[:4], multiplicity=topology.multiplicity[:4], offsets=())
    with pytest.raises(InfeasibleError, match="no route"):
        balanced_routes(cut)
    with pytest.raises(InfeasibleError, match="connect"):
        circulant_routes(8, (2, 6))


@pytest.mark.parametrize(
    ("n", "distances", "theta"),
    [(16, (1, 3, 7, 12), 7.25), (16, (1, 3, 5, 7), 7.5), (32, (1, 5, 8, 18), 19.5)],
)
def test_split_by_program_reaches_known_optima(n: int, distances: tuple[int, ...], theta: float) -> None:
    """Uniform demand on directed circulants: published optimal link utilisation of the full routing program."""
    topology = circulant_topology(n, 4, ONE_WAY, distances)
    routes = split_routes_lp(topology, None, 12)
    check(topology, routes, slack=1)
    assert link_loads(topology, routes).max() == pytest.approx(theta, rel=1e-6)


def arcs_of(rows: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """Unit arcs."""
    return np.array(rows, dtype=np.int64)


def test_split_follows_capacity() -> None:
    """A diamond with a double lower branch: one unit from 0 to 3 splits 1/3 : 2/3, largest load 1/3."""
    rows = [(0, 1), (1, 3), (0, 2), (0, 2), (2, 3), (2, 3), (3, 0)]
    topology = assemble(4, 3, ONE_WAY, [arcs_of(rows)], "diamond")
    weights = np.zeros((4, 4))
    weights[0, 3] = 1.0
    routes = split_routes_lp(topology, weights, 4)
    pair = int(np.flatnonzero((routes.source == 0) & (routes.target == 3))[0])
    shares = {routes.path(p): routes.share[p] for p in range(routes.pair_ptr[pair], routes.pair_ptr[pair + 1])}
    assert shares == pytest.approx({(0, 1, 3): 1 / 3, (0, 2, 3): 2 / 3})
    assert link_loads(topology, routes, weights).max() == pytest.approx(1 / 3)


def test_finder_with_all_routes_at_1024_servers() -> None:
    """AllReduce over 1024 servers of degree 8: rings on all interfaces and a route for every pair."""
    n = 1024
    demand = Demand(np.zeros((n, n)), (AllReduceDemand(tuple(range(n)), 1e9),))
    topology = find_topology(Cluster(n, 4, 8, 100.0), demand)
    assert topology.offsets == (1, 7, 33, 181, n - 181, n - 33, n - 7, n - 1)
    assert len(balanced_routes(topology).source) == n * (n - 1)


def test_routes_of_some_pairs_of_a_circulant_are_those_of_all() -> None:
    """Each pair has the paths and shares it has among all pairs."""
    topology = circulant_topology(80, 4, BOTH, (1, 6))
    wanted = np.random.default_rng(0).random((80, 80)) < 0.3
    some = balanced_routes(topology, pairs=wanted)
    every = balanced_routes(topology)
    assert list(zip(some.source.tolist(), some.target.tolist(), strict=True)) == [
        (s, t) for s, t in np.argwhere(wanted).tolist() if s != t
    ]
    among_all = _paths(every)
    assert all(among_all[pair] == paths for pair, paths in _paths(some).items())


@pytest.mark.parametrize("parcels", [1, 2, 4])
def test_routes_of_some_pairs_of_any_topology(parcels: int) -> None:
    """Those pairs alone, each over distinct shortest paths with shares of one in all; no pair at all is no path."""
    n = 70
    weights = np.random.default_rng(1).integers(0, 3, (n, n)).astype(np.float64)
    np.fill_diagonal(weights, 0.0)
    topology = find_topology(Cluster(n, 4, 4, 100.0), Demand(weights, ()), FinderSettings(model_parallel_degree=2))
    assert not topology.offsets
    wanted = weights == 2
    routes = balanced_routes(topology, weights, paths_per_pair=parcels, pairs=wanted)
    found = _paths(routes)
    assert set(found) == {(s, t) for s, t in np.argwhere(wanted).tolist()}
    hops = dict(nx.all_pairs_shortest_path_length(digraph(topology)))
    for (s, t), paths in found.items():
        assert sum(paths.values()) == pytest.approx(1.0)
        assert len(paths) <= parcels
        assert {len(path) - 1 for path in paths} == {hops[s][t]}
    assert len(balanced_routes(topology, paths_per_pair=parcels, pairs=np.zeros((n, n), dtype=bool)).share) == 0


def _paths(routes: PathTable) -> dict[tuple[int, int], dict[tuple[int, ...], float]]:
    ends = zip(routes.source.tolist(), routes.target.tolist(), strict=True)
    rows = zip(routes.pair_ptr[:-1].tolist(), routes.pair_ptr[1:].tolist(), strict=True)
    return {
        pair: {routes.path(p): float(routes.share[p]) for p in range(low, high)}
        for pair, (low, high) in zip(ends, rows, strict=True)
    }
