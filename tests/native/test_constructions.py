"""Breadth-first search, circulants, cycles, matchings, Cayley searches and times of schedules against plain Python."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import networkx as nx
import numpy as np
import pytest

from solvers.collective.breadth_first import step_loads
from tests.native.calls_graph import CALLS, link_counts, random_arcs, random_coins, random_links, symmetric_weights
from tests.support import collective_networks as nets
from topoopt.core.arrays import Floats
from topoopt.core.topology import semidirect_groups
from topoopt.native import graph

SEEDS = range(25)


@pytest.mark.parametrize("seed", SEEDS)
def test_breadth_first_search(seed: int) -> None:
    """Hops are those of networkx; trees hold each server's shortest path, in order of hops."""
    first, head, n = random_arcs(np.random.default_rng(seed))
    tail = np.repeat(np.arange(n), np.diff(first))
    arcs = nx.DiGraph()
    arcs.add_nodes_from(range(n))
    arcs.add_edges_from(zip(tail.tolist(), head.tolist(), strict=True))
    hops = np.full((n, n), -1)
    for source, far in nx.all_pairs_shortest_path_length(arcs):
        hops[source, list(far)] = list(far.values())
    assert (graph.hop_distances(first, head, n) == hops).all()
    assert (graph.hop_distances(first, head.astype(np.int32), n) == hops).all()
    order, via = graph.breadth_first_trees(first, head, n)
    assert (np.sort(order) == np.arange(n)).all()
    for source in range(n):
        far = hops[source, order[source]] % (n + 1)  # unreachable ones last
        assert (np.diff(far) >= 0).all()
        assert ((via[source] < 0) == (hops[source] <= 0)).all()
        ends = np.flatnonzero(via[source] >= 0)
        assert (head[via[source, ends]] == ends).all()
        assert (hops[source, tail[via[source, ends]]] == hops[source, ends] - 1).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_coins(seed: int) -> None:
    """Hops of circulants by networkx; decompositions are all multisets of so many coins with that sum."""
    n, coins = random_coins(np.random.default_rng(seed))
    arcs = nx.DiGraph([(i, int((i + coin) % n)) for i in range(n) for coin in coins])
    hops = [nx.shortest_path_length(arcs, 0, j) for j in range(n)]
    assert graph.circulant_hops(n, coins).tolist() == hops
    assert graph.circulant_scores(n, coins[None]).tolist() == [[max(hops), sum(hops)]]
    first, counts = graph.coin_decompositions(n, coins, 10**6)
    few, fewer = graph.coin_decompositions(n, coins, 2)
    for j in range(1, n):
        wanted = {
            tuple(Counter(chosen)[coin] for coin in coins.tolist())
            for chosen in itertools.combinations_with_replacement(coins.tolist(), hops[j])
            if sum(chosen) % n == j
        }
        rows = counts[first[j] : first[j + 1]].tolist()
        assert sorted(map(tuple, rows)) == sorted(wanted)
        assert fewer[few[j] : few[j + 1]].tolist() == rows[:2]


