"""Which schedules are best for which size of the vector, and into how many pieces their blocks are best divided.

What a schedule takes alone on a network, all steps one after the other, is a line over the bytes of the vector for
every number of pieces: latencies of its steps, and bytes of the fullest link of each. Schedules of a group of servers
go over the links between its members, or over all links.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.collective.plans import PlannedSchedule, by_breadth, by_shortest, by_trees
from solvers.collective.schedules import MAX_PIECES, best_pieces, pipelined_parts, pipelined_us, step_loads_us
from solvers.stop import Stop
from topoopt.core.collective import (
    BREADTH_FIRST,
    FEWEST_STEPS,
    TREES,
    BestBySize,
    CollectiveOp,
    CollectiveProblem,
    CollectiveSchedule,
    TimeLine,
)
from topoopt.core.errors import Problem
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.result import AllReduceChoice

MOST_SENDS = 400_000
"""Messages of a schedule that a division into pieces may come to."""

LARGEST_BYTES = 1 << 50
"""Vector up to which the best schedule is told."""


def most_pieces(problem: CollectiveProblem, planned: PlannedSchedule) -> int:
    """Pieces up to which a division is tried."""
    whole = planned.schedule
    if not planned.divisible or problem.objective == "latency":
        return 1
    most = max(min(MAX_PIECES, MOST_SENDS // max(len(whole.sends), 1)), 1)
    if problem.objective == "throughput":  # the same whatever the pieces
        most = min(most, 16)  # most pieces where latencies do not count
    return most if problem.steps is None else min(most, max(problem.steps - whole.steps + 1, 1))


def best_division(problem: CollectiveProblem, planned: PlannedSchedule) -> tuple[tuple[bool, float], int]:
    """Into how many pieces the blocks of a schedule are best divided.

    Returns:
        What is minimised (whether there are too many steps; time, us, or steps), and the number of pieces.
    """
    whole = planned.schedule
    too_long = problem.steps is not None and whole.steps > problem.steps
    if problem.objective == "latency":
        return (too_long, float(whole.steps)), 1
    loads, latency = step_loads_us(problem, whole)
    pieces = best_pieces(lambda count: pipelined_us(loads, latency, count), most_pieces(problem, planned))
    return (too_long, pipelined_us(loads, latency, pieces)), pieces


def lines(problem: CollectiveProblem, planned: PlannedSchedule, method: str, pieces: int) -> list[TimeLine]:
    """Time by bytes of a schedule, in powers of two of pieces and in so many as are best for the instance."""
    whole = planned.schedule
    if problem.steps is not None and whole.steps > problem.steps:
        return []
    loads, latency = step_loads_us(problem, whole)
    counts = {1 << power for power in range(int(math.log2(most_pieces(problem, planned))) + 1)} | {pieces}
    built = []
    for count in sorted(counts):
        bytes_us, latency_us = pipelined_parts(loads, latency, count)
        per_mbyte = bytes_us / problem.vector_bytes * 1e6
        built.append(TimeLine(method, count, whole.steps + count - 1, latency_us, per_mbyte))
    return built


def best_by_size(candidates: Sequence[TimeLine]) -> tuple[BestBySize, ...]:
    """Return the schedules that are best for some size of the vector, each with the bytes from which it is best."""
    front: list[BestBySize] = []
    for line in sorted(candidates, key=lambda line: (line.latency_us, line.us_per_mbyte)):
        if front and line.us_per_mbyte >= front[-1].us_per_mbyte * (1 - 1e-9):
            continue
        start = 1
        while front:
            start = crossing(front[-1], line)
            if start > front[-1].from_bytes:
                break
            front.pop()
            start = 1
        if start <= LARGEST_BYTES:
            front.append(line.best_from(start))
    return tuple(front)


def sized(front: Sequence[TimeLine]) -> tuple[BestBySize, ...]:
    """Return the schedules of a front with the bytes from which each is best."""
    starts = [1, *(crossing(slow, fast) for slow, fast in itertools.pairwise(front))]
    return tuple(line.best_from(start) for line, start in zip(front, starts, strict=False))


def crossing(slow: TimeLine, fast: TimeLine) -> int:
    """Whole bytes from which the second takes no more time than the first."""
    return max(math.ceil((fast.latency_us - slow.latency_us) / (slow.us_per_mbyte - fast.us_per_mbyte) * 1e6), 1)


MAX_RETAINED_PIECES = 128
"""Pieces of a block that are tried: more steps take longer to simulate, and gain a hundredth at most."""

REFERENCE_BYTES = 1 << 30
"""Vector whose times the lines are made of."""


@dataclass(frozen=True, eq=False)
class AllReduceOption:
    """A schedule.

    Attributes:
        method: that made it.
        schedule: of whole blocks.
        lines: what it takes by bytes, one for each number of pieces.
        forwarding: whether servers outside the group pass messages on.
    """

    method: str
    schedule: CollectiveSchedule
    lines: tuple[TimeLine, ...]
    forwarding: bool = False

    @property
    def family(self) -> tuple[str, bool]:
        return self.method, self.forwarding

    def best(self, vector_bytes: int) -> TimeLine:
        """The number of pieces that is best for a vector of this size."""
        return min(self.lines, key=lambda line: (line.time_us(vector_bytes), line.pieces))


def allreduce_options(
    network: RatedNetwork, choice: AllReduceChoice, *, message_us: float, stop: Stop, with_trees: bool = True
) -> tuple[AllReduceOption, ...]:
    """Schedules for all ranks of a network; none for rings.

    Args:
        network: ranks, those that pass on as switches, latencies of links.
        choice: what is asked for. Breadth-first broadcasts need a network without switches; where there are some, whole
            shards go in the fewest steps instead.
        message_us: of each message, besides its bytes and the latencies of its links.
        stop: asked before trees are made, unless only they are asked for.
        with_trees: whether trees are tried for the best.
    """
    problem = CollectiveProblem(
        "AllReduce", network, CollectiveOp.ALLREDUCE, REFERENCE_BYTES, message_us=message_us, objective="time"
    )
    options: list[AllReduceOption] = []
    if choice in (AllReduceChoice.BFB, AllReduceChoice.BEST):
        switched = bool(network.is_switch.any())
        plans = (by_shortest if switched else by_breadth)(problem, stop)
        options += (_option(problem, FEWEST_STEPS if switched else BREADTH_FIRST, planned) for planned in plans)
    best = choice is AllReduceChoice.BEST and with_trees and stop.reason() is None
    if choice is AllReduceChoice.TREES or best:
        options += (_option(problem, TREES, planned) for planned in by_trees(problem, stop, divided=False))
    return tuple(options)


def _option(problem: CollectiveProblem, method: str, planned: PlannedSchedule) -> AllReduceOption:
    own = (line for line in lines(problem, planned, method, 1) if line.pieces <= MAX_RETAINED_PIECES)
    return AllReduceOption(method, planned.schedule, tuple(own))


def best_option(options: tuple[AllReduceOption, ...], vector_bytes: int) -> tuple[AllReduceOption, TimeLine]:
    """The option that is fastest alone on the network, and its line.

    Raises:
        ValueError: there are none.
    """
    both = ((option, option.best(vector_bytes)) for option in options)
    return min(both, key=lambda pair: (pair[1].time_us(vector_bytes), pair[1].steps))


MOST_SERVERS = {AllReduceChoice.TREES: 64, AllReduceChoice.BFB: 256, AllReduceChoice.BEST: 256}
"""Servers up to which schedules are made: packing trees takes some ten seconds a topology at 64 servers."""


class GroupOptions:
    """Schedules of groups, made once for all whose links are of one form."""

    def __init__(self, choice: AllReduceChoice, *, message_us: float, stop: Stop) -> None:
        """What is asked for.

        Args:
            choice: kinds of schedules.
            message_us: of each message, besides its bytes and the latencies of its links.
            stop: asked before trees are made, unless only they are asked for.
        """
        self.choice, self.message_us, self.stop = choice, message_us, stop
        self._inner: dict[bytes, tuple[AllReduceOption, ...]] = {}

    def of(self, network: RatedNetwork) -> tuple[AllReduceOption, ...]:
        """All schedules of a group: its members are the ranks, other servers pass on, as switches do."""
        members, most = network.ranks.tolist(), network.nodes
        if len(members) == most:
            return self._made(network, self.choice, most)
        inner, options = inner_network(network), list[AllReduceOption]()
        if inner.unreachable() is None:
            key = b"".join(part.tobytes() for part in (inner.arcs, inner.units, inner.latency_us))
            if key not in self._inner:
                self._inner[key] = self._made(inner, self.choice, most)
            options += [renumbered(option, members) for option in self._inner[key]]
        if not options:
            options += [replace(option, forwarding=True) for option in self._made(network, self.choice, most)]
        elif self.choice is AllReduceChoice.BEST:
            # Trees over all links take long to make, and get in each other's way.
            options += [replace(option, forwarding=True) for option in self._made(network, AllReduceChoice.BFB, most)]
        return tuple(options)

    def _made(self, network: RatedNetwork, choice: AllReduceChoice, most: int) -> tuple[AllReduceOption, ...]:
        trees = most <= 32  # packing trees of more servers takes over a second a topology
        return allreduce_options(network, choice, message_us=self.message_us, stop=self.stop, with_trees=trees)


def inner_network(network: RatedNetwork) -> RatedNetwork:
    """The ranks and the links between them alone, numbered in their order."""
    index = np.cumsum(~network.is_switch) - 1
    kept = ~network.is_switch[network.arcs].any(axis=1)
    return replace(
        network,
        is_switch=np.zeros(len(network.ranks), dtype=np.bool_),
        arcs=index[network.arcs[kept]].astype(np.int32),
        units=network.units[kept],
        latency_us=network.latency_us[kept],
        names=tuple(network.names[rank] for rank in network.ranks),
    )


def renumbered(option: AllReduceOption, members: Sequence[int]) -> AllReduceOption:
    """The option of a network of ranks alone, its nodes given the numbers of the members."""
    number, schedule = np.array(members, dtype=np.int32), option.schedule
    blocks = replace(schedule.blocks, owner=number[schedule.blocks.owner])
    sends = replace(schedule.sends, tail=number[schedule.sends.tail], head=number[schedule.sends.head])
    routes = tuple(tuple(members[node] for node in route) for route in schedule.routes)
    return replace(option, schedule=CollectiveSchedule(blocks, sends, routes))


def too_many_servers(choice: AllReduceChoice, servers: int) -> list[Problem]:
    """Why no schedules are made, if that is so."""
    most = MOST_SERVERS.get(choice)
    if most is None or servers <= most:
        return []
    text = f"too many servers for search.allreduce: {choice.value}"
    return [Problem(text, path="cluster.servers", value=str(servers), allowed=f"at most {most}")]
