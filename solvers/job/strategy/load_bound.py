"""Whether a task graph on a network is sure to take too long, in a tenth of the time of a simulation.

No task begins before the longest chain of tasks to it is done (its *head*: compute, and transfers at the rate of a link
that has nothing else to carry). What tasks with heads of at least h send over a link takes as long as its bytes take,
and begins at h or later: for every link and every h, h + those times bounds the iteration (heads as in Jackson's bound
on one machine; Carlier, The one-machine sequencing problem, 1982). It holds for all time models in which links carry
bytes at their rate, by turns or not.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.simulate.jit import kernel, piece
from topoopt.simulate.lower import ALLREDUCE, TRANSFER, GraphArrays
from topoopt.simulate.network import NetworkArrays
from topoopt.simulate.schedule_rounds import schedule_of

HEADS = 32
"""Heads that are looked at."""

ROUNDING = 1e-9
"""Far more than sums of times in another order differ, relative."""


@piece
def _add_transfer(g: GraphArrays, w: NetworkArrays, t: int, load: Floats) -> float:
    """Add the ms of a transfer on its links; the least it takes."""
    pair = np.int64(g.source[t]) * w.servers + g.target[t]
    least = 0.0
    for path in range(w.pair_ptr[pair], w.pair_ptr[pair + 1]):
        amount = g.size[t] * w.path_share[path]
        for at in range(w.path_ptr[path], w.path_ptr[path + 1]):
            span = amount / w.link_rate[w.path_link[at]]
            load[w.path_link[at]] += span
            least = max(least, span)
    return float(least)


@piece
def _add_schedule(g: GraphArrays, w: NetworkArrays, t: int, schedule: int, load: Floats) -> None:
    """Add the ms of an AllReduce on a schedule on its links."""
    own = w.schedules
    low, high = own.hop_ptr[own.step_ptr[schedule]], own.hop_ptr[own.step_ptr[schedule + 1]]
    for at in range(own.load_ptr[low], own.load_ptr[high]):
        load[own.link[at]] += g.size[t] * own.share[at] / w.link_rate[own.link[at]]


@piece
def _add_rings(w: NetworkArrays, group: int, reduced: float, load: Floats) -> None:
    """Add the ms of AllReduces of so many bytes in all on the links of the rings of a group."""
    sent = 2.0 * (w.group_size[group] - 1) / w.group_size[group] * reduced
    for ring in range(w.group_ptr[group], w.group_ptr[group + 1]):
        amount = sent * w.ring_share[ring]
        for at in range(w.member_ptr[w.ring_ptr[ring]], w.member_ptr[w.ring_ptr[ring + 1]]):
            load[w.member_link[at]] += amount / w.link_rate[w.member_link[at]]


@kernel
def surely_longer(g: GraphArrays, w: NetworkArrays, limit: float, deadline: Floats) -> bool:
    """Whether an iteration is sure to take longer than `limit` ms; if not, no task of one that does not ends after its
    `deadline` (float64[tasks], written): the longest chain of tasks after it takes what is left of the limit."""
    limit *= 1.0 + ROUNDING
    tasks, links = len(g.kind), len(w.link_rate)
    head, least_ms, waiting = np.zeros(tasks), np.zeros(tasks), np.zeros(tasks, dtype=np.int32)
    for e in range(len(g.successor)):
        waiting[g.successor[e]] += 1
    # By head, in equal parts of the limit; of AllReduces on rings the bytes of each group, many of which add up.
    load, least = np.zeros((HEADS, links)), np.full(HEADS, np.inf)
    reduced = np.zeros((HEADS, len(w.group_size)))
    queue, last = np.empty(tasks, dtype=np.int64), 0
    for t in range(tasks):
        if waiting[t] == 0:
            queue[last] = t
            last += 1
    for place in range(tasks):
        t = queue[place]
        begin = head[t] + g.duration[t]
        if begin > limit:
            return True
        least_ms[t] = g.duration[t]
        if g.kind[t] == TRANSFER or (g.kind[t] == ALLREDUCE and g.group[t] >= 0):
            part = min(HEADS - 1, int(begin / limit * HEADS)) if 0.0 < limit < np.inf else 0  # no part of 0 / 0
            least[part] = min(least[part], begin)
            if g.kind[t] == TRANSFER:
                least_ms[t] += _add_transfer(g, w, t, load[part])
            else:
                schedule = schedule_of(w.schedules, g.group[t], g.size[t])
                if schedule >= 0:
                    _add_schedule(g, w, t, schedule, load[part])
                else:
                    reduced[part, g.group[t]] += g.size[t]
        for e in range(g.successor_ptr[t], g.successor_ptr[t + 1]):
            then = g.successor[e]
            head[then] = max(head[then], head[t] + least_ms[t])
            waiting[then] -= 1
            if waiting[then] == 0:
                queue[last] = then
                last += 1
    total = np.zeros(links)
    for part in range(HEADS - 1, -1, -1):
        if least[part] < np.inf:
            for group in range(len(w.group_size)):
                if reduced[part, group] > 0.0:
                    _add_rings(w, group, reduced[part, group], total)
            for link in range(links):
                total[link] += load[part, link]
                if least[part] + total[link] > limit:
                    return True
    for place in range(tasks - 1, -1, -1):
        t = queue[place]
        deadline[t] = limit
        for e in range(g.successor_ptr[t], g.successor_ptr[t + 1]):
            then = g.successor[e]
            deadline[t] = min(deadline[t], deadline[then] - least_ms[then])
    return False
