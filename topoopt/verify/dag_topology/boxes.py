"""Boxes of circuits that cannot do the job before a time: windows of time, counted again.

In a box a pair has between `least` and `most` circuits. With as many as it may have, a transfer begins no earlier than
its head and is followed by no less than its tail. If all that is counted together runs on one machine, the machine is
done, tails included, no earlier than the preemptive schedule that always runs what has the largest tail (Jackson 1955;
Carlier 1982).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from topoopt.core.dag_topology import DagTopologyProblem

MARGIN = 1e-9
"""Part of the target that counts as rounding of sums."""


@dataclass(frozen=True)
class Box:
    """Circuits of each pair, from `least` to `most`."""

    least: tuple[int, ...]
    most: tuple[int, ...]

    @property
    def point(self) -> bool:
        """Nothing is left to choose."""
        return self.least == self.most

    def split(self, pair: int, count: int) -> tuple[Box, Box]:
        """The part with at most so many circuits of a pair, and the rest.

        Raises:
            ValueError: one of them is empty, or there is no such pair.
        """
        if pair >= len(self.least) or not self.least[pair] <= count < self.most[pair]:
            raise ValueError(f"pair {pair} cannot be split at {count}")
        low, high = list(self.most), list(self.least)
        low[pair], high[pair] = count, count + 1
        return Box(self.least, tuple(low)), Box(tuple(high), self.most)


@dataclass(frozen=True, eq=False)
class Boxes:
    """A problem, and a time that the job is to be done before.

    Attributes:
        problem: of the instance.
        target: of the bound.
    """

    problem: DagTopologyProblem
    target: float

    @property
    def late(self) -> float:
        """What counts as not before the target."""
        return self.target * (1.0 - MARGIN)

    @property
    def whole(self) -> Box:
        """All circuits that the ports of the pods allow a pair."""
        ports = self.problem.ports
        return Box(tuple(1 for _ in self.problem.pairs), tuple(min(ports[a], ports[b]) for a, b in self.problem.pairs))

    @cached_property
    def _later(self) -> list[list[int]]:
        later: list[list[int]] = [[] for _ in self.problem.after]
        for step, each in enumerate(self.problem.after):
            for before in each:
                later[before].append(step)
        return later

    @cached_property
    def _order(self) -> list[int]:
        waits = [len(each) for each in self.problem.after]
        order = [step for step, count in enumerate(waits) if not count]
        for step in order:
            for one in self._later[step]:
                waits[one] -= 1
                if not waits[one]:
                    order.append(one)
        return order

    @cached_property
    def _channels(self) -> list[list[int]]:
        """Transfers of each direction of each pair: two lists a pair."""
        place = {pair: k for k, pair in enumerate(self.problem.pairs)}
        lists: list[list[int]] = [[] for _ in range(2 * len(place))]
        for m, move in enumerate(self.problem.transfers):
            ends = (min(move.source, move.target), max(move.source, move.target))
            lists[2 * place[ends] + (move.source > move.target)].append(m)
        return lists

    @cached_property
    def _sides(self) -> list[tuple[int, list[int]]]:
        """(pod, transfers that leave it) and (pod, transfers that enter it), those that there are."""
        out: dict[tuple[int, bool], list[int]] = {}
        for m, move in enumerate(self.problem.transfers):
            out.setdefault((move.source, True), []).append(m)
            out.setdefault((move.target, False), []).append(m)
        return [(pod, members) for (pod, _), members in sorted(out.items())]

    def narrowed(self, box: Box) -> Box | None:
        """What of a box is left when all rules have been applied until nothing changes; None: nothing."""
        least, most = list(box.least), list(box.most)
        problem = self.problem
        while True:
            needed = self._by_pod(least)
            for p, (a, b) in enumerate(problem.pairs):
                room = min(problem.ports[a] - needed[a], problem.ports[b] - needed[b]) + least[p]
                most[p] = min(most[p], room)
                if most[p] < least[p]:
                    return None
            head, length, tail = self._windows(most)
            if max(h + one + t for h, one, t in zip(head, length, tail, strict=True)) >= self.late:
                return None
            possible = self._by_pod(most)
            for pod, members in self._sides:
                speed = problem.rate * min(problem.ports[pod], possible[pod])
                if self._done(members, head, tail, speed) >= self.late:
                    return None
            raised = [self._needed(p, least[p], most[p], head, tail) for p in range(len(least))]
            if any(count > top for count, top in zip(raised, most, strict=True)):
                return None
            if raised == least:
                return Box(tuple(least), tuple(most))
            least = raised

    def _by_pod(self, counts: Sequence[int]) -> list[int]:
        total = [0] * self.problem.pods
        for (a, b), count in zip(self.problem.pairs, counts, strict=True):
            total[a] += count
            total[b] += count
        return total

    def _windows(self, most: Sequence[int]) -> tuple[list[float], list[float], list[float]]:
        """(head, length, tail) of all steps."""
        problem = self.problem
        length = [0.0] * len(problem.transfers) + [task.duration for task in problem.tasks]
        for k, members in enumerate(self._channels):
            for m in members:
                length[m] = problem.transfers[m].volume / (problem.rate * most[k // 2])
        head, tail = self._around(length)
        return head, length, tail

    def _around(self, length: Sequence[float]) -> tuple[list[float], list[float]]:
        """Before each step, and after it, the longest path."""
        head, tail = [0.0] * len(length), [0.0] * len(length)
        for step in self._order:
            for one in self._later[step]:
                head[one] = max(head[one], head[step] + length[step])
        for step in reversed(self._order):
            tail[step] = max((length[one] + tail[one] for one in self._later[step]), default=0.0)
        return head, tail

    def _needed(self, pair: int, least: int, most: int, head: list[float], tail: list[float]) -> int:
        """Circuits without which one direction of a pair is done too late; more than `most`: no number does."""
        for members in self._channels[2 * pair : 2 * pair + 2]:
            while least <= most and members and self._done(members, head, tail, self.problem.rate * least) >= self.late:
                least += 1
        return least

    def _done(self, members: list[int], head: list[float], tail: list[float], speed: float) -> float:
        """When one machine of that speed is done with all of them, tails included."""
        waiting = sorted(members, key=lambda m: head[m], reverse=True)
        queue: list[tuple[float, int]] = []
        left = {m: self.problem.transfers[m].volume / speed for m in members}
        now, done = 0.0, 0.0
        while waiting or queue:
            if not queue:
                now = max(now, head[waiting[-1]])
            while waiting and head[waiting[-1]] <= now:
                m = waiting.pop()
                heapq.heappush(queue, (-tail[m], m))
            urgent = queue[0][1]
            if waiting and now + left[urgent] > head[waiting[-1]]:
                left[urgent] -= head[waiting[-1]] - now
                now = head[waiting[-1]]
            else:
                now += left[urgent]
                done = max(done, now + tail[urgent])
                heapq.heappop(queue)
        return done
