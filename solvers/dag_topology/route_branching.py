"""Branch and bound on circuits and routes where pods forward.

Boxes are split where their bound is least: first the routes of a direction, this one or the others, then circuits. The
tree is written as in `branching`, with all pairs of pods, and behind them the directions.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from solvers.dag_topology.box import MARGIN
from solvers.dag_topology.branching import CLOSED, SAME
from solvers.dag_topology.route_boxes import RoutedBox, RouteLaws
from solvers.dag_topology.route_choice import RoutedPlan, served
from solvers.stop import Stop
from topoopt.core.dag_topology_solution import Split

Judge = Callable[[RoutedBox], tuple[float, Split | None]]
"""A box -> no plan of it is better (inf: none is good enough), and how to split it; None: it need not be."""


@dataclass
class _Node:
    box: RoutedBox
    bound: float
    split: Split | None
    parts: list[_Node] = field(default_factory=list)


class RouteTree:
    """Boxes, split where the bound is least."""

    def __init__(self, laws: RouteLaws, judge: Judge) -> None:
        self._judge, self._open = judge, list[tuple[float, int, _Node]]()
        self.boxes = 0
        self.root = self._judged(laws.whole, 0.0)

    def _judged(self, box: RoutedBox, above: float) -> _Node:
        bound, split = self._judge(box)
        node = _Node(box, max(bound, above), split)
        self.boxes += 1
        if split is not None and node.bound < math.inf:
            heapq.heappush(self._open, (node.bound, self.boxes, node))
        return node

    def grow(self, good: Callable[[], float], stop: Stop, most_boxes: int) -> float:
        """Split until no open box has a bound below what is good, or a limit comes; the bound of all boxes."""
        while self._open and self._open[0][0] < good():
            if self.boxes >= most_boxes or stop.reason() is not None:
                break
            _, _, node = heapq.heappop(self._open)
            node.parts += [self._judged(part, node.bound) for part in node.box.parts(node.split or CLOSED)]
        return min(node.bound for node in self._walk() if not node.parts)

    def written(self) -> tuple[Split, ...]:
        """Splits in the order of a walk."""
        return tuple((node.split or CLOSED) if node.parts else CLOSED for node in self._walk())

    def _walk(self) -> list[_Node]:
        found, waiting = [], [self.root]
        while waiting:
            node = waiting.pop()
            waiting += reversed(node.parts)
            found.append(node)
        return found


def split_of(laws: RouteLaws, box: RoutedBox) -> Split | None:
    """The direction with the most volume that has more than one route left; then the pair whose time is least known."""
    if not laws.listed:
        return None
    volume = laws.job.volume
    several = [k for k, left in enumerate(box.routes) if len(left) > 1]
    if several:
        k = max(several, key=lambda one: (float(volume[one]), -one))
        return len(box.least) + k, box.routes[k][0]
    wide = np.flatnonzero(box.most > box.least)
    if not len(wide):
        return None
    load = np.zeros(len(box.least))
    for k, left in enumerate(box.routes):
        for arc in laws.arcs[k][left[0]]:
            load[arc // 2] += volume[k]
    stake = load[wide] * (1.0 / np.maximum(box.least[wide], 0.5) - 1.0 / box.most[wide])
    pair = int(wide[np.argmax(stake)])
    return pair, int(box.least[pair] + box.most[pair]) // 2


def earliest_routes(laws: RouteLaws, best: RoutedPlan | None, offer: Callable[[RoutedPlan], float]) -> RouteTree:
    """The tree of boxes by the time before which none of their plans is done.

    Args:
        best: the best plan so far; None: none is known.
        offer: takes a plan, and returns what the best one takes by now.
    """
    target = math.inf if best is None else best.value

    def judge(box: RoutedBox) -> tuple[float, Split | None]:
        nonlocal target
        left = laws.narrowed(box, target)
        if left is None:
            return math.inf, None
        plan = _plan_of(laws, left.box)
        if plan is not None:
            target = offer(plan)
            if left.box.point:
                return plan.value, None
        return left.bound, split_of(laws, left.box)

    return RouteTree(laws, judge)


def fewest_routes(laws: RouteLaws, limit: float, fewest: int, offer: Callable[[RoutedPlan], int]) -> RouteTree:
    """The tree of boxes by how many circuits their plans need that are done within a limit.

    Args:
        fewest: circuits of the best plan so far.
        offer: takes a plan that is done within the limit, and returns how many circuits the best one has by now.
    """
    after = limit * (1 + SAME)

    def judge(box: RoutedBox) -> tuple[float, Split | None]:
        nonlocal fewest
        left = laws.narrowed(box, after)
        if left is None:
            return math.inf, None
        needed = laws.circuits(left)
        if needed >= fewest:
            return float(needed), None
        plan = _plan_of(laws, left.box)
        done = plan is not None and plan.value < after * (1 - MARGIN)
        if plan is not None and done:
            fewest = offer(plan)
        if left.box.point:
            return (float(left.box.least.sum()) if done else math.inf), None
        return float(needed), split_of(laws, left.box)

    return RouteTree(laws, judge)


def _plan_of(laws: RouteLaws, box: RoutedBox) -> RoutedPlan | None:
    """A plan of a box with its fewest circuits; None: those join too little."""
    if laws.listed and all(len(left) == 1 for left in box.routes):
        routes = tuple(laws.routes[k][left[0]] for k, left in enumerate(box.routes))
        return RoutedPlan.of(laws.job, box.least, routes)
    return served(laws.job, box.least)
