"""Solution files: exact round trips, the same bytes for the same solution, and no trust in what is read."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.same_value import assert_same
from topoopt.core.errors import InputError, TopooptError
from topoopt.core.job_solution import JobSolution
from topoopt.core.routing import PathTable
from topoopt.core.verdict import Status, StopReason
from topoopt.kinds.job.solution_file import SOLUTION_FILE


def test_a_solution_comes_back_bit_for_bit(tmp_path: Path, ring_solution: JobSolution) -> None:
    """Every field, every array and its dtype survive the file."""
    path = tmp_path / "solution.json"
    SOLUTION_FILE.write(ring_solution, path)
    assert_same(SOLUTION_FILE.read(path), ring_solution)
    assert SOLUTION_FILE.text(SOLUTION_FILE.read(path)) == path.read_text(encoding="utf-8")


def test_an_empty_network_comes_back_too(tmp_path: Path, ring_solution: JobSolution) -> None:
    """No routes, no rings, no arcs, dark switches: arrays of length zero keep their types."""
    none = np.zeros(0, dtype=np.int32)
    start = np.zeros(1, dtype=np.int64)
    routes = PathTable(4, none, none, start, np.zeros(0), start, none)
    topology = dataclasses.replace(
        ring_solution.plan.topology,
        arcs=np.zeros((0, 2), dtype=np.int32),
        multiplicity=none,
        switches=np.full((2, 4), -1, dtype=np.int32),
        offsets=(),
    )
    evaluation = dataclasses.replace(ring_solution.evaluation, link_bytes=np.zeros(0), timeline=(), critical_path=())
    plan = dataclasses.replace(ring_solution.plan, routes=routes, topology=topology, rings=())
    solution = dataclasses.replace(ring_solution, plan=plan, evaluation=evaluation)
    SOLUTION_FILE.write(solution, tmp_path / "a.json")
    assert_same(SOLUTION_FILE.read(tmp_path / "a.json"), solution)


def test_equal_solutions_give_equal_bytes(ring_solution: JobSolution) -> None:
    """The text depends on values only: integer-valued floats and numpy scalars are written alike."""
    other = dataclasses.replace(
        ring_solution,
        cluster=dataclasses.replace(ring_solution.cluster, link_gbps=100),
        initial_ms=np.float64(0.5),
        samples=np.int64(8),  # type: ignore[arg-type]
    )
    assert SOLUTION_FILE.text(other) == SOLUTION_FILE.text(ring_solution)


def test_the_file_is_plain_json(ring_solution: JobSolution) -> None:
    """Figures can be found by anybody's JSON reader."""
    document = json.loads(SOLUTION_FILE.text(ring_solution))
    assert document["kind"] == "co-optimisation-solution"
    assert document["objective"] == {"name": "iteration time", "value": 1 / 3, "unit": "ms"}
    assert document["plan"]["topology"]["arcs"][:2] == [[0, 1, 1], [0, 3, 1]]
    assert document["plan"]["routes"]["pairs"] == [
        [0, 2, [[0.1, [0, 1, 2]], [0.9, [0, 3, 2]]]],
        [2, 0, [[1.0, [2, 1, 0]]]],
    ]
    assert document["demand"]["model_parallel_bytes"] == [[0, 2, 1024 / 3], [2, 0, 1024 / 3]]


