"""Routing over paths that are nearly shortest, and growing mixtures: by hand and against linear programs."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations import mixtures as mixture
from formulations.flow_routing import narrowed_flow_arrays
from solvers.backends.backend import SolverLimits
from solvers.backends.table import solver_named
from solvers.network import softmin
from solvers.network.flows import RoutingNetwork, RoutingProof, network_of
from solvers.network.linear import NearPaths
from solvers.network.routing import route
from solvers.network.softmin import Master, Mixtures, Routing
from tests.solvers.network.routing.test_routing_methods import both_ways, directed, random_case, theta_over_all_paths
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.errors import InputError
from topoopt.core.proofs import Status
from topoopt.core.topology import Topology
from topoopt.verify.laws.routing import certified_theta_bound, check_flow

Narrowed = tuple[Floats, Ints, Ints, Ints, Ints, Floats, Floats]
"""What `narrowed_flow_arrays` takes."""

DIAMOND = [(0, 1), (1, 3), (0, 2), (2, 3), (3, 4), (4, 0)]
"""Arcs sorted: 01, 02, 13, 23, 34, 40."""


def marked(network: RoutingNetwork, lengths: Floats, width: float, most: int = 100) -> tuple[int, Bools]:
    """Entries, and what is near."""
    near = np.zeros((network.servers, len(network.head)), dtype=np.bool_)
    return RoutingProof(network, 1e-3).router.mark_near(lengths, width, most, near), near


def narrowed(network: RoutingNetwork, near: Bools) -> tuple[Narrowed, Floats]:
    """The program over these arcs, and what flows for certain."""
    flow = np.zeros(near.shape)
    _, entered, start, entry, arc, need = RoutingProof(network, 1e-3).router.choices(near, flow)
    return (need, entered, start, entry, arc, flow.sum(axis=0), network.capacity), flow


def least(data: Narrowed) -> float:
    """theta of a program."""
    answer = solver_named("highs-simplex")(narrowed_flow_arrays(*data), SolverLimits(), {})
    assert answer.raw_x is not None
    return float(answer.raw_x[-1])


def diamond() -> RoutingNetwork:
    """3 from 0 to 4, which two paths to 3 carry, and 1 from 0 to 1."""
    demand = np.zeros((5, 5))
    demand[0, 4], demand[0, 1] = 3.0, 1.0
    return network_of(directed(5, DIAMOND), demand)


def test_a_choice_stands_for_the_chains_before_and_after_it() -> None:
    """Server 3 is the only one entered over two arcs: 2 over 0-2-3 and 1 over 0-1-3 leave 3 on its arc to 4."""
    entries, near = marked(diamond(), np.array([1.0, 1.1, 1.0, 1.0, 1.0, 1.0]), 0.2)
    assert entries == 2
    assert near[0].tolist() == [True] * 5 + [False]
    assert not near[1:].any()
    data, flow = narrowed(diamond(), near)
    need, into, start, entry, arc, *_ = data
    assert need.tolist() == [3.0]
    assert into.tolist() == [0, 0]
    assert start.tolist() == [-1, -1]
    assert sorted(zip(entry.tolist(), arc.tolist(), strict=True)) == [(0, 0), (0, 2), (1, 1), (1, 3)]
    assert flow[0].tolist() == [1.0, 0.0, 0.0, 0.0, 3.0, 0.0]
    assert least(data) == pytest.approx(3.0)


def test_without_a_choice_all_is_certain() -> None:
    """A width below the lateness of 0-2-3 leaves one path for each pair."""
    entries, near = marked(diamond(), np.array([1.0, 1.1, 1.0, 1.0, 1.0, 1.0]), 0.05)
    data, flow = narrowed(diamond(), near)
    assert (entries, len(data[0]), len(data[1])) == (0, 0, 0)
    assert flow[0].tolist() == [4.0, 0.0, 3.0, 0.0, 3.0, 0.0]
    assert least(data) == pytest.approx(4.0)


def test_marking_ends_where_there_is_too_much() -> None:
    """Uniform demand on a complete network, where all arcs that lead away from a source are near."""
    topology = both_ways(nx.complete_graph(5))
    network = network_of(topology, np.ones((5, 5)) - np.eye(5))
    lengths = np.arange(1.0, 21.0)
    assert marked(network, lengths, 100.0, 1)[0] < marked(network, lengths, 100.0)[0]


@given(st.integers(0, 10**6), st.integers(3, 6), st.integers(1, 3))
@settings(max_examples=20)
def test_with_all_arcs_it_is_the_whole_problem(seed: int, n: int, degree: int) -> None:
    """theta of the program over all arcs is that over all simple paths, by brute force; that over few is no less."""
    topology, demand = random_case(seed, n, degree)
    network, truth = network_of(topology, demand), theta_over_all_paths(topology, demand)
    whole, _ = narrowed(network, np.ones((n, len(network.head)), dtype=np.bool_))
    assert least(whole) == pytest.approx(truth, rel=1e-7)
    lengths = np.random.default_rng(seed).uniform(0.5, 1.5, len(network.head))
    for width in (0.0, 0.3):
        assert least(narrowed(network, marked(network, lengths, width)[1])[0]) >= truth * (1 - 1e-7)


@pytest.mark.parametrize("seed", range(6))
def test_new_lengths_bring_what_is_missing(seed: int) -> None:
    """From paths that are nearly shortest by random lengths, the linear program's theta is reached and proven."""
    topology, demand = random_case(seed, 16, 3)
    demand *= np.random.default_rng(seed).random(demand.shape) < 0.15
    proof = RoutingProof(network_of(topology, demand), 1e-7)
    proof.offer_shortest()
    lengths = np.random.default_rng(seed).uniform(0.5, 1.5, len(topology.arcs))
    lengths *= topology.multiplicity.sum() / (lengths @ topology.multiplicity)
    paths = NearPaths(proof, 0.5, 10_000)
    assert paths.widen(lengths, paths.width) <= 10_000
    paths.improve(lengths)
    truth = route(topology, demand, method="simplex").theta
    assert (proof.value, proof.bound) == pytest.approx((truth, truth), rel=1e-6)


