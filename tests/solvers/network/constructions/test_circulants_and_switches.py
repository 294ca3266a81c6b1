"""Circulant topologies and the permutations of the optical switches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.network.assembly import assign_switches
from solvers.network.routes import circulant_topology
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.topology import Topology

BOTH = LinkDirection.BIDIRECTIONAL
ONE_WAY = LinkDirection.UNIDIRECTIONAL


def patched(switches: np.ndarray[tuple[int, ...], np.dtype[np.int32]]) -> Counter[tuple[int, int]]:
    """Unit arcs the switches realise; fails unless every row is a partial permutation."""
    arcs: Counter[tuple[int, int]] = Counter()
    for row in switches.tolist():
        heads = [head for head in row if head >= 0]
        assert len(heads) == len(set(heads))
        arcs.update((tail, head) for tail, head in enumerate(row) if head >= 0)
    return arcs


def paired(switches: np.ndarray[tuple[int, ...], np.dtype[np.int32]]) -> int:
    """Switches on which every interface receives from the one it sends to."""
    return sum(all(row[head] == tail for tail, head in enumerate(row) if head >= 0) for row in switches.tolist())


def listed(topology: Topology) -> Counter[tuple[int, int]]:
    """Unit arcs a topology lists."""
    return Counter({(int(a), int(b)): int(m) for (a, b), m in zip(topology.arcs, topology.multiplicity, strict=True)})


def test_circulant_links_every_server_alike() -> None:
    """n = 12, {1,5}: the testbed's 24 two-way links, each server next to +-1 and +-5."""
    topology = circulant_topology(12, 4, BOTH, (1, 5))
    assert len(topology.arcs) == 48
    assert topology.offsets == (1, 5, 7, 11)
    assert {(int(b) - int(a)) % 12 for a, b in topology.arcs} == {1, 5, 7, 11}
    assert patched(topology.switches) == listed(topology)
    for row in topology.switches.tolist():
        steps = {(head - tail) % 12 for tail, head in enumerate(row)}
        assert len({min(step, 12 - step) for step in steps}) == 1, "one distance per switch"
    assert paired(topology.switches) == 4


def test_one_way_circulants_have_a_pattern_a_distance() -> None:
    """n = 12, {1, 5}, one way: each switch shifts all servers alike."""
    topology = circulant_topology(12, 2, ONE_WAY, (1, 5))
    assert patched(topology.switches) == listed(topology)
    for row in topology.switches.tolist():
        assert len({(head - tail) % 12 for tail, head in enumerate(row)}) == 1


def test_parallel_and_antipodal_links() -> None:
    """A repeated distance doubles its links; n/2 twice is a double link that takes two interfaces."""
    topology = circulant_topology(8, 6, BOTH, (3, 3, 4, 4))
    assert topology.offsets == (3, 4, 5)
    assert set(topology.multiplicity.tolist()) == {2}
    assert patched(topology.switches) == listed(topology)


def test_bad_circulants_are_refused() -> None:
    """Too many interfaces, a self link, or a common divisor with n."""
    with pytest.raises(InputError, match="interfaces"):
        circulant_topology(16, 4, BOTH, (1, 3, 5))
    with pytest.raises(InputError, match="itself"):
        circulant_topology(16, 4, BOTH, (1, 16))
    with pytest.raises(InfeasibleError, match="do not connect"):
        circulant_topology(16, 4, BOTH, (2, 6))


@settings(max_examples=50)
@given(n=st.integers(2, 20), degree=st.integers(1, 6), seed=st.integers(0, 2**31))
def test_any_multigraph_of_the_degree_can_be_patched(n: int, degree: int, seed: int) -> None:
    """Koenig: d colours are enough; random unions of d partial permutations are covered exactly."""
    rng = np.random.default_rng(seed)
    counts: Counter[tuple[int, int]] = Counter()
    for _ in range(degree):
        heads = rng.permutation(n)
        counts.update((i, int(heads[i])) for i in range(n) if heads[i] != i and rng.random() < 0.9)
    if not counts:
        return
    arcs = np.array(sorted(counts), dtype=np.int32)
    multiplicity = np.array([counts[int(a), int(b)] for a, b in arcs], dtype=np.int32)
    assert patched(assign_switches(n, degree, arcs, multiplicity)) == counts


