"""Failures of direct links under a language model in training, against what a ring of four servers comes to by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from solvers.stop import Stop
from tests.support.cli_cases import refusals, run
from tests.support.llm_cases import training
from topoopt.analyses.resilience.run import ResilienceQuestion, Subject, rewire, study, training_subject
from topoopt.core.errors import CheckError, InputError
from topoopt.core.outcomes import Failure
from topoopt.core.parallelism import Overlap
from topoopt.core.result import Result
from topoopt.kinds.pipeline import solve
from topoopt.verify.failures import check_training_repair

CASE = """schema_version: 1
kind: llm-training
name: ring
model: llama3-70b
batch: {sequences: 32, length: 4096}
cluster: {servers: 4, gpus_per_server: 8, device: h100, gpu_memory_gib: null, intra_server_gbps: 3600, degree: 2,
  interfaces: per-server, link_gbps: 25}
strategy: {tensor: 8, pipeline: PIPELINE, context: 1, zero: 1, micro_batch: 1, recompute: none, schedule: 1f1b}
overlap: {data: false}
fabrics: [FABRIC]
"""


def _solution(*, pipeline: int, fabric: str, overlap: bool = False) -> tuple[Any, Result[Any, Any]]:
    problem = training("llama3-70b", 32, 32, 4096)
    parts = {"tensor": (8,), "pipeline": (pipeline,), "context": (1,), "zero": (1,), "micro_batch": (1,)}
    space: Any = replace(problem.space, **parts)  # type: ignore[arg-type]
    cluster = replace(problem.cluster, degree=2, per_gpu=False, gpu_memory_bytes=None, link_gbps=25.0)
    made = replace(problem, space=space, cluster=cluster, fabrics=(fabric,), overlap=Overlap(data=overlap))
    return made, solve(made)


@cache
def _ring() -> tuple[Result[Any, Any], Subject]:
    """Four replicas, a ring of links, gradients passed round both ways, hidden behind nothing."""
    problem, solution = _solution(pipeline=1, fabric="direct-connect")
    return solution, training_subject(solution, problem)


def test_a_link_of_a_ring() -> None:
    """What went over it goes the other way round: each link left carries both directions' half instead of one, so that
    gradients take twice as long; no order of the rings is better. Two links cut the ring in two."""
    solution, subject = _ring()
    whole_ms = 1e3 * solution.objective.value
    assert subject.evaluator.nominal == pytest.approx(whole_ms)
    for link in ((0, 1), (1, 2), (2, 3), (0, 3)):
        found = subject.evaluator.outcome(Failure(links=(link,)))
        assert found.value == pytest.approx(whole_ms + 1e3 * solution.figures.breakdown.data)
        assert (found.disconnected_pairs, found.diameter, found.broken_rings, found.rerouted_pairs) == (0, 3, 2, 2)
        assert not subject.violations(found.failure)
    both = subject.evaluator.outcome(Failure(links=((0, 1), (2, 3))))
    assert (both.value, both.disconnected_pairs) == (None, 8)
    assert not subject.violations(both.failure)


def test_a_server_that_forwards_no_longer() -> None:
    """Nothing passes through a server of a ring whose servers send to their neighbours; two circuits put a spare in its
    place. On a line of what is left no pair that goes round may pass through it."""
    _, subject = _ring()
    found = subject.evaluator.outcome(Failure(servers=(2,)))
    assert (found.value, found.repair) == (subject.evaluator.nominal, "none needed")
    assert found.spare_circuits == 2
    round_it = subject.evaluator.outcome(Failure(links=((0, 1),), servers=(2,)))
    assert round_it.value is None  # 0 reaches 1 through 3 and 2 only


def test_the_check_of_repairs() -> None:
    """A dead link, a way through a failed server, a group that is left out, shares that are not whole: all found."""
    _, subject = _ring()
    failure = Failure(links=((0, 1),), servers=(2,))
    far = replace(subject.evaluator.outcome(Failure(links=((0, 1),), servers=(2,))))
    ring = (0, 1, 2, 3)
    for routes, now, code in (
        ({(0, 1): [((0, 1), 1.0)]}, ring, "uses a dead link"),
        ({(0, 1): [((0, 3, 2, 1), 1.0)]}, ring, "passes through a failed server"),
        ({(0, 3): [((0, 3), 0.5)]}, ring, "do not sum to 1"),
        ({(0, 3): [((0, 3), 1.0)]}, (0, 1, 3), "is not of the servers"),
        ({(0, 3): [((0, 3), 1.0)]}, ring, "nothing leads from 0 to 1"),
    ):
        wrong = check_training_repair(subject.evaluator.topology, far, routes, [(ring, now)])
        assert any(code in one.message for one in wrong), (code, wrong)
    assert failure == far.failure


def test_what_is_not_studied_is_refused(tmp_path: Path) -> None:
    """A plan on an ideal switch, a plan that another instance has, links to switches to be set anew."""
    problem, solution = _solution(pipeline=1, fabric="ideal-switch")
    with pytest.raises(InputError, match="an ideal switch stands for no devices"):
        training_subject(solution, problem)
    with pytest.raises(CheckError, match="rejects"):
        training_subject(solution, replace(problem, sha256="0" * 64))
    file = tmp_path / "ring.yaml"
    file.write_text(CASE.replace("PIPELINE", "1").replace("FABRIC", "direct-connect, rail-only"))
    assert run("solve", file, "-o", tmp_path).code == 0
    for more, option in (
        (("--fabric", "rail-only", "--set", "rewire=1"), "--set rewire"),
        (("--fabric", "fat-tree"), "--fabric"),
    ):
        answer = run("resilience", tmp_path / "solution.json", *more, "--json")
        assert answer.code == 2
        assert [path for path, _, _ in refusals(answer.json)] == [option]
    found = run("resilience", tmp_path / "solution.json", "--set", "samples=0", "--json").json
    assert (found["kind"], found["objective"], len(found["links"])) == ("llm-training", "iteration_time", 4)
    assert found["check"]["ok"] is True


def test_a_ring_that_is_rewired() -> None:
    """Of a ring 0-1-2-3 without 0-1, 2-3 given up for 0-2 and 1-3 makes the ring 0-2-1-3: nothing is lost."""
    solution, subject = _ring()
    found = rewire(subject, Failure(links=((0, 1),)), 1, seed=0, stop=Stop())
    assert found is not None
    assert (found.removed, found.added, found.violations) == (((2, 3),), ((0, 2), (1, 3)), ())
    assert found.after == pytest.approx(1e3 * solution.objective.value)
    kept = rewire(subject, Failure(links=((0, 1),)), 0, seed=0, stop=Stop())
    assert kept is not None
    assert (kept.after, kept.removed, kept.violations) == (kept.before, (), ())


@pytest.mark.parametrize("fabric", ["rail-only", "rail-fat-tree"])
def test_interfaces_and_switches_of_rails(fabric: str) -> None:
    """Two interfaces a server and gradients alone between servers: with one of them gone a server sends at half its
    rate, and all wait for it; a rail that fails costs no more. Without any a server is cut off. Rails 0 of one server
    and 1 of another meet over a spine alone."""
    problem, solution = _solution(pipeline=1, fabric=fabric)
    subject = training_subject(solution, problem)
    whole_ms, data_ms = 1e3 * solution.objective.value, 1e3 * solution.figures.breakdown.data
    assert subject.evaluator.nominal == pytest.approx(whole_ms)
    for failure in (Failure(links=((0, 4),)), Failure(links=((3, 5),)), Failure(planes=(1,))):
        found = subject.evaluator.outcome(failure)
        assert found.value == pytest.approx(whole_ms + data_ms)
        assert found.repair == "re-routed"
        assert (found.disconnected_pairs, found.diameter) == (0, 2)
        assert not subject.violations(failure)
    assert subject.evaluator.outcome(Failure(servers=(2,))).value == subject.evaluator.nominal
    both = subject.evaluator.outcome(Failure(links=((0, 4), (0, 5))))
    assert (both.value, both.disconnected_pairs) == (None, 6)
    apart = Failure(links=((0, 4), (1, 5)))
    found = subject.evaluator.outcome(apart)
    assert (found.value is None) == (fabric == "rail-only")  # 0 and 1 are neighbours in the ring
    assert not subject.violations(apart)
    result = study(subject, ResilienceQuestion(samples=0))
    assert (len(result.links), len(result.servers), len(result.planes)) == (8, 4, 2)
    assert not result.violations


def test_links_and_switches_of_a_fat_tree() -> None:
    """A server has one link of its whole rate and one edge switch: without either it is cut off. A switch of the core
    is one of several ways, and what is left of them can take no less time than all."""
    problem, solution = _solution(pipeline=1, fabric="fat-tree")
    subject = training_subject(solution, problem)
    result = study(subject, ResilienceQuestion(samples=0))
    assert not result.violations
    own = [one for one in result.links if min(one.failure.links[0]) < 4]
    assert len(own) == 4
    assert all((one.value, one.disconnected_pairs) == (None, 6) for one in own)
    assert any(one.value is None for one in result.planes)
    lasting = [one.value for one in (*result.links, *result.planes) if one.value is not None]
    assert lasting
    assert min(lasting) >= result.nominal * (1 - 1e-9)