def test_numbers_that_are_not_finite_are_never_written(tmp_path: Path, ring_solution: JobSolution) -> None:
    """A bug upstream ends in an error, not in a file nobody can read."""
    with pytest.raises(TopooptError, match="cannot be written"):
        SOLUTION_FILE.write(dataclasses.replace(ring_solution, initial_ms=float("inf")), tmp_path / "a.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("status", "stopped_by"), [*itertools.product(Status, StopReason)])
def test_every_state_comes_back(
    tmp_path: Path, ring_solution: JobSolution, status: Status, stopped_by: StopReason
) -> None:
    """Every status and every reason to stop can stand in a file."""
    solution = dataclasses.replace(ring_solution, status=status, stopped_by=stopped_by)
    SOLUTION_FILE.write(solution, tmp_path / "a.json")
    back = SOLUTION_FILE.read(tmp_path / "a.json")
    assert (back.status, back.stopped_by) == (status, stopped_by)


def put(*path: str | int, value: object) -> Callable[[dict[str, Any]], None]:
    """A change of the value at a path."""

    def change(document: dict[str, Any]) -> None:
        target: Any = document
        for part in path[:-1]:
            target = target[part]
        target[path[-1]] = value

    return change


TOPOLOGY = ("plan", "topology")
PAIRS = ("plan", "routes", "pairs")
RING = ("plan", "rings", 0)
SPOILT: list[tuple[Callable[[dict[str, Any]], None], str, str]] = [
    (put("schema_version", value=1), "schema_version", "out of range"),
    (put("kind", value="co-optimisation"), "kind", "not one of"),
    (put("status", value="optimum"), "status", "did you mean optimal"),
    (put("extra", value=1), "extra", "unknown key"),
    (put("objective", "value", value="fast"), "objective.value", "wrong type"),
    (put("objective", "value", value=float("nan")), "objective.value", "not a finite number"),
    (put("name", value="\x1b[2J"), "name", "control characters"),
    (put("cluster", "servers", value=10**9), "cluster.servers", "2 to 4096"),
    (put("cluster", "servers", value=5), "plan.topology.servers", "not the servers of the cluster"),
    (put("demand", "servers", value=3), "demand.servers", "not the servers of the cluster"),
    (put("plan", "strategy", 0, value=[-1, 0]), "plan.strategy[0][0]", "out of range"),
    (put("plan", "strategy", 0, value=[0, 4]), "plan.strategy[0]", "servers 0 to 3"),
    (put("plan", "strategy", value=[[0, 0]]), "plan.strategy", "wrong number of placements"),
    (put("operators", 0, "servers", 0, value=9), "operators[0].servers", "no such server"),
    (put(*TOPOLOGY, "arcs", 0, value=[0, 4, 1]), "plan.topology.arcs[0]", "no such server"),
    (put(*TOPOLOGY, "arcs", 0, value=[0, -1, 1]), "plan.topology.arcs[0][1]", "out of range"),
    (put(*TOPOLOGY, "arcs", 0, value=[0, 1]), "plan.topology.arcs[0][2]", "missing"),
    (put(*TOPOLOGY, "arcs", 0, value=[0, 1, 0]), "plan.topology.arcs[0][2]", "out of range"),
    (put(*TOPOLOGY, "arcs", 0, value=[0, 3, 1]), "plan.topology.arcs", "more than once"),
    (put(*TOPOLOGY, "arcs", value=[]), "evaluation.link_bytes", "one for each arc"),
    (put(*TOPOLOGY, "switches", value=[[0, 1, 2, 3]]), "plan.topology.switches", "one for each interface"),
    (put(*TOPOLOGY, "switches", 1, value=[0]), "plan.topology.switches[1]", "one for each server"),
    (put(*TOPOLOGY, "switches", 1, 0, value=-2), "plan.topology.switches[1][0]", "out of range"),
    (put(*TOPOLOGY, "offsets", value=[4]), "plan.topology.offsets", "no such server"),
    (put("plan", "routes", "nodes_total", value=10**6), "plan.routes.nodes_total", "1 to 8192"),
    (put("plan", "routes", "nodes_total", value=3), "plan.routes.nodes_total", "fewer nodes"),
    (put(*PAIRS, 0, value=[2, 0, []]), "plan.routes.pairs[1]", "out of order"),
    (put(*PAIRS, 0, 2, 0, 1, value=[0, 7, 2]), "plan.routes.pairs[0][2][0][1]", "no such node"),
    (put(*PAIRS, 0, 2, 0, 1, value=[]), "plan.routes.pairs[0][2][0][1]", "wrong length"),
    (put(*PAIRS, 0, 2, 0, 0, value=-0.5), "plan.routes.pairs[0][2][0][0]", "out of range"),
    (put(*RING, "members", value=[0, 1, 1]), "plan.rings[0].members", "more than once"),
    (put(*RING, "rings", 0, "order", value=[0, 1]), "plan.rings[0].rings[0].paths", "one from each member"),
    (put(*RING, "rings", 0, "paths", 0, value=[0, 6]), "plan.rings[0].rings[0].paths[0]", "no such server"),
    (put("demand", "model_parallel_bytes", 0, value=[0, 8, 1]), "demand.model_parallel_bytes[0]", "no such server"),
    (put("demand", "model_parallel_bytes", 0, value=[2, 0, 1]), "demand.model_parallel_bytes[1]", "more than once"),
    (put("demand", "allreduce", 0, value=[1, [0, 5]]), "demand.allreduce[0]", "no such server"),
    (put("evaluation", "link_bytes", value=[0.5]), "evaluation.link_bytes", "8, one for each arc"),
    (put("evaluation", "critical_path", 0, 1, value="sleep"), "evaluation.critical_path[0][1]", "forward, backward"),
    (put("evaluation", "timeline", 0, 0, value=4), "evaluation.timeline[0]", "no such server"),
    (put("evaluation", "timeline", 0, value=5), "evaluation.timeline[0]", "wrong type"),
    (put("versions", value=["1"]), "versions", "wrong type"),
]


@pytest.mark.parametrize(("change", "where", "words"), SPOILT)
def test_spoilt_solutions_are_refused_in_place(
    tmp_path: Path, ring_solution: JobSolution, change: Callable[[dict[str, Any]], None], where: str, words: str
) -> None:
    """An index out of range, a table that does not fit, a wrong type: refused with path and line, exit code 2."""
    document = json.loads(SOLUTION_FILE.text(ring_solution))
    change(document)
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document, indent=1))
    with pytest.raises(InputError) as caught:
        SOLUTION_FILE.read(path)
    assert caught.value.exit_code == 2
    problems = [problem for problem in caught.value.problems if problem.path == where]
    assert any(words in str(problem) for problem in problems), caught.value.problems
    assert all(problem.line is not None and problem.file == str(path) for problem in problems)


