"""The joint topology and routing program: arrays against Pyomo, symmetry rules against random networks."""

from __future__ import annotations

import itertools

import numpy as np
import pyomo.environ as pyo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pyomo.contrib.appsi.base import TerminationCondition
from pyomo.contrib.appsi.solvers.highs import Highs
from scipy.optimize import Bounds, LinearConstraint, milp

from formulations.joint_topology import (
    JointTopology,
    Symmetry,
    allowed_arcs,
    find_symmetry,
    joint_topology_arrays,
    joint_topology_pyomo,
    kept_counts,
    link_counts,
    obeying,
    start_values,
)
from formulations.programs import LpArrays
from topoopt.core.cluster import LinkDirection
from topoopt.core.network import TopologyProblem


def uniform(n: int) -> NDArray[np.float64]:
    """One unit between every ordered pair."""
    return np.ones((n, n)) - np.eye(n)


def random_demand(n: int, seed: int) -> NDArray[np.float64]:
    """Positive off the diagonal, a few zeros."""
    rng = np.random.default_rng(seed)
    demand = rng.lognormal(0.0, 1.0, (n, n)) * (rng.random((n, n)) < 0.8)
    np.fill_diagonal(demand, 0.0)
    demand[0, 1] = 1.0
    return demand


def solve(program: LpArrays, *, whole: bool = True) -> float | None:
    """Largest lambda by scipy's own call of HiGHS; None if infeasible."""
    found = milp(
        program.cost,
        integrality=program.is_integer.astype(int) if whole else None,
        bounds=Bounds(program.lower, program.upper),
        constraints=LinearConstraint(program.matrix(), program.row_lower, program.row_upper),
    )
    return None if found.x is None else float(-found.fun)


def solve_reference(data: JointTopology, *, whole: bool) -> float | None:
    """Largest lambda of the Pyomo model; None if infeasible."""
    model = joint_topology_pyomo(data)
    if not whole:
        pyo.TransformationFactory("core.relax_integer_vars").apply_to(model)
    solver = Highs()
    solver.config.load_solution = False
    result = solver.solve(model)
    if result.termination_condition is not TerminationCondition.optimal:
        return None
    result.solution_loader.load_vars()
    return float(pyo.value(model.throughput))


def joint(n: int, d: int, demand: NDArray[np.float64], **options: object) -> JointTopology:
    """Data of a directed or bidirectional problem."""
    values: dict[str, object] = {
        "servers": n,
        "degree": d,
        "bidirectional": False,
        "demand": demand,
        "allowed": ~np.eye(n, dtype=bool),
        "most_links": d,
        "upper": 10.0,
    }
    return JointTopology(**{**values, **options})  # type: ignore[arg-type]


RING4 = np.roll(np.eye(4, dtype=np.int64), 1, axis=1)
NO_01 = ~np.eye(4, dtype=bool) & ~(np.arange(4)[:, None] * 4 + np.arange(4) == 1)
CASES = {
    "plain": joint(4, 2, random_demand(4, 0)),
    "fibre-pairs": joint(4, 2, random_demand(4, 1), bidirectional=True),
    "single-links": joint(4, 2, random_demand(4, 2), most_links=1),
    "forbidden": joint(4, 1, random_demand(4, 3), allowed=NO_01),
    "kept": joint(4, 2, random_demand(4, 4), kept=RING4, max_changed=1),
    "kept-pairs": joint(4, 2, random_demand(4, 5), kept=RING4 + RING4.T, max_changed=1, bidirectional=True),
    "hops": joint(4, 2, random_demand(4, 6), max_hops=2),
    "hops-one": joint(4, 3, random_demand(4, 6), max_hops=1),
    "hops-infeasible": joint(4, 1, random_demand(4, 6), max_hops=2),
    "cuts": joint(4, 2, uniform(4), distance=np.full(4, 4.0), total_distance=16.0, upper=0.5),
    "bfs": joint(4, 2, uniform(4), symmetry=Symmetry(bfs=True)),
    "classes": joint(4, 2, random_demand(4, 7), symmetry=Symmetry(orders=((0, (1, 2, 3)),))),
}


@pytest.mark.parametrize("name", list(CASES))
def test_arrays_equal_the_pyomo_reference(name: str) -> None:
    """Same optimum and same relaxation from both builders, with every option; None where infeasible."""
    data = CASES[name]
    program = joint_topology_arrays(data)
    for whole in (True, False):
        mine, reference = solve(program, whole=whole), solve_reference(data, whole=whole)
        if name == "hops-infeasible" and whole:
            assert mine is None
            assert reference is None
        else:
            assert mine == pytest.approx(reference, rel=1e-6)


