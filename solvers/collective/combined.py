"""Schedules put together: a gather turned round for a reduction, both for an AllReduce, over blocks they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from solvers.collective.schedules import backward, one_after_other
from topoopt.core.collective import CollectiveOp, CollectiveProblem, CollectiveSchedule
from topoopt.core.rated_network import RatedNetwork


def gathered(
    problem: CollectiveProblem, make: Callable[[RatedNetwork], CollectiveSchedule | None]
) -> CollectiveSchedule | None:
    """The collective from a way to make an AllGather: turned round for a reduction, both for an AllReduce."""
    network, wanted = problem.network, problem.collective
    if wanted is CollectiveOp.ALLGATHER:
        return make(network)
    up = make(network.transposed())
    if up is None or wanted is CollectiveOp.REDUCE_SCATTER:
        return None if up is None else backward(up)
    down = make(network)
    return None if down is None else joined(backward(up), down)


def joined(up: CollectiveSchedule, down: CollectiveSchedule) -> CollectiveSchedule | None:
    """A reduction and a gather of the same blocks; None where they differ."""
    same = np.array_equal(up.blocks.units, down.blocks.units) and np.array_equal(up.blocks.owner, down.blocks.owner)
    return one_after_other(up, down) if same else one_after_other(*refined(up, down))


def refined(one: CollectiveSchedule, other: CollectiveSchedule) -> tuple[CollectiveSchedule, CollectiveSchedule]:
    """Both with the blocks that the ends of either make, where the owners stand in the same order."""
    scale = np.lcm(one.blocks.total, other.blocks.total)
    ends = np.union1d(*(np.cumsum(own.blocks.units) * (scale // own.blocks.total) for own in (one, other)))
    return divided(one, ends), divided(other, ends)


def divided(schedule: CollectiveSchedule, ends: np.ndarray) -> CollectiveSchedule:
    """The same with blocks that end at `ends`, int64, in units of the last of them; blocks must be in vector order."""
    blocks, sends = schedule.blocks, schedule.sends
    old = np.cumsum(blocks.units) * (int(ends[-1]) // blocks.total)
    inside = np.searchsorted(old, ends, side="left")  # the old block of each new one
    first = np.searchsorted(inside, np.arange(len(old)))
    count = np.bincount(inside, minlength=len(old))
    of_send = np.repeat(np.arange(len(sends)), count[sends.block])
    within = np.arange(len(of_send)) - np.repeat(np.cumsum(count[sends.block]) - count[sends.block], count[sends.block])
    fields = {name: getattr(sends, name)[of_send] for name in sends.__dataclass_fields__}
    fields["block"] = (first[sends.block][of_send] + within).astype(np.int32)
    parts = replace(
        blocks,
        units=np.diff(ends, prepend=0),
        owner=blocks.owner[inside],
        target=blocks.target[inside],
    )
    return CollectiveSchedule(parts, replace(sends, **fields).sorted(), schedule.routes)
