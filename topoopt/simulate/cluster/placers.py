"""Which free servers a job gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from topoopt.core.arrays import Bools, Ints

Free = Bools


class Placer(Protocol):
    """A way to choose servers for a job of a class (by index); `free` is bool[n].

    Attributes:
        by_size: where a job finds no place, none of any class that is larger does.
    """

    by_size: bool

    def fits(self, free: Free, servers: int, job_class: int) -> bool:
        """Whether `place` would find that many."""

    def place(self, free: Free, servers: int, job_class: int) -> Ints | None:
        """int64[servers], ascending; None when there are none."""


class GroupPlacer:
    """Servers of one group, lowest numbers first; `best` takes the group with the fewest that are enough."""

    by_size = True

    def __init__(self, group: Ints, best: bool) -> None:
        self.group = group
        self.best = best
        self.groups = int(group.max()) + 1

    def counts(self, free: Free) -> Ints:
        """int64[groups], free servers of each."""
        return np.bincount(self.group[free], minlength=self.groups)

    def fits(self, free: Free, servers: int, job_class: int = 0) -> bool:
        """Whether a group has that many."""
        return int(self.counts(free).max()) >= servers

    def place(self, free: Free, servers: int, job_class: int = 0) -> Ints | None:
        """Servers of the chosen group."""
        counts = self.counts(free)
        enough = np.flatnonzero(counts >= servers)
        if not len(enough):
            return None
        chosen = enough[np.argmin(counts[enough])] if self.best else enough[0]
        return np.flatnonzero(free & (self.group == chosen))[:servers]


class AnyPlacer:
    """Any servers: random ones, or the lowest numbers when `rng` is None."""

    by_size = True

    def __init__(self, rng: np.random.Generator | None) -> None:
        self.rng = rng

    def fits(self, free: Free, servers: int, job_class: int = 0) -> bool:
        """Whether that many are free."""
        return int(np.count_nonzero(free)) >= servers

    def place(self, free: Free, servers: int, job_class: int = 0) -> Ints | None:
        """The lowest or random ones."""
        found = np.flatnonzero(free)
        if len(found) < servers:
            return None
        if self.rng is None:
            return found[:servers]
        return np.sort(self.rng.choice(found, servers, replace=False, shuffle=False))


PLACERS: Mapping[str, Callable[[Ints, int], Placer]] = {
    "best-fit": lambda group, _: GroupPlacer(group, best=True),
    "first-fit": lambda group, _: GroupPlacer(group, best=False),
    "random": lambda _, seed: AnyPlacer(np.random.default_rng(seed)),
    "packed": lambda _, seed: AnyPlacer(None),
}
"""(groups of the servers, seed) -> placer; the first two are for partitions, the others for shared fabrics.

`spread`, which searches shards over several groups, is in `topoopt.kinds.shared_cluster.spread`.
"""
