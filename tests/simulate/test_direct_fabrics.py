"""Tori, hypercubes, Kautz graphs and oversubscribed fat-trees against closed forms, networkx and published figures."""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from itertools import product
from math import ceil, log, prod

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.fabric_cases import cluster, clusters
from topoopt.core.errors import InputError
from topoopt.core.topology import torus_steps
from topoopt.simulate.fabrics import FABRICS, FabricOptions, ListedFabric
from topoopt.simulate.fabrics.direct_graphs import even_shape
from topoopt.simulate.network import Network, most_cycles

GBPS = 125_000.0


def build(
    fabric: str, servers: int, degree: int, groups: tuple[tuple[int, ...], ...] = (), **options: object
) -> Network:
    """A fabric at 100 Gbit/s."""
    mine = cluster(servers, degree, one_way=fabric == "generalized-kautz")
    return FABRICS[fabric].build(mine, groups, FabricOptions(**options))  # type: ignore[arg-type]


def hops(network: Network) -> np.ndarray:
    """int[n, n]: links of the path of each pair (one each)."""
    n = network.servers
    table = np.zeros(n * n, dtype=int)
    table[np.diff(network.pair_ptr) == 1] = np.diff(network.path_ptr)
    return table.reshape(n, n)


def parallel(network: Network) -> Counter[tuple[int, int]]:
    """Links of 100 Gbit/s between each ordered pair of nodes."""
    counts = network.link_rate / (100 * GBPS)
    assert np.allclose(counts, np.rint(counts))
    ends = zip(*network.link_ends.T.tolist(), strict=True)
    return Counter(dict(zip(ends, np.rint(counts).astype(int).tolist(), strict=True)))


def ring_use(network: Network, group: int) -> Counter[tuple[int, int]]:
    """How many rings of a group cross each link."""
    first, last = network.group_ptr[group], network.group_ptr[group + 1]
    low, high = network.member_ptr[network.ring_ptr[first]], network.member_ptr[network.ring_ptr[last]]
    ends = network.link_ends[network.member_link[low:high]]
    return Counter(map(tuple, ends.tolist()))


@pytest.mark.parametrize(
    ("servers", "axes", "shape"),
    [(16, 2, (4, 4)), (128, 2, (8, 16)), (128, 3, (4, 4, 8)), (64, 3, (4, 4, 4)), (6, 2, (2, 3)), (432, 3, (6, 8, 9))],
)
def test_the_most_even_shape(servers: int, axes: int, shape: tuple[int, ...]) -> None:
    """Sides as near to each other as the number of servers allows, found by hand."""
    assert even_shape(servers, axes) == shape


@given(servers=st.integers(4, 300), axes=st.integers(2, 3), uneven=st.booleans())
@settings(max_examples=60)
def test_shapes_are_those_of_brute_force(servers: int, axes: int, uneven: bool) -> None:
    """No other shape of these sides has a smaller sum; none is found only where there is none."""
    sides = [side for side in range(2, servers + 1) if servers % side == 0]
    every = [s for s in product(sides, repeat=axes) if prod(s) == servers and not (uneven and len(set(s)) == 1)]
    found = even_shape(servers, axes, uneven=uneven)
    assert (found is None) == (not every)
    if found is not None:
        assert found in every
        assert sum(found) == min(map(sum, every))


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (2, 3), (5, 7), (3, 4, 5), (2, 2, 3)])
def test_torus_distances_are_those_of_its_axes(shape: tuple[int, ...]) -> None:
    """Hops are the sum over the axes of the shorter way round."""
    n = prod(shape)
    network = build(f"torus-{len(shape)}d", n, 2 * len(shape), shape=shape)
    place = np.array(list(np.ndindex(*shape)))
    apart = np.abs(place[:, None] - place[None])
    assert (hops(network) == np.minimum(apart, np.array(shape) - apart).sum(axis=2)).all()
    assert set(Counter(tail for tail, _ in parallel(network).elements()).values()) == {2 * len(shape)}


