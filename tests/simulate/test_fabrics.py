"""The fabrics: sizes, rates, paths and rings against counting arguments, closed forms and networkx."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.fabric_cases import clusters
from topoopt.core.clos import fat_tree_arity, k_ary_tree
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.topology import Topology
from topoopt.core.workload import GroupRings, PathTable, Ring
from topoopt.costs import cost_equivalent_fat_tree_gbps
from topoopt.simulate.fabrics import FABRICS, FabricOptions, direct_connect_network
from topoopt.simulate.fabrics.direct_graphs import random_regular_links
from topoopt.simulate.network import Network
from topoopt.verify.checker import Violation
from topoopt.verify.laws.networks import check_network

GBPS = 125_000.0


def cluster(servers: int, degree: int = 4, link_gbps: float = 100.0) -> Cluster:
    """A cluster with defaults."""
    return Cluster(servers=servers, gpus_per_server=4, degree=degree, link_gbps=link_gbps)


def pair_path(network: Network, source: int, target: int) -> list[int]:
    """Nodes of the only path of a pair."""
    pair = source * network.servers + target
    assert network.pair_ptr[pair + 1] - network.pair_ptr[pair] == 1
    path = network.pair_ptr[pair]
    ends = network.link_ends[network.path_link[network.path_ptr[path] : network.path_ptr[path + 1]]]
    assert all(a[1] == b[0] for a, b in pairwise(ends))
    return [int(ends[0, 0]), *(int(v) for v in ends[:, 1])]


def violations(
    fabric: str, mine: Cluster, groups: tuple[tuple[int, ...], ...], options: FabricOptions
) -> tuple[Violation, ...]:
    """What the independent checker says about a fabric."""
    line = FABRICS[fabric]
    return check_network(
        line.build(mine, groups, options),
        servers=mine.servers,
        groups=groups,
        server_bytes_per_ms=line.server_gbps(mine, options) * GBPS,
        interface_bytes_per_ms=mine.link_gbps * GBPS if line.kind == "direct" else None,
        symmetric=fabric != "generalized-kautz",
    )


def all_paths(network: Network) -> dict[tuple[int, int], list[int]]:
    """Node paths of all pairs."""
    n = network.servers
    return {(i, j): pair_path(network, i, j) for i in range(n) for j in range(n) if i != j}


def ring_senders(network: Network, ring: int) -> list[int]:
    """First nodes of the member paths of a ring."""
    members = range(network.ring_ptr[ring], network.ring_ptr[ring + 1])
    return [int(network.link_ends[network.member_link[network.member_ptr[m]], 0]) for m in members]


@pytest.mark.parametrize("fabric", FABRICS)
@given(data=st.data(), seed=st.integers(0, 99))
@settings(max_examples=15)
def test_every_fabric_joins_every_pair_and_rings_every_group(fabric: str, data: st.DataObject, seed: int) -> None:
    """Each pair has one loop-free path of existing links, each group rings over all its members; the checker agrees."""
    mine = data.draw(clusters(fabric))
    n = mine.servers
    groups = (tuple(range(n)), *(((0, 2),) if n > 2 else ()))
    options = FabricOptions(seed=seed)
    network = FABRICS[fabric].build(mine, groups, options)
    for (source, target), path in all_paths(network).items():
        assert (path[0], path[-1]) == (source, target)
        assert len(set(path)) == len(path)
    assert network.groups == groups
    listed = fabric in {"ideal-switch", "fat-tree", "full-fat-tree", "oversubscribed-fat-tree"}
    for place, group in enumerate(groups):
        rings = range(network.group_ptr[place], network.group_ptr[place + 1])
        assert network.ring_share[rings.start : rings.stop].sum() == pytest.approx(1.0)
        for ring in rings:
            order = ring_senders(network, ring)
            assert order == list(group) if listed else sorted(order) == sorted(group)
    assert (network.link_rate > 0).all()
    assert FABRICS[fabric].describe(mine, options)
    assert violations(fabric, mine, groups, options) == ()


def test_same_seed_same_network() -> None:
    """The same seed gives the same bytes, another seed other paths on fabrics that draw."""
    for name in ("fat-tree", "random-regular"):
        one, two, other = (FABRICS[name].build(cluster(16), (), FabricOptions(seed=s)) for s in (5, 5, 6))
        assert one.path_link.tobytes() == two.path_link.tobytes()
        assert one.path_link.tobytes() != other.path_link.tobytes()


def test_ideal_switch_gives_each_server_all_its_interfaces() -> None:
    """One link up and one down per server, of d B; two hops for every pair; 4.8 to 5.1 us a ring round."""
    network = FABRICS["ideal-switch"].build(cluster(16, 4, 100.0), (tuple(range(16)),), FabricOptions())
    assert network.links == 32
    assert set(network.link_rate) == {400 * GBPS}
    assert {tuple(path[1:-1]) for path in all_paths(network).values()} == {(16,)}
    assert 0.0048 <= network.ring_round_latency_ms <= 0.0051
    slower = FABRICS["ideal-switch"].build(cluster(16), (), FabricOptions(nic_gbps=25.0))
    assert set(slower.link_rate) == {25 * GBPS}


@pytest.mark.parametrize(("servers", "arity"), [(1, 2), (2, 2), (3, 4), (16, 4), (17, 6), (54, 6), (128, 8), (432, 12)])
def test_fat_tree_arity(servers: int, arity: int) -> None:
    """A k-ary fat-tree has k^3/4 hosts: 8 for 128 servers and 12 for 432."""
    assert fat_tree_arity(servers) == arity


def test_fat_tree_is_the_textbook_one() -> None:
    """k = 4: 16 hosts, 8 + 8 + 4 switches, 48 cables; 2, 4 or 6 hops by rack and pod; 16.0 us a ring round."""
    network = FABRICS["fat-tree"].build(cluster(16), (), FabricOptions(fat_tree_gbps=50.0))
    cables = {frozenset(map(int, ends)) for ends in network.link_ends}
    assert (network.links, len(cables)) == (96, 48)
    assert network.link_ends.max() == 16 + 8 + 8 + 4 - 1
    degree = np.bincount([v for cable in cables for v in cable])
    assert degree.tolist() == [1] * 16 + [4] * 20
    for (i, j), path in all_paths(network).items():
        assert len(path) - 1 == (2 if i // 2 == j // 2 else 4 if i // 4 == j // 4 else 6)
    assert set(network.link_rate) == {50 * GBPS}
    assert network.ring_round_latency_ms == pytest.approx(0.016)


@pytest.mark.parametrize(("ratio", "links"), [(1.0, 4), (1.5, 3), (2.0, 2), (3.0, 2), (4.0, 1), (5.0, 1), (4 / 3, 3)])
def test_simulated_uplinks_are_those_of_the_bill(ratio: float, links: int) -> None:
    """k = 8: a rack of 4 servers has ceil(4 / ratio) links up, simulated as well as counted."""
    options = FabricOptions(oversubscription=ratio)
    network = FABRICS["oversubscribed-fat-tree"].build(cluster(128), (), options)
    up = [head for tail, head in network.link_ends.tolist() if tail == 128 and head >= 128]
    assert len(up) == k_ary_tree(128, ratio).tiers[0].up == links


def test_fat_tree_spreads_pairs_over_its_cores() -> None:
    """ECMP at 54 servers: each of the 9 cores carries about a ninth of the pairs of different pods."""
    network = FABRICS["fat-tree"].build(cluster(54), (), FabricOptions(seed=1))
    first_core = 54 + 18 + 18
    cores = [path[3] for path in all_paths(network).values() if len(path) == 7]
    share = np.bincount(np.array(cores) - first_core, minlength=9) / len(cores)
    assert len(cores) == 54 * 45
    assert share.min() > 0.08
    assert share.max() < 0.15


@pytest.mark.parametrize("servers", [16, 54])
def test_spread_paths_keep_shifts_apart(servers: int) -> None:
    """In a whole k-ary fat-tree no two flows of a shift by any number share a link (D-mod-k; Zahavi 2012)."""
    network = FABRICS["full-fat-tree"].build(cluster(servers), (), FabricOptions(ecmp="spread"))
    for shift in range(1, servers):
        used: list[tuple[int, int]] = []
        for server in range(servers):
            used += pairwise(pair_path(network, server, (server + shift) % servers))
        assert len(set(used)) == len(used)


@pytest.mark.parametrize(("layer", "racks", "cores"), [("rack", 2, 3), ("aggregation", 3, 2)])
def test_sprayed_paths_are_all_there_are_in_equal_parts(layer: str, racks: int, cores: int) -> None:
    """Racks of 3 servers, pods of 3 racks: one path in a rack, one an uplink in a pod, one a core beyond; rings too."""
    n, groups = 54, (tuple(range(54)), (0, 1), (0, 3, 6))
    options = FabricOptions(ecmp="sprayed", oversubscription=1.5, layer=layer)
    network = FABRICS["oversubscribed-fat-tree"].build(cluster(n), groups, options)
    for target, count in ((1, 1), (3, racks), (9, racks * cores)):
        paths = range(network.pair_ptr[target], network.pair_ptr[target + 1])
        shares = network.path_share[paths.start : paths.stop]
        links = {tuple(network.path_link[network.path_ptr[p] : network.path_ptr[p + 1]]) for p in paths}
        assert len(links) == count
        assert shares == pytest.approx(np.full(count, 1 / count))
    assert np.diff(network.group_ptr).tolist() == [racks * cores, 1, racks]
    assert network.ring_share[: racks * cores] == pytest.approx(np.full(racks * cores, 1 / (racks * cores)))
    carried = np.zeros(network.links)
    for ring in range(racks * cores):
        members = slice(network.member_ptr[network.ring_ptr[ring]], network.member_ptr[network.ring_ptr[ring + 1]])
        np.add.at(carried, network.member_link[members], network.ring_share[ring])
    between = (network.link_ends >= n).all(axis=1) & (carried > 0)
    assert set(np.round(carried[between] * racks * cores).astype(int).tolist()) == {1, cores}
    assert violations("oversubscribed-fat-tree", cluster(n), groups, options) == ()


def test_oversubscription_slows_the_rack_uplinks_only() -> None:
    """At 3:1 the links between racks and aggregation have a third of the rate; NICs and cores are untouched."""
    network = FABRICS["fat-tree"].build(cluster(16), (), FabricOptions(fat_tree_gbps=60.0, oversubscription=3.0))
    for (tail, head), rate in zip(network.link_ends.tolist(), network.link_rate, strict=True):
        low, high = min(tail, head), max(tail, head)
        at_rack = 16 <= low < 24 <= high < 32
        assert rate == pytest.approx((20 if at_rack else 60) * GBPS)


def test_fat_tree_takes_the_cost_equivalent_rate_by_default() -> None:
    """Without a rate, the NIC is what the budget of the direct-connect network buys."""
    network = FABRICS["fat-tree"].build(cluster(16, 4, 100.0), (), FabricOptions())
    assert network.link_rate.max() == pytest.approx(cost_equivalent_fat_tree_gbps(4, 100.0) * GBPS)


@given(servers=st.integers(2, 20), degree=st.integers(2, 25), seed=st.integers(0, 99))
@settings(max_examples=60)
def test_random_graph_is_regular_and_connected(servers: int, degree: int, seed: int) -> None:
    """All interfaces are used but one if their number is odd; parallel links are as even as can be."""
    links = random_regular_links(servers, degree, seed)
    assert (links == links.T).all()
    assert not links.diagonal().any()
    dark = degree - links.sum(axis=1)
    assert sorted(dark.tolist()) == [0] * (servers - servers * degree % 2) + [1] * (servers * degree % 2)
    apart = links[~np.eye(servers, dtype=bool)]
    assert apart.min() >= degree // (servers - 1)
    assert apart.max() <= degree // (servers - 1) + 1
    assert nx.is_connected(nx.from_numpy_array(links > 0))


@pytest.mark.parametrize(("servers", "degree", "seed"), [(17, 15, 65), (9, 7, 3), (5, 3, 1), (15, 13, 40)])
def test_dense_random_graphs_leave_one_interface_dark(servers: int, degree: int, seed: int) -> None:
    """Where few pairs are left to join, drawing goes on until just one server has an interface dark."""
    assert servers * degree - random_regular_links(servers, degree, seed).sum() == 1


@given(seed=st.integers(0, 99))
@settings(max_examples=15)
def test_random_regular_paths_are_shortest_and_balanced(seed: int) -> None:
    """Every path has the hops networkx finds; the busiest link is near that of an even split over all shortest paths.

    The latter is the edge betweenness; with one path a pair, loads are whole numbers and may be a little higher.
    """
    network = FABRICS["random-regular"].build(cluster(20, 4), (), FabricOptions(seed=seed))
    graph = nx.Graph(network.link_ends.tolist())
    shortest = dict(nx.all_pairs_shortest_path_length(graph))
    for (i, j), path in all_paths(network).items():
        assert len(path) - 1 == shortest[i][j]
    even_split = max(nx.edge_betweenness_centrality(graph, normalized=False).values())
    assert np.bincount(network.path_link).max() <= 1.35 * even_split


def test_random_regular_parallel_links_add_up() -> None:
    """Four servers with eight interfaces at 10 Gbit/s: 80 Gbit/s leave each, over a complete graph."""
    network = FABRICS["random-regular"].build(cluster(4, 8, 10.0), (), FabricOptions())
    assert network.links == 12
    sent = np.bincount(network.link_ends[:, 0], weights=network.link_rate)
    assert sent.tolist() == [80 * GBPS] * 4


def test_random_regular_round_costs_its_hops() -> None:
    """On a complete graph a ring round costs that of a direct link; on a cycle the tour keeps to it."""
    whole = tuple(range(6))
    assert FABRICS["random-regular"].build(
        cluster(6, 5), (whole,), FabricOptions()
    ).ring_round_latency_ms == pytest.approx(0.0021)
    # With two interfaces the graph is one cycle, and the tour follows it.
    cycle = FABRICS["random-regular"].build(cluster(6, 2), (whole,), FabricOptions(seed=3))
    assert cycle.ring_round_latency_ms == pytest.approx(0.0021)
    # Opposite servers of that cycle are three links apart, there and back.
    order = ring_senders(cycle, 0)
    ends = (order[0], order[3])
    apart = FABRICS["random-regular"].build(cluster(6, 2), (ends,), FabricOptions(seed=3))
    assert apart.ring_round_latency_ms == pytest.approx(3 * 0.0021)


def test_one_interface_cannot_join_three_servers() -> None:
    """Degree 1 is refused for three servers: no connected graph exists."""
    with pytest.raises(InputError, match="no connected graph"):
        random_regular_links(3, 1, 0)


def test_options_refuse_nonsense_all_at_once() -> None:
    """Both a negative rate and an oversubscription under 1 are reported."""
    with pytest.raises(InputError) as caught:
        FabricOptions(fat_tree_gbps=-1.0, oversubscription=0.5)
    assert [problem.path for problem in caught.value.problems] == ["fat_tree_gbps", "oversubscription"]
    with pytest.raises(InputError):
        FabricOptions(nic_gbps=float("nan"))


def small_topology() -> Topology:
    """Three servers in a line, two parallel links between the first two."""
    return Topology(
        servers=3,
        degree=3,
        links=LinkDirection.BIDIRECTIONAL,
        arcs=np.array([[0, 1], [1, 0], [1, 2], [2, 1]], dtype=np.int32),
        multiplicity=np.array([2, 2, 1, 1], dtype=np.int32),
        switches=np.array([[1, 0, -1], [1, 0, -1], [-1, 2, 1]], dtype=np.int32),
    )


def one_route(path: tuple[int, ...]) -> PathTable:
    """A table of one pair with one path."""
    return PathTable(
        nodes_total=3,
        source=np.array(path[:1], dtype=np.int32),
        target=np.array(path[-1:], dtype=np.int32),
        pair_ptr=np.array([0, 1]),
        share=np.ones(1),
        path_ptr=np.array([0, len(path)]),
        node=np.array(path, dtype=np.int32),
    )


def test_direct_connect_merges_parallel_links() -> None:
    """Two parallel links of 100 Gbit/s are one of 200; latencies are the cluster's."""
    ring = GroupRings((0, 1), (Ring((0, 1), 1.0, ((0, 1), (1, 0))),))
    network = direct_connect_network(cluster(3, 3), small_topology(), one_route((0, 1, 2)), [ring])
    assert network.link_rate.tolist() == [200 * GBPS, 200 * GBPS, 100 * GBPS, 100 * GBPS]
    assert pair_path(network, 0, 2) == [0, 1, 2]
    assert (network.hop_latency_ms, network.ring_round_latency_ms) == pytest.approx((0.001, 0.0021))


