"""`solve` with `search.topology: dag`: strategy and circuits together, against all circuits of all strategies."""

from __future__ import annotations

import csv
import itertools
import json
import math
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from solvers.dag_topology.pods import DEALT, best_in_pods, by_volume, pod_bounds, pod_row
from solvers.llm_training.strategies import search
from solvers.stop import Stop
from tests.support.cli_cases import run
from tests.support.llm_plans import claims_of, with_claims, with_fabric
from tests.support.read_back.exports import check_export
from tests.support.valid_solutions import PODS, written
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.errors import InfeasibleError, InputError, LimitError
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import pod_claims
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.proofs import Status, StopReason
from topoopt.core.result import Result
from topoopt.formats.patch_list import pods_export
from topoopt.formats.table import ExportOptions
from topoopt.kinds.llm_training.figures import PodFigures
from topoopt.kinds.llm_training.methods import explain
from topoopt.kinds.llm_training.page import answer
from topoopt.kinds.pipeline import Question, solve
from topoopt.simulate.dag import ordered_by_name
from topoopt.simulate.llm_training.ranks import PodSetting, pod_graph, program_of
from topoopt.simulate.llm_training.strategies import columns_of
from topoopt.verify.llm_training.check import check_llm_training
from topoopt.verify.llm_training.layers import records_of, row_of, shapes_of, strategies_of
from topoopt.verify.llm_training.pods import derived_graph, pod_floor, pod_seconds

EXPERTS = (
    PODS.replace("vocabulary: 32000}", "vocabulary: 32000, experts: {count: 8, per_token: 2, hidden: 1024}}")
    .replace("schedule: 1f1b", "schedule: [1f1b, gpipe, interleaved, zb-h1, zb-2p, dualpipe, dualpipe-v]")
    .replace("micro_batch: 2, zero: [0, 1]", "micro_batch: 1, zero: [0, 1, 3]")
    .replace("chunks: 1, ", "")
)


@cache
def problem_of(text: str = PODS) -> LlmTrainingProblem:
    """Eight GPUs in four pods."""
    problem = written(text)
    assert isinstance(problem, LlmTrainingProblem)
    return problem


@cache
def solved(text: str = PODS) -> Result[Any, Any]:
    """Checked."""
    found = solve(problem_of(text))
    assert isinstance(found, Result)
    assert found.check.ok, found.check.violations
    return found


def plan_of(solution: Result[Any, Any]) -> PodFigures:
    """Circuits of the first fabric."""
    pods = solution.figures.fabrics[0].pods
    assert isinstance(pods, PodFigures)
    return pods


def seconds_over(graph: DagTopologyProblem, counts: tuple[int, ...]) -> float:
    """An iteration, second by second of the next thing that ends: equal shares of the circuits of a direction."""
    speed = {pair: count * graph.rate for pair, count in zip(graph.pairs, counts, strict=True)}
    moves = len(graph.transfers)
    left = [move.volume for move in graph.transfers] + [task.duration for task in graph.tasks]
    waits = [set(after) for after in graph.after]
    running, done, now = set[int](), set[int](), 0.0
    while len(done) < len(left):
        running |= {step for step in range(len(left)) if step not in done and waits[step] <= done}
        ways = [(graph.transfers[step].source, graph.transfers[step].target) for step in running if step < moves]
        rate = {}
        for step in running:
            rate[step] = 1.0
            if step < moves:
                way = graph.transfers[step].source, graph.transfers[step].target
                rate[step] = speed[min(way), max(way)] / ways.count(way)
        passed = min(left[step] / rate[step] for step in running)
        now += passed
        for step in list(running):
            left[step] -= passed * rate[step]
            if left[step] <= 1e-12 * rate[step]:
                done.add(step)
                running.discard(step)
    return now


def every_choice(graph: DagTopologyProblem) -> list[tuple[int, ...]]:
    """All circuits within the ports."""
    found = []
    for counts in itertools.product(*(range(1, graph.ports[a] + 1) for a, _ in graph.pairs)):
        used = [0] * graph.pods
        for pair, count in zip(graph.pairs, counts, strict=True):
            for pod in pair:
                used[pod] += count
        if all(one <= ports for one, ports in zip(used, graph.ports, strict=True)):
            found.append(counts)
    return found


