"""AllReduces on schedules of messages in steps, instead of rings: who sends what to whom when, by payload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from topoopt.core.collective import CollectiveSchedule
from topoopt.core.search_settings import AllReduceChoice
from topoopt.core.shown import Shown

RINGS, TREES, BREADTH_FIRST, FEWEST_STEPS = "rings", "trees", "bfb", "fewest-steps"
METHODS_OF = {
    AllReduceChoice.RINGS: frozenset[str](),
    AllReduceChoice.TREES: frozenset({TREES}),
    AllReduceChoice.BFB: frozenset({BREADTH_FIRST, FEWEST_STEPS}),
    AllReduceChoice.BEST: frozenset({TREES, BREADTH_FIRST, FEWEST_STEPS}),
}
"""Methods that make schedules, by what is chosen; only the best of all leaves some payloads on rings."""


@dataclass(frozen=True, eq=False, repr=False)
class GroupSchedule(Shown):
    """How AllReduces of a group run whose payloads are of some sizes.

    Servers outside the group pass on what they get, as switches do; they neither add nor copy.

    Attributes:
        members: servers of the group, ascending.
        from_bytes, below_bytes: payloads of at least, and of fewer bytes than that; None: any more.
        method: that made it.
        pieces: every block goes in so many equal pieces, each a step behind the one before.
        schedule: of whole blocks; its nodes are servers.
    """

    members: tuple[int, ...]
    from_bytes: int
    below_bytes: int | None
    method: str
    pieces: int
    schedule: CollectiveSchedule

    @property
    def steps(self) -> int:
        """Steps of all pieces."""
        return self.schedule.steps + self.pieces - 1

    def covers(self, payload_bytes: int) -> bool:
        """Whether an AllReduce of so many bytes runs on it."""
        return self.from_bytes <= payload_bytes and (self.below_bytes is None or payload_bytes < self.below_bytes)


def schedule_for(
    schedules: Sequence[GroupSchedule], members: Sequence[int], payload_bytes: int
) -> GroupSchedule | None:
    """The schedule of an AllReduce; None: it runs on rings."""
    own = tuple(sorted(members))
    return next((one for one in schedules if one.members == own and one.covers(payload_bytes)), None)
