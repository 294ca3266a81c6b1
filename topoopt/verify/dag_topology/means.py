"""What a mean of paths says of circuits, counted again from the graph.

All of a group of a path must end before any of the next may begin, so no plan is done before the groups have taken
their times one after the other: a task its duration, transfers of one direction of a pair their volumes over its
circuits. Hence not before the mean of several paths. With a price for each port, which circuits cannot exceed, each
pair may be looked at alone: the least of a convex function of a whole number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.dag_topology_solution import PathMean, StepPath
from topoopt.verify.dag_topology.boxes import Box


class Means:
    """Paths of a problem and their means, of the proof of a solution."""

    def __init__(self, problem: DagTopologyProblem, paths: Sequence[StepPath], means: Sequence[PathMean]) -> None:
        self._problem, self._paths, self._stated = problem, paths, means
        self._place = {pair: k for k, pair in enumerate(problem.pairs)}
        self._added: dict[int, tuple[float, float, list[float]]] = {}

    @cached_property
    def _earlier(self) -> list[int]:
        """Of each step, a bit for every step before it."""
        after = self._problem.after
        later: list[list[int]] = [[] for _ in after]
        for step, each in enumerate(after):
            for before in each:
                later[before].append(step)
        waits, earlier = [len(each) for each in after], [0] * len(after)
        ready = [step for step, count in enumerate(waits) if not count]
        while ready:
            step = ready.pop()
            for one in later[step]:
                earlier[one] |= earlier[step] | 1 << step
                waits[one] -= 1
                if not waits[one]:
                    ready.append(one)
        return earlier

    @cached_property
    def _lengths(self) -> list[tuple[float, list[float]]]:
        """(tasks, time over one circuit by pair) of every path.

        Raises:
            ValueError: something is no path.
        """
        return [self._length(number, path) for number, path in enumerate(self._paths)]

    def _length(self, number: int, path: StepPath) -> tuple[float, list[float]]:
        problem, before = self._problem, 0
        count = len(problem.transfers)
        fixed, moved = 0.0, [0.0] * len(problem.pairs)
        for group in path:
            if not group or len(set(group)) < len(group) or not all(0 <= step < len(problem.after) for step in group):
                raise ValueError(f"path {number}: not groups of steps")
            channels = {(m.source, m.target) for m in (problem.transfers[step] for step in group if step < count)}
            if len(group) > 1 and (len(channels) > 1 or max(group) >= count):
                raise ValueError(f"path {number}: a group that is not of one direction of a pair")
            if any(self._earlier[step] & before != before for step in group):
                raise ValueError(f"path {number}: steps that need not wait for those before them")
            before = 0
            for step in group:
                before |= 1 << step
                if step >= count:
                    fixed += problem.tasks[step - count].duration
                else:
                    own = problem.transfers[step]
                    pair = self._place[min(own.source, own.target), max(own.source, own.target)]
                    moved[pair] += own.volume / problem.rate
        return fixed, moved

    def _sum(self, number: int) -> tuple[float, float, list[float]]:
        """Weights, tasks and time over one circuit by pair of a mean."""
        if number not in self._added:
            mean, pairs = self._stated[number], len(self._problem.pairs)
            fine = [*(weight for _, weight in mean.weights), *mean.prices]
            if len(mean.prices) != self._problem.pods or any(not 0 <= one < math.inf for one in fine):
                raise ValueError(f"mean {number}: a price for each pod, no number below zero")
            if any(not 0 <= path < len(self._paths) for path, _ in mean.weights):
                raise ValueError(f"mean {number}: a path that is not there")
            fixed, moved = 0.0, [0.0] * pairs
            for path, weight in mean.weights:
                of_path, by_pair = self._lengths[path]
                fixed += weight * of_path
                for pair in range(pairs):
                    moved[pair] += weight * by_pair[pair]
            self._added[number] = sum(weight for _, weight in mean.weights), fixed, moved
        return self._added[number]

    def makespan(self, number: int, box: Box) -> float:
        """No circuits of a box do the job before this.

        Raises:
            ValueError: no such mean, or not of paths.
        """
        weight, fixed, moved = self._of(number)
        if weight <= 0:
            return 0.0
        return (self._least(number, box, moved, 0.0) + fixed) / weight

    def circuits(self, number: int, box: Box, limit: float) -> float:
        """Circuits of a box that do the job within a limit are no fewer than this.

        Raises:
            ValueError: no such mean, or not of paths.
        """
        weight, fixed, moved = self._of(number)
        return self._least(number, box, moved, 1.0) + fixed - weight * limit

    def _of(self, number: int) -> tuple[float, float, list[float]]:
        if not 0 <= number < len(self._stated):
            raise ValueError(f"mean {number} is not there")
        return self._sum(number)

    def _least(self, number: int, box: Box, moved: list[float], each: float) -> float:
        """Least of the sum over pairs of time and of price, without what all ports are paid."""
        prices = self._stated[number].prices
        total = -sum(price * ports for price, ports in zip(prices, self._problem.ports, strict=True))
        for (a, b), time, least, most in zip(self._problem.pairs, moved, box.least, box.most, strict=True):
            price = prices[a] + prices[b] + each
            count = most if price <= 0 else min(max(math.isqrt(int(min(time / price, 1e18))), least), most)
            total += min(time / one + price * one for one in (count, min(count + 1, most)))
        return total
