"""Routing within a hop limit and with a price of hops, against paths enumerated one by one and against closed forms."""

from __future__ import annotations

import itertools
from dataclasses import replace
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from solvers.network.routing import CONSTRAINED, ROUTING_METHODS, route
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.proofs import StopReason
from topoopt.core.topology import Topology
from topoopt.verify.laws.routing import certified_theta_bound, check_flow, check_hops

Matrix = NDArray[np.float64]


def network(links: NDArray[np.int64]) -> Topology:
    """Topology of link counts int64[n, n]."""
    arcs = np.argwhere(links > 0).astype(np.int32)
    return Topology(
        servers=len(links),
        degree=int(max(links.sum(axis=0).max(), links.sum(axis=1).max())),
        links=LinkDirection.UNIDIRECTIONAL,
        arcs=arcs,
        multiplicity=links[arcs[:, 0], arcs[:, 1]].astype(np.int32),
        switches=np.zeros((0, len(links)), dtype=np.int32),
    )


def detour() -> tuple[Topology, Matrix]:
    """Demand 2 from 0 to 1, over a direct link or by server 2."""
    links = np.zeros((3, 3), dtype=np.int64)
    links[0, 1] = links[0, 2] = links[2, 1] = 1
    demand = np.zeros((3, 3))
    demand[0, 1] = 2.0
    return network(links), demand


def least_objective(topology: Topology, demand: Matrix, max_hops: int, hop_price: float) -> float:
    """Optimum over all simple paths of at most so many hops, each a column."""
    graph = nx.DiGraph(topology.arcs.tolist())
    place = {tuple(arc): k for k, arc in enumerate(topology.arcs.tolist())}
    pairs = np.argwhere(demand > 0).tolist()
    columns = [
        (k, [place[hop] for hop in pairwise(path)])
        for k, (i, j) in enumerate(pairs)
        for path in nx.all_simple_paths(graph, i, j, cutoff=max_hops)
    ]
    m, paths = len(place), len(columns)
    use, split = np.zeros((m, paths + 1)), np.zeros((len(pairs), paths + 1))
    cost = np.zeros(paths + 1)
    cost[-1] = 1.0
    for column, (k, arcs) in enumerate(columns):
        amount = demand[tuple(pairs[k])]
        use[arcs, column] += amount
        split[k, column] = 1.0
        cost[column] = hop_price / demand.sum() * amount * len(arcs)
    use[:, -1] = -topology.multiplicity
    found = linprog(cost, A_ub=use, b_ub=np.zeros(m), A_eq=split, b_eq=np.ones(len(pairs)), method="highs")
    assert found.status == 0
    return float(found.fun)


@pytest.mark.parametrize("method", CONSTRAINED)
@pytest.mark.parametrize(
    ("max_hops", "hop_price", "objective"),
    [
        (1, 0.0, 2.0),  # the direct link alone
        (None, 0.0, 1.0),  # half and half
        (None, 1.0, 2.5),  # half and half: 1 + 1 * 1.5 hops
        (None, 4.0, 6.0),  # hops are dear: 2 + 4 * 1
        (1, 1.0, 3.0),
    ],
)
def test_a_detour_by_hand(method: str, max_hops: int | None, hop_price: float, objective: float) -> None:
    """x on the direct link cost max(x, 2 - x) + price * (2 - x / 2): the best x is 1 below a price of 2, else 2."""
    topology, demand = detour()
    found = route(topology, demand, method=method, max_hops=max_hops, hop_price=hop_price)
    assert found.objective == pytest.approx(objective, rel=2e-5)
    assert found.bound == pytest.approx(objective, rel=2e-5)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Topology, Matrix, int]:
    """A ring with chords and parallel links, whole-number demand, and a limit at or above what is needed."""
    n = draw(st.integers(3, 7))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    links = np.zeros((n, n), dtype=np.int64)
    links[np.arange(n), (np.arange(n) + 1) % n] = 1
    for _ in range(draw(st.integers(0, 2 * n))):
        i, j = rng.integers(n, size=2)
        links[i, j] += i != j
    demand = rng.integers(0, 4, (n, n)).astype(float)
    np.fill_diagonal(demand, 0.0)
    demand[0, 1] += 1.0
    topology = network(links)
    hops = dict(nx.all_pairs_shortest_path_length(nx.DiGraph(topology.arcs.tolist())))
    needed = max(hops[i][j] for i, j in np.argwhere(demand > 0).tolist())
    return topology, demand, min(n - 1, needed + draw(st.integers(0, 1)))


@given(case=problems(), hop_price=st.sampled_from([0.0, 0.3, 7.0]))
@settings(max_examples=60)
def test_methods_reach_the_optimum_over_all_paths(case: tuple[Topology, Matrix, int], hop_price: float) -> None:
    """The arc formulation by two solvers agrees with all paths listed; flow and bound are proven."""
    topology, demand, limit = case
    optimum = least_objective(topology, demand, limit, hop_price)
    for method in ("simplex", "ipx"):
        found = route(topology, demand, method=method, max_hops=limit, hop_price=hop_price)
        assert found.objective == pytest.approx(optimum, rel=1e-6)
        assert check_flow(topology, demand, found.flow).ok
        if limit < topology.servers - 1:
            assert check_hops(topology, found.flow, limit) == ()
        proven = certified_theta_bound(topology, demand, found.certificate.lengths, max_hops=limit, hop_price=hop_price)
        assert optimum * (1 - 1e-6) <= proven <= optimum * (1 + 1e-9)


