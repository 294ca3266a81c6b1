"""Pods that forward: all circuits and routes of small jobs, fair shares by hand, never worse than direct, refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from solvers.dag_topology.route_choice import routed
from tests.support.cli_cases import run
from tests.support.dag_jobs import drawn, pipeline, problem
from tests.support.forwarded_jobs import all_circuits, all_ways, exact_times, forwarded_job
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.dag_topology_solution import DagTopologySolution, ForwardedPlan, PairCircuits
from topoopt.core.errors import InfeasibleError, LimitError
from topoopt.core.verdict import Status
from topoopt.kinds.dag_topology.report import render_dag_topology
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.simulate.dag.forwarded_circuits import RoutedJob
from topoopt.simulate.dag.shared_circuits import StepGraph, followed
from topoopt.verify.dag_topology.check import check_dag_topology
from topoopt.verify.dag_topology.follow_routes import fair_rates, follow_routes
from topoopt.verify.laws.findings import FULL

IN_TURN: Any = {"first": ((0, 1, 8.0), []), "second": ((0, 2, 2.0), ["first"])}
"""8 to one pod, then 2 to another."""


def found(job: DagTopologyProblem, **options: Any) -> DagTopologySolution:
    """Solved and checked in full."""
    solution: DagTopologySolution = solve(job, SolveOptions(**options))
    assert check_dag_topology(job, solution, FULL).violations == ()
    return solution


@pytest.mark.parametrize("seed", range(40))
def test_all_circuits_and_routes_of_small_jobs(seed: int) -> None:
    """Proven, none earlier and none with fewer circuits, by a simulator of fractions; or none at all, and said so."""
    job = forwarded_job(np.random.default_rng(seed))
    plans = [
        (max(exact_times(job, circuits, ways)[1]), sum(circuits.values()))
        for circuits in all_circuits(job)
        for ways in all_ways(job, circuits)
    ]
    if not plans:
        with pytest.raises(InfeasibleError, match="too few ports: no circuits serve every transfer"):
            solve(job, SolveOptions())
        return
    least = min(time for time, _ in plans)
    solution = found(job)
    assert solution.status is Status.OPTIMAL
    assert solution.objective.value == pytest.approx(float(least), rel=1e-9)
    fewest = min(count for time, count in plans if time == least)
    assert solution.circuits_total == solution.proof.circuits_bound == fewest


@pytest.mark.parametrize("seed", range(30))
def test_three_simulators(seed: int) -> None:
    """Begin and end of every step: compiled, of the checker, and in fractions."""
    rng = np.random.default_rng(seed)
    job = replace(drawn(rng), max_hops=3)
    ours = RoutedJob.of(job)
    circuits = rng.integers(0, 4, len(ours.pairs))
    routes, _ = routed(ours, circuits)
    if routes is None:
        circuits = circuits + 1
        routes, _ = routed(ours, circuits)
    assert routes is not None
    counts = {pair: int(count) for pair, count in zip(ours.pairs, circuits, strict=True) if count}
    theirs = follow_routes(job, counts, [route for route in routes if len(route) > 2])
    exact = exact_times(job, counts, dict(zip(job.directions, routes, strict=True)))
    for mine, other, fractions in zip(ours.followed(circuits, routes), theirs, exact, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(mine, [float(value) for value in fractions], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_direct_routes_share_equally(seed: int) -> None:
    """Where nothing is forwarded the law is that of circuits of their own pairs."""
    rng = np.random.default_rng(seed)
    job = drawn(rng)
    counts = rng.integers(1, 5, len(job.pairs))
    ours = RoutedJob.of(job)
    circuits = np.zeros(len(ours.pairs), dtype=np.int64)
    circuits[[int(ours.number[pair]) for pair in job.pairs]] = counts
    for one, other in zip(
        ours.followed(circuits, job.directions), followed(StepGraph.of(job), counts, job.rate), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_fair_rates_by_hand() -> None:
    """Two on an arc of 2, one of them on an arc of 3 with a third: 1 each on the first, the 2 left to the third."""
    arcs = {(0, 1): [(0, 1)], (0, 2): [(0, 1), (1, 2)], (1, 2): [(1, 2)]}
    rates = fair_rates({(0, 1): 1, (0, 2): 1, (1, 2): 1}, arcs, {(0, 1): 2.0, (1, 2): 3.0})
    assert rates == pytest.approx({(0, 1): 1.0, (0, 2): 1.0, (1, 2): 2.0})


def test_forwarding_gains_by_hand() -> None:
    """Two ports at the first pod: direct one circuit each, 8 + 2 = 10; both to the second pod, 4 + 2 = 6 by it."""
    direct = problem(IN_TURN, 3, (2, 3, 1))
    assert found(direct).objective.value == pytest.approx(10.0)
    solution = found(replace(direct, max_hops=2))
    assert (solution.objective.value, solution.status) == (pytest.approx(6.0), Status.OPTIMAL)
    assert solution.circuits == (PairCircuits(0, 1, 2), PairCircuits(1, 2, 1))
    assert solution.routes == ((0, 1, 2),)
    page = render_dag_topology(solution)
    assert "0 → 1 → 2" in page
    assert "0 → 2 by 1" in page


@pytest.mark.parametrize(("shape", "ports"), [((2, 2, 2, 4), 3), ((2, 2, 2, 4), 4), ((2, 2, 4, 4), 4)])
def test_never_worse_than_direct(shape: tuple[int, int, int, int], ports: int) -> None:
    """No later, and with no more circuits where it is as early."""
    job = pipeline(*shape, ports)
    direct, over = found(job), found(replace(job, max_hops=2))
    assert over.objective.value <= direct.objective.value * (1 + 1e-9)
    later = over.objective.value >= direct.objective.value * (1 - 1e-9)
    assert not later or over.circuits_total <= direct.circuits_total


def test_fewer_ports_than_peers() -> None:
    """A ring of four pods with two ports each, all to all: without forwarding there are no circuits at all."""
    steps: Any = {f"{a}{b}": ((a, b, 1.0), []) for a in range(4) for b in range(4) if a != b}
    with pytest.raises(InfeasibleError, match="pod 0 transfers to or from 3 others and has 2"):
        solve(problem(steps, 4, 2), SolveOptions())
    solution = found(replace(problem(steps, 4, 2), max_hops=2), time_limit_s=20.0)
    # Each pod sends 3 and forwards for the two that are opposite: 8 arcs carry 8 + 2 * 4 = 16, so 2 at best.
    assert solution.objective.value == pytest.approx(2.0)
    assert 1.5 <= solution.bound.value <= 2.0


def test_slack_saves_circuits_by_forwarding() -> None:
    """Within 60 %, the fewest of all circuits and routes; the fastest plan stands beside."""
    job = replace(problem(IN_TURN, 3, (3, 4, 2)), max_hops=2, slack_percent=60.0)
    plans = [
        (max(exact_times(job, circuits, ways)[1]), sum(circuits.values()))
        for circuits in all_circuits(job)
        for ways in all_ways(job, circuits)
    ]
    least = min(time for time, _ in plans)
    solution = found(job)
    fewest = min(count for time, count in plans if time <= least * 8 / 5)
    assert solution.circuits_total == solution.proof.circuits_bound == fewest
    assert solution.fastest_forwarded is not None
    assert solution.objective.value > float(least)
    alone = replace(solution, fastest_forwarded=None)
    assert check_dag_topology(job, alone, FULL).violations


def test_many_pods_at_once() -> None:
    """Routes too many to list: a plan, and a bound by what holds for any way to forward."""
    job = replace(pipeline(8, 2, 8, 6, 6), max_hops=4)
    solution = found(job, time_limit_s=0.0)
    assert 0 < solution.bound.value <= solution.objective.value
    assert solution.status is Status.FEASIBLE
    assert solution.proof.makespan_tree == ((-1, 0),)


def test_matrices_do_not_forward(tmp_path: Path) -> None:
    """They give every pair its own circuits; the bound holds for forwarding too."""
    job = replace(problem(IN_TURN, 3, (2, 3, 1)), max_hops=2)
    solution = found(job, method="volume")
    assert (solution.objective.value, solution.routes) == (pytest.approx(10.0), ())
    assert solution.bound.value <= 6.0
    with pytest.raises(LimitError, match="circuits of its own"):
        solve(replace(job, ports=(1, 3, 1)), SolveOptions(method="volume"))


WRONG_PLANS = [
    ({"routes": ()}, "routes"),
    ({"routes": ((0, 1, 0, 2),)}, "routes"),
    ({"routes": ((0, 2, 1), (0, 1, 2))}, "routes"),
    ({"routes": ((1, 0, 2),)}, "routes"),
    ({"circuits": (PairCircuits(1, 2, 1), PairCircuits(0, 1, 2))}, "circuits"),
    ({"circuits": (PairCircuits(0, 1, 2), PairCircuits(1, 2, 0))}, "circuits"),
    ({"circuits": (PairCircuits(0, 1, 2), PairCircuits(1, 2, 2))}, "ports"),
    ({"circuits": (PairCircuits(0, 1, 2),)}, "routes"),
    ({"fastest": (2, 1)}, "circuits"),
    ({"max_hops": 3}, "identity"),
    ({"fastest_forwarded": ForwardedPlan((PairCircuits(0, 1, 2),), ())}, "routes"),
]


@pytest.mark.parametrize(("change", "code"), WRONG_PLANS)
def test_false_plans(change: dict[str, Any], code: str) -> None:
    """What is no way, or goes where no circuit is."""
    job = replace(problem(IN_TURN, 3, (2, 3, 1)), max_hops=2)
    solution = replace(found(job), **change)
    assert code in {law.code for law in check_dag_topology(job, solution, FULL).violations}


def test_false_bounds() -> None:
    """More than the boxes prove: a later time, more circuits, boxes that are not looked at."""
    job = forwarded_job(np.random.default_rng(0))
    solution = found(job)
    proof = solution.proof
    later = replace(solution, objective=replace(solution.objective, value=solution.objective.value * 2))
    assert check_dag_topology(job, later, FULL).violations
    for change in ({"circuits_bound": proof.circuits_bound + 1}, {"makespan_tree": ((0, 0), (-1, 0))}):
        assert check_dag_topology(job, replace(solution, proof=replace(proof, **change)), FULL).violations


def test_at_the_command_line(tmp_path: Path) -> None:
    """Keys of the JSON object, the check alone, what is refused."""
    text = """
