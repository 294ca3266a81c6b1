"""What a check of language models leaves out is only claimed; what nothing needs is refused before any work."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from tests.support.valid_solutions import PODS, written
from topoopt.core.dag_topology_solution import PathMean
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.core.pod_circuits import PodPlan
from topoopt.core.solution import CheckResult, Decides, LeftOut
from topoopt.core.verdict import Status
from topoopt.kinds.llm_training.record import RECORDS
from topoopt.kinds.pipeline import solve
from topoopt.verify.dag_topology.padding import padding
from topoopt.verify.laws.findings import CheckDepth, CheckFindings
from topoopt.verify.llm_training import pod_walks
from topoopt.verify.llm_training.check import check_llm_training
from topoopt.verify.llm_training.switching import solution as rails_checked

PLAIN = """{schema_version: 1, kind: llm-training, name: case,
  model: {layers: 8, hidden: 1024, ffn_hidden: 4096, heads: 16, kv_heads: 4, vocabulary: 32000},
  batch: {sequences: 32, length: 2048},
  cluster: {servers: 4, gpus_per_server: 2, device: a100, gpu_memory_gib: 80, intra_server_gbps: 2400, degree: 2,
            interfaces: per-server, link_gbps: 100},
  strategy: {context: 1, micro_batch: [1, 2], zero: [0, 1], recompute: none, schedule: [1f1b, gpipe]},
  fabrics: [ideal-switch], search: {top: 2}}"""
RAILS = """{schema_version: 1, kind: llm-training, name: case,
  model: {layers: 8, hidden: 1024, ffn_hidden: 4096, heads: 16, kv_heads: 4, vocabulary: 32000},
  batch: {sequences: 32, length: 2048},
  cluster: {servers: 4, gpus_per_server: 2, device: a100, gpu_memory_gib: 80, intra_server_gbps: 2400, degree: 2,
            interfaces: per-gpu, link_gbps: 1},
  strategy: {tensor: 2, context: 1, pipeline: 2, micro_batch: [1, 2], zero: 0, recompute: none, schedule: 1f1b},
  switching: {delay: 20ms, ports: 2}, fabrics: [photonic-rails], search: {top: 2}}"""


@cache
def problem_of(text: str) -> LlmTrainingProblem:
    """Eight GPUs."""
    problem = written(text)
    assert isinstance(problem, LlmTrainingProblem)
    return problem


@cache
def solved(text: str) -> LlmTrainingSolution:
    """Checked."""
    found = solve(problem_of(text))
    assert isinstance(found, LlmTrainingSolution)
    assert found.check.ok, found.check.violations
    return found


def decided(findings: CheckFindings) -> set[tuple[str, Decides]]:
    """Figures left out that something rests on."""
    return {(one.figure, one.decides) for one in findings.not_recomputed if one.decides is not Decides.NOTHING}


def with_pods(solution: LlmTrainingSolution, **changes: Any) -> LlmTrainingSolution:
    """Another plan of circuits on the first fabric."""
    first = solution.fabrics[0]
    changed = replace(first, pods=replace(plan_of(solution), **changes))
    tried = len(changed.pods.tried) if changed.pods is not None else 0
    return replace(solution, fabrics=(replace(changed, tried=tried), *solution.fabrics[1:]))


def plan_of(solution: LlmTrainingSolution) -> PodPlan:
    """Of the first fabric."""
    plan = solution.fabrics[0].pods
    assert plan is not None
    return plan


@pytest.mark.parametrize("text", [PLAIN, PODS, RAILS])
def test_all_that_the_answer_rests_on_is_derived_in_full(text: str) -> None:
    """Nothing is claimed."""
    assert decided(check_llm_training(problem_of(text), solved(text))) == set()


@pytest.mark.parametrize("text", [PLAIN, PODS, RAILS])
@pytest.mark.parametrize("events", [0, 100, 2_000])
def test_with_little_work_the_bound_is_claimed(text: str, events: int) -> None:
    """Whatever is left out, somewhere it says that the bound rests on it; it is no violation."""
    findings = check_llm_training(problem_of(text), solved(text), CheckDepth(events=events))
    assert findings.ok, findings.violations
    assert Decides.BOUND in {decides for _, decides in decided(findings)}


def test_a_false_bound_that_is_left_out_is_claimed() -> None:
    """Shapes say nothing where they are not gone through; with enough work the same file is refused."""
    problem, solution = problem_of(PLAIN), solved(PLAIN)
    slower = solution.ranked[1]
    first = replace(
        solution.fabrics[0],
        plan=replace(solution.plan, strategy=slower.strategy),
        breakdown=slower.breakdown,
        memory=slower.memory,
    )
    forged = replace(
        solution,
        ranked=(slower, *solution.ranked[2:]),
        fabrics=(first,),
        objective=replace(solution.objective, value=slower.iteration_time_s),
        bound=replace(solution.bound, value=slower.iteration_time_s),
        status=Status.OPTIMAL,
    )
    assert not check_llm_training(problem, forged).ok
    assert ("shapes", Decides.BOUND) in decided(check_llm_training(problem, forged, CheckDepth(events=10)))


def test_proofs_in_pods_beyond_the_work_leave_the_bound_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs that are too large: the value rests on that of the plan, the bound on all."""
    monkeypatch.setattr(pod_walks, "MOST_STEPS", 1)
    findings = check_llm_training(problem_of(PODS), solved(PODS))
    assert findings.ok
    due = {("circuits of the plan", Decides.VALUE), ("strategies in pods", Decides.BOUND)}
    assert due <= decided(findings)


