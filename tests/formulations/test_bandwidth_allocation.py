"""The allocation program: algebra by hand, names, and the readable model beside the arrays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.bandwidth_allocation import BandwidthAllocation, build_arrays
from formulations.programs import model_text
from solvers.backends import SOLVERS
from tests.support.pyomo_networks import bandwidth_allocation_pyomo
from topoopt.core.proofs import Status

INF = float("inf")


def two_transfers() -> BandwidthAllocation:
    """a over link x, or over y in halves with z; b over x, rising twice as fast, at most 3."""
    return BandwidthAllocation(
        owner=np.array([0, 0, 1]),
        shared=np.array([0, 1, 2, 0]),
        route=np.array([0, 1, 1, 2]),
        use=np.array([1.0, 0.5, 0.5, 1.0]),
        capacity=np.array([4.0, 5.0, 6.0]),
        floor=np.array([0.5, 1.0]),
        ceiling=np.array([INF, 3.0]),
        gain=np.array([1.0, 2.0]),
        value=np.zeros(2),
        transfer_names=("a", "b"),
        shared_names=("x", "y", "z"),
    )


GOLDEN = """\
Minimize
 cost: + 0 rate_a_0 + 0 rate_a_1 + 0 rate_b - level
Subject To
 fit_x: + rate_a_0 + rate_b <= 4
 fit_y: + 0.5 rate_a_1 <= 5
 fit_z: + 0.5 rate_a_1 <= 6
 keep_a: + rate_a_0 + rate_a_1 - level >= 0.5
 keep_b: + rate_b - 2 level >= 1
 limit_b: + rate_b <= 3
"""


def test_golden_model() -> None:
    """Every family of constraints as a person reads it."""
    text = model_text(build_arrays(two_transfers()), "lp")
    lines = [line for line in text.splitlines() if not line.startswith("\\")]
    assert "\n".join(lines).startswith(GOLDEN.rstrip())


def optimum(data: BandwidthAllocation) -> float:
    """Largest value of the array program."""
    result = SOLVERS["highs"](build_arrays(data))
    assert result.status is Status.OPTIMAL
    assert result.objective is not None
    return -result.objective


def test_optimum_by_hand() -> None:
    """b stops at 3 with level 1, a could go on; the sum is 4 of x, and 10 of y."""
    assert optimum(two_transfers()) == pytest.approx(1.0)
    total = replace(two_transfers(), gain=np.zeros(2), value=np.array([1.0, 1.0]))
    assert optimum(total) == pytest.approx(14.0)
    assert build_arrays(total).columns == 3


@st.composite
def programs(draw: st.DrawFn) -> BandwidthAllocation:
    """A few transfers with one to three routes over a few links."""
    transfers, links = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    owner = [t for t in range(transfers) for _ in range(draw(st.integers(1, 3)))]
    part = st.sampled_from([0.0, 0.5, 1.0])
    use = np.array(draw(st.lists(part, min_size=links * len(owner), max_size=links * len(owner))))
    use = use.reshape(links, len(owner))
    use[0, use.sum(axis=0) == 0] = 1.0
    shared, route = np.nonzero(use)

    def numbers(*values: float) -> np.ndarray:
        return np.array(draw(st.lists(st.sampled_from(values), min_size=transfers, max_size=transfers)))

    return BandwidthAllocation(
        owner=np.array(owner),
        shared=shared,
        route=route,
        use=use[shared, route],
        capacity=np.array(draw(st.lists(st.sampled_from([2.0, 5.0, 9.0]), min_size=links, max_size=links))),
        floor=numbers(0.0, 0.1),
        ceiling=numbers(1.0, INF),
        gain=numbers(0.0, 1.0, 3.0),
        value=numbers(0.0, 0.1),
    )


@given(data=programs())
@settings(max_examples=40)
def test_readable_model_and_arrays_are_equal(data: BandwidthAllocation) -> None:
    """Both builders have the same optimum on random programs."""
    import pyomo.environ as pyo

    model = bandwidth_allocation_pyomo(data)
    found = pyo.SolverFactory("appsi_highs").solve(model)
    assert str(found.solver.termination_condition) == "optimal"
    assert pyo.value(model.most) == pytest.approx(optimum(data), abs=1e-6)
