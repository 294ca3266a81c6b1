"""The passes of the picture of a pipeline are followed by the checker under every schedule, and none can be moved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.llm_cases import strategy, training
from tests.support.smallest import problem_of
from topoopt.core.pipeline import PipelineSchedule
from topoopt.kinds.llm_training.timeline import stage_times
from topoopt.kinds.pipeline import solve
from topoopt.simulate.llm_training.strategies import stage_layers
from topoopt.verify.laws.findings import ViolationLog
from topoopt.verify.llm_training.space import records_of, row_of
from topoopt.verify.llm_training.stage_times import check_stages
from topoopt.verify.llm_training.transfers import ideal_rates

SCHEDULES = {1: PipelineSchedule.ONE_F_ONE_B, 2: PipelineSchedule.INTERLEAVED}
"""By chunks of a rank."""


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
        rates = ideal_rates(problem, records_of([row_of(solution.plan.strategy)]))
        check_stages(findings, problem, replace(solution, stages=replace(stages, passes=passes)), rates)
        assert not findings.clean


def test_layers_without_experts_stand_where_they_are() -> None:
    """The first three layers of DeepSeek-V3 have none, and 32 stages hold one or two each: all stages together compute
    what a single one does, but for the fixed cost of 31 more passes."""
    seconds = {}
    for p, v in ((1, 1), (16, 2)):
        problem = training("deepseek-v3", 16 * p, 256, 4096)
        one = strategy(pipeline=p, chunks=v, data=16, expert=16, zero=1, schedule=SCHEDULES[v])
        found = stage_times(problem, replace(one, stage_layers=stage_layers(problem.model.layers, p, v)))
        seconds[p] = sum(found.forward_s)
    fixed_s = problem.device.reached.chunk_us * 1e-6
    assert seconds[16] == pytest.approx(seconds[1] + 31 * fixed_s, rel=1e-9)


def test_the_checker_knows_where_they_are() -> None:
    """It takes stages that hold layers of both sorts."""
    problem = training("deepseek-v3", 256, 256, 4096)
    space = replace(problem.space, pipeline=(16,), chunks=(2,), schedule=(PipelineSchedule.INTERLEAVED,), short_ends=())
    small = replace(problem, space=replace(space, tensor=(1,), context=(1,), expert=(16,)))
    solution = solve(replace(small, cluster=replace(small.cluster, gpu_memory_bytes=None)))
    assert solution.plan.strategy.stage_layers[0] < 3
    assert solution.check.ok, solution.check.violations
