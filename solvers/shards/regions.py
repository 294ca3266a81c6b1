"""Regions: classes of servers that share a switch in each of some planes, and how many free servers they hold.

A shape whose m interfaces each join all its ranks needs one region over m planes. Regions over more planes lie within
regions over fewer, so the smallest sets of plane groups with m planes tell whether there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from formulations.shards.shard_classes import LayerClasses, alike
from topoopt.core.arrays import Ints

MOST_SETS = 2000
"""Sets of plane groups looked at; with more of them, what is not found is not disproved."""


@dataclass(frozen=True, eq=False)
class Regions:
    """All regions over the smallest sets of plane groups with some number of planes.

    Attributes:
        sets: plane groups of each set.
        region: int64[sets, C], region of each class; numbers run on from set to set.
        count: regions of all sets.
        set_of: int64[count], set of each region.
        all_sets: no set is missing.
    """

    sets: tuple[tuple[int, ...], ...]
    region: Ints
    count: int
    set_of: Ints
    all_sets: bool

    def free(self, counts: Ints) -> Ints:
        """int64[count]: free servers of each region, from those of each class."""
        spread = np.broadcast_to(counts, self.region.shape).ravel()
        return np.bincount(self.region.ravel(), spread, minlength=self.count).astype(np.int64)


@lru_cache(maxsize=512)
def regions_of(layer: LayerClasses, planes: int) -> Regions:
    """Regions over that many planes, at least 1; none if the layer has fewer."""
    widths = layer.widths
    sets: list[tuple[int, ...]] = []
    complete = True
    for size in range(1, len(widths) + 1):
        for chosen in combinations(range(len(widths)), size):
            width = sum(widths[p] for p in chosen)
            if width < planes or width - min(widths[p] for p in chosen) >= planes:
                continue
            if len(sets) == MOST_SETS:
                complete = False
                break
            sets.append(chosen)
    rows, begin, owner = [], 0, []
    for number, chosen in enumerate(sets):
        label = alike(layer.switch[list(chosen)])
        rows.append(begin + label)
        found = int(label.max()) + 1
        begin += found
        owner.append(np.full(found, number, dtype=np.int64))
    table = np.array(rows, dtype=np.int64).reshape(len(sets), layer.classes)
    return Regions(tuple(sets), table, begin, np.concatenate(owner) if owner else np.zeros(0, dtype=np.int64), complete)


def fill(counts: Ints, classes: Ints, wanted: int) -> list[tuple[int, int]]:
    """(class, servers) pairs that take `wanted` servers, the emptiest classes first, so that large ones stay whole."""
    taken = []
    for c in classes[np.argsort(counts[classes], kind="stable")].tolist():
        if wanted == 0:
            break
        count = min(int(counts[c]), wanted)
        if count:
            taken.append((c, count))
            wanted -= count
    return taken


def best_fit(room: Ints, wanted: int) -> int | None:
    """The place with the least room that is enough, the first of equals; None if there is none."""
    if not len(room):
        return None
    slack = np.where(room >= wanted, room, np.iinfo(np.int64).max)
    best = int(slack.argmin())
    return best if room[best] >= wanted else None
