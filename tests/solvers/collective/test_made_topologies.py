"""Topologies made for collectives: steps and bandwidth factors of papers, formulas of expansions, searched digraphs."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import networkx as nx
import numpy as np
import pytest

from solvers.collective.breadth_first import search_cayley, step_loads
from solvers.collective.limits import all_to_all_rate, ratio_cut
from solvers.collective.plans import shortest_path_rate
from solvers.stop import Stop
from tests.support import collective_networks as nets
from topoopt.core.cluster import LinkDirection
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.topology import SemidirectGroup
from topoopt.files.topology_families import DISTANCE_REGULAR, family_arcs

F = Fraction
PAIRS, SINGLE = LinkDirection.BIDIRECTIONAL, LinkDirection.UNIDIRECTIONAL


def network(family: str, **sizes: Any) -> RatedNetwork:
    """A family with links of rate 1."""
    made = family_arcs(family, sizes, seed=0, max_servers=4096)
    return nets.network(made.servers, [(tail, head, 1) for tail, head in made.arcs.tolist()])


def figures(one: RatedNetwork, degree: int, *, alike: bool = False) -> tuple[int, Fraction]:
    """Steps and bandwidth factor of breadth-first broadcasts."""
    loads, _ = step_loads(one, alike=alike)
    return len(loads), F(degree, one.nodes) * sum(loads)


RING3 = {"family": "ring", "servers": 3}
KAUTZ = {"family": "generalized-kautz", "servers": 6, "degree": 2}
CIRCULANT = {"family": "circulant", "servers": 16, "offsets": [3, 4]}

# Recipe, degree, steps and bandwidth factor: the published front of 1024 servers and others, in exact rationals.
PUBLISHED: list[tuple[dict[str, Any], int, int, Fraction]] = [
    ({"family": "generalized-kautz", "servers": 1024, "degree": 4}, 4, 5, F(341, 256)),
    ({"family": "line-graph", "of": CIRCULANT, "times": 3}, 4, 6, F(261, 256)),
    ({"family": "line-graph", "of": CIRCULANT}, 4, 4, F(1)),
    ({"family": "line-graph", "of": {"family": "complete", "servers": 5}}, 4, 2, F(1)),
    ({"family": "product", "factors": [KAUTZ, KAUTZ]}, 4, 4, F(35, 36)),
    (
        {"family": "circulant", "servers": 9, "offsets": [1, 3, 4], "links": "unidirectional"}, 3, 2, F(8, 9),
    ),
    ({"family": "circulant", "servers": 8, "offsets": [1, 3], "links": "unidirectional"}, 2, 3, F(7, 8)),
    ({"family": "cayley", "modulus": 8, "order": 4, "twist": 7, "generators": [22, 10, 31, 1]}, 4, 3, F(31, 32)),
    ({"family": "cayley", "modulus": 8, "order": 8, "twist": 3, "generators": [8, 49, 60, 23]}, 4, 4, F(63, 64)),
    (
        {"family": "cayley", "modulus": 64, "order": 16, "twist": 27, "generators": [7, 790, 555, 759]},
        4, 7, F(1023, 1024),
    ),
    (
        {"family": "cayley", "modulus": 16, "order": 4, "twist": 11, "generators": [39, 53, 62, 38],
         "links": "bidirectional"}, 4, 5, F(63, 64),
    ),
    (
        {"family": "cayley", "modulus": 64, "order": 16, "twist": 59, "generators": [860, 436, 705, 975],
         "links": "bidirectional"}, 4, 8, F(1023, 1024),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("recipe", "degree", "steps", "factor"), PUBLISHED, ids=lambda value: str(value)[:48])
def test_published_topologies(recipe: dict[str, Any], degree: int, steps: int, factor: Fraction) -> None:
    """Steps and factors of arXiv 2202.03356, and of Cayley digraphs found by others' searches."""
    assert figures(network(**recipe), degree, alike=recipe["family"] == "cayley") == (steps, factor)


