"""What limits circuits of a region, and what more ports, interfaces or splitting would gain, solved again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from topoopt.core.errors import InputError, LimitError, Problem
from topoopt.core.regional_circuits import RegionalCircuitsPlan, RegionalCircuitsProblem
from topoopt.core.result import Result
from topoopt.kinds.pipeline import Explanation, Question, solve
from topoopt.kinds.regional_circuits.figures import RegionalCircuitsFigures
from topoopt.kinds.regional_circuits.page import seconds

SAME = 1e-6
"""Part of a time that is no gain."""


def explain(
    result: Result[RegionalCircuitsProblem, RegionalCircuitsPlan],
    question: Question,
) -> Explanation:
    """Explain where the time goes, and what changes would gain.

    Raises
    ------
    InputError
        There is no instance.
    """
    problem = result.problem
    if problem is None:
        raise InputError([Problem("needed for demands", path="instance", allowed="the instance that was solved")])
    figures, value = RegionalCircuitsFigures(problem, result.plan), result.objective.value
    gains, overdue = _gains(problem, value, question)
    slowest = figures.longest_step
    sentences = [
        f"{result.name}: {seconds(value)}, of which {seconds(figures.stall_s)} wait for circuits; one "
        f"electrical switch of all interfaces takes {seconds(figures.switch_s)} at least.",
        f"Step {slowest} is the longest: {seconds(figures.steps[slowest].transfer_s)}, on the switch "
        f"{seconds(figures.steps[slowest].switch_s)}.",
        *(
            f"{change}: {seconds(time)}"
            + (", no gain." if time >= value * (1 - SAME) else f", {1 - time / value:.1%} less.")
            for change, time in gains.items()
        ),
    ]
    explained = {
        "communication_time_s": value,
        "stall_s": figures.stall_s,
        "switch_s": figures.switch_s,
        "longest_step": slowest,
        "gains": [{"change": change, "communication_time_s": time} for change, time in gains.items()],
    }
    return Explanation(tuple(sentences), explained, result.notes, overdue)


def _gains(problem: RegionalCircuitsProblem, value: float, question: Question) -> tuple[dict[str, float], bool]:
    changes: dict[str, dict[str, Any]] = {
        "one port more at every server": {"ports": tuple(ports + 1 for ports in problem.ports)},
        "a circuit's rate more of electrical interfaces": {
            "electrical_rate": problem.electrical_rate + problem.circuit_rate
        },
    }
    if not problem.split:
        changes["pairs that use circuits and electrical network together"] = {"split": True}
    if any(problem.stalls_s):
        changes["a switch without delay"] = {"delay_s": 0.0}
    gains: dict[str, float] = {}
    for name, change in changes.items():
        if not question.left_s():
            return gains, True
        changed = replace(problem, **change, sha256="", document=None)
        try:
            result = solve(changed, question.options("auto"))
        except LimitError:
            return gains, True
        if result.check.ok:
            gains[name] = min(float(result.objective.value), value)
    return gains, False