def test_a_twisted_torus_of_128_servers() -> None:
    """8 x 16 with a twist of 8: diameter 8 and mean 5.354, the least of all circulants of degree 4 (spec, costs)."""
    distance = hops(build("twisted-torus-2d", 128, 4))
    assert distance.max() == 8
    assert distance.sum() / (128 * 127) == pytest.approx(5.354, abs=5e-4)
    assert hops(build("torus-2d", 128, 4)).max() == 12


@pytest.mark.parametrize("side", [2, 3, 4])
def test_a_twist_shortens_the_torus(side: int) -> None:
    """n x 2n, n x n x 2n: the diameter and the mean of the twisted one are no larger (Camara et al. 2010)."""
    for shape in ((side, 2 * side), (side, side, 2 * side)):
        axes = len(shape)
        plain = hops(build(f"torus-{axes}d", prod(shape), 2 * axes, shape=shape))
        twisted = hops(build(f"twisted-torus-{axes}d", prod(shape), 2 * axes, shape=shape))
        assert twisted.max() <= plain.max()
        assert twisted.sum() < plain.sum()


@pytest.mark.parametrize(("dimension", "degree"), [(1, 2), (2, 3), (3, 3), (4, 4), (4, 7), (5, 5)])
def test_hypercube_distances_are_differing_bits(dimension: int, degree: int) -> None:
    """Hops are the Hamming distance; all interfaces are used, the lowest bits twice first."""
    n = 1 << dimension
    network = build("hypercube", n, degree)
    expected = [[(i ^ j).bit_count() for j in range(n)] for i in range(n)]
    assert hops(network).tolist() == expected
    count = parallel(network)
    assert [count[0, 1 << bit] for bit in range(dimension)] == sorted(
        (count[0, 1 << bit] for bit in range(dimension)), reverse=True
    )
    assert sum(count[0, 1 << bit] for bit in range(dimension)) == degree


@pytest.mark.parametrize(
    ("fabric", "servers", "degree", "rings"),
    [
        ("torus-2d", 16, 4, 4), ("torus-2d", 128, 8, 8), ("torus-2d", 15, 4, 4), ("torus-3d", 64, 6, 6),
        ("torus-3d", 128, 8, 8), ("twisted-torus-2d", 128, 4, 4), ("twisted-torus-3d", 128, 6, 6),
        ("hypercube", 16, 4, 4), ("hypercube", 128, 8, 8), ("hypercube", 8, 3, 2), ("hypercube", 32, 5, 4),
    ],
)  # fmt: skip
def test_rings_of_all_servers_share_no_link(fabric: str, servers: int, degree: int, rings: int) -> None:
    """Twice as many rings as cycles, all over direct links, none crossed by more rings than it has parallel links."""
    network = build(fabric, servers, degree, (tuple(range(servers)),))
    use, have = ring_use(network, 0), parallel(network)
    assert len(network.ring_share) == rings
    assert sum(use.values()) == rings * servers
    assert all(use[link] <= have[link] for link in use)
    assert network.ring_round_latency_ms == pytest.approx(0.0021)
    if rings == degree:
        assert use == have


def test_rings_of_the_columns_of_a_torus() -> None:
    """The servers a row apart are joined by a ring of direct links both ways, at half the payload each."""
    groups = tuple(tuple(range(offset, 20, 5)) for offset in range(5))
    network = build("torus-2d", 20, 4, groups, shape=(4, 5))
    assert set(network.ring_share) == {0.5}
    for place, group in enumerate(groups):
        use = ring_use(network, place)
        assert set(use.values()) == {1}
        assert set(use) == {(a, b) for a in group for b in group if (a - b) % 20 in {5, 15}}


def test_prism_over_an_odd_cycle_has_no_two_disjoint_rings() -> None:
    """With doubled rungs the two cycles cannot exist (parity), so one remains, both ways."""
    network = build("torus-2d", 10, 4, (tuple(range(10)),))
    assert network.ring_share.tolist() == [0.5, 0.5]
    assert network.ring_round_latency_ms == pytest.approx(0.0021)


