"""What the terminal and `--json` show of a placement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console

from topoopt.console.solution_tables import show_figures
from topoopt.core.placement import PlacementProblem
from topoopt.core.placement_solution import PlacementSolution
from topoopt.drawing.sentences import objective_text
from topoopt.kinds.kind import Pages
from topoopt.kinds.placement.answer import answer
from topoopt.kinds.placement.report import render_placement

if TYPE_CHECKING:
    pass


def figures(problem: PlacementProblem, solution: PlacementSolution) -> dict[str, Any]:
    """Keys of this kind in the JSON object of a solve."""
    objective = solution.objective
    names = [device.name for device in solution.devices]
    return {
        f"{objective.name}_ms": objective.value,
        "placement": {
            name: names[device] for name, device in zip(solution.operators, solution.device.tolist(), strict=True)
        },
    }


def show(console: Console, solution: PlacementSolution, wall_s: float) -> None:
    """The figures."""
    objective = solution.objective
    rows = (
        (objective_text(objective.name), f"{objective.value:.6f} {objective.unit}"),
        ("lower bound", f"{solution.bound.value:.6f} {objective.unit} ({solution.bound.proved_by})"),
        ("gap", f"{100 * solution.gap:.3g} %"),
        ("operators, devices", f"{len(solution.operators)}, {len(solution.devices)}"),
    )
    show_figures(console, solution, wall_s, rows)


PAGES = Pages(render_placement, figures, show, answer)
