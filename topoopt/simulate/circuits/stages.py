"""Schedules in stages: the traffic of an iteration cut into phases, each on a network of its own or on a common one.

A stage is a run of phases on one network. Its traffic waits until all traffic of the stages before it has arrived and
the switches are set (dark for the delay); compute goes on meanwhile. With more than one network in use each iteration
also begins with setting the first one. A single stage is the one-shot network: never dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from topoopt.core.arrays import Bools, Floats, Int32s, Ints
from topoopt.core.workload import TaskGraph, TaskKind
from topoopt.native import circuits
from topoopt.simulate.circuits.work import Chunks, make_work
from topoopt.simulate.network import Network
from topoopt.simulate.time_models.time_model import require_all_done, require_paths

Routes = tuple[Floats, Ints, Ints, Int32s]
"""Rate of each link; first and last place of each queue's route in the links of all routes; these."""


class Phase(IntEnum):
    """Parts of an iteration's traffic, in order."""

    FORWARD = 0
    BACKWARD = 1
    ALLREDUCE = 2


@dataclass(frozen=True, eq=False)
class Stage:
    """Phases that share a network in one go."""

    phases: tuple[Phase, ...]
    network: Network


@dataclass(frozen=True)
class StagedRun:
    """One iteration: its time, the dark time and the number of times switches were set, bytes times hops carried."""

    iteration_time_ms: float
    dark_ms: float
    reconfigurations: int
    carried_bytes: float


def phases_of(graph: TaskGraph) -> Int32s:
    """int32[T], the phase of each task's traffic: transfers that a backward task releases are backward.

    Compute tasks count as forward; it means nothing for them.
    """
    phase = np.where(graph.kind == TaskKind.ALLREDUCE, Phase.ALLREDUCE, Phase.FORWARD).astype(np.int32)
    tail = np.repeat(np.arange(graph.tasks), np.diff(graph.successor_ptr))
    released = graph.successor[graph.kind[tail] == TaskKind.BACKWARD]
    phase[released[graph.kind[released] == TaskKind.TRANSFER]] = Phase.BACKWARD
    return phase


def simulate_stages(graph: TaskGraph, stages: Sequence[Stage], delay_ms: float) -> StagedRun:
    """One iteration of a schedule; consecutive stages on different networks are parted by `delay_ms` of darkness.

    Raises:
        ValueError: a phase in no stage or in two, or rings missing in a network.
        InputError: a path missing in a network, or tasks that wait for each other in a circle.
    """
    if sorted(phase for stage in stages for phase in stage.phases) != list(Phase):
        raise ValueError("every phase stands in one stage")
    phase = phases_of(graph)
    stage_of = np.empty(len(Phase), dtype=np.int32)
    for place, stage in enumerate(stages):
        stage_of[list(stage.phases)] = place
    task_stage = stage_of[phase]
    networks = list({id(stage.network): stage.network for stage in stages}.values())
    changes = [stages[place].network is not stages[place - 1].network for place in range(len(stages))]
    delays = np.where(np.array(changes) & (len(networks) > 1), delay_ms, 0.0)
    parts, routes = _union(graph, networks, [task_stage == place for place in range(len(stages))], stages)
    first = networks[0]
    work = make_work(
        graph,
        parts,
        hop_latency_ms=first.hop_latency_ms,
        round_latency_ms=first.ring_round_latency_ms,
        stage=task_stage,
        stage_delay=delays,
    )
    time_ms, dark_ms, carried, left = circuits.run_stages(work, *routes, interval=first.hop_latency_ms)
    require_all_done(left, graph.tasks)
    switched = int(np.count_nonzero(delays)) if delay_ms > 0 else sum(changes) * (len(networks) > 1)
    return StagedRun(time_ms, dark_ms, switched, carried)


def _union(
    graph: TaskGraph, networks: Sequence[Network], chosen: Sequence[Bools], stages: Sequence[Stage]
) -> tuple[Chunks, Routes]:
    """Chunks of all stages, and the routes of all networks side by side."""
    chunks: list[Chunks] = []
    queues = links = 0
    low, high, store, rate = [], [], [], []
    filled = 0
    for network in networks:
        wanted = np.zeros(graph.tasks, dtype=bool)
        for mask, stage in zip(chosen, stages, strict=True):
            if stage.network is network:
                wanted |= mask
        for task, queue, amount in _chunks(graph, network, wanted):
            chunks.append((task, queue + queues, amount))
        for ptr, link in ((network.path_ptr, network.path_link), (network.member_ptr, network.member_link)):
            low.append(ptr[:-1] + filled)
            high.append(ptr[1:] + filled)
            store.append(link + links)
            filled += len(link)
        queues += len(network.path_ptr) + len(network.member_ptr) - 2
        rate.append(network.link_rate)
        links += network.links
    merged = tuple(np.concatenate([part[k] for part in chunks]) for k in range(3)) if chunks else _nothing()
    routes = (
        np.concatenate(rate),
        np.concatenate(low).astype(np.int64),
        np.concatenate(high).astype(np.int64),
        np.concatenate(store).astype(np.int32),
    )
    return (merged[0], merged[1], merged[2]), routes


def _nothing() -> Chunks:
    return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0)


def _chunks(graph: TaskGraph, network: Network, wanted: Bools) -> list[Chunks]:
    """Transfers over the paths of their pair, AllReduces over the members' paths of their rings, by shares."""
    n = graph.servers
    moved = np.flatnonzero(wanted & (graph.kind == TaskKind.TRANSFER) & (graph.source != graph.target))
    require_paths(graph, network)
    found: list[Chunks] = []
    if len(moved):
        pair = graph.source[moved].astype(np.int64) * n + graph.target[moved]
        counts = network.pair_ptr[pair + 1] - network.pair_ptr[pair]
        task = np.repeat(moved, counts)
        ends = np.cumsum(counts)
        path = np.repeat(network.pair_ptr[pair], counts) + np.arange(int(ends[-1])) - np.repeat(ends - counts, counts)
        found.append((task, path, graph.bytes[task] * network.path_share[path]))
    index = {members: place for place, members in enumerate(network.groups)}
    reduced = wanted & (graph.kind == TaskKind.ALLREDUCE) & (graph.group >= 0)
    paths = len(network.path_ptr) - 1
    for t in np.flatnonzero(reduced).tolist():
        members = graph.groups[graph.group[t]]
        if members not in index:
            raise ValueError("the network has no rings for some AllReduce group")
        k = len(members)
        for ring in range(network.group_ptr[index[members]], network.group_ptr[index[members] + 1]):
            places = np.arange(network.ring_ptr[ring], network.ring_ptr[ring + 1], dtype=np.int64)
            amount = 2.0 * (k - 1) / k * float(graph.bytes[t]) * network.ring_share[ring]
            found.append((np.full(len(places), t), paths + places, np.full(len(places), amount)))
    return found