def test_a_server_with_too_many_links_is_named() -> None:
    """Three arcs out of server 0 do not fit two interfaces."""
    arcs = np.array([[0, 1], [0, 2], [0, 3]], dtype=np.int32)
    with pytest.raises(InputError, match="server 0"):
        assign_switches(4, 2, arcs, np.ones(3, dtype=np.int32))


def test_large_irregular_topology_is_patched() -> None:
    """1024 servers, 8 random permutations: every arc on exactly one switch."""
    rng = np.random.default_rng(5)
    counts: Counter[tuple[int, int]] = Counter()
    for _ in range(8):
        counts.update(enumerate(rng.permutation(1024).tolist()))
    arcs = np.array(sorted(counts), dtype=np.int32)
    multiplicity = np.array([counts[int(a), int(b)] for a, b in arcs], dtype=np.int32)
    assert patched(assign_switches(1024, 8, arcs, multiplicity)) == counts


def duplex(n: int, degree: int, links: Iterable[tuple[int, int]]) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    """Switches of two-way links, which hold each of them in both directions once."""
    counts = Counter(arc for u, v in links for arc in ((u, v), (v, u)))
    arcs = np.array(sorted(counts), dtype=np.int32)
    multiplicity = np.array([counts[int(a), int(b)] for a, b in arcs], dtype=np.int32)
    switches = assign_switches(n, degree, arcs, multiplicity, duplex=True)
    assert patched(switches) == counts
    return switches


@pytest.mark.parametrize(
    ("n", "distances", "colours"),
    [
        (16, (1, 6), 4),
        (12, (1, 4), 4),
        (12, (1, 4, 6), 5),
        (6, (1, 2), 4),
        (6, (1, 2, 3), 5),
        (4, (1, 2), 3),
        (8, (4,), 1),
    ],
)
def test_duplex_circulants_split_into_matchings(n: int, distances: tuple[int, ...], colours: int) -> None:
    """Connected circulants of even order are of class 1 (Stong 1985): all their switches take duplex patch cords."""
    links = [(i, (i + p) % n) for p in distances for i in range(n // 2 if 2 * p == n else n)]
    assert paired(duplex(n, colours, links)) == colours


@pytest.mark.parametrize("degree", [3, 8])
def test_random_regular_graphs_split_into_matchings(degree: int) -> None:
    """Almost all of even order do (Robinson, Wormald)."""
    graph = nx.random_regular_graph(degree, 256, seed=1)
    assert paired(duplex(256, degree, graph.edges)) == degree


def test_graphs_that_do_not_split_keep_what_they_can() -> None:
    """The Petersen graph, of class 2, has a matching and a 2-factor; on five servers no matching is whole."""
    assert paired(duplex(10, 3, nx.petersen_graph().edges)) == 1
    assert paired(duplex(5, 2, nx.cycle_graph(5).edges)) == 0


@settings(max_examples=80)
@given(n=st.integers(2, 12), degree=st.integers(1, 5), seed=st.integers(0, 2**31))
def test_any_duplex_multigraph_of_the_degree_can_be_patched(n: int, degree: int, seed: int) -> None:
    """Whether or not it splits, every link is held once, and a spare interface where the links are simple does."""
    rng = np.random.default_rng(seed)
    used, links = [0] * n, []
    for _ in range(4 * n):
        u, v = (int(server) for server in rng.choice(n, 2, replace=False))
        if used[u] < degree and used[v] < degree:
            links.append((u, v))
            used[u], used[v] = used[u] + 1, used[v] + 1
    duplex(n, degree, links)
    simple = sorted({(min(link), max(link)) for link in links})
    assert paired(duplex(n, degree + 1, simple)) == degree + 1
