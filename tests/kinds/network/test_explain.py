"""Explanations held against networks whose bottleneck is plain to see, and against linear programs by scipy."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from solvers.stop import Stop
from tests.support.network_cases import NetworkResult, on_network
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import CheckError
from topoopt.core.network import RoutingProblem, TopologyProblem
from topoopt.core.topology import Topology
from topoopt.kinds.network.explain import (
    NetworkExplanation,
    explain_network,
    explanation_lines,
    find_bottleneck,
    server_list,
    with_more,
)
from topoopt.kinds.pipeline import solve

Array = np.ndarray


def network(n: int, arcs: list[tuple[int, int]], *, both: bool = False) -> Topology:
    """Arcs, repeated for parallel links; both ways for fibre pairs."""
    listed = sorted([*arcs, *((j, i) for i, j in arcs)] if both else arcs)
    counts = {arc: listed.count(arc) for arc in listed}
    return Topology(
        servers=n,
        degree=n,
        links=LinkDirection.BIDIRECTIONAL if both else LinkDirection.UNIDIRECTIONAL,
        arcs=np.array(sorted(counts), dtype=np.int32),
        multiplicity=np.array([counts[arc] for arc in sorted(counts)], dtype=np.int32),
        switches=np.full((n, n), -1, dtype=np.int32),
    )


def uniform(n: int) -> Array:
    """A unit between every ordered pair."""
    return np.ones((n, n)) - np.eye(n)


def explained(topology: Topology, demand: Array, **options: object) -> NetworkExplanation:
    """Solved, and explained from the solution alone."""
    return explain_network(solve(RoutingProblem("case", topology, demand)), **options)  # type: ignore[arg-type]


def clique(servers: range) -> list[tuple[int, int]]:
    """All pairs of some servers."""
    return [(i, j) for i in servers for j in servers if i < j]


def dumbbell(half: int) -> Topology:
    """Two complete groups of `half` servers, one fibre pair between them."""
    return network(2 * half, [*clique(range(half)), *clique(range(half, 2 * half)), (half - 1, half)], both=True)


def scipy_theta(topology: Topology, demand: Array) -> float:
    """The concurrent-flow program, built here once more, pair by pair."""
    n, arcs = topology.servers, topology.arcs.tolist()
    pairs = [(s, t) for s in range(n) for t in range(n) if demand[s, t] > 0]
    columns = len(pairs) * len(arcs) + 1
    equal, right = [], []
    for k, (s, t) in enumerate(pairs):
        for v in range(n):
            if v == t:
                continue
            row = np.zeros(columns)
            for a, (i, j) in enumerate(arcs):
                row[k * len(arcs) + a] = (i == v) - (j == v)
            equal.append(row)
            right.append(demand[s, t] if v == s else 0.0)
    fit = np.zeros((len(arcs), columns))
    for a in range(len(arcs)):
        fit[a, a : columns - 1 : len(arcs)] = 1.0
    fit[:, -1] = -topology.multiplicity
    cost = np.zeros(columns)
    cost[-1] = 1.0
    return float(linprog(cost, A_ub=fit, b_ub=np.zeros(len(arcs)), A_eq=np.array(equal), b_eq=right).fun)


@pytest.mark.parametrize("half", [3, 4])
def test_dumbbell(half: int) -> None:
    """half^2 units cross one link each way; a second link halves theta, one way alone gains nothing."""
    found = explained(dumbbell(half), uniform(2 * half))
    theta = float(half * half)
    assert found.theta == pytest.approx(theta)
    cuts = {cut.senders: (cut.demand, cut.capacity) for cut in found.bottleneck.cuts}
    left, right = tuple(range(half)), tuple(range(half, 2 * half))
    assert cuts[left] == cuts[right] == (theta, 1)
    arcs = found.solution.figures.topology.arcs
    assert {tuple(arcs[a].tolist()) for a in found.bottleneck.arcs} == {(half - 1, half), (half, half - 1)}
    assert len(found.payments) == 2 * half * half
    assert all((pay[0] < half) != (pay[1] < half) for pay in found.payments)
    assert found.single is not None
    assert found.single.theta == pytest.approx(theta)
    assert found.everywhere.theta == pytest.approx(theta / 2)
    assert found.everywhere.predicted == pytest.approx(theta / 2)
    best = found.links[0][0]
    assert (best.predicted, best.theta) == (pytest.approx(theta / 2), pytest.approx(theta / 2))
    assert (best.pairs[0][0] < half) != (best.pairs[0][1] < half)
    assert found.links[2]
    assert found.links[1] == half * (2 * half - 1)
    assert not found.late


def test_one_way_cut_is_named() -> None:
    """Six units from 0, 1 to 2, 3 over three links, as straight as they come: one cut, two pairs, its two arcs."""
    demand = np.zeros((4, 4))
    demand[0, 2], demand[1, 3] = 2.0, 4.0
    topology = network(4, [(0, 1), (1, 0), (0, 2), (1, 3), (1, 3), (2, 3), (3, 2), (2, 0)])
    found = explained(topology, demand)
    cut = found.bottleneck.cuts[0]
    assert (cut.senders, cut.demand, cut.capacity) == ((0, 1), 6.0, 3)
    assert found.theta == pytest.approx(2.0)
    assert {(pay[0], pay[1]) for pay in found.payments} == {(0, 2), (1, 3)}
    text = " ".join(explanation_lines(found))
    assert "the cut from servers 0-1 to servers 2-3 (2 arcs: 0 → 2, 1 → 3), 6 of demand over a capacity of 3" in text


def test_star_is_limited_at_a_server() -> None:
    """A server that sends 6 over two links: the cut around it alone."""
    demand = np.zeros((4, 4))
    demand[0, 1] = demand[0, 2] = demand[0, 3] = 2.0
    found = explained(network(4, [(0, 1), (0, 2), (1, 3), (2, 3), (3, 0), (1, 2), (2, 1)]), demand)
    assert found.bottleneck.cuts[0].senders == (0,)
    assert found.theta == pytest.approx(3.0)
    assert found.links[0][0].theta == pytest.approx(2.0)
    assert found.links[0][0].pairs[0][0] == 0
    assert "Bottleneck: what leaves server 0 (2 arcs: 0 → 1, 0 → 2), 6 of demand" in explanation_lines(found)[1]


@pytest.mark.parametrize("n", [3, 5, 8])
def test_directed_ring(n: int) -> None:
    """Every link is tight: n (n-1) / 2 units each; one more link on one arc gains nothing, one on all of them half."""
    found = explained(network(n, [(i, (i + 1) % n) for i in range(n)]), uniform(n), checks=2)
    theta = n * (n - 1) / 2
    assert found.theta == pytest.approx(theta)
    assert len(found.bottleneck.arcs) == n
    assert found.bottleneck.hop_total == pytest.approx(n * theta)
    assert len(found.payments) == n * (n - 1)
    assert found.single is not None
    assert found.single.theta == pytest.approx(theta)
    assert found.everywhere.theta == pytest.approx(theta / 2)
    assert "all" in explanation_lines(found)[1]


def test_complete_bipartite() -> None:
    """K4,4, uniform: lambda 0.4 (table of the spec), all 32 arcs; a quarter of a link on each gives 2.5 / 1.25."""
    sides = network(8, [(i, j) for i in range(4) for j in range(4, 8)], both=True)
    found = explained(sides, uniform(8), added=Fraction(1, 4), checks=3)
    assert found.theta == pytest.approx(2.5)
    assert len(found.bottleneck.arcs) == 32
    assert found.bottleneck.hop_total == pytest.approx(8 * (4 + 2 * 3))
    assert found.everywhere.theta == pytest.approx(2.0)
    for gain in found.links[0][:1]:
        changed = with_more(sides, gain.pairs, Fraction(1))
        assert gain.theta == pytest.approx(scipy_theta(changed, uniform(8)), rel=1e-6)


def test_scaling_demand_scales_everything_but_the_place() -> None:
    """Ten times the demand: ten times theta, predictions and checks, at the same positions."""
    one, ten = (explained(dumbbell(3), factor * uniform(6), checks=2) for factor in (1.0, 10.0))
    assert ten.theta == pytest.approx(10 * one.theta)
    assert [cut.senders for cut in ten.bottleneck.cuts] == [cut.senders for cut in one.bottleneck.cuts]
    assert ten.everywhere.theta == pytest.approx(10 * (one.everywhere.theta or 0.0))
    assert ten.links[0][0].predicted == pytest.approx(10 * one.links[0][0].predicted)


@given(st.integers(0, 10**6), st.integers(3, 5))
@settings(max_examples=12)
def test_predictions_are_floors_and_best_positions_are_best(seed: int, n: int) -> None:
    """On random networks no prediction is beaten; when the best position is proven, brute force by scipy agrees."""
    rng = np.random.default_rng(seed)
    there = (rng.random((n, n)) < 0.3) | np.roll(np.eye(n, dtype=bool), 1, axis=1)
    np.fill_diagonal(there, False)
    topology = network(n, [(int(i), int(j)) for i, j in np.argwhere(there)])
    demand = rng.integers(0, 4, (n, n)) * (1.0 - np.eye(n))
    demand[0, 1] = 2.0
    found = explained(topology, demand, checks=30)
    assert found.theta == pytest.approx(scipy_theta(topology, demand), rel=1e-6)
    assert found.bottleneck.bound <= found.theta * (1 + 1e-9)
    after = {
        (i, j): scipy_theta(with_more(topology, ((i, j),), Fraction(1)), demand)
        for i in range(n)
        for j in range(n)
        if i != j
    }
    assert found.links[1] == len(after)
    assert found.links[2]
    assert found.links[0][0].theta == pytest.approx(min(after.values()), rel=1e-5)
    for gain in found.links[0]:
        assert gain.predicted <= after[gain.pairs[0]] * (1 + 1e-6)
        assert gain.theta is None or gain.theta == pytest.approx(after[gain.pairs[0]], rel=1e-5)
    assert found.everywhere.predicted <= (found.everywhere.theta or np.inf) * (1 + 1e-9)


def broken(solution: NetworkResult, what: str) -> NetworkResult:
    """A solution with one thing wrong."""
    if what == "flow":
        flow = solution.plan.flows[0].flow.copy()
        flow[0] = 0.0
        flow[0, -1] = 1.0  # out of a server that got nothing
        return on_network(solution, flow=flow)
    if what == "theta":
        return replace(solution, objective=replace(solution.objective, value=solution.figures.theta * 0.9))
    return on_network(solution, lengths=np.arange(len(solution.figures.topology.arcs), dtype=float))


@pytest.mark.parametrize("what", ["flow", "theta", "lengths"])
def test_what_does_not_hold_is_not_explained(what: str) -> None:
    """A flow that is none, a wrong theta, lengths that prove less than stated: refused."""
    problem = RoutingProblem("case", dumbbell(2), uniform(4))
    solution = broken(solve(problem), what)
    with pytest.raises(CheckError):
        explain_network(solution)


def test_another_demand_is_refused() -> None:
    """A routing of one demand explains no other."""
    problem = RoutingProblem("case", dumbbell(2), uniform(4))
    with pytest.raises(CheckError):
        explain_network(replace(solve(problem), problem=replace(problem, demand=2 * uniform(4))))


def test_no_time_leaves_predictions_alone() -> None:
    """Limit 0: nothing routed again, and said so; predictions stand."""
    found = explained(dumbbell(2), uniform(4), stop=Stop().within(0.0))
    assert found.late
    assert found.everywhere.theta is None
    assert all(gain.theta is None for gain in found.links[0])
    assert found.links[0][0].predicted == pytest.approx(2.0)
    assert "not checked" in " ".join(explanation_lines(found))


@pytest.mark.parametrize(("n", "d", "now", "then"), [(5, 2, 3.0, 1 / 0.6), (6, 2, 4.2, 7 / 3)])
def test_one_more_interface(n: int, d: int, now: float, then: float) -> None:
    """Known optima of uniform demand (lambda 1/3 and 0.6 at n = 5, 0.238095 and 0.428571 at n = 6), d = 2 and 3."""
    problem = TopologyProblem("case", n, d, LinkDirection.UNIDIRECTIONAL, uniform(n))
    found = explain_network(solve(problem), checks=0)
    assert found.theta == pytest.approx(now, rel=1e-5)
    assert found.degree is not None
    assert found.degree.theta == pytest.approx(then, rel=1e-5)
    assert found.degree.optimal
    assert found.degree.more_bounds[0].value <= then * (1 + 1e-6)
    assert found.degree.bounds[0].value <= now * (1 + 1e-6)
    assert found.degree.node[2] == pytest.approx(n - 1)


def test_two_servers() -> None:
    """Two servers, three units over one link: 3, then 3/2 with a second link, and with a second interface."""
    problem = TopologyProblem("case", 2, 1, LinkDirection.BIDIRECTIONAL, np.array([[0.0, 3.0], [1.0, 0.0]]))
    found = explain_network(solve(problem))
    assert found.bottleneck.cuts[0].senders == (0,)
    assert found.links[0][0].theta == pytest.approx(1.5)
    assert found.degree is not None
    assert found.degree.theta == pytest.approx(1.5)


def test_forbidden_pairs_get_no_link() -> None:
    """With the instance at hand, what it forbids is no candidate, and single links stay single."""
    problem = TopologyProblem(
        "case", 4, 2, LinkDirection.UNIDIRECTIONAL, uniform(4), forbidden=((0, 3),), parallel_links=False
    )
    solution = solve(problem)
    found = explain_network(solution, checks=0)
    assert found.links[1] == 12 - 1 - len(solution.figures.topology.arcs)


def test_lengths_with_dust_are_cleaned() -> None:
    """A little length everywhere, as first-order solvers leave it, does not hide the two links that matter."""
    topology = dumbbell(3)
    lengths = np.full(len(topology.arcs), 1e-9)
    lengths[[a for a, (i, j) in enumerate(topology.arcs.tolist()) if {i, j} == {2, 3}]] = 1.0
    found = find_bottleneck(topology, uniform(6), lengths)
    assert len(found.arcs) == 2
    assert found.bound == pytest.approx(9.0)


def test_rates_are_given_where_known() -> None:
    """100 Gbit/s is a quarter of a 400 Gbit/s link: 16 / 1.25; amounts are said in Gbit/s."""
    problem = RoutingProblem("case", dumbbell(4), uniform(8), link_gbps=400.0)
    found = explain_network(solve(problem), checks=0)
    assert found.everywhere.added == Fraction(1, 4)
    assert found.everywhere.theta == pytest.approx(12.8)
    text = "\n".join(explanation_lines(found))
    assert "6400 Gbit/s of demand over a capacity of 400 Gbit/s" in text
    assert "0.25 links (100 Gbit/s) more capacity" in text


def test_servers_in_words() -> None:
    """Runs are shortened."""
    assert server_list([3]) == "server 3"
    assert server_list([7, 0, 1, 2]) == "servers 0-2, 7"
