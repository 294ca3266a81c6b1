"""TopologyFinder: degrees, connectivity, nothing left unused; matchings against brute force; the portfolio."""

from __future__ import annotations

from itertools import permutations
from math import gcd

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from solvers.network.assembly import best_matching, best_permutation, share_rings, split_degree
from solvers.network.distances import Selection
from solvers.network.finder import FinderSettings, candidate_topologies, find_topology, invariant_units
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.topology import Topology
from topoopt.core.workload import AllReduceDemand, Demand

BOTH = LinkDirection.BIDIRECTIONAL
ONE_WAY = LinkDirection.UNIDIRECTIONAL


def cluster(n: int, degree: int, links: LinkDirection = BOTH) -> Cluster:
    """A cluster of 100 Gbit/s links."""
    return Cluster(n, 4, degree, 100.0, links)


def demand(
    n: int, groups: tuple[tuple[int, ...], ...] = (), transfers: float = 0.0, *, skew: int | None = None
) -> Demand:
    """Groups of 1 GB each; uniform or lognormal transfers."""
    matrix = np.full((n, n), transfers)
    if skew is not None:
        matrix *= np.random.default_rng(skew).lognormal(0.0, 1.5, (n, n))
    np.fill_diagonal(matrix, 0.0)
    return Demand(matrix, tuple(AllReduceDemand(group, 1e9) for group in groups))


def graph_of(topology: Topology) -> nx.MultiDiGraph[int]:
    """The unit arcs as networkx sees them."""
    graph: nx.MultiDiGraph[int] = nx.MultiDiGraph()
    graph.add_nodes_from(range(topology.servers))
    for (a, b), m in zip(topology.arcs.tolist(), topology.multiplicity.tolist(), strict=True):
        graph.add_edges_from([(a, b)] * m)
    return graph


def check(topology: Topology) -> None:
    """Degrees kept, connected, two-way links symmetric, switches realise the arcs, nothing unused but by parity."""
    n, degree = topology.servers, topology.degree
    graph = graph_of(topology)
    assert nx.is_strongly_connected(graph)
    assert nx.number_of_selfloops(graph) == 0
    sent = [d for _, d in graph.out_degree()]
    received = [d for _, d in graph.in_degree()]
    assert max(sent) <= degree
    assert max(received) <= degree
    if topology.links is BOTH:
        assert all(graph.number_of_edges(a, b) == graph.number_of_edges(b, a) for a, b in set(graph.edges()))
        assert n * degree - sum(sent) == (n * degree) % 2
    else:
        assert set(sent) == set(received) == {degree}
    unit = sorted((i, int(head)) for row in topology.switches for i, head in enumerate(row) if head >= 0)
    assert unit == sorted((a, b) for a, b in graph.edges())
    if topology.offsets:
        assert {(b - a) % n for a, b in graph.edges()} == set(topology.offsets)


@pytest.mark.parametrize("links", [BOTH, ONE_WAY])
@pytest.mark.parametrize("n", list(range(2, 25)))
def test_every_size_and_degree(n: int, links: LinkDirection) -> None:
    """n = 2..24, d = 1..6, pure AllReduce, pure transfers, both, neither: always a full connected topology."""
    everybody = (tuple(range(n)),)
    for degree in range(2 if links is BOTH and n > 2 else 1, 7):
        for case in (
            demand(n, everybody),
            demand(n, (), 1e6, skew=n),
            demand(n, ((0, 1), *everybody), 1e9 / n, skew=n),
            demand(n),
        ):
            for forced in (None, 2):
                check(find_topology(cluster(n, degree, links), case, FinderSettings(model_parallel_degree=forced)))


def test_one_two_way_interface_cannot_connect() -> None:
    """d = 1 with two-way links and more than two servers is infeasible; one-way it is one ring."""
    with pytest.raises(InfeasibleError, match="cannot connect 5 servers"):
        find_topology(cluster(5, 1), demand(5))
    ring = find_topology(cluster(5, 1, ONE_WAY), demand(5))
    assert ring.offsets == (1,)


def test_bad_input_is_refused() -> None:
    """Demand of another size, zero servers, a negative matching degree."""
    with pytest.raises(InputError, match="another cluster"):
        find_topology(cluster(5, 4), demand(6))
    with pytest.raises(InputError, match="servers"):
        find_topology(cluster(0, 4), demand(0))
    with pytest.raises(InputError, match="model_parallel_degree"):
        FinderSettings(model_parallel_degree=-1)


