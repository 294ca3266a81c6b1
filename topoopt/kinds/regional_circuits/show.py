"""What the terminal and `--json` show of circuits of a region."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from topoopt.console.solution_tables import show_figures
from topoopt.core.regional_circuits import RegionalCircuitsProblem
from topoopt.core.regional_circuits_solution import RegionalCircuitsSolution
from topoopt.kinds.kind import Pages
from topoopt.kinds.regional_circuits.answer import answer
from topoopt.kinds.regional_circuits.report import render_regional_circuits
from topoopt.kinds.regional_circuits.words import circuits_text, step_rows, time_text

SHOWN_PAIRS = 12
SHOWN_STEPS = 8


def figures(problem: RegionalCircuitsProblem | None, solution: RegionalCircuitsSolution) -> dict[str, Any]:
    """Keys of this kind in the JSON object of a solve."""
    return {
        "communication_time_s": solution.objective.value,
        "transfer_s": solution.transfer_s,
        "stall_s": solution.stall_s,
        "switch_s": solution.switch_s,
        "switchings": solution.switchings,
        "topologies": [[[each.one, each.other, each.count] for each in one] for one in solution.topologies],
        "steps": [
            {
                "circuits": step.circuits,
                "stall_s": step.stall_s,
                "transfer_s": step.transfer_s,
                "switch_s": step.switch_s,
            }
            for step in solution.steps
        ],
    }


def show(console: Console, solution: RegionalCircuitsSolution, wall_s: float) -> None:
    """The figures."""
    listed = step_rows(solution)
    rows = [
        ("communication time", time_text(solution.objective.value)),
        ("bound", f"{time_text(solution.bound.value)} ({solution.bound.proved_by})"),
        ("transfers, stalls", f"{time_text(solution.transfer_s)}, {time_text(solution.stall_s)}"),
        ("one electrical switch", f"{time_text(solution.switch_s)} at least"),
        ("circuits set anew", f"{solution.switchings} of {len(listed) - 1} times"),
    ]
    rows += [
        (f"circuits {place}", circuits_text(solution, place, SHOWN_PAIRS))
        for place in range(min(len(solution.topologies), SHOWN_STEPS))
    ]
    rows += [
        (f"step {step}", f"circuits {topology}, stall {stall}, transfers {transfer}, {over} of the switch")
        for step, topology, stall, transfer, over in listed[:SHOWN_STEPS]
    ]
    if len(listed) > SHOWN_STEPS:
        rows.append(("", f"… and {len(listed) - SHOWN_STEPS} more steps in the solution file"))
    show_figures(console, solution, wall_s, rows)


PAGES = Pages(report=render_regional_circuits, figures=figures, show=show, answer=answer)
