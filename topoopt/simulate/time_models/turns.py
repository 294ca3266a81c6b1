"""Links shared by turns: segments go between the pieces of long chunks, without an event for each piece.

A *chunk* is what a member of a ring, or a message of a schedule, sends in a step, if that is longer than a segment of a
transfer. What asks for a link joins its queue; whoever has had a turn of one segment and wants more joins it again at
its end. So when a segment comes, every flow of chunks has one turn before it, and so has every segment that came
before, but nobody has two: the segments that come before the turns of the chunks are over make one *batch*, served
after them. When the batch begins is known when its first segment comes, hence no event is needed for a turn of a
chunk: the link adds up the time of the segments that went ahead of what waited, and a step of chunks looks there, when
it should be over, how far it has been put off (`put_off`).

Where transfers go first, chunks have no turns, and nothing else changes.

AllReduces among themselves are served in order of arrival: the link is as busy either way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.simulate.jit import piece


class LinkTurns(NamedTuple):
    """What links keep beside the time when they are free; a slot is what one link serves of a flow of chunks.

    Attributes:
        batch, batch_end: float64[L], when the segments that wait are served, without a gap, ms.
        flows: int32[L], flows of chunks under way.
        ahead, ahead_before: float64[L], ms of all segments that went ahead of something; of those before the batch.
        end, ahead_then: float64[S], when the last chunk of a slot is served unless segments go ahead of it, and `ahead`
            when it asked.
        slots: int64[F+1], those of each flow; seen: int64[F], number of segments gone ahead when its round began.
        gone: int64[1], segments gone ahead, on all links so far.
    """

    batch: Floats
    batch_end: Floats
    flows: Int32s
    ahead: Floats
    ahead_before: Floats
    end: Floats
    ahead_then: Floats
    slots: Ints
    seen: Ints
    gone: Ints


@piece
def new_turns(slots: Ints, links: int) -> LinkTurns:
    """Of links that serve nothing yet."""
    return LinkTurns(
        np.zeros(links),
        np.zeros(links),
        np.zeros(links, dtype=np.int32),
        np.zeros(links),
        np.zeros(links),
        np.empty(slots[-1]),
        np.empty(slots[-1]),
        slots,
        np.zeros(len(slots), dtype=np.int64),
        np.zeros(1, dtype=np.int64),
    )


@piece
def begin_chunks(k: LinkTurns, link: int, free: float) -> None:
    """A flow of chunks begins on a link that is free at that time: if it is the first, no segment waits for turns."""
    if k.flows[link] == 0:
        k.batch[link], k.batch_end[link] = 0.0, free
    k.flows[link] += 1


@piece
def take_turn(k: LinkTurns, link: int, span: float, turn: float, now: float, last: float) -> float:
    """When a segment is served on a link with flows of chunks.

    Args:
        k: of all links.
        link: which.
        span: ms that the segment takes.
        turn: ms of the turn of a chunk; 0 where transfers go first.
        now: when the segment asks.
        last: when it would be served after all that came before.
    """
    began = min(last, max(now, k.batch_end[link]))
    if now >= k.batch[link]:
        if began < last:
            began = min(last, began + k.flows[link] * turn)
        k.batch[link], k.ahead_before[link] = began, k.ahead[link]
    if began < last:
        k.ahead[link] += span
        k.gone[0] += 1
    k.batch_end[link] = began + span
    return float(began)


@piece
def put_off(k: LinkTurns, slot: int, link: int, now: float) -> float:
    """When the last chunk of a slot is served, as far as is known now; -inf: it was by an earlier time.

    All that went ahead since it asked put it off, but the batch only if it begins before the chunk is served.
    """
    end = k.end[slot]
    if end == -np.inf:
        return float(end)
    before = max(k.ahead_before[link], k.ahead_then[slot])
    end += before - k.ahead_then[slot]
    if end > k.batch[link]:
        end += k.ahead[link] - before
    if end <= now:
        k.end[slot] = -np.inf  # nothing puts off what is served
    return float(end)
