"""Simulating an iteration, and explaining it: breakdown along the critical path, link loads, timeline."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.job_solution import Breakdown, Evaluation, Span
from topoopt.core.taskgraph import TaskGraph, TaskKind
from topoopt.simulate.network import Network
from topoopt.simulate.time_models import TIME_MODELS
from topoopt.simulate.time_models.time_model import Simulation

TIMELINE_SPANS = 8000
"""Most spans kept in a timeline. Where there are more, the transfers of a server are merged to the times in which it
sends any; if that is not enough, the longest spans are kept."""


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


def _span(graph: TaskGraph, simulation: Simulation, task: int) -> Span:
    kind = TaskKind(graph.kind[task])
    operator = int(graph.operator[task])
    name = graph.operator_names[operator] if 0 <= operator < len(graph.operator_names) else f"task {task}"
    if kind is TaskKind.TRANSFER:
        name += f" {graph.source[task]}→{graph.target[task]}"
    return Span(
        lane=int(graph.source[task]),
        kind=kind.name.lower(),
        label=name,
        start_ms=float(simulation.start_ms[task]),
        end_ms=float(simulation.end_ms[task]),
    )


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


def _merged_transfers(graph: TaskGraph, simulation: Simulation, shown: Ints) -> list[Span]:
    """For every server the times in which it sends any of the transfers shown."""
    spans = []
    moved = shown[graph.kind[shown] == TaskKind.TRANSFER]
    for server in range(graph.servers):
        own = moved[graph.source[moved] == server]
        own = own[np.argsort(simulation.start_ms[own], kind="stable")]
        if not len(own):
            continue
        start, reach = simulation.start_ms[own], np.maximum.accumulate(simulation.end_ms[own])
        first = np.flatnonzero(np.concatenate(([True], start[1:] > reach[:-1])))
        last = np.concatenate((first[1:], [len(own)])) - 1
        for low, high in zip(first.tolist(), last.tolist(), strict=True):
            label = f"{high - low + 1} transfers"
            spans.append(Span(server, "transfer", label, float(start[low]), float(reach[high])))
    return spans


def _timeline(graph: TaskGraph, simulation: Simulation) -> tuple[Span, ...]:
    shown = np.flatnonzero(simulation.end_ms > simulation.start_ms)
    merged: list[Span] = []
    if len(shown) > TIMELINE_SPANS:
        merged = _merged_transfers(graph, simulation, shown)
        shown = shown[graph.kind[shown] != TaskKind.TRANSFER]
    spans = [*(_span(graph, simulation, int(task)) for task in shown), *merged]
    if len(spans) > TIMELINE_SPANS:
        spans = sorted(spans, key=lambda span: span.start_ms - span.end_ms)[:TIMELINE_SPANS]
    return tuple(sorted(spans, key=lambda span: (span.start_ms, span.lane)))


def evaluate(graph: TaskGraph, network: Network, model: str = "rounds") -> Evaluation:
    """Simulate an iteration and explain it."""
    simulation = simulate(graph, network, model)
    total = simulation.iteration_time_ms
    return Evaluation(
        time_model=model,
        iteration_time_ms=total,
        breakdown=breakdown(graph, simulation),
        link_bytes=simulation.link_bytes,
        link_utilisation=simulation.link_busy_ms / total if total > 0 else np.zeros_like(simulation.link_busy_ms),
        bandwidth_tax=bandwidth_tax(graph, simulation),
        timeline=_timeline(graph, simulation),
        critical_path=tuple(_span(graph, simulation, task) for task in critical_tasks(simulation)),
    )