@given(shape=st.lists(st.integers(2, 6), min_size=2, max_size=3), twisted=st.booleans())
@settings(max_examples=30)
def test_cycles_are_hamiltonian_and_share_no_link(shape: list[int], twisted: bool) -> None:
    """Whatever the torus, the cycles found visit all servers and use each link at most as often as it is there."""
    steps = torus_steps(tuple(shape), twisted=twisted)
    here = np.arange(prod(shape))
    have = Counter(frozenset(pair) for step in steps for pair in zip(here.tolist(), step.tolist(), strict=True))
    use: Counter[frozenset[int]] = Counter()
    cycles = most_cycles(np.array([np.column_stack((step, np.argsort(step))) for step in steps]))
    for cycle in cycles:
        assert sorted(cycle) == here.tolist()
        use.update(frozenset(pair) for pair in zip(cycle, cycle[1:] + cycle[:1], strict=True))
    assert all(use[link] <= have[link] for link in use)
    if not any(side == 2 for side in shape):
        assert len(cycles) == len(shape)


@given(mine=clusters("torus-2d"))
@settings(max_examples=40)
def test_spare_interfaces_become_parallel_links(mine) -> None:  # type: ignore[no-untyped-def]
    """Every server uses all its interfaces, but one where their number is odd."""
    network = FABRICS["torus-2d"].build(mine, (), FabricOptions())
    leaving = Counter(tail for tail, _ in parallel(network).elements())
    assert set(leaving.values()) == {mine.degree - mine.degree % 2}


@given(servers=st.integers(3, 60), degree=st.integers(2, 5))
@settings(max_examples=60)
def test_kautz_graph_is_regular_and_short(servers: int, degree: int) -> None:
    """Every server sends and receives d links; the diameter is at most ceil(log_d n), Imase and Itoh's (1981)."""
    network = build("generalized-kautz", servers, degree)
    links = list(parallel(network).elements())
    assert set(Counter(tail for tail, _ in links).values()) == {degree}
    assert set(Counter(head for _, head in links).values()) == {degree}
    graph = nx.DiGraph(links)
    assert (
        hops(network).sum(axis=1)
        == [sum(nx.single_source_shortest_path_length(graph, i).values()) for i in range(servers)]
    ).all()
    if servers % (degree + 1) == 0:  # else arcs of a server to itself are led elsewhere
        assert hops(network).max() <= ceil(log(servers, degree) - 1e-9)


@pytest.mark.parametrize("layer", ["rack", "aggregation"])
@pytest.mark.parametrize("ratio", [1.0, 1.5, 2.0, 3.0, 4.0, 7.0])
def test_oversubscription_meets_any_ratio(layer: str, ratio: float) -> None:
    """k = 8: each switch of the layer sends up 1/r of what it gets from below; the other layer is whole."""
    network = build("oversubscribed-fat-tree", 128, 4, oversubscription=ratio, layer=layer)
    rack, aggregation, core = 128, 128 + 32, 128 + 64
    tail, head, rate = network.link_ends[:, 0], network.link_ends[:, 1], network.link_rate
    assert set(rate[tail < 128]) == {400 * GBPS}
    from_rack = rate[(tail >= rack) & (tail < aggregation) & (head >= aggregation)].sum()
    from_aggregation = rate[(tail >= aggregation) & (tail < core) & (head >= core)].sum()
    whole = 128 * 400 * GBPS
    assert from_rack == pytest.approx(whole / ratio if layer == "rack" else whole)
    assert from_aggregation == pytest.approx(whole / ratio if layer == "aggregation" else whole)
    assert rate.max() == 400 * GBPS


def test_two_to_one_takes_half_of_the_rack_uplinks_away() -> None:
    """At 2:1 half of the links are gone and none is slower (TopoOpt's baseline); at 1:1 it is the full fat-tree."""
    full = build("full-fat-tree", 128, 4)
    half = build("oversubscribed-fat-tree", 128, 4)
    assert full.links - half.links == 2 * 128 // 2
    assert set(half.link_rate) == {400 * GBPS}
    same = build("oversubscribed-fat-tree", 128, 4, oversubscription=1.0)
    assert same.path_link.tobytes() == full.path_link.tobytes()