def strategies(problem: LlmTrainingProblem) -> list[ParallelStrategy]:
    """All of the space that are ranked, which are all that fit."""
    found = solve(replace(problem, top=1000, fabrics=("ideal-switch",)))
    assert isinstance(found, Result)
    return list(found.plan.ranked)


@cache
def by_force(text: str = PODS) -> dict[ParallelStrategy, dict[tuple[int, ...], float]]:
    """Seconds of every strategy over all circuits."""
    problem = problem_of(text)
    assert problem.pods is not None
    found = {}
    for strategy in strategies(problem):
        graph = derived_graph(problem, strategy, problem.pods)
        found[strategy] = {counts: seconds_over(graph, counts) for counts in every_choice(graph)}
    return found


def test_no_strategy_and_no_circuits_are_faster() -> None:
    """Every strategy of the space over all circuits; the fewest of those that are as fast."""
    solution, every = solved(), by_force()
    rows = [row for shape in shapes_of(problem_of()) for row in strategies_of(problem_of(), shape)]
    assert len(every) == len(rows) > 10
    best = min(min(times.values(), default=math.inf) for times in every.values())
    assert solution.objective.value == pytest.approx(best, rel=1e-9)
    assert solution.status is Status.OPTIMAL
    assert solution.stopped_by is StopReason.CONVERGED
    own, plan = every[solution.plan.strategy], plan_of(solution)
    fewest = min(sum(counts) for counts, took in own.items() if took <= best * (1 + 1e-9))
    assert plan.circuits_total == claims_of(solution).circuits_bound == fewest
    assert sum(plan.ports_saved) == 4 * plan.settings.ports - 2 * fewest
    claims = claims_of(solution)
    for one, verdict, bound_s in zip(plan.candidates, claims.verdicts, claims.bounds_s, strict=True):
        times = every[one.strategy].values()
        assert (verdict == "crowded") == (not times)
        assert bound_s <= min(times, default=math.inf) * (1 + 1e-9)


def test_gains_are_told_by_what_others_would_have_chosen() -> None:
    """The strategy of an ideal switch over the best of all its circuits; the plan's over those by volume."""
    solution, plan = solved(), plan_of(solved())
    first = solution.plan.ranked[0]
    assert plan.first_s == pytest.approx(min(by_force()[first].values()), rel=1e-9)
    assert plan.first_s is not None
    assert plan.first_s > 1.01 * plan.makespan_s
    circuits = tuple(by_volume(plan.graph)[1].tolist())
    assert plan.volume_s == pytest.approx(by_force()[solution.plan.strategy][circuits], rel=1e-9)
    text = answer(solution)
    assert f"{100 * (1 - plan.makespan_s / plan.first_s):.1f} % less" in text
    assert ("as fast as over circuits by volume" in text) == (plan.volume_s < plan.makespan_s * (1 + 1e-6))


def test_slack_saves_circuits() -> None:
    """As few as any choice within a fifth more."""
    text = PODS.replace("search:", "slack_percent: 20, search:")
    solution, plan = solved(text), plan_of(solved(text))
    own = by_force()[solution.plan.strategy]
    limit = 1.2 * min(own.values())
    fewest = min(sum(counts) for counts, took in own.items() if took <= limit * (1 + 1e-9))
    assert plan.circuits_total == claims_of(solution).circuits_bound == fewest < plan_of(solved()).circuits_total
    assert solved().objective.value < solution.objective.value <= limit
    assert solution.bound.value == pytest.approx(solved().objective.value, rel=1e-6)


