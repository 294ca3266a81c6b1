"""One iteration of a job of operators as a graph of tasks and transfers between its servers.

A server is a pod with as many ports as it has interfaces. It computes one task at a time, in the order in which it did
where the plan was simulated. AllReduces go round the ring of their group, half of the payload each way.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.cluster import Cluster
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.errors import InputError, Problem
from topoopt.core.workload import TaskGraph, TaskKind
from topoopt.simulate.dag.named_steps import NamedSteps

COMPUTE = (TaskKind.FORWARD, TaskKind.BACKWARD)


def job_graph(name: str, cluster: Cluster, graph: TaskGraph, begins: Floats) -> DagTopologyProblem:
    """The circuits between servers that an iteration asks for.

    Args:
        begins: float64[T], when each task began where the plan was simulated.

    Raises:
        InputError: nothing goes from a server to another.
    """
    waits = _waits(graph)
    order = sorted(range(graph.tasks), key=lambda task: (begins[task], task))
    behind: dict[int, int] = {}
    for task in (each for each in order if graph.kind[each] in COMPUTE):
        server = int(graph.source[task])
        if server in behind:
            waits[task].append(behind[server])
        behind[server] = task
    steps, ends = NamedSteps(), [_ends(graph, task) for task in range(graph.tasks)]
    for task in range(graph.tasks):
        after = [name for before in waits[task] for name in ends[before]]
        _add(steps, graph, task, after)
    problem = steps.problem(name, (cluster.degree,) * cluster.servers, cluster.link_gbps)
    if not problem.transfers:
        text = "nothing goes from a server to another"
        raise InputError([Problem(text, path="plan.strategy", allowed="a plan with transfers or AllReduces")])
    return problem


def _waits(graph: TaskGraph) -> list[list[int]]:
    waits: list[list[int]] = [[] for _ in range(graph.tasks)]
    tail = np.repeat(np.arange(graph.tasks), np.diff(graph.successor_ptr))
    for before, task in zip(tail.tolist(), graph.successor.tolist(), strict=True):
        waits[task].append(before)
    return waits


def _title(graph: TaskGraph, task: int) -> str:
    operator = int(graph.operator[task])
    name = graph.operator_names[operator] if 0 <= operator < len(graph.operator_names) else ""
    return f"{task} {TaskKind(int(graph.kind[task])).name.lower()} {name}"[:180].rstrip()


def _ring(graph: TaskGraph, task: int) -> tuple[int, ...]:
    """Servers of an AllReduce that goes over links; none for other tasks."""
    reduces = graph.kind[task] == TaskKind.ALLREDUCE and graph.group[task] >= 0 and graph.bytes[task] > 0
    return graph.groups[int(graph.group[task])] if reduces else ()


def _ends(graph: TaskGraph, task: int) -> list[str]:
    """Names of the steps that a task ends with."""
    title, ring = _title(graph, task), _ring(graph, task)
    return NamedSteps.ring_names(title, ring) if ring else [title]


def _add(steps: NamedSteps, graph: TaskGraph, task: int, after: list[str]) -> None:
    title, ring = _title(graph, task), _ring(graph, task)
    seconds, size = float(graph.duration_ms[task]) * 1e-3, float(graph.bytes[task])
    if ring:
        begin = [steps.task(f"{title} inside", seconds, after)]
        steps.ring(title, ring, 2.0 * (len(ring) - 1) / len(ring) * size, begin)
    elif graph.kind[task] == TaskKind.TRANSFER and size > 0:
        steps.transfer(title, int(graph.source[task]), int(graph.target[task]), size, after)
    else:
        steps.task(title, seconds, after)
