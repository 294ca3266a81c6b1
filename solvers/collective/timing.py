"""How long schedules take, on links that stay and on circuits that are reconfigured between steps.

Least times over circuits are by dynamic programming. After step t on circuits c: f_t(c) = time of t on c +
min(f_{t-1}(c), min f_{t-1} + delay). The break-even delay is the largest of (time without - time of the steps) / (times
set), found by Dinkelbach's iteration.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.collective import (
    CircuitSchedule,
    CollectiveProblem,
    CollectiveSchedule,
    SteppedCollective,
    SwitchedCollective,
    bytes_per_unit,
)
from topoopt.native import graph

MAX_PIECES = 4096


@dataclass(frozen=True)
class ScheduleTimes:
    """Times of a schedule.

    Attributes:
        step_us: all steps, one after the other: the slowest message's latency and the fullest link's bytes of each.
        makespan_us: without barriers: a message goes when its block is there and its links are free, in order of steps.
        busy_us: bytes of the link that carries most, over its rate.
    """

    step_us: float
    makespan_us: float
    busy_us: float


def us_of_unit(problem: CollectiveProblem, schedule: CollectiveSchedule) -> Floats:
    """float64[m], us of one unit of the blocks on each arc."""
    network = problem.network
    moved = bytes_per_unit(problem.collective, problem.vector_bytes, network, schedule.blocks.total)
    return np.asarray(moved / (network.gbytes_per_s * 1e3), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class LinkUses:
    """The links that every message passes, one entry a link, message by message.

    Attributes:
        start: int64[k + 1], entries of message j are start[j] to start[j + 1] - 1.
        arc: int64[u], the link.
        once: int64[u], the first entry that stands for the same bytes of the same sender in the same step over the
            same link, which switches copy; where they do not, the entry itself.
        slow: float64[k], latency of each message besides its bytes, us.
    """

    start: Ints
    arc: Ints
    once: Ints
    slow: Floats


def link_uses(problem: CollectiveProblem, schedule: CollectiveSchedule) -> LinkUses:
    """Links of all messages."""
    network, sends = problem.network, schedule.sends
    number = {(tail, head): arc for arc, (tail, head) in enumerate(network.arcs.tolist())}
    hops = [[number[hop] for hop in itertools.pairwise(route)] for route in schedule.routes]
    length = np.array([len(own) for own in hops], dtype=np.int64)
    begin = np.concatenate(([0], np.cumsum(length)))
    arcs = np.array([arc for own in hops for arc in own], dtype=np.int64)
    start = np.concatenate(([0], np.cumsum(length[sends.route])))
    entries = np.arange(start[-1])
    message = np.repeat(np.arange(len(sends)), length[sends.route])
    arc = arcs[begin[sends.route[message]] + entries - start[message]]
    once = entries
    if problem.multicast:
        blocks = len(schedule.blocks.units)
        same = (sends.step[message].astype(np.int64) * blocks + sends.block[message]) * network.nodes
        same = (same + sends.tail[message]) * len(network.arcs) + arc
        _, first, which = np.unique(same, return_index=True, return_inverse=True)
        once = first[which]
    slow = np.array([float(network.latency_us[own].sum()) for own in hops]) + problem.message_us
    return LinkUses(start, arc, once, slow[sends.route])


def timing(problem: CollectiveProblem, schedule: CollectiveSchedule) -> ScheduleTimes:
    """Times of a schedule for this problem."""
    sends, uses = schedule.sends, link_uses(problem, schedule)
    return ScheduleTimes(*graph.schedule_times(
        sends.block, sends.tail, sends.head, sends.step, sends.reduce, schedule.blocks.units, schedule.blocks.owner,
        uses.start, uses.arc, uses.once, us_of_unit(problem, schedule), uses.slow, problem.network.nodes,
    ))  # fmt: skip


def step_loads_us(problem: CollectiveProblem, schedule: CollectiveSchedule) -> tuple[Floats, Floats]:
    """float64[steps, m], us that the bytes of each step take on each arc; float64[steps], latency of each step."""
    sends, uses = schedule.sends, link_uses(problem, schedule)
    loads, latency = np.zeros((schedule.steps, len(problem.network.arcs))), np.zeros(schedule.steps)
    message = np.repeat(np.arange(len(sends)), np.diff(uses.start))
    counted = uses.once == np.arange(len(uses.once))
    message, arc = message[counted], uses.arc[counted]
    np.add.at(loads, (sends.step[message], arc), schedule.blocks.units[sends.block[message]].astype(np.float64))
    np.maximum.at(latency, sends.step, uses.slow)
    return loads * us_of_unit(problem, schedule), latency


def pipelined_us(loads: Floats, latency: Floats, pieces: int) -> float:
    """Time of a schedule whose blocks are divided into pieces, each a step behind the one before.

    Args:
        loads, latency: of the steps of the whole blocks (`step_loads_us`).
    """
    return sum(pipelined_parts(loads, latency, pieces))


def pipelined_parts(loads: Floats, latency: Floats, pieces: int) -> tuple[float, float]:
    """What bytes take of that time, and what messages take besides, us."""
    steps = len(loads)
    before = np.concatenate((np.zeros((1, loads.shape[1])), np.cumsum(loads, axis=0)))
    first = np.arange(steps + pieces - 1)
    if pieces > steps:  # the middle ones are alike
        first = np.concatenate((np.arange(steps), np.arange(pieces, steps + pieces - 1)))
    begin, end = np.clip(first - pieces + 1, 0, steps), np.clip(first + 1, 0, steps)
    fullest = (before[end] - before[begin]).max(axis=1, initial=0.0) / pieces
    slowest = np.array([latency[low:high].max(initial=0.0) for low, high in zip(begin, end, strict=True)])
    alike = max(pieces - steps, 0)
    bytes_us = fullest.sum() + alike * before[-1].max(initial=0.0) / pieces
    return float(bytes_us), float(slowest.sum() + alike * latency.max(initial=0.0))


def best_pieces(time_of: Callable[[int], float], most: int = MAX_PIECES) -> int:
    """Number of pieces of least time: powers of two first, then between the neighbours of the best one."""
    tried: dict[int, float] = {}

    def time(pieces: int) -> float:
        if pieces not in tried:
            tried[pieces] = time_of(pieces)
        return tried[pieces]

    best = min((1 << power for power in range(int(math.log2(most)) + 1)), key=time)
    low, high = max(best // 2, 1), min(best * 2, most)
    while high - low > 2:
        lower, upper = low + (high - low) // 3, high - (high - low) // 3
        if time(lower) <= time(upper):
            high = upper
        else:
            low = lower
    return min(range(low, high + 1), key=time)


NEIGHBOURS = 1
"""Circuits before the first step."""

ROUNDS = 100


def steps_of(problem: SwitchedCollective) -> tuple[tuple[int, float], ...]:
    """Distance (negative: partners by exclusive or) and bytes of every step."""
    n, size = problem.ranks, problem.vector_bytes
    if problem.collective is SteppedCollective.RING:
        return ((1, size / n / 2.0),) * (2 * (n - 1))
    if problem.collective is SteppedCollective.ALL_TO_ALL:
        return tuple((s, size / n) for s in range(1, n // 2 + 1))
    halves = [(-(1 << k), size / 2 ** (k + 1)) for k in range(n.bit_length() - 1)]
    return (*halves, *reversed(halves))


def hops(distance: int, circuits: int, ranks: int) -> float:
    """Transfers of a step that share the fullest circuit, for circuits of a distance; infinite: they do not reach."""
    if distance < 0:
        if circuits < 0:
            return 1.0 if circuits == distance else math.inf
        half = 2 if -2 * distance == ranks else 1  # to the other side bytes go half by each way
        return -distance / half if circuits == NEIGHBOURS else math.inf
    if circuits < 0:
        return math.inf
    common = math.gcd(circuits, ranks)
    if distance % common:
        return math.inf
    ring = ranks // common
    times = distance // common * pow(circuits // common, -1, ring) % ring if ring > 1 else 0
    return float(min(times, ring - times))


def step_time_s(problem: SwitchedCollective, distance: int, size: float, circuits: int) -> float:
    """Seconds of a step: partners have all ports, others half to either side."""
    lanes = problem.ports if distance < 0 and circuits == distance else problem.ports / 2.0
    if distance > 0 and 2 * distance == problem.ranks:
        size /= 2.0  # both sides are the same rank
    return problem.step_s + size * hops(distance, circuits, problem.ranks) / (lanes * problem.bytes_per_s)


def least_time(problem: SwitchedCollective, delay_s: float) -> CircuitSchedule:
    """The fastest schedule of circuits."""
    steps = steps_of(problem)
    states = sorted({NEIGHBOURS, *(distance for distance, _ in steps)}, key=lambda state: (state < 0, abs(state)))
    costs = np.array([[step_time_s(problem, *step, state) for state in states] for step in steps])
    start = states.index(NEIGHBOURS)
    never = float(costs[:, start].sum())
    own = [states.index(distance) for distance, _ in steps]
    sets = sum(a != b for a, b in zip([start, *own], own, strict=False))
    every = float(costs[np.arange(len(steps)), own].sum()) + sets * delay_s
    chosen, time_s = _fastest(costs, start, delay_s)
    circuits = tuple(states[state] for state in chosen)
    return CircuitSchedule(delay_s, steps, circuits, time_s, never, every, _break_even(costs, start, never))


def _fastest(costs: Floats, start: int, delay_s: float) -> tuple[list[int], float]:
    """Circuits of each step, and seconds of all."""
    value = np.full(costs.shape[1], delay_s)
    value[start] = 0.0
    came = []
    for row in costs:
        least = int(value.argmin())
        moved = value[least] + delay_s < value
        came.append(np.where(moved, least, np.arange(len(value))))
        value = row + np.where(moved, value[least] + delay_s, value)
    at = int(value.argmin())
    total, chosen = float(value[at]), []
    for back in reversed(came):
        chosen.append(at)
        at = int(back[at])
    return chosen[::-1], total


def _break_even(costs: Floats, start: int, never: float) -> float:
    """The delay up to which setting pays."""
    delay = 0.0
    for _ in range(ROUNDS):
        chosen, _ = _fastest(costs, start, delay)
        sets = sum(a != b for a, b in zip([start, *chosen], chosen, strict=False))
        moving = float(costs[np.arange(len(costs)), chosen].sum())
        if sets == 0 or (never - moving) / sets <= delay * (1 + 1e-12):
            return delay
        delay = (never - moving) / sets
    return delay
