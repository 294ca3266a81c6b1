"""Networks of a few servers and blocks of links at the nodes of a tree, against plain Python."""

from __future__ import annotations

from itertools import combinations_with_replacement, permutations, product

import networkx as nx
import numpy as np
import pytest

from solvers.network.enumeration import moore_sum
from tests.native.calls_exact import CALLS, node_arguments, random_node
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.native import exact
from topoopt.verify.network.trees import _far

SEEDS = range(25)
Pair = tuple[int, ...]


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize(("n", "degree", "most_links"), [(2, 2, 2), (3, 1, 1), (3, 2, 2), (3, 3, 2)])
def test_maximal_networks(n: int, degree: int, most_links: int, mirrored: bool) -> None:
    """All link counts within the degrees, less those to which a link can be added."""
    pairs = np.argwhere(np.triu(np.ones((n, n)), 1) if mirrored else ~np.eye(n, dtype=np.bool_))
    tails, heads = np.ascontiguousarray(pairs.T)
    fitting = set()
    for counts in product(range(most_links + 1), repeat=len(tails)):
        table = np.zeros((n, n), dtype=np.int64)
        table[tails, heads] = counts
        whole = table + table.T if mirrored else table
        if max(whole.sum(axis=0).max(), whole.sum(axis=1).max()) <= degree:
            fitting.add((counts, tuple(whole.ravel().tolist())))
    all_counts = {counts for counts, _ in fitting}
    more = [tuple(int(p == q) for q in range(len(tails))) for p in range(len(tails))]
    maximal = {
        whole
        for counts, whole in fitting
        if not any(tuple(a + b for a, b in zip(counts, one, strict=True)) in all_counts for one in more)
    }
    found = exact.maximal_networks(n, degree, most_links, mirrored, tails, heads, 1000)
    assert len(found) == len(maximal)
    assert {tuple(row) for row in found.tolist()} == maximal
    few = exact.maximal_networks(n, degree, most_links, mirrored, tails, heads, len(found) - 1)
    assert len(few) == len(found)
    assert len(exact.maximal_networks(n, degree, most_links, mirrored, tails, heads, 0)) == 1


def least_naming(table: Ints) -> tuple[int, ...]:
    """Of a table of link counts, the least over all names of servers."""
    return min(tuple(table[np.ix_(order, order)].ravel().tolist()) for order in permutations(range(len(table))))


@pytest.mark.parametrize(("n", "degree"), [(2, 1), (3, 1), (3, 2), (4, 1), (4, 2)])
def test_regular_networks(n: int, degree: int) -> None:
    """One of each class of all strongly connected tables, of the excess asked for, however often it is interrupted."""
    rows = [[row for row in combinations_with_replacement(range(n), degree) if v not in row] for v in range(n)]
    moore, excess_of = moore_sum(n, degree), {}
    for heads in product(*rows):
        table = (np.array(heads)[:, :, None] == np.arange(n)).sum(axis=1)
        graph: nx.DiGraph[int] = nx.DiGraph(table)
        if (table.sum(axis=0) == degree).all() and nx.is_strongly_connected(graph):
            hops = sum(sum(far.values()) for _, far in nx.all_pairs_shortest_path_length(graph))
            excess_of[least_naming(table)] = hops - n * moore
    for least, most in ((0, n * n), (0, 1), (2, 5)):
        wanted = {name for name, excess in excess_of.items() if least <= excess <= most}
        walk = exact.RegularNetworks(n, degree, moore, least, most)
        found = list(walk.next(10**6, 10**6).reshape(-1, n, degree))
        names = [least_naming((table[:, :, None] == np.arange(n)).sum(axis=1)) for table in found]
        assert walk.over()
        assert sorted(names) == sorted(wanted)
        walk = exact.RegularNetworks(n, degree, moore, least, most)
        parts = []
        while not walk.over():
            parts.append(walk.next(3, 1))
        np.testing.assert_array_equal(np.concatenate(parts), np.array(found).reshape(-1, n * degree))


def choices(rows: Ints, into: Ints, k: int) -> tuple[list[Pair], list[Pair]]:
    """Tails that may lead to server k, and heads that its links may have."""
    n = len(rows)
    pairs = [pair for pair in combinations_with_replacement(range(n), 2) if k not in pair]
    known = sorted(into[k][into[k] >= 0].tolist())

    def leads(tails: Pair) -> bool:
        rest = list(tails)
        for tail in known:
            if tail not in rest:
                return False
            rest.remove(tail)
        return all(rows[tail, 0] < 0 for tail in rest)

    def free(heads: Pair) -> bool:
        if rows[k, 0] >= 0:
            return heads == tuple(rows[k].tolist())
        return all(heads.count(v) <= int((into[v] < 0).sum()) for v in heads)

    return [pair for pair in pairs if leads(pair)], [pair for pair in pairs if free(pair)]


def absent_links(rows: Ints, into: Ints) -> Bools:
    """bool[n, n]: links that no network of the node has."""
    n = len(rows)
    return np.array(
        [[j == k or (j not in rows[k] if rows[k, 0] >= 0 else into[j, 1] >= 0) for j in range(n)] for k in range(n)]
    )