schema_version: 1
kind: dag-topology
name: in-turn
pods: 3
ports: [2, 3, 1]
circuit_rate: 1
max_hops: 2
transfers:
  - {name: first, source: 0, target: 1, volume: 8}
  - {name: second, source: 0, target: 2, volume: 2, after: [first]}
"""
    file = tmp_path / "case.yaml"
    file.write_text(text)
    said = run("solve", file, "--out", tmp_path / "out", "--json").json
    assert (said["makespan"], said["routes"], said["max_hops"]) == (6.0, [[0, 1, 2]], 2)
    assert run("check", tmp_path / "out" / "solution.json").code == 0
    assert "0 → 1 → 2" in run("solve", file, "--out", tmp_path / "out").stdout
    told = run("explain", tmp_path / "out" / "solution.json", "--instance", file, "--json").json
    assert told["routes"] == [[0, 1, 2]]
    for hops in (0, 5):
        file.write_text(text.replace("max_hops: 2", f"max_hops: {hops}"))
        refused = run("validate", file)
        assert refused.code == 2
        assert "max_hops" in refused.stdout
    file.write_text(text.replace("max_hops: 2", "max_hops: 2").replace("[2, 3, 1]", "[1, 1, 1]"))
    assert run("solve", file, "--out", tmp_path / "none").code == 3