@pytest.mark.parametrize("name", DISTANCE_REGULAR)
def test_distance_regular_graphs_balance(name: str) -> None:
    """They are what they are called, and reach the bound (N-1)/N in as many steps as their diameter."""
    servers, degree, make = DISTANCE_REGULAR[name]
    graph = make()
    assert nx.is_distance_regular(graph)
    one = network("distance-regular", graph=name)
    assert one.nodes == servers == graph.number_of_nodes()
    assert set(dict(graph.degree()).values()) == {degree}
    if one.nodes <= 64:
        assert figures(one, degree) == (nx.diameter(graph), F(one.nodes - 1, one.nodes))


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("part", [RING3, CIRCULANT, {"family": "distance-regular", "graph": "petersen"}], ids=str)
def test_line_graphs_by_the_formula(part: dict[str, Any], times: int) -> None:
    """One step more each time, and (1/N) d/(d-1) (1 - d^-k) more of the factor."""
    small = network(**part)
    degree = int(np.bincount(small.arcs[:, 0]).max())
    steps, factor = figures(small, degree)
    found = figures(network("line-graph", of=part, times=times), degree)
    more = F(1, small.nodes) * F(degree, degree - 1) * (1 - F(1, degree**times))
    assert found == (steps + times, factor + more)


@pytest.mark.parametrize("copies", [2, 3])
@pytest.mark.parametrize("part", [RING3, {"family": "complete", "servers": 4}, KAUTZ], ids=str)
def test_degree_expansions_by_the_formula(part: dict[str, Any], copies: int) -> None:
    """At most one step more; the factor grows by (m-1)/(mN) at most, as the schedule of the paper has just that."""
    small = network(**part)
    degree = int(np.bincount(small.arcs[:, 0]).max())
    steps, factor = figures(small, degree)
    found = figures(network("degree-expansion", of=part, copies=copies), degree * copies)
    assert steps <= found[0] <= steps + 1
    assert found[1] <= factor + F(copies - 1, copies * small.nodes)
    assert found[1] >= 1 - F(1, copies * small.nodes)


@pytest.mark.parametrize("power", [2, 3])
def test_products_by_the_formula(power: int) -> None:
    """Steps add up; of best factors the product is best too, of others no worse than T_B N/(N-1) (N^n - 1)/N^n."""
    for part, degree in ((RING3, 2), (CIRCULANT, 4), (KAUTZ, 2)):
        small = network(**part)
        if small.nodes**power > 300:
            continue
        steps, factor = figures(small, degree)
        whole = network("product", factors=[part] * power)
        n, count = small.nodes, whole.nodes
        found = figures(whole, degree * power)
        assert found[0] == steps * power
        assert F(count - 1, count) <= found[1] <= factor * F(n, n - 1) * F(count - 1, count)
        if factor == F(n - 1, n):
            assert found[1] == F(count - 1, count)


@pytest.mark.parametrize("n", [12, 16])
def test_joined_loops_lift_the_best_rate(n: int) -> None:
    """Servers that lose a link hold the ratio at (N-1)/(d-1), a ring of them lifts it to (N-1)/d; not of BFB."""
    dropped, joined = (
        network("generalized-kautz", servers=n, degree=4, loops=loops) for loops in ("dropped", "joined")
    )
    assert ratio_cut(dropped)[0] == F(n - 1, 3)
    assert ratio_cut(joined)[0] == F(n - 1, 4)
    assert figures(dropped, 4)[1] == F({12: F(5, 3), 16: F(5, 4)}[n])
    assert figures(joined, 4)[1] > F(n - 1, n)


@pytest.mark.parametrize("n", [*range(7, 40), 64, 100, 119, 256])
def test_two_offsets_are_optimal(n: int) -> None:
    """Circulants {m, m+1}, m = ceil((sqrt(2n-1)-1)/2): diameter m and the least factor."""
    m = math.ceil((math.sqrt(2 * n - 1) - 1) / 2)
    assert figures(nets.circulant(n, [m, m + 1]), 4, alike=True) == (m, F(n - 1, n))


