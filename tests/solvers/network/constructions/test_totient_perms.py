"""TotientPerms: distances, diameters, mean hops and hop distributions against published values and brute force."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.network.distances import (
    Selection,
    TotientResult,
    candidate_distances,
    coins_of,
    hop_table,
    select_offsets,
    totient,
)
from solvers.network.routes import circulant_topology, decompositions
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError

BOTH = LinkDirection.BIDIRECTIONAL
ONE_WAY = LinkDirection.UNIDIRECTIONAL

# (n, d, distances, diameter, mean hops) of the released code.
FLEXNET = [
    (12, 4, (1, 5), 3, 1.818),
    (16, 4, (1, 5), 4, 2.133),
    (16, 8, (1, 3, 5, 9), 2, 1.467),
    (32, 4, (1, 7), 4, 2.710),
    (32, 8, (1, 3, 7, 15), 3, 2.000),
    (128, 4, (1, 13), 10, 5.622),
    (128, 6, (1, 7, 27), 6, 3.669),
    (128, 8, (1, 5, 13, 39), 5, 2.961),
    (432, 4, (1, 23), 18, 10.186),
    (432, 8, (1, 5, 23, 95), 7, 4.088),
]


@pytest.mark.parametrize(("n", "degree", "distances", "diameter", "mean"), FLEXNET)
def test_flexnet_selection_matches_the_released_code(
    n: int, degree: int, distances: tuple[int, ...], diameter: int, mean: float
) -> None:
    """Distances, diameter and mean hops equal the reference's recorded values."""
    result = totient(n, degree, BOTH, Selection.FLEXNET)
    assert result.distances == distances
    assert result.diameter == diameter
    assert result.mean_hops == pytest.approx(mean, abs=5e-4)
    assert set(result.offsets) == {p for q in distances for p in (q, n - q)}
    assert diameter <= result.diameter_bound == pytest.approx(degree * n ** (1 / degree))


@pytest.mark.parametrize(
    ("degree", "cdf"),
    [
        (4, (0.0315, 0.0945, 0.1890, 0.3150, 0.4724, 0.6378, 0.7795, 0.8898, 0.9685, 1.0)),
        (8, (0.0630, 0.2992, 0.7087, 0.9685, 1.0)),
    ],
)
def test_hop_distribution_of_128_servers(degree: int, cdf: tuple[float, ...]) -> None:
    """The path length distribution of the paper's 128-server topologies."""
    histogram = np.array(totient(128, degree, BOTH, "flexnet").hop_histogram)
    np.testing.assert_allclose(np.cumsum(histogram) / 127, cdf, atol=5.1e-5)


@pytest.mark.parametrize(
    ("n", "degree", "distances"),
    [(16, 3, (1, 3, 7)), (16, 4, (1, 3, 5, 7)), (1024, 2, (1, 31))],
)
def test_paper_selection_gives_the_papers_rings(n: int, degree: int, distances: tuple[int, ...]) -> None:
    """The paper's figure (+1, +3, +7 on 16 servers) and the directed circulants quoted for TotientPerms."""
    assert totient(n, degree, ONE_WAY, "paper").distances == distances


def test_best_reaches_the_known_optimum() -> None:
    """Exhaustive search at n = 128, d = 4 is known to give diameter 8 and mean 5.354 ({1,15})."""
    result = totient(128, 4, BOTH, "best")
    assert result.diameter == 8
    assert result.mean_hops == pytest.approx(5.354, abs=5e-4)


@pytest.mark.parametrize(("n", "degree"), [(16, 8), (128, 4), (300, 6)])
@pytest.mark.parametrize("links", [BOTH, ONE_WAY])
def test_best_is_not_worse_than_the_formulas(n: int, degree: int, links: LinkDirection) -> None:
    """Searched distances never have a larger (diameter, mean) than the geometric ones, and repeat for a seed."""

    def key(selection: str) -> tuple[int, float]:
        result = totient(n, degree, links, selection, seed=3)
        return result.diameter, result.mean_hops

    assert key("best") <= min(key("paper"), key("flexnet"))
    assert key("best") == key("best")


@settings(max_examples=60)
@given(n=st.integers(2, 60), data=st.data())
def test_hop_table_equals_search_on_the_graph(n: int, data: st.DataObject) -> None:
    """Hops by displacement equal networkx's shortest paths; -1 exactly where there is none."""
    offsets = data.draw(st.lists(st.integers(1, n - 1), min_size=1, max_size=5))
    graph = nx.DiGraph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from((i, (i + p) % n) for i in range(n) for p in offsets)
    reached = nx.single_source_shortest_path_length(graph, 0)
    expected = [reached.get(j, -1) for j in range(n)]
    assert hop_table(n, offsets).tolist() == expected


@settings(max_examples=25)
@given(
    n=st.integers(2, 48),
    degree=st.integers(2, 12),
    links=st.sampled_from([BOTH, ONE_WAY]),
    selection=st.sampled_from(list(Selection)),
)
def test_distances_use_the_degree_and_connect(n: int, degree: int, links: LinkDirection, selection: Selection) -> None:
    """Within the degree, everybody reachable, and no interface idle but one when n and d are odd and links two-way."""
    distances = select_offsets(n, degree, links, selection)
    used = sum(1 if links is ONE_WAY or 2 * p == n else 2 for p in distances)
    idle = degree % 2 if links is BOTH and n % 2 else 0
    assert used == degree - idle
    assert gcd(n, *distances) == 1
    topology = circulant_topology(n, degree, links, distances)
    assert topology.offsets == totient(n, degree, links, selection).offsets


