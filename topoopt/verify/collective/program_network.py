"""The messages of a program on a network: their ways, what links carry, and whether each window holds it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.chunk_program import UNKNOWN, ChunkProgram, Defect
from topoopt.core.rated_network import RatedNetwork

MOST_SHOWN = 5
SLACK = 1e-6
"""Part of a window by which files round."""

NEGLIGIBLE = 0.1
"""Part of an epoch up to which a latency is left out (alpha_threshold of TE-CCL)."""


@dataclass(frozen=True, eq=False)
class MessageWays:
    """Which links messages take.

    Attributes:
        arcs: int64[w, h], arcs of each different way in order, -1 after the last.
        way: int32[k], of each message; -1: there is none.
        defects: links that do not exist.
    """

    arcs: Ints
    way: Int32s
    defects: tuple[Defect, ...]


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
    missing = np.isin(way, list(wrong))
    defects = []
    for row, text in list(wrong.items())[:MOST_SHOWN]:
        own = np.flatnonzero(way == row)
        where = program.place(int(messages.action[own[0]]))
        defects.append(Defect("link", f"{text}: {len(own)} of {len(messages)} sends, the first at {where}"))
    if len(wrong) > MOST_SHOWN:
        total = int(missing.sum())
        defects.append(Defect("link", f"{len(wrong) - MOST_SHOWN} more links do not exist ({total} sends in all)"))
    way[missing] = -1
    return MessageWays(table, way, tuple(defects))


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


def first_copies(program: ChunkProgram, ways: MessageWays) -> list[np.ndarray]:
    """bool[k] for each hop: whether no earlier message took the same bytes over that link at the same time."""
    messages = program.messages
    if not len(messages) or messages.epoch.max() == UNKNOWN:
        return [np.ones(len(messages), dtype=np.bool_)] * ways.arcs.shape[1]
    found = []
    for hop in range(ways.arcs.shape[1]):
        arc = np.where(ways.way >= 0, ways.arcs[ways.way, hop], -1)
        key = np.column_stack((arc, messages.tail, messages.piece, messages.epoch))
        first = np.zeros(len(messages), dtype=np.bool_)
        first[np.unique(key, axis=0, return_index=True)[1]] = True
        found.append(first | (messages.epoch == UNKNOWN))
    return found


def link_units(program: ChunkProgram, network: RatedNetwork, ways: MessageWays) -> LinkBytes:
    """What links carry in all."""
    single, multicast = (np.zeros(len(network.arcs), dtype=np.int64) for _ in range(2))
    for hop, first in enumerate(first_copies(program, ways)):
        arc = np.where(ways.way >= 0, ways.arcs[ways.way, hop], -1)
        used = arc >= 0
        np.add.at(single, arc[used], program.messages.units[used])
        np.add.at(multicast, arc[used & first], program.messages.units[used & first])
    return LinkBytes(single, multicast)


def full_windows(
    program: ChunkProgram,
    network: RatedNetwork,
    ways: MessageWays,
    unit_us: Floats,
    epoch_us: float,
    *,
    multicast: bool,
) -> list[Defect]:
    """Windows of epochs in which more starts on a link than fits; a chunk of more than an epoch takes several (TE-CCL).

    Args:
        unit_us: float64[m], us of a unit on each link.
    """
    messages = program.messages
    length = np.full(len(network.arcs), 1.0)  # of the longest message on each link, in epochs
    for hop in range(ways.arcs.shape[1]):
        arc = np.where(ways.way >= 0, ways.arcs[ways.way, hop], -1)
        used = arc >= 0
        np.maximum.at(length, arc[used], messages.units[used] * unit_us[arc[used]] / epoch_us)
    kappa = np.ceil(length * (1 - SLACK)).astype(np.int64)
    shift = np.zeros(len(messages), dtype=np.int64)
    started: dict[tuple[int, int], int] = {}
    for hop, first in enumerate(first_copies(program, ways)):
        arc = np.where(ways.way >= 0, ways.arcs[ways.way, hop], -1)
        counted = (arc >= 0) & (first if multicast else True)
        for one, epoch, units in zip(
            arc[counted].tolist(),
            (messages.epoch + shift)[counted].tolist(),
            messages.units[counted].tolist(),
            strict=True,
        ):
            started[one, epoch] = started.get((one, epoch), 0) + units
        there = arc >= 0
        late = kappa + np.ceil(_latency_us(network, epoch_us) / epoch_us * (1 - SLACK)).astype(np.int64)
        shift[there] += late[arc[there]]
    worst: dict[int, tuple[float, int]] = {}
    for arc_number, epoch in started:
        span = int(kappa[arc_number])
        load = sum(started.get((arc_number, one), 0) for one in range(epoch, epoch + span)) * unit_us[arc_number]
        part = load / (span * epoch_us)
        if part > 1 + SLACK and part > worst.get(arc_number, (0.0, 0))[0]:
            worst[arc_number] = float(part), epoch
    return list(_told(network, kappa, worst))


def _latency_us(network: RatedNetwork, epoch_us: float) -> Floats:
    """float64[m], latencies that count beside an epoch."""
    return np.where(network.latency_us <= NEGLIGIBLE * epoch_us, 0.0, network.latency_us)


def _told(network: RatedNetwork, kappa: Ints, worst: dict[int, tuple[float, int]]) -> Iterator[Defect]:
    for arc, (part, epoch) in sorted(worst.items(), key=lambda one: -one[1][0])[:MOST_SHOWN]:
        tail, head = (network.names[node] for node in network.arcs[arc])
        span = int(kappa[arc])
        epochs = f"epoch {epoch}" if span == 1 else f"epochs {epoch} to {epoch + span - 1}"
        yield Defect("capacity", f"link {tail} -> {head} is given {part:.4g} times what it carries in {epochs}")
    if len(worst) > MOST_SHOWN:
        yield Defect("capacity", f"{len(worst) - MOST_SHOWN} more links are given too much")


def early_departures(
    program: ChunkProgram, network: RatedNetwork, ways: MessageWays, unit_us: Floats, epoch_us: float
) -> list[Defect]:
    """Messages that leave before what they carry can have come, however fast switches pass it on.

    The epoch of a message through stated switches may be that of any of its links: one epoch is asked for.
    """
    messages = program.messages
    transit = np.zeros(len(messages))
    for hop in range(ways.arcs.shape[1]):
        arc = np.where(ways.way >= 0, ways.arcs[ways.way, hop], -1)
        used = arc >= 0
        transit[used] = np.maximum(transit[used], messages.units[used] * unit_us[arc[used]])
    for hop in range(ways.arcs.shape[1]):
        arc = np.where(ways.way >= 0, ways.arcs[ways.way, hop], -1)
        used = arc >= 0
        transit[used] += _latency_us(network, epoch_us)[arc[used]]
    transit[messages.via != UNKNOWN] = epoch_us
    start = np.full(len(program.places), np.nan)
    start[messages.action] = messages.epoch * epoch_us
    there = np.zeros(len(program.places))
    there[messages.action] = messages.epoch * epoch_us + transit
    late, early = program.after[:, 0], program.after[:, 1]
    wrong = np.flatnonzero(start[late] < there[early] - SLACK * epoch_us)
    defects = [
        Defect(
            "causality",
            f"{program.place(int(late[k]))} leaves {floor((there[early[k]] - start[late[k]]) * 1e3 + 0.5) / 1e3:g} us "
            f"before it has come ({program.place(int(early[k]))})",
        )
        for k in wrong[:MOST_SHOWN].tolist()
    ]
    if len(wrong) > MOST_SHOWN:
        defects.append(Defect("causality", f"{len(wrong) - MOST_SHOWN} more leave too early"))
    return defects


def last_epoch_end_us(
    program: ChunkProgram, network: RatedNetwork, ways: MessageWays, unit_us: Floats, epoch_us: float
) -> float:
    """End of the epoch in which the last message has come at the earliest, links one after the other as in TE-CCL.

    The epoch of a message through stated switches may be that of any of its links: one epoch is asked for.
    """
    messages = program.messages
    ends = messages.epoch.astype(np.int64)
    for hop in range(ways.arcs.shape[1]):
        arc = np.where(ways.way >= 0, ways.arcs[ways.way, hop], -1)
        used = (arc >= 0) & (messages.via == UNKNOWN)
        latency = _latency_us(network, epoch_us)[arc[used]]
        late = np.ceil((messages.units[used] * unit_us[arc[used]] + latency) / epoch_us - SLACK)
        ends[used] += late.astype(np.int64)
    ends[messages.via != UNKNOWN] += 1
    return float(ceil(ends.max(initial=0)) * epoch_us)
