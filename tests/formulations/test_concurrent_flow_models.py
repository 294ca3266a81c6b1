"""The concurrent-flow programs: array builder against the readable model, variants against closed forms."""

from __future__ import annotations

import numpy as np
import pyomo.environ as pyo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyomo.repn import generate_standard_repn
from scipy.optimize import linprog
from scipy.sparse import csc_array

from formulations import flow_routing
from formulations.flow_routing import ConcurrentFlow
from formulations.programs import LpArrays


def optimum(program: LpArrays) -> tuple[float | None, np.ndarray | None]:
    """Solve with scipy, which shares nothing with our builders; None when infeasible."""
    matrix = csc_array((program.value, program.index, program.start), shape=(program.rows, program.columns))
    equal = program.row_lower == program.row_upper
    assert (program.row_lower[~equal] == -np.inf).all()
    answer = linprog(
        program.cost,
        A_eq=matrix.tocsr()[equal],
        b_eq=program.row_lower[equal],
        A_ub=matrix.tocsr()[~equal],
        b_ub=program.row_upper[~equal],
        bounds=np.column_stack((program.lower, program.upper)),
    )
    return (float(answer.fun), answer.x) if answer.status == 0 else (None, None)


def ring(n: int, *, both: bool = False, hop_price: float = 0.0) -> ConcurrentFlow:
    """All-to-all over a directed ring, or one of fibre pairs."""
    here = np.arange(n)
    tail = np.concatenate((here, here)) if both else here
    head = np.concatenate(((here + 1) % n, (here - 1) % n)) if both else (here + 1) % n
    return ConcurrentFlow(tail, head, np.ones(len(tail)), np.ones((n, n)) - np.eye(n), hop_price)


def random_data(seed: int, n: int, hop_price: float) -> ConcurrentFlow:
    """Ring and random chords with unequal capacities, a source without demand."""
    rng = np.random.default_rng(seed)
    there = (rng.random((n, n)) < 0.4) | np.roll(np.eye(n, dtype=bool), 1, axis=1)
    np.fill_diagonal(there, False)
    tail, head = np.nonzero(there)
    demand = rng.random((n, n)) * (1 - np.eye(n))
    demand[n - 1] = 0
    return ConcurrentFlow(tail, head, rng.integers(1, 4, len(tail)).astype(float), demand, hop_price)


@given(st.integers(0, 10**6), st.integers(3, 6), st.sampled_from([0.0, 0.7]))
@settings(max_examples=15)
def test_array_builder_equals_the_readable_model(seed: int, n: int, hop_price: float) -> None:
    """Same columns, bounds, costs, rows and coefficients as the Pyomo model, entry by entry."""
    data = random_data(seed, n, hop_price)
    program, model = flow_routing.concurrent_flow_arrays(data), flow_routing.concurrent_flow_pyomo(data)
    m = len(data.tail)
    column = {id(model.flow[s, a]): s * m + a for s in range(n) for a in range(m)} | {id(model.theta): n * m}
    dense = csc_array((program.value, program.index, program.start), shape=(program.rows, program.columns)).toarray()
    seen = np.zeros_like(dense)
    pairs = [(s, v) for s in range(n) for v in range(n) if s != v]
    rows = [model.conserve[s, v] for s, v in pairs] + [model.fit[a] for a in range(m)]
    for index, row in enumerate(rows):
        form = generate_standard_repn(row.body)
        for variable, factor in zip(form.linear_vars, form.linear_coefs, strict=True):
            seen[index, column[id(variable)]] += factor
        upper = pyo.value(row.upper) - pyo.value(form.constant)
        assert program.row_upper[index] == pytest.approx(upper)
        if index < len(pairs):
            assert program.row_lower[index] == program.row_upper[index]
    np.testing.assert_allclose(dense, seen)
    cost = generate_standard_repn(model.least_load.expr)
    costs = np.zeros(program.columns)
    for variable, factor in zip(cost.linear_vars, cost.linear_coefs, strict=True):
        costs[column[id(variable)]] = factor
    np.testing.assert_allclose(program.cost, costs)
    for s in range(n):
        for a in range(m):
            bound = model.flow[s, a].ub
            assert program.upper[s * m + a] == (np.inf if bound is None else bound)


def test_directed_ring_closed_form() -> None:
    """Every pair has one path: n (n - 1) / 2 on every arc, and a hop price adds the mean hops n / 2."""
    assert optimum(flow_routing.concurrent_flow_arrays(ring(6)))[0] == pytest.approx(15.0)
    assert optimum(flow_routing.concurrent_flow_arrays(ring(6, hop_price=4.0)))[0] == pytest.approx(15.0 + 4.0 * 3.0)


def test_hop_price_trades_load_for_latency() -> None:
    """One unit over one direct link, or shared with a two-hop detour: balanced when hops are free, direct when dear.

    Sending a share f round the detour costs max(1 - f, f) + price (1 + f): f = 1/2 for price < 1, else f = 0.
    """
    demand = np.zeros((3, 3))
    demand[0, 2] = 1.0
    for price, value in ((0.0, 0.5), (0.4, 0.5 + 0.4 * 1.5), (3.0, 1.0 + 3.0)):
        data = ConcurrentFlow(np.array([0, 0, 1]), np.array([1, 2, 2]), np.ones(3), demand, price)
        assert optimum(flow_routing.concurrent_flow_arrays(data))[0] == pytest.approx(value)


def test_duals_are_lengths() -> None:
    """lengths_of turns the duals of the fit rows into lengths of total price 1."""
    data = ring(4)
    program = flow_routing.concurrent_flow_arrays(data)
    duals = np.zeros(program.rows)
    duals[-4:] = [-0.25, -0.25, -0.5, 1e-9]
    assert flow_routing.lengths_of(data, duals).tolist() == [0.25, 0.25, 0.5, 0.0]


@given(st.integers(0, 10**6), st.integers(3, 6))
@settings(max_examples=10)
def test_hop_limit_tightens_monotonically(seed: int, n: int) -> None:
    """n - 1 hops are no limit; fewer never lower theta; too few are infeasible exactly when a demand is farther."""
    data = random_data(seed, n, 0.0)
    free = optimum(flow_routing.concurrent_flow_arrays(data))[0]
    assert free is not None
    reach = np.eye(n, dtype=int)
    step = np.eye(n, dtype=int)
    step[data.tail, data.head] = 1
    previous = np.inf
    for hops in range(1, n):
        reach = np.minimum(reach @ step, 1)
        value = optimum(flow_routing.concurrent_flow_hops_arrays(data, hops))[0]
        assert (value is None) == bool(((reach == 0) & (data.demand > 0)).any())
        if value is not None:
            assert free <= value * (1 + 1e-7)
            assert value <= previous * (1 + 1e-7)
            previous = value
    assert previous == pytest.approx(free, rel=1e-6)


def test_hop_limit_closed_form() -> None:
    """A unit over a direct link or a three-hop detour: at most 2 hops leaves the direct link alone (1, else 1/2)."""
    demand = np.zeros((4, 4))
    demand[0, 3] = 1.0
    data = ConcurrentFlow(np.array([0, 0, 1, 2]), np.array([1, 3, 2, 3]), np.ones(4), demand)
    assert optimum(flow_routing.concurrent_flow_hops_arrays(data, 2))[0] == pytest.approx(1.0)
    assert optimum(flow_routing.concurrent_flow_hops_arrays(data, 3))[0] == pytest.approx(0.5)
