"""How long a program takes on a network: without barriers, and step by step."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.chunk_program import UNKNOWN, ChunkProgram
from topoopt.core.rated_network import RatedNetwork
from topoopt.verify.collective.order import Order
from topoopt.verify.collective.program_network import MessageWays, first_copies


@dataclass(frozen=True)
class ProgramTimes:
    """us: without barriers, with a barrier after every step, and of the fullest link; and how many steps."""

    makespan_us: float
    step_us: float
    busy_us: float
    steps: int


def program_times(
    program: ChunkProgram,
    network: RatedNetwork,
    order: Order,
    ways: MessageWays,
    unit_us: Floats,
    message_us: float,
    *,
    multicast: bool,
) -> ProgramTimes:
    """Times of a program that has been found sound.

    Args:
        unit_us: float64[m], us of a unit on each link.
        message_us: of every message besides.
        multicast: bytes that one rank sends several others in one epoch go over a common link once.
    """
    firsts = first_copies(program, ways)
    step = message_steps(program, order)
    steps = int(step.max(initial=-1)) + 1
    messages = program.messages
    load = np.zeros((steps, len(network.arcs)), dtype=np.int64) if steps * len(network.arcs) <= 30_000_000 else None
    busy = np.zeros(len(network.arcs), dtype=np.int64)
    slow = np.zeros(len(messages))
    for hop, first in enumerate(firsts):
        arc = np.where(ways.way >= 0, ways.arcs[ways.way, hop], -1)
        slow[arc >= 0] += network.latency_us[arc[arc >= 0]]
        used = (arc >= 0) & (first | (not multicast))
        np.add.at(busy, arc[used], messages.units[used])
        if load is not None:
            np.add.at(load, (step[used], arc[used]), messages.units[used])
    slowest = np.zeros(steps)
    np.maximum.at(slowest, step, slow)
    by_step = float("nan")
    if load is not None:
        by_step = float(((load * unit_us).max(axis=1, initial=0.0) + slowest + message_us).sum())
    return ProgramTimes(
        _makespan(program, order, ways, unit_us, slow + message_us, multicast=multicast),
        by_step,
        float((busy * unit_us).max(initial=0.0)),
        steps,
    )


def message_steps(program: ChunkProgram, order: Order) -> Ints:
    """int64[k], step of every message: its epoch, else how many messages must come before it."""
    messages = program.messages
    if len(messages) and messages.epoch.min() != UNKNOWN:
        return np.unique(messages.epoch, return_inverse=True)[1].astype(np.int64).reshape(-1)
    sends = np.zeros(len(program.places), dtype=np.int64)
    sends[messages.action] = 1
    depth = [0] * len(program.places)
    adds, first, earlier = sends.tolist(), order.first.tolist(), order.earlier.tolist()
    for action in order.actions.tolist():
        depth[action] = max((depth[one] + adds[one] for one in earlier[first[action] : first[action + 1]]), default=0)
    return np.array(depth, dtype=np.int64)[messages.action]


def _makespan(
    program: ChunkProgram, order: Order, ways: MessageWays, unit_us: Floats, slow: Floats, *, multicast: bool
) -> float:
    """When the last action has ended: each begins when those before it have, messages take turns on links.

    Of messages that wait for a link the one that was ready first goes first. Switches pass on while they receive;
    latencies are added at the end.
    """
    messages = program.messages
    by_order = np.argsort(messages.action, kind="stable")
    begin = np.searchsorted(messages.action[by_order], np.arange(len(program.places) + 1)).tolist()
    sorted_messages = by_order.tolist()
    paths = [[arc for arc in row if arc >= 0] for row in ways.arcs.tolist()]
    way, units, lasts = ways.way.tolist(), messages.units.tolist(), unit_us.tolist()
    epoch, late = messages.epoch.tolist(), slow.tolist()
    copies = multicast and bool((messages.epoch != UNKNOWN).any())
    same = list(zip(messages.tail.tolist(), messages.piece.tolist(), epoch, strict=True)) if copies else []
    first, earlier = order.first.tolist(), order.earlier.tolist()
    following: list[list[int]] = [[] for _ in range(len(program.places))]
    waiting = np.diff(order.first).tolist()
    for action in range(len(following)):
        for one in earlier[first[action] : first[action + 1]]:
            following[one].append(action)
    ready = [0.0] * len(following)
    free = [0.0] * len(lasts)
    copied: dict[tuple[int, tuple[int, int, int]] | None, tuple[float, float]] = {}
    turns = np.full(len(following), UNKNOWN, dtype=np.int64)
    turns[messages.action] = messages.epoch
    turn = turns.tolist()
    heap = [(0.0, turn[action], action) for action, left in enumerate(waiting) if left == 0]
    heapq.heapify(heap)
    end = 0.0
    while heap:
        began, _, action = heapq.heappop(heap)
        done = began
        for number in sorted_messages[begin[action] : begin[action + 1]]:
            leave = sent = began
            for arc in paths[way[number]] if way[number] >= 0 else ():
                known = (arc, same[number]) if copies and epoch[number] != UNKNOWN else None
                if known in copied:
                    leave, last = copied[known]
                else:
                    leave = max(leave, free[arc])
                    last = free[arc] = leave + units[number] * lasts[arc]
                    if known is not None:
                        copied[known] = leave, last
                sent = max(sent, last)
            done = max(done, sent + late[number])
        end = max(end, done)
        for one in following[action]:
            ready[one] = max(ready[one], done)
            waiting[one] -= 1
            if waiting[one] == 0:
                heapq.heappush(heap, (ready[one], turn[one], one))
    return end
