"""The steps of a graph in the order of their names, so that whoever writes it down again numbers them alike."""

from __future__ import annotations

from dataclasses import replace

from topoopt.core.dag_topology import DagTopologyProblem


def ordered_by_name(problem: DagTopologyProblem) -> DagTopologyProblem:
    """The same graph, transfers first, both by their names."""
    names, count = problem.names, len(problem.transfers)
    order = sorted(range(len(names)), key=lambda step: (step >= count, names[step]))
    place = {step: k for k, step in enumerate(order)}

    def waits(after: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(place[step] for step in after))

    moves, works = problem.transfers, problem.tasks
    return replace(
        problem,
        transfers=tuple(replace(moves[step], after=waits(moves[step].after)) for step in order[:count]),
        tasks=tuple(replace(works[step - count], after=waits(works[step - count].after)) for step in order[count:]),
    )
