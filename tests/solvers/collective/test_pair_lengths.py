"""Bounds on All-to-All of many ranks by descent: close to known optima, proven by lengths, what is reached below."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from solvers.collective.limits import all_to_all_bound, all_to_all_rate, descended_lengths, descended_rate
from solvers.collective.plans import paths_of
from solvers.stop import Stop
from tests.support import collective_networks as nets
from tests.support import switched_networks
from topoopt.core.collective import CollectiveOp, CollectiveProblem
from topoopt.core.rated_network import RatedNetwork
from topoopt.kinds.pipeline import solve
from topoopt.verify.collective import all_to_all_units


def enclosed(network: RatedNetwork, stop: Stop | None = None) -> tuple[float, float]:
    """What is reached, and the bound that the checker derives from the lengths."""
    lengths, reached = all_to_all_bound(network, stop or Stop())
    return reached, float(all_to_all_units(network, lengths.tolist(), relaying=True))


# The middle of a mesh or torus of k x k: k (2 k) links each way for (k*k/2)^2 pairs; a dimension of a hypercube:
# 2^(n-1) links for 4^(n-1) pairs. Shortest paths that are used evenly reach each.
@pytest.mark.parametrize(
    ("make", "rate", "close"),
    [
        (lambda: nets.torus(16, 16), 2 * 16 / 128**2, 1e-6),
        (lambda: nets.hypercube(8), 1 / 128, 1e-6),
        (lambda: nets.mesh(12, 12), 12 / 72**2, 1e-5),
    ],
)
def test_known_optima(make: Callable[[], RatedNetwork], rate: float, close: float) -> None:
    reached, bound = enclosed(make())
    assert reached <= rate * (1 + 1e-9)
    assert rate * (1 - 1e-9) <= bound
    assert bound / reached - 1 < close


@pytest.mark.parametrize("seed", range(6))
def test_against_linear_programming(seed: int) -> None:
    """Random networks of unequal rates, with and without switches: the optimum lies between, and they are close."""
    network = nets.random_network(np.random.default_rng(seed), switches=seed % 2 == 0)
    best = all_to_all_rate(network, Stop()).units
    bound, reached, _ = descended_lengths(network, Stop())
    assert reached <= best * (1 + 1e-7)
    assert best <= bound * (1 + 1e-7)
    assert bound / reached - 1 < 5e-3


@pytest.mark.parametrize(("name", "boxes"), [("dgx2", 2), ("mi250", 2), ("dgx-a100", 4), ("dgx-1", 1)])
def test_machines(name: str, boxes: int) -> None:
    """Rates behind switches differ tenfold: the bound is that of linear programming."""
    network = nets.machine(name, boxes)
    assert descended_lengths(network, Stop())[0] == pytest.approx(all_to_all_rate(network, Stop()).units, rel=1e-4)


def test_stopped_at_once_it_is_a_bound() -> None:
    """Equal lengths: 1 024 links over the distances of a torus, before any descent."""
    halted = Stop()
    halted.interrupted.set()
    reached, bound = enclosed(nets.mesh(12, 12), halted)
    assert 0 <= reached <= 12 / 72**2 <= bound


@pytest.mark.parametrize("seed", range(4))
def test_flows_of_a_descent_and_their_paths(seed: int) -> None:
    """Every other rank gets the rate, switches keep nothing, no link carries too much; paths use up no more."""
    network = nets.random_network(np.random.default_rng(seed), switches=seed % 2 == 0)
    rate, _ = descended_rate(network, Stop())
    assert (rate.flow.sum(axis=0) <= network.units * (1 + 1e-9)).all()
    arcs = {(tail, head): arc for arc, (tail, head) in enumerate(network.arcs.tolist())}
    for source, flow in zip(network.ranks.tolist(), rate.flow, strict=True):
        kept = np.bincount(network.arcs[:, 1], flow, network.nodes) - np.bincount(
            network.arcs[:, 0], flow, network.nodes
        )
        due = np.where(network.is_switch, 0.0, rate.units)
        due[source] -= due.sum()
        assert kept == pytest.approx(due, abs=1e-9 * float(network.units.max()))
        used = np.zeros(len(arcs))
        for target, paths in paths_of(network, source, flow, rate.units).items():
            assert sum(amount for _, amount in paths) == pytest.approx(rate.units, rel=1e-6)
            assert [len(path) for path, _ in paths] == sorted(len(path) for path, _ in paths)
            for path, amount in paths:
                assert (path[0], path[-1], len(set(path))) == (source, target, len(path))
                used[[arcs[hop] for hop in itertools.pairwise(path)]] += amount
        assert (used <= flow + 1e-9 * rate.units).all()


def test_cycles_of_a_flow_are_left_out() -> None:
    """2 -> 3 -> 2 beside 0 -> 1 -> 2 -> 3, and 3 -> 0 -> 1 -> 2 -> 3 through the source: what is left is one path."""
    network = nets.network(4, [(0, 1, 9), (1, 2, 9), (2, 3, 9), (3, 2, 9), (3, 0, 9)])
    flow = np.array([4.0, 3.0, 4.0, 1.0, 2.0])  # 1 to every other, 2 -> 3 -> 2 twice, all round once
    paths = paths_of(network, 0, flow, 1.0)
    assert paths == {1: [((0, 1), 1.0)], 2: [((0, 1, 2), 1.0)], 3: [((0, 1, 2, 3), 1.0)]}


def test_many_ranks_without_symmetry() -> None:
    """66 ranks on switches drawn at random: more than columns are made for."""
    network = switched_networks.even(66, 30, 2)
    problem = CollectiveProblem("x", network, CollectiveOp.ALL_TO_ALL, 10**9, objective="throughput", sha256="0" * 64)
    result = solve(problem)
    assert result.check.ok, result.check.violations
    assert result.objective.value >= result.bound.value * (1 - 1e-3)
