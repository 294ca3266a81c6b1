"""Circuits of a region: all circuits of small ones, two timings, proofs that hold, the program, limits, bad input."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import topoopt
from formulations.circuit_matching import build_arrays, matching_of
from solvers.backends import SOLVERS, SolverLimits
from tests.support.cli_cases import run
from tests.support.paths import INSTANCES
from topoopt.core.arrays import Floats
from topoopt.core.proofs import Status
from topoopt.core.regional_circuits import RegionalCircuitsPlan, RegionalCircuitsProblem
from topoopt.core.result import Result
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.kinds.regional_circuits.page import seconds as time_text
from topoopt.simulate.circuits import RegionTraffic
from topoopt.verify.checker import FULL
from topoopt.verify.regional_circuits import CHECKER, RunProof, check_boxes, step_seconds
from topoopt.workloads.demands import HotExperts, hot_experts

EXAMPLE = INSTANCES / "regional-circuits" / "hot-experts-8.yaml"


def region(demands: Any, ports: Any, electrical: float = 1.0, **rest: Any) -> RegionalCircuitsProblem:
    """Circuits of rate 1; a step for each matrix."""
    array: Floats = np.array(demands, dtype=np.float64).reshape(-1, *np.shape(demands)[-2:])
    n = array.shape[1]
    listed = (ports,) * n if isinstance(ports, int) else tuple(ports)
    rest.setdefault("windows_s", (0.0,) * len(array))
    return RegionalCircuitsProblem("region", n, listed, 1.0, electrical, array, **rest)


def drawn(seed: int) -> RegionalCircuitsProblem:
    """Four servers, some pairs that do not send."""
    rng = np.random.default_rng(seed)
    demand = rng.lognormal(0.0, 1.0, (4, 4)) * (rng.random((4, 4)) < 0.8)
    np.fill_diagonal(demand, 0.0)
    ports = rng.integers(0, 4, 4).tolist()
    return region(demand + 1e-3 * (1 - np.eye(4)), ports, float(rng.choice([0.3, 1.0, 3.0])), split=bool(seed % 2))


def within_ports(problem: RegionalCircuitsProblem) -> list[tuple[int, ...]]:
    """All circuits that the ports allow."""
    tops = [range(min(problem.ports[i], problem.ports[j]) + 1) for i, j in problem.pairs]
    found = []
    for counts in itertools.product(*tops):
        used = [0] * problem.servers
        for pair, count in zip(problem.pairs, counts, strict=True):
            for server in pair:
                used[server] += count
        if all(one <= most for one, most in zip(used, problem.ports, strict=True)):
            found.append(counts)
    return found


def found(problem: RegionalCircuitsProblem, **options: Any) -> Result[RegionalCircuitsProblem, RegionalCircuitsPlan]:
    """Solved and checked in full."""
    solution: Result[Any, Any] = solve(problem, SolveOptions(**options))
    assert CHECKER(problem, solution, FULL).violations == ()
    return solution


def timed(problem: RegionalCircuitsProblem, demand: Floats, counts: Sequence[int]) -> float:
    """What the checker makes of a demand over circuits of every pair."""
    return step_seconds(problem, demand, dict(zip(problem.pairs, counts, strict=True)))


@pytest.mark.parametrize("seed", range(40))
def test_all_circuits_of_small_regions(seed: int) -> None:
    """No circuits are faster; each timed by the checker."""
    problem = drawn(seed)
    best = min(timed(problem, problem.demands[0], counts) for counts in within_ports(problem))
    solution = found(problem)
    assert solution.status is Status.OPTIMAL
    assert solution.objective.value == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_the_program_says_the_same(seed: int) -> None:
    problem = drawn(100 + seed)
    result = SOLVERS["highs"](build_arrays(matching_of(problem, 0)), SolverLimits(time_s=900))
    assert found(problem).objective.value == pytest.approx(result.objective, rel=1e-5)


@pytest.mark.parametrize("seed", range(30))
def test_two_timings(seed: int) -> None:
    """Over any circuits."""
    rng = np.random.default_rng(seed)
    problem = replace(drawn(seed), split=bool(seed % 2))
    counts = rng.integers(0, 3, len(problem.pairs))
    ours = RegionTraffic.of(problem, problem.demands[0]).seconds(counts)
    assert timed(problem, problem.demands[0], counts.tolist()) == pytest.approx(ours, rel=1e-12)


def test_by_hand() -> None:
    """Three servers, a port each: 6 over the circuit of the first two, or 6 and 3 electrically at rate 2.

    With the circuit between the last two, 6 + 1 leave the first server electrically; with splitting the first pair has
    its circuit and sends T over it: 6 - T + 1 = 2 T there, and 6 - T + 3 = 2 T where both meet.
    """
    demand = [[0, 6, 1], [2, 0, 0], [0, 3, 0]]
    assert found(region(demand, 1, 2.0)).objective.value == pytest.approx(3.5)
    assert found(region(demand, 1, 2.0, split=True)).objective.value == pytest.approx(3.0)
    assert found(region(demand, 0, 2.0)).objective.value == pytest.approx(4.5)


def test_uniform_traffic_split_is_as_fast_as_one_switch() -> None:
    """Eight servers, six ports: six peers over circuits, what these leave over two electrical interfaces."""
    demand = np.ones((8, 8)) - np.eye(8)
    solution = found(region(demand, 6, 2.0, split=True))
    assert solution.objective.value == pytest.approx(7 / 8)
    assert solution.figures.switch_s == pytest.approx(7 / 8)
    assert found(region(demand, 6, 2.0)).objective.value == pytest.approx(1.0)


@pytest.mark.parametrize(("seconds", "text"), [(0.0624913, "62.4913 ms"), (2.5, "2.5 s"), (0.0, "0 ms")])
def test_times_are_told_in_milliseconds_below_a_second(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


HOT = np.array([[0, 8, 1, 1], [8, 0, 1, 1], [1, 1, 0, 8], [1, 1, 8, 0]], dtype=np.float64)
COLD = HOT[:, [2, 1, 0, 3]][[2, 1, 0, 3]]
"""The same with the first and third server exchanged."""


def test_switching_where_it_pays() -> None:
    """One port: the heavy pairs, 8 a step; the wrong circuits leave 9 to the electrical rate."""
    steps = [HOT, HOT, COLD, COLD]
    anew = found(region(steps, 1, delay_s=0.5))
    assert (anew.figures.switchings, anew.figures.stall_s) == (1, 0.5)
    assert anew.objective.value == pytest.approx(32.5)
    hidden = found(region(steps, 1, delay_s=25.0, windows_s=(0.0, 0.0, 25.0, 0.0)))
    assert hidden.status is Status.OPTIMAL
    assert hidden.objective.value == pytest.approx(32.0)
    kept = found(region(steps, 1, delay_s=25.0))
    assert kept.figures.switchings == 0
    assert kept.objective.value == pytest.approx(34.0)
    assert kept.bound.value <= 34.0


def test_bounds_of_many_steps_hold() -> None:
    """Every sequence of circuits of three steps, enumerated."""
    rng = np.random.default_rng(5)
    demands = rng.lognormal(0.0, 1.0, (3, 4, 4)) * (1 - np.eye(4))
    for delay in (0.0, 0.2, 1.0, 10.0):
        problem = region(demands, 1, delay_s=delay)
        solution = found(problem)
        plans = within_ports(problem)
        times = np.array([[timed(problem, demand, plan) for plan in plans] for demand in demands])
        best = times[0]
        for own in times[1:]:
            best = np.minimum(best, best.min() + delay) + own
        assert solution.bound.value <= best.min() * (1 + 1e-9)
        assert solution.objective.value >= best.min() * (1 - 1e-9)
        if delay == 0.0:
            assert solution.objective.value == pytest.approx(best.min())


@pytest.mark.parametrize("servers", [16, 32])
def test_larger_regions_are_proven(servers: int) -> None:
    """Hot experts: one server decides; circuits in turn take longer."""
    demands = hot_experts(servers, HotExperts(1, 1, "dirichlet", 0.4, 0.3), seed=1)
    problem = region(demands, 6, 2.0)
    solution = found(problem)
    assert solution.status is Status.OPTIMAL
    assert found(problem, method="in-turn").objective.value > 1.05 * solution.objective.value


def test_a_proof_of_more_is_refused() -> None:
    problem = region(HOT, 1)
    proof = RunProof.of(problem, found(problem).certificates[0])
    check_boxes(problem, proof)
    with pytest.raises(ValueError, match="is open"):
        check_boxes(problem, replace(proof, bound_s=proof.bound_s * 1.001))
    with pytest.raises(ValueError, match="not looked at"):
        check_boxes(problem, replace(proof, tree=np.array([(0, 0), *proof.tree.tolist()])))


def test_limits_keep_what_there_is() -> None:
    """At once: circuits and a bound that holds."""
    problem = region(hot_experts(16, HotExperts(3, 1, "zipf", 1.0), seed=2), 4, delay_s=0.1)
    solution = found(problem, time_limit_s=0.0)
    assert solution.status is Status.FEASIBLE
    assert solution.objective.value > 0


def test_at_the_command_line(tmp_path: Path) -> None:
    """Keys of the JSON object, the check alone, what limits it, a first instance, a file of one's own."""
    said = run("solve", EXAMPLE, "--output", tmp_path, "--json").json
    assert said["status"] == "optimal"
    assert said["communication_time_s"] == pytest.approx(sum(step["transfer_s"] for step in said["steps"]))
    assert said["switch_s"] <= said["communication_time_s"]
    assert run("check", tmp_path / "solution.json").code == 0
    told = run("explain", tmp_path / "solution.json", "--json").json
    assert all(row["communication_time_s"] <= said["communication_time_s"] for row in told["gains"])
    first = tmp_path / "first.yaml"
    assert run("init", "regional-circuits", "-o", first).code == 0
    assert run("validate", first).code == 0
    np.savez(tmp_path / "trace.npz", np.array([HOT, COLD]))
    own = tmp_path / "own.yaml"
    own.write_text(OWN)
    found_own = run("solve", own, "--output", tmp_path / "own", "--json").json
    assert [step["transfer_s"] for step in found_own["steps"]] == pytest.approx([8.0, 8.0])


