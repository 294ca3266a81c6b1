"""The circuits that carry one demand first: exchanges, bisection on the time, and branch and bound as the proof."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.regional_circuits.choices import PairChoices, RelaxedChoices, relaxed, whole_choice
from solvers.regional_circuits.greedy import exchanged, in_turn, largest_first, within_ports
from solvers.stop import Stop
from topoopt.core.arrays import Ints
from topoopt.core.dag_topology_solution import Split
from topoopt.simulate.regional.transfer_time import RegionTraffic

CLOSED: Split = (-1, 0)

CLOSE = 5e-7
"""Relative gap that is none."""

MOST_BOXES = 2_000
"""Closed boxes of a tree: what a solution file holds without growing large."""

MOST_PRICES = 100_000
"""Multipliers of a tree."""

WHOLE_S = 10.0
"""Seconds that one integer program may take."""

NEAR = 1.02
"""Within this factor of the best so far circuits are worth exchanges."""

SMALLEST_STEP = 1 / 64
"""Part of the gap below which a better bound is not tried for."""


@dataclass
class Matched:
    """The best circuits so far.

    Attributes:
        seconds: that they take.
        circuits: int64[pairs].
    """

    seconds: float
    circuits: Ints


@dataclass(frozen=True, eq=False)
class Proof:
    """No circuits carry the demand in less than `seconds`: boxes, and prices for every closed one."""

    seconds: float
    tree: tuple[Split, ...]
    multipliers: tuple[tuple[float, ...], ...]


def highest(traffic: RegionTraffic) -> Ints:
    """int64[P]: circuits that a pair could have if no other had any."""
    ports = np.array(traffic.problem.ports, dtype=np.int64)
    return np.asarray(ports[traffic.ends].min(axis=1))


def matched(traffic: RegionTraffic, stop: Stop, *, programs: bool = True) -> tuple[Matched, Proof]:
    """The best circuits that are found, and what the relaxation proves.

    Args:
        programs: integer programs are tried where exchanges do not reach the relaxation.
    """
    best = Matched(np.inf, highest(traffic))
    for start in (largest_first(traffic), in_turn(traffic)):
        _better(best, *exchanged(traffic, start, stop))
    proof = relaxed_bound(traffic, best, stop)
    if not programs:
        return best, proof
    most = highest(traffic)
    low, high = proof.seconds, best.seconds
    while high - low > CLOSE * high and stop.reason() is None:
        middle = low + (high - low) / 2
        left = stop.remaining_s()
        choices = PairChoices.of(traffic, middle, np.zeros_like(most), most)
        found = whole_choice(choices, WHOLE_S if left is None else min(WHOLE_S, left))
        if found is not None:
            _better(best, *exchanged(traffic, found, stop))
        if best.seconds <= middle:
            high = best.seconds
        else:
            low = middle  # nobody proves that: only where to look next
    return best, proof


def _better(best: Matched, seconds: float, circuits: Ints) -> None:
    if seconds < best.seconds:
        best.seconds, best.circuits = seconds, circuits


def relaxed_bound(traffic: RegionTraffic, best: Matched, stop: Stop) -> Proof:
    """The largest time that the relaxation excludes, to 1e-4; roundings of it better `best`."""
    proof = nothing_proven(traffic)
    high = best.seconds * (1.0 - CLOSE)
    middle = high  # which is the answer as a rule
    while high - proof.seconds > 1e-4 * high and stop.reason() is None:
        most = highest(traffic)
        choices = PairChoices.of(traffic, middle, np.zeros_like(most), most)
        found = relaxed(choices)
        if found is None:
            break
        if choices.excluded(found.multipliers):
            proof = Proof(middle, (CLOSED,), (tuple(found.multipliers.tolist()),))
        else:
            _better(best, *exchanged(traffic, _rounded(choices, found), stop))
            high = min(middle, best.seconds * (1.0 - CLOSE))
        middle = (proof.seconds + high) / 2
    return proof


def _rounded(choices: PairChoices, found: RelaxedChoices) -> Ints:
    """Whole circuits near to a relaxed choice."""
    pairs = len(choices.traffic.out)
    mean = np.bincount(choices.pair, found.chosen * choices.circuits, pairs)
    top = np.zeros(pairs, dtype=np.int64)
    np.maximum.at(top, choices.pair, np.where(found.chosen > 0.05, choices.circuits, 0))
    return within_ports(choices.traffic, top, mean / np.maximum(top, 1))


def nothing_proven(traffic: RegionTraffic) -> Proof:
    """What needs no proof."""
    return Proof(0.0, (CLOSED,), ((0.0,) * (3 * traffic.problem.servers),))


def proven(traffic: RegionTraffic, best: Matched, proof: Proof, stop: Stop, most_boxes: int = MOST_BOXES) -> Proof:
    """The largest time that the limits let us exclude, with its tree; betters `best` on the way.

    Args:
        proof: of the relaxation.
    """
    share = 1.0
    while share >= SMALLEST_STEP and stop.reason() is None:
        low, top = proof.seconds, best.seconds * (1.0 - CLOSE)
        if low >= top:
            break
        found = _excluded(traffic, low + (top - low) * share, best, stop, most_boxes)
        if found is not None:
            proof = found
        elif best.seconds * (1.0 - CLOSE) >= top:
            share /= 2
    return proof


def _excluded(traffic: RegionTraffic, target: float, best: Matched, stop: Stop, most_boxes: int) -> Proof | None:
    """The tree that proves that nothing is done by a time; None: not within the limits, or something is."""
    tree: list[Split] = []
    prices: list[tuple[float, ...]] = []
    most = highest(traffic)
    boxes = [(np.zeros_like(most), most)]
    room = min(most_boxes, max(MOST_PRICES // (3 * traffic.problem.servers), 1))
    while boxes:
        if len(prices) + len(boxes) > room or stop.reason() is not None:
            return None
        least, top = boxes.pop()
        choices = PairChoices.of(traffic, target, least, top)
        found = None if choices.stuck else relaxed(choices)
        multipliers = np.zeros(3 * traffic.problem.servers) if found is None else found.multipliers
        if choices.excluded(multipliers):
            tree.append(CLOSED)
            prices.append(tuple(multipliers.tolist()))
            continue
        if found is None:
            return None
        near = _rounded(choices, found)
        if traffic.seconds(near) < NEAR * best.seconds:
            _better(best, *exchanged(traffic, near, stop))
        split = _split(choices, found, least, top)
        if best.seconds <= target or split is None:
            return None
        pair, count = split
        tree.append(split)
        low, high = top.copy(), least.copy()
        low[pair], high[pair] = count, count + 1
        boxes += [(high, top), (least, low)]
    return Proof(target, tuple(tree), tuple(prices))


def _split(choices: PairChoices, found: RelaxedChoices, least: Ints, most: Ints) -> Split | None:
    """Where the pair whose choice is least whole is parted; None: all are whole."""
    pairs = len(choices.traffic.out)
    mean = np.bincount(choices.pair, found.chosen * choices.circuits, pairs)
    apart = np.bincount(choices.pair, found.chosen * np.abs(choices.circuits - mean[choices.pair]), pairs)
    apart[least == most] = 0.0
    pair = int(np.argmax(apart))
    if apart[pair] <= 1e-9:
        return None
    return pair, int(np.clip(np.floor(mean[pair]), least[pair], most[pair] - 1))