def test_plans_of_ports_beyond_the_work_leave_the_bound_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A false bound of a strategy is not counted as derived."""
    problem, solution = problem_of(RAILS), solved(RAILS)
    rails = solution.fabrics[0].rails
    assert rails is not None
    monkeypatch.setattr(rails_checked, "MOST_PASSES", 0)
    findings = check_llm_training(problem, solution)
    above = [b > one.iteration_time_s * (1 + 1e-6) for b, one in zip(rails.bounds_s, solution.ranked, strict=False)]
    assert findings.ok
    assert any(above)
    assert ("bounds_s", Decides.BOUND) in decided(findings)
    assert "one_shot_s" in {one.figure for one in findings.not_recomputed}
    higher = replace(rails, bounds_s=tuple(rails.step_s for _ in rails.bounds_s))
    forged = replace(solution, fabrics=(replace(solution.fabrics[0], rails=higher), *solution.fabrics[1:]))
    assert ("bounds_s", Decides.BOUND) in decided(check_llm_training(problem, forged))


@pytest.mark.parametrize("text", [PLAIN, PODS, RAILS])
def test_status_is_held_both_ways(text: str) -> None:
    """At its verified bound a solution is optimal, and no other one is; a claimed figure makes none."""
    problem, solution = problem_of(text), solved(text)
    other = Status.FEASIBLE if solution.status is Status.OPTIMAL else Status.OPTIMAL
    wrong = check_llm_training(problem, replace(solution, status=other))
    assert {law.code for law in wrong.violations} == {"status"}
    claimed = CheckResult(True, (), (LeftOut("bounds", "a limit", Decides.BOUND),))
    said = replace(solution, check=claimed)
    assert check_llm_training(problem, replace(said, status=Status.FEASIBLE)).ok
    assert not check_llm_training(problem, replace(said, status=Status.OPTIMAL)).ok
    if solution.status is Status.OPTIMAL:
        assert check_llm_training(problem, replace(solution, status=other), CheckDepth(events=100)).ok


def test_more_strategies_than_are_asked_for_are_refused_before_work() -> None:
    """No work at all is needed to say so."""
    problem, solution = problem_of(PLAIN), solved(PLAIN)
    padded = replace(solution, ranked=solution.ranked + solution.ranked[-1:] * 100)
    findings = check_llm_training(problem, padded, CheckDepth(events=0))
    assert {law.code for law in findings.violations} == {"order"}
    assert not findings.not_recomputed


def test_padding_of_pods_is_refused_before_work() -> None:
    """A mean that closes no box, a path of no mean, a proof where none is due, splits of no tree, no strategy twice."""
    problem, solution = problem_of(PODS), solved(PODS)
    plan = plan_of(solution)
    proof, best = plan.proof, plan.tried[plan.best]
    weightless = PathMean(((0, 1.0),), (0.0,) * plan.pods)

    def with_best(**changes: Any) -> dict[str, Any]:
        changed = replace(best, **changes)
        return {"tried": tuple(changed if one is best else one for one in plan.tried)}

    for change in (
        {"proof": replace(proof, means=(*proof.means, weightless), paths=(*proof.paths, ((0,),)))},
        {"proof": replace(proof, paths=(*proof.paths, ((0,),)))},
        {"proof": replace(proof, makespan_tree=(*proof.makespan_tree, (-1, 0)))},
        {"proof": replace(proof, circuits_tree=(*proof.circuits_tree, (-1, 0)))},
        with_best(tree=((-1, 0),)),
        with_best(paths=(((0,),),)),
    ):
        findings = check_llm_training(problem, with_pods(solution, **change))
        assert {law.code for law in findings.violations} == {"certificate"}, change
    twice = with_pods(solution, tried=(*plan.tried, plan.tried[-1]))
    assert {law.code for law in check_llm_training(problem, twice).violations} == {"strategy"}


def test_padding_by_itself() -> None:
    """Two boxes, two means, three paths."""
    tree = ((0, 1), (-1, 1), (-1, 2))
    paths = (((0,),), ((1,),))
    means = (PathMean(((0, 1.0),), (0.0,)), PathMean(((0, 0.5), (1, 0.5)), (0.0,)))
    assert list(padding({"tree": tree}, paths, means)) == []
    assert list(padding({"tree": ()}, (), ())) == []
    assert len(list(padding({"tree": tree[:2]}, paths, means))) == 2  # no tree, and a mean too many
    assert len(list(padding({"tree": tree}, (*paths, ((2,),)), means))) == 1
    assert len(list(padding({"tree": tree}, (*paths, paths[0]), means))) == 2
    assert len(list(padding({"tree": ((-1, 1),)}, paths[:1], (PathMean(((0, 1.0), (0, 1.0)), (0.0,)),)))) == 1


def test_a_quick_check_is_a_brief_one_and_a_brief_one_whole() -> None:
    """Of a small instance all three are the same."""
    (record,) = RECORDS
    for events in (0, 1_000_000, 200_000_000):
        findings = record.check(problem_of(PLAIN), solved(PLAIN), CheckDepth(events=events))
        assert (findings.ok, decided(findings)) == (True, set())
