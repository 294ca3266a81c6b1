"""The methods of kind `dag-topology`, the result that circuits amount to, and why it is no better."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from solvers.dag_topology.branching import refuse_crowded
from solvers.dag_topology.search import MATRIX_METHODS, Circuits, by_matrix, search
from topoopt.core.dag_topology import (
    CircuitProof,
    DagTopologyPlan,
    DagTopologyProblem,
    DagTopologyResult,
    PathMean,
    branching_certificate,
)
from topoopt.core.errors import InputError, Problem
from topoopt.core.result import Certificate
from topoopt.kinds.dag_topology.page import DagTopologyFigures
from topoopt.kinds.kind import Effort, Method, Solver, table
from topoopt.kinds.pipeline import Explanation, Question, assembled, change_sentences, times_changed
from topoopt.page.text import quantity
from topoopt.verify.dag_topology import CHECKER


def _branching(problem: DagTopologyProblem, effort: Effort) -> Circuits:
    refuse_crowded(problem)
    return search(problem, effort.search.method, effort.stop, effort.tell, effort.keep)


def _by_matrix(name: str) -> Callable[[DagTopologyProblem, Effort], Circuits]:
    def run(problem: DagTopologyProblem, effort: Effort) -> Circuits:
        refuse_crowded(problem)
        return by_matrix(name, problem, effort.stop)

    return run


DAG_TOPOLOGY_METHODS = table(
    Method("auto", "branch and bound on circuits: least makespan, then fewest circuits", _branching),
    Method("branching", "the same", _branching),
    *(
        Method(name, f"circuits {words}; the bound of the root", _by_matrix(name))
        for name, (words, _) in MATRIX_METHODS.items()
    ),
)


def from_format_2(
    problem: DagTopologyProblem, document: Mapping[str, Any]
) -> tuple[DagTopologyPlan, tuple[Certificate, ...]]:
    """Return the plan and the certificate of a solution file of format 2."""
    proof, fastest = document["proof"], document.get("fastest")
    means = [
        PathMean(tuple((path, weight) for path, weight in weights), tuple(prices)) for weights, prices in proof["means"]
    ]
    trees = CircuitProof(
        tuple(map(tuple, proof["makespan_tree"])),
        proof["circuits_bound"],
        tuple(map(tuple, proof["circuits_tree"])),
        tuple(tuple(map(tuple, path)) for path in proof["paths"]),
        tuple(means),
    )
    plan = DagTopologyPlan(
        np.array([count for _, _, count in document["circuits"]], dtype=np.int64),
        None if fastest is None else np.array(fastest, dtype=np.int64),
    )
    return plan, (branching_certificate(float(document["bound"]["value"]), trees, problem.pods),)


def _assemble(problem: DagTopologyProblem, circuits: Circuits, effort: Effort) -> DagTopologyResult:
    return assembled(problem, circuits, effort, CHECKER)


SOLVER = Solver(
    methods=lambda _: DAG_TOPOLOGY_METHODS, assemble=_assemble, tables=lambda _: (("", DAG_TOPOLOGY_METHODS),)
)


SAME = 1e-9
"""Part of the makespan that is rounding."""


def explain(result: DagTopologyResult, question: Question) -> Explanation:
    """Explain the path that ends last, what of it is transfers, and gains of ports.

    Raises:
        InputError: there is no instance.
    """
    problem = result.problem
    if problem is None:
        raise InputError([Problem("needed for the graph", path="instance", allowed="the instance that was solved")])
    figures = DagTopologyFigures(problem, result.plan)

    def time(value: float) -> str:
        return quantity(value, problem.time_unit)

    path = critical_path(figures)
    spent = {"transfers": 0.0, "tasks": 0.0}
    for index in path:
        step = figures.steps[index]
        spent["transfers" if step.source >= 0 else "tasks"] += step.end - step.start
    makespan = result.objective.value
    full = [pod for pod, used in enumerate(figures.ports_used) if used == problem.ports[pod]]
    cases = {"every pod": range(problem.pods), **{f"pod {pod}": [pod] for pod in full[: question.checks]}}
    more = {
        where: {"ports": tuple(count + (pod in pods) for pod, count in enumerate(problem.ports)), "slack_percent": 0.0}
        for where, pods in cases.items()
    }
    gains, late = times_changed(problem, more, makespan, question)
    names = [figures.steps[index].name for index in path]
    sentences = [
        f"{result.name}: {time(makespan)}; the path that ends last has {time(spent['transfers'])} of transfers and "
        f"{time(spent['tasks'])} of tasks.",
        f"The path: {' → '.join(names[:10])}{' → …' if len(names) > 10 else ''}.",
        f"Without any transfer time the job would take {time(figures.compute_time)}: "
        f"{time(figures.communication_time)} are communication.",
        *(f"With one port more at {sentence}" for sentence in change_sentences(gains, makespan, time, SAME)),
    ]
    document = {
        "makespan": makespan,
        "compute_path": figures.compute_time,
        "communication_time": figures.communication_time,
        "critical_path": names,
        "critical_path_transfers": spent["transfers"],
        "critical_path_tasks": spent["tasks"],
        "one_port_more": [{"where": where, "makespan": value} for where, value in gains.items()],
    }
    return Explanation(tuple(sentences), document, result.notes, late)


def critical_path(figures: DagTopologyFigures) -> list[int]:
    """Return steps, each started as the one before it ended, from the first to the one that ends last."""
    after, steps = figures.problem.after, figures.steps
    step: int | None = int(np.argmax([span.end for span in steps]))
    path: list[int] = []
    while step is not None:
        path.append(step)
        step = max(after[step], key=lambda before: steps[before].end, default=None)
    return path[::-1]
