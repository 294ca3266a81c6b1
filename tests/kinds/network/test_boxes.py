"""Networks that look the same from every place of a torus: one row of flow for all, however many dimensions."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topoopt
from solvers.network.routing import one_row, route
from tests.support.cli_cases import write
from topoopt.core.arrays import Floats
from topoopt.core.network import SourceFlow
from topoopt.core.topology import Topology
from topoopt.verify.laws.routing import (
    all_pairs,
    certified_theta_bound,
    check_flow,
    generators_of,
    orbits_of,
    within_hops,
)

Place = tuple[int, ...]


def places(dims: Place) -> list[Place]:
    """All, in order."""
    return list(itertools.product(*map(range, dims)))


def stepped(dims: Place, place: Place, step: Place) -> int:
    """The number of the place that a step leads to."""
    end = tuple((a + b) % d for a, b, d in zip(place, step, dims, strict=True))
    return places(dims).index(end)


def network(dims: Place, seed: int) -> tuple[Topology, Floats]:
    """A link out of every place by each unit step and by one drawn; random demand by displacement."""
    draw = np.random.default_rng(seed)
    units = [tuple(int(i == k) for i in range(len(dims))) for k in range(len(dims))]
    steps = {*units, tuple(int(draw.integers(d)) for d in dims)} - {(0,) * len(dims)}
    arcs = sorted((i, stepped(dims, place, step)) for i, place in enumerate(places(dims)) for step in steps)
    weight = draw.lognormal(0.0, 1.0, math.prod(dims))
    weight[0] = 0.0
    demand = np.zeros((len(weight), len(weight)))
    for (i, place), (j, step) in itertools.product(enumerate(places(dims)), enumerate(places(dims))):
        demand[i, stepped(dims, place, step)] = weight[j]
    return Topology.of_arcs(len(weight), np.array(arcs)), demand


@given(st.lists(st.integers(2, 4), min_size=2, max_size=3), st.integers(0, 10**6))
@settings(max_examples=15)
def test_the_row_is_the_optimum_of_the_full_program(sizes: list[int], seed: int) -> None:
    """Theta and bound of interior points on all sources; the row says what a table of all sources says."""
    dims = tuple(sizes)
    topology, demand = network(dims, seed)
    found, full = route(topology, demand, method="orbits"), route(topology, demand, method="ipx")
    assert found.theta == pytest.approx(full.theta, rel=1e-6)
    assert found.flow.by_orbits
    table = SourceFlow(np.array(list(found.flow.rows(topology))))
    np.testing.assert_allclose(found.flow.load(topology), table.flow.sum(axis=0), rtol=1e-12)
    for flow in (found.flow, table):
        check = check_flow(topology, demand, flow)
        assert check.violations == ()
        assert check.theta == pytest.approx(found.theta, rel=1e-9)
    skewed = demand.copy()
    skewed[len(demand) - 1, 0] *= 2
    of_row, of_table = (check_flow(topology, skewed, flow).violations for flow in (found.flow, table))
    assert any("is not what the rows of other sources say" in text for text in of_row)
    assert len(of_table) == 2, "the entry, and what leaves its source"
    moves = generators_of(len(demand), dims)
    again = certified_theta_bound(topology, demand, found.certificate.lengths, moves=moves)
    assert again == pytest.approx(full.theta, rel=1e-6)


@given(st.lists(st.integers(2, 4), min_size=2, max_size=3), st.integers(0, 10**6))
@settings(max_examples=15)
def test_distances_from_one_place(sizes: list[int], seed: int) -> None:
    """Server 0 alone has the distances that it has among those of all servers."""
    topology, _ = network(tuple(sizes), seed)
    of_step = np.random.default_rng(seed).integers(1, 9, topology.servers)
    place = np.array(places(tuple(sizes)))
    away = (place[topology.arcs[:, 1]] - place[topology.arcs[:, 0]]) % np.array(sizes)
    lengths = of_step[np.ravel_multi_index(tuple(away.T), sizes)]
    orbits = orbits_of(topology, generators_of(topology.servers, tuple(sizes)))
    assert orbits is not None
    assert orbits.sources.tolist() == [0]
    of_one = within_hops(topology, lengths, topology.servers - 1, orbits.sources)
    np.testing.assert_array_equal(of_one, all_pairs(topology, lengths)[:1])


def torus(*dims: int) -> dict[str, Any]:
    """Uniform demand."""
    family = {"family": "torus", "dims": list(dims)}
    return {"schema_version": 1, "kind": "routing", "name": "t", "topology": family, "demand": {"family": "uniform"}}


def test_a_torus_of_4096_fits_in_a_file(tmp_path: Path) -> None:
    """16 x 16 x 16: a ring of 16 carries 16^2 / 8 a link and direction, for each of 16^2 places of the rest."""
    instance, file = write(tmp_path, torus(16, 16, 16)), tmp_path / "solution.json"
    problem = topoopt.read_instance(instance)
    solution = topoopt.solve(problem)
    assert solution.objective.value == pytest.approx(16**2 / 8 * 16**2, rel=1e-9)
    assert solution.bound.value == pytest.approx(16**2 / 8 * 16**2, rel=1e-6)
    topoopt.write_solution(solution, file)
    assert file.stat().st_size < 2e6
    read = topoopt.read_solution(file)
    assert read.plan.flows[0].dims == (16, 16, 16)
    np.testing.assert_array_equal(read.plan.flows[0].flow, solution.plan.flows[0].flow)
    assert topoopt.check(problem, read).ok


@pytest.mark.parametrize("box", [[8, 8], [4, 4], [2, 32], []])
def test_another_box_is_rejected(tmp_path: Path, box: list[int]) -> None:
    """Of other sizes than the torus has, or of another number of places."""
    instance, file = write(tmp_path, torus(16, 4)), tmp_path / "solution.json"
    problem = topoopt.read_instance(instance)
    found = route(problem.topology, problem.demand, method="orbits")
    assert found.flow.dims == (16, 4)
    problem = topoopt.read_instance(write(tmp_path, {**torus(16, 4), "search": {"method": "orbits"}}))
    topoopt.write_solution(topoopt.solve(problem), file)
    stated = json.loads(file.read_text())
    assert stated["plan"]["flows"][0]["dims"] == [16, 4]
    stated["plan"]["flows"][0]["dims"] = box
    file.write_text(json.dumps(stated))
    assert "flow" in {violation.code for violation in topoopt.check(problem, topoopt.read_solution(file)).violations}


def test_what_no_box_keeps_has_no_row() -> None:
    """A mesh, a torus with one entry of the demand changed, and one with a link more."""
    topology, demand = network((4, 4), 1)
    assert one_row(topology, demand)
    skewed = demand.copy()
    skewed[3, 7] *= 1.5
    assert not one_row(topology, skewed)
    mesh = topoopt.topologies.family("mesh", dims=[4, 4])
    assert not one_row(mesh, np.ones((16, 16)) - np.eye(16))
    more = Topology.of_arcs(16, np.vstack((topology.arcs, [[0, 10]])))
    assert not one_row(more, demand)