OWN = """
schema_version: 1
kind: regional-circuits
name: own
servers: 4
ports: 1
circuit_gbps: 8
electrical_gbps: 8
demands: [{file: trace.npz, scale: 1.0e+9}]
"""

WRONG = """
schema_version: 1
kind: regional-circuits
name: wrong
servers: 3
ports: [1, 2]
circuit_gbps: 100
electrical_gbps: 100
demands:
  - matrix: [[0, 1, 1], [1, 0, -1], [1, 1, 0]]
  - matrix: [[0, 1], [1, 0]]
  - {file: nowhere.npz}
switching: {delay_ms: -1}
"""


def test_bad_input(tmp_path: Path) -> None:
    """Everything in one message, with line and path."""
    file = tmp_path / "wrong.yaml"
    file.write_text(WRONG)
    message = run("validate", file)
    assert message.code == 2
    assert "switching.delay_ms" in message.stdout
    assert "demands[0].matrix[1][2]" in message.stdout
    file.write_text(WRONG.replace("delay_ms: -1", "window_ms: [1]").replace("-1]", "1]"))
    message = run("validate", file)
    assert message.code == 2
    for part in ("ports: wrong number", "demands[1].matrix", "no such file"):
        assert part in message.stdout


def test_the_file_is_the_keyword_api() -> None:
    """The class of the file takes arrays; the problem is that of the same file."""
    fields = {"servers": 4, "ports": 1, "circuit_gbps": 8, "electrical_gbps": 8, "split": True}
    solution = topoopt.solve(topoopt.RegionalCircuitsInstance(demands=[{"matrix": 1e9 * HOT}], **fields))
    assert (solution.status, solution.check.ok) == (Status.OPTIMAL, True)
    assert solution.plan.topologies == (((0, 1, 1), (2, 3, 1)),)
    with pytest.raises(topoopt.InputError, match="ports"):
        topoopt.problem_of(topoopt.RegionalCircuitsInstance(demands=[{"matrix": HOT}], **{**fields, "ports": -1}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda proof: {"multipliers": 0 * proof["multipliers"]}, "is open"),
        (lambda proof: {"multipliers": -proof["multipliers"]}, "not negative"),
        (lambda proof: {"multipliers": proof["multipliers"] * np.inf}, "finite"),
        (lambda proof: {"multipliers": proof["multipliers"][1:]}, "multipliers"),
        (lambda proof: {"multipliers": np.full(len(proof["multipliers"]), 1e308)}, "is open"),
        (lambda proof: {"steps": np.array([0, 1])}, "steps must be"),
        (lambda proof: {"bound_s": np.array([0.0])}, "above 0"),
        (lambda proof: {"bound_s": proof["bound_s"] * 1.01}, "is open"),
        (lambda proof: {"pair": proof["pair"].astype(float)}, "vectors"),
        (lambda proof: {"pair": proof["pair"][:0], "count": proof["count"][:0]}, "nodes"),
    ],
)
def test_broken_certificates_prove_nothing(damage: Any, message: str) -> None:
    """Whatever its arrays are, a certificate is refused, at any depth of the check."""
    problem = region(HOT, 1)
    solution = found(problem)
    (proof,) = solution.certificates
    with np.errstate(invalid="ignore"):
        broken = replace(proof, arrays={**proof.arrays, **damage(proof)})
    for certificates in ((broken,), (proof, broken), (proof, proof)):
        violations = CHECKER(problem, replace(solution, certificates=certificates), FULL).violations
        assert [violation.code for violation in violations] == ["bound"]
    assert message in str(CHECKER(problem, replace(solution, certificates=(broken,)), FULL).violations[0])
