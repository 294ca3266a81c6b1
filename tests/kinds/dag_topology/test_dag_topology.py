"""Circuits from the graph of a job: published-like optima, all circuits of small jobs, slack, limits, bad input."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from formulations.dag_topology import build_arrays, contracted
from solvers.backends import SOLVERS, SolverLimits
from solvers.dag_topology.branching import BoxLaws, PathPool, PathProgram, thinned
from solvers.stop import Stop
from tests.support.cli_cases import run
from tests.support.dag_jobs import choices, drawn, pipeline, problem
from tests.support.paths import INSTANCES
from topoopt.core import dag_topology as core
from topoopt.core.dag_topology import CircuitProof, DagTopologyProblem, DagTopologyResult, PathMean
from topoopt.core.errors import InfeasibleError
from topoopt.core.proofs import Status
from topoopt.core.result import Certificate
from topoopt.kinds import kind_named
from topoopt.kinds.files import converted, read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.simulate.dag import StepGraph, followed
from topoopt.verify.checker import FULL
from topoopt.verify.dag_topology import Boxes, Means, check, follow

EXAMPLE = INSTANCES / "dag-topology" / "two-stages.yaml"

ENUMERATED = {
    (2, 2, 2, 4): {3: (13.0, 5), 4: (12.0, 7), 5: (34 / 3, 9), 6: (11.0, 10)},
    (2, 2, 4, 4): {3: (21.0, 5), 4: (19.0, 7), 5: (55 / 3, 9), 6: (53 / 3, 11)},
    (3, 2, 4, 6): {3: (29.0, 8), 4: (27.0, 10), 5: (25.5, 12), 6: (23.5, 15)},
}
"""Least makespan and fewest circuits of pipelines, by ports: enumerated by a program that shares no code with ours."""


def found(job: DagTopologyProblem, **options: Any) -> DagTopologyResult:
    """Solved and checked in full."""
    solution: DagTopologyResult = solve(job, SolveOptions(**options))
    assert check(job, solution, FULL).violations == ()
    return solution


def proof_of(solution: DagTopologyResult) -> CircuitProof:
    """What the certificate of a solution holds."""
    (certificate,) = solution.certificates
    assert solution.problem is not None
    return core.proof_of(certificate, solution.problem.pods)[1]


@pytest.mark.parametrize(
    ("shape", "ports", "expected"),
    [(shape, ports, best) for shape, row in ENUMERATED.items() for ports, best in row.items()],
)
def test_pipelines(shape: tuple[int, int, int, int], ports: int, expected: tuple[float, int]) -> None:
    """Proven, with as few circuits as any."""
    solution = found(pipeline(*shape, ports))
    assert solution.status is Status.OPTIMAL
    assert solution.objective.value == pytest.approx(expected[0], rel=1e-9)
    assert solution.figures.circuits_total == proof_of(solution).circuits_bound == expected[1]


@pytest.mark.parametrize(("shape", "ideal"), [((2, 2, 2, 4), 9.0), ((2, 2, 4, 4), 15.0), ((3, 2, 4, 6), 18.0)])
def test_pipelines_without_transfers(shape: tuple[int, int, int, int], ideal: float) -> None:
    """What tasks alone take."""
    job = pipeline(*shape, 3)
    assert job.compute_time == ideal


def test_pipelines_over_given_circuits() -> None:
    """The best with four ports, and those in proportion to volumes, which are later with one more."""
    job = pipeline(2, 2, 2, 4, 4)
    assert job.pairs == ((0, 1), (0, 2), (1, 3), (2, 3))
    for counts, makespan in (((2, 2, 2, 1), 12.0), ((3, 1, 1, 3), 37 / 3)):
        assert max(follow(job, counts)[1]) == pytest.approx(makespan)
        assert followed(StepGraph.of(job), np.array(counts), 1.0)[1].max() == pytest.approx(makespan)


def test_volume_is_not_makespan() -> None:
    """Circuits by volume take 12 1/3 with 8 circuits where 12 with 7 is possible; without transfers it takes 9."""
    job = pipeline(2, 2, 2, 4, 4)
    by_volume = found(job, method="volume")
    assert (by_volume.objective.value, by_volume.figures.circuits_total) == (pytest.approx(37 / 3), 8)
    assert by_volume.status is Status.FEASIBLE
    assert found(replace(job, ports=(1000,) * 4)).objective.value == pytest.approx(9.0, rel=0.01)


@pytest.mark.parametrize(
    ("name", "circuits"),
    [
        ("volume", (6, 2, 1)),
        ("proportional", (6, 2, 1)),
        ("square-root", (5, 3, 1)),
        ("matching", (6, 2, 1)),
        ("equal", (3, 3, 2)),
    ],
)
def test_matrices(name: str, circuits: tuple[int, ...]) -> None:
    """A pod with 8 ports sends 36 to one and 9 to another, which have 1 port more than they need for a third pair.

    By volume 36 : 9, so 6 and 2; by square roots 6 : 3, so 5 and 3; in turn 5 ports are full after three rounds.
    """
    steps: Any = {"ab": ((0, 1, 36.0), []), "ac": ((0, 2, 9.0), []), "bc": ((2, 1, 1.0), [])}
    job = replace(problem(steps, 3, 8), ports=(8, 7, 4) if name != "equal" else (8, 5, 5))
    solution = found(job, method=name)
    assert tuple(solution.plan.circuits.tolist()) == circuits
    assert (solution.figures.compute_time, solution.figures.communication_time) == (0.0, solution.objective.value)


AHEAD = {"ab": ((0, 1, 4.0), ["before"]), "ac": ((0, 2, 2.0), []), "before": (2.0, []), "behind": (2.0, ["ab"])}
TWICE = {
    "first": ((0, 1, 4.0), []),
    "wait": (4.0, ["first"]),
    "second": ((0, 1, 4.0), ["wait"]),
    "beside": ((0, 2, 8.0), []),
}


@pytest.mark.parametrize(
    ("steps", "ports", "makespan", "circuits"),
    [(AHEAD, 3, 6.0, 3), (AHEAD, 5, 5.0, 5), (AHEAD, 6, 4.8, 6), (TWICE, 4, 8.0, 3), (TWICE, 5, 20 / 3, 5)],
)
def test_small_jobs(steps: Any, ports: int, makespan: float, circuits: int) -> None:
    """Counted by hand; the program of intervals says the same of the makespan."""
    job = problem(steps, 3, ports)
    solution = found(job)
    assert (solution.objective.value, solution.figures.circuits_total) == (pytest.approx(makespan), circuits)
    result = SOLVERS["highs"](build_arrays(contracted(job, 4)), SolverLimits(time_s=900))
    assert result.objective == pytest.approx(makespan, rel=1e-6)


@pytest.mark.parametrize("seed", range(60))
def test_all_circuits_of_small_jobs(seed: int) -> None:
    """No circuits do it earlier, none fewer as early; each followed by the simulator of the checker."""
    job = drawn(np.random.default_rng(seed))
    solution = found(job)
    times = {counts: max(follow(job, counts)[1]) for counts in choices(job)}
    least = min(times.values())
    assert solution.status is Status.OPTIMAL
    assert solution.objective.value == pytest.approx(least, rel=1e-7)
    assert solution.figures.circuits_total == min(sum(c) for c, time in times.items() if time <= least * (1 + 1e-9))


@pytest.mark.parametrize("seed", range(40))
def test_two_simulators(seed: int) -> None:
    """Begin and end of every step, over circuits of any number."""
    rng = np.random.default_rng(seed)
    job = drawn(rng)
    counts = rng.integers(1, 5, len(job.pairs))
    ours = followed(StepGraph.of(job), counts, job.rate)
    for one, other in zip(ours, follow(job, counts.tolist()), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_means_by_hand() -> None:
    """Before 2, 4 over x circuits, behind 2, beside a pair with one of 3 ports: 4/x + x - 2 is least at 2, so 6.

    Two weights of it, 8/x + x, are 17/3 at 3: with one for the other pair and a limit of 6, 8/3 circuits at least.
    """
    job = problem(AHEAD, 3, 3)
    path = ((2,), (0,), (3,))
    means = Means(job, (path,), (PathMean(((0, 1.0),), (1.0, 0.0, 0.0)), PathMean(((0, 2.0),), (0.0,) * 3)))
    whole = Boxes(job, 6.0).whole
    assert means.makespan(0, whole) == pytest.approx(6.0)
    assert means.circuits(1, whole, 6.0) == pytest.approx(8 / 3)
    program = PathProgram(BoxLaws.of(job), PathPool(job, StepGraph.of(job)), 6.0)
    bound, *_ = program.relaxed(np.array([1, 1]), np.array([2, 2]), Stop())
    assert bound == pytest.approx(6.0)


def test_thinned_by_hand() -> None:
    """5 circuits for 4 beside tasks of 4: within 6 two of them do, within 5 four; the other pair keeps its one."""
    laws = BoxLaws.of(problem(AHEAD, 3, 6))
    for limit, kept in ((6.0, [2, 1]), (5.0, [4, 1])):
        assert thinned(laws, np.array([5, 1]), limit * (1 + 1e-9), Stop()).tolist() == kept


def test_transfers_together_on_a_path() -> None:
    """Volumes 2 and 4 between the same two tasks take 6 over one circuit, with the tasks 8."""
    steps: Any = {"g": (1.0, []), "a": ((0, 1, 2.0), ["g"]), "b": ((0, 1, 4.0), ["g"]), "e": (1.0, ["a", "b"])}
    job = problem(steps, 2, 1)
    length, path = PathPool(job, StepGraph.of(job)).longest(np.ones(1))
    assert (length, path) == (8.0, ((2,), (0, 1), (3,)))
    assert Means(job, (path,), (PathMean(((0, 1.0),), (0.0, 0.0)),)).makespan(0, Boxes(job, 8.0).whole) == 8.0


@pytest.mark.parametrize(
    ("path", "prices", "message"),
    [
        (((3,), (0,)), (0.0, 0.0, 0.0), "need not wait"),
        (((0, 1),), (0.0, 0.0, 0.0), "not of one direction"),
        (((0, 0),), (0.0, 0.0, 0.0), "not groups of steps"),
        (((0,),), (0.0, -1.0, 0.0), "no number below zero"),
        (((0,),), (0.0, 0.0), "a price for each pod"),
    ],
)
def test_false_means(path: Any, prices: tuple[float, ...], message: str) -> None:
    """What is no path, and prices that pay for circuits."""
    job = problem(AHEAD, 3, 3)
    with pytest.raises(ValueError, match=message):
        Means(job, (path,), (PathMean(((0, 1.0),), prices),)).makespan(0, Boxes(job, 6.0).whole)


def test_long_pipelines_are_proven() -> None:
    """Eight stages, 57.5, of which windows of the whole alone prove 54: without their prices the means prove less."""
    solution = found(pipeline(8, 2, 8, 6, 6))
    assert solution.status is Status.OPTIMAL
    (certificate,) = solution.certificates
    prices = certificate["mean_price"]
    assert len(prices)
    spoilt = Certificate(certificate.argument, {**certificate.arrays, "mean_price": 0.0 * prices})
    job = pipeline(8, 2, 8, 6, 6)
    assert check(job, replace(solution, certificates=(spoilt,)), FULL).violations


@pytest.mark.parametrize(("stages", "replicas"), [(3, 2), (3, 3), (3, 4), (8, 4)])
def test_replicas_need_no_rule_of_their_own(stages: int, replicas: int) -> None:
    """Proven with few boxes: no more splits than replicas, where each one's circuits could be tried apart."""
    solution = found(pipeline(stages, replicas, 4 if stages == 3 else 8, 6, 6))
    assert solution.status is Status.OPTIMAL
    assert sum(pair >= 0 for pair, _ in proof_of(solution).makespan_tree) <= replicas


