"""Bounds over all topologies: against published values, brute force, and multipliers chosen at random or spoilt."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from solvers.network.relays import two_layer_multipliers
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.network import LayerPrices, LengthCertificate, TwoLayerMultipliers
from topoopt.core.topology import Topology
from topoopt.verify.network.bounds import (
    TwoLayerCertificate,
    dual_cut,
    evaluate_cut,
    evaluate_cut_mixture,
    evaluate_layered,
    evaluate_two_layer,
    layered_bound,
    matching_dual,
    matching_prices,
    node_cut_bound,
    topology_bounds,
    two_layer_from,
)
from topoopt.workloads.demands import demand_matrix

Array = NDArray[np.float64]

# Servers, degree, seed of balanced skew: layered bound, two-layer bound, optimum.
PUBLISHED = (
    (6, 2, 1, 3.209, 3.313, 3.437),
    (6, 2, 2, 3.280, 3.372, 3.553),
    (6, 2, 3, 3.238, 3.299, 3.610),
    (7, 2, 1, 4.112, 4.348, 4.572),
    (7, 2, 2, 3.869, 4.106, 4.233),
    (7, 2, 3, 3.846, 4.033, 4.322),
    (7, 3, 1, 2.436, 2.436, 2.545),
    (7, 3, 2, 2.301, 2.301, 2.552),
    (8, 2, 1, 4.979, 5.195, 5.366),
    (8, 2, 2, 4.728, 4.947, 5.144),
    (8, 2, 3, 5.015, 5.285, 5.435),
    (8, 3, 1, 2.928, 2.928, 3.115),
    (8, 3, 2, 2.772, 2.786, 3.063),
    (8, 3, 3, 2.908, 2.927, 3.079),
    (9, 3, 2, 3.367, 3.385, 3.643),
)


def _theta(counts: NDArray[np.int64], demand: Array) -> float:
    """Least largest utilisation by linear programming (independent of the project)."""
    n = len(demand)
    arcs = np.argwhere(counts > 0)
    m = len(arcs)
    incidence = np.zeros((n, m))
    incidence[arcs[:, 1], np.arange(m)] += 1.0
    incidence[arcs[:, 0], np.arange(m)] -= 1.0
    balance, right = np.zeros((n * (n - 1), n * m + 1)), []
    for s in range(n):
        keep = np.arange(n) != s
        balance[s * (n - 1) : (s + 1) * (n - 1), s * m : (s + 1) * m] = incidence[keep]
        right.extend(demand[s, keep])
    load = np.zeros((m, n * m + 1))
    for s in range(n):
        load[:, s * m : (s + 1) * m] = np.eye(m)
    load[:, -1] = -counts[arcs[:, 0], arcs[:, 1]]
    cost = np.zeros(n * m + 1)
    cost[-1] = 1.0
    found = linprog(cost, A_ub=load, b_ub=np.zeros(m), A_eq=balance, b_eq=right)
    return float(found.fun) if found.status == 0 else np.inf


def _hop_load(counts: NDArray[np.int64], demand: Array, degree: int) -> float:
    n = len(demand)
    reach, total = np.eye(n, dtype=bool), 0.0
    for _ in range(n - 1):
        total += float(demand[~reach].sum())
        reach = reach | ((counts > 0).astype(int) @ reach.astype(int) > 0)
    return np.inf if not reach.all() else total / (n * degree)


def _optimum(demand: Array, degree: int) -> float:
    """Least theta over every topology, by enumeration."""
    n = len(demand)
    rows = []
    for i in range(n):
        others = [j for j in range(n) if j != i]
        rows.append([np.bincount(c, minlength=n) for c in combinations_with_replacement(others, degree)])
    best = np.inf
    ranked = []
    for chosen in product(*rows):
        counts = np.array(chosen)
        if (counts.sum(axis=0) <= degree).all():
            ranked.append((_hop_load(counts, demand, degree), len(ranked), counts))
    for load, _, counts in sorted(ranked, key=lambda item: item[:2]):
        if load >= best:
            break
        best = min(best, _theta(counts, demand))
    return best


def _random_demand(seed: int, n: int) -> Array:
    rng = np.random.default_rng(seed)
    demand = rng.lognormal(0.0, 1.0, (n, n)) * (rng.random((n, n)) < 0.8)
    np.fill_diagonal(demand, 0.0)
    demand[0, 1] += 0.1
    return demand


def two_layer_bound(n: int, d: int, demand: Array, iterations: int = 800) -> tuple[float, TwoLayerCertificate]:
    """The bound by the multipliers of the search."""
    duals = two_layer_multipliers(d, demand, iterations)
    return two_layer_from(n, d, demand, TwoLayerMultipliers(duals.weight, duals.first_link))


@pytest.mark.parametrize(("n", "d", "seed", "layered", "two_layer", "optimum"), PUBLISHED)
def test_layered_and_two_layer_reach_published_values(
    n: int, d: int, seed: int, layered: float, two_layer: float, optimum: float
) -> None:
    """Both bounds come within 0.05 % of the published ones (solved by other means) and stay below the optimum."""
    demand = demand_matrix("balanced-skew", n, seed=seed)
    one = layered_bound(n, d, demand)[0]
    two = max(one, two_layer_bound(n, d, demand)[0])
    assert one == pytest.approx(layered, rel=5e-4)
    assert two == pytest.approx(two_layer, rel=1e-3)
    assert one <= optimum + 5e-4
    assert two <= optimum + 5e-4


def test_bounds_at_16_and_32_servers() -> None:
    """Published values at degree 4, seed 1: 4.955 and 5.039 for 16 servers, 11.582 and 12.249 for 32."""
    for n, layered, two_layer in ((16, 4.955, 5.039), (32, 11.582, 12.249)):
        demand = demand_matrix("balanced-skew", n, seed=1)
        assert layered_bound(n, 4, demand)[0] == pytest.approx(layered, rel=3e-4)
        assert two_layer_bound(n, 4, demand)[0] == pytest.approx(two_layer, rel=3e-4)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=6)
def test_bounds_never_exceed_the_optimum(seed: int) -> None:
    """On four servers of degree 2 every bound, and every spoilt certificate, stays below the enumerated optimum."""
    demand = _random_demand(seed, 4)
    optimum = _optimum(demand, 2)
    tolerance = optimum * (1 + 1e-7)
    assert node_cut_bound(4, 2, demand)[0] <= tolerance
    assert max(bound.value for bound in topology_bounds(4, 2, demand)) <= tolerance
    rng = np.random.default_rng(seed)
    _, layered = layered_bound(4, 2, demand)
    shape = layered.alpha.shape
    assert evaluate_layered(4, 2, demand, LayerPrices(rng.random(shape), rng.random(shape))) <= tolerance
    for scale in (0.3, 1.0):
        certificate = TwoLayerCertificate(
            scale * demand * rng.random((4, 4)),
            (scale * rng.random((4, 4, 4))).astype(np.float32),
            rng.random(4) * demand.max() * 0.3,
            rng.random(4) * demand.max() * 0.3,
            LayerPrices(np.zeros((0, 4)), np.zeros((0, 4))),
        )
        assert evaluate_two_layer(4, 2, demand, certificate) <= tolerance


def _random_topology(n: int, d: int, rng: np.random.Generator) -> Topology:
    """A ring and d - 1 random permutations without fixed points."""
    counts = np.zeros((n, n), dtype=np.int64)
    counts[np.arange(n), (np.arange(n) + 1) % n] += 1
    while counts.sum() < n * d:
        order = rng.permutation(n)
        if (order != np.arange(n)).all():
            counts[np.arange(n), order] += 1
    arcs = np.argwhere(counts > 0).astype(np.int32)
    return Topology(
        n,
        d,
        LinkDirection.UNIDIRECTIONAL,
        arcs,
        counts[arcs[:, 0], arcs[:, 1]].astype(np.int32),
        np.full((d, n), -1, dtype=np.int32),
    )


def _counts(topology: Topology) -> NDArray[np.int64]:
    counts = np.zeros((topology.servers, topology.servers), dtype=np.int64)
    counts[topology.arcs[:, 0], topology.arcs[:, 1]] = topology.multiplicity
    return counts


def cut_value(topology, cut):
    """Upper bound on lambda of a topology."""
    return float((cut[topology.arcs[:, 0], topology.arcs[:, 1]] * topology.multiplicity).sum())


@given(seed=st.integers(0, 10_000))
@settings(max_examples=10)
def test_dual_cuts_hold_for_every_topology(seed: int) -> None:
    """Cuts of random lengths on one topology bound lambda of other random topologies, and so do mixtures of them."""
    rng = np.random.default_rng(seed)
    demand = _random_demand(seed, 6)
    topologies = [_random_topology(6, 2, rng) for _ in range(3)]
    lambdas = [1.0 / _theta(_counts(t), demand) for t in topologies]
    cuts = tuple(
        dual_cut(t, demand, LengthCertificate(rng.random(len(t.arcs)) ** 2)) for t in topologies for _ in range(2)
    )
    for topology, value in zip(topologies, lambdas, strict=True):
        for cut in cuts:
            assert cut_value(topology, cut) >= value * (1 - 1e-7)
    assert evaluate_cut_mixture(6, 2, cuts, rng.random(len(cuts))) <= 1.0 / max(lambdas) * (1 + 1e-7)


def test_dual_cut_of_a_ring_is_tight() -> None:
    """Unit lengths on a one-way ring of four with uniform demand: 4 links, total distance 4 (1 + 2 + 3), lambda 1/6."""
    topology = _random_topology(4, 1, np.random.default_rng(0))
    cut = dual_cut(topology, np.ones((4, 4)) - np.eye(4), LengthCertificate(np.ones(4)))
    assert cut_value(topology, cut) == pytest.approx(1.0 / 6.0)


def test_matching_prices_reach_the_matching() -> None:
    """The dual of the b-matching comes within 0.1 % of the linear program's value, never below."""
    rng = np.random.default_rng(5)
    for n, count in ((6, 1), (8, 2), (10, 4)):
        weight = rng.lognormal(0.0, 1.5, (n, n))
        np.fill_diagonal(weight, 0.0)
        rows = np.repeat(np.eye(n), n, axis=1)
        columns = np.tile(np.eye(n), n)
        upper = (~np.eye(n, dtype=bool)).astype(float).ravel()
        exact = -linprog(
            -weight.ravel(),
            A_ub=np.vstack((rows, columns)),
            b_ub=np.full(2 * n, float(count)),
            bounds=np.column_stack((np.zeros(n * n), upper)),
        ).fun
        dual = matching_dual(weight, count, *matching_prices(weight, count))
        assert exact * (1 - 1e-9) <= dual <= exact * 1.001


