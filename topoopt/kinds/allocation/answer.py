"""What an allocation answers, in one sentence: what the slowest transfer gets, or when all end, and what is proven."""

from __future__ import annotations

from topoopt.core.allocation_solution import AllocationSolution
from topoopt.drawing.format import counted
from topoopt.drawing.format import number as plain_number
from topoopt.drawing.sentences import rejection, room

LEAST = {
    "min_rate": "the slowest gets {value}",
    "min_weighted_rate": "the slowest gets {value} for each unit of its weight",
    "min_surplus": "each gets its guarantee and at least {value} for each unit of its weight above it",
    "weighted_total_rate": "their rates, weighted, sum to {value}",
    "completion_time": "the last ends after {value}",
}
"""The objective as what becomes of the transfers."""


def number(value: float) -> str:
    """As text; the last digits of a rate, which are rounding, do not decide how many are shown."""
    return plain_number(float(f"{value:.9g}"))


def answer(solution: AllocationSolution) -> str:
    """What the transfers get, all together and the one that gets least, and whether that is proven."""
    objective, total = solution.objective, float(solution.rates_gbps.sum())
    shortest = objective.name == "completion_time"
    best = room(solution, "allocation", "faster" if shortest else "better")
    count = counted(len(solution.transfers), "transfer")
    shared = f"{count} {'shares' if len(solution.transfers) == 1 else 'share'} {number(total)} Gbit/s"
    least = LEAST[objective.name].format(value=f"{number(objective.value)} {objective.unit}")
    return rejection(solution.check) or f"{shared[0].upper()}{shared[1:]}: {least}; {best}."
