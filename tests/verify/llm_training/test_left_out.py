"""What a check of language models leaves out is only claimed; what nothing needs is refused before any work."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from tests.support.llm_plans import claims_of, with_certificate, with_claims, with_fabric, with_plan
from tests.support.valid_solutions import PODS, written
from topoopt.core.dag_topology import CircuitProof, PathMean
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import rail_bounds_s, rails_certificate
from topoopt.core.proofs import Status
from topoopt.core.result import CheckResult, Decides, LeftOut, Result
from topoopt.kinds.llm_training import RECORDS
from topoopt.kinds.pipeline import solve
from topoopt.verify.checker import CheckDepth, CheckFindings
from topoopt.verify.dag_topology import padding
from topoopt.verify.llm_training import pods as pod_walks
from topoopt.verify.llm_training import rails as rails_checked
from topoopt.verify.llm_training.check import check_llm_training

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
  switching: {delay: 20ms, ports: 2}, fabrics: [photonic-rails],
  overlap: {pipeline: true}, search: {top: 2}}"""


@cache
def problem_of(text: str) -> LlmTrainingProblem:
    """Eight GPUs."""
    problem = written(text)
    assert isinstance(problem, LlmTrainingProblem)
    return problem


@cache
def solved(text: str) -> Result[Any, Any]:
    """Checked."""
    found = solve(problem_of(text))
    assert isinstance(found, Result)
    assert found.check.ok, found.check.violations
    return found


def decided(findings: CheckFindings) -> set[tuple[str, Decides]]:
    """Figures left out that something rests on."""
    return {(one.figure, one.decides) for one in findings.not_recomputed if one.decides is not Decides.NOTHING}


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
    slower, value = solution.plan.ranked[1], solution.figures.ranked[1].iteration_time_s
    first = replace(solution.plan.fabrics[0], strategy=slower)
    forged = replace(
        with_plan(solution, ranked=solution.plan.ranked[1:], fabrics=(first,)),
        objective=replace(solution.objective, value=value),
        bound=replace(solution.bound, value=value),
        status=Status.OPTIMAL,
    )
    assert not check_llm_training(problem, forged).ok
    assert ("shapes", Decides.BOUND) in decided(check_llm_training(problem, forged, CheckDepth(events=10)))


def test_proofs_in_pods_beyond_the_work_leave_the_bound_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs that are too large: the value rests on that of the plan, the bound on all."""
    solution = solved(PODS)
    monkeypatch.setattr(pod_walks, "MAX_STEPS", 1)
    findings = check_llm_training(problem_of(PODS), solution)
    assert findings.ok
    due = {("circuits of the plan", Decides.VALUE), ("strategies in pods", Decides.BOUND)}
    assert due <= decided(findings)


def test_plans_of_ports_beyond_the_work_leave_the_bound_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A false bound of a strategy is not counted as derived. Handing over takes nothing, so that circuits decide."""
    problem = problem_of(RAILS)
    problem = replace(problem, device=replace(problem.device, reached=replace(problem.device.reached, hop=0.0)))
    solution = solve(problem)
    assert isinstance(solution, Result)
    bounds_s = rail_bounds_s(solution.certificates)
    monkeypatch.setattr(rails_checked, "MAX_PASSES", 0)
    findings = check_llm_training(problem, solution)
    ranked = solution.figures.ranked
    above = [b > one.iteration_time_s * (1 + 1e-6) for b, one in zip(bounds_s, ranked, strict=False)]
    assert findings.ok
    assert any(above)
    assert ("rails", Decides.BOUND) in decided(findings)
    higher = rails_certificate([solution.objective.value for _ in bounds_s])
    forged = with_certificate(solution, "rail_bounds_s", higher)
    assert ("rails", Decides.BOUND) in decided(check_llm_training(problem, forged))


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
    padded = with_plan(solution, ranked=solution.plan.ranked + solution.plan.ranked[-1:] * 100)
    findings = check_llm_training(problem, padded, CheckDepth(events=0))
    assert {law.code for law in findings.violations} == {"order"}
    assert not findings.not_recomputed


def test_padding_of_pods_is_refused_before_work() -> None:
    """A mean that closes no box, a path of no mean, a proof where none is due, splits of no tree, no strategy twice."""
    problem, solution = problem_of(PODS), solved(PODS)
    pods, claims = solution.figures.fabrics[0].pods, claims_of(solution)
    proof = claims.proofs[pods.best]
    weightless = PathMean(((0, 1.0),), (0.0,) * pods.pods)
    other = next(k for k in range(len(pods.candidates)) if k != pods.best)

    def with_proof(**changes: Any) -> Result[Any, Any]:
        return with_claims(solution, proofs={**claims.proofs, pods.best: replace(proof, **changes)})

    for changed in (
        with_proof(means=(*proof.means, weightless), paths=(*proof.paths, ((0,),))),
        with_proof(paths=(*proof.paths, ((0,),))),
        with_proof(makespan_tree=(*proof.makespan_tree, (-1, 0))),
        with_proof(circuits_tree=(*proof.circuits_tree, (-1, 0))),
        with_claims(solution, proofs={**claims.proofs, other: CircuitProof((), 0, ((-1, 0),))}),
        replace(solution, certificates=(*solution.certificates, solution.certificates[0])),
    ):
        findings = check_llm_training(problem, changed)
        assert {law.code for law in findings.violations} == {"certificate"}
    first = solution.plan.fabrics[0]
    candidates = (*pods.candidates, pods.candidates[-1])
    twice = with_fabric(solution, 0, replace(first, pods=replace(pods.decisions, candidates=candidates)))
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
