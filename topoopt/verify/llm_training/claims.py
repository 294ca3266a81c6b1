"""Bounds and status of a solution, by lines of the certificate that hold."""

from __future__ import annotations

import numpy as np

from topoopt.core.llm_training_plan import FabricOutcome
from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.core.proofs import Argument
from topoopt.core.solution import Decides
from topoopt.core.verdict import Status, Tolerance, beats, meets
from topoopt.verify.laws.bounds import check_claim, check_stated
from topoopt.verify.laws.findings import ViolationLog, differs
from topoopt.verify.llm_training.fabric_bound import proven_bound
from topoopt.verify.llm_training.switching.solution import rails_bound

RELATIVE = Tolerance.ROUNDING.relative


def check_claims(findings: ViolationLog, solution: LlmTrainingSolution, hopped: float | None) -> None:
    """Bounds and status, by lines that hold.

    Args:
        hopped: the fastest of the searched shapes where tokens take the hops that direct links need; None: that was
            left out, and so are bounds that rest on it.
    """
    value, bound = solution.objective.value, solution.bound

    def proven(one: FabricOutcome) -> float:
        if one.rails is not None:
            return rails_bound(one.rails, solution.ranked, solution.shapes)
        if one.pods is not None:
            return one.pods.bound_s
        return proven_bound(solution, one.fabric, one.iteration_time_s, np.inf if hopped is None else hopped)

    in_pods = solution.fabrics[0].pods is not None
    argument, rounding = (
        (Argument.POD_CIRCUITS, Tolerance.EVENTS) if in_pods else (Argument.ALL_SHAPES, Tolerance.ROUNDING)
    )
    if hopped is None:
        if bound.argument is not argument:
            findings.add("bound", f"{bound.argument} proves no bound here; what is derived again: {argument}")
    else:
        check_stated(findings, bound, {argument: lambda: proven(solution.fabrics[0])}, value)
    check_claim(findings, solution, ())
    if beats(value, bound.value, rounding):
        findings.add("bound", f"{value!r} s is better than its bound {bound.value!r}")
    _check_status(findings, solution, optimal=meets(value, bound.value, rounding))
    if hopped is None:
        return
    for one, stated in zip(solution.fabrics[1:], solution.other_bounds_s, strict=True):
        due = proven(one)
        if differs(stated, due, RELATIVE):
            findings.add("bound", f"the bound on {one.fabric} is {stated!r}, {due!r} is due")


def _check_status(findings: ViolationLog, solution: LlmTrainingSolution, *, optimal: bool) -> None:
    """Optimal if and only if the value is at its bound; what is only claimed, here or in the file, is not optimal."""
    claimed = not solution.bound.verified or bool(solution.check.claimed)
    left_out = any(one.decides is not Decides.NOTHING for one in findings.left_out)
    called = solution.status is Status.OPTIMAL
    if called and not (optimal and not claimed):
        findings.add("status", f"called optimal with {solution.objective.value!r} and bound {solution.bound.value!r}")
    if not called and optimal and not (claimed or left_out):
        findings.add("status", f"called {solution.status}, with a value that is its bound {solution.bound.value!r}")