def test_coins_that_do_not_reach_everybody() -> None:
    """-1 hops, no decompositions, and the worst score."""
    coins = np.array([2, 4])
    assert graph.circulant_hops(6, coins).tolist() == [0, -1, 1, -1, 1, -1]
    assert graph.circulant_scores(6, coins[None]).tolist() == [[36, 36]]
    assert graph.coin_decompositions(6, coins, 9)[0].tolist() == [0, 0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("seed", SEEDS)
def test_balanced_coins_are_best(seed: int) -> None:
    """Few parcels: the largest load over a coin is that of the best of all choices."""
    draw = np.random.default_rng(seed)
    n, coins = random_coins(draw)
    first, counts = graph.coin_decompositions(n, coins, 3)
    parcels, amount, inverse = draw.integers(1, n, 5), draw.random(5) + 0.5, 1.0 / draw.integers(1, 3, len(coins))

    def largest(rows: Any) -> float:
        return float(((counts[np.array(rows)].T @ amount) * inverse).max())

    rows = graph.balance_coins(first, counts, parcels, amount, inverse, 20_000, seed)
    choices = [range(first[j], first[j + 1]) for j in parcels.tolist()]
    assert all(row in choice for row, choice in zip(rows.tolist(), choices, strict=True))
    assert largest(rows) == pytest.approx(min(map(largest, itertools.product(*choices))))


@pytest.mark.parametrize("seed", SEEDS)
def test_order_of_coins_and_paths(seed: int) -> None:
    """Each position takes the coin used least there so far; servers of a path are the sums of its jumps."""
    draw = np.random.default_rng(seed)
    coins, amount, inverse, order, counts = CALLS["order_coins"](draw)
    first, jump = graph.order_coins(coins, amount, inverse, order, counts)
    used: Counter[tuple[int, int]] = Counter()
    for p in order.tolist():
        left = counts[p].copy()
        for position in range(int(counts[p].sum())):
            c = min(np.flatnonzero(left).tolist(), key=lambda c, at=position: used[at, c] * inverse[c])
            left[c] -= 1
            used[position, c] += amount[p]
            assert jump[first[p] + position] == coins[c]
    n, source, path, first, jump = CALLS["circulant_paths"](draw)
    begin, node = graph.circulant_paths(n, source, path, first, jump)
    for k, (server, p) in enumerate(zip(source, path, strict=True)):
        sums = np.cumsum([server, *jump[first[p] : first[p + 1]]]) % n
        assert node[begin[k] : begin[k + 1]].tolist() == sums.tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_hamiltonian_cycles_take_each_link_once(seed: int) -> None:
    """Of random regular multigraphs; their union is the topology."""
    draw = np.random.default_rng(seed)
    n, degree = int(draw.integers(3, 30)), int(draw.choice([2, 4, 6]))
    counts = link_counts(n, np.concatenate([_cycle(draw.permutation(n)) for _ in range(degree // 2)]))
    orders = graph.hamiltonian_cycles(counts, seed)
    assert len(orders) in (0, degree // 2)
    assert len(orders) or degree > 2
    assert (np.sort(orders) == np.arange(n)).all()
    if len(orders):
        assert (link_counts(n, np.concatenate([_cycle(order) for order in orders])) == counts).all()


def _cycle(order: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.column_stack((order, np.roll(order, -1)))


def test_no_hamiltonian_cycles() -> None:
    """Two servers, an odd number of links, different numbers, two parts."""
    for counts in ([[0, 2], [2, 0]], [[0, 1, 2], [1, 0, 1], [2, 1, 0]], np.ones((4, 4)) - np.eye(4)):
        assert graph.hamiltonian_cycles(np.array(counts, dtype=np.int64), 1).shape == (0, len(counts))
    parts = np.kron(np.eye(2), np.ones((3, 3)) - np.eye(3)).astype(np.int64)
    assert graph.hamiltonian_cycles(parts, 1).shape == (0, 6)


@pytest.mark.parametrize("seed", SEEDS)
def test_duplex_matchings(seed: int) -> None:
    """Every switch is a matching, and the links that have none are the rest; few are, as one colour more is enough."""
    draw = np.random.default_rng(seed)
    n, degree = int(draw.integers(2, 24)), int(draw.integers(1, 7))
    ends = random_links(draw, n, degree)
    ends = np.unique(ends, axis=0) if seed % 2 else ends
    for switches in (degree, degree + 1):
        partner, left = graph.duplex_matchings(n, switches, ends)
        held = np.zeros((n, n), dtype=np.int64)
        for row in partner:
            servers = np.flatnonzero(row >= 0)
            assert (row[row[servers]] == servers).all()
            np.add.at(held, (servers, row[servers]), 1)
        assert (held + link_counts(n, ends[left]) == link_counts(n, ends)).all()
        if seed % 2 and switches > degree:
            assert not len(left)


def test_circulants_take_patterned_switches() -> None:
    """A distance that closes to even cycles: one pattern a switch."""
    ends = np.array([(i, (i + p) % 12) for p in (1, 3, 3) for i in range(12)] + [(i, i + 6) for i in range(6)])
    partner, left = graph.duplex_matchings(12, 7, ends)
    assert not len(left)
    distances = [sorted(Counter(((row - np.arange(12)) % 12).tolist()).values()) for row in partner]
    assert distances == [[6, 6]] * 6 + [[12]]


@pytest.mark.parametrize("seed", SEEDS)
def test_complete_matchings(seed: int) -> None:
    """One server over at most, and no two pairs weigh more when paired anew."""
    draw = np.random.default_rng(seed)
    n = int(draw.integers(1, 14))
    weights = symmetric_weights(draw, n)
    given = np.full(n, -1, dtype=np.int64)
    if n > 3:
        given[[0, 3]] = 3, 0
    partner = graph.complete_matching(weights, given)
    pairs = [(i, j) for i, j in enumerate(partner.tolist()) if i < j]
    assert sorted(itertools.chain(*pairs)) == [i for i in range(n) if partner[i] >= 0]
    assert len(pairs) == n // 2
    for (a, b), (c, d) in itertools.combinations(pairs, 2):
        assert weights[a, b] + weights[c, d] >= max(weights[a, c] + weights[b, d], weights[a, d] + weights[b, c])
    even = graph.complete_matching(np.zeros((8, 8)), np.full(8, -1))
    assert even.tolist() == [4, 5, 6, 7, 0, 1, 2, 3]


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("degree", [2, 3, 4])
def test_loads_of_cayley_digraphs(degree: int, paired: bool) -> None:
    """Sets found in groups of 24 elements: the same steps, loads and distances as of their arcs."""
    compared = 0
    for group in semidirect_groups(24):
        search = graph.CayleySearch(degree, 20, 12, 3)
        least, better = search.climb(group.modulus, group.order, group.powers, paired, 40, 5)
        assert sorted(better) == np.flatnonzero(search.load < 2**60).tolist()
        assert least <= search.far.min()
        assert (least < 0) == (len(better) == 0)
        for steps in better.tolist():
            generators = search.generators[steps].tolist()
            arcs = group.arcs(generators).tolist()
            assert not paired or sorted(map(tuple, arcs)) == sorted((head, tail) for tail, head in arcs)
            loads, distance = step_loads(nets.network(24, [(tail, head, 1) for tail, head in arcs]))
            assert (len(loads), distance[0].sum()) == (steps, search.far[steps])
            assert sum(loads) * 12 == search.load[steps]
            compared += 1
    assert compared > 3


@pytest.mark.parametrize("seed", SEEDS)
def test_shortest_path_loads(seed: int) -> None:
    """What reaches a server is shared by its predecessors, server by server from the farthest one on."""
    distance, order, first, tails, label, weight = CALLS["shortest_path_loads"](np.random.default_rng(seed))
    label = label % 3
    load: Floats = np.zeros(len(weight))
    for hops, servers in zip(distance, order, strict=True):
        due = np.ones(len(hops))
        for v in servers[:0:-1].tolist():
            links = [link for link in range(first[v], first[v + 1]) if hops[tails[link]] == hops[v] - 1]
            total = sum(weight[label[link]] for link in links)
            for link in links:
                load[label[link]] += due[v] * weight[label[link]] / total
                due[tails[link]] += due[v] * weight[label[link]] / total
    assert graph.shortest_path_loads(distance, order, first, tails, label, weight).tolist() == load.tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_makespan(seed: int) -> None:
    """Without barriers one send after the other, by the plain rule."""
    args = CALLS["makespan"](np.random.default_rng(seed))
    block, tail, head, reduce, units, owner, start, arcs, once, us_per_unit, slow, _ = args
    summed: dict[tuple[int, int], float] = {}
    copied: dict[tuple[int, int], float] = {}
    free, begun, latest = np.zeros(len(us_per_unit)), {}, 0.0
    for k, (own, here, there) in enumerate(zip(block.tolist(), tail.tolist(), head.tolist(), strict=True)):
        summing = reduce[k] or here == owner[own]
        time = summed.get((own, here), 0.0) if summing else copied.get((own, here), np.inf)
        ends = [time]
        for entry in range(start[k], start[k + 1]):
            lasts = units[own] * us_per_unit[arcs[entry]]
            if once[entry] == entry:
                begun[entry] = max(time, free[arcs[entry]]), max(time, free[arcs[entry]]) + lasts
                free[arcs[entry]] = begun[entry][1]
            time = begun[once[entry]][0]
            ends.append(begun[once[entry]][1])
        arrival = max(ends) + slow[k]
        if reduce[k]:
            summed[own, there] = max(summed.get((own, there), 0.0), arrival)
        else:
            copied[own, there] = min(copied.get((own, there), np.inf), arrival)
        latest = max(latest, arrival)
    assert graph.makespan(*args) == pytest.approx(latest, nan_ok=True)


ONES = np.ones(3, dtype=np.int64)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("hop_distances", (np.array([0, 1, 1]), np.array([2]), 2)),
        ("circulant_hops", (5, np.array([5]))),
        ("circulant_hops", (0, ONES)),
        ("coin_decompositions", (2**40, ONES, 3)),
        ("balance_coins", (np.array([0, 0, 1]), ONES[None], np.array([0]), np.ones(1), np.ones(3), 5, 1)),
        ("order_coins", (ONES, np.ones(1), np.ones(3), np.array([1]), ONES[None])),
        ("circulant_paths", (4, np.array([4], dtype=np.int32), np.array([0]), np.array([0, 3]), ONES)),
        ("hamiltonian_cycles", (np.array([[0, 2, 0], [0, 0, 2], [2, 0, 0]]), 1)),
        ("duplex_matchings", (4, 1, np.array([[0, 1], [1, 2]]))),
        ("duplex_matchings", (4, 2, np.array([[1, 1]]))),
        ("complete_matching", (np.array([[0.0, np.nan], [np.nan, 0.0]]), np.full(2, -1))),
        ("complete_matching", (np.zeros((3, 3)), np.array([1, 2, 0]))),
        ("CayleySearch", (40, 5, 12, 1)),
    ],
)
def test_refusals(name: str, arguments: tuple[Any, ...]) -> None:
    """What makes no sense raises."""
    with pytest.raises(ValueError, match=":"):
        getattr(graph, name)(*arguments)
    with pytest.raises(TypeError):
        getattr(graph, name)("text", *arguments[1:])
