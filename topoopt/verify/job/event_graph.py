"""Events of an iteration, numbered so that every law leads on, and who comes before and after whom, as bit sets."""

from __future__ import annotations

import numpy as np

from topoopt.core.workload import Workload

ANCHORS = 48
"""Operators with laws (7) to (10), which have a term per operator: at most about so many, spread over the graph."""

KINDS = (("first", True), ("last", True), ("back", False), ("turned", False))


class EventGraph:
    """Who comes before and after whom over binding edges, as bit sets, and the numbers of the events."""

    def __init__(self, count: int, pairs: tuple[tuple[int, int], ...], bound: tuple[bool, ...]) -> None:
        self.count, self.pairs, self.bound = count, pairs, bound
        self.before = [1 << o for o in range(count)]
        self.after = [1 << o for o in range(count)]
        binding = [pair for pair, holds in zip(pairs, bound, strict=True) if holds]
        for u, v in sorted(binding, key=lambda pair: pair[1]):
            self.before[v] |= self.before[u]
        for u, v in sorted(binding, key=lambda pair: -pair[0]):
            self.after[u] |= self.after[v]
        self.around = list(self.before)
        for u, v in sorted(binding, key=lambda pair: -pair[0]):
            self.around[u] |= self.around[v]

    def events(self) -> tuple[str, ...]:
        rising, falling = range(self.count), range(self.count - 1, -1, -1)
        names = [f"{kind}({o})" for kind, order in KINDS for o in (rising if order else falling)]
        return ("start", *names, "end")

    def at(self, kind: str, o: int) -> int:
        """Number of an event."""
        place = [name for name, _ in KINDS].index(kind)
        return 1 + place * self.count + (o if KINDS[place][1] else self.count - 1 - o)

    @property
    def end(self) -> int:
        return 1 + len(KINDS) * self.count

    def into(self, members: int) -> tuple[int, ...]:
        """Pairs whose consumer is a member."""
        return tuple(e for e, (_, v) in enumerate(self.pairs) if members >> v & 1)

    def out_of(self, members: int) -> tuple[int, ...]:
        """Pairs whose producer is a member."""
        return tuple(e for e, (u, _) in enumerate(self.pairs) if members >> u & 1)

    def joins(self) -> list[tuple[int, int]]:
        """(u, o): an operator of several binding producers, and the last one that comes before all of these.

        Only where at least two others lie between them.
        """
        found = []
        for o in range(self.count):
            producers = [u for (u, v), holds in zip(self.pairs, self.bound, strict=True) if v == o and holds]
            if len(producers) < 2:
                continue
            common = -1
            for u in producers:
                common &= self.before[u]
            if common:
                u = common.bit_length() - 1
                if (self.after[u] & self.before[o]).bit_count() >= 4:
                    found.append((u, o))
        return found

    def anchors(self, alike: tuple[object, ...]) -> list[int]:
        """Operators with laws on all they come before or after: the first of those that are alike, then some others.

        Where unlike ones are too many, some spread over the graph, those with unlike surroundings first.
        """
        if self.count <= ANCHORS:
            return list(range(self.count))
        unlike = sorted({kind: o for o, kind in reversed(list(enumerate(alike)))}.values())
        if len(unlike) <= ANCHORS:
            rest = sorted({*range(self.count)} - {*unlike})
            more = np.linspace(0, len(rest) - 1, ANCHORS - len(unlike)).astype(int).tolist()
            return sorted({*unlike, *(rest[i] for i in more)})
        fan = [0] * self.count
        for u, v in self.pairs:
            fan[v] += 1
            fan[u] += 1
        ends = [o for o in unlike if self.after[o] == 1 << o or fan[o] > 2]
        if len(ends) > ANCHORS // 2:
            ends = [ends[i] for i in np.linspace(0, len(ends) - 1, ANCHORS // 2).astype(int)]
        spread = np.linspace(0, len(unlike) - 1, ANCHORS - len(ends)).astype(int).tolist()
        return sorted({*ends, *(unlike[i] for i in spread)})


def alike(workload: Workload, pairs: tuple[tuple[int, int], ...]) -> tuple[object, ...]:
    """Of every operator what makes it the like of another: same neighbours, weights, outputs and splits."""
    beside: list[set[tuple[bool, int]]] = [set() for _ in workload.operators]
    for u, v in pairs:
        beside[u].add((True, v))
        beside[v].add((False, u))
    return tuple(
        (frozenset(neighbours), operator.weight_elements, operator.output_elements, operator.splits)
        for neighbours, operator in zip(beside, workload.operators, strict=True)
    )


def bits(members: int) -> tuple[int, ...]:
    """Members of a bit set, ascending."""
    return tuple(o for o in range(members.bit_length()) if members >> o & 1)
