"""Balanced layers in solutions: proven on tight memory, derived again by the checker, other divisions refused."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from tests.support.llm_plans import with_fabric, with_plan
from topoopt.core.errors import InputError
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import FabricPlan
from topoopt.core.proofs import Status
from topoopt.core.result import Result
from topoopt.files.documents import Document, parse_yaml
from topoopt.kinds.files import build_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.verify.llm_training.check import check_llm_training


def problem_of(strategy: str, memory_gib: float) -> LlmTrainingProblem:
    """Eleven layers with a wide head on eight GPUs, four stages of 1F1B."""
    text = f"""{{schema_version: 1, kind: llm-training, name: case,
      model: {{layers: 11, hidden: 2048, ffn_hidden: 8192, heads: 16, kv_heads: 4, vocabulary: 128000}},
      batch: {{sequences: 64, length: 4096}},
      cluster: {{servers: 4, gpus_per_server: 2, device: h100, gpu_memory_gib: {memory_gib}, headroom_gib: 0,
                 intra_server_gbps: 400, degree: 4, interfaces: per-gpu, link_gbps: 50}},
      strategy: {{pipeline: 4, context: 1, schedule: 1f1b, recompute: none, micro_batch: 1, {strategy}}},
      fabrics: [ideal-switch], search: {{top: 2, seed: 1}}}}"""
    problem: LlmTrainingProblem = build_instance(Document("case.yaml", parse_yaml(text, 10_000).data, lambda _: {}))
    return problem


@cache
def solved(strategy: str, memory_gib: float = 80) -> Result[Any, Any]:
    """Proven."""
    problem = problem_of(strategy, memory_gib)
    solution: Result[Any, Any] = solve(problem, SolveOptions(seed=1))
    assert solution.status is Status.OPTIMAL
    assert solution.check.violations == ()
    return solution


def test_balanced_layers_are_faster_where_the_head_is_wide() -> None:
    even, balanced = solved("layers: even"), solved("layers: balanced")
    assert even.plan.strategy.stage_layers == (3, 3, 3, 2)
    assert balanced.plan.strategy.stage_layers[-1] < 2
    assert balanced.objective.value < even.objective.value


def test_with_little_memory_a_division_fits_where_even_layers_do_not() -> None:
    """Memory just above what the fastest balanced strategy needs, and below what even layers of the same need."""
    pinned = "tensor: 1, zero: 1, "
    even = solved(pinned + "layers: even")
    gib = sum(vars(even.figures.ranked[0].memory).values()) / 2**30
    tight = solved(pinned + "layers: balanced", round(gib * 0.95, 3))
    assert tight.plan.strategy.stage_layers != even.plan.strategy.stage_layers
    assert sum(vars(tight.figures.ranked[0].memory).values()) / 2**30 <= gib * 0.95


@pytest.mark.parametrize("layers", [(4, 3, 3, 1), (3, 4, 3, 1), (3, 3, 3, 2)])
def test_another_division_is_refused(layers: tuple[int, ...]) -> None:
    solution = solved("layers: balanced")
    best, *others = solution.plan.ranked
    assert best.stage_layers != layers
    other = replace(best, stage_layers=layers)
    moved = with_fabric(with_plan(solution, ranked=(other, *others)), 0, FabricPlan(other))
    found = check_llm_training(problem_of("layers: balanced", 80), moved)
    assert any("not those of the rule" in one.message for one in found.violations)


def test_short_ends_are_refused_beside_balanced_layers() -> None:
    with pytest.raises(InputError) as caught:
        problem_of("layers: balanced, short_ends: [0, 1]", 80)
    assert [one.path for one in caught.value.problems] == ["strategy.short_ends"]
