"""What the checker simulates: tasks of an iteration, flows over a network, queues at links, and how much of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil

import numpy as np

from topoopt.core.cluster import Cluster, LinkSharing
from topoopt.core.plan import Plan
from topoopt.core.result import Decides
from topoopt.core.routing import GroupRings, PathTable
from topoopt.core.workload import Workload
from topoopt.verify.job.parts import Parts
from topoopt.verify.job.traffic import BYTES_PER_MS_OF_ONE_GBPS, PlanTransfers, Traffic
from topoopt.verify.laws.findings import CheckDepth, ViolationLog
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
        """A task more; its number."""
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
    """How many tasks `tasks_of` makes."""
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
        self.under_way = [0] * len(rate)
        self.gone_ahead = [0.0] * len(rate)
        self.before_batch = [0.0] * len(rate)

    def begin(self, links: Iterable[int]) -> None:
        """An AllReduce with chunks sets out over links; one link stands there as often as it is asked in a round."""
        for link in links:
            if not self.under_way[link]:
                self.batch[link] = 0.0, self.free_at[link]
            self.under_way[link] += 1

    def end(self, links: Iterable[int]) -> None:
        """It is done."""
        for link in links:
            self.under_way[link] -= 1

    def serve(self, link: int, size: float, now: float) -> tuple[float, float]:
        """From when to when a link serves something after all that came before."""
        began = max(now, self.free_at[link])
        ended = self.free_at[link] = began + size / self.rate[link]
        return began, ended

    def serve_segment(self, link: int, size: float, now: float) -> tuple[float, float]:
        """From when to when a link serves a segment of a transfer."""
        latest, ended = self.serve(link, size, now)
        if not self.under_way[link]:
            return latest, ended
        first, last = self.batch[link]
        began = min(latest, max(now, last))
        if now >= first:
            if began < latest:
                turn = max(size, self.turn_bytes) / self.rate[link] if self.turn_bytes else 0.0
                began = min(latest, began + self.under_way[link] * turn)
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


@dataclass(frozen=True)
class PathOfPair:
    """A path of an ordered pair: the part of its bytes that goes there, and the links it crosses."""

    share: float
    links: tuple[int, ...]


@dataclass(frozen=True)
class RingOfGroup:
    """A ring: the part of the payload that goes round it, and the links from each member to the next."""

    share: float
    ways: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class ScheduleOfGroup:
    """A schedule: payloads it is for, and by step and hop the links that carry something and their parts of it."""

    from_bytes: int
    below_bytes: int | None
    steps: tuple[tuple[tuple[tuple[int, float], ...], ...], ...]

    def covers(self, payload: int) -> bool:
        """Whether an AllReduce of so many bytes runs on it."""
        return self.from_bytes <= payload and (self.below_bytes is None or payload < self.below_bytes)


@dataclass(frozen=True)
class SimulatedNetwork:
    """What the tasks of an iteration send over.

    Attributes:
        rate: bytes per ms of each directed link.
        hop_ms: latency of one hop.
        round_ms: fixed cost of a ring round.
        paths: of ordered pairs of servers.
        rings: of AllReduce groups, by their members in ascending order.
        schedules: of those that do not run on rings, likewise.
        sharing: how links are shared.
    """

    rate: Sequence[float]
    hop_ms: float
    round_ms: float
    paths: Mapping[tuple[int, int], tuple[PathOfPair, ...]]
    rings: Mapping[tuple[int, ...], tuple[RingOfGroup, ...]]
    schedules: Mapping[tuple[int, ...], tuple[ScheduleOfGroup, ...]] = field(default_factory=dict)
    sharing: LinkSharing = LinkSharing.FAIR


def paths_of(routes: PathTable, link: Mapping[tuple[int, int], int]) -> dict[tuple[int, int], tuple[PathOfPair, ...]]:
    """Paths of all pairs of a table; `link` has the number of each link by its ends."""
    node, share = np.asarray(routes.node).tolist(), np.asarray(routes.share).tolist()
    starts, pair_ptr = np.asarray(routes.path_ptr).tolist(), np.asarray(routes.pair_ptr).tolist()
    ends = zip(np.asarray(routes.source).tolist(), np.asarray(routes.target).tolist(), strict=True)
    return {
        pair: tuple(
            PathOfPair(share[p], links_along(node[starts[p] : starts[p + 1]], link))
            for p in range(pair_ptr[k], pair_ptr[k + 1])
        )
        for k, pair in enumerate(ends)
    }


def rings_of(
    groups: Iterable[GroupRings], link: Mapping[tuple[int, int], int]
) -> dict[tuple[int, ...], tuple[RingOfGroup, ...]]:
    """Rings of all groups."""
    return {
        tuple(sorted(group.members)): tuple(
            RingOfGroup(ring.share, tuple(links_along(path, link) for path in ring.paths)) for ring in group.rings
        )
        for group in groups
    }


def links_along(nodes: Sequence[int], link: Mapping[tuple[int, int], int]) -> tuple[int, ...]:
    """Numbers of the links of a path."""
    return tuple(link[hop] for hop in pairwise(nodes))


def schedules_of(
    loads: Iterable[ScheduleLoads], link: Mapping[tuple[int, int], int]
) -> dict[tuple[int, ...], tuple[ScheduleOfGroup, ...]]:
    """Schedules of all groups; hops at which a step carries nothing are left out."""
    found: dict[tuple[int, ...], tuple[ScheduleOfGroup, ...]] = {}
    for one in loads:
        numbers = [link[tail, head] for tail, head in one.arcs.tolist()]
        steps = tuple(
            tuple(
                tuple((numbers[place], units[place] / one.total) for place in np.flatnonzero(units).tolist())
                for units in step
                if units.any()
            )
            for step in one.units
        )
        known = found.get(one.members, ())
        found[one.members] = (*known, ScheduleOfGroup(one.from_bytes, one.below_bytes, steps))
    return found


def plan_network(cluster: Cluster, plan: Plan, schedules: Iterable[ScheduleLoads] = ()) -> SimulatedNetwork:
    """The direct-connect network of a lawful plan: an arc of k parallel links is as fast as k interfaces."""
    arcs = [(tail, head) for tail, head in np.asarray(plan.topology.arcs).tolist()]
    link = {ends: place for place, ends in enumerate(arcs)}
    unit = cluster.link_gbps * BYTES_PER_MS_OF_ONE_GBPS
    return SimulatedNetwork(
        rate=[float(count) * unit for count in np.asarray(plan.topology.multiplicity).tolist()],
        hop_ms=cluster.hop_latency_us / US_PER_MS,
        round_ms=cluster.ring_round_latency_us / US_PER_MS,
        paths=paths_of(plan.routes, link),
        rings=rings_of(plan.rings, link),
        schedules=schedules_of(schedules, link),
        sharing=cluster.link_sharing,
    )


SEGMENT_BYTES = 256.0 * 1024
MOST_SEGMENTS = 65_535
SMALL_BYTES_OF_A_MEMBER = 9000

Loads = tuple[tuple[tuple[int, float], ...], ...]
"""By hop the links that are asked, and the bytes on each."""


@dataclass(frozen=True)
class Flow:
    """What a task sends over one path or ring.

    Attributes:
        task: whose it is.
        loads: of a segment or a round; of a ring, for all members that have so many hops, in the order of the ring.
        last: of the last one.
        steps: segments or rounds.
        gap_ms: fixed cost after each round; `tail_ms`: after the last one.
    """

    task: int
    loads: Loads
    last: Loads
    steps: int
    gap_ms: float = 0.0
    tail_ms: float = 0.0
    cut: bool = False

    @property
    def links(self) -> list[int]:
        """Those that are asked in a segment or round, as often as they are."""
        return [link for hop in self.loads for link, _ in hop]

    def at(self, step: int) -> Loads:
        """Loads of one segment or round."""
        return self.last if step == self.steps - 1 else self.loads


@dataclass(frozen=True)
class ScheduledFlow:
    """What an AllReduce sends on a schedule: whose it is, loads by step, fixed cost after each; others as in `Flow`."""

    task: int
    by_step: tuple[Loads, ...]
    gap_ms: float
    tail_ms: float = 0.0
    cut: bool = False

    @property
    def links(self) -> list[int]:
        """Those that are asked in all steps, as often as they are."""
        return [link for step in self.by_step for hop in step for link, _ in hop]

    def at(self, step: int) -> Loads:
        """Loads of one step."""
        return self.by_step[step]

    @property
    def steps(self) -> int:
        """Number of steps."""
        return len(self.by_step)


AnyFlow = Flow | ScheduledFlow


def flows_of(tasks: IterationTasks, network: SimulatedNetwork) -> list[list[AnyFlow]]:
    """The flows of each task.

    Raises:
        KeyError: a transfer without a path, a group without rings.
    """
    found: list[list[AnyFlow]] = []
    for task, kind in enumerate(tasks.kind):
        if kind == TRANSFER:
            pair = (tasks.lane[task], tasks.target[task])
            found.append([_on_path(task, tasks.bytes[task], path.share, path.links) for path in network.paths[pair]])
        elif kind == ALLREDUCE and tasks.members[task]:
            found.append(_reduced(task, tasks.members[task], tasks.bytes[task], network))
        else:
            found.append([])
    return found


def _on_path(task: int, payload: int, share: float, links: tuple[int, ...]) -> Flow:
    amount = payload * share
    steps = _segments(amount)
    size = SEGMENT_BYTES if amount <= SEGMENT_BYTES * steps else amount / steps
    last = amount - size * (steps - 1)
    return Flow(task, tuple(((link, size),) for link in links), tuple(((link, last),) for link in links), steps)


def _segments(amount: float) -> int:
    return max(1, min(MOST_SEGMENTS, ceil(amount / SEGMENT_BYTES)))


def _reduced(task: int, members: tuple[int, ...], payload: int, network: SimulatedNetwork) -> list[AnyFlow]:
    for one in network.schedules.get(members, ()):
        if one.covers(payload):
            return [_on_schedule(task, payload, one, network)]
    return _on_rings(task, members, payload, network)


def _on_schedule(task: int, payload: int, own: ScheduleOfGroup, network: SimulatedNetwork) -> ScheduledFlow:
    steps = tuple(tuple(tuple((link, payload * share) for link, share in hop) for hop in step) for step in own.steps)
    most = max((size for step in steps for hop in step for _, size in hop), default=0.0)
    return ScheduledFlow(
        task, steps, network.round_ms, cut=network.sharing is not LinkSharing.FIFO and most > SEGMENT_BYTES
    )


def _on_rings(task: int, members: tuple[int, ...], payload: int, network: SimulatedNetwork) -> list[AnyFlow]:
    k = len(members)
    steps = _rounds(k, payload)
    small = payload < SMALL_BYTES_OF_A_MEMBER * k
    flows: list[AnyFlow] = []
    for ring in network.rings[members]:
        hops = max(map(len, ring.ways))
        size = 2.0 * (k - 1) / k * payload * ring.share / steps
        together = tuple(tuple((way[hop], size) for way in ring.ways if hop < len(way)) for hop in range(hops))
        gap = 0.0 if small else network.round_ms
        tail = 2.0 * (k - 1) * network.round_ms if small else 0.0
        cut = network.sharing is not LinkSharing.FIFO and not small and size > SEGMENT_BYTES
        flows.append(Flow(task, together, together, steps, gap, tail, cut))
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
            total += sum(_segments(payload * path.share) * len(path.links) for path in paths)
        elif kind == ALLREDUCE and members:
            own = next((one for one in network.schedules.get(members, ()) if one.covers(payload)), None)
            if own is None:
                hops = sum(len(way) for ring in network.rings[members] for way in ring.ways)
                total += _rounds(len(members), payload) * hops
            else:
                total += sum(len(hop) for step in own.steps for hop in step)
    return total