def test_a_file_of_an_older_version_is_refused_by_one_message(tmp_path: Path, ring_solution: JobSolution) -> None:
    """Version 1 held figures that follow from others; of what does not fit any more, the version alone is told."""
    document = json.loads(SOLUTION_FILE.text(ring_solution))
    document |= {"schema_version": 1, "diameter": 2, "mean_hops": 4 / 3, "diameter_bound": 4.0}
    document["evaluation"] |= {"iteration_time_ms": 1 / 3, "bandwidth_tax": 1.1}
    (tmp_path / "a.json").write_text(json.dumps(document))
    with pytest.raises(InputError) as caught:
        SOLUTION_FILE.read(tmp_path / "a.json")
    (problem,) = caught.value.problems
    assert (problem.path, problem.value, problem.allowed) == ("schema_version", "1", "2")


def test_a_missing_section_is_named(tmp_path: Path, ring_solution: JobSolution) -> None:
    """All missing sections are listed together."""
    document = json.loads(SOLUTION_FILE.text(ring_solution))
    del document["plan"], document["demand"], document["seed"]
    (tmp_path / "a.json").write_text(json.dumps(document))
    with pytest.raises(InputError) as caught:
        SOLUTION_FILE.read(tmp_path / "a.json")
    found = {(problem.path, problem.message) for problem in caught.value.problems}
    assert found == {("plan", "missing"), ("demand", "missing"), ("seed", "missing")}


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "3", "PK\x03\x04", '{"plan": ' * 100])
def test_files_that_are_no_solutions_are_refused(tmp_path: Path, content: str) -> None:
    """Empty, cut off, of another kind, nested without end."""
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(InputError):
        SOLUTION_FILE.read(tmp_path / "a.json")
