"""What a joint search of strategies and circuits answers: a sentence, a document, a table."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from solvers.dag_topology.strategies import JointCircuits, PodStrategy
from topoopt.console.tables import TerminalTable
from topoopt.drawing.format import counted, percent
from topoopt.kinds.llm_training.words import differences, seconds, strategy_words

HEADINGS = ("strategy", "ideal switch", "by volume", "best matrix", "circuits", "bound", "")


def gain(joint: JointCircuits) -> float:
    """Part saved of what the first strategy, on an ideal switch the fastest of them, takes over circuits of its own."""
    return 1.0 - joint.rows[joint.best].makespan_s / joint.rows[0].makespan_s


def answer(joint: JointCircuits) -> str:
    """The best strategy over its circuits, what it gains, and what is proven."""
    best, first = joint.rows[joint.best], joint.rows[0]
    if joint.best:
        changed = differences(first.strategy, best.strategy)
        other = (
            f"{percent(gain(joint))} less than the {seconds(first.makespan_s)} that the fastest of them on an ideal "
            f"switch takes over circuits of its own ({changed})"
        )
    else:
        other = "with the one that is also the fastest on an ideal switch"
    room = 1.0 - joint.bound_s / best.makespan_s
    tried = counted(len(joint.rows), "strategy", "strategies")
    proven = "none is faster (proven)" if room <= 1e-9 else f"none can be more than {percent(room)} faster"
    return f"Best of {tried} that pods hold: {seconds(best.makespan_s)}, {other}; {proven}."


def document(joint: JointCircuits) -> dict[str, Any]:
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
        "strategies": [_row(row) for row in joint.rows],
        "refused": [{"strategy": strategy_words(one), "why": why} for one, why in joint.refused],
        "stopped_by": joint.stopped_by.value,
    }


def _row(row: PodStrategy) -> dict[str, Any]:
    return {
        "strategy": strategy_words(row.strategy),
        "ideal_s": row.ideal_s,
        "pods": row.graph.pods,
        "compute_s": row.graph.compute_time,
        "matrix_s": row.matrix_s,
        "makespan_s": row.makespan_s,
        "bound_s": row.bound_s,
        "verdict": row.verdict.value,
    }


def table(joint: JointCircuits) -> TerminalTable:
    """The strategies, the one that is fastest on an ideal switch first."""
    made = TerminalTable(title="strategies and their circuits")
    for name in HEADINGS:
        made.add_column(name, justify="left" if name in ("strategy", "") else "right", overflow="fold")
    for place, row in enumerate(joint.rows):
        made.add_row(
            strategy_words(row.strategy),
            seconds(row.ideal_s),
            seconds(row.matrix_s["volume"]),
            seconds(min(row.matrix_s.values())),
            "" if row.early is None else seconds(row.makespan_s),
            seconds(row.bound_s),
            "best" if place == joint.best else row.verdict.value,
        )
    return made
