"""Routing on a fixed topology: known optima, all methods against each other and brute force, refusals."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from solvers.network.routing import ROUTING_METHODS, route
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.proofs import Status, StopReason
from topoopt.core.topology import Topology
from topoopt.verify.laws.routing import certified_theta_bound, check_flow, exact_theta_bound

EXACT = ("simplex", "ipx", "softmin")


def directed(n: int, arcs: list[tuple[int, int]]) -> Topology:
    """Topology of a list of arcs, repeated ones being parallel links."""
    pairs, counts = np.unique(np.array(arcs, dtype=np.int32), axis=0, return_counts=True)
    degree = int(np.bincount([a for a, _ in arcs], minlength=n).max())
    switches = np.full((degree, n), -1, dtype=np.int32)
    return Topology(n, degree, LinkDirection.UNIDIRECTIONAL, pairs, counts.astype(np.int32), switches)


def both_ways(graph: nx.Graph) -> Topology:
    """Topology with two arcs for each edge."""
    plain = nx.convert_node_labels_to_integers(graph)
    return directed(len(plain), [*plain.edges, *((v, u) for u, v in plain.edges)])


def uniform(n: int) -> NDArray[np.float64]:
    """One unit between every ordered pair."""
    return np.ones((n, n)) - np.eye(n)


def random_case(seed: int, n: int, degree: int) -> tuple[Topology, NDArray[np.float64]]:
    """A ring and random permutations; skewed demand, some of it absent."""
    rng = np.random.default_rng(seed)
    arcs = [(i, (i + 1) % n) for i in range(n)]
    for _ in range(degree - 1):
        arcs += [(i, int(j)) for i, j in enumerate(rng.permutation(n)) if i != j]
    demand = rng.lognormal(0, 1.5, (n, n)) * (rng.random((n, n)) < 0.8)
    np.fill_diagonal(demand, 0)
    demand[0, 1] += 1.0
    return directed(n, arcs), demand


def theta_over_all_paths(topology: Topology, demand: NDArray[np.float64]) -> float:
    """Least theta by listing every simple path of every pair and solving with scipy: shares no code with ours."""
    graph = nx.DiGraph([tuple(arc) for arc in topology.arcs.tolist()])
    ids = topology.arc_ids()
    pairs = [(int(i), int(j)) for i, j in np.argwhere(demand > 0)]
    columns = [(k, path) for k, (i, j) in enumerate(pairs) for path in nx.all_simple_paths(graph, i, j)]
    use = np.zeros((len(topology.arcs), len(columns) + 1))
    split = np.zeros((len(pairs), len(columns) + 1))
    for column, (k, path) in enumerate(columns):
        split[k, column] = 1
        for u, v in itertools.pairwise(path):
            use[ids[u, v], column] += demand[pairs[k]]
    use[:, -1] = -topology.multiplicity
    cost = np.zeros(len(columns) + 1)
    cost[-1] = 1
    answer = linprog(cost, A_ub=use, b_ub=np.zeros(len(use)), A_eq=split, b_eq=np.ones(len(pairs)), method="highs")
    return float(answer.fun)


KNOWN = {
    "K4,4": (nx.complete_bipartite_graph(4, 4), 0.4),
    "hypercube-3": (nx.hypercube_graph(3), 1 / 4),
    "hypercube-4": (nx.hypercube_graph(4), 1 / 8),
    "torus 3x3": (nx.grid_graph([3, 3], periodic=True), 1 / 3),
    "torus 4x4": (nx.grid_graph([4, 4], periodic=True), 1 / 8),
    "C(12,{2,3})": (nx.circulant_graph(12, [2, 3]), 3 / 14),
}


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("name", KNOWN)
def test_known_all_to_all_optima(name: str, method: str) -> None:
    """All-to-all throughput of named graphs (published optima), by five methods, with exact proofs."""
    graph, throughput = KNOWN[name]
    topology = both_ways(graph)
    result = route(topology, uniform(topology.servers), method=method)
    assert result.throughput == pytest.approx(throughput, rel=1e-7)
    assert result.status is Status.OPTIMAL
    proven = certified_theta_bound(topology, uniform(topology.servers), result.certificate.lengths)
    assert proven == pytest.approx(1 / throughput, rel=1e-6)


@pytest.mark.parametrize(("method", "accuracy"), [("pdlp", 1e-3), ("frank-wolfe", 1e-2), ("softmin", 5e-3)])
@pytest.mark.parametrize("name", KNOWN)
def test_first_order_methods_reach_known_optima(name: str, method: str, accuracy: float) -> None:
    """PDLP, Frank-Wolfe and softmin bracket the published optima within the accuracy they claim."""
    graph, throughput = KNOWN[name]
    topology = both_ways(graph)
    result = route(topology, uniform(topology.servers), method=method, accuracy=accuracy)
    assert result.bound <= 1 / throughput * (1 + 1e-12)
    assert 1 / throughput <= result.theta * (1 + 1e-12)
    assert result.gap <= accuracy
    assert result.stopped_by is StopReason.GAP


@given(st.integers(0, 10**6), st.integers(3, 6), st.integers(1, 3))
@settings(max_examples=12)
def test_methods_agree_with_all_paths(seed: int, n: int, degree: int) -> None:
    """bound <= brute force over all simple paths <= theta for every method, and equality for the exact ones."""
    topology, demand = random_case(seed, n, degree)
    truth = theta_over_all_paths(topology, demand)
    for method in ROUTING_METHODS:
        if method == "orbits":
            continue
        result = route(topology, demand, method=method, accuracy=1e-7)
        check = check_flow(topology, demand, result.flow)
        assert check.violations == ()
        assert check.theta == pytest.approx(result.theta, rel=1e-12)
        assert truth <= result.theta * (1 + 1e-9)
        assert result.bound <= truth * (1 + 1e-9)
        assert float(exact_theta_bound(topology, demand, result.certificate.lengths)) <= truth * (1 + 1e-9)
        if method in EXACT:
            assert result.theta == pytest.approx(truth, rel=1e-6)
            assert result.bound == pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize("method", ["pdlp", "frank-wolfe", "softmin", "ipx"])
def test_larger_networks_agree_with_simplex(method: str) -> None:
    """At n = 24 every method's interval holds the simplex optimum; certificates are re-evaluated by the verifier."""
    topology, demand = random_case(7, 24, 4)
    truth = route(topology, demand, method="simplex").theta
    result = route(topology, demand, method=method, accuracy=1e-2)
    assert result.bound <= truth * (1 + 1e-9)
    assert truth <= result.theta * (1 + 1e-9)
    assert check_flow(topology, demand, result.flow).ok
    again = certified_theta_bound(topology, demand, result.certificate.lengths)
    assert again == pytest.approx(result.bound, rel=1e-9)


