"""What limits circuits of a region, and what more ports, interfaces or splitting would gain, solved again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from topoopt.core.errors import InputError, LimitError, Problem
from topoopt.core.regional_circuits import RegionalCircuitsProblem
from topoopt.core.regional_circuits_solution import RegionalCircuitsSolution
from topoopt.kinds.explanation import Explanation, Question
from topoopt.kinds.pipeline import solve
from topoopt.kinds.regional_circuits.words import time_text

SAME = 1e-6
"""Part of a time that is no gain."""


def explain(
    problem: RegionalCircuitsProblem | None, solution: RegionalCircuitsSolution, question: Question
) -> Explanation:
    """Where the time goes, and gains.

    Raises:
        InputError: no instance.
    """
    if problem is None:
        raise InputError([Problem("needed for demands", path="--instance", allowed="the instance that was solved")])
    value = solution.objective.value
    gains, late = _gains(problem, solution, question)
    slowest = max(range(len(solution.steps)), key=lambda k: solution.steps[k].transfer_s)
    words = [
        f"{solution.name}: {time_text(value)}, of which {time_text(solution.stall_s)} wait for circuits; one "
        f"electrical switch of all interfaces takes {time_text(solution.switch_s)} at least.",
        f"Step {slowest} is the longest: {time_text(solution.steps[slowest].transfer_s)}, on the switch "
        f"{time_text(solution.steps[slowest].switch_s)}.",
        *(
            f"{what}: {time_text(other)}"
            + (", no gain." if other >= value * (1 - SAME) else f", {1 - other / value:.1%} less.")
            for what, other in gains.items()
        ),
    ]
    figures = {
        "communication_time_s": value,
        "stall_s": solution.stall_s,
        "switch_s": solution.switch_s,
        "longest_step": slowest,
        "gains": [{"change": what, "communication_time_s": other} for what, other in gains.items()],
    }
    return Explanation(tuple(words), figures, solution.notes, late)


def _gains(
    problem: RegionalCircuitsProblem, solution: RegionalCircuitsSolution, question: Question
) -> tuple[dict[str, float], bool]:
    """Time with one thing changed, each solved again; whether time ran out."""
    more = tuple(ports + 1 for ports in problem.ports)
    changes: dict[str, dict[str, Any]] = {"one port more at every server": {"ports": more}}
    changes["a circuit's rate more of electrical interfaces"] = {
        "electrical_rate": problem.electrical_rate + problem.circuit_rate
    }
    if not problem.split:
        changes["pairs that use circuits and electrical network together"] = {"split": True}
    if any(problem.stalls_s):
        changes["a switch without delay"] = {"delay_s": 0.0}
    gains: dict[str, float] = {}
    for what, change in changes.items():
        if not question.left_s():
            return gains, True
        other = replace(problem, **change, sha256="", document=None)
        try:
            found = solve(other, question.options("auto"))
        except LimitError:
            return gains, True
        if found.check.ok:
            gains[what] = min(float(found.objective.value), solution.objective.value)
    return gains, False