def test_direct_connect_refuses_a_route_over_a_missing_link() -> None:
    """A path between servers that are not joined is refused."""
    with pytest.raises(ValueError, match="does not exist"):
        direct_connect_network(cluster(3, 3), small_topology(), one_route((0, 2)), [])


@settings(max_examples=20)
@given(servers=st.integers(3, 14), degree=st.integers(2, 4), seed=st.integers(0, 99))
def test_rings_of_the_random_graph_are_tours(servers: int, degree: int, seed: int) -> None:
    """The tour visits every member once and crosses between n links and n diameters."""
    from topoopt.simulate.fabrics.direct_graphs import short_tour

    network = FABRICS["random-regular"].build(cluster(servers, degree), (), FabricOptions(seed=seed))
    hops = np.zeros((servers, servers), dtype=np.int64)
    for (source, target), path in all_paths(network).items():
        hops[source, target] = len(path) - 1
    group = tuple(range(servers))
    tour = short_tour(group, hops)
    assert sorted(tour) == list(group)

    def length(order: tuple[int, ...]) -> int:
        return sum(int(hops[a, b]) for a, b in zip(order, order[1:] + order[:1], strict=True))

    diameter = int(hops.max())
    assert servers <= length(tour) <= servers * diameter


def test_full_fat_tree_has_the_bandwidth_of_all_interfaces() -> None:
    """Its NICs are as fast as those of the ideal switch, whatever rate or oversubscription the other fat-tree has."""
    options = FabricOptions(fat_tree_gbps=7.0, oversubscription=4.0)
    network = FABRICS["full-fat-tree"].build(cluster(16, 4, 25.0), (), options)
    ideal = FABRICS["ideal-switch"].build(cluster(16, 4, 25.0), (), options)
    assert set(network.link_rate) == set(ideal.link_rate)


def test_switches_of_a_radix() -> None:
    """Racks of 4 servers of 8-port switches; switches of 2 ports cannot hold 16 servers; large ones are one rack."""
    full = FABRICS["full-fat-tree"]
    for radix, hops in (
        (8, {(0, 3): 2, (0, 4): 4, (0, 15): 4}),
        (4, {(0, 1): 2, (0, 3): 4, (0, 15): 6}),
        (64, {(0, 15): 2}),
    ):
        network = full.build(cluster(16), (), FabricOptions(radix=radix))
        paths = all_paths(network)
        assert {pair: len(paths[pair]) - 1 for pair in hops} == hops
    with pytest.raises(InputError, match="hold 2 of 16 servers"):
        full.build(cluster(16), (), FabricOptions(radix=2))
