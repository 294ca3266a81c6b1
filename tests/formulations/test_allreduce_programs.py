"""Ring orders as variables: arrays against Pyomo, entry by entry or by optimum, and small closed forms."""

from __future__ import annotations

import numpy as np
import pyomo.environ as pyo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pyomo.contrib.appsi.base import TerminationCondition
from pyomo.contrib.appsi.solvers.highs import Highs
from scipy.optimize import Bounds, LinearConstraint, milp

from formulations import mixtures
from formulations.joint_topology import JointTopology, Symmetry, find_symmetry
from formulations.mixtures import AllReduceMix, AllReduceTopology, RingGroup, group_tables
from formulations.programs import LpArrays, shape_errors
from tests.support import pyomo_networks

RING_ORDERS = {2: ((0, 1),), 3: ((0, 1, 2), (0, 2, 1))}


def solved(program: LpArrays, *, whole: bool = True) -> float | None:
    """Least cost by scipy's own call of HiGHS; None if infeasible."""
    assert shape_errors(program) == []
    found = milp(
        program.cost,
        integrality=program.is_integer.astype(int) if whole else None,
        bounds=Bounds(program.lower, program.upper),
        constraints=LinearConstraint(program.matrix(), program.row_lower, program.row_upper),
    )
    return None if found.x is None else float(found.fun)


def reference(model: pyo.ConcreteModel) -> float | None:
    """Least (or largest) objective of a Pyomo model; None if infeasible."""
    solver = Highs()
    solver.config.load_solution = False
    result = solver.solve(model)
    if result.termination_condition is not TerminationCondition.optimal:
        return None
    result.solution_loader.load_vars()
    return float(pyo.value(next(iter(model.component_data_objects(pyo.Objective))).expr))


def some_orders(members: tuple[int, ...], count: int, rng: np.random.Generator) -> tuple[tuple[int, ...], ...]:
    """Different cyclic orders, the smallest member first."""
    found = {(members[0], *rng.permutation(members[1:]).tolist()) for _ in range(count)}
    return tuple(sorted(found))


def random_mix(seed: int, n: int, hop_price: float = 0.0) -> AllReduceMix:
    """A ring with chords of unequal capacity, demand with zeros, one group of all and one of some."""
    rng = np.random.default_rng(seed)
    there = (rng.random((n, n)) < 0.4) | np.roll(np.eye(n, dtype=bool), 1, axis=1)
    np.fill_diagonal(there, False)
    tail, head = np.nonzero(there)
    demand = rng.random((n, n)) * (rng.random((n, n)) < 0.6) * (1 - np.eye(n))
    demand[n - 1] = 0
    some = tuple(sorted(rng.choice(n, size=min(3, n), replace=False).tolist()))
    groups = (
        RingGroup(tuple(range(n)), 0.7, some_orders(tuple(range(n)), 3, rng)),
        RingGroup(some, 1.3, some_orders(some, 2, rng)),
    )
    return AllReduceMix(tail, head, rng.integers(1, 4, len(tail)).astype(float), demand, groups, hop_price)


def joint(n: int, degree: int, demand: NDArray[np.float64], groups: tuple[RingGroup, ...], **more) -> AllReduceTopology:
    """The program on all pairs of servers, without symmetry rules unless given."""
    senders = tuple(sorted({server for group in groups for server in group.members}))
    values = {
        "servers": n,
        "degree": degree,
        "bidirectional": False,
        "demand": demand,
        "allowed": ~np.eye(n, dtype=bool),
        "most_links": degree,
        "upper": 10.0,
        "senders": senders,
    }
    return AllReduceTopology(JointTopology(**{**values, **more}), groups)


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(2, 6), st.sampled_from([0.0, 0.5]))
def test_mix_arrays_equal_the_readable_model(seed: int, n: int, hop_price: float) -> None:
    """Both builders of the fixed-topology program reach the same optimum."""
    data = random_mix(seed, n, hop_price)
    assert solved(mixtures.allreduce_mix_arrays(data)) == pytest.approx(
        reference(pyomo_networks.allreduce_mix_pyomo(data)), rel=1e-7
    )


def test_mix_has_readable_names() -> None:
    """Columns and rows say what they are."""
    data = random_mix(1, 3)
    program = mixtures.allreduce_mix_arrays(data)
    arc = f"{data.tail[0]}_{data.head[0]}"
    assert {f"flow_0_{arc}", "theta", "share_0_0_1_2"} <= set(program.column_names)
    assert {"conserve_0_1", f"fit_{arc}", "mix_0", "mix_1"} <= set(program.row_names)


