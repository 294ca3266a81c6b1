"""What a shared cluster answers, in one sentence: the mean on its first fabric, on the others, and what is proven."""

from __future__ import annotations

from topoopt.core.shared_cluster_solution import SharedClusterSolution
from topoopt.drawing.format import counted, milliseconds, number
from topoopt.drawing.sentences import compared, rejection, room

WHAT = {
    "mean_iteration_time": "an iteration of a job takes {value} on average",
    "mean_completion_time": "a job ends {value} after it came, on average",
}
"""The objectives of jobs that arrive."""

KEYS = {"mean_iteration_time": "iteration_ms", "mean_completion_time": "completion_s"}
"""Fields of the metrics that the objectives are means of."""


def answer(solution: SharedClusterSolution) -> str:
    """The mean on the first fabric against every other one, and how much shorter it could be."""
    return rejection(solution.check) or (_at_once(solution) if solution.at_once else _arriving(solution))


def _at_once(solution: SharedClusterSolution) -> str:
    top = max(row.load for row in solution.statistics)
    first, *others = (row for row in solution.statistics if row.load == top)
    own = first.iteration_ms.mean
    against = _against(own, [(row.fabric, row.iteration_ms.mean) for row in others])
    least = room(solution, "strategy on shards of this size", "faster")
    return (
        f"With {counted(top, 'job')} at once an iteration takes {milliseconds(own)} on average on {first.fabric}"
        f"{against}; {least}."
    )


def _arriving(solution: SharedClusterSolution) -> str:
    first, *others = solution.runs
    objective = solution.objective
    key = KEYS[objective.name]
    means = [
        (run.fabric.name, float(getattr(metrics, key).mean))
        for run, metrics in zip(others, solution.metrics[1:], strict=True)
        if run.whole and metrics is not None
    ]
    what = WHAT[objective.name].format(value=f"{number(objective.value)} {objective.unit}")
    part = "" if first.whole else " (cut short)"
    least = room(solution, "schedule of these jobs", "faster on average")
    return f"On {first.fabric.name}{part} {what}{_against(objective.value, means) if first.whole else ''}; {least}."


def _against(own: float, others: list[tuple[str, float]]) -> str:
    """Every other fabric, by how it compares."""
    return "".join(f", {compared(own, mean)[1]} on {name}" for name, mean in others)