def test_sharing_by_hand() -> None:
    """Two of 3 and 1 together on one circuit: the second is done at 2, the first at 4; a third then has it alone."""
    steps: Any = {"long": ((0, 1, 3.0), []), "short": ((0, 1, 1.0), []), "back": ((1, 0, 5.0), []), "late": (4.0, [])}
    start, end = follow(problem(steps, 2, 1), [1])
    assert (start, end) == ([0.0] * 4, [4.0, 2.0, 5.0, 4.0])


def test_slack_saves_circuits() -> None:
    """5 % more time for 15 circuits of 23.5: the fewest of all circuits within it."""
    job = replace(pipeline(3, 2, 4, 6, 6), slack_percent=5.0)
    solution = found(job)
    times = {counts: max(follow(job, counts)[1]) for counts in choices(job)}
    allowed = [sum(counts) for counts, time in times.items() if time <= 23.5 * 1.05]
    assert solution.figures.circuits_total == proof_of(solution).circuits_bound == min(allowed) < 15
    assert solution.objective.value <= 23.5 * 1.05
    assert solution.plan.fastest is not None
    assert max(follow(job, solution.plan.fastest.tolist())[1]) == pytest.approx(23.5)


def test_slack_at_the_command_line(tmp_path: Path) -> None:
    """As if the file had it: fewer circuits than without; the solution carries the instance with it, and other kinds
    have no such thing."""
    text = EXAMPLE.read_text().replace("ports: 3", "ports: 6")
    (tmp_path / "case.yaml").write_text(text)
    (tmp_path / "with.yaml").write_text(text + "slack_percent: 10.0\n")
    due = run("solve", tmp_path / "with.yaml", "--output", tmp_path / "due", "--json").json
    found = run(
        "solve", tmp_path / "case.yaml", "--set", "slack_percent=10", "--output", tmp_path / "out", "--json"
    ).json
    least, fewest = ENUMERATED[2, 2, 2, 4][6]
    job = pipeline(2, 2, 2, 4, 6)
    allowed = [sum(counts) for counts in choices(job) if max(follow(job, counts)[1]) <= least * 1.1]
    assert found["circuits_total"] == due["circuits_total"] == min(allowed) < fewest
    assert found["makespan"] == due["makespan"] <= least * 1.1
    assert (tmp_path / "out" / "solution.json").read_bytes() == (tmp_path / "due" / "solution.json").read_bytes()
    assert run("check", tmp_path / "out" / "solution.json").code == 0
    other = run("solve", INSTANCES / "tiny-4.yaml", "--set", "slack_percent=10", "--output", tmp_path / "other")
    assert other.code == 2
    assert "--set slack_percent: instances of kind co-optimisation have no slack_percent" in other.stderr
    assert not (tmp_path / "other").exists()


