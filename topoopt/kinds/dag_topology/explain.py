"""What holds a job back over its circuits, and what one more port would gain, solved again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.dag_topology_solution import DagTopologySolution
from topoopt.core.errors import InputError, LimitError, Problem
from topoopt.kinds.dag_topology.words import time_text
from topoopt.kinds.explanation import Explanation, Question
from topoopt.kinds.pipeline import solve

SAME = 1e-9
"""Part of the makespan that is rounding."""


def explain(problem: DagTopologyProblem | None, solution: DagTopologySolution, question: Question) -> Explanation:
    """The path that ends last, what of it is transfers, and gains of ports.

    Raises:
        InputError: no instance.
    """
    if problem is None:
        raise InputError([Problem("needed for the graph", path="--instance", allowed="the instance that was solved")])
    path = critical_path(problem, solution)
    spent = {"transfers": 0.0, "tasks": 0.0}
    for step in path:
        own = solution.steps[step]
        spent["transfers" if own.source >= 0 else "tasks"] += own.end - own.start
    makespan = solution.objective.value
    compute = solution.compute_time
    gains, late = _gains(problem, solution, question)
    names = [solution.steps[step].name for step in path]
    words = [
        f"{solution.name}: {time_text(solution, makespan)}; the path that ends last has "
        f"{time_text(solution, spent['transfers'])} of transfers and {time_text(solution, spent['tasks'])} of tasks.",
        f"The path: {' → '.join(names[:10])}{' → …' if len(names) > 10 else ''}.",
        f"Without any transfer time the job would take {time_text(solution, compute)}: "
        f"{time_text(solution, solution.communication_time)} are communication.",
        *(
            f"With one port more at {where}: {time_text(solution, value)}"
            + (", no gain." if value >= makespan * (1 - SAME) else f", {1 - value / makespan:.1%} less.")
            for where, value in gains.items()
        ),
    ]
    figures = {
        "makespan": makespan,
        "compute_path": compute,
        "communication_time": solution.communication_time,
        "critical_path": names,
        "critical_path_transfers": spent["transfers"],
        "critical_path_tasks": spent["tasks"],
        "one_port_more": [{"where": where, "makespan": value} for where, value in gains.items()],
    }
    return Explanation(tuple(words), figures, solution.notes, late)


def critical_path(problem: DagTopologyProblem, solution: DagTopologySolution) -> list[int]:
    """Steps, each begun as the one before it ended, from the first to the one that ends last."""
    after = problem.after
    step: int | None = int(np.argmax([each.end for each in solution.steps]))
    path: list[int] = []
    while step is not None:
        path.append(step)
        step = max(after[step], key=lambda before: solution.steps[before].end, default=None)
    return path[::-1]


def _gains(
    problem: DagTopologyProblem, solution: DagTopologySolution, question: Question
) -> tuple[dict[str, float], bool]:
    """Least makespan found with one port more, at every pod and at those that have none free; whether time ran out."""
    full = [pod for pod, used in enumerate(solution.ports_used) if used == solution.ports[pod]]
    tries = {"every pod": range(problem.pods), **{f"pod {pod}": [pod] for pod in full[: question.checks]}}
    gains: dict[str, float] = {}
    for where, pods in tries.items():
        if not question.left_s():
            return gains, True
        ports = tuple(count + (pod in pods) for pod, count in enumerate(problem.ports))
        more = replace(problem, ports=ports, slack_percent=0.0, sha256="", document=None)
        try:
            found = solve(more, question.options("auto"))
        except LimitError:
            return gains, True
        if found.check.ok:
            gains[where] = min(found.objective.value, solution.objective.value)
    return gains, False
