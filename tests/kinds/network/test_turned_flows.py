"""Flows of circulants: one row stands for all, in files, in memory and for the checker, and says what a table says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topoopt
from solvers.network.routes import circulant_topology
from solvers.network.routing import route
from tests.support.network_cases import NetworkResult, on_network
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.network import RoutingProblem, SourceFlow
from topoopt.core.topology import Topology
from topoopt.verify.laws.routing import check_flow

N = 192


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Uniform demand on a ring with chords: long enough for the short form."""
    folder = tmp_path_factory.mktemp("turned")
    links = {"family": "circulant", "servers": N, "offsets": [1, 14, 178, 191], "links": "unidirectional"}
    instance = {
        "schema_version": 1,
        "kind": "routing",
        "name": "turned",
        "topology": links,
        "demand": {"family": "uniform"},
    }
    (folder / "instance.json").write_text(json.dumps(instance))
    return folder


def test_one_row_is_read_as_all(document: Path) -> None:
    """What is read is what was solved, to the last bit, and the checker finds nothing."""
    problem = topoopt.read_instance(document / "instance.json")
    solution = topoopt.solve(problem)
    file = document / "solution.json"
    topoopt.write_solution(solution, file)
    assert json.loads(file.read_text())["plan"]["flows"][0]["flow"]["shape"][0] == 1
    read = topoopt.read_solution(file)
    np.testing.assert_array_equal(read.plan.flows[0].flow, solution.plan.flows[0].flow)
    assert topoopt.check(problem, read).ok
    # Source 5 sends over 5 + tail -> 5 + head what source 0 sends over tail -> head.
    arcs = {(int(i), int(j)): a for a, (i, j) in enumerate(problem.topology.arcs)}
    table = list(read.plan.flows[0].rows(problem.topology))
    assert len(table) == N
    assert table[0][arcs[0, 1]] > 0
    for tail, head in ((0, 1), (3, 17), (100, 86)):
        there = arcs[(tail + 5) % N, (head + 5) % N]
        assert table[5][there] == table[0][arcs[tail, head]]


def test_one_row_of_another_network_is_refused(document: Path) -> None:
    """Where the servers differ in their arcs, one row says nothing of the others."""
    problem = topoopt.read_instance(document / "instance.json")
    solution = topoopt.solve(problem)
    arcs = problem.topology.arcs.copy()
    arcs[(arcs == [0, 14]).all(axis=1)] = [0, 15]
    other = replace(problem, topology=Topology.of_arcs(N, arcs))
    assert "differ in their arcs" in str(topoopt.check(other, solution).violations)


def _circulant(n: int, seed: int) -> tuple[Topology, np.ndarray]:
    """Three random classes of arcs, parallel ones too, and demand that depends on the displacement alone."""
    draw = np.random.default_rng(seed)
    topology = circulant_topology(n, 3, LinkDirection.UNIDIRECTIONAL, [1, *draw.integers(1, n, 2).tolist()])
    weight = draw.lognormal(0, 1.5, n)
    weight[0] = 0.0
    return topology, weight[(np.arange(n) - np.arange(n)[:, None]) % n]


@given(st.integers(3, 24), st.integers(0, 10**6))
@settings(max_examples=20)
def test_both_forms_have_the_same_figures(n: int, seed: int) -> None:
    """Loads, what stays and passes, theta and what is wrong: of the row as of the table."""
    topology, demand = _circulant(n, seed)
    turned = route(topology, demand, method="orbits").flow
    assert turned.by_orbits
    table = SourceFlow(np.array(list(turned.rows(topology))))
    assert table.flow.shape == (n, len(topology.arcs))
    np.testing.assert_array_equal(table.flow[0], turned.flow[0])
    arcs = {(int(i), int(j)): a for a, (i, j) in enumerate(topology.arcs)}
    for (i, j), a in arcs.items():
        assert table.flow[n - 1, arcs[(i + n - 1) % n, (j + n - 1) % n]] == turned.flow[0, a]
    np.testing.assert_allclose(turned.load(topology), table.flow.sum(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(turned.staying(topology), table.staying(topology))
    skewed = demand.copy()
    skewed[n - 1, 0] *= 2
    for asked in (demand, skewed):
        row, whole = check_flow(topology, asked, turned), check_flow(topology, asked, table)
        assert row.theta == pytest.approx(whole.theta, rel=1e-12)
        assert bool(row.violations) == bool(whole.violations)
    assert row.violations, "the table and the row deliver another demand"
    assert check_flow(topology, demand, turned).ok


@pytest.fixture(scope="module")
def solved(document: Path) -> tuple[RoutingProblem, NetworkResult]:
    """The instance with its solution."""
    problem = topoopt.read_instance(document / "instance.json")
    assert isinstance(problem, RoutingProblem)
    solution = topoopt.solve(problem)
    return problem, solution


@pytest.mark.parametrize("change", ["less", "moved", "negative", "endless", "another demand", "short"])
def test_a_wrong_row_is_rejected(solved: tuple[RoutingProblem, NetworkResult], change: str) -> None:
    """A part of the row that is changed is found, whichever source it speaks for."""
    problem, solution = solved
    row = solution.plan.flows[0].flow.copy()
    full = int(np.argmax(row[0]))
    if change == "less":
        row[0, full] *= 1 - 1e-6
    elif change == "moved":
        row[0] = np.roll(row[0], 1)
    elif change == "negative":
        row[0, full] *= -1
    elif change == "endless":
        row[0, full] = np.inf
    elif change == "short":
        row = row[:, :-1]
    else:
        demand = problem.demand.copy()
        demand[N // 2, 0] *= 2
        problem = replace(problem, demand=demand)
    codes = {each.code for each in topoopt.check(problem, on_network(solution, flow=row)).violations}
    assert "flow" in codes


def test_the_row_of_another_network_is_rejected(solved: tuple[RoutingProblem, NetworkResult]) -> None:
    """Where one server has another arc, the checker takes no row for the rest, and nothing else does."""
    _, solution = solved
    arcs = solution.figures.topology.arcs.copy()
    arcs[1, 1] += 1
    other = Topology.of_arcs(N, arcs)
    found = check_flow(other, np.ones((N, N)) - np.eye(N), solution.plan.flows[0])
    assert any("differ in their arcs" in text for text in found.violations)
    with pytest.raises(InputError, match="differ in their arcs"):
        solution.plan.flows[0].load(other)
