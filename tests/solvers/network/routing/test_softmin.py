"""Routing by lengths of links: its parts by hand, and its accuracy where that is reached without another method."""

from __future__ import annotations

import importlib

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations import mixtures
from solvers.backends.backend import SolverLimits
from solvers.backends.table import solver_named
from solvers.network.flows import RoutingProof, network_of
from solvers.network.routing import automatic, route
from solvers.network.softmin import Curvature
from tests.solvers.network.routing.test_routing_methods import both_ways, directed, random_case, uniform
from topoopt.core.arrays import Floats
from topoopt.core.errors import LimitError
from topoopt.native import routing
from topoopt.verify.laws.routing import certified_theta_bound, check_flow

softmin = importlib.import_module("solvers.network.softmin")
"""The module; the package has its function under this name."""

TWO_WAYS = [(0, 1), (1, 3), (0, 2), (2, 3), (3, 0)]


def soft(
    n: int, arcs: list[tuple[int, int]], demand: Floats, lengths: Floats, softness: float
) -> tuple[float, float, Floats, Floats]:
    """sum D d, sum D phi, loads and flow."""
    net = network_of(directed(n, arcs), demand)
    flow = np.zeros((n, len(arcs)))
    router = routing.Router(net.first, net.head, demand, n)
    hard, smooth, load = router.soft_loads(lengths, softness, 1.0, 1.0, 0, n, flow)
    return hard, smooth, load, flow


def test_two_ways_share_as_the_logit_says() -> None:
    """Lengths 2 and 2.1, softness 0.1: shares 1/(1 + e^-1) and the rest, phi = 2 - 0.1 log(1 + e^-1)."""
    demand = np.zeros((4, 4))
    demand[0, 3] = 3.0
    lengths = np.array([1.0, 1.1, 1.0, 1.0, 1.0])  # arcs sorted: 01, 02, 13, 23, 30
    hard, smooth, load, flow = soft(4, TWO_WAYS, demand, lengths, 0.1)
    first = 1.0 / (1.0 + np.exp(-1.0))
    assert hard == pytest.approx(6.0)
    assert smooth == pytest.approx(3.0 * (2.0 - 0.1 * np.log(1.0 + np.exp(-1.0))))
    assert load == pytest.approx([3 * first, 3 * (1 - first), 3 * first, 3 * (1 - first), 0.0])
    assert flow[0] == pytest.approx(load)
    assert not flow[1:].any()


@given(st.integers(0, 10**6), st.integers(4, 9), st.integers(2, 3))
@settings(max_examples=30)
def test_loads_are_the_slope(seed: int, n: int, degree: int) -> None:
    """Finite differences of sum D phi by lengths, at lengths where no two distances are near each other."""
    topology, demand = random_case(seed, n, degree)
    arcs = [(int(a), int(b)) for a, b in topology.arcs]
    lengths = np.random.default_rng(seed).uniform(1.0, 2.0, len(arcs))
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([(a, b, x) for (a, b), x in zip(arcs, lengths.tolist(), strict=True)])
    distances = [sorted(nx.single_source_dijkstra_path_length(graph, s).values()) for s in range(n)]
    if min(float(np.diff(row).min()) for row in distances) < 1e-3:
        return
    _, _, load, flow = soft(n, arcs, demand, lengths, 0.2)
    for a in range(len(arcs)):
        step = np.zeros(len(arcs))
        step[a] = 1e-5
        above, below = (soft(n, arcs, demand, lengths + sign * step, 0.2)[1] for sign in (1, -1))
        # paths that are late by more than the cut are left out: 1e-8 of the demand
        assert (above - below) / 2e-5 == pytest.approx(load[a], rel=1e-5, abs=1e-5 * demand.sum())
    for s in range(n):
        arrived = sum((flow[s, a] * (np.eye(n)[v] - np.eye(n)[u]) for a, (u, v) in enumerate(arcs)), np.zeros(n))
        assert np.delete(arrived, s) == pytest.approx(np.delete(demand[s], s), abs=1e-12 * demand.sum())


def test_exponentials_and_logarithms_are_those_of_numpy() -> None:
    """Two paths, the second late by so many units of the softness: 1e-12 for each exponential, nothing after 18."""
    demand = np.zeros((4, 4))
    demand[0, 3] = 1.0
    for late in (0.0, 1e-9, 0.3, 1.0, 5.0, 12.7, 17.999, 18.001, 40.0):
        lengths = np.array([1.0, 1.0, 1.0, 1.0 + late, 1.0])  # arcs sorted: 01, 02, 13, 23, 30
        hard, smooth, load, _ = soft(4, TWO_WAYS, demand, lengths, 1.0)
        other = np.exp(2.0 - (lengths[1] + lengths[3])) if late < 18 else 0.0
        assert load[1] == pytest.approx(other / (1.0 + other), rel=2e-12, abs=0.0)
        assert hard - smooth == pytest.approx(np.log(1.0 + other), rel=0.0, abs=4e-12)