def test_node_cut_of_a_busy_receiver() -> None:
    """Three servers send 4 each to server 2, which has two links in: theta is at least 12 / 2."""
    demand = np.zeros((4, 4))
    demand[[0, 1, 3], 2] = 4.0
    value, certificate = node_cut_bound(4, 2, demand)
    assert value == pytest.approx(6.0)
    assert certificate == (0, 1, 3)


@given(seed=st.integers(0, 1000))
@settings(max_examples=5)
def test_bounds_scale_with_demand_and_ignore_names(seed: int) -> None:
    """Doubling the demand doubles the layered bound; renaming servers leaves it."""
    demand = _random_demand(seed, 7)
    base = layered_bound(7, 2, demand)[0]
    order = np.random.default_rng(seed).permutation(7)
    assert layered_bound(7, 2, 2.0 * demand)[0] == pytest.approx(2.0 * base, rel=1e-9)
    assert layered_bound(7, 2, demand[np.ix_(order, order)])[0] == pytest.approx(base, rel=2e-3)


def test_bad_demand_and_certificates_are_refused() -> None:
    """Every bad input is named; several at once are all listed."""
    demand = demand_matrix("balanced-skew", 6, seed=1)
    with pytest.raises(InputError) as caught:
        layered_bound(1, 0, demand)
    assert len(caught.value.problems) == 3
    with pytest.raises(InputError, match="finite and not negative"):
        node_cut_bound(6, 2, -demand)
    with pytest.raises(InputError, match="no cut"):
        evaluate_cut(6, 2, demand, tuple(range(6)))
    with pytest.raises(InputError, match="unknown server"):
        evaluate_cut(6, 2, demand, (9,))
    _, certificate = two_layer_bound(6, 2, demand, iterations=10)
    for bad in (
        replace(certificate, alpha=-np.ones(6)),
        replace(certificate, beta=np.full(6, np.nan)),
        replace(certificate, weight=np.ones((5, 5))),
        replace(certificate, first_link=np.full((6, 6, 6), np.nan, dtype=np.float32)),
    ):
        with pytest.raises(InputError):
            evaluate_two_layer(6, 2, demand, bad)
    with pytest.raises(InputError, match="prices"):
        evaluate_layered(6, 2, demand, LayerPrices(np.zeros((3, 6)), np.zeros((3, 6))))
    topology = _random_topology(6, 2, np.random.default_rng(1))
    with pytest.raises(InputError, match="not negative"):
        dual_cut(topology, demand, LengthCertificate(-np.ones(len(topology.arcs))))
    with pytest.raises(InputError, match="weight"):
        evaluate_cut_mixture(6, 2, (), np.zeros(0))
