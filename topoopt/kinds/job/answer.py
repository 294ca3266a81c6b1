"""What a solution answers, in one sentence: what comes first in the terminal and in the report."""

from __future__ import annotations

import math

from topoopt.core.bill import PLAN_FABRIC
from topoopt.core.job_solution import JobSolution
from topoopt.drawing.format import milliseconds, ratio
from topoopt.drawing.sentences import compared, rejection, room

SAME_PRICE = 0.02
"""Prices of networks closer than this part are the same, for people."""
FAT_TREE = "fat-tree"


def answer(solution: JobSolution) -> str:
    """How long an iteration takes, what the network gains, and how much faster any plan could be."""
    own = milliseconds(solution.objective.value)
    least = room(solution, "plan on these servers", "faster")
    return rejection(solution.check) or f"One iteration takes {own}{_against(solution)}; {least}."


def _against(solution: JobSolution) -> str:
    """The fat-tree where it was simulated, else the plan that the search began with."""
    for line in solution.baselines:
        if line.fabric == FAT_TREE and math.isfinite(line.iteration_time_ms):
            words = compared(solution.objective.value, line.iteration_time_ms)[1]
            return f", {words} on a fat-tree{_price(solution)}"
    if solution.initial_ms is None:
        return ""
    return f", {compared(solution.objective.value, solution.initial_ms)[1]} data parallelism"


def _price(solution: JobSolution) -> str:
    """Of the fat-tree beside the price of this plan's network."""
    prices = solution.prices
    own, other = (None, None) if prices is None else (prices.of(PLAN_FABRIC), prices.of(FAT_TREE))
    if own is None or other is None or own <= 0:
        return ""
    if abs(other / own - 1) <= SAME_PRICE:
        return " of the same price"
    return f" at {ratio(other / own)} the price"
