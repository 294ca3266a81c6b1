"""What a joint search of strategies and circuits answers: a sentence, a document, a table."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from solvers.dag_topology.strategies import JointCircuits, PodStrategy
from topoopt.console.tables import TerminalTable
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.drawing.format import counted, percent
from topoopt.kinds.llm_training.words import differences, seconds, strategy_words
from topoopt.simulate.llm_training.estimate import estimate

HEADINGS = ("strategy", "ideal switch", "by volume", "best matrix", "circuits", "bound", "")


def gain(joint: JointCircuits) -> float:
    """Part of the time that the first strategy, the fastest on an ideal switch, takes with circuits of its own."""
    return 1.0 - joint.rows[joint.best].makespan_s / joint.rows[0].makespan_s


def answer(joint: JointCircuits) -> str:
    """The best strategy over its circuits, what it gains, and what is proven."""
    best, first = joint.rows[joint.best], joint.rows[0]
    if joint.best:
        other = (
            f"{percent(gain(joint))} less than the {seconds(first.makespan_s)} of the strategy that is fastest on an "
            f"ideal switch, with circuits of its own ({differences(first.strategy, best.strategy)})"
        )
    else:
        other = "as the strategy that is fastest on an ideal switch is also the best over circuits"
    room = 1.0 - joint.bound_s / best.makespan_s
    of = f"of {counted(len(joint.rows), 'strategy', 'strategies')} that pods hold"
    proven = f"none {of} is faster (proven)" if room <= 1e-9 else f"none {of} can be more than {percent(room)} faster"
    return f"An iteration takes {seconds(best.makespan_s)}, {other}; {proven}."


def document(problem: LlmTrainingProblem, joint: JointCircuits) -> dict[str, Any]:
    """All figures."""
    best, first = joint.rows[joint.best], joint.rows[0]
    return {
        "makespan_s": best.makespan_s,
        "bound_s": joint.bound_s,
        "strategy": asdict(best.strategy),
        "first_s": first.makespan_s,
        "first_by_volume_s": first.matrix_s["volume"],
        "gain_percent": 100.0 * gain(joint),
        "communication_s": best.makespan_s - best.graph.compute_time,
        "first_communication_s": first.makespan_s - first.graph.compute_time,
        "strategies": [_row(problem, row) for row in joint.rows],
        "refused": [{"strategy": strategy_words(one), "why": why} for one, why in joint.refused],
        "stopped_by": joint.stopped_by.value,
    }


def _row(problem: LlmTrainingProblem, row: PodStrategy) -> dict[str, Any]:
    return {
        "strategy": strategy_words(row.strategy),
        "ideal_s": estimate(problem, row.strategy).iteration_time_s,
        "pods": row.graph.pods,
        "compute_s": row.graph.compute_time,
        "matrix_s": row.matrix_s,
        "makespan_s": row.makespan_s,
        "bound_s": row.bound_s,
        "verdict": row.verdict.value,
    }


def table(problem: LlmTrainingProblem, joint: JointCircuits) -> TerminalTable:
    """The strategies, the one that is fastest on an ideal switch first."""
    made = TerminalTable(title="strategies and their circuits")
    for name in HEADINGS:
        made.add_column(name, justify="left" if name in ("strategy", "") else "right", overflow="fold")
    for place, row in enumerate(joint.rows):
        made.add_row(
            strategy_words(row.strategy),
            seconds(estimate(problem, row.strategy).iteration_time_s),
            seconds(row.matrix_s["volume"]),
            seconds(min(row.matrix_s.values())),
            "" if row.early is None else seconds(row.makespan_s),
            seconds(row.bound_s),
            "best" if place == joint.best else row.verdict.value,
        )
    return made