@pytest.mark.parametrize("degree", [2, 3, 4, 6, 8])
def test_diameter_bound_holds_for_directed_rings(degree: int) -> None:
    """Theorem 1: d geometric rings keep the diameter within d n^(1/d), for every n."""
    for n in range(8, 400, 3):
        result = totient(n, degree, ONE_WAY, "paper")
        assert result.diameter <= result.diameter_bound


@pytest.mark.parametrize("degree", [4, 6, 8])
@pytest.mark.parametrize("selection", ["paper", "flexnet"])
def test_ring_bound_holds_for_two_way_rings(degree: int, selection: str) -> None:
    """With r rings used both ways the same argument gives r n^(1/r)."""
    for n in range(8, 400, 3):
        result = totient(n, degree, BOTH, selection)
        assert result.diameter <= result.ring_bound


def test_candidates_are_multiples_coprime_in_the_subgroup() -> None:
    """Group of 4 of 12: 3 q for q = 1, 3; the count is Euler's totient."""
    assert candidate_distances(12, 4) == (3, 9)
    assert candidate_distances(12, 12) == (1, 5, 7, 11)
    assert candidate_distances(12, 2) == (6,)
    totients = {2: 1, 7: 6, 9: 6, 16: 8, 36: 12, 97: 96, 120: 32}
    assert {n: len(candidate_distances(n, n)) for n in totients} == totients
    with pytest.raises(InputError, match="divide"):
        candidate_distances(12, 5)


@pytest.mark.parametrize(
    ("n", "degree", "links", "distances"),
    [
        (1, 3, BOTH, ()),
        (2, 3, BOTH, (1, 1, 1)),
        (2, 2, ONE_WAY, (1, 1)),
        (3, 4, BOTH, (1, 1)),
        (3, 3, BOTH, (1,)),
        (6, 8, BOTH, (1, 1, 1, 1)),
        (8, 3, BOTH, (1, 4)),
        (3, 3, ONE_WAY, (1, 2, 2)),
    ],
)
def test_degenerate_sizes(n: int, degree: int, links: LinkDirection, distances: tuple[int, ...]) -> None:
    """Few coprimes are reused as parallel links; an odd interface takes the antipodal links where n is even."""
    assert select_offsets(n, degree, links, "paper") == distances


def test_best_prefers_new_distances_to_parallel_links() -> None:
    """On 6 servers 8 interfaces reach everybody in one hop, which coprime distances alone (only 1) cannot."""
    assert totient(6, 8, BOTH, "best").diameter == 1
    assert totient(6, 8, BOTH, "paper").diameter == 3


def test_one_two_way_interface_is_refused() -> None:
    """A matching cannot connect three servers: infeasible, with the reason."""
    with pytest.raises(InfeasibleError, match="degree 1"):
        totient(3, 1, BOTH, "paper")
    assert totient(3, 1, ONE_WAY, "paper").diameter == 2
    assert totient(2, 1, BOTH, "paper").diameter == 1


def test_bad_input_is_listed() -> None:
    """All problems at once; unknown words name what is allowed."""
    with pytest.raises(InputError) as caught:
        totient(0, 0, BOTH, "paper")
    assert len(caught.value.problems) == 2
    with pytest.raises(InputError, match="flexnet"):
        totient(4, 2, BOTH, "prime")
    with pytest.raises(InputError, match="unidirectional"):
        totient(4, 2, "both", "paper")


def test_result_is_complete() -> None:
    """Histogram, mean and diameter of the result agree with its own hop table."""
    result: TotientResult = totient(50, 5, ONE_WAY, "paper")
    hops = hop_table(50, result.offsets)
    assert result.diameter == hops.max()
    assert result.mean_hops == pytest.approx(hops.sum() / 49)
    assert sum(result.hop_histogram) == 49
    assert result.hop_histogram[0] == len(result.offsets) == 5


def group_descriptors(n: int, distances: Sequence[int], links: LinkDirection, size: int) -> tuple[tuple[int, ...], ...]:
    """Logical rings of a group of `size` equally spaced servers: each a list of jumps from one member to the next.

    Every multiplier coprime to the size gives a ring order; kept are those of fewest hops, one decomposition each.
    """
    coins = coins_of(n, distances, links)
    hops = hop_table(n, coins)
    step = n // size
    reach = [step * q for q in range(1, size) if np.gcd(q, size) == 1 and hops[step * q] > 0]
    fewest = min((int(hops[g]) for g in reach), default=0)
    return tuple(decompositions(n, coins, g, hops, fewest, 1)[0] for g in reach if hops[g] == fewest)


def test_group_descriptors_of_the_12_server_testbed() -> None:
    """Logical rings of each group size have the recorded hops 1, 2, 3, 2, 2 and the recorded jumps among them."""
    found = {size: group_descriptors(12, (1, 5), BOTH, size) for size in (12, 6, 4, 3, 2)}
    assert [len(found[size][0]) for size in (12, 6, 4, 3, 2)] == [1, 2, 3, 2, 2]
    assert set(found[12]) == {(1,), (5,), (7,), (11,)}
    for size, rings in found.items():
        for jumps in rings:
            assert gcd(sum(jumps) % 12, 12) == 12 // size
