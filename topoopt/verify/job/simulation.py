"""The checker simulates an iteration of a plan: its tasks, its flows over a network, and queues at links."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import pairwise
from math import ceil

import numpy as np

from topoopt.core.cluster import Cluster, ComputeOrder, LinkSharing
from topoopt.core.job import CoOptimisation, Plan
from topoopt.core.result import Decides
from topoopt.core.workload import GroupRings, PathTable, Workload
from topoopt.verify.checker import CheckDepth, ViolationLog
from topoopt.verify.job.plan import BYTES_PER_MS_OF_ONE_GBPS, Inspection, Parts, PlanTransfers, Traffic
from topoopt.verify.laws.schedules import ScheduleLoads

BYTES_OF_A_HOP = 600
"""Memory that a task, or a hop of a transfer, takes while it is simulated: tuples, numbers, a place in a queue."""


@dataclass
class EventBudget:
    """Events that are left to the simulations of a check."""

    depth: CheckDepth
    left: int

    @classmethod
    def of(cls, depth: CheckDepth) -> EventBudget:
        """All that a check of this depth simulates."""
        return cls(depth, depth.events)

    def takes(self, findings: ViolationLog, figures: str, events: int, decides: Decides = Decides.NOTHING) -> bool:
        """Whether so many events may be simulated; if not, that these figures are left out is noted."""
        if events <= self.left:
            self.left -= events
            return True
        if self.depth.events == 0:
            findings.leave_out(figures, "not simulated: the check was a quick one", decides)
        else:
            findings.leave_out(figures, f"not simulated: {events} events are more than this check takes", decides)
        return False

    def holds(self, findings: ViolationLog, figures: str, hops: int, decides: Decides) -> bool:
        """Whether memory and events are enough for so many tasks and hops; if not, that is noted."""
        if hops > self.left:
            return self.takes(findings, figures, hops, decides)
        need = hops * BYTES_OF_A_HOP
        if need <= self.depth.memory_bytes:
            return True
        reason = f"not simulated: about {need / 1e9:.1f} GB are more than this check takes"
        findings.leave_out(figures, reason, decides)
        return False

    def tell(self, what: str, done: int, total: int) -> None:
        """Say how far a simulation is, if anybody listens."""
        if self.depth.tell is not None:
            self.depth.tell(what, done, total)


FORWARD, BACKWARD, TRANSFER, ALLREDUCE = range(4)
KINDS = ("forward", "backward", "transfer", "allreduce")
"""Names of the kinds of tasks."""


@dataclass(frozen=True)
class IterationTasks:
    """T tasks, an entry each.

    Attributes:
        kind: FORWARD, BACKWARD, TRANSFER or ALLREDUCE.
        lane: server of a compute task, sender of a transfer, -1 of an AllReduce.
        target: receiver of a transfer, -1 of others.
        members: servers of an AllReduce of two or more, in ascending order; empty for others.
        duration_ms: of a compute task; time inside the servers before an AllReduce is on the network.
        bytes: of a transfer; payload of an AllReduce.
        operator: to which a task belongs, of a transfer the consumer.
        followers: tasks that wait for it.
    """

    kind: list[int] = field(default_factory=list)
    lane: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    members: list[tuple[int, ...]] = field(default_factory=list)
    duration_ms: list[float] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    operator: list[int] = field(default_factory=list)
    followers: list[list[int]] = field(default_factory=list)

    def add(
        self,
        kind: int,
        operator: int,
        *,
        lane: int = -1,
        target: int = -1,
        members: tuple[int, ...] = (),
        duration_ms: float = 0.0,
        size: int = 0,
    ) -> int:
        """Append a task, and return its number."""
        self.kind.append(kind)
        self.lane.append(lane)
        self.target.append(target)
        self.members.append(members)
        self.duration_ms.append(duration_ms)
        self.bytes.append(size)
        self.operator.append(operator)
        self.followers.append([])
        return len(self.kind) - 1

    def __len__(self) -> int:
        return len(self.kind)


def task_count(parts: tuple[Parts, ...], traffic: Traffic) -> int:
    """Number of tasks of an iteration, counted before any is made."""
    computing = sum(len(own.server) for own in parts)
    sending = sum(int(np.count_nonzero(edge.bytes)) for edge in traffic.edges)
    return 2 * (computing + sending) + len(traffic.reductions)


def tasks_of(workload: Workload, parts: tuple[Parts, ...], traffic: Traffic) -> IterationTasks:
    """The tasks of an iteration, those that follow a task in the order of what they belong to."""
    tasks = IterationTasks()
    forward: list[list[int]] = []
    backward: list[list[int]] = []
    for o, own in enumerate(parts):
        servers, split = own.server.tolist(), own.split
        forward.append([tasks.add(FORWARD, o, lane=s, duration_ms=split.forward_ms) for s in servers])
        backward.append([tasks.add(BACKWARD, o, lane=s, duration_ms=split.backward_ms) for s in servers])
        for first, then in zip(forward[o], backward[o], strict=True):
            tasks.followers[first].append(then)
    for edge in traffic.edges:
        _add_transfers(tasks, edge, forward, backward)
    for reduction in traffic.reductions:
        alone = len(reduction.members) == 1
        task = tasks.add(
            ALLREDUCE,
            reduction.operator,
            members=() if alone else tuple(sorted(reduction.members)),
            duration_ms=reduction.local_ms,
            size=reduction.payload_bytes,
        )
        for part in reduction.parts:
            tasks.followers[backward[reduction.operator][part]].append(task)
    return tasks


def _add_transfers(
    tasks: IterationTasks, edge: PlanTransfers, forward: list[list[int]], backward: list[list[int]]
) -> None:
    """What flows over one input of an operator, by part of the consumer, then by part of the producer."""
    u, v = edge.producer, edge.consumer
    order = np.lexsort((edge.source_part, edge.target_part))
    columns = (edge.source_part, edge.target_part, edge.bytes, edge.source, edge.target)
    for p, q, size, source, target in zip(*(column[order].tolist() for column in columns), strict=True):
        if not size:
            tasks.followers[forward[u][p]].append(forward[v][q])
            tasks.followers[backward[v][q]].append(backward[u][p])
            continue
        there = tasks.add(TRANSFER, v, lane=source, target=target, size=size)
        back = tasks.add(TRANSFER, v, lane=target, target=source, size=size)
        tasks.followers[forward[u][p]].append(there)
        tasks.followers[there].append(forward[v][q])
        tasks.followers[backward[v][q]].append(back)
        tasks.followers[back].append(backward[u][p])


TURN_BYTES = 256.0 * 1024
"""Of one turn; the most that a segment has, but for transfers of more than 65 535 of them."""

Chunk = tuple[int, float, float]
"""A chunk that waits: its link, when it is served unless segments go ahead of it, and the ms of those that had."""


class SimulatedLinks:
    """Links and what they have to serve; times in ms, sizes in bytes."""

    def __init__(self, rate: Sequence[float], turn_bytes: float = TURN_BYTES) -> None:
        self.rate, self.turn_bytes = rate, turn_bytes
        self.free_at = [0.0] * len(rate)
        self.batch = [(0.0, 0.0)] * len(rate)
        self.in_flight = [0] * len(rate)
        self.gone_ahead = [0.0] * len(rate)
        self.before_batch = [0.0] * len(rate)

    def begin(self, links: Iterable[int]) -> None:
        """An AllReduce with chunks sets out over links; one link stands there as often as it is asked in a round."""
        for link in links:
            if not self.in_flight[link]:
                self.batch[link] = 0.0, self.free_at[link]
            self.in_flight[link] += 1

    def end(self, links: Iterable[int]) -> None:
        """An AllReduce that set out with chunks has sent the last one."""
        for link in links:
            self.in_flight[link] -= 1

    def serve(self, link: int, size: float, now: float) -> tuple[float, float]:
        """From when to when a link serves something after all that came before."""
        began = max(now, self.free_at[link])
        ended = self.free_at[link] = began + size / self.rate[link]
        return began, ended

    def serve_segment(self, link: int, size: float, now: float) -> tuple[float, float]:
        """From when to when a link serves a segment of a transfer."""
        latest, ended = self.serve(link, size, now)
        if not self.in_flight[link]:
            return latest, ended
        first, last = self.batch[link]
        began = min(latest, max(now, last))
        if now >= first:
            if began < latest:
                turn = max(size, self.turn_bytes) / self.rate[link] if self.turn_bytes else 0.0
                began = min(latest, began + self.in_flight[link] * turn)
            first = began
            self.before_batch[link] = self.gone_ahead[link]
        if began < latest:
            self.gone_ahead[link] += size / self.rate[link]
        self.batch[link] = first, began + size / self.rate[link]
        return began, self.batch[link][1]

    def put_off(self, chunk: Chunk) -> float:
        """When a chunk is served, as far as is known."""
        link, ended, ahead = chunk
        before = max(self.before_batch[link], ahead)
        ended += before - ahead
        return ended + (self.gone_ahead[link] - before) if ended > self.batch[link][0] else ended


US_PER_MS = 1000.0


Path = tuple[float, tuple[int, ...]]
"""Of an ordered pair: the part of its bytes that goes there, and the links it crosses."""

GroupRing = tuple[float, tuple[tuple[int, ...], ...]]
"""The part of the payload of a group that goes round a ring, and the links from each member to the next."""

Loads = tuple[tuple[tuple[int, float], ...], ...]
"""By hop the links that are asked, and what is sent over each."""

GroupSchedule = tuple[ScheduleLoads, tuple[Loads, ...]]
"""A schedule, and by step and hop the links that carry something with their parts of the payload."""


@dataclass(frozen=True)
class SimulatedNetwork:
    """What the tasks of an iteration send over.

    Attributes:
        rate: bytes per ms of each directed link.
        hop_ms: latency of one hop.
        round_ms: fixed cost of a ring round.
        paths: of ordered pairs of servers.
        rings: of AllReduce groups, by their members in ascending order.
        schedules: of AllReduces that do not run on rings.
        sharing: how links are shared.
        order: in which order servers compute.
    """

    rate: Sequence[float]
    hop_ms: float
    round_ms: float
    paths: Mapping[tuple[int, int], tuple[Path, ...]]
    rings: Mapping[tuple[int, ...], tuple[GroupRing, ...]]
    schedules: tuple[GroupSchedule, ...] = ()
    sharing: LinkSharing = LinkSharing.FAIR
    order: ComputeOrder = ComputeOrder.ARRIVAL

    def schedule_of(self, members: tuple[int, ...], payload: int) -> tuple[Loads, ...] | None:
        """Steps of the schedule that an AllReduce runs on; None: it runs on rings."""
        return next((steps for loads, steps in self.schedules if loads.covers(members, payload)), None)


def paths_of(routes: PathTable, link: Mapping[tuple[int, int], int]) -> dict[tuple[int, int], tuple[Path, ...]]:
    """Paths of all pairs of a table; `link` has the number of each link by its ends."""
    node, share = np.asarray(routes.node).tolist(), np.asarray(routes.share).tolist()
    starts, pair_ptr = np.asarray(routes.path_ptr).tolist(), np.asarray(routes.pair_ptr).tolist()
    ends = zip(np.asarray(routes.source).tolist(), np.asarray(routes.target).tolist(), strict=True)
    return {
        pair: tuple(
            (share[p], links_along(node[starts[p] : starts[p + 1]], link)) for p in range(pair_ptr[k], pair_ptr[k + 1])
        )
        for k, pair in enumerate(ends)
    }


def rings_of(
    groups: Iterable[GroupRings], link: Mapping[tuple[int, int], int]
) -> dict[tuple[int, ...], tuple[GroupRing, ...]]:
    """Rings of all groups by their sorted members; `link` has the number of each link."""
    return {
        tuple(sorted(group.members)): tuple(
            (ring.share, tuple(links_along(path, link) for path in ring.paths)) for ring in group.rings
        )
        for group in groups
    }


def links_along(nodes: Sequence[int], link: Mapping[tuple[int, int], int]) -> tuple[int, ...]:
    """Numbers of the links of a path."""
    return tuple(link[hop] for hop in pairwise(nodes))


def schedules_of(loads: Iterable[ScheduleLoads], link: Mapping[tuple[int, int], int]) -> tuple[GroupSchedule, ...]:
    """Schedules of all groups; hops at which a step carries nothing are left out."""
    schedules = []
    for load in loads:
        numbers = [link[tail, head] for tail, head in load.arcs.tolist()]
        steps = tuple(
            tuple(
                tuple((numbers[index], units[index] / load.total) for index in np.flatnonzero(units).tolist())
                for units in step
                if units.any()
            )
            for step in load.units
        )
        schedules.append((load, steps))
    return tuple(schedules)


def plan_network(cluster: Cluster, plan: Plan, schedules: Iterable[ScheduleLoads] = ()) -> SimulatedNetwork:
    """The direct-connect network of a lawful plan: an arc of k parallel links is as fast as k interfaces."""
    arcs = [(tail, head) for tail, head in np.asarray(plan.topology.arcs).tolist()]
    link = {ends: index for index, ends in enumerate(arcs)}
    unit = cluster.link_gbps * BYTES_PER_MS_OF_ONE_GBPS
    return SimulatedNetwork(
        rate=[float(count) * unit for count in np.asarray(plan.topology.multiplicity).tolist()],
        hop_ms=cluster.hop_latency_us / US_PER_MS,
        round_ms=cluster.ring_round_latency_us / US_PER_MS,
        paths=paths_of(plan.routes, link),
        rings=rings_of(plan.rings, link),
        schedules=schedules_of(schedules, link),
        sharing=cluster.link_sharing,
        order=cluster.compute_order,
    )


SEGMENT_BYTES = 256.0 * 1024
MOST_SEGMENTS = 65_535
SMALL_BYTES_OF_A_MEMBER = 9000


@dataclass(frozen=True)
class Flow:
    """What a task sends over one path or ring, or on a schedule.

    Attributes:
        task: whose it is.
        loads: bytes of each segment, round or step; one of a path or ring stands for all but the last.
        last: of the last one.
        steps: segments, rounds or steps.
        gap_ms: fixed cost after each round; `tail_ms`: after the last one.
        cut: links whose chunks are cut, as often as they are asked in a round, or in all steps; empty: none is.
    """

    task: int
    loads: tuple[Loads, ...]
    last: Loads
    steps: int
    gap_ms: float = 0.0
    tail_ms: float = 0.0
    cut: tuple[int, ...] = ()

    def at(self, step: int) -> Loads:
        """Loads of one segment, round or step."""
        return self.last if step == self.steps - 1 else self.loads[step if len(self.loads) > 1 else 0]


def flows_of(tasks: IterationTasks, network: SimulatedNetwork) -> list[list[Flow]]:
    """The flows of each task.

    Raises:
        KeyError: a transfer without a path, a group without rings.
    """
    flows: list[list[Flow]] = []
    for task, kind in enumerate(tasks.kind):
        if kind == TRANSFER:
            pair = (tasks.lane[task], tasks.target[task])
            flows.append([_on_path(task, tasks.bytes[task], *path) for path in network.paths[pair]])
        elif kind == ALLREDUCE and tasks.members[task]:
            flows.append(_reduced(task, tasks.members[task], tasks.bytes[task], network))
        else:
            flows.append([])
    return flows


def _on_path(task: int, payload: int, share: float, links: tuple[int, ...]) -> Flow:
    amount = payload * share
    steps = _segments(amount)
    size = SEGMENT_BYTES if amount <= SEGMENT_BYTES * steps else amount / steps
    last = amount - size * (steps - 1)
    whole, final = (tuple(((link, own),) for link in links) for own in (size, last))
    return Flow(task, (whole,), final, steps)


def _segments(amount: float) -> int:
    return max(1, min(MOST_SEGMENTS, ceil(amount / SEGMENT_BYTES)))


def _reduced(task: int, members: tuple[int, ...], payload: int, network: SimulatedNetwork) -> list[Flow]:
    steps = network.schedule_of(members, payload)
    return (
        _on_rings(task, members, payload, network) if steps is None else [_on_schedule(task, payload, steps, network)]
    )


def _on_schedule(task: int, payload: int, shares: tuple[Loads, ...], network: SimulatedNetwork) -> Flow:
    steps = tuple(tuple(tuple((link, payload * share) for link, share in hop) for hop in step) for step in shares)
    loads = [load for step in steps for hop in step for load in hop]
    is_cut = network.sharing is not LinkSharing.FIFO and max((size for _, size in loads), default=0.0) > SEGMENT_BYTES
    cut = tuple(link for link, _ in loads) if is_cut else ()
    return Flow(task, steps, steps[-1], len(steps), network.round_ms, cut=cut)


def _on_rings(task: int, members: tuple[int, ...], payload: int, network: SimulatedNetwork) -> list[Flow]:
    k = len(members)
    steps = _rounds(k, payload)
    small = payload < SMALL_BYTES_OF_A_MEMBER * k
    flows: list[Flow] = []
    for share, paths in network.rings[members]:
        hops = max(map(len, paths))
        size = 2.0 * (k - 1) / k * payload * share / steps
        together = tuple(tuple((path[hop], size) for path in paths if hop < len(path)) for hop in range(hops))
        gap = 0.0 if small else network.round_ms
        tail = 2.0 * (k - 1) * network.round_ms if small else 0.0
        is_cut = network.sharing is not LinkSharing.FIFO and not small and size > SEGMENT_BYTES
        cut = tuple(link for hop in together for link, _ in hop) if is_cut else ()
        flows.append(Flow(task, (together,), together, steps, gap, tail, cut))
    return flows


def _rounds(k: int, payload: int) -> int:
    return 1 if payload < SMALL_BYTES_OF_A_MEMBER * k else 2 * (k - 1)


def events_of(tasks: IterationTasks, network: SimulatedNetwork) -> int:
    """How often a link is asked, and how many tasks there are: what a simulation takes grows with it. No flow is made:
    those of thousands of servers take gigabytes.

    Raises:
        KeyError: a transfer without a path, a group without rings.
    """
    total = len(tasks)
    for task, kind in enumerate(tasks.kind):
        payload, members = tasks.bytes[task], tasks.members[task]
        if kind == TRANSFER:
            paths = network.paths[tasks.lane[task], tasks.target[task]]
            total += sum(_segments(payload * share) * len(links) for share, links in paths)
        elif kind == ALLREDUCE and members:
            steps = network.schedule_of(members, payload)
            if steps is None:
                hops = sum(len(links) for _, paths in network.rings[members] for links in paths)
                total += _rounds(len(members), payload) * hops
            else:
                total += sum(len(hop) for step in steps for hop in step)
    return total


READY, SEGMENT, ROUND = range(3)
SERVED = 1 << 20
"""In place of a hop, after all of them: the chunks of a round should have crossed their links."""
REPORT_EVERY = 50_000
"""Events between two reports of progress."""


@dataclass(frozen=True)
class Times:
    """When the tasks of an iteration ran, ms.

    Attributes:
        start, end: of each task.
        cause: the task whose end let each start, -1: none. Of several that end at once, the one that ended last in the
            order of events; a task that waits for its server has the one that ran there before.
    """

    start: list[float]
    end: list[float]
    cause: list[int]

    @property
    def total_ms(self) -> float:
        """The iteration ends with its last task."""
        return max(self.end, default=0.0)


def _paths_to_the_end(tasks: IterationTasks) -> list[float]:
    """Of each task the longest path of durations from its start to the end of all, ms."""
    waits_for, length = [0] * len(tasks), [0.0] * len(tasks)
    for followers in tasks.followers:
        for then in followers:
            waits_for[then] += 1
    order = [task for task, count in enumerate(waits_for) if not count]
    for task in order:
        for then in tasks.followers[task]:
            waits_for[then] -= 1
            if not waits_for[then]:
                order.append(then)
    for task in reversed(order):
        length[task] = max((length[then] for then in tasks.followers[task]), default=0.0) + tasks.duration_ms[task]
    return length


class _Iteration:
    """An iteration under way: what has happened, and the events to come."""

    def __init__(self, tasks: IterationTasks, flows: list[list[Flow]], network: SimulatedNetwork) -> None:
        count = len(tasks)
        self.tasks, self.of_task, self.network = tasks, flows, network
        turn = 0.0 if network.sharing is LinkSharing.TRANSFERS_FIRST else TURN_BYTES
        self.links = SimulatedLinks(network.rate, turn)
        self.flows = [flow for of_task in flows for flow in of_task]
        self.first_flow = [0] * count
        for task in range(1, count):
            self.first_flow[task] = self.first_flow[task - 1] + len(flows[task - 1])
        self.left = [len(of_task) for of_task in flows]
        self.steps_left = [flow.steps for flow in self.flows]
        self.latest = [0.0] * len(self.flows)
        self.chunks: dict[int, list[Chunk]] = {}
        self.times = Times([0.0] * count, [0.0] * count, [-1] * count)
        self.ready_at = [0.0] * count
        self.waits_for = [0] * count
        for followers in tasks.followers:
            for then in followers:
                self.waits_for[then] += 1
        self.server_free: dict[int, float] = {}
        self.server_task: dict[int, int] = {}
        self.events = [(0.0, task, 0, 0, READY) for task in range(count) if not self.waits_for[task]]
        self.done = 0
        ranked = network.order is ComputeOrder.LONGEST_PATH_FIRST
        self.rank = _paths_to_the_end(tasks) if ranked else None
        self.waiting: dict[int, list[tuple[float, int]]] = {}
        heapify(self.events)

    def begin(self, task: int, now: float) -> None:
        """A task is ready: it computes, or its flows set out."""
        if task >= len(self.tasks):
            self.take(task - len(self.tasks), now)
            return
        kind, duration = self.tasks.kind[task], self.tasks.duration_ms[task]
        if kind < TRANSFER and self.rank is not None:
            server = self.tasks.lane[task]
            heappush(self.waiting.setdefault(server, []), (-self.rank[task], task))
            heappush(self.events, (max(now, self.server_free.get(server, 0.0)), len(self.tasks) + server, 0, 0, READY))
            return
        self.times.start[task] = now
        if kind < TRANSFER:
            server = self.tasks.lane[task]
            free = self.server_free.get(server, 0.0)
            if free > now:
                self.times.start[task], self.times.cause[task] = free, self.server_task[server]
            ended = self.server_free[server] = self.times.start[task] + duration
            self.server_task[server] = task
            self.finish(task, ended)
        elif not self.of_task[task]:
            self.finish(task, now + duration)
        else:
            what = SEGMENT if kind == TRANSFER else ROUND
            for index in range(len(self.of_task[task])):
                heappush(self.events, (now + duration, self.first_flow[task] + index, 0, 0, what))

    def take(self, server: int, now: float) -> None:
        """A server looks what is ready: after the tasks of this moment, whose numbers are less than that of its event,
        or when a task ends."""
        if self.server_free.get(server, 0.0) > now or not self.waiting[server]:
            return
        _, task = heappop(self.waiting[server])
        self.times.start[task] = now
        if now > self.ready_at[task]:
            self.times.cause[task] = self.server_task[server]
        ended = self.server_free[server] = now + self.tasks.duration_ms[task]
        self.server_task[server] = task
        if self.waiting[server]:
            heappush(self.events, (ended, len(self.tasks) + server, 0, 0, READY))
        self.finish(task, ended)

    def finish(self, task: int, at: float) -> None:
        self.times.end[task] = at
        self.done += 1
        for then in self.tasks.followers[task]:
            if at >= self.ready_at[then]:
                self.ready_at[then], self.times.cause[then] = at, task
            self.waits_for[then] -= 1
            if not self.waits_for[then]:
                heappush(self.events, (self.ready_at[then], then, 0, 0, READY))

    def flow_done(self, number: int, at: float) -> None:
        task = self.flows[number].task
        self.times.end[task] = max(self.times.end[task], at)
        self.left[task] -= 1
        if not self.left[task]:
            self.finish(task, self.times.end[task])

    def segment(self, number: int, step: int, hop: int, now: float) -> None:
        flow, hop_ms = self.flows[number], self.network.hop_ms
        loads = flow.at(step)
        link, size = loads[hop][0]
        began, ended = self.links.serve_segment(link, size, now)
        if hop == 0 and step + 1 < flow.steps:
            heappush(self.events, (ended, number, step + 1, 0, SEGMENT))
        if hop + 1 < len(loads):
            there = max(began, ended - size / self.links.rate[loads[hop + 1][0][0]]) + hop_ms
            heappush(self.events, (there, number, step, hop + 1, SEGMENT))
            return
        self.latest[number] = max(self.latest[number], ended + hop_ms)
        self.steps_left[number] -= 1
        if not self.steps_left[number]:
            self.flow_done(number, self.latest[number])

    def round(self, number: int, step: int, hop: int, now: float) -> None:
        """All members of a ring, or all messages of a step, ask for the links of this hop."""
        flow, links = self.flows[number], self.links
        loads = flow.at(step)
        if flow.cut and hop == 0:
            self.chunks[number] = []
            if step == 0:
                links.begin(flow.cut)
        last_start = last_end = now
        for link, size in loads[hop] if loads else ():
            began, ended = links.serve(link, size, now)
            if flow.cut:
                self.chunks[number].append((link, ended, links.gone_ahead[link]))
            last_start, last_end = max(last_start, began), max(last_end, ended)
        latest = self.latest[number] = max(self.latest[number], last_end)
        if hop + 1 < len(loads):
            heappush(self.events, (last_start + self.network.hop_ms, number, step, hop + 1, ROUND))
        elif flow.cut:
            heappush(self.events, (latest + flow.gap_ms, number, step, SERVED, ROUND))
        elif step + 1 < flow.steps:
            heappush(self.events, (latest + flow.gap_ms, number, step + 1, 0, ROUND))
        else:
            self.flow_done(number, latest + flow.gap_ms + flow.tail_ms)

    def round_served(self, number: int, step: int, now: float) -> None:
        """The chunks of a round should have crossed their links: go on, or wait if they were put off."""
        flow, latest = self.flows[number], self.latest[number]
        waiting = []
        for chunk in self.chunks[number]:
            served = self.links.put_off(chunk)
            latest = max(latest, served)
            if served > now:
                waiting.append(chunk)
        self.chunks[number], self.latest[number] = waiting, latest
        if latest + flow.gap_ms > now:
            heappush(self.events, (latest + flow.gap_ms, number, step, SERVED, ROUND))
        elif step + 1 < flow.steps:
            self.round(number, step + 1, 0, now)
        else:
            self.links.end(flow.cut)
            self.flow_done(number, now + flow.tail_ms)


def simulate_rounds(
    tasks: IterationTasks,
    flows: list[list[Flow]],
    network: SimulatedNetwork,
    tell: Callable[[int], None] = lambda _: None,
) -> Times:
    """When all tasks of an iteration run.

    Args:
        tasks: of the iteration.
        flows: of its tasks, by `flows.flows_of`.
        network: what they go over.
        tell: told how many tasks are done, now and then.

    Raises:
        ValueError: some tasks wait for each other in a circle.
    """
    run = _Iteration(tasks, flows, network)
    events, taken = run.events, 0
    while events:
        now, number, step, hop, what = heappop(events)
        if what == SEGMENT:
            run.segment(number, step, hop, now)
        elif what == ROUND and hop == SERVED:
            run.round_served(number, step, now)
        elif what == ROUND:
            run.round(number, step, hop, now)
        else:
            run.begin(number, now)
        taken += 1
        if not taken % REPORT_EVERY:
            tell(run.done)
    if run.done < len(tasks):
        raise ValueError(f"{len(tasks) - run.done} of {len(tasks)} tasks wait for each other in a circle")
    return run.times


FIGURES = "iteration time"


def iteration_times(
    findings: ViolationLog, problem: CoOptimisation, plan: Plan, seen: Inspection, budget: EventBudget
) -> Times | None:
    """Simulate a plan that keeps all laws.

    Returns:
        The times of all tasks, or None where that takes more than the budget, which the findings then say.
    """
    if seen.parts is None or seen.traffic is None:
        return None
    # Each task is an event, and so is each hop of a transfer; of thousands of servers these take gigabytes.
    crossed = 0 if seen.hops is None else seen.hops.crossings(seen.traffic.transfers)
    if not budget.holds(findings, FIGURES, task_count(seen.parts, seen.traffic) + crossed, Decides.VALUE):
        return None
    tasks = tasks_of(problem.workload, seen.parts, seen.traffic)
    network = plan_network(problem.cluster, plan, seen.schedules)
    return simulated(findings, FIGURES, tasks, network, budget, Decides.VALUE)


def simulated(
    findings: ViolationLog,
    figures: str,
    tasks: IterationTasks,
    network: SimulatedNetwork,
    budget: EventBudget,
    decides: Decides = Decides.NOTHING,
) -> Times | None:
    """Return when all tasks run on a network; None, and left out by the findings, if that is more than the budget.

    Raises:
        LookupError, ValueError: The network lacks a path or a ring, or tasks wait in a circle.
    """
    if not budget.takes(findings, figures, events_of(tasks, network), decides):
        return None
    flows = flows_of(tasks, network)
    return simulate_rounds(tasks, flows, network, lambda done: budget.tell(f"simulating {figures}", done, len(tasks)))
