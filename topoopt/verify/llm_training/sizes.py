"""Sizes of lists in a solution: no more than the instance and other figures of the file allow, before any is read."""

from __future__ import annotations

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.core.verdict import StopReason
from topoopt.verify.laws.findings import ViolationLog


def check_sizes(findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution) -> None:
    """Fabrics are those asked for; strategies as many as are asked for, or as rails have bounds of, and one more."""
    names = tuple(one.fabric for one in solution.fabrics)
    if names != problem.fabrics[: len(names)] or (
        names != problem.fabrics and solution.stopped_by is StopReason.CONVERGED
    ):
        findings.add("fabrics", f"the fabrics are {', '.join(names)}, not {', '.join(problem.fabrics)}")
    bounded = [len(one.rails.bounds_s) for one in solution.fabrics if one.rails is not None]
    most = 1 + max([problem.top, *bounded])
    if len(solution.ranked) > most:
        findings.add("order", f"{len(solution.ranked)} strategies are ranked, at most {most} are due")
    for one in solution.fabrics:
        if len(one.next) > min(problem.top, one.tried):
            findings.add("fabrics", f"{len(one.next)} more strategies on {one.fabric} than were asked for or tried")
        if one.pods is not None and one.tried != len(one.pods.tried):
            findings.add("pods", f"{len(one.pods.tried)} strategies, where {one.tried} were tried")
