"""What a collective answers, in one sentence: its time and steps, and how much better any schedule could be."""

from __future__ import annotations

from topoopt.core.collective_solution import CollectiveSolution
from topoopt.drawing.format import byte_size, counted, number
from topoopt.drawing.sentences import rejection, room
from topoopt.kinds.collective.words import time_text

BETTER = {"GB/s": "faster", "us": "faster", "steps": "shorter"}
"""By the unit of the objective."""


def answer(solution: CollectiveSolution) -> str:
    """Time, steps and algorithm bandwidth, and what is proven of all schedules."""
    unit = solution.objective.unit
    best = room(solution, "schedule", BETTER[unit])
    what = f"{solution.collective} of {byte_size(solution.vector_bytes)}"
    return rejection(solution.check) or (
        f"{what} over {counted(len(solution.network.ranks), 'rank')} "
        f"takes {time_text(solution.time_us)} in {counted(solution.steps, 'step')}, "
        f"{number(solution.algbw_gbytes_per_s)} GB/s; {best}."
    )
