"""Failures of direct links under a language model in training, against what a ring of four servers comes to by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_cases import refusals, run
from tests.support.llm_cases import training
from topoopt.analyses.resilience.training_subject import TrainingSubject, training_subject
from topoopt.core.errors import CheckError, InputError
from topoopt.core.failures import Failure
from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.core.parallelism import Overlap
from topoopt.kinds.pipeline import solve
from topoopt.verify.failures.training import check_training_repair

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


def _solution(*, pipeline: int, fabric: str, overlap: bool = False) -> tuple[Any, LlmTrainingSolution]:
    problem = training("llama3-70b", 32, 32, 4096)
    parts = {"tensor": (8,), "pipeline": (pipeline,), "context": (1,), "zero": (1,), "micro_batch": (1,)}
    space: Any = replace(problem.space, **parts)  # type: ignore[arg-type]
    cluster = replace(problem.cluster, degree=2, per_gpu=False, gpu_memory_bytes=None, link_gbps=25.0)
    made = replace(problem, space=space, cluster=cluster, fabrics=(fabric,), overlap=Overlap(data=overlap))
    return made, solve(made)


@cache
def _ring() -> tuple[LlmTrainingSolution, TrainingSubject]:
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
        assert found.value == pytest.approx(whole_ms + 1e3 * solution.breakdown.data)
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
    """A plan on a switch, a plan that another instance has, links to be set anew."""
    problem, solution = _solution(pipeline=1, fabric="ideal-switch")
    with pytest.raises(InputError, match="no plan on direct links"):
        training_subject(solution, problem)
    with pytest.raises(CheckError, match="rejects"):
        training_subject(solution, replace(problem, sha256="0" * 64))
    file = tmp_path / "ring.yaml"
    file.write_text(CASE.replace("PIPELINE", "1").replace("FABRIC", "direct-connect"))
    assert run("solve", file, "-o", tmp_path).code == 0
    answer = run("resilience", tmp_path / "solution.json", "--rewire", 1, "--json")
    assert answer.code == 2
    assert [path for path, _, _ in refusals(answer.json)] == ["--rewire"]
    found = run("resilience", tmp_path / "solution.json", "--samples", 0, "--json").json
    assert (found["kind"], found["objective"], len(found["links"])) == ("llm-training", "iteration_time", 4)
    assert found["check"]["ok"] is True
