"""Simulating an iteration, and explaining it: breakdown along the critical path, link loads, timeline."""

from __future__ import annotations

import numpy as np

from topoopt.core.job_solution import Breakdown, Evaluation
from topoopt.core.taskgraph import TaskGraph, TaskKind
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
    total = dict.fromkeys(TaskKind, 0.0)
    for task in critical_tasks(simulation):
        total[TaskKind(graph.kind[task])] += float(simulation.end_ms[task] - simulation.start_ms[task])
    compute = graph.kind < TaskKind.TRANSFER
    per_server = np.bincount(graph.source[compute], weights=graph.duration_ms[compute], minlength=graph.servers)
    spent = total[TaskKind.FORWARD] + total[TaskKind.BACKWARD]
    idle = simulation.iteration_time_ms - spent - total[TaskKind.TRANSFER] - total[TaskKind.ALLREDUCE]
    return Breakdown(
        compute_ms=spent,
        model_parallel_ms=total[TaskKind.TRANSFER],
        allreduce_ms=total[TaskKind.ALLREDUCE],
        idle_ms=idle,
        busiest_server_compute_ms=float(per_server.max(initial=0.0)),
    )


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
    total = simulation.iteration_time_ms
    critical = tuple(span_of(graph, simulation, task) for task in critical_tasks(simulation))
    timeline = timeline_of(graph, simulation, critical)
    return Evaluation(
        time_model=model,
        iteration_time_ms=total,
        breakdown=breakdown(graph, simulation),
        link_bytes=simulation.link_bytes,
        link_utilisation=simulation.link_busy_ms / total if total > 0 else np.zeros_like(simulation.link_busy_ms),
        bandwidth_tax=bandwidth_tax(graph, simulation),
        timeline=timeline.spans,
        timeline_servers_left_out=timeline.servers_left_out,
        critical_path=critical,
    )