@pytest.mark.parametrize(
    ("fabric", "servers", "degree", "words"),
    [
        ("torus-2d", 13, 4, "no torus has so many servers"),
        ("torus-2d", 16, 3, "two interfaces for each"),
        ("torus-3d", 16, 4, "two interfaces for each"),
        ("torus-3d", 10, 6, "no torus has so many servers"),
        ("twisted-torus-2d", 9, 4, "not all the same"),
        ("twisted-torus-2d", 4, 4, "not all the same"),
        ("hypercube", 12, 8, "no hypercube has so many servers"),
        ("hypercube", 16, 3, "at least 4"),
        ("generalized-kautz", 3, 1, "no connected graph"),
        ("random-regular", 3, 1, "no connected graph"),
    ],
)
def test_a_cluster_without_this_fabric(fabric: str, servers: int, degree: int, words: str) -> None:
    """What cannot be built is refused with the reason."""
    with pytest.raises(InputError, match=words):
        build(fabric, servers, degree)


def test_one_way_links_are_needed_for_kautz_graphs() -> None:
    """A cluster whose interfaces are patched in pairs has no Kautz graph."""
    with pytest.raises(InputError, match="patched apart"):
        FABRICS["generalized-kautz"].build(cluster(12, 4), (), FabricOptions())


@pytest.mark.parametrize("shape", [(4, 5), (16,), (1, 16), (2, 2, 4)])
def test_a_shape_that_does_not_fit(shape: tuple[int, ...]) -> None:
    """A shape of another number of servers or axes is refused with what is allowed."""
    with pytest.raises(InputError, match="no such torus"):
        build("torus-2d", 16, 4, shape=shape)


def test_options_know_their_layers() -> None:
    """A layer that no fat-tree has is refused."""
    with pytest.raises(InputError, match="rack, aggregation"):
        FabricOptions(layer="core")


@given(servers=st.integers(3, 40), degree=st.integers(2, 7), seed=st.integers(0, 99))
@settings(max_examples=40)
def test_expander_is_made_of_its_rings(servers: int, degree: int, seed: int) -> None:
    """Rings of all servers go over direct links, each link crossed once a ring; odd interfaces make pairs."""
    network = build("expander", servers, degree, (tuple(range(servers)),), seed=seed)
    have, use = parallel(network), ring_use(network, 0)
    assert len(network.ring_share) == 2 * (degree // 2)
    assert sum(use.values()) == 2 * (degree // 2) * servers
    assert all(use[link] <= have[link] for link in use)
    leaving = Counter(tail for tail, _ in have.elements())
    dark = [degree - leaving[server] for server in range(servers)]
    assert sorted(dark) == [0] * (servers - servers * degree % 2) + [1] * (servers * degree % 2)
    assert sum((have - use).values()) == (servers - servers % 2) * (degree % 2)


def test_expander_is_as_short_as_a_random_graph() -> None:
    """128 servers of degree 4: mean hops within 3 % of the random regular graph's (contiguity of the models)."""
    mine, random = (hops(build(name, 128, 4, seed=1)).sum() for name in ("expander", "random-regular"))
    assert mine == pytest.approx(random, rel=0.03)


@pytest.mark.parametrize(("servers", "degree"), [(12, 3), (20, 4), (128, 8)])
def test_tours_of_a_kautz_graph_share_the_load(servers: int, degree: int) -> None:
    """Several rings together load the fullest link at most two thirds as much as one ring would."""
    network = build("generalized-kautz", servers, degree, (tuple(range(servers)),))
    rings = len(network.ring_share)
    use, have = ring_use(network, 0), parallel(network)
    assert rings > 1
    assert max(use[link] / have[link] for link in use) / rings <= 2 / 3 + 1e-9


def test_every_fabric_has_a_line() -> None:
    """A `ListedFabric` of any module of the folder stands in the table, once."""
    folder = importlib.import_module("topoopt.simulate.fabrics")
    modules = [folder] + [
        importlib.import_module(f"{folder.__name__}.{found.name}") for found in pkgutil.iter_modules(folder.__path__)
    ]
    made = {
        id(value): value for module in modules for value in vars(module).values() if isinstance(value, ListedFabric)
    }
    assert set(made) == {id(fabric) for fabric in FABRICS.values()}
    assert len(made) == len(FABRICS)