def test_one_path_closed_form() -> None:
    """On a directed ring everything has one path: theta is the busiest arc's load, summed by hand."""
    n = 7
    topology = directed(n, [(i, (i + 1) % n) for i in range(n)])
    result = route(topology, uniform(n))
    assert result.theta == pytest.approx(n * (n - 1) / 2)
    assert result.method == "orbits"


def test_parallel_links_share_the_load() -> None:
    """Two parallel links halve the utilisation."""
    topology = directed(2, [(0, 1), (0, 1), (1, 0)])
    demand = np.array([[0.0, 6.0], [2.0, 0.0]])
    assert route(topology, demand).theta == pytest.approx(3.0)


@pytest.mark.parametrize("method", ["frank-wolfe", "softmin"])
def test_time_limit_still_gives_a_proven_answer(method: str) -> None:
    """With no time at all, a method returns a conserving flow, a valid bound and the reason it stopped."""
    topology, demand = random_case(3, 40, 4)
    result = route(topology, demand, method=method, accuracy=1e-9, time_limit_s=0.0)
    assert check_flow(topology, demand, result.flow).ok
    assert result.stopped_by is StopReason.TIME
    assert result.bound <= result.theta


@pytest.mark.parametrize("method", ["simplex", "ipx", "pdlp"])
def test_solver_cut_short_leaves_a_flow(method: str) -> None:
    """A solver that ends without a solution still leaves a routing over short paths."""
    topology, demand = random_case(3, 40, 4)
    result = route(topology, demand, method=method, time_limit_s=1e-9)
    assert check_flow(topology, demand, result.flow).ok
    assert 0 < result.bound <= result.theta


def test_same_call_gives_the_same_bytes() -> None:
    """No hidden state: two calls agree to the last bit."""
    topology, demand = random_case(5, 16, 3)
    for method in ("frank-wolfe", "softmin", "pdlp"):
        first, second = (route(topology, demand, method=method, accuracy=1e-2) for _ in range(2))
        assert first.flow.flow.tobytes() == second.flow.flow.tobytes()


@pytest.mark.parametrize(
    ("demand", "words"),
    [
        (np.zeros((3, 3)), "no demand"),
        (np.ones((2, 2)), "shape"),
        (np.eye(3), "to itself"),
        (np.array([[0, -1.0, 1], [1, 0, 1], [1, 1, 0]]), "negative"),
        (np.array([[0, np.nan, 1], [1, 0, 1], [1, 1, 0]]), "finite"),
        (np.array([[0, np.inf, 1], [1, 0, 1], [1, 1, 0]]), "finite"),
    ],
)
def test_bad_demand_is_refused(demand: NDArray[np.float64], words: str) -> None:
    """Zero, misshapen, self, negative, NaN and infinite demand each have a clear error."""
    with pytest.raises(InputError, match=words):
        route(directed(3, [(0, 1), (1, 2), (2, 0)]), demand)


def test_all_issues_are_listed_at_once() -> None:
    """Unknown server, self-link and negative demand are reported together."""
    demand = uniform(3)
    demand[0, 1] = -2
    with pytest.raises(InputError) as caught:
        route(directed(3, [(0, 1), (1, 1), (2, 7)]), demand)
    assert len(caught.value.problems) == 3


def test_unreachable_pair_is_infeasible() -> None:
    """A pair no path joins is named; without demand between them it does not matter."""
    topology = directed(3, [(0, 1), (1, 2)])
    with pytest.raises(InfeasibleError, match="1 -> 0"):
        route(topology, uniform(3))
    demand = np.array([[0.0, 1, 2], [0, 0, 3], [0, 0, 0]])
    assert route(topology, demand).theta == pytest.approx(5.0)


def test_unknown_method_and_misfit_are_refused() -> None:
    """The method must be in the table, and `orbits` must fit the problem."""
    topology, demand = random_case(1, 6, 2)
    with pytest.raises(InputError, match="unknown routing method"):
        route(topology, demand, method="cplex")
    with pytest.raises(InputError, match="that a group keeps"):
        route(topology, demand, method="orbits")
