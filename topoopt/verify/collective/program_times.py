"""How long a program takes on a network: without barriers, and step by step."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.chunk_program import UNKNOWN, ChunkProgram
from topoopt.core.rated_network import RatedNetwork
from topoopt.verify.collective.order import Order
from topoopt.verify.collective.program_network import MessageWays


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
    step = message_steps(program, order)
    steps = int(step.max(initial=-1)) + 1
    messages = program.messages
    load = np.zeros((steps, len(network.arcs)), dtype=np.int64) if steps * len(network.arcs) <= 30_000_000 else None
    busy = np.zeros(len(network.arcs), dtype=np.int64)
    slow = np.zeros(len(messages))
    for hop, first in enumerate(ways.firsts):
        arc = ways.hop(hop)
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
    after = [0] * len(program.places)  # messages up to the end of each action
    adds, first, earlier = sends.tolist(), order.first.tolist(), order.earlier.tolist()
    for action in order.actions.tolist():
        most = 0
        for one in earlier[first[action] : first[action + 1]]:
            most = max(most, after[one])
        after[action] = most + adds[action]
    return np.array(after, dtype=np.int64)[messages.action] - 1


def _makespan(
    program: ChunkProgram, order: Order, ways: MessageWays, unit_us: Floats, slow: Floats, *, multicast: bool
) -> float:
    """When the last action has ended: each begins when those before it have, messages take turns on links.

    Of messages that wait for a link the one that was ready first goes first. Switches pass on while they receive;
    latencies are added at the end.
    """
    links = _Links(program, ways, unit_us, slow, multicast=multicast)
    begin, later = _following(order)
    waiting = np.diff(order.first).tolist()
    ready = [0.0] * len(waiting)
    turns = np.full(len(waiting), UNKNOWN, dtype=np.int64)
    turns[program.messages.action] = program.messages.epoch
    by_turn = np.lexsort((np.arange(len(turns)), turns))
    turn = np.empty_like(by_turn)
    turn[by_turn] = np.arange(len(turns))
    action_of, turn_of = by_turn.tolist(), turn.tolist()
    # Actions that are ready at once stand in one heap, and moments in another: many actions share few moments.
    together = {0.0: np.sort(turn[np.diff(order.first) == 0]).tolist()}
    moments = [0.0]
    end = 0.0
    while moments:
        now = heapq.heappop(moments)
        heap = together[now]
        while heap:
            action = action_of[heapq.heappop(heap)]
            done = links.sent(action, now)
            end = max(end, done)
            for one in later[begin[action] : begin[action + 1]]:
                ready[one] = max(ready[one], done)
                waiting[one] -= 1
                if waiting[one] == 0:
                    moment = ready[one]
                    if moment not in together:
                        together[moment] = []
                        heapq.heappush(moments, moment)
                    heapq.heappush(together[moment], turn_of[one])
        del together[now]
    return end


def _following(order: Order) -> tuple[list[int], list[int]]:
    """Those after action k are later[begin[k]:begin[k + 1]], in the order of their numbers."""
    count = len(order.place)
    action = np.repeat(np.arange(count), np.diff(order.first))
    by_earlier = np.argsort(order.earlier, kind="stable")
    begin = np.concatenate(([0], np.cumsum(np.bincount(order.earlier, minlength=count))))
    return begin.tolist(), action[by_earlier].tolist()


class _Links:
    """Links while messages take their turns."""

    def __init__(
        self, program: ChunkProgram, ways: MessageWays, unit_us: Floats, slow: Floats, *, multicast: bool
    ) -> None:
        messages = program.messages
        by_action = np.argsort(messages.action, kind="stable")
        self.begin = np.searchsorted(messages.action[by_action], np.arange(len(program.places) + 1)).tolist()
        paths = [[arc for arc in row if arc >= 0] for row in ways.arcs.tolist()]
        self.paths = [paths[way] if way >= 0 else [] for way in ways.way[by_action].tolist()]
        self.units, self.slow = messages.units[by_action].tolist(), slow[by_action].tolist()
        self.unit_us = unit_us.tolist()
        self.free = [0.0] * len(unit_us)
        epochs = messages.epoch[by_action].tolist()
        same = zip(messages.tail[by_action].tolist(), messages.piece[by_action].tolist(), epochs, strict=True)
        copies = multicast and bool((messages.epoch != UNKNOWN).any())
        self.same = [one if one[2] != UNKNOWN else None for one in same] if copies else []
        self.copied: dict[tuple[int, tuple[int, int, int]], tuple[float, float]] = {}

    def sent(self, action: int, began: float) -> float:
        """When what an action sends from a moment on has come; that moment where it sends nothing."""
        done = began
        for number in range(self.begin[action], self.begin[action + 1]):
            leave = sent = began
            same = self.same[number] if self.same else None
            for arc in self.paths[number]:
                if same is not None and (arc, same) in self.copied:
                    leave, last = self.copied[arc, same]
                else:
                    leave = max(leave, self.free[arc])
                    last = self.free[arc] = leave + self.units[number] * self.unit_us[arc]
                    if same is not None:
                        self.copied[arc, same] = leave, last
                sent = max(sent, last)
            done = max(done, sent + self.slow[number])
        return done