def test_the_fastest_plan_stands_in_the_file_once() -> None:
    """Without slack the plan is that one; with slack a check without the fastest plan allows too much time."""
    job = pipeline(3, 2, 4, 6, 6)
    assert found(job).plan.fastest is None
    slack = replace(job, slack_percent=5.0)
    solution = found(slack)
    shorter = replace(solution, plan=replace(solution.plan, fastest=None))
    assert check(slack, shorter, FULL).violations
    many = solution.plan.fastest_circuits.copy()
    many[-1] = 100
    wrong = replace(solution, plan=replace(solution.plan, fastest=many))
    assert {law.code for law in check(slack, wrong, FULL).violations} == {"ports"}


def test_limits_keep_what_there_is() -> None:
    """At once: a plan and a bound that holds."""
    solution = found(pipeline(4, 2, 8, 6, 6), time_limit_s=0.0)
    assert solution.status is Status.FEASIBLE
    assert 0 < solution.bound.value <= solution.objective.value


def test_too_few_ports() -> None:
    """Every pair needs a circuit."""
    with pytest.raises(InfeasibleError, match="pod 0 transfers to or from 2 others and has 1"):
        solve(pipeline(2, 2, 2, 4, 1), SolveOptions())


def test_at_the_command_line(tmp_path: Path) -> None:
    """Keys of the JSON object, the check alone, what limits it, a first instance."""
    said = run("solve", EXAMPLE, "--output", tmp_path, "--json").json
    assert (said["makespan"], said["circuits_total"], said["ports_saved"]) == (13.0, 5, 2)
    assert said["circuits"] == [[0, 1, 2], [0, 2, 1], [1, 3, 1], [2, 3, 1]]
    assert said["status"] == "optimal"
    assert run("check", tmp_path / "solution.json").code == 0
    told = run("explain", tmp_path / "solution.json", "--json").json
    assert (told["compute_path"], told["communication_time"]) == (9.0, 4.0)
    assert told["one_port_more"][0]["makespan"] == 12.0
    first = tmp_path / "first.yaml"
    assert run("init", "dag-topology", "-o", first).code == 0
    assert run("solve", first, "--output", tmp_path / "out", "--json").json["objective"]["unit"] == "s"


