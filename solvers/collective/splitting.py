"""Switches taken out of a network by splitting off: links in and out are joined until no switch has any.

Joining gamma units of u -> w and w -> t into u -> t keeps a set of nodes A able to send what it must unless A holds u
and t but not w, or w but neither u nor t; gamma is what such cuts can spare (edge splitting that keeps all flows from a
super source, as in ForestColl, arXiv 2402.06787, section on switches). What is in balance at a switch can be joined
wholly (Bang-Jensen, Frank and Jackson 1995), so some order of pairs always works.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from solvers.collective.max_flow import FlowNetwork, TreesDoNotFitError
from topoopt.core.arrays import Ints

MOST_TAILS = 16
"""Tails that a head is joined to in equal parts."""

Arc = tuple[int, int]
Path = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class DirectNetwork:
    """Ranks alone, joined by paths through switches.

    Attributes:
        capacity: of each arc between ranks.
        paths: of each such arc, its paths (nodes, both ends included) and how many units each stands for.
    """

    capacity: dict[Arc, int]
    paths: dict[Arc, dict[Path, int]]


def without_switches(
    nodes: int, switches: Ints, capacity: Mapping[Arc, int], roots: Mapping[int, int]
) -> DirectNetwork:
    """Take all switches out.

    Args:
        nodes: V.
        switches: int64, which of them.
        capacity: of every arc, whole numbers, in balance at switches.
        roots: how much every rank must be able to send to each other at once (trees rooted there).

    Raises:
        TreesDoNotFitError: not in balance, or roots that the capacities do not carry.
    """
    split = _Splitting(nodes, dict(capacity), dict(roots))
    ranks = set(roots)
    near = {switch: sum(tail in ranks for tail, head in capacity if head == switch) for switch in switches.tolist()}
    for switch in sorted(near, key=lambda one: (near[one] > 0, -near[one], one)):
        split.remove(switch)
    left = {arc: units for arc, units in split.capacity.items() if units > 0}
    return DirectNetwork(left, {arc: split.paths[arc] for arc in left})


class _Splitting:
    def __init__(self, nodes: int, capacity: dict[Arc, int], roots: dict[int, int]) -> None:
        self.nodes, self.capacity, self.roots = nodes, capacity, roots
        self.total = sum(roots.values())
        self.large = self.total + sum(capacity.values()) + 1
        self.paths: dict[Arc, dict[Path, int]] = {arc: {arc: units} for arc, units in capacity.items()}
        self.place = {arc: place for place, arc in enumerate(capacity)}
        self.ends = np.array([*capacity, *((nodes, rank) for rank in roots)], dtype=np.int32)
        self.room = np.array([*capacity.values(), *roots.values()], dtype=np.int64)  # the same as `capacity`, and roots

    def remove(self, switch: int) -> None:
        """Join all links of a switch: first an equal part of each out with many in, then what is left."""
        loss = [
            units if end == switch else -units for (tail, end), units in self.capacity.items() if switch in (tail, end)
        ]
        if sum(loss):
            raise TreesDoNotFitError(f"links of switch {switch} are not in balance")
        into = [tail for tail, end in sorted(self.capacity) if end == switch and self.capacity[tail, end] > 0]
        out = [end for tail, end in sorted(self.capacity) if tail == switch and self.capacity[tail, end] > 0]
        for place, head in enumerate(out):
            spread = [tail for tail in self._order(into, switch, place, head) if tail != head][:MOST_TAILS]
            part = -(-self.capacity[switch, head] // max(len(spread), 1))
            for tail in spread:
                self._join_some(tail, switch, head, part)
        for place, head in enumerate(out):
            while self.capacity[switch, head]:
                before = self.capacity[switch, head]
                for tail in self._order(into, switch, place, head):
                    self._join_some(tail, switch, head, before)
                if self.capacity[switch, head] == before:
                    raise TreesDoNotFitError(f"links of switch {switch} carry less than the roots need")

    def _order(self, into: list[int], switch: int, place: int, head: int) -> list[int]:
        """Tails for a head: those without another way to it first, in turns that differ from head to head.

        A link back to where it came from is lost: last of all.
        """
        feeding = {tail for (tail, end), units in self.capacity.items() if end == head and units and tail != switch}
        beyond = feeding - self.roots.keys()
        feeding |= {tail for (tail, end), units in self.capacity.items() if end in beyond and units}
        start = (place + 1) % len(into)
        return sorted([*into[start:], *into[:start]], key=lambda tail: (tail == head, tail in feeding))

    def _join_some(self, tail: int, switch: int, head: int, most: int) -> None:
        most = min(most, self.capacity.get((tail, switch), 0), self.capacity.get((switch, head), 0))
        units = min(most, self.spare(tail, switch, head)) if most else 0
        if units:
            self.join(tail, switch, head, units)

    def spare(self, tail: int, switch: int, head: int) -> int:
        """Units of tail -> switch -> head that may be joined."""
        most = min(self.capacity.get((tail, switch), 0), self.capacity.get((switch, head), 0))
        if most == 0:
            return 0
        source = self.nodes
        if {tail, head} & self.roots.keys():
            most = min(most, self._flow(switch, head, [(switch, source), (tail, head)])[0] - self.total)
        else:
            for rank in self.roots:
                if most > 0:
                    forced = [(switch, source), (tail, head), (rank, head)]
                    most = min(most, self._flow(switch, head, forced)[0] - self.total)
        if most <= 0:
            return 0
        forced = [(tail, source), (tail, head)]
        value, beyond = self._flow(tail, switch, forced)
        if value - self.total >= most:
            return most
        others = [rank for rank in self.roots if rank not in (tail, head)]
        if any(beyond[rank] for rank in others):  # the least cut has a rank beyond it as it is
            return max(value - self.total, 0)
        for rank in others:
            if most > 0:
                most = min(most, self._flow(tail, switch, [*forced, (rank, switch)])[0] - self.total)
        return max(most, 0)

    def _flow(self, source: int, sink: int, forced: list[Arc]) -> tuple[int, np.ndarray]:
        """Maximum flow with some arcs without limit, and which nodes are beyond its least cut."""
        wide = [arc for arc in forced if arc[0] != arc[1]]
        used = np.flatnonzero(self.room)
        ends = np.concatenate((self.ends[used], np.array(wide, dtype=np.int32).reshape(-1, 2)))
        room = np.concatenate((self.room[used], np.full(len(wide), self.large)))
        network = FlowNetwork(self.nodes + 1, ends[:, 0], ends[:, 1], room)
        cut = network.cut(source, sink)
        return cut.value, ~cut.side

    def join(self, tail: int, switch: int, head: int, units: int) -> None:
        """Replace units of both links by a link past the switch."""
        first = self._taken((tail, switch), units)
        second = self._taken((switch, head), units)
        if tail == head:
            return
        self._set((tail, head), self.capacity.get((tail, head), 0) + units)
        own = self.paths.setdefault((tail, head), {})
        while first:
            path, some = first[-1]
            onward, more = second[-1]
            both = min(some, more)
            joined = (*path, *onward[1:])
            own[joined] = own.get(joined, 0) + both
            for parts, (kept, count) in ((first, (path, some)), (second, (onward, more))):
                parts.pop()
                if count > both:
                    parts.append((kept, count - both))

    def _set(self, arc: Arc, units: int) -> None:
        self.capacity[arc] = units
        if arc not in self.place:
            self.place[arc] = len(self.room)
            self.ends = np.concatenate((self.ends, np.array([arc], dtype=np.int32)))
            self.room = np.append(self.room, 0)
        self.room[self.place[arc]] = units

    def _taken(self, arc: Arc, units: int) -> list[tuple[Path, int]]:
        """Paths taken from an arc."""
        self._set(arc, self.capacity[arc] - units)
        return take(self.paths[arc], units)


def take(paths: dict[Path, int], units: int) -> list[tuple[Path, int]]:
    """Take so many units of paths, in order."""
    taken = []
    for path in list(paths):
        some = min(paths[path], units)
        if some:
            taken.append((path, some))
            units -= some
            paths[path] -= some
            if not paths[path]:
                del paths[path]
        if not units:
            break
    return taken
