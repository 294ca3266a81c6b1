"""A walk over the boxes of a proof."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from topoopt.core.dag_topology_solution import Split
from topoopt.verify.dag_topology.boxes import Box, Boxes

EVENTS_PER_STEP = 20
"""What narrowing a box takes for each step of the graph, beside an event of a simulation."""


SLACK_ROUNDING = 6e-9
"""Part of the time allowed by which a plan may be later: rounding."""


class BeyondDepthError(Exception):
    """A proof takes more than a check looks at."""


class TreeWalk:
    """Walks of all trees of a proof, within the events of a check."""

    def __init__(self, steps: int, events: int) -> None:
        self._steps, self._events, self._left = steps, events, events

    def __call__(
        self,
        boxes: Boxes,
        tree: Sequence[Split],
        closes: Callable[[Box], bool],
        by_mean: Callable[[int, Box], bool],
    ) -> None:
        """Go through a tree.

        Args:
            closes: what windows of time leave of a box -> whether it is closed all the same.
            by_mean: number of a mean, box -> whether it closes the box.

        Raises:
            ValueError: it is no tree of boxes, or one of them is not closed.
            BeyondDepthError: more events than the check has.
        """
        waiting = [boxes.whole]
        for pair, count in tree:
            if not waiting:
                raise ValueError("more splits than boxes")
            box = waiting.pop()
            if pair >= 0:
                waiting += reversed(box.split(pair, count))
                continue
            self._spend(len(box.least))
            if count > 0 and by_mean(count - 1, box):
                continue
            self._spend(EVENTS_PER_STEP * self._steps)
            left = boxes.narrowed(box)
            if left is None or closes(left) or (count > 0 and by_mean(count - 1, left)):
                continue
            raise ValueError(f"a box from {list(box.least)} to {list(box.most)} is open")
        if waiting:
            raise ValueError(f"{len(waiting)} boxes are not looked at")

    @property
    def left(self) -> int:
        """Events that are left; none where a tree took more."""
        return max(0, self._left)

    def _spend(self, events: int) -> None:
        self._left -= events
        if self._left < 0:
            raise BeyondDepthError(f"its boxes take more than the {self._events} events that this check looks at")