WRONG = """
schema_version: 1
kind: dag-topology
name: wrong
pods: 3
ports: [1, 2]
transfers:
  - {name: a, source: 0, target: 5, volume: 1, after: [nobody]}
  - {name: a, source: 1, target: 1, volume: 1}
tasks:
  - {name: c, duration: -1}
"""

CIRCLE = """
schema_version: 1
kind: dag-topology
name: circle
pods: 2
ports: 1
circuit_rate: 1
transfers: [{name: a, source: 0, target: 1, volume: 1, after: [b]}]
tasks: [{name: b, duration: 1, after: [a]}]
"""


def test_bad_input(tmp_path: Path) -> None:
    """Everything in one message, with line and path; a circle with the steps on it."""
    file = tmp_path / "wrong.yaml"
    file.write_text(WRONG.replace("duration: -1", "duration: 1"))
    message = run("validate", file)
    assert message.code == 2
    for part in ("circuit_gbps", "ports: wrong number", "no such pod", "stands twice", "nobody", "another pod"):
        assert part in message.stdout
    file.write_text(WRONG)
    assert "tasks[0].duration" in run("validate", file).stdout
    file.write_text(CIRCLE)
    circle = run("validate", file)
    assert circle.code == 2
    assert "waits for itself" in circle.stdout


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("volume: 1", "volume: -1"),
        ("volume: 1", "volume: 0"),
        ("volume: 1", "volume: .inf"),
        ("duration: 1", "duration: -0.5"),
        ("ports: 1", "ports: 0"),
        ("circuit_rate: 1", "circuit_rate: 0"),
        ("circuit_rate: 1", "circuit_rate: 1\nslack_percent: -1"),
    ],
)
def test_numbers_out_of_range(tmp_path: Path, field: str, value: str) -> None:
    """One message with the line, the path, the value and what is allowed."""
    file = tmp_path / "wrong.yaml"
    file.write_text(CIRCLE.replace(", after: [b]", "").replace(field, value))
    said = run("solve", file, "--output", tmp_path / "out")
    assert said.code == 2
    name, number = value.rsplit("\n", maxsplit=1)[-1].split(": ")
    assert name in said.stderr
    assert "allowed" in said.stderr
    assert number.strip(".") in said.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("hops", [1, 2])
