"""Links of the simulated iteration: who is served when.

Links that share by order of arrival serve each request whole, after all that came before. Fair ones let segments of
transfers go between the pieces of what AllReduces send at once, where that is longer, the chunks:

* AllReduces are served in order of arrival.
* Where transfers go first, AllReduces have no turns before them.
* The segments of transfers that wait on a link over which AllReduces with chunks are under way form a batch, which is
  served without a gap. It begins when the segments before it are done and each of these AllReduces has had a turn, of
  one segment's bytes or of those of the batch's first segment where that has more; or when the link would be free, if
  that is earlier. This is found when its first segment comes. Those that come before it begins go to its end, the next
  one begins another batch.
* A segment that goes ahead of what waits puts off the chunks that asked before by as long as the link serves it. How
  far, a chunk learns when its round should be over: the segments of the last batch count only if it begins before the
  chunk is served, and once it is served none does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

TURN_BYTES = 256.0 * 1024
"""Of one turn; the most that a segment has, but for transfers of more than 65 535 of them."""

Chunk = tuple[int, float, float]
"""A chunk that waits: its link, when it is served unless segments go ahead of it, and the ms of those that had."""


class SimulatedLinks:
    """Links and what they have to serve; times in ms, sizes in bytes."""

    def __init__(self, rate: Sequence[float], turn_bytes: float = TURN_BYTES) -> None:
        self.rate, self.turn_bytes = rate, turn_bytes
        self.free_at = [0.0] * len(rate)
        self.batch = [(0.0, 0.0)] * len(rate)
        self.under_way = [0] * len(rate)
        self.gone_ahead = [0.0] * len(rate)
        self.before_batch = [0.0] * len(rate)

    def begin(self, links: Iterable[int]) -> None:
        """An AllReduce with chunks sets out over links; one link stands there as often as it is asked in a round."""
        for link in links:
            if not self.under_way[link]:
                self.batch[link] = 0.0, self.free_at[link]
            self.under_way[link] += 1

    def end(self, links: Iterable[int]) -> None:
        """It is done."""
        for link in links:
            self.under_way[link] -= 1

    def serve(self, link: int, size: float, now: float) -> tuple[float, float]:
        """From when to when a link serves something after all that came before."""
        began = max(now, self.free_at[link])
        ended = self.free_at[link] = began + size / self.rate[link]
        return began, ended

    def serve_segment(self, link: int, size: float, now: float) -> tuple[float, float]:
        """From when to when a link serves a segment of a transfer."""
        latest, ended = self.serve(link, size, now)
        if not self.under_way[link]:
            return latest, ended
        first, last = self.batch[link]
        began = min(latest, max(now, last))
        if now >= first:
            if began < latest:
                turn = max(size, self.turn_bytes) / self.rate[link] if self.turn_bytes else 0.0
                began = min(latest, began + self.under_way[link] * turn)
            first = began
            self.before_batch[link] = self.gone_ahead[link]
        if began < latest:
            self.gone_ahead[link] += size / self.rate[link]
        self.batch[link] = first, began + size / self.rate[link]
        return began, self.batch[link][1]

    def put_off(self, chunk: Chunk) -> float:
        """When a chunk is served, as far as is known."""
        link, ended, ahead = chunk
        before = max(self.before_batch[link], ahead)
        ended += before - ahead
        return ended + (self.gone_ahead[link] - before) if ended > self.batch[link][0] else ended