def test_degree_split_follows_the_paper() -> None:
    """d_A = ceil(d A / (A + M)), rounded up to whole rings; never below one ring, never above d."""
    everybody = tuple(range(16))
    wire = 2 * 15 * 1e9  # bytes that 16 members send for 1 GB
    for ratio, degree, rings in ((1.0, 8, 4), (0.1, 8, 8), (3.0, 8, 2), (100.0, 8, 2), (1.0, 4, 2), (1.0, 5, 4)):
        case = demand(16, (everybody,), ratio * wire / 240)
        assert split_degree(16, degree, BOTH, case) == (rings, degree - rings)
    assert split_degree(16, 3, ONE_WAY, demand(16, (everybody,), wire / 240))[0] == 2
    assert split_degree(16, 4, BOTH, demand(16), 4)[0] == 2, "one ring stays"
    assert split_degree(16, 4, BOTH, demand(16))[1] == 0


def test_rings_are_shared_in_proportion() -> None:
    """Eight interfaces, traffic 3 : 1 between all 16 and groups of 4: three rings and one; one ring always for all."""
    assert share_rings(16, 8, BOTH, {16: 3.0, 4: 1.0}) == {16: 3, 4: 1}
    assert share_rings(16, 4, BOTH, {4: 1e9}) == {16: 1, 4: 1}
    assert share_rings(16, 4, BOTH, {2: 1e9}) == {16: 1, 2: 2}, "pairs take one interface each"
    assert share_rings(16, 4, ONE_WAY, {4: 3.0, 16: 1.0}) == {16: 1, 4: 3}


def test_subgroups_get_rings_of_their_own() -> None:
    """AllReduce mostly in cosets of 4: distance 4 is linked, and every coset is a ring of direct links."""
    groups = tuple(tuple(range(o, 16, 4)) for o in range(4))
    topology = find_topology(cluster(16, 4), demand(16, groups))
    assert topology.offsets == (1, 4, 12, 15)


@settings(max_examples=40)
@given(n=st.integers(2, 7), seed=st.integers(0, 2**31), sparse=st.booleans())
def test_matching_is_heaviest(n: int, seed: int, sparse: bool) -> None:
    """Weight equals the best over all pairings; all servers matched but one of an odd number."""
    rng = np.random.default_rng(seed)
    weights = rng.random((n, n)) * (rng.random((n, n)) < (0.3 if sparse else 1.0))
    weights = np.triu(weights, 1) + np.triu(weights, 1).T
    pairs = best_matching(weights, np.ones(n, dtype=bool))
    assert len(pairs) == n // 2
    assert len({v for pair in pairs for v in pair}) == 2 * len(pairs)
    best = max(sum(weights[order[i], order[i + 1]] for i in range(0, n - 1, 2)) for order in permutations(range(n)))
    assert sum(weights[i, j] for i, j in pairs) == pytest.approx(best, abs=1e-9)


def test_large_matching_is_near_the_heaviest() -> None:
    """Above the exact size, pairwise exchanges stay within 5 % of networkx's Blossom."""
    n = 90
    weights = np.random.default_rng(1).lognormal(0, 1, (n, n))
    weights = np.triu(weights, 1) + np.triu(weights, 1).T
    found = sum(weights[i, j] for i, j in best_matching(weights, np.ones(n, dtype=bool)))
    graph = nx.from_numpy_array(weights)
    exact = sum(weights[i, j] for i, j in nx.max_weight_matching(graph, maxcardinality=True))
    assert 0.95 * exact <= found <= exact * (1 + 1e-9)


def test_servers_without_demand_are_matched_with_the_farthest() -> None:
    """Of 66 servers, heavy pairs first; of the others who is half the cluster away, the lower number first."""
    n = 66
    weights = np.zeros((n, n))
    weights[0, 5] = weights[5, 0] = 3.0
    weights[5, 7] = weights[7, 5] = 2.0
    pairs = dict(best_matching(weights, np.ones(n, dtype=bool)))
    # What 0 and 5 leave over are 33 and 38.
    assert pairs == {0: 5, 33: 38} | {i: i + 33 for i in range(33) if i not in (0, 5)}


@settings(max_examples=30)
@given(n=st.integers(2, 6), seed=st.integers(0, 2**31))
def test_permutation_is_heaviest(n: int, seed: int) -> None:
    """One-way matching: the best permutation without fixed points."""
    weights: NDArray[np.float64] = np.random.default_rng(seed).random((n, n))
    heads = best_permutation(weights)
    assert sorted(heads.tolist()) == list(range(n))
    assert all(heads[i] != i for i in range(n))
    best = max(
        sum(weights[i, order[i]] for i in range(n))
        for order in permutations(range(n))
        if all(order[i] != i for i in range(n))
    )
    assert weights[np.arange(n), heads].sum() == pytest.approx(best)


