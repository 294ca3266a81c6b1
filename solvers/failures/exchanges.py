"""Exchanges of link ends that put the interfaces freed by failed links to use again.

A failed link a - b leaves an interface free at a and at b. Giving up one surviving link x - y, these four make a - x
and b - y (or a - y and b - x); single fibres a -> b and x -> y make a -> y and x -> b. The failed links themselves are
not made again: their fibres are broken. Free interfaces of two failed links may be joined without giving anything up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from solvers.failures.listing import links_of
from topoopt.core.cluster import LinkDirection
from topoopt.core.failures import Failure, LinkEnds
from topoopt.core.topology import Topology


@dataclass(frozen=True, order=True)
class Exchange:
    """Links given up, and links set instead; of fibre pairs the smaller server first."""

    removed: tuple[LinkEnds, ...]
    added: tuple[LinkEnds, ...]

    def then(self, other: Exchange) -> Exchange:
        """Both: what was added and given up again is neither."""
        added = Counter((*self.added, *other.added))
        removed = Counter((*self.removed, *other.removed))
        both = added & removed
        return Exchange(tuple(sorted((removed - both).elements())), tuple(sorted((added - both).elements())))


NOTHING = Exchange((), ())


def standing_links(topology: Topology, failure: Failure, done: Exchange) -> tuple[LinkEnds, ...]:
    """Links that survive and were not given up, those added included."""
    left = Counter(links_of(topology)) - Counter(failure.links) - Counter(done.removed)
    return tuple(sorted((left + Counter(done.added)).elements()))


def exchanges(topology: Topology, failure: Failure, done: Exchange) -> Iterator[Exchange]:
    """Single exchanges on top of what was done, each once."""
    paired = topology.links is LinkDirection.BIDIRECTIONAL

    def link(a: int, b: int) -> LinkEnds:
        return (min(a, b), max(a, b)) if paired else (a, b)

    broken = set(failure.links)
    senders = Counter(a for a, _ in failure.links) + Counter(a for a, _ in done.removed)
    receivers = Counter(b for _, b in failure.links) + Counter(b for _, b in done.removed)
    senders -= Counter(a for a, _ in done.added)
    receivers -= Counter(b for _, b in done.added)
    if paired:
        ends = Counter(end for each in (*failure.links, *done.removed) for end in each)
        ends -= Counter(end for each in done.added for end in each)
        senders = receivers = ends
    seen: set[Exchange] = set()

    def fresh(removed: tuple[LinkEnds, ...], added: tuple[LinkEnds, ...]) -> Iterator[Exchange]:
        legal = all(a != b and (a, b) not in broken and (a, b) not in removed for a, b in added)
        made = Exchange(removed, tuple(sorted(added)))
        if legal and made not in seen:
            seen.add(made)
            yield made

    standing = sorted(set(standing_links(topology, failure, done)))
    for a in sorted(senders):
        for b in sorted(receivers):
            if a == b and (not paired or senders[a] < 2):
                continue
            yield from fresh((), (link(a, b),))
            for x, y in standing:
                if paired:
                    yield from fresh(((x, y),), (link(a, x), link(b, y)))
                    yield from fresh(((x, y),), (link(a, y), link(b, x)))
                else:
                    yield from fresh(((x, y),), ((a, y), (x, b)))
