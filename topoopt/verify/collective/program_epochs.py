"""The messages of a program in epochs: whether every window of a link holds what starts in it, and when all came."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.chunk_program import UNKNOWN, ChunkProgram, Defect
from topoopt.core.rated_network import RatedNetwork
from topoopt.verify.collective.program_network import MOST_SHOWN, MessageWays

SLACK = 1e-6
"""Part of a window by which files round."""

NEGLIGIBLE = 0.1
"""Part of an epoch up to which a latency is left out (alpha_threshold of TE-CCL)."""


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
    for hop in range(ways.hops):
        arc = ways.hop(hop)
        used = arc >= 0
        np.maximum.at(length, arc[used], messages.units[used] * unit_us[arc[used]] / epoch_us)
    kappa = np.ceil(length * (1 - SLACK)).astype(np.int64)
    shift = np.zeros(len(messages), dtype=np.int64)
    starts: list[Ints] = []  # rows (arc, epoch, units)
    for hop, first in enumerate(ways.firsts):
        arc = ways.hop(hop)
        counted = (arc >= 0) & (first if multicast else True)
        starts.append(np.column_stack((arc, messages.epoch + shift, messages.units))[counted])
        there = arc >= 0
        late = kappa + np.ceil(_latency_us(network, epoch_us) / epoch_us * (1 - SLACK)).astype(np.int64)
        shift[there] += late[arc[there]]
    return list(_told(network, kappa, _fullest(np.concatenate(starts), kappa, unit_us, epoch_us)))


def _fullest(starts: Ints, kappa: Ints, unit_us: Floats, epoch_us: float) -> dict[int, tuple[float, int]]:
    """Of links that are given more than fits: how many times that in the fullest window, and its first epoch."""
    if not len(starts):
        return {}
    order = np.lexsort((starts[:, 1], starts[:, 0]))
    arc, epoch, units = starts[order].T
    epoch = epoch - epoch.min()
    last = int(epoch.max()) + int(kappa.max()) + 1
    moment = arc * last + epoch
    summed = np.concatenate(([0], np.cumsum(units)))
    end = np.searchsorted(moment, moment + kappa[arc], side="left")
    begin = np.searchsorted(moment, moment, side="left")
    part = (summed[end] - summed[begin]) * unit_us[arc] / (kappa[arc] * epoch_us)
    worst: dict[int, tuple[float, int]] = {}
    for one in np.flatnonzero(part > 1 + SLACK)[::-1].tolist():  # of equal ones the first epoch
        if part[one] >= worst.get(int(arc[one]), (0.0, 0))[0]:
            worst[int(arc[one])] = float(part[one]), int(starts[order[one], 1])
    return worst


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
    for hop in range(ways.hops):
        arc = ways.hop(hop)
        used = arc >= 0
        transit[used] = np.maximum(transit[used], messages.units[used] * unit_us[arc[used]])
    for hop in range(ways.hops):
        arc = ways.hop(hop)
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
    for hop in range(ways.hops):
        arc = ways.hop(hop)
        used = (arc >= 0) & (messages.via == UNKNOWN)
        latency = _latency_us(network, epoch_us)[arc[used]]
        late = np.ceil((messages.units[used] * unit_us[arc[used]] + latency) / epoch_us - SLACK)
        ends[used] += late.astype(np.int64)
    ends[messages.via != UNKNOWN] += 1
    return float(ceil(ends.max(initial=0)) * epoch_us)
