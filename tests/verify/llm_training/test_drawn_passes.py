"""The passes of the picture of a pipeline are followed by the checker under every schedule, and none can be moved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.smallest import problem_of
from topoopt.core.pipeline import PipelineSchedule
from topoopt.kinds.pipeline import solve
from topoopt.verify.laws.findings import ViolationLog
from topoopt.verify.llm_training.stage_times import check_stages


def solved(schedule: PipelineSchedule, *, blocking: bool) -> tuple[Any, Any]:
    """Four stages of the smallest instance, all layers spread evenly."""
    problem = problem_of("llm-training")
    space = replace(problem.space, schedule=(schedule,), pipeline=(4,), short_ends=())
    problem = replace(problem, space=space, overlap=replace(problem.overlap, pipeline=not blocking))
    return problem, solve(problem)


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("schedule", PipelineSchedule)
def test_every_schedule_is_followed(schedule: PipelineSchedule, *, blocking: bool) -> None:
    """Accepted as it is; a pass that ends later or earlier, is left out or done twice is found."""
    problem, solution = solved(schedule, blocking=blocking)
    assert solution.check.ok, solution.check.violations
    stages = solution.stages
    assert len(stages.passes) >= 2 * 4 * stages.drawn_batches
    own = stages.passes[len(stages.passes) // 3]
    late, early = (replace(own, end_s=own.end_s * factor) for factor in (1.01, 0.99))
    for changed in ((late,), (early,), (), (own, own)):
        place = stages.passes.index(own)
        passes = (*stages.passes[:place], *changed, *stages.passes[place + 1 :])
        findings = ViolationLog()
        check_stages(findings, problem, replace(solution, stages=replace(stages, passes=passes)))
        assert not findings.clean
