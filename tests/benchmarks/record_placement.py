"""Placement: published pipelines proven, and makespans on unequal devices, with processor time of solve and check."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

import topoopt
from solvers.stop import Stop
from tests.benchmarks.figures import Figure
from tests.benchmarks.records import Record
from tests.support.paths import INSTANCES
from tests.support.task_graphs import layered, task_graph, ten_tasks
from topoopt.core.placement import PlacementProblem, Throughput
from topoopt.kinds.placement.methods import cut_proof
from topoopt.verify.placement.check import checker_of

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


def published(graph: str, factor: int = 1) -> PlacementProblem:
    """A published graph with transfers so many times dearer, objective throughput."""
    problem: PlacementProblem = topoopt.read_instance(INSTANCES / "published" / f"{graph}.json")
    tensors = tuple(replace(row, size_bytes=factor * row.size_bytes) for row in problem.tensors)
    return replace(problem, tensors=tensors, objective=Throughput())


def pipeline(graph: str, factor: int = 1) -> list[Figure]:
    """Solve and check one."""
    return measured(graph, published(graph, factor), 0.0, 60.0, 5.0)


def free_sets() -> list[Figure]:
    """The cut bound of free sets, from the best contiguous pipeline down, which it is 14 % from."""
    problem = published("bert24-inference", 1000)
    devices = tuple(entry for entry in problem.devices if not entry.host)
    problem = replace(problem, devices=devices, objective=Throughput(stages="free"))
    start = time.process_time()
    (bound,), certificates = cut_proof(problem, CONTIGUOUS_MS, Stop())
    solved = time.process_time()
    assert checker_of(problem).arguments(problem)[bound.argument](problem, certificates) == bound.value
    checked = time.process_time()
    gap = 100 * (1 - bound.value / CONTIGUOUS_MS)
    return [
        Figure(f"free sets: contiguous {CONTIGUOUS_MS} ms, verified bound {bound.value:.6g}", gap, "%", 14.2),
        Figure("free sets: prices", solved - start, "s", 60.0),
        Figure("free sets: check", checked - solved, "s", 5.0),
    ]


CONTIGUOUS_MS = 20.591
"""Least load of the contiguous pipelines of bert24 with transfers a thousand times dearer."""

PLACEMENT = (
    *(
        Record(f"pipeline-{graph}", f"topoopt solve instances/published/{graph}.json", partial(pipeline, graph))
        for graph in PIPELINES
    ),
    *(
        Record(
            f"tight-{graph}",
            f"topoopt solve (instances/published/latency-{graph}.json, objective throughput)",
            partial(pipeline, f"latency-{graph}"),
        )
        for graph in ("bert24-inference", "bert-3-inference", "gnmt-inference")
    ),
    Record(
        "dear-gnmt-inference",
        "topoopt solve (instances/published/gnmt-inference.json, transfers 1000 times dearer)",
        partial(pipeline, "gnmt-inference", 1000),
    ),
    *(
        Record(
            name,
            "topoopt solve (kind placement, objective latency, graph of tests/support/task_graphs.py)",
            lambda name=name, make=make, goals=goals: measured(name, make(), *goals),  # type: ignore[misc]
        )
        for name, make, goals in (
            ("ten-tasks-none", lambda: task_graph(*ten_tasks(), "none"), (0.0, 1.0, 1.0)),
            ("ten-tasks-fifo", lambda: task_graph(*ten_tasks(), "fifo"), (0.0, 5.0, 1.0)),
            ("ten-tasks-fair", lambda: task_graph(*ten_tasks(), "fair"), (18.0, 5.0, 1.0)),
            ("own-20x3", lambda: task_graph(*layered(20, 3, 0.5, 2), "none"), (0.0, 5.0, 1.0)),
            ("own-20x3-fifo", lambda: task_graph(*layered(20, 3, 0.5, 2), "fifo"), (0.0, 60.0, 10.0)),
            ("own-30x4", lambda: task_graph(*layered(30, 4, 0.5, 3), "none"), (0.0, 60.0, 10.0)),
            ("own-30x4-dear", lambda: task_graph(*layered(30, 4, 1.0, 5), "none"), (5.0, 60.0, 10.0)),
            ("own-30x4-second", lambda: task_graph(*layered(30, 4, 0.5, 7), "none"), (5.0, 120.0, 10.0)),
            ("own-30x4-cheap", lambda: task_graph(*layered(30, 4, 0.2, 3), "none"), (5.0, 120.0, 10.0)),
            ("own-60x4", lambda: task_graph(*layered(60, 4, 0.5, 4), "none"), (7.0, 120.0, 10.0)),
        )
    ),
    Record("free-bert24", "topoopt solve (stages: free, transfers 1000 times dearer, no CPU)", free_sets),
)
"""Rows of `python -m tests.benchmarks records`."""
