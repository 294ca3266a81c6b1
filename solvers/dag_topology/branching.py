"""Branch and bound on circuits: what no box can reach, and the least that one can.

Boxes are split where their bound is least. The tree is written as a list of splits in the order in which it is walked:
(pair, count) sends boxes where the pair has at most that many circuits to the left, the others to the right, left
first; (-1, k) is a box that is closed, by windows of time (k = 0) or by the mean of paths number k - 1. Whoever has the
tree can bound the boxes again: it is the proof.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from solvers.dag_topology.box import MARGIN, BoxLaws
from solvers.dag_topology.path_means import PathProgram
from solvers.dag_topology.starts import dealt
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.dag_topology_solution import PathMean, Split
from topoopt.simulate.dag.shared_circuits import makespan

SAME = 1e-8
"""Part of the time allowed by which a plan may be later: rounding."""

CLOSED: Split = (-1, 0)

WHOLE = 1e-6
"""What a number of circuits may be short of a whole one and count as it: rounding of sums."""


@dataclass
class Reached:
    """The best so far.

    Attributes:
        value: of what is sought.
        circuits: int64[pairs].
    """

    value: float
    circuits: Ints


@dataclass
class _Box:
    """A node of the tree.

    Attributes:
        bound: no plan of it is better; inf: none is good enough.
        split: once it is split.
        mean: that gives the bound; None: windows of time, or the only plan that is left.
        parts: two, once it is split.
    """

    least: Ints
    most: Ints
    bound: float
    mean: PathMean | None
    split: Split | None = None
    parts: list[_Box] = field(default_factory=list)


Judge = Callable[[Ints, Ints], tuple[float, PathMean | None, Split | None]]
"""(least, most) of a box -> bound, what gives it, and how to split it; None where nothing is left to split."""


class BoxTree:
    """Boxes, split where the bound is least."""

    def __init__(self, laws: BoxLaws, judge: Judge) -> None:
        self._judge, self._open = judge, list[tuple[float, int, _Box]]()
        self.boxes = 0
        self.root = self._judged(np.ones_like(laws.most), laws.most)

    def _judged(self, least: Ints, most: Ints) -> _Box:
        bound, mean, split = self._judge(least, most)
        box = _Box(least, most, bound, mean, split)
        self.boxes += 1
        if split is not None and bound < math.inf:
            heapq.heappush(self._open, (bound, self.boxes, box))
        return box

    def grow(self, good: Callable[[], float], stop: Stop, most_boxes: int) -> float:
        """Split until no open box has a bound below what is good, or a limit comes; the bound of all boxes."""
        while self._open and self._open[0][0] < good():
            if self.boxes >= most_boxes or stop.reason() is not None:
                break
            _, _, box = heapq.heappop(self._open)
            pair, count = box.split or CLOSED
            low, high = box.most.copy(), box.least.copy()
            low[pair], high[pair] = count, count + 1
            for least, most in ((box.least, low), (high, box.most)):
                part = self._judged(least, most)
                if part.bound < box.bound:
                    part.bound, part.mean = box.bound, box.mean
                box.parts.append(part)
        return min(leaf.bound for leaf in self.leaves())

    def leaves(self) -> list[_Box]:
        """In the order of a walk."""
        found, waiting = [], [self.root]
        while waiting:
            box = waiting.pop()
            waiting += reversed(box.parts)
            found += [] if box.parts else [box]
        return found

    def written(self, means: list[PathMean]) -> tuple[Split, ...]:
        """Splits in the order of a walk; means of leaves are added to the list."""
        number = {mean: k for k, mean in enumerate(means)}
        found: list[Split] = []
        waiting = [self.root]
        while waiting:
            box = waiting.pop()
            waiting += reversed(box.parts)
            if box.parts:
                found.append(box.split or CLOSED)
                continue
            if box.mean is not None and box.mean not in number:
                number[box.mean] = len(means)
                means.append(box.mean)
            found.append((-1, 0 if box.mean is None else number[box.mean] + 1))
        return tuple(found)


def split_of(least: Ints, most: Ints, circuits: Floats, weight: Floats) -> Split | None:
    """Where a choice is farthest from whole numbers, by the time at stake; the widest pair where it is whole."""
    wide = most > least
    if not wide.any():
        return None
    part = np.abs(circuits - np.round(circuits))
    stake = np.where(wide, weight * part / np.maximum(circuits, 1.0) ** 2, -1.0)
    if stake.max() > 1e-9 * max(float(weight.max()), 1e-300):
        pair = int(np.argmax(stake))
        return pair, int(np.clip(math.floor(circuits[pair]), least[pair], most[pair] - 1))
    pair = int(np.argmax(np.where(wide, weight * (1.0 / least - 1.0 / most), -1.0)))
    count = math.floor(circuits[pair] + 0.5)
    if count >= most[pair]:
        count -= 1
    return pair, int(np.clip(count, least[pair], most[pair] - 1))


def earliest(laws: BoxLaws, program: PathProgram, best: Reached, stop: Stop, cutoff: float = math.inf) -> BoxTree:
    """The tree of boxes by the time before which none of their plans is done; better plans replace `best`.

    Args:
        cutoff: plans that are done no earlier do not matter.
    """

    def offer(circuits: Ints) -> float:
        value = makespan(laws.graph, circuits, laws.rate)
        if value < best.value * (1 - 1e-12):
            best.value, best.circuits = value, circuits
        return value

    def judge(least: Ints, most: Ints) -> tuple[float, PathMean | None, Split | None]:
        narrowed = laws.narrowed(least, most, min(best.value, cutoff))
        if narrowed is None:
            return math.inf, None, None
        least, most = narrowed
        if (least == most).all():
            return offer(least), None, None
        said = program.relaxed(least, most, stop)
        low = np.clip(np.floor(said.circuits + 1e-6), least, most).astype(np.int64)
        offer(dealt(laws, low, most, laws.pair_volume))
        return said.bound, said.mean, split_of(least, most, said.circuits, program.weights(said.mean))

    return BoxTree(laws, judge)


def fewest(laws: BoxLaws, program: PathProgram, limit: float, best: Reached, stop: Stop) -> BoxTree:
    """The tree of boxes by the circuits that plans done by the limit need; plans with fewer replace `best`."""
    after = limit * (1 + SAME)

    def in_time(circuits: Ints) -> bool:
        done = makespan(laws.graph, circuits, laws.rate) < after * (1 - MARGIN)
        if done and circuits.sum() < best.value:
            best.value, best.circuits = float(circuits.sum()), circuits
        return done

    def judge(least: Ints, most: Ints) -> tuple[float, PathMean | None, Split | None]:
        narrowed = laws.narrowed(least, most, after)
        if narrowed is None:
            return math.inf, None, None
        least, most = narrowed
        if in_time(least):
            return float(least.sum()), None, None
        if (least == most).all():
            return math.inf, None, None
        said = program.relaxed(least, most, stop)
        rounded = np.clip(np.ceil(said.circuits - 1e-6), least, most).astype(np.int64)
        if laws.within(rounded):
            in_time(rounded)
        bound, by_windows = math.ceil(said.bound - WHOLE), float(least.sum())
        split = split_of(least, most, said.circuits, program.weights(said.mean))
        return (by_windows, None, split) if by_windows >= bound else (float(bound), said.mean, split)

    return BoxTree(laws, judge)