def test_heavy_pairs_get_direct_and_parallel_links() -> None:
    """Demand i <-> i + 8 only: matchings link exactly those pairs, twice with two matchings."""
    matrix = np.zeros((16, 16))
    for i in range(16):
        matrix[i, (i + 8) % 16] = 1e9
    topology = find_topology(cluster(16, 4), Demand(matrix, ()), FinderSettings(model_parallel_degree=2))
    links = graph_of(topology)
    assert all(links.number_of_edges(i, (i + 8) % 16) == 2 for i in range(16))


def test_discount_turns_the_second_matching_elsewhere() -> None:
    """Pair weights 3 and 2: after one link 3 counts 3/2 < 2, so the second matching takes the other pairs."""
    matrix = np.zeros((4, 4))
    for a, b, w in ((0, 1, 3.0), (2, 3, 3.0), (0, 2, 2.0), (1, 3, 2.0)):
        matrix[a, b] = matrix[b, a] = w
    topology = find_topology(cluster(4, 4), Demand(matrix, ()), FinderSettings(model_parallel_degree=2))
    added = graph_of(topology)
    ring = {(0, 1): 1, (1, 2): 1, (2, 3): 1, (0, 3): 1}
    extra = {pair: added.number_of_edges(*pair) - ring.get(pair, 0) for pair in ((0, 1), (2, 3), (0, 2), (1, 3))}
    assert extra == {(0, 1): 1, (2, 3): 1, (0, 2): 1, (1, 3): 1}


@pytest.mark.parametrize(("degree", "wanted"), [(4, (1, 4)), (8, (1, 2, 3, 4))])
def test_portfolio_of_16_servers(degree: int, wanted: tuple[int, ...]) -> None:
    """Sets that fit the groups are there, up to renaming servers; all are valid and different; repeatable."""
    groups = (tuple(range(16)), *(tuple(range(o, 16, 4)) for o in range(4)))
    case = demand(16, groups, 1e6)
    found = candidate_topologies(cluster(16, degree), case, limit=120, seed=1)
    again = candidate_topologies(cluster(16, degree), case, limit=120, seed=1)
    assert [t.arcs.tobytes() for t in found] == [t.arcs.tobytes() for t in again]
    images = {frozenset(u * p % 16 for q in wanted for p in (q, 16 - q)) for u in range(16) if gcd(u, 16) == 1}
    assert any(frozenset(t.offsets) in images for t in found)
    assert len({(t.arcs.tobytes(), t.multiplicity.tobytes()) for t in found}) == len(found)
    for topology in found:
        check(topology)


def test_portfolio_keeps_renamed_sets_when_the_demand_is_not_symmetric() -> None:
    """{1,3} and {3,7} (times 3) are one topology for symmetric demand, two otherwise."""
    symmetric = demand(16, (tuple(range(16)),), 1e6)
    skewed = demand(16, (tuple(range(16)),), 1e6, skew=3)
    assert invariant_units(16, symmetric) == (1, 3, 5, 7, 9, 11, 13, 15)
    assert invariant_units(16, skewed) == (1,)
    few = {t.offsets for t in candidate_topologies(cluster(16, 4), symmetric, limit=200)}
    many = {t.offsets for t in candidate_topologies(cluster(16, 4), skewed, limit=200)}
    assert {(1, 3, 13, 15), (3, 7, 9, 13)} <= many
    assert len(few) < len(many)


@pytest.mark.parametrize(
    ("n", "degree", "links"), [(9, 3, BOTH), (12, 3, BOTH), (7, 5, ONE_WAY), (40, 6, BOTH), (2, 2, BOTH)]
)
def test_portfolio_is_valid_everywhere(n: int, degree: int, links: LinkDirection) -> None:
    """Odd n, odd d, one-way links, larger n: at most the limit, all valid, the finder's own first."""
    case = demand(n, (tuple(range(n)),), 1e6, skew=1)
    found = candidate_topologies(cluster(n, degree, links), case, limit=12)
    assert 1 <= len(found) <= 12
    own = find_topology(cluster(n, degree, links), case)
    assert found[0].arcs.tobytes() == own.arcs.tobytes()
    for topology in found:
        check(topology)


@pytest.mark.parametrize("selection", list(Selection))
def test_groups_that_are_not_cosets_are_served(selection: Selection) -> None:
    """A group of 5 of 16 servers counts as traffic over everybody and does not disturb the finder."""
    check(find_topology(cluster(16, 4), demand(16, ((0, 1, 5, 6, 11),), 10.0), FinderSettings(selection)))
