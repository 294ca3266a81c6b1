"""What a hierarchical network answers, in one sentence: time and cost beside the equal split, and what is proven."""

from __future__ import annotations

from topoopt.core.hierarchy import HierarchicalObjective
from topoopt.core.hierarchy_solution import HierarchicalSolution
from topoopt.drawing.sentences import compared, rejection, room
from topoopt.kinds.hierarchy.format import duration, money, times

BETTER = {HierarchicalObjective.TIME: "faster"}


def answer(solution: HierarchicalSolution) -> str:
    """Time of an iteration, cost of the network, and how both compare with the same bandwidth split equally."""
    cost = "" if solution.cost_usd is None else f" on a network of {money(solution.cost_usd)}"
    gain = solution.perf_per_cost_gain
    value = "" if gain is None else f" with {times(gain)} the performance per cost"
    against = f"{compared(solution.time_ns, solution.equal_time_ns)[1]} the same bandwidth split equally{value}"
    best = room(solution, "design allowed", BETTER.get(HierarchicalObjective(solution.objective.name), "better"))
    what = (
        "One iteration" if len(solution.jobs) == 1 else f"An iteration of all {len(solution.jobs)} jobs, as weighted,"
    )
    return rejection(solution.check) or f"{what} takes {duration(solution.time_ns)}{cost}, {against}; {best}."
