"""What the terminal and `--json` show of a collective."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console

from topoopt.console.solution_tables import show_figures
from topoopt.core.collective import CollectiveProblem
from topoopt.core.collective_solution import CollectiveSolution
from topoopt.kinds.collective.answer import answer
from topoopt.kinds.collective.report import render_collective
from topoopt.kinds.collective.words import front_rows, limit_sentence, time_text
from topoopt.kinds.kind import Pages


def figures(problem: CollectiveProblem | None, solution: CollectiveSolution) -> dict[str, Any]:
    """Keys of this kind in the JSON object of a solve."""
    return {
        "collective": solution.collective.value,
        "bytes": solution.vector_bytes,
        "ranks": len(solution.network.ranks),
        "time_us": solution.time_us,
        "makespan_us": solution.makespan_us,
        "busy_us": solution.busy_us,
        "algbw_gbytes_per_s": solution.algbw_gbytes_per_s,
        "busbw_gbytes_per_s": solution.busbw_gbytes_per_s,
        "steps": solution.steps,
        "messages": len(solution.schedule.sends),
        "limited_by": limit_sentence(solution),
        "cut": list(solution.proof.cut),
        **({"front": [asdict(point) for point in solution.front]} if solution.front else {}),
    }


def show(console: Console, solution: CollectiveSolution, wall_s: float) -> None:
    """The figures."""
    rows = (
        ("time, step by step", time_text(solution.time_us)),
        ("without barriers", time_text(solution.makespan_us)),
        ("algorithm bandwidth", f"{solution.algbw_gbytes_per_s:.6g} GB/s"),
        ("bus bandwidth", f"{solution.busbw_gbytes_per_s:.6g} GB/s"),
        ("steps, messages", f"{solution.steps}, {len(solution.schedule.sends):,}"),
        ("bound", f"{solution.bound.value:.9g} {solution.objective.unit} ({solution.bound.proved_by})"),
        ("gap to the bound", f"{solution.gap:.3%}"),
        ("limited by", limit_sentence(solution)),
        *((f"from {size}", f"{how}: {what}") for size, how, what in front_rows(solution)),
    )
    show_figures(console, solution, wall_s, rows, title=f"{solution.collective}, {solution.status}")


PAGES = Pages(render_collective, figures, show, answer)