def test_pods_that_forward_are_gone(tmp_path: Path, hops: int) -> None:
    """A file that asks for it is told what stands in its place, with the line, the value and what to do."""
    file = tmp_path / "forwarding.yaml"
    file.write_text(f"{EXAMPLE.read_text()}max_hops: {hops}\n")
    line = len(file.read_text().splitlines())
    said = run("solve", file, "--output", tmp_path / "out")
    assert said.code == 2
    assert "pods do not forward; every pair that transfers has circuits of its own" in said.stderr
    assert f"forwarding.yaml:{line} max_hops" in said.stderr
    assert "allowed: left out" in said.stderr
    assert not (tmp_path / "out").exists()


def test_hashes_stay_where_a_field_is_gone() -> None:
    """The instance has the hash that it had when pods could forward."""
    known = "049c31603a9e737b47e65e237de3443e5e8c4c0de9a3802d6579f65f4f06016f"
    assert read_instance(EXAMPLE).sha256 == known


def test_files_of_format_2_are_converted(tmp_path: Path) -> None:
    """Circuits and trees are taken over, also of files that say that no pod forwards, and are checked."""
    solution = solve(read_instance(EXAMPLE))
    bound, proof = core.proof_of(solution.certificates[0], 4)
    document = {
        "schema_version": 2, "kind": "dag-topology-solution", "max_hops": 1,
        **{name: getattr(solution, name) for name in ("name", "seed", "method", "instance_sha256", "notes")},
        "status": "optimal", "stopped_by": "converged", "objective": {"name": "makespan", "value": 13.0, "unit": ""},
        "bound": {"value": bound, "proved_by": "circuit-branching"}, "versions": {},
        "circuits": [[*pair, count] for pair, count in zip(solution.problem.pairs, [2, 1, 1, 1], strict=True)],
        "proof": asdict(proof) | {"means": [[mean.weights, mean.prices] for mean in proof.means]},
    }  # fmt: skip
    file = tmp_path / "old.json"
    file.write_text(json.dumps(document))
    result = converted(file, EXAMPLE, FULL)
    assert result.check.ok, result.check.violations
    assert result.plan.circuits.tolist() == solution.plan.circuits.tolist()
    assert result.objective == solution.objective


def test_the_page_of_circuits(tmp_path: Path) -> None:
    """Lanes of the transfers with the circuits of their pair; what the makespan consists of comes second."""
    solution = found(pipeline(2, 2, 2, 4, 4))
    page = kind_named("dag-topology").pages().report(solution)
    assert "0 → 1 ×2" in page
    assert "×0" not in page
    assert "Communication is 25.0 % of it" in page or "Communication is 25 % of it" in page
