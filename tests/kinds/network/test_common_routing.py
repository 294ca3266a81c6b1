"""Routing common to a set of matrices: against enumeration, closed forms and single matrices; its proof and checker."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from solvers.network.routing import route
from solvers.network.worst_case import CommonRouting, route_in_common
from solvers.stop import Stop
from topoopt.core.errors import InfeasibleError, InputError, LimitError
from topoopt.core.network import RoutingProblem
from topoopt.core.topology import Topology
from topoopt.files.sections import make_topology
from topoopt.verify.network.checker import common_bound, common_thetas


def topology(n: int, arcs: list[tuple[int, int]]) -> Topology:
    """Arcs, repeated ones parallel."""
    return make_topology(n, np.array(arcs, dtype=np.int64), None, "test")


def random_case(seed: int, steps: int) -> tuple[Topology, np.ndarray]:
    """A ring of 3 to 5 servers with chords, matrices with gaps."""
    draw = np.random.default_rng(seed)
    n = int(draw.integers(3, 6))
    chords = [(int(i), int(j)) for i, j in draw.integers(n, size=(n, 2)) if i != j]
    demands = draw.random((steps, n, n)) * (draw.random((steps, n, n)) < 0.6)
    for matrix in demands:
        np.fill_diagonal(matrix, 0.0)
        matrix[0, 1] += 0.1
    return topology(n, [(i, (i + 1) % n) for i in range(n)] + chords), demands


def by_simple_paths(net: Topology, demands: np.ndarray) -> float:
    """The optimum by another program and another solver: shares of all simple paths of every pair (scipy)."""
    arcs = {(int(i), int(j)): a for a, (i, j) in enumerate(net.arcs)}
    graph = nx.DiGraph(list(arcs))
    pairs = [(int(s), int(t)) for s, t in np.argwhere(demands.max(axis=0) > 0)]
    ways = [(p, path) for p, (s, t) in enumerate(pairs) for path in nx.all_simple_paths(graph, s, t)]
    cost = np.append(np.zeros(len(ways)), 1.0)
    whole = np.zeros((len(pairs), len(ways) + 1))
    load = np.zeros((len(demands) * len(arcs), len(ways) + 1))
    for column, (p, path) in enumerate(ways):
        whole[p, column] = 1.0
        for arc in pairwise(path):
            for k, matrix in enumerate(demands):
                load[k * len(arcs) + arcs[arc], column] += matrix[pairs[p]]
    load[:, -1] = -np.tile(net.multiplicity, len(demands))
    answer = linprog(cost, load, np.zeros(len(load)), whole, np.ones(len(pairs)))
    return float(answer.fun)


def thetas_of(
    net: Topology, demands: NDArray[np.float64], routing: CommonRouting
) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """theta of every demand, and what is wrong, by the checker, which knows the pairs itself."""
    pairs = RoutingProblem("case", net, demands).pairs
    assert np.array_equal(pairs, routing.pairs)
    return common_thetas(net, demands, pairs, routing.split)


@given(seed=st.integers(0, 10**6), steps=st.integers(1, 4))
@settings(max_examples=25)
def test_optimum_of_all_simple_paths(seed: int, steps: int) -> None:
    """Value and proof meet the optimum over all simple paths, found by another program and solver."""
    net, demands = random_case(seed, steps)
    routing = route_in_common(net, demands)
    theta, wrong = thetas_of(net, demands, routing)
    assert not wrong
    expected = by_simple_paths(net, demands)
    assert max(theta) == pytest.approx(expected, rel=1e-6)
    bound = common_bound(net, demands, routing.prices)
    assert bound <= max(theta) * (1 + 1e-9)
    assert bound == pytest.approx(expected, rel=1e-5)
    singles = [route(net, matrix).bound for matrix in demands]
    assert max(theta) >= max(singles) * (1 - 1e-9), "never better than the worst matrix alone"
    if steps == 1:
        assert max(theta) == pytest.approx(singles[0], rel=1e-5), "a set of one is the nominal problem"


def test_grid_of_splits_agrees_on_a_diamond() -> None:
    """Two ways from 0 to 3 and a cross flow on one of them in one matrix only: every split of the grid is tried.

    0 -> 1 -> 3 and 0 -> 2 -> 3. Matrix A: 2 from 0 to 3. Matrix B: 1 from 0 to 3 and 1 from 1 to 3. With part x by way
    of 1 the thetas are max(2x, 2 - 2x) and max(x + 1, 1 - x, 1): worst max(2 - 2x, 1 + x), least at x = 1/3: 4/3.
    """
    net = topology(4, [(0, 1), (1, 3), (0, 2), (2, 3), (3, 0)])
    demands = np.zeros((2, 4, 4))
    demands[0, 0, 3], demands[1, 0, 3], demands[1, 1, 3] = 2.0, 1.0, 1.0
    grid = [max(2 * x, 2 - 2 * x, x + 1, 1 - x) for x in np.linspace(0, 1, 3001)]
    theta, _ = thetas_of(net, demands, route_in_common(net, demands))
    assert max(theta) == pytest.approx(4 / 3, rel=1e-9)
    assert min(grid) == pytest.approx(4 / 3, rel=1e-6)
    adapted = [route(net, matrix).theta for matrix in demands]
    assert adapted == pytest.approx([1.0, 1.0], rel=1e-6), "who knows the matrix does better"


def test_hull_costs_nothing() -> None:
    """Adding means of the matrices changes nothing; the routing serves them no worse than the worst."""
    net, demands = random_case(5, 3)
    worst = max(thetas_of(net, demands, route_in_common(net, demands))[0])
    more = np.concatenate((demands, [demands.mean(axis=0), (demands[0] + 3 * demands[1]) / 4]))
    again = max(thetas_of(net, more, route_in_common(net, more))[0])
    assert again == pytest.approx(worst, rel=1e-6)


def test_scaling_demand_scales_theta() -> None:
    """Twelve orders of magnitude up or down."""
    net, demands = random_case(8, 2)
    worst = max(thetas_of(net, demands, route_in_common(net, demands))[0])
    for factor in (1e-6, 1e6):
        scaled = demands * factor
        found = max(thetas_of(net, scaled, route_in_common(net, scaled))[0])
        assert found == pytest.approx(worst * factor, rel=1e-6)


def test_pairs_of_a_matrix_that_never_matters_are_routed() -> None:
    """Tiny matrices do not enter the program; their pairs still have a way."""
    net = topology(5, [(i, (i + 1) % 5) for i in range(5)])
    demands = np.zeros((6, 5, 5))
    demands[:5, 0, 1] = np.arange(5, 10)
    demands[5, 2, 1] = 1e-3
    theta, wrong = thetas_of(net, demands, route_in_common(net, demands))
    assert not wrong
    assert theta == pytest.approx((5.0, 6.0, 7.0, 8.0, 9.0, 1e-3), rel=1e-6)


def test_the_checker_rejects_what_is_no_routing() -> None:
    """Lost traffic, a negative part, a pair left out, parts of another network."""
    net, demands = random_case(3, 2)
    routing = route_in_common(net, demands)
    lost = routing.split.copy()
    lost[0] *= 0.5
    negative = routing.split.copy()
    negative[0, 0] -= 2.0
    for broken in (
        lost,
        negative,
        routing.split[1:],
        routing.split[:, :-1],
    ):
        assert common_thetas(net, demands, routing.pairs, broken)[1]


def test_prices_prove_only_what_they_prove() -> None:
    """Any prices give a bound that no routing beats; bad ones are refused; without a way there is none."""
    net, demands = random_case(4, 3)
    worst = max(thetas_of(net, demands, route_in_common(net, demands))[0])
    draw = np.random.default_rng(0)
    for _ in range(50):
        prices = draw.exponential(size=(3, len(net.arcs))) * (draw.random((3, len(net.arcs))) < 0.5)
        prices[0, 0] += 1e-6
        assert common_bound(net, demands, prices) <= worst * (1 + 1e-9)
    for prices in (np.zeros((3, len(net.arcs))), np.full((3, len(net.arcs)), -1.0), np.full((3, 1), 1.0)):
        with pytest.raises(InputError, match="prices"):
            common_bound(net, demands, prices)
    with pytest.raises(InputError, match="prices"):
        common_bound(net, demands, np.full((3, len(net.arcs)), np.nan))
    cut = replace(net, arcs=net.arcs[net.arcs[:, 1] != 1], multiplicity=net.multiplicity[net.arcs[:, 1] != 1])
    with pytest.raises(InfeasibleError):
        common_bound(cut, demands, np.ones((3, len(cut.arcs))))


def test_bound_by_hand() -> None:
    """Two servers, a link each way, two matrices 0 -> 1 of 1 and 3: price 1 on 0 -> 1 in the second proves 3."""
    net = topology(2, [(0, 1), (1, 0)])
    demands = np.zeros((2, 2, 2))
    demands[:, 0, 1] = 1.0, 3.0
    assert common_bound(net, demands, np.array([[0.0, 0.0], [1.0, 0.0]])) == pytest.approx(3.0, rel=1e-12)
    assert common_bound(net, demands, np.array([[1.0, 0.0], [1.0, 0.0]])) == pytest.approx(2.0, rel=1e-12)


def test_limits() -> None:
    """No time at all: an error of its own. Too large: refused with the way out."""
    net, demands = random_case(1, 2)
    with pytest.raises(LimitError):
        route_in_common(net, demands, stop=Stop(deadline=0.0))
    n = 64
    large = topology(n, [(i, (i + step) % n) for i, step in product(range(n), (1, 5))])
    with pytest.raises(InputError, match="too large"):
        route_in_common(large, np.ones((1, n, n)) - np.eye(n))