def test_sizes_are_those_of_the_module_text() -> None:
    """1 + |ARCS| + |SOURCES| (|ARCS| - n + 1) columns; n |SOURCES| + |ARCS| + n rows without options, n = 5."""
    n = 5
    program = joint_topology_arrays(joint(n, 2, uniform(n)))
    arcs = n * (n - 1)
    assert program.columns == 1 + arcs + n * (arcs - n + 1)
    assert program.rows == 2 * n + arcs + n * (n - 1)
    assert int(program.is_integer.sum()) == arcs
    assert program.column_names is not None
    assert program.column_names[:3] == ("lambda", "x_0_1", "x_0_2")


@pytest.mark.parametrize(("n", "expected"), [(4, 0.5), (5, 1 / 3)])
def test_symmetry_rules_keep_the_known_optimum(n: int, expected: float) -> None:
    """Uniform demand, d = 2: the optimum (Moore bound) with rules and without."""
    for symmetry in (Symmetry(), Symmetry(bfs=True)):
        assert solve(
            joint_topology_arrays(joint(n, 2, uniform(n), upper=expected, symmetry=symmetry))
        ) == pytest.approx(expected)


@given(st.integers(3, 7), st.integers(1, 3), st.booleans(), st.integers(0, 10**6))
@settings(max_examples=40)
def test_every_network_obeys_the_rules_after_a_renaming(n: int, d: int, pairs: bool, seed: int) -> None:
    """The proof, executed: a random connected network, renamed, satisfies every row on x alone of the program."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((n, n), dtype=np.int64)
    ring = rng.permutation(n)
    counts[ring, np.roll(ring, -1)] += 1
    for _ in range(d - 1):
        heads = rng.permutation(n)
        keep = heads != np.arange(n)
        counts[np.arange(n)[keep], heads[keep]] += 1
    if pairs:
        counts = counts + counts.T
    degree = 2 * d if pairs else d
    data = joint(n, degree, uniform(n), most_links=degree, bidirectional=pairs, symmetry=Symmetry(bfs=True))
    program = joint_topology_arrays(data)
    x = np.zeros(program.columns)
    columns, values = start_values(data, counts)
    x[columns] = values
    named = link_counts(data, x)
    assert sorted(map(sorted, named.tolist())) == sorted(map(sorted, counts.tolist()))
    row = program.matrix() @ x  # lambda = 0, no flow: all other rows hold
    assert (row >= program.row_lower).all()
    assert (row <= program.row_upper).all()


def test_classes_of_interchangeable_servers() -> None:
    """Uniform demand: all; one special server: the others; distinct rows: none; forbidden arcs and kept links count."""
    free = ~np.eye(4, dtype=bool)
    assert find_symmetry(uniform(4), free, None) == Symmetry(bfs=True)
    special = uniform(4)
    special[0, 1:] = 2.0
    assert find_symmetry(special, free, None) == Symmetry(orders=((0, (1, 2, 3)),))
    assert find_symmetry(random_demand(4, 0), free, None) == Symmetry()
    assert not find_symmetry(uniform(4), NO_01, None).bfs
    assert find_symmetry(uniform(4), free, RING4) == Symmetry()
    two = np.kron(np.array([[0.0, 1.0], [2.0, 0.0]]), np.ones((2, 2)))
    assert find_symmetry(two, free, None) == Symmetry(orders=((2, (0, 1)),))


def test_class_rules_lose_no_network() -> None:
    """Every link table of 4 servers with one link each, renamed within the class, is sorted along it."""
    symmetry = Symmetry(orders=((0, (1, 2, 3)),))
    for heads in itertools.product(range(4), repeat=4):
        counts = np.zeros((4, 4), dtype=np.int64)
        counts[np.arange(4), heads] = 1
        named = obeying(counts, symmetry)
        assert (np.diff(named[0, 1:]) <= 0).all()
        assert named[0].sum() == counts[0].sum()


def test_problem_tables() -> None:
    """Forbidding one direction of a fibre pair forbids both; kept pairs may be listed once or twice."""
    problem = TopologyProblem(
        "x", 3, 2, LinkDirection.BIDIRECTIONAL, uniform(3), forbidden=((0, 1),), kept=((1, 2), (2, 1), (0, 2))
    )
    allowed, kept = allowed_arcs(problem), kept_counts(problem)
    assert not allowed[0, 1]
    assert not allowed[1, 0]
    np.testing.assert_array_equal(kept, [[0, 0, 1], [0, 0, 1], [1, 1, 0]])
