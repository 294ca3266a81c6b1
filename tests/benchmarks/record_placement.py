"""Placement: published pipelines proven, and makespans on unequal devices, with processor time of solve and check."""

from __future__ import annotations

import time
from functools import partial

import topoopt
from tests.benchmarks.figures import Figure
from tests.benchmarks.records import Record
from tests.support.paths import INSTANCES
from tests.support.task_graphs import layered, task_graph, ten_tasks
from topoopt.core.placement import PlacementProblem

PIPELINES = (
    "bert24-inference",
    "bert24-training",
    "gnmt-inference",
    "resnet50-inference",
    "bert-3-inference",
    "bert-3-training",
    "bert-6-inference",
)


def measured(name: str, problem: PlacementProblem, gap: float, most_s: float, check_s: float) -> list[Figure]:
    """Solve and check."""
    start = time.process_time()
    result = topoopt.solve(problem)
    solved = time.process_time()
    verdict = topoopt.check(problem, result)
    checked = time.process_time()
    assert verdict.ok, verdict.violations
    value, bound = result.objective.value, result.bound.value
    return [
        Figure(f"{name}: gap, value {value:.6g} ms, verified bound {bound:.6g}", 100 * result.gap, "%", gap),
        Figure(f"{name}: solve", solved - start, "s", most_s),
        Figure(f"{name}: check", checked - solved, "s", check_s),
    ]


def pipeline(graph: str) -> list[Figure]:
    """A published graph, objective throughput."""
    return measured(graph, topoopt.read_instance(INSTANCES / "published" / f"{graph}.json"), 0.0, 60.0, 5.0)


PLACEMENT = (
    *(
        Record(f"pipeline-{graph}", f"topoopt solve instances/published/{graph}.json", partial(pipeline, graph))
        for graph in PIPELINES
    ),
    *(
        Record(
            name,
            "topoopt solve (kind placement, objective latency, graph of tests/support/task_graphs.py)",
            lambda name=name, make=make, goals=goals: measured(name, make(), *goals),  # type: ignore[misc]
        )
        for name, make, goals in (
            ("ten-tasks-none", lambda: task_graph(*ten_tasks(), "none"), (0.0, 1.0, 1.0)),
            ("ten-tasks-fair", lambda: task_graph(*ten_tasks(), "fair"), (18.0, 5.0, 1.0)),
            ("own-20x3", lambda: task_graph(*layered(20, 3, 0.5, 2), "none"), (0.0, 5.0, 1.0)),
            ("own-30x4", lambda: task_graph(*layered(30, 4, 0.5, 3), "none"), (0.0, 60.0, 10.0)),
            ("own-60x4", lambda: task_graph(*layered(60, 4, 0.5, 4), "none"), (7.0, 120.0, 10.0)),
        )
    ),
)
"""Rows of `python -m tests.benchmarks records`."""