def test_shares_balance_two_directions_of_a_ring() -> None:
    """Four servers on a fibre ring, V = 3.

    One order: a share f of every step goes back over three hops, so 3 (1 - f) = 3 * 3 f, f = 1/4 and theta = 9/4. Both
    orders: V/2 each way. With demand 1 from every server to the next, clockwise links carry 1 + V a and the others
    V (1 - a): equal at theta = (1 + V) / 2; sending demand the long way only adds load.
    """
    here = np.arange(4)
    tail, head = np.concatenate((here, here)), np.concatenate(((here + 1) % 4, (here - 1) % 4))
    next_one = np.roll(np.eye(4), 1, axis=1)
    one, both = ((0, 1, 2, 3),), ((0, 1, 2, 3), (0, 3, 2, 1))
    for demand, orders, theta in ((0 * next_one, one, 2.25), (0 * next_one, both, 1.5), (next_one, both, 2.0)):
        data = AllReduceMix(tail, head, np.ones(8), demand, (RingGroup((0, 1, 2, 3), 3.0, orders),))
        assert solved(mixtures.allreduce_mix_arrays(data)) == pytest.approx(theta)


def test_readers_of_a_mix_solution() -> None:
    """Shares drop dust and sum to one; flows clip; lengths come from the fit rows; ring steps join the demand."""
    data = random_mix(3, 4)
    n, m = 4, len(data.tail)
    x = np.zeros(n * m + 1 + sum(len(group.orders) for group in data.groups))
    x[0], x[n * m] = -1e-12, 2.0
    x[n * m + 1 : n * m + 3] = 0.5, 1e-12
    shares = mixtures.ring_shares_of(data, x)
    assert shares[0].tolist()[:2] == [1.0, 0.0]
    assert all(share.sum() == pytest.approx(1.0) for share in shares)
    assert mixtures.allreduce_mix_flow(data, x).min() == 0.0
    dual = np.zeros(n * (n - 1) + m + 2)
    dual[n * (n - 1)] = -0.25
    assert mixtures.lengths_of(data, dual)[:2].tolist() == [0.25, 0.0]
    total = mixtures.total_demand(data, shares)
    assert total.sum() == pytest.approx(data.traffic)


@settings(max_examples=8)
@given(st.integers(0, 10**6), st.booleans(), st.booleans())
def test_topology_arrays_equal_the_readable_model(seed: int, bidirectional: bool, relaxed: bool) -> None:
    """Both builders of the program with links as variables reach the same optimum, with orders given or relaxed."""
    rng = np.random.default_rng(seed)
    n = 4
    demand = rng.random((n, n)) * (rng.random((n, n)) < 0.7) * (1 - np.eye(n))
    orders = () if relaxed else some_orders((0, 1, 2, 3), 4, rng)
    groups = (RingGroup((0, 1, 2, 3), 0.8, orders), RingGroup((1, 3), 0.5, ((1, 3),)))
    data = joint(n, 2, demand, groups, bidirectional=bidirectional)
    value, same = (
        solved(mixtures.allreduce_topology_arrays(data)),
        reference(pyomo_networks.allreduce_topology_pyomo(data)),
    )
    assert value is not None
    assert -value == pytest.approx(same, rel=1e-6)


def test_symmetry_rules_keep_the_optimum() -> None:
    """All orders of all groups: the rules for tables of demand and groups leave the optimum where it was."""
    demand = np.zeros((4, 4))
    every = tuple((0, *rest) for rest in ((1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 3, 1), (3, 1, 2), (3, 2, 1)))
    whole = RingGroup((0, 1, 2, 3), 1.0, every)
    pair = RingGroup((0, 1), 1.0, ((0, 1),))
    for table, groups in ((demand, (whole,)), (demand, (whole, pair)), (np.ones((4, 4)) - np.eye(4), (whole,))):
        free = solved(mixtures.allreduce_topology_arrays(joint(4, 2, table, groups)))
        rules = find_symmetry(table, ~np.eye(4, dtype=bool), None, group_tables(4, groups))
        assert rules != Symmetry()
        bound = solved(mixtures.allreduce_topology_arrays(joint(4, 2, table, groups, symmetry=rules)))
        assert bound == pytest.approx(free, rel=1e-6)


@pytest.mark.parametrize("members", [(0, 1), (0, 2, 3)])
def test_relaxation_is_exact_for_two_and_three_members(members: tuple[int, ...]) -> None:
    """A group without orders gives the optimum of one with all of them."""
    rng = np.random.default_rng(5)
    demand = rng.random((4, 4)) * (1 - np.eye(4))
    orders = tuple(tuple(members[i] for i in order) for order in RING_ORDERS[len(members)])
    exact = solved(mixtures.allreduce_topology_arrays(joint(4, 2, demand, (RingGroup(members, 1.0, orders),))))
    loose = solved(mixtures.allreduce_topology_arrays(joint(4, 2, demand, (RingGroup(members, 1.0, ()),))))
    assert loose == pytest.approx(exact, rel=1e-6)


def test_relaxation_never_claims_too_little() -> None:
    """Four members: lambda without orders is at least that with all orders."""
    demand = np.random.default_rng(9).random((4, 4)) * (1 - np.eye(4))
    every = tuple((0, *rest) for rest in ((1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 3, 1), (3, 1, 2), (3, 2, 1)))
    exact = solved(mixtures.allreduce_topology_arrays(joint(4, 2, demand, (RingGroup((0, 1, 2, 3), 1.0, every),))))
    loose = solved(mixtures.allreduce_topology_arrays(joint(4, 2, demand, (RingGroup((0, 1, 2, 3), 1.0, ()),))))
    assert loose <= exact + 1e-7