def test_chains_of_choices_multiply() -> None:
    """k diamonds in a row give 2^k equal paths: the logarithm of their number, and half of the demand on each arc."""
    for k in (1, 5, 30):
        hops = ((0, 1), (1, 3), (0, 2), (2, 3))
        arcs = [(3 * i + a, 3 * i + b) for i in range(k) for a, b in hops]
        demand = np.zeros((3 * k + 1, 3 * k + 1))
        demand[0, -1] = 1.0
        hard, smooth, load, _ = soft(3 * k + 1, arcs, demand, np.ones(4 * k), 0.1)
        assert hard - smooth == pytest.approx(0.1 * k * np.log(2.0), rel=1e-11)
        assert load == pytest.approx(np.full(4 * k, 0.5), rel=1e-12)


def test_the_mixture_of_two_routings() -> None:
    """Utilisations (1, 0) and (0, 0.5): a third of the first gives 1/3 on both, with prices 1/3 and 2/3."""
    answer = solver_named("highs-simplex")(
        mixtures.mixture_arrays(np.array([[1.0, 0.0], [0.0, 0.5]])), SolverLimits(), {}
    )
    assert answer.raw_x == pytest.approx([1 / 3, 2 / 3, 1 / 3])
    assert answer.row_dual is not None
    assert np.abs(answer.row_dual[1:]) == pytest.approx([1 / 3, 2 / 3])


def test_directions_are_those_of_newton_on_a_parabola() -> None:
    """After steps along all axes of x.A x / 2, L-BFGS points to the minimum."""
    bend = np.array([4.0, 1.0, 0.25])
    known, x = Curvature(), np.array([1.0, -2.0, 3.0])
    for axis in np.eye(3):
        known.add(axis, bend * axis)
    assert x + known.direction(bend * x, 1.0) == pytest.approx(np.zeros(3), abs=1e-12)
    known.scale(2.0)
    assert known.direction(bend * x, 1.0) == pytest.approx(-x / 2)
    known.add(np.ones(3), -np.ones(3))
    assert len(known.pairs) == 3
    known.forget()
    assert known.direction(bend * x, 0.5) == pytest.approx(-bend * x / 2)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_tenth_of_a_percent_is_proven(seed: int, scale: float) -> None:
    """Random regular networks of 128 servers in both kinds, with demand of any size; the checker agrees."""
    links = [(i, int(j)) for p in range(4) for i, j in enumerate(np.random.default_rng(10 * seed + p).permutation(128))]
    for topology in (
        directed(128, [(a, b) for a, b in links if a != b] + [(i, (i + 1) % 128) for i in range(128)]),
        both_ways(nx.random_regular_graph(4, 128, seed=seed)),
    ):
        demand = scale * uniform(128)
        result = route(topology, demand, method="softmin", accuracy=1e-3)
        assert result.gap <= 1e-3
        check = check_flow(topology, demand, result.flow)
        assert check.violations == ()
        assert check.theta == pytest.approx(result.theta, rel=1e-12)
        assert certified_theta_bound(topology, demand, result.certificate.lengths) == pytest.approx(result.bound)


def test_a_step_too_far_is_no_point() -> None:
    """Lengths from 1 to e^-30 at a softness of most of them: minima fall below 0, which no logarithm takes."""
    network = network_of(both_ways(nx.random_regular_graph(4, 32, seed=1)), uniform(32))
    search = softmin._Search(RoutingProof(network, 1e-3))
    search.softness, search.barrier = 5.0, 0.002
    found = search._at(np.linspace(0.0, -30.0, len(network.head)))
    assert found.value == np.inf
    assert not found.slope.any()
    assert search._step(found, found.slope) is None


def test_huge_networks_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without time nothing is offered; with time for little, one routing that conserves."""
    monkeypatch.setattr(softmin, "_HUGE", 0)
    topology, demand = random_case(3, 40, 4)
    with pytest.raises(LimitError, match="before a routing was found"):
        route(topology, demand, method="softmin", time_limit_s=0.0)
    result = route(topology, demand, method="softmin", accuracy=1e-2)
    assert check_flow(topology, demand, result.flow).ok


@pytest.mark.parametrize(
    ("entries", "accuracy", "last"), [(12_000, 1e-6, "softmin"), (0, 1e-3, "pdlp"), (0, 1e-6, "ipx")]
)
def test_demand_of_few_pairs_is_proven(
    entries: int, accuracy: float, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`auto` proves it over nearly shortest paths, and by the whole linear program where these are too many."""
    monkeypatch.setattr(softmin, "_FEW_ENTRIES", entries)
    rng = np.random.default_rng(4)
    topology = both_ways(nx.random_regular_graph(4, 64, seed=4))
    demand = np.zeros((64, 64))
    demand[np.arange(64), (np.arange(64) + 1 + rng.integers(0, 62, 64)) % 64] = 1.0
    assert automatic(network_of(topology, demand), accuracy) == "softmin"
    result = route(topology, demand, accuracy=accuracy)
    assert (result.method, result.gap <= accuracy) == (last, True)
    assert check_flow(topology, demand, result.flow).ok
    again = certified_theta_bound(topology, demand, result.certificate.lengths)
    assert again == pytest.approx(result.bound, rel=1e-9)
