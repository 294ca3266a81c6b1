"""What a time model is, and what all of them check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.errors import InputError, Problem
from topoopt.core.workload import TaskGraph, TaskKind
from topoopt.simulate.network import Network


class Outcome(NamedTuple):
    """What a simulation of a task graph did: one iteration of every job, or the last one begun where jobs begin again.

    Attributes:
        time: latest end of a task, ms; infinity if it passed the threshold.
        start, end: float64[T], ms; end -1: never ran.
        cause: int32[T], the task whose end let it start, -1: none.
        first_end: float64[J], end of the first iteration of each job, -1: none.
        carried, busy: float64[L], bytes over each link, and ms in which it carries them.
        left: tasks of first iterations that could never run, or not yet when it was stopped.
    """

    time: float
    start: Floats
    end: Floats
    cause: Int32s
    first_end: Floats
    carried: Floats
    busy: Floats
    left: int


@dataclass(frozen=True, eq=False)
class Simulation:
    """One simulated iteration.

    Attributes:
        iteration_time_ms: latest end.
        start_ms, end_ms: float64[T].
        cause: int32[T], the task whose end let each task start, -1 for none.
        link_bytes, link_busy_ms: float64[L] of the network's links.
    """

    iteration_time_ms: float
    start_ms: Floats
    end_ms: Floats
    cause: Int32s
    link_bytes: Floats
    link_busy_ms: Floats


@dataclass(frozen=True)
class TimeModel:
    """A line of the table of time models.

    Attributes:
        summary: how links are shared, in one line.
        run: simulates one iteration. Raises InputError where the network lacks a path of a transfer, or tasks wait for
            each other in a circle; ValueError where it lacks the rings of a group.
        first_iterations: runs jobs (the tasks of job j are job_ptr[j]..job_ptr[j+1] of int64[J+1]), each beginning
            again when it is done, until the last one has done its first iteration; the end of that of each, -1: never.
            None: not several jobs.
        by_sharing: links are shared as the network says; False: in a way of its own.
    """

    summary: str
    run: Callable[[TaskGraph, Network], Simulation]
    first_iterations: Callable[[TaskGraph, Network, Ints], Floats] | None = None
    by_sharing: bool = False


def whole(graph: TaskGraph) -> Ints:
    """The tasks of a graph as those of one job."""
    return np.array([0, graph.tasks], dtype=np.int64)


def simulation_of(outcome: Outcome, tasks: int) -> Simulation:
    """An iteration in which every task ran.

    Raises:
        InputError: some did not.
    """
    require_all_done(outcome.left, tasks)
    return Simulation(outcome.time, outcome.start, outcome.end, outcome.cause, outcome.carried, outcome.busy)


def require_all_done(left: int, tasks: int) -> None:
    """Refuse a simulation that got stuck.

    Raises:
        InputError: some tasks are left.
    """
    if left:
        raise InputError(f"{left} of {tasks} tasks can never run: they wait for each other in a circle")


def require_paths(graph: TaskGraph, network: Network) -> None:
    """Refuse transfers between servers without a path.

    Raises:
        InputError: lists the first pairs.
    """
    if graph.servers != network.servers:
        raise InputError(f"task graph of {graph.servers} servers on a network of {network.servers}")
    moved = (graph.kind == TaskKind.TRANSFER) & (graph.source != graph.target)
    pair = np.unique(graph.source[moved].astype(np.int64) * network.servers + graph.target[moved])
    missing = pair[network.pair_ptr[pair + 1] == network.pair_ptr[pair]]
    if len(missing):
        raise InputError(
            [
                Problem(f"no path from server {p // network.servers} to {p % network.servers}", path="routes")
                for p in missing[:5].tolist()
            ]
        )
