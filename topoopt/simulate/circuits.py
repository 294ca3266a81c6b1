"""Circuits change during an iteration: by demand, in stages, or once for the traffic of a region."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Bools, Floats, Int32s, Ints, offsets, ranges
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.core.regional_circuits import RegionalCircuitsProblem
from topoopt.core.workload import TaskGraph, TaskKind
from topoopt.native import circuits
from topoopt.simulate.network import Network
from topoopt.simulate.time_models.evaluate import require_all_done, require_paths


@dataclass(frozen=True, eq=False)
class RegionTraffic:
    """What the pairs of a region send in a step, or in several steps together.

    Attributes:
        problem: of the region.
        ends: int64[P, 2], servers of its pairs.
        out, back: float64[P], bytes from the first server of a pair to the second, and back.
    """

    problem: RegionalCircuitsProblem
    ends: Ints
    out: Floats
    back: Floats

    @staticmethod
    def of(problem: RegionalCircuitsProblem, demand: Floats) -> RegionTraffic:
        """Return the traffic of a demand, float64[n, n] bytes."""
        ends = np.array(problem.pairs, dtype=np.int64).reshape(-1, 2)
        return RegionTraffic(problem, ends, demand[ends[:, 0], ends[:, 1]], demand[ends[:, 1], ends[:, 0]])

    @property
    def larger(self) -> Floats:
        """float64[P], the larger amount of both directions."""
        return np.maximum(self.out, self.back)

    def by_server(self, out: Floats, back: Floats) -> Floats:
        """Return float64[2 n], the bytes that leave each server, then those that reach it."""
        n = self.problem.servers
        first, second = self.ends[:, 0], self.ends[:, 1]
        leaving = np.bincount(first, out, n) + np.bincount(second, back, n)
        reaching = np.bincount(second, out, n) + np.bincount(first, back, n)
        return np.concatenate((leaving, reaching))

    def seconds(self, circuits: Ints) -> float:
        """Return the seconds with so many circuits of each pair, int64[P].

        A pair with circuits uses these alone. If the region splits, the electrical interfaces carry what circuits
        cannot in the same time. Newton's method gives the least time; it is exact, as loads are linear between
        finitely many times.
        """
        rate, electrical = self.problem.circuit_rate, self.problem.electrical_rate
        if not self.problem.split:
            none = circuits == 0
            wired = float(self.by_server(self.out * none, self.back * none).max(initial=0.0)) / electrical
            served = self.larger[~none] / (rate * circuits[~none])
            return max(wired, float(served.max(initial=0.0)))
        time = 0.0
        while True:
            carried = rate * circuits * time
            out, back = self.out > carried, self.back > carried
            left = self.by_server(np.where(out, self.out, 0.0), np.where(back, self.back, 0.0))
            served = np.asarray(rate * circuits, dtype=np.float64)
            shared = self.by_server(np.where(out, served, 0.0), np.where(back, served, 0.0))
            later = float((left / (electrical + shared)).max(initial=0.0))
            if later <= time * (1.0 + 1e-15):
                return max(later, time)
            time = later

    def switch_s(self) -> float:
        """Return the least seconds if all interfaces of a server led into one electrical switch."""
        problem = self.problem
        rate = problem.electrical_rate + problem.circuit_rate * np.tile(np.array(problem.ports), 2)
        return float((self.by_server(self.out, self.back) / rate).max(initial=0.0))


PERIOD_DELAYS = 4.0
"""Circuits stay for so many times the dark time (the reference scheduler's rule: a fifth of the time is dark)."""

LEAST_PERIOD_MS = 0.01
"""Circuits stay 10 us at least: demand has to be collected, whatever the optical switch can do."""


@dataclass(frozen=True)
class CircuitPolicy:
    """A scheduler of circuits.

    Attributes:
        description: one line for people.
        directed: transmit and receive sides of an interface are switched apart; else a circuit is a fibre pair.
        forwarding: servers forward for each other over shortest routes, and all servers stay connected; else only
            servers joined by a circuit can talk, and other traffic waits. Not with `directed`.
        draining: what is on the way arrives before circuits change (one hop latency a hop, added to the dark time).
    """

    description: str
    directed: bool
    forwarding: bool
    draining: bool


class Work(NamedTuple):
    """A task graph with its traffic; arrays of the graph as in `topoopt.core.workload.TaskGraph`.

    Attributes:
        servers: n.
        kind, source, duration, successor_ptr, successor: of the graph.
        chunk_ptr: int64[T+1]; chunks of task t are chunk_ptr[t]..chunk_ptr[t+1].
        chunk_queue: int32[C]; chunk_bytes: float64[C], above 0.
        hop_ms: float64[T], latency of each hop, added when a chunk of the task has been sent.
        stage: int32[T], stage of a schedule in which the traffic of the task may flow.
        stage_delay: float64[S], dark time before each stage, ms.
    """

    servers: int
    kind: NDArray[np.int8]
    source: Int32s
    duration: Floats
    successor_ptr: Ints
    successor: Int32s
    chunk_ptr: Ints
    chunk_queue: Int32s
    chunk_bytes: Floats
    hop_ms: Floats
    stage: Int32s
    stage_delay: Floats


Chunks = tuple[Ints, Ints, Floats]
"""Task, queue and bytes of chunks in any order."""


def make_work(
    graph: TaskGraph,
    chunks: Chunks,
    *,
    hop_latency_ms: float,
    round_latency_ms: float,
    stage: Int32s | None = None,
    stage_delay: Floats | None = None,
) -> Work:
    """Work of a graph; chunks without bytes are left out.

    A transfer pays `hop_latency_ms` a hop, an AllReduce of k servers 2 (k-1) rounds of `round_latency_ms` a hop.
    """
    task, queue, amount = (part[chunks[2] > 0] for part in chunks)
    order = np.argsort(task, kind="stable")
    counts = np.bincount(task, minlength=graph.tasks)
    size = np.array([len(members) for members in graph.groups] + [0], dtype=np.float64)
    rounds = np.where(graph.kind == TaskKind.ALLREDUCE, 2.0 * np.maximum(size[graph.group] - 1, 0.0), 0.0)
    return Work(
        servers=graph.servers,
        kind=graph.kind,
        source=graph.source,
        duration=graph.duration_ms,
        successor_ptr=graph.successor_ptr,
        successor=graph.successor,
        chunk_ptr=offsets(counts),
        chunk_queue=queue[order].astype(np.int32),
        chunk_bytes=amount[order].astype(np.float64),
        hop_ms=np.where(graph.kind == TaskKind.TRANSFER, hop_latency_ms, rounds * round_latency_ms),
        stage=np.zeros(graph.tasks, dtype=np.int32) if stage is None else stage,
        stage_delay=np.zeros(1) if stage_delay is None else stage_delay,
    )


def pair_chunks(graph: TaskGraph, *, mirrored: bool) -> tuple[Chunks, Ints]:
    """Chunks with a queue for every ordered pair of servers in use, and int64[Q], source * n + target of each.

    An AllReduce of S bytes over k servers is a ring in the order the group is listed, every member sending
    2 (k-1)/k S to the next; `mirrored`: half of it to the next and half to the one before.
    """
    n = graph.servers
    moved = np.flatnonzero((graph.kind == TaskKind.TRANSFER) & (graph.source != graph.target))
    tasks, pairs = [moved], [graph.source[moved].astype(np.int64) * n + graph.target[moved]]
    amounts = [graph.bytes[moved].astype(np.float64)]
    reduced = np.flatnonzero((graph.kind == TaskKind.ALLREDUCE) & (graph.group >= 0))
    for index in np.unique(graph.group[reduced]):
        members = np.array(graph.groups[index], dtype=np.int64)
        k = len(members)
        following = np.roll(members, -1)
        ring = members * n + following
        if mirrored and k > 2:
            ring = np.concatenate((ring, following * n + members))
        own = reduced[graph.group[reduced] == index]
        ring_bytes = 2.0 * (k - 1) / k * graph.bytes[own] * k / len(ring)
        tasks.append(np.repeat(own, len(ring)))
        pairs.append(np.tile(ring, len(own)))
        amounts.append(np.repeat(ring_bytes, len(ring)))
    task, pair, amount = np.concatenate(tasks), np.concatenate(pairs), np.concatenate(amounts)
    used, queue = np.unique(pair, return_inverse=True)
    return (task, queue.astype(np.int64), amount), used.astype(np.int64)


US_PER_MS = 1000.0


@dataclass(frozen=True, eq=False)
class CircuitRun:
    """What happened.

    Attributes:
        iteration_time_ms: mean over the iterations.
        times_ms: of each iteration, one after another.
        reconfigurations: how often circuits were changed.
        dark_ms: time in which no circuit carried anything although bytes waited (draining included).
        sent_bytes: float64[n, n], bytes that left each server for each other one, all iterations together.
        carried_bytes: bytes times hops.
        start_ms, end_ms: float64[T] of the last iteration, from its beginning.
    """

    iteration_time_ms: float
    times_ms: tuple[float, ...]
    reconfigurations: int
    dark_ms: float
    sent_bytes: Floats
    carried_bytes: float
    start_ms: Floats
    end_ms: Floats

    @property
    def bandwidth_tax(self) -> float:
        """Bytes carried over circuits per byte sent; 1 if nothing was."""
        sent = float(self.sent_bytes.sum())
        return self.carried_bytes / sent if sent > 0 else 1.0


def _require_times(delay_ms: float, period_ms: float | None) -> None:
    problems = []
    if not 0 <= delay_ms < math.inf:
        text = "bad reconfiguration delay"
        problems.append(Problem(text, path="delay_ms", value=str(delay_ms), allowed="at least 0, finite"))
    if period_ms is not None and not 0 < period_ms < math.inf:
        text = "bad period"
        problems.append(Problem(text, path="period_ms", value=str(period_ms), allowed="above 0, finite"))
    raise_any(problems)


def simulate_circuits(
    graph: TaskGraph,
    cluster: Cluster,
    policy: CircuitPolicy,
    delay_ms: float,
    period_ms: float | None = None,
    *,
    seed: int = 0,
    iterations: int = 1,
) -> CircuitRun:
    """Simulate iterations one after another, from random circuits on.

    When circuits have stood for a period and bytes wait, everything stops, circuits are assigned to what waits
    and carry again after the delay; when nothing waits, they stand for another period.

    Args:
        graph, cluster: of the job.
        policy: scheduler of the circuits.
        delay_ms: reconfiguration delay, in which no circuit carries anything.
        period_ms: time circuits stay before demand is looked at again; None: 4 times the dark time before (delay and
            draining), and 10 us at least.
        seed: of the first circuits.
        iterations: one after another.

    Raises:
        InputError: forwarding between three servers or more over one interface each (they cannot be connected), no
            iteration, tasks that wait for each other in a circle, a delay that is negative or not finite, or a period
            that is not above 0.
    """
    _require_times(delay_ms, period_ms)
    if policy.forwarding and cluster.degree < 2 and cluster.servers > 2:
        text, allowed = "one interface per server cannot connect all servers", "at least 2"
        raise InputError([Problem(text, path="degree", value=str(cluster.degree), allowed=allowed)])
    if iterations < 1:
        raise InputError([Problem("no iteration", path="iterations", value=str(iterations), allowed="at least 1")])
    chunks, pairs = pair_chunks(graph, mirrored=not policy.directed)
    hop_ms, round_ms = cluster.hop_latency_us / US_PER_MS, cluster.ring_round_latency_us / US_PER_MS
    period_delays, least_period_ms = (PERIOD_DELAYS, LEAST_PERIOD_MS) if period_ms is None else (0.0, period_ms)
    times, changes, dark, carried, served, start_ms, end_ms, left = circuits.follow_demand(
        make_work(graph, chunks, hop_latency_ms=hop_ms, round_latency_ms=round_ms),
        pairs,
        degree=cluster.degree,
        link_rate=cluster.link_bytes_per_ms,
        hop_latency_us=cluster.hop_latency_us,
        directed=policy.directed,
        forwarding=policy.forwarding,
        draining=policy.draining,
        delay_ms=delay_ms,
        period_delays=period_delays,
        least_period_ms=least_period_ms,
        iterations=iterations,
        seed=seed,
    )
    require_all_done(left, graph.tasks)
    sent = np.zeros(cluster.servers**2)
    sent[pairs] = served
    return CircuitRun(
        iteration_time_ms=sum(times.tolist()) / iterations,
        times_ms=tuple(times.tolist()),
        reconfigurations=changes,
        dark_ms=dark,
        sent_bytes=sent.reshape(cluster.servers, cluster.servers),
        carried_bytes=carried,
        start_ms=start_ms,
        end_ms=end_ms,
    )


Routes = tuple[Floats, Ints, Ints, Int32s]
"""Rate of each link; first and last place of each queue's route in the links of all routes; these."""


class Phase(IntEnum):
    """Parts of an iteration's traffic, in order."""

    FORWARD = 0
    BACKWARD = 1
    ALLREDUCE = 2


Stage = tuple[tuple[Phase, ...], Network]
"""Phases that share a network in one go."""


def phases_of(graph: TaskGraph) -> Int32s:
    """int32[T], the phase of each task's traffic: transfers that a backward task releases are backward.

    Compute tasks count as forward; it means nothing for them.
    """
    phase = np.where(graph.kind == TaskKind.ALLREDUCE, Phase.ALLREDUCE, Phase.FORWARD).astype(np.int32)
    tail = np.repeat(np.arange(graph.tasks), np.diff(graph.successor_ptr))
    released = graph.successor[graph.kind[tail] == TaskKind.BACKWARD]
    phase[released[graph.kind[released] == TaskKind.TRANSFER]] = Phase.BACKWARD
    return phase


def simulate_stages(graph: TaskGraph, stages: Sequence[Stage], delay_ms: float) -> tuple[float, float, int, float]:
    """One iteration of a schedule; consecutive stages on different networks are `delay_ms` of darkness apart.

    Returns:
        Time of the iteration and dark time, ms, number of times switches were set, bytes times hops carried.

    Raises:
        ValueError: a phase in no stage or in two, or rings missing in a network.
        InputError: a path missing in a network, or tasks that wait for each other in a circle.
    """
    if sorted(phase for phases, _ in stages for phase in phases) != list(Phase):
        raise ValueError("every phase stands in one stage")
    phase = phases_of(graph)
    stage_of = np.empty(len(Phase), dtype=np.int32)
    for index, (phases, _) in enumerate(stages):
        stage_of[list(phases)] = index
    task_stage = stage_of[phase]
    networks = list({id(network): network for _, network in stages}.values())
    changes = [stages[index][1] is not stages[index - 1][1] for index in range(len(stages))]
    delays = np.where(np.array(changes) & (len(networks) > 1), delay_ms, 0.0)
    parts, routes = _union(graph, networks, [task_stage == index for index in range(len(stages))], stages)
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
    return time_ms, dark_ms, switched, carried


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
        for mask, (_, used) in zip(chosen, stages, strict=True):
            if used is network:
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
    chunks = chunks or [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0))]
    merged = tuple(np.concatenate([part[k] for part in chunks]) for k in range(3))
    routes = (
        np.concatenate(rate),
        np.concatenate(low).astype(np.int64),
        np.concatenate(high).astype(np.int64),
        np.concatenate(store).astype(np.int32),
    )
    return (merged[0], merged[1], merged[2]), routes


