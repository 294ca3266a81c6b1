"""A graph of computation and transfers is built by name, and timed over circuits between pods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from topoopt.core.arrays import BYTES_PER_MS_PER_GBPS, Floats, Ints, offsets
from topoopt.core.cluster import Cluster
from topoopt.core.dag_topology import DagTask, DagTopologyProblem, DagTransfer
from topoopt.core.errors import InputError, Problem
from topoopt.core.workload import TaskGraph, TaskKind
from topoopt.native import flows


def ordered_by_name(problem: DagTopologyProblem) -> DagTopologyProblem:
    """The same graph, transfers first, both by their names."""
    names, count = problem.names, len(problem.transfers)
    order = sorted(range(len(names)), key=lambda step: (step >= count, names[step]))
    position = {step: k for k, step in enumerate(order)}

    def waits(after: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(position[step] for step in after))

    moves, works = problem.transfers, problem.tasks
    return replace(
        problem,
        transfers=tuple(replace(moves[step], after=waits(moves[step].after)) for step in order[:count]),
        tasks=tuple(replace(works[step - count], after=waits(works[step - count].after)) for step in order[count:]),
    )


class NamedSteps:
    """Transfers in bytes and tasks in seconds, each after others, which may come later."""

    def __init__(self) -> None:
        self._transfers: dict[str, tuple[int, int, float, tuple[str, ...]]] = {}
        self._tasks: dict[str, tuple[float, tuple[str, ...]]] = {}

    def transfer(self, name: str, source: int, target: int, volume: float, after: Iterable[str]) -> str:
        self._transfers[name] = (source, target, volume, tuple(dict.fromkeys(after)))
        return name

    def task(self, name: str, duration: float, after: Iterable[str]) -> str:
        self._tasks[name] = (duration, tuple(dict.fromkeys(after)))
        return name

    def ring(self, name: str, pods: Sequence[int], volume: float, after: Iterable[str]) -> list[str]:
        """A collective round a ring of pods that waits for all of them, half of it each way round.

        Args:
            pods: in the order of the ring, at least 2; with 2 the same pair carries both halves.
            volume: what each pod sends in all.

        Returns:
            Names of its transfers.
        """
        begun = self.task(f"{name} ready", 0.0, after)
        arc_bytes = volume if len(pods) == 2 else volume / 2
        for step, (source, target) in zip(self.ring_names(name, pods), _arcs(pods), strict=True):
            self.transfer(step, source, target, arc_bytes, [begun])
        return self.ring_names(name, pods)

    @staticmethod
    def ring_names(name: str, pods: Sequence[int]) -> list[str]:
        """Names of the transfers of a collective round a ring."""
        return [f"{name} {source}-{target}" for source, target in _arcs(pods)]

    def problem(
        self, name: str, ports: Sequence[int], circuit_gbps: float, notes: tuple[str, ...] = ()
    ) -> DagTopologyProblem:
        """All steps so far, on as many pods as ports are given for."""
        number = {step: k for k, step in enumerate((*self._transfers, *self._tasks))}
        return DagTopologyProblem(
            name=name,
            pods=len(ports),
            ports=tuple(ports),
            rate=circuit_gbps * BYTES_PER_MS_PER_GBPS * 1e3,
            transfers=tuple(
                DagTransfer(step, source, target, volume, tuple(number[prerequisite] for prerequisite in after))
                for step, (source, target, volume, after) in self._transfers.items()
            ),
            tasks=tuple(
                DagTask(step, duration, tuple(number[prerequisite] for prerequisite in after))
                for step, (duration, after) in self._tasks.items()
            ),
            volume_unit="bytes",
            time_unit="s",
            notes=notes,
        )


def _arcs(pods: Sequence[int]) -> list[tuple[int, int]]:
    directions = (1,) if len(pods) == 2 else (1, -1)
    return [(pods[k], pods[(k + direction) % len(pods)]) for direction in directions for k in range(len(pods))]


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
    for task in (candidate for candidate in order if graph.kind[candidate] in COMPUTE):
        server = int(graph.source[task])
        if server in behind:
            waits[task].append(behind[server])
        behind[server] = task
    steps, ends = NamedSteps(), [_ends(graph, task) for task in range(graph.tasks)]
    for task in range(graph.tasks):
        _add(steps, graph, task, [name for before in waits[task] for name in ends[before]])
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
    reduces = graph.kind[task] == TaskKind.ALLREDUCE and graph.group[task] >= 0 and graph.bytes[task] > 0
    return graph.groups[int(graph.group[task])] if reduces else ()


def _ends(graph: TaskGraph, task: int) -> list[str]:
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


@dataclass(frozen=True, eq=False)
class StepGraph:
    """The steps of a problem as arrays; transfers come first.

    Attributes:
        first: int64[n + 1]: successors of step i are successor[first[i]:first[i + 1]].
        successor: int64[edges].
        waits: int64[n], predecessors of each step.
        duration: float64[n], of tasks; 0 for transfers.
        volume: float64[transfers].
        channel: int64[transfers]: twice the place of its pair, plus 1 from the larger pod to the smaller.
        order: int64[n], the steps, each after all it waits for.
        pairs: number of pairs of pods.
    """

    first: Ints
    successor: Ints
    waits: Ints
    duration: Floats
    volume: Floats
    channel: Ints
    order: Ints
    pairs: int

    @cached_property
    def shared(self) -> flows.SharedCircuits:
        """What tells when its steps begin and end."""
        return flows.SharedCircuits(
            self.first, self.successor, self.waits, self.duration, self.volume, self.channel, self.pairs
        )

    @staticmethod
    def of(problem: DagTopologyProblem) -> StepGraph:
        after = problem.after
        n = len(after)
        heads = np.repeat(np.arange(n), [len(row) for row in after])
        tails = np.array([before for row in after for before in row], dtype=np.int64)
        by_tail = np.argsort(tails, kind="stable")
        first = offsets(np.bincount(tails, minlength=n))
        successor = heads[by_tail].astype(np.int64)
        waits = np.bincount(heads, minlength=n).astype(np.int64)
        backwards = np.array([m.source > m.target for m in problem.transfers], dtype=np.int64)
        duration = np.array([0.0] * len(problem.transfers) + [task.duration for task in problem.tasks])
        channel = 2 * problem.pair_of + backwards
        order = in_order(first, successor, waits)
        return StepGraph(first, successor, waits, duration, problem.volume, channel, order, len(problem.pairs))


def in_order(first: Ints, successor: Ints, waits: Ints) -> Ints:
    """int64[nodes]: nodes of a graph, each behind all that it waits for.

    Args:
        first, successor: of each node, CSR, those that wait for it.
        waits: how many nodes each one waits for.
    """
    left = waits.tolist()
    order = [step for step, count in enumerate(left) if not count]
    for step in order:
        for later in successor[first[step] : first[step + 1]].tolist():
            left[later] -= 1
            if not left[later]:
                order.append(later)
    return np.array(order, dtype=np.int64)


def followed(graph: StepGraph, circuits: Ints, rate: float) -> tuple[Floats, Floats]:
    """(start, end), float64[n] each, of the steps, all begun as early as they can.

    Args:
        circuits: int64[pairs], at least 1 for each.
        rate: volume a circuit carries in a unit of time.
    """
    return graph.shared.follow(circuits, rate)


def makespan(graph: StepGraph, circuits: Ints, rate: float) -> float:
    return graph.shared.makespan(circuits, rate)