def worth_of(
    k: int, tails: Pair, heads: Pair, demand: Floats, prices: tuple[Floats, ...], far: Floats, theta: float
) -> float:
    """Of the links around k, by the formula of the checker's proof."""
    price, relief, shift = prices
    total = 0.0
    for ends, arc, sign in ((tails, lambda v: (v, k), 1.0), (heads, lambda v: (k, v), -1.0)):
        for number, v in enumerate(ends):
            at = arc(v)
            second = number == 1 and ends[0] == ends[1]
            carried = np.clip(demand[at] - theta, 0.0, theta) if second else min(demand[at], theta)
            total += (theta * price[at] + max(0.0, far[at] - price[at] - relief[at]) * carried) / 2
            total += 0.0 if second else sign * shift[at]
    double = tails[0] == tails[1] and heads[0] == heads[1]
    for i, j in product(set(tails), set(heads)):
        if i != j:
            saved = max(0.0, far[i, j] - relief[i, j] - price[i, k] - price[k, j])
            total += saved * min(demand[i, j], theta * (2 if double else 1))
    return total


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_proven_of_a_node_and_its_children(seed: int) -> None:
    """Every choice of links, its worth by the formula; infinite where a choice leaves no network."""
    demand, price, relief, shift, theta, rows, into = node_arguments(np.random.default_rng(seed))
    n, bar = len(demand), 9.0
    value, total, heads, many, values = exact.children(demand, price, relief, shift, bar, theta, rows, into)
    barred = np.where(absent_links(rows, into), bar, price)
    far = _far(barred[None])[0]
    far[~np.isfinite(far)] = 1e18
    owed = float((demand * (far - relief)).sum())
    assert total == pytest.approx(float((demand * far).sum()))
    blocks = []
    for k in range(n):
        ins, outs = choices(rows, into, k)
        assert [tuple(row) for row in heads.reshape(n, -1, 2)[k, : many[k]].tolist()] == outs
        prices = barred, relief, shift
        blocks.append({(p, q): worth_of(k, p, q, demand, prices, far, theta) for p in ins for q in outs})
    if n > 3:  # of three servers, no path has three links
        assert value == pytest.approx(owed - sum(max(block.values(), default=-1e18) for block in blocks))
    for server in range(n):
        if rows[server, 0] >= 0:
            assert np.isinf(values[server]).all()
            continue
        for at, choice in enumerate(choices(rows, into, server)[1]):
            left = owed
            for k, block in enumerate(blocks):
                fits = [
                    worth
                    for (tails, q), worth in block.items()
                    if (q == choice if k == server else tails.count(server) == choice.count(k))
                ]
                left -= max(fits, default=-np.inf)
            assert values[server, at] == pytest.approx(left) or n == 3


@pytest.mark.parametrize("seed", SEEDS)
def test_an_ascent_leaves_prices_that_prove_as_much_as_it_says(seed: int) -> None:
    """As `children` finds them, no less than at the start, and no more once it has the time."""
    demand, price, relief, shift, theta, rows, into = node_arguments(np.random.default_rng(seed))
    at = np.stack((price, relief, shift))
    proven = []
    for iterations in (1, 40):
        state = at.copy()
        price, relief, shift = state
        reached = exact.ascend(demand, price, relief, shift, theta, rows, into, iterations)
        absent = absent_links(rows, into)
        bar = len(demand) * float(state[0][~absent].max(initial=0.0))
        value, total = exact.children(demand, price, relief, shift, bar, theta, rows, into)[:2]
        if np.isfinite(reached) and total < 1e15:
            assert value / total == pytest.approx(reached, rel=1e-9, abs=1e-12)
        proven.append(reached)
    assert proven[1] >= proven[0]


@pytest.mark.parametrize("n", [3, 4, 6])
def test_lengths_of_far_paths(n: int) -> None:
    """As the checker finds them."""
    for seed in SEEDS:
        price = np.random.default_rng(seed).lognormal(size=(n, n))
        expected = _far(price[None])[0]
        np.testing.assert_allclose(exact.far_lengths(price), np.where(np.isfinite(expected), expected, 1e18))


def test_wrong_arguments_are_refused() -> None:
    """Servers that do not exist, other shapes, too many servers."""
    draw = np.random.default_rng(0)
    demand, price, relief, shift, theta = node_arguments(draw)[:5]
    rows, into = random_node(draw, len(demand))
    for wrong in ((rows + len(rows), into), (rows, into - 2), (rows[:-1], into)):
        with pytest.raises(ValueError, match=r"rows|into"):
            exact.children(demand, price, relief, shift, 9.0, theta, *wrong)
    with pytest.raises(ValueError, match="n:"):
        exact.RegularNetworks(63, 2, 1, 0, 1)
    n, degree, most, mirrored, tails, heads, limit = CALLS["maximal_networks"](draw)
    with pytest.raises(ValueError, match="tails"):
        exact.maximal_networks(n, degree, most, mirrored, tails + 9, heads, limit)
