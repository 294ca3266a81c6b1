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

from solvers.collective.max_flow import FlowNetwork
from topoopt.core.arrays import Ints

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
        ValueError: not in balance, or roots that the capacities do not carry.
    """
    split = _Splitting(nodes, dict(capacity), dict(roots))
    for switch in switches.tolist():
        split.remove(switch)
    left = {arc: units for arc, units in split.capacity.items() if units > 0}
    return DirectNetwork(left, {arc: split.paths[arc] for arc in left})


class _Splitting:
    def __init__(self, nodes: int, capacity: dict[Arc, int], roots: dict[int, int]) -> None:
        self.nodes, self.capacity, self.roots = nodes, capacity, roots
        self.total = sum(roots.values())
        self.large = self.total + sum(capacity.values()) + 1
        self.paths: dict[Arc, dict[Path, int]] = {arc: {arc: units} for arc, units in capacity.items()}

    def remove(self, switch: int) -> None:
        """Join all links of a switch."""
        for head in sorted(end for tail, end in self.capacity if tail == switch):
            while self.capacity.get((switch, head), 0):
                before = self.capacity[switch, head]
                into = [tail for tail, end in self.capacity if end == switch and self.capacity[tail, end] > 0]
                # A link back to where it came from is lost: last of all.
                for tail in sorted(into, key=lambda one: (one == head, (one - head) % self.nodes)):
                    units = self.spare(tail, switch, head)
                    if units:
                        self.join(tail, switch, head, units)
                    if not self.capacity.get((switch, head), 0):
                        break
                if self.capacity.get((switch, head), 0) == before:
                    raise ValueError(f"links of switch {switch} are not in balance, or carry less than the roots need")

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
        arcs = {arc: units for arc, units in self.capacity.items() if units > 0}
        arcs |= {(self.nodes, rank): units for rank, units in self.roots.items()}
        arcs |= dict.fromkeys((arc for arc in forced if arc[0] != arc[1]), self.large)
        ends = np.array(list(arcs), dtype=np.int32)
        network = FlowNetwork(self.nodes + 1, ends[:, 0], ends[:, 1], np.array(list(arcs.values()), dtype=np.int64))
        cut = network.cut(source, sink)
        return cut.value, ~cut.side

    def join(self, tail: int, switch: int, head: int, units: int) -> None:
        """Replace units of both links by a link past the switch."""
        first = self._taken((tail, switch), units)
        second = self._taken((switch, head), units)
        if tail == head:
            return
        self.capacity[tail, head] = self.capacity.get((tail, head), 0) + units
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

    def _taken(self, arc: Arc, units: int) -> list[tuple[Path, int]]:
        """Paths taken from an arc."""
        self.capacity[arc] -= units
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
