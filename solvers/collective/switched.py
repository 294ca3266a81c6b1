"""The least time of a collective whose circuits may be set anew before each step: dynamic programme over circuits.

After step t on circuits c: f_t(c) = time of t on c + min(f_{t-1}(c), min f_{t-1} + delay). The break-even delay is the
largest of (time without - time of the steps) / (times set), found by Dinkelbach's iteration.
"""

from __future__ import annotations

import math

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.switched_collective import CircuitSchedule, SteppedCollective, SwitchedCollective

NEIGHBOURS = 1
"""Circuits before the first step."""

ROUNDS = 100


def steps_of(asked: SwitchedCollective) -> tuple[tuple[int, float], ...]:
    """Distance (negative: partners by exclusive or) and bytes of every step."""
    n, size = asked.ranks, asked.vector_bytes
    if asked.collective is SteppedCollective.RING:
        return ((1, size / n / 2.0),) * (2 * (n - 1))
    if asked.collective is SteppedCollective.ALL_TO_ALL:
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


def step_time_s(asked: SwitchedCollective, distance: int, size: float, circuits: int) -> float:
    """Seconds of a step: partners have all ports, others half to either side."""
    lanes = asked.ports if distance < 0 and circuits == distance else asked.ports / 2.0
    if distance > 0 and 2 * distance == asked.ranks:
        size /= 2.0  # both sides are the same rank
    return asked.step_s + size * hops(distance, circuits, asked.ranks) / (lanes * asked.bytes_per_s)


def least_time(asked: SwitchedCollective, delay_s: float) -> CircuitSchedule:
    """The fastest schedule of circuits."""
    steps = steps_of(asked)
    states = sorted({NEIGHBOURS, *(distance for distance, _ in steps)}, key=lambda one: (one < 0, abs(one)))
    costs = np.array([[step_time_s(asked, *step, state) for state in states] for step in steps])
    place = states.index(NEIGHBOURS)
    never = float(costs[:, place].sum())
    own = [states.index(distance) for distance, _ in steps]
    sets = sum(a != b for a, b in zip([place, *own], own, strict=False))
    every = float(costs[np.arange(len(steps)), own].sum()) + sets * delay_s
    chosen, time_s = _fastest(costs, place, delay_s)
    circuits = tuple(states[one] for one in chosen)
    return CircuitSchedule(delay_s, steps, circuits, time_s, never, every, _break_even(costs, place, never))


def _fastest(costs: Floats, place: int, delay_s: float) -> tuple[list[int], float]:
    """Circuits of each step, and seconds of all."""
    value = np.full(costs.shape[1], delay_s)
    value[place] = 0.0
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


def _break_even(costs: Floats, place: int, never: float) -> float:
    """The delay up to which setting pays."""
    delay = 0.0
    for _ in range(ROUNDS):
        chosen, _ = _fastest(costs, place, delay)
        sets = sum(a != b for a, b in zip([place, *chosen], chosen, strict=False))
        moving = float(costs[np.arange(len(costs)), chosen].sum())
        if sets == 0 or (never - moving) / sets <= delay * (1 + 1e-12):
            return delay
        delay = (never - moving) / sets
    return delay
