"""Bounds on All-to-All of many ranks by descent: close to known optima, proven by lengths, what is reached below."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from solvers.collective.limits import all_to_all_bound, all_to_all_rate, descended_lengths
from solvers.stop import Stop
from tests.support import collective_networks as nets
from topoopt.core.rated_network import RatedNetwork
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
