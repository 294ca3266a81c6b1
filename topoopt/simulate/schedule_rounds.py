"""Schedules of AllReduces as simulations see them: what every step puts on the links, hop by hop.

A schedule of whole blocks in p pieces has p - 1 steps more: the pieces follow each other a step behind, so that step t
holds 1/p of what the steps t - p + 1 to t of the whole blocks hold. What messages of one step carry over the same link
at the same hop is one load; its share of the payload is a whole number of units over all units times p.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.collective import GroupSchedule

UNLIMITED = np.iinfo(np.int64).max


class ScheduleArrays(NamedTuple):
    """S schedules in flat arrays.

    Attributes:
        group_ptr: int64[G+1]; schedules of group g are group_ptr[g]..group_ptr[g+1].
        from_bytes, below_bytes: int64[S], payloads that they are for.
        step_ptr: int64[S+1], steps of a schedule; hop_ptr: int64[...+1], hops of a step.
        load_ptr: int64[...+1], loads of a hop; link: int32[...]; share: float64[...], of the payload.
    """

    group_ptr: Ints
    from_bytes: Ints
    below_bytes: Ints
    step_ptr: Ints
    hop_ptr: Ints
    load_ptr: Ints
    link: Int32s
    share: Floats


def schedule_arrays(
    groups: Sequence[tuple[int, ...]], schedules: Sequence[GroupSchedule], link_id: Int32s
) -> ScheduleArrays:
    """Flatten schedules.

    Args:
        groups: members, in any order, of every group.
        schedules: of these groups.
        link_id: int32[V, V], number of the link of two nodes, -1: none.

    Raises:
        ValueError: a message goes over a link that does not exist.
    """
    ordered = [[one for one in schedules if one.members == tuple(sorted(group))] for group in groups]
    flat = [one for own in ordered for one in own]
    steps: list[int] = []
    hops: list[int] = []
    links: list[Int32s] = [np.zeros(0, dtype=np.int32)]
    shares: list[Floats] = [np.zeros(0)]
    for one in flat:
        by_hop = _units(one, link_id)
        whole, parts = one.schedule.steps, one.schedule.blocks.total * one.pieces
        before = np.concatenate((np.zeros_like(by_hop[:, :1]), np.cumsum(by_hop, axis=1)), axis=1)
        for step in range(one.steps):
            own = before[:, min(step + 1, whole)] - before[:, max(step - one.pieces + 1, 0)]
            used = [np.flatnonzero(units) for units in own]
            hops.append(sum(len(at) > 0 for at in used))
            links += [at.astype(np.int32) for at in used if len(at)]
            shares += [own[hop, at] / parts for hop, at in enumerate(used) if len(at)]
        steps.append(one.steps)
    below = [UNLIMITED if one.below_bytes is None else one.below_bytes for one in flat]
    return ScheduleArrays(
        group_ptr=_starts([len(own) for own in ordered]),
        from_bytes=np.array([one.from_bytes for one in flat], dtype=np.int64),
        below_bytes=np.array(below, dtype=np.int64),
        step_ptr=_starts(steps),
        hop_ptr=_starts(hops),
        load_ptr=_starts([len(own) for own in links[1:]]),
        link=np.concatenate(links),
        share=np.concatenate(shares),
    )


def _units(one: GroupSchedule, link_id: Int32s) -> Ints:
    """int64[hops, steps, links], units of the blocks over each link at each hop of their routes."""
    schedule, sends = one.schedule, one.schedule.sends
    longest = max((len(route) - 1 for route in schedule.routes), default=0)
    table = np.full((len(schedule.routes), longest), -1, dtype=np.int64)
    for place, route in enumerate(schedule.routes):
        own = [int(link_id[hop]) for hop in pairwise(route)]
        if min(own) < 0:
            raise ValueError("a message goes over a link that does not exist")
        table[place, : len(own)] = own
    size = schedule.blocks.units[sends.block]
    units = np.zeros((longest, schedule.steps, int(link_id.max()) + 1), dtype=np.int64)
    for hop in range(longest):
        link = table[sends.route, hop]
        used = link >= 0
        np.add.at(units[hop], (sends.step[used], link[used]), size[used])
    return units


def _starts(lengths: Sequence[int]) -> Ints:
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))).astype(np.int64)