def test_a_master_grows() -> None:
    """Utilisations (1, 0) and (0, 1/2) give 1/3 on both; (0.2, 0.2) alone is better than they are."""
    master = Master(np.array([1.0, 0.0]), 0.5)
    assert master.best() == (pytest.approx([1.0]), pytest.approx(1.0))
    master.add(np.array([0.0, 0.5]))
    part, theta = master.best()
    assert part == pytest.approx([1 / 3, 2 / 3])
    assert theta == pytest.approx(1 / 3)
    master.add(np.array([0.2, 0.2]))
    assert master.best(60.0) == (pytest.approx([0.0, 0.0, 1.0], abs=1e-9), pytest.approx(0.2))


def _routings(count: int) -> list[Routing]:
    uses = np.random.default_rng(count).uniform(0.5, 1.5, (count, 12))
    return [Routing(np.ones(12), 0.1, use, float(use.max())) for use in uses]


def _optimum(routings: list[Routing]) -> float:
    program = mixture.mixture_arrays(np.array([each.utilisation for each in routings]))
    answer = solver_named("highs-simplex")(program, SolverLimits(), {})
    assert answer.raw_x is not None
    return float(answer.raw_x[-1])


def test_mixtures_are_those_of_the_whole_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """One by one they reach its theta; with room for a few, theta never rises; few of the heaviest do no better."""
    routings, mixtures = _routings(30), Mixtures()
    for k in range(0, 30, 5):
        for each in routings[k : k + 5]:
            mixtures.add(each)
        assert mixtures.mix(1.0, None) == pytest.approx(_optimum(routings[: k + 5]), rel=1e-7)
    best = mixtures.theta
    load = sum(part * each.utilisation for part, each in mixtures.mixed)
    assert float(np.max(load)) == pytest.approx(best)
    assert sum(part for part, _ in mixtures.thin((2,), np.inf, lambda: False)) == pytest.approx(1.0)
    assert len(mixtures.thin((2,), np.inf, lambda: False)) <= 2
    assert len(mixtures.thin((2, 3), best, lambda: False)) == len(mixtures.mixed)
    monkeypatch.setattr(softmin, "_KEPT", 8)
    small, thetas = Mixtures(), []
    for each in routings:
        small.add(each)
        small.mix(1.0, None)
        thetas.append(small.theta)
    assert thetas == sorted(thetas, reverse=True)
    assert best - 1e-9 <= thetas[-1] < min(each.theta for each in routings)


def check(topology: Topology, demand: Floats, theta: float) -> None:
    """`softmin` proves this theta, by a flow and lengths that the checker accepts."""
    result = route(topology, demand, method="softmin")
    assert (result.theta, result.status) == (pytest.approx(theta, rel=1e-6), Status.OPTIMAL)
    found = check_flow(topology, demand, result.flow)
    assert found.ok
    assert found.theta == pytest.approx(result.theta, rel=1e-12)
    assert certified_theta_bound(topology, demand, result.certificate.lengths) == pytest.approx(theta, rel=1e-5)


def test_degenerate_networks_and_demands() -> None:
    """Two servers; one pair over two paths, of 3 in all; none at all is refused."""
    two = directed(2, [(0, 1), (0, 1), (1, 0)])
    check(two, np.array([[0.0, 3.0], [1.0, 0.0]]), 1.5)
    demand = np.zeros((5, 5))
    demand[0, 3] = 3.0
    check(directed(5, DIAMOND), demand, 1.5)
    with pytest.raises(InputError, match="no demand at all"):
        route(two, np.zeros((2, 2)), method="softmin")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_permutations_are_optimal(seed: int) -> None:
    """Demand of one pair a server on hypercubes and random regular networks, as the linear program has it."""
    order = np.random.default_rng(seed).permutation(32)
    demand = np.zeros((32, 32))
    demand[order, np.roll(order, 1)] = 1.0
    for topology in (both_ways(nx.hypercube_graph(5)), both_ways(nx.random_regular_graph(4, 32, seed=seed))):
        check(topology, demand, route(topology, demand, method="simplex").theta)
