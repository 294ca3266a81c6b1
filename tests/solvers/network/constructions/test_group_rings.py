"""Rings of AllReduce groups: Hamiltonian on their group, over existing arcs, shares that balance the arcs."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise
from math import gcd

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from solvers.network.finder import find_topology
from solvers.network.rings import circulant_cycles, group_rings
from solvers.network.routes import circulant_topology
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.topology import Topology
from topoopt.core.workload import Demand, GroupRings, strided_groups

BOTH = LinkDirection.BIDIRECTIONAL
ONE_WAY = LinkDirection.UNIDIRECTIONAL


def loads(topology: Topology, rings: GroupRings, limit: int) -> NDArray[np.float64]:
    """Share of the payload each arc carries per parallel link; fails unless the rings are valid."""
    ids = topology.arc_ids()
    load = np.zeros(len(topology.arcs))
    assert 1 <= len(rings.rings) <= limit
    assert sum(ring.share for ring in rings.rings) == pytest.approx(1.0)
    for ring in rings.rings:
        assert ring.share > 0
        assert sorted(ring.order) == sorted(rings.members)
        for i, path in enumerate(ring.paths):
            assert path[0] == ring.order[i]
            assert path[-1] == ring.order[(i + 1) % len(ring.order)]
            for a, b in pairwise(path):
                assert ids[a, b] >= 0
                load[ids[a, b]] += ring.share
    return load / topology.multiplicity


@pytest.mark.parametrize(
    ("n", "degree", "links", "distances"),
    [
        (16, 4, BOTH, (1, 5)),
        (16, 4, BOTH, (1, 4)),
        (16, 8, BOTH, (1, 2, 3, 4)),
        (16, 8, BOTH, (1, 3, 5, 9)),
        (12, 4, BOTH, (1, 5)),
        (12, 4, BOTH, (3, 4)),
        (15, 4, BOTH, (3, 5)),
        (128, 8, BOTH, (1, 5, 13, 39)),
        (16, 4, ONE_WAY, (1, 3, 5, 7)),
    ],
)
def test_whole_cluster_allreduce_fills_all_links(
    n: int, degree: int, links: LinkDirection, distances: tuple[int, ...]
) -> None:
    """An AllReduce over all servers loads every arc with 1/d of the payload, also with distances not coprime to n."""
    topology = circulant_topology(n, degree, links, distances)
    (rings,) = group_rings(topology, (tuple(range(n)),))
    np.testing.assert_allclose(loads(topology, rings, degree), 1.0 / degree, rtol=1e-6)


def test_subgroup_rings_of_the_12_server_testbed() -> None:
    """Hops per member 1, 2, 3, 2, 2 for sizes 12, 6, 4, 3, 2 as recorded, now spread over all four directions."""
    topology = circulant_topology(12, 4, BOTH, (1, 5))
    hops = {}
    for rings in group_rings(topology, strided_groups(12)):
        load = loads(topology, rings, 4)
        hops[len(rings.members)] = load.sum() / len(rings.members)
        assert load.max() == pytest.approx(0.25)
    assert hops == pytest.approx({12: 1, 6: 2, 4: 3, 3: 2, 2: 2})


def test_detours_relieve_the_few_links_inside_a_group() -> None:
    """n = 16, {1,2,3,4}, all cosets of 4 at work: the +-4 links alone carry 1/2, with 2-hop detours 1/5."""
    topology = circulant_topology(16, 8, BOTH, (1, 2, 3, 4))
    groups = tuple(tuple(range(o, 16, 4)) for o in range(4))
    total = sum(loads(topology, rings, 8) for rings in group_rings(topology, groups))
    # x of the payload one hop over 2 links a server, 1 - x two hops over 6: x/2 = 2 (1 - x)/6 at x = 2/5.
    assert float(np.max(total)) == pytest.approx(0.2, rel=1e-6)


@settings(max_examples=25)
@given(n=st.integers(4, 30), seed=st.integers(0, 2**31), links=st.sampled_from([BOTH, ONE_WAY]))
def test_rings_of_any_circulant(n: int, seed: int, links: LinkDirection) -> None:
    """All cosets on random connected circulants: valid rings, and translated groups get translated rings."""
    rng = np.random.default_rng(seed)
    distances = tuple(sorted({1, int(rng.integers(1, max(2, (n - 1) // 2 + 1)))}))
    topology = circulant_topology(n, 4, links, distances)
    found = group_rings(topology, strided_groups(n))
    assert [rings.members for rings in found] == list(strided_groups(n))
    heaviest: dict[int, set[float]] = {}
    for rings in found:
        heaviest.setdefault(len(rings.members), set()).add(round(float(loads(topology, rings, 4).max()), 9))
    assert all(len(values) == 1 for values in heaviest.values())


def test_rings_on_mixed_topologies_and_odd_groups() -> None:
    """Rings plus matchings, groups that are not cosets, members not ascending: valid, members kept as given."""
    matrix = np.random.default_rng(2).lognormal(0, 1.5, (15, 15))
    np.fill_diagonal(matrix, 0.0)
    topology = find_topology(Cluster(15, 4, 5, 100.0), Demand(matrix, ()))
    groups = ((0, 1, 5, 6, 11), (14, 2), (9, 4, 1), (0, 5, 10), tuple(range(15)))
    found = group_rings(topology, groups, 5)
    assert tuple(rings.members for rings in found) == groups
    for rings in found:
        loads(topology, rings, 5)


def test_more_rings_never_load_more() -> None:
    """The largest load falls (or stays) as more rings are allowed."""
    topology = circulant_topology(16, 8, BOTH, (1, 3, 5, 7))
    group = (0, 3, 4, 9, 14)
    peaks = [float(loads(topology, group_rings(topology, (group,), k)[0], k).max()) for k in (1, 2, 4, 8)]
    assert all(b <= a + 1e-9 for a, b in pairwise(peaks))
    assert peaks[0] == pytest.approx(1.0)
    # Twelve arcs join its even and odd members; four of the five steps of a ring can use one.
    assert 4 / 12 <= peaks[-1] <= 0.45


def test_parallel_links_count_as_capacity() -> None:
    """{1,1} on 5 servers: two parallel links each way, so each carries a quarter."""
    topology = circulant_topology(5, 4, BOTH, (1, 1))
    (rings,) = group_rings(topology, (tuple(range(5)),))
    assert loads(topology, rings, 4).max() == pytest.approx(0.25)


def test_bad_groups_are_all_listed() -> None:
    """One server, a repeated one, an unknown one: three problems at once."""
    topology = circulant_topology(8, 4, BOTH, (1, 3))
    with pytest.raises(InputError) as caught:
        group_rings(topology, ((1,), (2, 2), (3, 9)))
    assert len(caught.value.problems) == 3


def test_circulant_cycles_use_each_link_once() -> None:
    """All pairs of distances on up to 30 servers: every cycle Hamiltonian, together exactly the circulant's links."""
    for n in range(5, 31):
        for distances in combinations(range(1, (n - 1) // 2 + 1), 2):
            if gcd(n, *distances) > 1:
                assert circulant_cycles(n, distances) is None
                continue
            cycles = circulant_cycles(n, distances)
            assert cycles is not None
            links: Counter[frozenset[int]] = Counter()
            for cycle in cycles:
                assert sorted(cycle) == list(range(n))
                links.update(frozenset((cycle[i], cycle[i - 1])) for i in range(n))
            assert links == Counter(frozenset((i, (i + p) % n)) for p in distances for i in range(n))


@pytest.mark.parametrize(("n", "degree"), [(7, 4), (12, 4), (33, 4), (20, 6), (128, 4)])
def test_an_allreduce_of_all_servers_takes_every_link_of_a_random_regular_graph_once(n: int, degree: int) -> None:
    arcs = np.array([pair for a, b in nx.random_regular_graph(degree, n, seed=3).edges for pair in ((a, b), (b, a))])
    topology = Topology.of_arcs(n, arcs, degree=degree, links=BOTH)
    everyone = tuple(range(n))
    whole, part = group_rings(topology, [everyone, (0, 2, 5)])
    load = loads(topology, whole, degree)
    assert load == pytest.approx(np.full(len(arcs), 1 / degree))
    assert sum(len(path) - 1 for ring in whole.rings for path in ring.paths) == n * degree
    loads(topology, part, degree)
    few = loads(topology, group_rings(topology, [everyone], max_rings=1)[0], 1)
    assert few.max() >= 1.0
