"""The iteration of a plan, simulated by the checker in rounds of events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from topoopt.core.cluster import LinkSharing
from topoopt.core.job import CoOptimisation
from topoopt.core.plan import Plan
from topoopt.core.result import Decides
from topoopt.verify.job.events import (
    TRANSFER,
    TURN_BYTES,
    AnyFlow,
    Chunk,
    EventBudget,
    IterationTasks,
    SimulatedLinks,
    SimulatedNetwork,
    events_of,
    flows_of,
    plan_network,
    task_count,
    tasks_of,
)
from topoopt.verify.job.plan import Inspection
from topoopt.verify.laws.findings import ViolationLog

READY, SEGMENT, ROUND = range(3)
SERVED = 1 << 20
"""In place of a hop, after all of them: the chunks of a round should have crossed their links."""
TOLD_EVERY = 50_000
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
        """Time of the iteration."""
        return max(self.end, default=0.0)


class _Iteration:
    """An iteration under way: what has happened, and the events to come."""

    def __init__(self, tasks: IterationTasks, flows: list[list[AnyFlow]], network: SimulatedNetwork) -> None:
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
        heapify(self.events)

    def begin(self, task: int, now: float) -> None:
        """A task is ready: it computes, or its flows set out."""
        kind, duration = self.tasks.kind[task], self.tasks.duration_ms[task]
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
            for place in range(len(self.of_task[task])):
                heappush(self.events, (now + duration, self.first_flow[task] + place, 0, 0, what))

    def finish(self, task: int, at: float) -> None:
        """A task is done, now or at a later time: those that waited for it alone are ready then."""
        self.times.end[task] = at
        self.done += 1
        for then in self.tasks.followers[task]:
            if at >= self.ready_at[then]:
                self.ready_at[then], self.times.cause[then] = at, task
            self.waits_for[then] -= 1
            if not self.waits_for[then]:
                heappush(self.events, (self.ready_at[then], then, 0, 0, READY))

    def flow_done(self, number: int, at: float) -> None:
        """A flow has sent all; with the last one its task ends."""
        task = self.flows[number].task
        self.times.end[task] = max(self.times.end[task], at)
        self.left[task] -= 1
        if not self.left[task]:
            self.finish(task, self.times.end[task])

    def segment(self, number: int, step: int, hop: int, now: float) -> None:
        """A segment of a transfer asks for a link."""
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
                links.begin(flow.links)
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
            self.links.end(flow.links)
            self.flow_done(number, now + flow.tail_ms)


def simulate_rounds(
    tasks: IterationTasks,
    flows: list[list[AnyFlow]],
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
        if not taken % TOLD_EVERY:
            tell(run.done)
    if run.done < len(tasks):
        raise ValueError(f"{len(tasks) - run.done} of {len(tasks)} tasks wait for each other in a circle")
    return run.times


FIGURES = "iteration time"


def iteration_times(
    findings: ViolationLog, problem: CoOptimisation, plan: Plan, seen: Inspection, budget: EventBudget
) -> Times | None:
    """Simulate a plan that keeps all laws.

    Returns
    -------
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

    Raises
    ------
    LookupError, ValueError
        The network lacks a path or a ring, or tasks wait in a circle.
    """
    if not budget.takes(findings, figures, events_of(tasks, network), decides):
        return None
    flows = flows_of(tasks, network)
    return simulate_rounds(tasks, flows, network, lambda done: budget.tell(f"simulating {figures}", done, len(tasks)))
