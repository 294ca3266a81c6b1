"""Branch and bound on circuits: what no box can reach, and the least that one can.

A tree is a list of splits in the order in which it is walked: (pair, count) sends boxes where the pair has at most that
many circuits to the left, the others to the right, left first; (-1, 0) is a box that is closed. Whoever has the tree
can narrow the boxes again: it is the proof.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from solvers.dag_topology.box import MARGIN, BoxLaws
from solvers.dag_topology.starts import dealt
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.dag_topology_solution import Split
from topoopt.simulate.dag.shared_circuits import followed, makespan

SAME = 1e-8
"""Part of the time allowed by which a plan may be later: rounding."""

CLOSED: Split = (-1, 0)


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
class _Walk:
    """A walk over boxes, depth first, with the tree it leaves behind."""

    laws: BoxLaws
    stop: Stop
    most_boxes: int
    tree: list[Split] = field(default_factory=list)

    def closes(self, visit: Callable[[Ints, Ints], tuple[Ints, Ints, Ints] | None]) -> bool:
        """Whether all boxes are closed within the limits.

        Args:
            visit: (least, most) of a box -> None where it is closed; else its narrowed bounds, and the circuits that
                its first part should be near to.
        """
        boxes: list[tuple[Ints, Ints]] = [(np.ones_like(self.laws.most), self.laws.most)]
        while boxes:
            if len(self.tree) >= self.most_boxes or self.stop.reason() is not None:
                return False
            narrowed = visit(*boxes.pop())
            if narrowed is None:
                self.tree.append(CLOSED)
                continue
            least, most, near = narrowed
            pair = self._pair(least, most, near)
            count = int((least[pair] + most[pair]) // 2)
            self.tree.append((pair, count))
            low, high = most.copy(), least.copy()
            low[pair], high[pair] = count, count + 1
            boxes += [(high, most), (least, low)]
        return True

    def _pair(self, least: Ints, most: Ints, near: Ints) -> int:
        """The open pair whose fewest circuits would lengthen the job most; the widest where none would."""
        laws = self.laws
        open_pairs = np.flatnonzero(least < most).tolist()
        start, end = followed(laws.graph, near, laws.rate)
        transfers = len(laws.graph.volume)
        late = np.zeros(len(least))
        spent = end[:transfers] - start[:transfers]
        np.add.at(late, laws.graph.channel // 2, spent * self._critical(start, end))
        return max(open_pairs, key=lambda p: (late[p] * (most[p] - least[p]), most[p] - least[p], -p))

    def _critical(self, start: Floats, end: Floats) -> Floats:
        """Of each transfer, how little slack it has: 1 on the critical path, less elsewhere."""
        graph = self.laws.graph
        latest = np.full(len(end), end.max())
        spent = end - start
        for step in graph.order[::-1].tolist():
            later = graph.successor[graph.first[step] : graph.first[step + 1]]
            if len(later):
                latest[step] = (latest[later] - spent[later]).min()
        transfers = len(graph.volume)
        slack = (latest - end)[:transfers] / max(float(end.max()), 1e-300)
        weight: Floats = 1.0 / (1.0 + 50.0 * np.maximum(slack, 0.0))
        return weight


def nothing_before(laws: BoxLaws, target: float, best: Reached, stop: Stop, most_boxes: int) -> list[Split] | None:
    """The tree that proves that no circuits do the job before a target; None: not proven within the limits.

    A plan that is better than `best` replaces it; where it is below the target, the answer is None at once.
    """
    walk = _Walk(laws, stop, most_boxes)
    below = False

    def visit(least: Ints, most: Ints) -> tuple[Ints, Ints, Ints] | None:
        nonlocal below
        narrowed = laws.narrowed(least, most, target)
        if narrowed is None:
            return None
        least, most = narrowed
        near = dealt(laws, least, most, laws.pair_volume)
        value = makespan(laws.graph, near, laws.rate)
        if value < best.value * (1 - 1e-12):
            best.value, best.circuits = value, near
        if value < target * (1 - MARGIN):
            below = True
            walk.most_boxes = 0
        return None if (least == most).all() else (least, most, near)

    proven = walk.closes(visit)
    return walk.tree if proven and not below else None


def fewest(laws: BoxLaws, limit: float, best: Reached, stop: Stop, most_boxes: int) -> list[Split] | None:
    """Least circuits with which the job is done by `limit`, kept in `best`; the tree if that is proven."""
    walk = _Walk(laws, stop, most_boxes)
    after = limit * (1 + SAME)

    def visit(least: Ints, most: Ints) -> tuple[Ints, Ints, Ints] | None:
        narrowed = laws.narrowed(least, most, after)
        if narrowed is None or narrowed[0].sum() >= best.value:
            return None
        least, most = narrowed
        if makespan(laws.graph, least, laws.rate) < after * (1 - MARGIN):
            best.value, best.circuits = float(least.sum()), least
            return None
        return None if (least == most).all() else (least, most, least)

    return walk.tree if walk.closes(visit) else None