@given(case=problems(), seed=st.integers(0, 99))
@settings(max_examples=60)
def test_any_lengths_bound_the_optimum(case: tuple[Topology, Matrix, int], seed: int) -> None:
    """Random lengths never prove more than the optimum over all paths."""
    topology, demand, limit = case
    lengths = np.random.default_rng(seed).random(len(topology.arcs)) ** 3
    for hop_price in (0.0, 2.0):
        proven = certified_theta_bound(topology, demand, lengths, max_hops=limit, hop_price=hop_price)
        assert proven <= least_objective(topology, demand, limit, hop_price) * (1 + 1e-7)


def test_a_longer_limit_never_hurts_and_a_wide_one_says_nothing() -> None:
    """theta falls with the limit until it is the one without a limit; n - 1 hops need no split of the flow."""
    rng = np.random.default_rng(5)
    links = np.zeros((12, 12), dtype=np.int64)
    for _ in range(3):
        links[np.arange(12), (np.arange(12) + rng.integers(1, 12)) % 12] += 1
    links[np.arange(12), (np.arange(12) + 1) % 12] += 1
    topology, demand = network(links), rng.lognormal(0, 1.5, (12, 12))
    np.fill_diagonal(demand, 0.0)
    free = route(topology, demand)
    with pytest.raises(InfeasibleError, match=r"smallest limit that works is (\d+) hops") as said:
        route(topology, demand, max_hops=1)
    needed = int(str(said.value).rsplit(maxsplit=2)[1])
    thetas = [route(topology, demand, max_hops=hops).theta for hops in range(needed, 12)]
    assert all(later <= before * (1 + 1e-6) for before, later in itertools.pairwise(thetas))
    assert thetas[-1] == pytest.approx(free.theta, rel=1e-6)
    assert route(topology, demand, max_hops=11).flow.by_hop is None
    assert "0 -> " in str(said.value)
    with pytest.raises(InfeasibleError):
        route(topology, demand, max_hops=needed - 1)


def test_first_order_is_close_on_a_middling_network() -> None:
    """PDLP with repair and certificate comes within a thousandth of the simplex optimum under a limit."""
    rng = np.random.default_rng(2)
    links = np.zeros((20, 20), dtype=np.int64)
    for offset in (1, 3, 8):
        links[np.arange(20), (np.arange(20) + offset) % 20] += 1
    topology, demand = network(links), rng.lognormal(0, 1.0, (20, 20))
    np.fill_diagonal(demand, 0.0)
    exact = route(topology, demand, method="simplex", max_hops=6)
    rough = route(topology, demand, method="pdlp", max_hops=6, accuracy=1e-3)
    assert exact.bound * (1 - 1e-9) <= rough.theta <= exact.theta * 1.001
    assert rough.bound <= exact.theta
    assert check_hops(topology, rough.flow, 6) == ()


@pytest.mark.parametrize("method", sorted(set(ROUTING_METHODS) - set(CONSTRAINED)))
def test_methods_without_hops_refuse(method: str) -> None:
    """They name those that can."""
    topology, demand = detour()
    for limit in ({"max_hops": 1}, {"hop_price": 1.0}):
        with pytest.raises(InputError, match="pdlp"):
            route(topology, demand, method=method, **limit)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [{"max_hops": 0}, {"hop_price": -1.0}, {"hop_price": float("nan")}])
def test_bad_limits_are_refused(bad: dict[str, float]) -> None:
    """Out of range."""
    with pytest.raises(InputError):
        route(*detour(), **bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", CONSTRAINED)
@pytest.mark.parametrize("max_hops", [None, 1])
def test_no_time_still_gives_a_routing(method: str, max_hops: int | None) -> None:
    """At a limit of 0 seconds there is a sound flow and a bound, and the reason is the time or a gap that is closed."""
    topology, demand = detour()
    found = route(topology, demand, method=method, max_hops=max_hops, time_limit_s=0.0)
    assert check_flow(topology, demand, found.flow).ok
    assert 0 < found.bound <= found.objective
    assert found.stopped_by in (StopReason.TIME, StopReason.GAP)


def test_damage_to_the_split_is_found() -> None:
    """No split, too many hops, hops that do not add up, a hop before anything came, negative entries."""
    links = np.zeros((4, 4), dtype=np.int64)
    links[np.arange(4), (np.arange(4) + 1) % 4] = 1
    topology, demand = network(links), np.zeros((4, 4))
    demand[0, 2] = 1.0
    flow = route(topology, demand, max_hops=2).flow
    assert flow.by_hop is not None
    assert check_hops(topology, flow, 2) == ()
    for damaged in (
        replace(flow, by_hop=None),
        replace(flow, by_hop=flow.by_hop * 0.5),
        replace(flow, by_hop=flow.by_hop[::-1]),
        replace(flow, by_hop=-flow.by_hop),
        replace(flow, by_hop=flow.by_hop[:, :2]),
        replace(flow, by_hop=np.full_like(flow.by_hop, np.nan)),
    ):
        assert check_hops(topology, damaged, 2)
    for damaged, hops in (
        (flow, 1),
        (replace(flow, by_hop=flow.by_hop[:, :2]), 2),
        (replace(flow, by_hop=flow.flow), 2),
    ):
        (text,) = check_hops(topology, damaged, hops)
        assert "the flow by hops has shape" in text