@pytest.mark.parametrize("text", [PODS, EXPERTS, PODS.replace("{gpus: 2, ports: 3", "{gpus: 4, ports: 2")])
def test_no_circuits_are_below_the_bound_of_all_strategies(text: str) -> None:
    """Passes followed are below neither; graphs of either are the same, and none is faster over circuits dealt."""
    problem = problem_of(text)
    assert problem.pods is not None
    every = strategies(problem)
    if text == EXPERTS:
        every = every[:: max(1, len(every) // 60)]
        assert {one.zero for one in every} == {0, 1, 3}
        assert {one.expert for one in every} >= {1, 2, 4}
        assert len({one.schedule for one in every}) > 4
    floors = pod_seconds(problem, records_of([row_of(one) for one in every]))
    again = pod_bounds(problem, columns_of(every, problem.model.layers))
    followed = [pod_floor(problem, records_of([row_of(one)])) for one in every]
    assert (np.maximum(floors, again) <= np.array(followed) * (1 + 1e-9)).all()
    close = []
    for strategy, floor in zip(every, followed, strict=True):
        row = pod_row(problem, strategy, floor)
        if row.graph is None:
            assert row.crowded
            continue
        due = derived_graph(problem, strategy, problem.pods)
        assert row.graph.names == due.names
        assert row.graph.after == due.after
        assert row.graph.volume == pytest.approx(due.volume, rel=1e-12)
        assert row.reached_s >= floor * (1 - 1e-9)
        close.append(floor / row.reached_s)
    assert len(DEALT) > 1
    assert np.median(close) > 0.4


def test_steps_by_name_are_the_same_graph() -> None:
    problem = problem_of()
    strategy = solved().plan.strategy
    graph = pod_graph(problem, program_of(problem, strategy), PodSetting(2, 3, 12.5))
    other = ordered_by_name(graph)
    assert sorted(other.names) == sorted(graph.names)
    assert list(other.names[: len(other.transfers)]) == sorted(one.name for one in graph.transfers)
    before = {name: {graph.names[k] for k in after} for name, after in zip(graph.names, graph.after, strict=True)}
    assert before == {name: {other.names[k] for k in a} for name, a in zip(other.names, other.after, strict=True)}
    counts = tuple(link.count for link in plan_of(solved()).links)
    assert seconds_over(other, counts) == pytest.approx(seconds_over(graph, counts), rel=1e-12)


def test_a_number_of_strategies_bounds_the_search() -> None:
    """What was not tried is bounded, and nothing more is claimed."""
    solution = solved(PODS.replace("circuit_gbps: 12.5}", "circuit_gbps: 12.5, strategies: 1}"))
    plan = plan_of(solution)
    assert solution.stopped_by is StopReason.BUDGET
    assert solution.status is Status.FEASIBLE
    claims = claims_of(solution)
    assert claims.rest_s is not None
    assert solution.bound.value == pytest.approx(claims.rest_s)
    assert solution.bound.value <= solved().objective.value <= solution.objective.value
    assert claims.candidates_bound_s(plan.makespan_s) > solution.bound.value


def test_the_checker_objects() -> None:
    """Other circuits, bounds, verdicts, proofs, strategies, another time."""
    problem, solution = problem_of(), solved()
    first, pods, claims = solution.plan.fabrics[0], plan_of(solution), claims_of(solution)
    assert check_llm_training(problem, solution).ok
    assert not check_llm_training(problem, solution).not_recomputed
    circuits, candidates, proof = pods.decisions.circuits, pods.candidates, claims.proofs[pods.best]
    other = next(k for k in range(len(candidates)) if k not in (pods.best, pods.first))

    def put(row: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
        return (*row[:place], value, *row[place + 1 :])

    best = candidates[pods.best]
    for decisions in (
        {"circuits": (circuits[0] + 1, *circuits[1:])},
        {"circuits": circuits[1:]},
        {"circuits": ()},
        {"candidates": candidates[: pods.best + 1][::-1]},
        {"candidates": put(candidates, pods.best, replace(best, circuits=tuple(1 for _ in best.circuits)))},
        {"candidates": put(candidates, pods.best, replace(best, circuits=()))},
        {"candidates": put(candidates, other, replace(candidates[other], circuits=circuits))},
        {"candidates": put(candidates, pods.first, candidates[other])},
    ):
        changed = replace(pods.decisions, **decisions)  # type: ignore[arg-type]
        if vars(changed) == vars(pods.decisions):
            continue
        assert not check_llm_training(problem, with_fabric(solution, 0, replace(first, pods=changed))).ok, decisions
    for change in (
        {"circuits_bound": claims.circuits_bound + 1},
        {"proofs": {**claims.proofs, pods.best: replace(proof, circuits_tree=((0, 1),))}},
        {"rest_s": None if claims.rest_s is not None else pods.makespan_s},
        {"bounds_s": put(claims.bounds_s, pods.best, claims.bounds_s[pods.best] * 1.01)},
        {"bounds_s": put(claims.bounds_s, other, pods.makespan_s * 2)},
        {"verdicts": put(claims.verdicts, other, "crowded"), "bounds_s": put(claims.bounds_s, other, 0.0)},
    ):
        assert not check_llm_training(problem, with_claims(solution, **change)).ok, change
    for factor in (0.999, 1.001):
        value = replace(solution.objective, value=solution.objective.value * factor)
        assert not check_llm_training(problem, replace(solution, objective=value)).ok
    assert not check_llm_training(problem, with_fabric(solution, 0, replace(first, pods=None))).ok


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("gpus: 2, ports: 3", "gpus: 3, ports: 3", "does not divide the 8 GPUs"),
        ("gpus: 2, ports: 3", "gpus: 8, ports: 3", "one pod holds the whole job"),
        ("gpus: 2, ports: 3", "gpus: -2, ports: 3", "pods.gpus"),
        ("gpus: 2, ports: 3", "gpus: 2, ports: 0", "pods.ports"),
        ("gpus: 2, ports: 3", "gpus: 2, ports: 5000", "pods.ports"),
        ("gpus: 2, ports: 3, circuit_gbps: 12.5", "gpus: 2, ports: 3, circuit_gbps: -1", "pods.circuit_gbps"),
        ("gpus: 2, ports: 3, circuit_gbps: 12.5", "gpus: 2, ports: 3, strategies: 0", "pods.strategies"),
        ("topology: dag, ", "", "plays no part without search.topology: dag"),
        ("topology: dag", "topology: mesh", "search.topology"),
        ("search:", "fabrics: [fat-tree], search:", "on none of the fabrics"),
        ("search:", "switching: {delay: 1ms}, search:", "circuits are set anew or stay"),
        ("search:", "slack_percent: -1, search:", "slack_percent"),
    ],
)
def test_refusals(old: str, new: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        written(PODS.replace(old, new))
    problems = error.value.problems
    assert words in " ".join(f"{one.path}: {one.message}" for one in problems)
    assert len(problems) == 1, problems


def test_defaults_are_those_of_the_servers() -> None:
    """A server is a pod, its interfaces are ports."""
    pods = problem_of(PODS.replace("pods: {gpus: 2, ports: 3, circuit_gbps: 12.5}, ", "")).pods
    assert pods is not None
    assert (pods.gpus, pods.ports, pods.circuit_gbps) == (2, 4, 200.0)
    half = PODS.replace("gpus: 2, ports: 3, circuit_gbps: 12.5", "gpus: 1").replace("interfaces: per-gpu, ", "")
    with pytest.raises(InputError, match="not a whole number of interfaces"):
        written(half.replace("degree: 4", "degree: 3"))


def test_nothing_that_pods_hold() -> None:
    """Tensor groups of four in pods of two; one port for two neighbours; memory that never fits."""
    with pytest.raises(InfeasibleError, match="none that pods of 2 GPUs hold"):
        solve(problem_of(PODS.replace("tensor: [1, 2]", "tensor: 4")))
    with pytest.raises(InfeasibleError, match="more others than its 1 ports"):
        solve(problem_of(PODS.replace("ports: 3", "ports: 1").replace("context: 1", "context: 1, pipeline: 4")))
    with pytest.raises(LimitError, match="and there are more"):
        solve(problem_of(PODS.replace("ports: 3", "ports: 1").replace("12.5}", "12.5, strategies: 1}")))
    with pytest.raises(InfeasibleError, match="would do"):
        solve(problem_of(PODS.replace("gpu_memory_gib: null", "gpu_memory_gib: 0.5")))


def test_an_interrupt_keeps_the_best_so_far() -> None:
    """The first strategy gets circuits in any case; of the others nothing is claimed."""
    problem, stop = problem_of(), Stop()
    ranked = search(problem, stop, count=1).ranked
    stop.interrupted.set()
    found, seconds = best_in_pods(problem, ranked, stop)
    assert found.stopped_by is StopReason.INTERRUPTED
    assert found.plan.pods is not None
    assert found.plan.strategy in [one.strategy for one in found.plan.pods.candidates]
    assert found.plan.strategy == ranked[0].strategy
    assert pod_claims(found.certificates).bound_s(seconds) == 0.0


def test_from_the_command_line(tmp_path: Path) -> None:
    file, out = tmp_path / "case.yaml", tmp_path / "out"
    file.write_text(PODS)
    result = run("solve", file, "-o", out, "--json")
    assert result.code == 0, result.stderr
    document, plan = result.json, plan_of(solved())
    pods = document["pods"]
    assert document["fabric"] == "pod-circuits"
    assert document["status"] == "optimal"
    assert document["iteration_time_s"] == pods["makespan_s"] == pytest.approx(plan.makespan_s)
    assert sum(document["breakdown_s"].values()) == pytest.approx(document["iteration_time_s"])
    assert pods["circuits"] == [[one.pod, one.peer, one.count] for one in plan.links]
    assert pods["gain_over_ideal_strategy_percent"] == pytest.approx(100 * (1 - plan.makespan_s / (plan.first_s or 0)))
    report = (out / "report.html").read_text()
    assert "Circuits between pods" in report
    assert "Ports by pod" in report
    assert run("check", out / "solution.json").code == 0
    slack = run("solve", file, "-o", tmp_path / "slack", "--set", "slack_percent=20", "--json")
    assert slack.code == 0, slack.stderr
    assert slack.json["pods"]["circuits_total"] < pods["circuits_total"]
    assert run("check", tmp_path / "slack" / "solution.json").code == 0
    late = run("solve", file, "-o", tmp_path / "late", "--time-limit", 0, "--json")
    assert late.code == 4
    assert late.json["bound"]["value"] <= document["iteration_time_s"] <= late.json["iteration_time_s"]
    assert run("check", tmp_path / "late" / "solution.json").code == 0
    why = run("explain", out / "solution.json", "--time-limit", 30, "--json")
    assert why.code in (0, 4), why.stderr
    assert why.json["pods"]["circuits_total"] == pods["circuits_total"]


def test_exports(tmp_path: Path) -> None:
    """Circuits port to port, and the graph, which `solve` takes as well."""
    file, out = tmp_path / "case.yaml", tmp_path / "out"
    file.write_text(PODS)
    assert run("solve", file, "-o", out).code == 0
    patched = run("export", out / "solution.json", "--to", "patch-list", "-o", tmp_path / "patches", "--json")
    assert patched.code == 0, patched.stderr
    with (tmp_path / "patches" / "pod-circuits.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    plan = plan_of(solved())
    for one in plan.links:
        between = [row for row in rows if (int(row["pod"]), int(row["peer_pod"])) == (one.pod, one.peer)]
        assert len(between) == one.count
    ends = [(row[pod], row[port]) for row in rows for pod, port in (("pod", "port"), ("peer_pod", "peer_port"))]
    assert len(set(ends)) == len(ends) == 2 * plan.circuits_total
    assert all(1 <= int(port) <= plan.settings.ports for _, port in ends)
    check_export("patch-list", pods_export(plan.circuits, ExportOptions()))
    graph = tmp_path / "graph.json"
    made = run("export", out / "solution.json", "--to", "dag", "-o", graph, "--json")
    assert made.code == 0, made.stderr
    assert json.loads(graph.read_text())["ports"] == [3] * 4
    again = run("solve", graph, "-o", tmp_path / "again", "--json")
    assert again.json["makespan"] == pytest.approx(plan.makespan_s, rel=1e-9)
    failed = run("resilience", out / "solution.json")
    assert failed.code == 2
    assert "failures of circuits between pods are not followed" in " ".join(failed.stderr.split())


def test_parts_of_an_iteration_are_parts_of_their_sum() -> None:
    """Those of a plan on pods are of the iteration over one switch, which is shorter than the objective."""
    solution = solved()
    assert solution.figures.breakdown.total < solution.objective.value
    (text,) = (
        word
        for word in explain(solution, Question(stop=Stop(deadline=0.0))).words
        if word.startswith("Of an iteration")
    )
    assert sum(map(float, re.findall(r"([\d.]+) %", text))) == pytest.approx(100.0, abs=0.5)
