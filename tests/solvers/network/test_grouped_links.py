"""Random graphs of groups with links across, and the Hamiltonian cycles inside them."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from solvers.job.candidate_topologies import busiest_size, grouped_ms, grouped_topologies, links_across
from solvers.network.rings import group_rings
from solvers.network.seeds import fits, grouped_links, rounds_of_groups, shared_out, single_cycle
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.workload import AllReduceDemand, Demand, GroupRings

BOTH, ONE_WAY = LinkDirection.BIDIRECTIONAL, LinkDirection.UNIDIRECTIONAL
CASES = [
    (16, 8, 4),
    (16, 8, 5),
    (16, 4, 4),
    (18, 6, 4),
    (30, 10, 4),
    (64, 8, 4),
    (24, 8, 4),
    (30, 15, 4),
    (64, 32, 4),
    (32, 16, 8),
]


def two_stages(n: int, size: int, *, reduced: float = 1e9, crossing: float = 1e7) -> Demand:
    """Groups i mod g that reduce as much each; server i sends to the next one, of the next group, and back."""
    groups = n // size
    traffic = np.zeros((n, n))
    for i in range(n):
        j = i + 1 if i % groups + 1 < groups else i + 1 - groups
        traffic[i, j] += crossing
        traffic[j, i] += crossing
    return Demand(traffic, tuple(AllReduceDemand(tuple(range(g, n, groups)), reduced) for g in range(groups)))


def load_of(rings: GroupRings) -> Counter[tuple[int, int]]:
    """Share of an AllReduce on each arc, of rings without relays, which visit all members."""
    load: Counter[tuple[int, int]] = Counter()
    for ring in rings.rings:
        assert sorted(ring.order) == sorted(rings.members)
        for path in ring.paths:
            assert len(path) == 2
            load[path[0], path[1]] += ring.share
    return load


@pytest.mark.parametrize(("n", "size", "degree"), CASES)
def test_links_inside_carry_allreduces_alike(n: int, size: int, degree: int) -> None:
    """Degrees as asked for, connected; rings of each group are links, and fill all inside it with the same share."""
    cluster, demand = Cluster(n, 1, degree, 100.0, BOTH), two_stages(n, size)
    filled = 0
    for topology in grouped_topologies(cluster, demand, count=2, seed=3):
        graph = nx.DiGraph(topology.arcs.tolist())
        assert nx.is_strongly_connected(graph)
        sent = np.bincount(topology.arcs[:, 0], topology.multiplicity, minlength=n)
        assert (sent == degree).all()
        groups = n // size
        inside = topology.arcs[:, 0] % groups == topology.arcs[:, 1] % groups
        own = np.bincount(topology.arcs[inside, 0], topology.multiplicity[inside], minlength=n)
        assert own.min() == own.max() >= 2
        lit = Counter((i, j) for row in topology.switches.tolist() for i, j in enumerate(row) if j >= 0)
        assert lit == Counter(
            dict(zip(map(tuple, topology.arcs.tolist()), topology.multiplicity.tolist(), strict=True))
        )
        for row in topology.switches:
            assert len(set(row[row >= 0].tolist())) == (row >= 0).sum()
        for rings in group_rings(topology, [each.members for each in demand.allreduce], degree):
            if any(len(path) > 2 for ring in rings.rings for path in ring.paths):
                continue  # no cycles were found: as on any other topology
            filled += 1
            load = load_of(rings)
            for (i, j), share in load.items():
                times = topology.multiplicity[(topology.arcs == (i, j)).all(axis=1)].item()
                assert share == pytest.approx(times / own[0])
            assert sum(load.values()) == pytest.approx(size)
    assert filled


def test_no_such_topologies() -> None:
    """Of single links, without groups or transfers, of too few links."""
    demand = two_stages(16, 8)
    for cluster, wanted in [
        (Cluster(16, 1, 4, 100.0, ONE_WAY), demand),
        (Cluster(16, 1, 4, 100.0, BOTH), Demand(demand.model_parallel_bytes, ())),
        (Cluster(16, 1, 4, 100.0, BOTH), Demand(np.zeros((16, 16)), demand.allreduce)),
        (Cluster(16, 1, 2, 100.0, BOTH), demand),
        (Cluster(16, 1, 4, 100.0, BOTH), two_stages(16, 2)),
    ]:
        assert not list(grouped_topologies(cluster, wanted, count=1, seed=0))


def test_transfers_have_the_first_links_across() -> None:
    """Of two groups whose servers 2 i and 2 i + 1 send to each other, all are joined."""
    demand = two_stages(32, 16)
    for topology in grouped_topologies(Cluster(32, 1, 4, 100.0, BOTH), demand, count=1, seed=0):
        arcs = set(map(tuple, topology.arcs.tolist()))
        assert all((i, i + 1) in arcs for i in range(0, 32, 2))


def test_which_groups_and_how_many_links() -> None:
    """Those that reduce most; more across where more goes across."""
    demand = two_stages(16, 8)
    more = Demand(demand.model_parallel_bytes, (*demand.allreduce, AllReduceDemand(tuple(range(0, 16, 4)), 9e9)))
    assert busiest_size(demand) == 8
    assert busiest_size(more) == 4
    assert busiest_size(Demand(demand.model_parallel_bytes, (AllReduceDemand(tuple(range(16)), 1e9),))) is None
    assert next(iter(links_across(demand, 8, 8))) == 1
    assert next(iter(links_across(two_stages(16, 8, crossing=5e9), 8, 8))) > 1
    assert list(links_across(two_stages(18, 9), 9, 5)) == [1, 3]  # an even number of links inside groups of nine


def test_the_estimate_is_of_the_busiest_links() -> None:
    """One link of 100 Gbit/s across for 1 GB a server and way: 80 ms at least."""
    demand = two_stages(16, 8, reduced=1.0, crossing=1e9)
    cluster = Cluster(16, 1, 3, 100.0, BOTH)
    assert grouped_ms(cluster, demand) >= 80.0
    assert grouped_ms(Cluster(16, 1, 3, 100.0, ONE_WAY), demand) == np.inf


@pytest.mark.parametrize(("size", "inside"), [(4, 3), (6, 3), (6, 5), (16, 3), (16, 5), (64, 3)])
def test_matchings_are_cycles_in_turn(size: int, inside: int) -> None:
    """Of every group, as networkx sees them."""
    assert fits(2 * size, size, 1, inside + 1)
    demand = two_stages(2 * size, size).model_parallel_bytes
    matched = grouped_links(demand, size, inside, 1, np.random.default_rng(1))[0]
    rows = [*matched, matched[0]]
    for one, other in pairwise(rows):
        for group in (0, 1):
            members = range(group, 2 * size, 2)
            graph = nx.MultiGraph((i, int(row[i])) for row in (one, other) for i in members if i < row[i])
            assert nx.is_connected(graph)
            assert all(degree == 2 for _, degree in graph.degree())


def test_single_cycle() -> None:
    """Two matchings of six servers: one cycle, or a pair and four."""
    pairs = np.array([(0, 1), (2, 3), (4, 5)])
    assert single_cycle(pairs, np.array([(1, 2), (3, 4), (5, 0)]))
    assert not single_cycle(pairs, np.array([(0, 1), (3, 4), (5, 2)]))


@pytest.mark.parametrize("groups", [2, 3, 4, 5, 8])
def test_rounds_of_groups(groups: int) -> None:
    """Every group once a round; of an odd number twice. In all rounds each meets each, once."""
    rounds = rounds_of_groups(groups)
    for pairs in rounds:
        seen = Counter(group for pair in pairs for group in pair)
        assert seen == Counter(dict.fromkeys(range(groups), 1 + groups % 2))
    met = Counter(frozenset(pair) for pairs in rounds for pair in pairs)
    assert set(met.values()) == {1}
    assert len(met) == groups * (groups - 1) // 2


def test_one_link_of_a_server_joins_all_groups() -> None:
    """Eight groups of sixteen that all send to each other: one link across of each server leads to all other groups."""
    size, groups = 16, 8
    n = size * groups
    everyone = Demand(np.ones((n, n)) - np.eye(n), two_stages(n, size).allreduce)
    topologies = list(grouped_topologies(Cluster(n, 1, 4, 100.0, BOTH), everyone, count=1, seed=0))
    few = next(each for each in topologies if ", 1 of 4 links across" in each.origin)
    ends = few.arcs % groups
    across = Counter(zip(*ends[ends[:, 0] != ends[:, 1]].T.tolist(), strict=True))
    assert sum(across.values()) == n
    assert set(across) == {(i, k) for i in range(groups) for k in range(groups) if i != k}


def test_shared_out() -> None:
    """One to each, those of most worth first where there are too few; the rest in proportion, by largest remainders."""
    assert shared_out(2, np.array([1.0, 5.0, 3.0])).tolist() == [0, 1, 1]
    assert shared_out(3, np.array([1.0, 5.0, 3.0])).tolist() == [1, 1, 1]
    assert shared_out(9, np.array([1.0, 3.0, 2.0])).tolist() == [2, 4, 3]
    assert shared_out(6, np.array([1.0, 1.9])).tolist() == [2, 4]


def test_links_across_are_as_many_at_every_server() -> None:
    """Of each server as many as asked for, to other groups; no two groups without one where there are enough."""
    rng = np.random.default_rng(5)
    for n, size, inside, across in [(24, 8, 3, 1), (24, 8, 3, 3), (40, 8, 3, 1), (36, 4, 2, 2), (36, 4, 3, 1)]:
        groups, demand = n // size, rng.random((n, n))
        links = grouped_links(demand, size, inside, across, rng)[2]
        assert (np.bincount(links[:, 0], minlength=n) == across).all()
        assert (np.bincount(links[:, 1], minlength=n) == across).all()
        pairs = {(int(i) % groups, int(k) % groups) for i, k in links}
        assert all(i != k for i, k in pairs)
        assert size * across < groups - 1 or len(pairs) == groups * (groups - 1)
