"""The messages of a program on a network: their ways, and what links carry."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from topoopt.core.arrays import Bools, Int32s, Ints
from topoopt.core.chunk_program import UNKNOWN, ChunkProgram, Defect
from topoopt.core.rated_network import RatedNetwork

MOST_SHOWN = 5


@dataclass(frozen=True, eq=False)
class MessageWays:
    """Which links messages take.

    Attributes:
        arcs: int64[w, h], arcs of each different way in order, -1 after the last.
        way: int32[k], of each message; -1: there is none.
        defects: links that do not exist.
        firsts: bool[k] for each hop, whether no earlier message took the same bytes over that link in that epoch.
    """

    arcs: Ints
    way: Int32s
    defects: tuple[Defect, ...]
    firsts: tuple[Bools, ...]

    def hop(self, number: int) -> Ints:
        """int64[k], link of each message in a hop; -1: none."""
        return np.where(self.way >= 0, self.arcs[self.way, number], -1)

    @property
    def hops(self) -> int:
        """Links of the longest way."""
        return int(self.arcs.shape[1])


def routed(program: ChunkProgram, network: RatedNetwork, node: Ints, switch: dict[str, int]) -> MessageWays:
    """The way of every message: through the stated switches, else direct, else through the fewest switches.

    Args:
        node: int64[ranks], node of every rank of the program.
        switch: node of every switch that the file names.
    """
    messages = program.messages
    ranks, vias = len(program.ranks), len(program.ways) + 1
    keys = (messages.tail.astype(np.int64) * ranks + messages.head) * vias + messages.via + 1
    keys, which = np.unique(keys, return_inverse=True)
    different = np.column_stack((keys // vias // ranks, keys // vias % ranks, keys % vias - 1))
    number = {(tail, head): place for place, (tail, head) in enumerate(network.arcs.tolist())}
    found: list[list[int]] = []
    wrong: dict[int, str] = {}
    for row, (tail, head, via) in enumerate(different.tolist()):
        ends = int(node[tail]), int(node[head])
        if via == UNKNOWN:
            path = _through_switches(network, number, *ends)
        else:
            stops = [ends[0], *(switch.get(name, -1) for name in program.ways[via]), ends[1]]
            path = _joined(network, number, stops)
        arcs = [number.get(hop, -1) for hop in itertools.pairwise(path or [])]
        if not arcs or min(arcs) < 0:
            through = f" through switch {', '.join(program.ways[via])}" if via != UNKNOWN else ""
            wrong[row] = f"no link {program.ranks[tail]} -> {program.ranks[head]}{through}"
            arcs = []
        found.append(arcs)
    width = max(map(len, found), default=0)
    table = np.full((len(found), max(width, 1)), -1, dtype=np.int64)
    for row, arcs in enumerate(found):
        table[row, : len(arcs)] = arcs
    way = np.asarray(which, dtype=np.int32).reshape(-1).copy()
    no_way = np.zeros(len(found), dtype=np.bool_)
    no_way[list(wrong)] = True
    missing = no_way[way]
    defects = []
    for row, text in list(wrong.items())[:MOST_SHOWN]:
        own = np.flatnonzero(way == row)
        where = program.place(int(messages.action[own[0]]))
        defects.append(Defect("link", f"{text}: {len(own)} of {len(messages)} sends, the first at {where}"))
    if len(wrong) > MOST_SHOWN:
        total = int(missing.sum())
        defects.append(Defect("link", f"{len(wrong) - MOST_SHOWN} more links do not exist ({total} sends in all)"))
    way[missing] = -1
    unmarked = MessageWays(table, way, tuple(defects), ())
    return replace(unmarked, firsts=_first_copies(program, unmarked))


def _joined(network: RatedNetwork, number: dict[tuple[int, int], int], stops: list[int]) -> list[int] | None:
    """The way from stop to stop, through switches that are not named where there is no link; None: there is none."""
    path = stops[:1]
    for hop in itertools.pairwise(stops):
        between = _through_switches(network, number, *hop)
        if between is None:
            return None
        path += between[1:]
    return path


def _through_switches(
    network: RatedNetwork, number: dict[tuple[int, int], int], tail: int, head: int
) -> list[int] | None:
    """Nodes of the way with fewest switches, of these that with most rate; None: there is none."""
    if (tail, head) in number:
        return [tail, head]
    units = network.units.tolist()
    out: dict[int, list[int]] = {}
    for one, other in number:
        out.setdefault(one, []).append(other)
    layer: dict[int, tuple[int, list[int]]] = {tail: (1 << 62, [tail])}
    seen = {tail}
    while layer:
        following: dict[int, tuple[int, list[int]]] = {}
        for one, (rate, path) in layer.items():
            for other in out.get(one, ()):
                if other in seen or not (other == head or network.is_switch[other]):
                    continue
                narrow = min(rate, units[number[one, other]])
                if other not in following or narrow > following[other][0]:
                    following[other] = narrow, [*path, other]
        if head in following:
            return following[head][1]
        seen |= set(following)
        layer = following
    return None


@dataclass(frozen=True, eq=False)
class LinkBytes:
    """int64[m] units over every link: every copy by itself, and copies that a switch could make counted once."""

    single: Ints
    multicast: Ints


def _first_copies(program: ChunkProgram, ways: MessageWays) -> tuple[Bools, ...]:
    """bool[k] for each hop: whether no earlier message took the same bytes over that link at the same time."""
    messages = program.messages
    if not len(messages) or messages.epoch.max() == UNKNOWN:
        return (np.ones(len(messages), dtype=np.bool_),) * ways.hops
    found = []
    for hop in range(ways.hops):
        key = ways.hop(hop)
        for column in (messages.tail, messages.piece, messages.epoch):  # to one number, told apart again and again
            different = np.unique(column, return_inverse=True)[1]
            key = np.unique(key * (int(different.max()) + 1) + different, return_inverse=True)[1]
        first = np.zeros(len(messages), dtype=np.bool_)
        first[np.unique(key, return_index=True)[1]] = True
        found.append(first | (messages.epoch == UNKNOWN))
    return tuple(found)


def copies_in_switches(ways: MessageWays) -> bool:
    """Whether some link carries the same bytes of a rank more than once in an epoch: switches that copy spare that."""
    return not all(bool(first.all()) for first in ways.firsts)


def link_units(program: ChunkProgram, network: RatedNetwork, ways: MessageWays) -> LinkBytes:
    """What links carry in all."""
    single, multicast = (np.zeros(len(network.arcs), dtype=np.int64) for _ in range(2))
    for hop, first in enumerate(ways.firsts):
        arc = ways.hop(hop)
        used = arc >= 0
        np.add.at(single, arc[used], program.messages.units[used])
        np.add.at(multicast, arc[used & first], program.messages.units[used & first])
    return LinkBytes(single, multicast)
