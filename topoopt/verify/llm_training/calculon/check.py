"""Solutions by the Calculon model: every execution of the space again, and the figures of those that are stated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from heapq import nsmallest

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import (
    IDEAL_SWITCH,
    FabricOutcome,
    ShapeOutcome,
    ShapeVerdict,
    StrategyShape,
    TrainingPlan,
)
from topoopt.core.llm_training_solution import LlmTrainingSolution, StageSeconds
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.verdict import StopReason, Tolerance
from topoopt.verify.laws.findings import ViolationLog, differs
from topoopt.verify.llm_training.calculon.execution import ExecutionFigures, evaluator
from topoopt.verify.llm_training.calculon.space import executions_of, ways_to_divide
from topoopt.verify.llm_training.model_sizes import model_flops

RELATIVE = Tolerance.ROUNDING.relative

Figures = Callable[[ParallelStrategy], ExecutionFigures]


def check_calculon(findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution) -> None:
    """Executions, their figures, and the certificate; what follows from that for bound and status is left out."""
    evaluate = evaluator(problem)

    def figures(one: ParallelStrategy) -> ExecutionFigures:
        assert one.execution is not None
        return evaluate(one, one.execution)

    findings.guard("strategy", "the executions", lambda: _check_executions(findings, problem, solution))
    if findings.clean:
        findings.guard("figures", "the figures", lambda: _check_figures(findings, problem, solution, figures))
        findings.guard("stages", "the stages", lambda: _check_stages(findings, problem, solution, figures))
        findings.guard("certificate", "the lines", lambda: _check_lines(findings, problem, solution, figures))


def _check_executions(findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution) -> None:
    """Each is of the space, and stands once; the plan is the first of them, on no network but those of the machine."""
    shapes, seen = set(ways_to_divide(problem)), set[ParallelStrategy]()
    for place, ranked in enumerate(solution.ranked):
        one = ranked.strategy
        shape = StrategyShape(one.tensor, one.context, one.pipeline, one.data, one.expert, one.expert_tensor)
        if shape not in shapes or all(one != other for other in executions_of(problem, shape)):
            findings.add("strategy", f"execution {place} is none of the space")
        elif one in seen:
            findings.add("strategy", f"execution {place} stands twice")
        seen.add(one)
    best = solution.ranked[0]
    if solution.fabrics != (FabricOutcome(TrainingPlan(best.strategy), best.breakdown, best.memory),):
        findings.add("plan", f"the plan is not the first of the executions ranked, with its figures, on {IDEAL_SWITCH}")


def _check_figures(
    findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution, figures: Figures
) -> None:
    assert problem.calculon is not None
    for place, one in enumerate(solution.ranked):
        due = figures(one.strategy)
        for holder, parts, whole in ((one.breakdown, due.seconds, due.total), (one.memory, due.bytes, due.memory)):
            for part in fields(holder):
                stated, value = getattr(holder, part.name), parts.get(part.name, 0.0)
                if not abs(stated - value) <= RELATIVE * whole:
                    findings.add("figure", f"{part.name} of execution {place} is {stated!r}, {value!r} is due")
    for name, stated, value in (
        ("model_flops", solution.model_flops, model_flops(problem.model, problem.batch.length) * problem.batch.tokens),
        ("peak_flops", solution.peak_flops, 1e12 * problem.calculon.machine.matrix.tflops),
        ("objective", solution.objective.value, figures(solution.plan.strategy).total),
    ):
        if differs(stated, value, RELATIVE):
            findings.add("figure", f"{name} is {stated!r}, {value!r} is due")
    if solution.sent_bytes:
        findings.add("figure", "the model states no bytes that are sent")


def _check_stages(
    findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution, figures: Figures
) -> None:
    """All stages alike; the makespan is what neither the optimizer nor the reduction of gradients takes."""
    one, stated = solution.plan.strategy, solution.stages
    own, several = figures(one), one.pipeline > 1
    forward, inputs, weights = ((seconds,) * (one.pipeline * one.chunks) for seconds in own.chunk)
    makespan = own.total - own.seconds["data"] - own.seconds["optimizer"]
    due = StageSeconds(forward, inputs, weights, own.hop if several else 0.0, several, makespan)
    pairs = [(stated.hop_s, due.hop_s), (stated.makespan_s, due.makespan_s)]
    for name in ("forward_s", "inputs_s", "weights_s"):
        pairs += zip(getattr(stated, name), getattr(due, name), strict=True)
    alike = not any(differs(*pair, RELATIVE) for pair in pairs)
    if not alike or (stated.blocking, stated.passes, stated.drawn_batches) != (several, (), 0):
        findings.add("stages", f"stages are {stated}, {due} are due")


def _check_lines(
    findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution, figures: Figures
) -> None:
    """Shapes in order, each gone through or left by a limit; the executions stated are the fastest that fit."""
    lines = {line.shape: line for line in solution.shapes}
    best: list[float] = []
    due: list[ShapeOutcome] = []
    for shape in ways_to_divide(problem):
        line = lines.get(shape)
        if line is not None and line.verdict is ShapeVerdict.LEFT:
            due.append(ShapeOutcome(shape, ShapeVerdict.LEFT, 0.0))
            if solution.stopped_by is StopReason.CONVERGED:
                findings.add("certificate", f"{shape} is left, and nothing ended the search")
            continue
        own, fast = _gone_through(problem, shape, figures)
        if own is not None:
            due.append(own)
            best = nsmallest(1 + problem.top, [*best, *fast])
    if len(due) != len(solution.shapes):
        findings.add("certificate", f"{len(solution.shapes)} lines, {len(due)} are due")
        return
    for stated, line in zip(solution.shapes, due, strict=True):
        near = not differs(stated.bound_s, line.bound_s, RELATIVE) and (
            stated.least_bytes is line.least_bytes is None
            or not differs(stated.least_bytes or 0.0, line.least_bytes or 0.0, RELATIVE)
        )
        if not near or replace(stated, bound_s=line.bound_s, least_bytes=line.least_bytes) != line:
            findings.add("certificate", f"all executions of {line.shape}: {line}; not {stated}")
    own_times = [one.iteration_time_s for one in solution.ranked]
    if len(own_times) != len(best) or any(differs(*pair, RELATIVE) for pair in zip(own_times, best, strict=True)):
        findings.add("order", f"the executions stated take {own_times!r} s, the fastest that fit {best!r}")


def _gone_through(
    problem: LlmTrainingProblem, shape: StrategyShape, figures: Figures
) -> tuple[ShapeOutcome | None, list[float]]:
    """The line of a shape, None where it has no execution, and the times of the fastest that fit."""
    known = [(one.total, one.memory) for one in map(figures, executions_of(problem, shape))]
    if not known:
        return None, []
    usable = float("inf") if problem.usable_bytes is None else problem.usable_bytes
    fitting = [seconds for seconds, memory in known if memory <= usable]
    verdict = ShapeVerdict.SEARCHED if fitting else ShapeVerdict.MEMORY
    fastest, least = (min(column) for column in zip(*known, strict=True))
    line = ShapeOutcome(shape, verdict, fastest, len(known), len(fitting), least)
    return line, nsmallest(1 + problem.top, fitting)
