"""Routing of a demand, against networkx and against plain definitions on small random networks."""

from __future__ import annotations

from itertools import pairwise
from math import exp, inf, log

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import linprog

from tests.native.calls_routing import (
    random_arcs,
    random_circulant,
    random_demand,
    random_lengths,
)
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.native import graph, routing

SEEDS = range(12)


class Case:
    """A random network and demand, lengths with ties in every other case, and distances by networkx."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.first, self.head = random_arcs(self.rng)
        self.n, self.m = len(self.first) - 1, len(self.head)
        self.tail = np.repeat(np.arange(self.n), np.diff(self.first))
        self.demand = random_demand(self.rng, self.n)
        self.length = random_lengths(self.rng, self.m)
        self.router = routing.Router(self.first, self.head, self.demand, self.n)

    def arcs(self) -> list[tuple[int, int]]:
        """Tail and head of each."""
        return list(zip(self.tail.tolist(), self.head.tolist(), strict=True))

    def distances(self, length: Floats) -> Floats:
        """float64[n, n]."""
        digraph = nx.DiGraph()
        digraph.add_weighted_edges_from([(u, v, x) for (u, v), x in zip(self.arcs(), length.tolist(), strict=True)])
        rows = dict(nx.all_pairs_dijkstra_path_length(digraph))
        return np.array([[rows[i][j] for j in range(self.n)] for i in range(self.n)])

    def arriving(self, flow: Floats) -> Floats:
        """float64[sources, n]: what comes to each server and does not leave it again; 0 for the source itself."""
        net = np.zeros((len(flow), self.n))
        for a, (u, v) in enumerate(self.arcs()):
            net[:, v] += flow[:, a]
            net[:, u] -= flow[:, a]
        net[np.arange(len(flow)), np.arange(len(flow))] = 0.0
        return net


def test_a_network_by_hand() -> None:
    """0 -> 1 -> 2 of lengths 1 and 2, and 0 -> 2 of length 4: 5 from 0 to 2 cost 15, and 1 back from 2 to 0 costs 1."""
    first, head = np.array([0, 2, 3, 4]), np.array([1, 2, 2, 0])
    demand = np.zeros((3, 3))
    demand[0, 2], demand[2, 0] = 5.0, 1.0
    router, length = routing.Router(first, head, demand, 3), np.array([1.0, 4.0, 2.0, 1.0])
    assert router.total_distance(length) == 16.0
    assert router.tree_flows(length).tolist() == [[5.0, 0.0, 5.0, 0.0], [0.0] * 4, [0.0, 0.0, 0.0, 1.0]]
    assert router.limited_total(length, 1) == 21.0
    given = np.array([[1.0, 3.0, 1.0, 0.0], [0.0] * 4, [0.0] * 4])
    assert router.repaired_flow(length, given)[0].tolist() == [1.25, 3.75, 1.25, 0.0]


@pytest.mark.parametrize("seed", SEEDS)
def test_trees_are_shortest_as_lengths_drift(seed: int) -> None:
    """Totals and flows over trees, call by call with other lengths; a copy of the first sources has their flows."""
    case = Case(seed)
    for _ in range(4):
        total = float((case.demand * case.distances(case.length)).sum())
        assert case.router.total_distance(case.length) == pytest.approx(total)
        flow = case.router.tree_flows(case.length)
        assert case.arriving(flow) == pytest.approx(case.demand, abs=1e-12)
        assert float((flow @ case.length).sum()) == pytest.approx(total)
        entered = [len({v for a, (_, v) in enumerate(case.arcs()) if row[a] > 0}) for row in flow]
        assert entered == (flow > 0).sum(axis=1).tolist()
        some = case.router.copy(1)
        assert np.array_equal(some.tree_flows(case.length)[0], case.router.tree_flows(case.length)[0])
        case.length = case.length * case.rng.uniform(0.5, 1.5, case.m)


@pytest.mark.parametrize("seed", SEEDS)
def test_repaired_flows_conserve(seed: int) -> None:
    """Whatever is given; a flow without cycles stays as it is, and nothing given means shortest paths."""
    case = Case(seed)
    length = case.length + 1e-3
    given = case.rng.random((case.n, case.m)) * (case.rng.random((case.n, case.m)) < 0.5)
    assert case.arriving(case.router.repaired_flow(length, given)) == pytest.approx(case.demand, abs=1e-12)
    trees = case.router.tree_flows(length)
    other = case.router.tree_flows(case.rng.uniform(0.5, 1.5, case.m))
    assert case.router.repaired_flow(length, trees) == pytest.approx(trees, abs=1e-9)
    assert case.arriving(case.router.repaired_flow(length, (trees + other) / 2)) == pytest.approx(case.demand)
    nothing = case.router.repaired_flow(length, np.zeros((case.n, case.m)))
    assert float((nothing @ length).sum()) == pytest.approx(case.router.total_distance(length))


@pytest.mark.parametrize("seed", SEEDS)
def test_hop_limits(seed: int) -> None:
    """Totals by powers of the min-plus matrix; flows leave the source in the first hop and pass on what came."""
    case = Case(seed)
    step = np.full((case.n, case.n), inf)
    step[case.tail, case.head] = case.length
    np.fill_diagonal(step, 0.0)
    within = np.where(np.eye(case.n, dtype=np.bool_), 0.0, inf)
    for hops in range(1, case.n):
        within = (within[:, :, None] + step[None]).min(axis=1)
        total = sum(d * x for d, x in zip(case.demand.ravel(), within.ravel(), strict=True) if d > 0)
        assert case.router.limited_total(case.length, hops) == pytest.approx(total)
        if not np.isfinite(total):
            with pytest.raises(ValueError, match="no path within the limit"):
                case.router.limited_flow(case.length, np.zeros((hops * case.n, case.m)), hops)
            continue
        shape = (hops, case.n, case.m)
        direct = case.router.limited_flow(case.length, np.zeros((hops * case.n, case.m)), hops)
        assert float((direct @ case.length).sum()) == pytest.approx(total)
        given = case.rng.random((hops * case.n, case.m)) * (case.rng.random((hops * case.n, case.m)) < 0.4)
        for flow in (direct.reshape(shape), case.router.limited_flow(case.length, given, hops).reshape(shape)):
            assert case.arriving(flow.sum(axis=0)) == pytest.approx(case.demand, abs=1e-12)
            here = np.eye(case.n) * case.demand.sum(axis=1)[:, None]
            for layer in flow:
                leaving, coming = np.zeros((case.n, case.n)), np.zeros((case.n, case.n))
                np.add.at(leaving.T, case.tail, layer.T)
                np.add.at(coming.T, case.head, layer.T)
                assert (leaving <= here + 1e-12).all()
                here += coming - leaving


def _least_utilisation(case: Case, capacity: Floats) -> float:
    """By the linear program over arcs."""
    inflow = np.zeros((case.n, case.m))
    inflow[case.head, np.arange(case.m)] += 1.0
    inflow[case.tail, np.arange(case.m)] -= 1.0
    conserve = np.zeros((case.n * case.n, case.n * case.m + 1))
    for s in range(case.n):
        conserve[s * case.n : (s + 1) * case.n, s * case.m : (s + 1) * case.m] = inflow
    arrive = case.demand - np.diag(case.demand.sum(axis=1))
    use = np.hstack((np.tile(np.eye(case.m), case.n), -capacity[:, None]))
    cost = np.append(np.zeros(case.n * case.m), 1.0)
    return float(linprog(cost, use, np.zeros(case.m), conserve, arrive.ravel()).fun)


@pytest.mark.parametrize("seed", SEEDS)
def test_sweeps_bracket_the_least_utilisation(seed: int) -> None:
    """Flows conserve after each sweep, and lengths prove no more than the optimum; the best flow is near it."""
    case = Case(seed)
    capacity, flow, routed = case.rng.integers(1, 3, case.m) * 1.0, np.zeros((case.n, case.m)), np.zeros(case.n, bool)
    optimum, seen = _least_utilisation(case, capacity), []
    for sharpness in np.repeat([20.0, 100.0, 500.0], 30).tolist():
        mean = case.router.sweep(capacity, flow, routed, sharpness / optimum, 2.0 / sharpness)
        assert case.router.total_distance(mean) <= optimum * float(capacity @ mean) * (1 + 1e-9)
        assert case.arriving(flow) == pytest.approx(case.demand, abs=1e-9)
        seen.append(float((flow.sum(axis=0) / capacity).max()))
    assert routed.tolist() == (case.demand.sum(axis=1) > 0).tolist()
    assert optimum * (1 - 1e-9) <= min(seen) <= optimum * 1.02


def _soft_rows(case: Case, softness: float) -> tuple[float, Floats]:
    """sum D phi and float64[n, m] flows by the definition of logit shares, server by server."""
    distance, flow, total = case.distances(case.length), np.zeros((case.n, case.m)), 0.0
    for s in range(case.n):
        phi, need = {s: 0.0}, case.demand[s].copy()
        order = sorted(range(case.n), key=lambda v: distance[s, v])
        shares: dict[int, dict[int, float]] = {}
        for v in order[1:]:
            late = {
                a: phi[u] + case.length[a]
                for a, (u, w) in enumerate(case.arcs())
                if w == v and distance[s, u] < distance[s, v] and u in phi
            }
            if late:
                total_share = sum(exp(-x / softness) for x in late.values())
                shares[v] = {a: exp(-x / softness) / total_share for a, x in late.items()}
                phi[v] = -softness * log(total_share)
        total += sum(case.demand[s, v] * phi[v] for v in phi)
        for v in reversed(order[1:]):
            for a, share in shares[v].items():
                flow[s, a] += need[v] * share
                need[case.tail[a]] += need[v] * share
    return total, flow


@pytest.mark.parametrize("seed", SEEDS)
def test_soft_loads_are_logit_shares(seed: int) -> None:
    """At a softness where nothing is late by 18 of it; slices of sources add up."""
    case = Case(seed)
    case.length = np.random.default_rng(seed).uniform(0.5, 1.5, case.m)
    smooth, rows = _soft_rows(case, 2.0)
    flow = np.zeros((case.n, case.m))
    hard, found, load = case.router.soft_loads(case.length, 2.0, 3.0, 6.0, 0, case.n, flow)
    assert hard == pytest.approx(0.5 * float((case.demand * case.distances(case.length)).sum()))
    assert found == pytest.approx(0.5 * smooth, rel=1e-9)
    assert flow == pytest.approx(0.5 * rows, rel=1e-9, abs=1e-12)
    assert load == pytest.approx(0.5 * rows.sum(axis=0), rel=1e-9, abs=1e-12)
    slices = [case.router.soft_loads(case.length, 2.0, 3.0, 6.0, s, s + 1) for s in range(case.n)]
    assert sum(part[2] for part in slices) == pytest.approx(load)
    assert sum(part[1] for part in slices) == pytest.approx(found)


def _near(case: Case, width: float) -> Bools:
    """bool[n, m]: late by `width` at most, on paths to demand."""
    distance, near = case.distances(case.length), np.zeros((case.n, case.m), dtype=np.bool_)
    for s in range(case.n):
        stack = list(np.flatnonzero(case.demand[s]))
        done = {s, *stack}
        while stack:
            v = stack.pop()
            for a, (u, w) in enumerate(case.arcs()):
                late = distance[s, u] + case.length[a] - distance[s, v]
                if w == v and distance[s, u] < distance[s, v] and late <= width:
                    near[s, a] = True
                    if u not in done:
                        done.add(u)
                        stack.append(u)
    return near


@pytest.mark.parametrize("seed", SEEDS)
def test_near_paths_and_what_is_open_over_them(seed: int) -> None:
    """Marks by definition; certain flow and open demand together reach each target once."""
    case = Case(seed)
    case.length = np.random.default_rng(seed).uniform(0.5, 1.5, case.m)
    near = np.zeros((case.n, case.m), dtype=np.bool_)
    count = case.router.mark_near(case.length, 0.4, 1000, near)
    assert np.array_equal(near, _near(case, 0.4))
    flow = np.zeros((case.n, case.m))
    source, into, start, entry, arc, need = case.router.choices(near, flow)
    assert len(source) == len(into) == len(start) == count
    # any choice will do: what a server needs enters over its first arc, and leaves the server where the chain starts
    amount, left = np.zeros(len(source)), need.copy()
    waiting = list(range(len(need)))
    while waiting:
        ready = next(row for row in waiting if not any(start[into == other].tolist().count(row) for other in waiting))
        waiting.remove(ready)
        e = int(np.flatnonzero(into == ready)[0])
        amount[e] = left[ready]
        if start[e] >= 0:
            left[start[e]] += left[ready]
    np.add.at(flow, (source[entry], arc), amount[entry])
    assert case.arriving(flow) == pytest.approx(case.demand, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_circulant_paths(seed: int) -> None:
    """Distances by networkx; loads and flows cost what the distances say, and flows conserve."""
    rng = np.random.default_rng(seed)
    offsets, n = random_circulant(rng)
    lengths, weight = random_lengths(rng, len(offsets)), rng.random(n)
    weight[0] = 0.0
    digraph = nx.DiGraph()
    digraph.add_weighted_edges_from(
        [(v, (v + p) % n, x) for v in range(n) for p, x in zip(offsets.tolist(), lengths.tolist(), strict=True)]
    )
    lengths_to = nx.single_source_dijkstra_path_length(digraph, 0)
    expected = np.array([lengths_to[v] for v in range(n)])
    paths = routing.CirculantPaths(offsets, n)
    assert paths.distances(lengths) == pytest.approx(expected)
    load, flow = paths.loads(weight), paths.flow(weight)
    assert float(load @ lengths) == pytest.approx(float(weight @ expected))
    assert flow.sum(axis=1) == pytest.approx(load)
    assert paths.steps().shape == (len(offsets), n)
    reached, tree, tree_load = routing.circulant_tree(offsets, lengths, weight)
    assert reached
    assert float(tree_load @ lengths) == pytest.approx(float(weight @ expected))
    leaving = np.zeros((n, len(offsets)))
    routing.add_circulant_tree(offsets, tree, weight, leaving)
    assert leaving.sum(axis=0) == pytest.approx(tree_load)
    for out in (flow.T, leaving):
        coming = sum(np.roll(out[:, c], p) for c, p in enumerate(offsets.tolist()))
        assert (coming - out.sum(axis=1))[1:] == pytest.approx(weight[1:], abs=1e-9)


def test_displacements_out_of_reach() -> None:
    """Even offsets reach even displacements only."""
    offsets, lengths = np.array([2, 4]), np.ones(2)
    assert np.isinf(routing.CirculantPaths(offsets, 8).distances(lengths)).tolist() == [False, True] * 4
    assert not routing.circulant_tree(offsets, lengths, np.ones(8))[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_each_demand_takes_its_cheapest_shortest_path(seed: int) -> None:
    """Given the loads so far, no shortest path has a lower sum of fourth powers; the second time each is taken out."""
    case = Case(seed)
    hops = graph.hop_distances(case.first, case.head, case.n)
    pair = case.rng.permutation(np.flatnonzero(~np.eye(case.n, dtype=np.bool_)))
    source, target, amount = pair // case.n, pair % case.n, case.rng.lognormal(0, 1, len(pair))
    start = np.concatenate(([0], np.cumsum(hops[source, target]))).astype(np.int64)
    order, inverse, load = case.rng.permutation(len(pair)), case.rng.choice([0.5, 1.0], case.m), np.zeros(case.m)
    path, hops_to = np.zeros(start[-1], dtype=np.int64), np.ascontiguousarray(hops.T).astype(np.int32)
    number = {arc: a for a, arc in enumerate(case.arcs())}
    digraph, current = nx.DiGraph(list(number)), np.zeros(case.m)
    for reroute in (False, True):
        before = path.copy()
        routing.route_demands(
            order, source, target, amount, case.first, case.head, hops_to, inverse, load, start, path, reroute
        )
        for k in order.tolist():
            part = slice(start[k], start[k + 1])
            if reroute:
                np.subtract.at(current, before[part], amount[k])
            prices = [
                sum(((current[number[hop]] + amount[k]) * inverse[number[hop]]) ** 4 for hop in pairwise(nodes))
                for nodes in nx.all_shortest_paths(digraph, source[k], target[k])
            ]
            taken = path[part]
            assert (case.tail[taken[0]], case.head[taken[-1]]) == (source[k], target[k])
            assert np.array_equal(case.head[taken[:-1]], case.tail[taken[1:]])
            assert float((((current[taken] + amount[k]) * inverse[taken]) ** 4).sum()) == pytest.approx(min(prices))
            current[taken] += amount[k]
        assert load == pytest.approx(current)


@pytest.mark.parametrize("seed", SEEDS)
def test_tree_loads_follow_the_trees(seed: int) -> None:
    """Each pair along the arcs that lead back from its target."""
    case = Case(seed)
    order, via = graph.breadth_first_trees(case.first, case.head, case.n)
    load = np.zeros(case.m)
    for s, t in np.argwhere(case.demand > 0).tolist():
        v = t
        while v != s:
            load[via[s, v]] += case.demand[s, t]
            v = case.tail[via[s, v]]
    assert routing.tree_loads(case.tail, order, via, case.demand) == pytest.approx(load)


def _line() -> routing.Router:
    """0 -> 1 -> 2 with demand from 2 to 0, which no path serves."""
    demand = np.zeros((3, 3))
    demand[2, 0] = 1.0
    return routing.Router(np.array([0, 1, 2, 2]), np.array([1, 2]), demand, 3)


def test_what_is_refused() -> None:
    """Demand out of reach; lengths below 0; indices, numbers and shapes that do not fit; marks that go in a circle."""
    with pytest.raises(ValueError, match="no path joins"):
        _line().repaired_flow(np.ones(2), np.zeros((3, 2)))
    assert _line().total_distance(np.ones(2)) == inf
    for length in (np.array([1.0, -1.0]), np.array([1.0, np.nan])):
        with pytest.raises(ValueError, match="below 0"):
            _line().total_distance(length)
    with pytest.raises(ValueError, match="demand"):
        routing.Router(np.array([0, 1, 1]), np.array([1]), np.full((2, 2), np.nan), 2)
    with pytest.raises(ValueError, match="head"):
        routing.Router(np.array([0, 1, 1]), np.array([2]), np.zeros((2, 2)), 2)
    with pytest.raises(ValueError, match="all servers"):
        _line().copy(1).mark_near(np.ones(2), 0.0, 1, np.zeros((3, 2), dtype=np.bool_))
    with pytest.raises(ValueError, match="circulant"):
        routing.DisplacementPaths(np.array([0, 1, 1]), np.array([1, 0, 2]), 3)
    demand = np.zeros((3, 3))
    demand[0, 1] = 1.0
    circle = routing.Router(np.array([0, 1, 2, 3]), np.array([1, 2, 1]), demand, 3)
    with pytest.raises(ValueError, match="cycle"):
        circle.choices(np.array([[False, False, True], [False, True, False], [False] * 3]) | [[False, True, True]],
                       np.zeros((3, 3)))  # fmt: skip


def test_wrong_hops_are_refused() -> None:
    """Hops to a target that lead nowhere."""
    case = Case(1)
    source, target, path = np.array([0]), np.array([1]), np.zeros(3, dtype=np.int64)
    hops: Ints = np.full((case.n, case.n), 7)
    with pytest.raises(ValueError, match="hops"):
        routing.route_demands(
            np.array([0]), source, target, np.ones(1), case.first, case.head, hops.astype(np.int32),
            np.ones(case.m), np.zeros(case.m), np.array([0, 3]), path, False,
        )  # fmt: skip
