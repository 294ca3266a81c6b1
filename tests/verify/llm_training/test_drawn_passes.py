"""The passes of the picture of a pipeline are followed by the checker under every schedule, by code of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.llm_cases import stage_figures, strategy, training
from tests.support.smallest import problem_of
from topoopt.core.parallelism import PassKind, PipelineSchedule
from topoopt.kinds.pipeline import solve
from topoopt.simulate.llm_training.strategies import stage_layers
from topoopt.verify.llm_training.iteration import iteration_of, pass_ends

KINDS = {
    "F": PassKind.FORWARD, "B": PassKind.BACKWARD, "I": PassKind.INPUTS, "W": PassKind.WEIGHTS, "J": PassKind.JOINED,
}  # fmt: skip
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
    """Stages, makespan and every pass that is drawn are those that the checker follows by code of its own."""
    problem, solution = solved(schedule, blocking=blocking)
    assert solution.check.ok, solution.check.violations
    stages = solution.figures.stages
    assert len(stages.passes) >= 2 * 4 * stages.drawn_batches
    iteration = iteration_of(problem, solution.plan.strategy)
    costs = iteration.costs()
    assert stages.forward_s == pytest.approx(costs.forward_s, rel=1e-9)
    assert stages.inputs_s == pytest.approx(costs.inputs_s, rel=1e-9)
    assert stages.weights_s == pytest.approx(costs.weights_s, rel=1e-9)
    assert (stages.hop_s, stages.blocking) == (pytest.approx(costs.transfer_s, rel=1e-9), costs.blocking)
    last = max(row[-1] for row in pass_ends(iteration.orders(), costs))
    assert stages.makespan_s == pytest.approx(last, rel=1e-6)
    orders = iteration.orders(stages.drawn_batches)
    expected = [
        (rank, KINDS[kind], i, stage % len(costs.forward_s), end)
        for rank, (order, row) in enumerate(zip(orders, pass_ends(orders, costs), strict=True))
        for (kind, i, stage), end in zip(order, row, strict=True)
    ]
    assert [(one.rank, one.kind, one.micro_batch, one.stage) for one in stages.passes] == [row[:4] for row in expected]
    assert [one.end_s for one in stages.passes] == pytest.approx([row[4] for row in expected], rel=1e-6)


def test_layers_without_experts_stand_where_they_are() -> None:
    """The first three layers of DeepSeek-V3 have none, and 32 stages hold one or two each: all stages together compute
    what a single one does, where handing over takes nothing."""
    seconds = {}
    for p, v in ((1, 1), (16, 2)):
        problem = training("deepseek-v3", 16 * p, 256, 4096)
        problem = replace(problem, device=replace(problem.device, reached=replace(problem.device.reached, hop=0.0)))
        one = strategy(pipeline=p, chunks=v, data=16, expert=16, zero=1, schedule=SCHEDULES[v])
        found = stage_figures(problem, replace(one, stage_layers=stage_layers(problem.model.layers, p, v)))
        seconds[p] = sum(found.forward_s)
    assert seconds[16] == pytest.approx(seconds[1], rel=1e-9)


def test_the_checker_knows_where_they_are() -> None:
    """It takes stages that hold layers of both sorts."""
    problem = training("deepseek-v3", 256, 256, 4096)
    space = replace(problem.space, pipeline=(16,), chunks=(2,), schedule=(PipelineSchedule.INTERLEAVED,), short_ends=())
    small = replace(problem, space=replace(space, tensor=(1,), context=(1,), expert=(16,)))
    solution = solve(replace(small, cluster=replace(small.cluster, gpu_memory_bytes=None)))
    assert solution.plan.strategy.stage_layers[0] < 3
    assert solution.check.ok, solution.check.violations
