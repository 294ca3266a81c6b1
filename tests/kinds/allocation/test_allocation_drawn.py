"""Rates of drawn allocations, held against plain programs, the simulator and laws of scale."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from tests.support.allocation_cases import along, network, plain_filling, plain_levels, problem, rates, shortest
from topoopt.core.allocation import AllocationGoal, AllocationProblem
from topoopt.core.proofs import Status
from topoopt.kinds.pipeline import solve
from topoopt.native import flows


@st.composite
def cases(draw: st.DrawFn, *, goal: AllocationGoal | None = None) -> AllocationProblem:
    """A one-way ring with chords, and transfers of one route each: a shortest one, or the way round the ring."""
    n = draw(st.integers(2, 7))
    pairs = [(i, (i + 1) % n) for i in range(n)]
    ends = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda pair: pair[0] != pair[1])
    pairs += draw(st.lists(ends, max_size=2 * n))
    net = network(n, pairs)
    goal = goal or draw(st.sampled_from(get_args(AllocationGoal)))
    few = st.sampled_from([0.5, 1.0, 2.0, 7.0])
    weighted = goal in ("weighted", "min-guarantee")
    timed = goal == "completion-time"
    transfers = []
    for k, (i, j) in enumerate(draw(st.lists(ends, min_size=1, max_size=12))):
        fields = {
            "weight": draw(few) if weighted else 1.0,
            "min_gbps": draw(st.sampled_from([0.0, 0.5])) if goal == "min-guarantee" else 0.0,
            "max_gbps": draw(st.sampled_from([float("inf"), 3.0, 20.0])),
        }
        size = draw(st.sampled_from([1e6, 3e9, 5e10])) if timed else None
        way = tuple((i + step) % n for step in range((j - i) % n + 1))
        made = along(net, f"t{k}", way, **fields) if draw(st.booleans()) else shortest(net, f"t{k}", i, j, **fields)
        transfers.append(replace(made, size_bytes=size))
    limits = st.lists(st.sampled_from([float("inf"), 9.0, 40.0]), min_size=n, max_size=n)
    return replace(
        problem(net, transfers, goal=goal),
        capacity_gbps=np.array(
            draw(st.lists(st.sampled_from([10.0, 25.0, 100.0]), min_size=len(net.arcs), max_size=len(net.arcs)))
        ),
        egress_gbps=np.array(draw(limits)),
    )


@given(case=cases())
@settings(max_examples=250)
def test_water_filling_and_programs_agree(case: AllocationProblem) -> None:
    """On hundreds of random problems both give the rates of exact rational filling, proven and accepted."""
    expected = [float(rate) for rate in plain_filling(case)]
    assert rates(case, "water-filling") == pytest.approx(expected, rel=1e-9)
    assert rates(case, "lp") == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(case=cases(goal="max-min"))
@settings(max_examples=60)
def test_agrees_with_the_simulator(case: AllocationProblem) -> None:
    """Whole paths without limits get the rates of the fluid simulator's filling."""
    whole = [t for t in case.transfers if (t.routes[0].fraction == 1).all()]
    if not whole:
        return
    plain = replace(case, transfers=tuple(replace(t, max_gbps=float("inf")) for t in whole), egress_gbps=None)
    lengths = [len(t.routes[0].arcs) for t in plain.transfers]
    first = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    links = np.concatenate([t.routes[0].arcs for t in plain.transfers]).astype(np.int32)
    simulated = flows.max_min_rates(first, links, plain.capacity_gbps, np.ones(len(lengths), dtype=np.int64))
    assert rates(plain) == pytest.approx(simulated.tolist(), rel=1e-9)


@st.composite
def choices(draw: st.DrawFn) -> AllocationProblem:
    """Transfers on a two-way ring that may go either way round."""
    n = draw(st.integers(3, 6))
    net = network(n, [(i, (i + step) % n) for i in range(n) for step in (1, -1)])
    goal = draw(st.sampled_from(["weighted", "min-guarantee"]))
    ends = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda pair: pair[0] != pair[1])
    transfers = []
    for k, (i, j) in enumerate(draw(st.lists(ends, min_size=1, max_size=7))):
        up = tuple((i + step) % n for step in range((j - i) % n + 1))
        down = tuple((i - step) % n for step in range((i - j) % n + 1))
        ways = draw(st.sampled_from([(up, down), (up,), (down,)]))
        transfers.append(
            along(
                net,
                f"t{k}",
                *ways,
                weight=draw(st.sampled_from([1.0, 2.0, 5.0])),
                min_gbps=draw(st.sampled_from([0.0, 1.0])) if goal == "min-guarantee" else 0.0,
                max_gbps=draw(st.sampled_from([float("inf"), 12.0])),
            )
        )
    capacity = draw(st.lists(st.sampled_from([10.0, 30.0]), min_size=len(net.arcs), max_size=len(net.arcs)))
    return replace(problem(net, transfers, goal=goal), capacity_gbps=np.array(capacity))


@given(case=choices())
@settings(max_examples=80)
def test_choice_agrees_with_solving_for_each_transfer(case: AllocationProblem) -> None:
    """With routes to choose, the programs find the rates of the plain method that tries to raise every transfer."""
    expected = plain_levels(case)
    assert rates(case, "lp") == pytest.approx(expected, rel=1e-5, abs=1e-5)


@given(case=choices())
@settings(max_examples=40)
def test_largest_sum_agrees_with_scipy(case: AllocationProblem) -> None:
    """The weighted sum is that of a dense program, and never below that of the fair rates."""
    fair = replace(case, goal="min-guarantee", surplus="max-min")
    total = replace(fair, surplus="sum")
    solution = solve(total)
    assert (solution.status, solution.check.ok) == (Status.OPTIMAL, True)
    weights = np.array([t.weight for t in case.transfers])
    routes = [(t, route) for t, transfer in enumerate(case.transfers) for route in transfer.routes]
    use = np.zeros((len(case.capacity_gbps), len(routes)))
    of = np.zeros((len(weights), len(routes)))
    for k, (t, route) in enumerate(routes):
        use[route.arcs, k] = route.fraction
        of[t, k] = 1
    most = np.array([min(t.max_gbps, 1e6) for t in case.transfers])
    least = np.array([t.min_gbps for t in case.transfers])
    found = linprog(-weights @ of, np.vstack((use, of, -of)), np.concatenate((case.capacity_gbps, most, -least)))
    assert solution.objective.value == pytest.approx(-found.fun, rel=1e-6)
    assert solution.objective.value >= float(weights @ np.array(rates(fair))) * (1 - 1e-6)


@given(case=choices(), factor=st.sampled_from([0.5, 4.0]))
@settings(max_examples=30)
def test_scaling_and_order(case: AllocationProblem, factor: float) -> None:
    """Rates scale with the capacities and limits, and the order of the transfers plays no part."""
    once = rates(case)
    scaled = tuple(
        replace(t, min_gbps=t.min_gbps * factor, max_gbps=t.max_gbps * factor) for t in reversed(case.transfers)
    )
    again = rates(replace(case, capacity_gbps=case.capacity_gbps * factor, transfers=scaled))
    assert again[::-1] == pytest.approx([factor * rate for rate in once], rel=1e-5, abs=1e-5)
