"""What tasks send: transfers in segments over paths, AllReduces in rounds on rings or in the steps of a schedule."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from topoopt.core.cluster import LinkSharing
from topoopt.verify.job.simulation.network import ScheduleOfGroup, SimulatedNetwork
from topoopt.verify.job.simulation.tasks import ALLREDUCE, TRANSFER, IterationTasks

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
