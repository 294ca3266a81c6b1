"""What the terminal and `--json` show of an allocation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from topoopt.console.solution_tables import show_figures
from topoopt.console.tables import TerminalTable
from topoopt.core.allocation import AllocationProblem
from topoopt.core.allocation_solution import AllocationSolution
from topoopt.drawing.sentences import objective_text
from topoopt.kinds.allocation.answer import answer
from topoopt.kinds.allocation.report import render_allocation
from topoopt.kinds.kind import Pages

if TYPE_CHECKING:
    pass

SHOWN = 20
"""Transfers in the table on the screen."""

FULL = 1e-6
"""Part of a capacity that may be free on a link called full."""


def full_links(solution: AllocationSolution) -> list[int]:
    """Arcs without room, by number."""
    return [int(arc) for arc in np.flatnonzero(solution.utilisation >= 1 - FULL)]


def figures(problem: AllocationProblem, solution: AllocationSolution) -> dict[str, Any]:
    """Keys of this kind in the JSON object of a solve."""
    arcs = solution.topology.arcs
    return {
        "goal": solution.goal,
        "surplus": solution.surplus,
        "rates_gbps": {row.name: row.rate_gbps for row in solution.transfers},
        "min_rate_gbps": float(solution.rates_gbps.min()),
        "total_rate_gbps": float(solution.rates_gbps.sum()),
        "completion_time_s": solution.completion_time_s,
        "bottleneck_links": [arcs[arc].tolist() for arc in full_links(solution)],
        "largest_link_utilisation": float(solution.utilisation.max()),
        "servers": solution.topology.servers,
        "links": int(solution.topology.multiplicity.sum()),
        "transfers": len(solution.transfers),
    }


def show(console: Console, solution: AllocationSolution, wall_s: float) -> None:
    """The figures and the transfers, slowest first."""
    objective, time_s = solution.objective, solution.completion_time_s
    rates = solution.rates_gbps
    full = full_links(solution)
    rows = (
        (objective_text(objective.name), f"{objective.value:.6g} {objective.unit}"),
        ("bound", f"{solution.bound.value:.6g} {objective.unit} ({solution.bound.proved_by})"),
        ("rates, least to largest", f"{rates.min():.6g} to {rates.max():.6g} Gbit/s, {rates.sum():.6g} in all"),
        ("completion time", "no sizes given" if time_s is None else f"{time_s:.6g} s"),
        ("full links", f"{len(full)} of {len(solution.capacity_gbps)}"),
    )
    show_figures(console, solution, wall_s, rows, title=f"{solution.goal}, {solution.status}")
    listed = sorted(solution.transfers, key=lambda row: row.rate_gbps)[:SHOWN]
    rest = len(solution.transfers) - len(listed)
    title = f"the {SHOWN} slowest of {len(solution.transfers)} transfers" if rest else "transfers, slowest first"
    table = TerminalTable("transfer", "from", "to", "Gbit/s", "ends after", "limited by", title=title)
    for row in listed:
        ends = "-" if row.completion_time_s is None else f"{row.completion_time_s:.4g} s"
        more = f", {len(row.limited_by) - 3} more" if len(row.limited_by) > 3 else ""
        limits = escape(", ".join(row.limited_by[:3]) + more)
        table.add_row(escape(row.name), str(row.source), str(row.destination), f"{row.rate_gbps:.6g}", ends, limits)
    console.print(table)


PAGES = Pages(render_allocation, figures, show, answer)
