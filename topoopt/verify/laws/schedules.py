"""Laws of schedules of AllReduces: each is executed for its group, and what it puts on the links is counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import combinations

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.collective import METHODS_OF, CollectiveOp, CollectiveProblem, GroupSchedule
from topoopt.core.plan import Plan
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.search_settings import AllReduceChoice
from topoopt.verify.collective.execute import LAWS, route_arcs
from topoopt.verify.laws.findings import ViolationLog, as_int

MOST_LOADS = 100_000_000
"""Loads of links in the steps of a schedule that are looked at."""

METHODS = METHODS_OF[AllReduceChoice.BEST]


@dataclass(frozen=True, eq=False)
class ScheduleLoads:
    """What one sound schedule puts on the links.

    Attributes:
        members: of its group, ascending.
        from_bytes, below_bytes: payloads it is for; None: any more.
        arcs: int64[m, 2], tail and head of the links that count.
        units: int64[steps, hops, m], over each link at each hop of the messages of a step.
        total: units of the payload.
    """

    members: tuple[int, ...]
    from_bytes: int
    below_bytes: int | None
    arcs: Ints
    units: Ints
    total: int

    def covers(self, members: tuple[int, ...], payload: int) -> bool:
        """Whether an AllReduce runs on it."""
        below = self.below_bytes is None or payload < self.below_bytes
        return members == self.members and self.from_bytes <= payload and below


def check_schedules(
    findings: ViolationLog, schedules: tuple[GroupSchedule, ...], links: Ints
) -> tuple[ScheduleLoads, ...]:
    """Report what is wrong; the loads of the schedules that are sound.

    Args:
        findings: where to report.
        schedules: of a plan.
        links: int64[n, n], parallel links i -> j.
    """
    found: list[ScheduleLoads] = []
    for position, one in enumerate(schedules):
        check = partial(_check_one, findings, f"schedule {position}", one, links, found)
        findings.guard("schedule-shape", f"schedule {position}", check)
    for first, second in combinations(found, 2):
        if first.members == second.members and _overlap(first, second):
            findings.add("schedule-sizes", f"two schedules of group {list(first.members)} for the same payloads")
    return tuple(found)


def _overlap(one: ScheduleLoads, other: ScheduleLoads) -> bool:
    low, high = (one, other) if one.from_bytes <= other.from_bytes else (other, one)
    return low.below_bytes is None or high.from_bytes < low.below_bytes


def _check_one(findings: ViolationLog, where: str, one: GroupSchedule, links: Ints, found: list[ScheduleLoads]) -> None:
    arcs = executed(findings, where, one, links)
    if arcs is None:
        return
    ends, pieces = joined(links), one.pieces
    count = len(ends)
    size = (one.schedule.steps + pieces - 1) * max(map(len, arcs), default=0) * count
    if size > MOST_LOADS:
        findings.add("schedule-size", f"{where} has {size} loads of links in its steps, at most {MOST_LOADS}")
        return
    units = piece_units(one, arcs, count, pieces)
    total = one.schedule.blocks.total * pieces
    found.append(ScheduleLoads(one.members, one.from_bytes, one.below_bytes, ends, units, total))


def joined(links: Ints) -> Ints:
    """int64[m, 2], tail and head of the links that count, in ascending order."""
    ends = np.argwhere(links > 0).astype(np.int64)
    apart: Ints = ends[ends[:, 0] != ends[:, 1]]
    return apart


def executed(findings: ViolationLog, where: str, one: GroupSchedule, links: Ints) -> list[Ints] | None:
    """Report what is wrong with a schedule, which is executed block by block.

    Args:
        findings: where to report.
        where: name of the schedule.
        one: the schedule.
        links: int64[n, n], parallel links i -> j.

    Returns:
        of each of its routes the numbers of its links, as in `joined`; None: it is not sound.
    """
    n = len(links)
    members = tuple(number for number in map(as_int, one.members) if number is not None and 0 <= number < n)
    if len(members) < max(len(one.members), 2) or list(members) != sorted(set(members)):
        findings.add("schedule-group", f"{where} is for {one.members!r}, two or more ascending servers expected")
        return None
    start, below, pieces = as_int(one.from_bytes), as_int(one.below_bytes), as_int(one.pieces)
    if start is None or start < 0 or (one.below_bytes is not None and (below is None or below <= start)):
        findings.add("schedule-sizes", f"{where} is for {one.from_bytes!r} to {one.below_bytes!r} bytes")
        return None
    if pieces is None or pieces < 1:
        findings.add("schedule-pieces", f"{where} is in {one.pieces!r} pieces")
        return None
    if one.method not in METHODS:
        findings.add("schedule-method", f"{where} is said to be made by {one.method!r}")
    # Rates do not matter here: what a schedule takes is simulated.
    network = RatedNetwork.of_links(
        [server not in members for server in range(n)],
        [(tail, head, Fraction(int(links[tail, head]))) for tail, head in joined(links).tolist()],
    )
    problem = CollectiveProblem(where, network, CollectiveOp.ALLREDUCE, 1)
    for code, law in LAWS:
        messages = list(law(problem, one.schedule))
        for message in messages:
            findings.add(f"schedule-{code}", f"{where} of group {list(members)}: {message}")
        if messages:
            return None
    return route_arcs(network, one.schedule.routes)


def piece_units(one: GroupSchedule, arcs: Sequence[Ints], count: int, pieces: int) -> Ints:
    """int64[steps, hops, m]: every piece does what whole blocks would, a step behind the one before.

    Args:
        one: the schedule.
        arcs: numbers of the links along each of its routes.
        count: m.
        pieces: of every block; a unit is one of a piece.
    """
    sends = one.schedule.sends
    whole = one.schedule.steps
    longest = max(map(len, arcs), default=0)
    units = np.zeros((whole + pieces - 1, longest, count), dtype=np.int64)
    alone = np.zeros((whole, longest, count), dtype=np.int64)
    size = one.schedule.blocks.units[sends.block]
    for send, route in enumerate(np.asarray(sends.route).tolist()):
        alone[sends.step[send], np.arange(len(arcs[route])), arcs[route]] += size[send]
    for late in range(pieces):
        units[late : late + whole] += alone
    return units


def check_choice(findings: ViolationLog, choice: AllReduceChoice, plan: Plan) -> None:
    """AllReduces run on what the instance asks for: all on rings, none, or whichever is best."""
    allowed = METHODS_OF[choice]
    for position, one in enumerate(plan.schedules):
        if one.method not in allowed:
            findings.add("allreduce", f"schedule {position} is by {one.method!r}, the instance asks for {choice.value}")
    if choice not in (AllReduceChoice.RINGS, AllReduceChoice.BEST) and plan.rings:
        findings.add("allreduce", f"AllReduces on rings, the instance asks for {choice.value}")