# Links, and what half a minute of random search was known to reach: steps at (N-1)/N.
@pytest.mark.parametrize(
    ("n", "links", "steps"), [(32, SINGLE, 3), (64, SINGLE, 4), (1024, SINGLE, 7), (64, PAIRS, 5), (1024, PAIRS, 8)]
)
def test_searches_reach_what_is_known(n: int, links: LinkDirection, steps: int) -> None:
    """Degree 4: the steps of others' searches at the least factor; what is found is what a new computation gives."""
    found = search_cayley(n, 4, links, Stop(), visits=20_000_000, most_steps=12, seed=1)
    best = min((one for one in found if one.bandwidth == F(n - 1, n)), key=lambda one: one.steps)
    assert best.steps <= steps
    arcs = best.group.arcs(best.generators).tolist()
    made = nets.network(n, [(tail, head, 1) for tail, head in arcs])
    assert figures(made, 4, alike=True) == (best.steps, best.bandwidth)
    if links is PAIRS:
        assert sorted(map(tuple, arcs)) == sorted((head, tail) for tail, head in arcs)


def test_searches_repeat() -> None:
    """The same seed finds the same, another another."""
    one, again, other = (
        search_cayley(60, 3, SINGLE, Stop(), visits=300_000, most_steps=8, seed=seed) for seed in (5, 5, 6)
    )
    assert one == again != other


@pytest.mark.parametrize(("n", "d", "links"), [(2, 1, PAIRS), (3, 2, PAIRS), (5, 4, SINGLE), (7, 6, PAIRS)])
def test_tiny_searches(n: int, d: int, links: LinkDirection) -> None:
    """All others are neighbours: one step."""
    found = search_cayley(n, d, links, Stop(), visits=10_000, most_steps=3, seed=0)
    assert [(one.steps, one.bandwidth) for one in found] == [(1, F(n - 1, n))]


@pytest.mark.parametrize(
    ("one", "rate"),
    [
        (nets.circulant(8, [1]), 1 / 8),
        (nets.circulant(8, [1], one_way=True), 1 / 28),
        (nets.torus(4, 4), 1 / 8),
        (nets.torus(3, 5), 1 / 9),
        (nets.hypercube(3), 1 / 4),
        (nets.bipartite(4), 2 / 5),
        (nets.petersen(), 1 / 5),
        (nets.circulant(16, [3, 4]), 1 / 8),
    ],
)
def test_shortest_paths_reach_the_best_rate(one: RatedNetwork, rate: float) -> None:
    """Where splits can even out all links the rate is that of linear programs over all paths."""
    assert shortest_path_rate(one, step_loads(one)[1]) == pytest.approx(rate, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_shortest_paths_never_better_than_any_paths(seed: int) -> None:
    """On random networks of unequal rates."""
    draw = np.random.default_rng(seed)
    links = [(i, (i + 1) % 9, int(draw.integers(1, 4))) for i in range(9)]
    links += [(*draw.choice(9, 2, replace=False).tolist(), int(draw.integers(1, 4))) for _ in range(15)]
    one = nets.network(9, links)
    assert shortest_path_rate(one, step_loads(one)[1]) <= all_to_all_rate(one, Stop()).units * (1 + 1e-9)


def test_one_source_tells_of_all() -> None:
    """With the generators of a Cayley digraph the first server suffices: the same rate as from all of them."""
    group, generators = SemidirectGroup(8, 8, 3), [8, 49, 60, 23]
    arcs = group.arcs(generators)
    one = nets.network(64, [(tail, head, 1) for tail, head in arcs.tolist()])
    order = np.lexsort((arcs[:, 1], arcs[:, 0]))
    labels = np.repeat(np.arange(4), 64)[order].astype(np.int64)
    distance = step_loads(one)[1]
    assert shortest_path_rate(one, distance, labels) == pytest.approx(shortest_path_rate(one, distance), rel=1e-9)