def _chunks(graph: TaskGraph, network: Network, wanted: Bools) -> list[Chunks]:
    """Transfers over the paths of their pair, AllReduces over the members' paths of their rings, by shares."""
    n = graph.servers
    moved = np.flatnonzero(wanted & (graph.kind == TaskKind.TRANSFER) & (graph.source != graph.target))
    require_paths(graph, network)
    chunks: list[Chunks] = []
    if len(moved):
        pair = graph.source[moved].astype(np.int64) * n + graph.target[moved]
        counts = network.pair_ptr[pair + 1] - network.pair_ptr[pair]
        task = np.repeat(moved, counts)
        path = ranges(network.pair_ptr[pair], counts)
        chunks.append((task, path, graph.bytes[task] * network.path_share[path]))
    index = {members: number for number, members in enumerate(network.groups)}
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
            chunks.append((np.full(len(places), t), paths + places, np.full(len(places), amount)))
    return chunks


DYNAMIC_FABRICS: Mapping[str, CircuitPolicy] = {
    "sip-ml": CircuitPolicy(
        "directed circuits to the largest remaining demand, no forwarding",
        directed=True,
        forwarding=False,
        draining=False,
    ),
    "ocs-reconfig": CircuitPolicy(
        "fibre pairs to the largest remaining demand, connected, servers forward",
        directed=False,
        forwarding=True,
        draining=True,
    ),
}
"""Demand-driven fabrics by name; a new one is one line here."""
