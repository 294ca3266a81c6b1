"""Simulating an iteration, and explaining it: breakdown along the critical path, link loads, timeline."""

from __future__ import annotations

import numpy as np

from topoopt.core.job import Breakdown, Evaluation, Span
from topoopt.core.workload import TaskGraph, TaskKind
from topoopt.simulate.network import Network
from topoopt.simulate.time_models import TIME_MODELS
from topoopt.simulate.time_models.time_model import Simulation
from topoopt.simulate.time_models.timeline import span_of, timeline_of


def simulate(graph: TaskGraph, network: Network, model: str = "rounds") -> Simulation:
    """Simulate one iteration.

    Args:
        graph: what to do.
        network: where.
        model: a name in `TIME_MODELS`.

    Raises:
        InputError: the network lacks a path of a transfer, or the tasks wait for each other in a circle.
        ValueError: an AllReduce group has no rings in the network.
    """
    return TIME_MODELS[model].run(graph, network)


def critical_tasks(simulation: Simulation) -> list[int]:
    """Tasks of the critical path, first to last."""
    path = []
    task = int(np.argmax(simulation.end_ms)) if len(simulation.end_ms) else -1
    while task >= 0:
        path.append(task)
        task = int(simulation.cause[task])
    return path[::-1]


def breakdown(graph: TaskGraph, simulation: Simulation) -> Breakdown:
    """Iteration time along the critical path, by kind of task."""
    return Breakdown.along(critical_path(graph, simulation), simulation.iteration_time_ms)


def critical_path(graph: TaskGraph, simulation: Simulation) -> tuple[Span, ...]:
    """Steps of the critical path, first to last."""
    return tuple(span_of(graph, simulation, task) for task in critical_tasks(simulation))


def bandwidth_tax(graph: TaskGraph, simulation: Simulation) -> float:
    """Bytes carried over links divided by bytes demanded (TopoOpt section 5.4); 1 if nothing is demanded."""
    demanded = float(graph.bytes[graph.kind == TaskKind.TRANSFER].sum())
    size = np.array([len(members) for members in graph.groups], dtype=np.float64)
    reduced = (graph.kind == TaskKind.ALLREDUCE) & (graph.group >= 0)
    demanded += float((2.0 * (size[graph.group[reduced]] - 1) * graph.bytes[reduced]).sum()) if reduced.any() else 0.0
    return float(simulation.link_bytes.sum()) / demanded if demanded > 0 else 1.0


def evaluate(graph: TaskGraph, network: Network, model: str = "rounds") -> Evaluation:
    """Simulate an iteration and explain it."""
    simulation = simulate(graph, network, model)
    critical = critical_path(graph, simulation)
    timeline = timeline_of(graph, simulation, critical)
    return Evaluation(
        time_model=model,
        link_bytes=simulation.link_bytes,
        timeline=timeline.spans,
        timeline_servers_left_out=timeline.servers_left_out,
        critical_path=critical,
    )
