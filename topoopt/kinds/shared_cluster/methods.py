"""The methods of `topoopt solve` on shared clusters: ways of scheduling, in one literal table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from topoopt.core.shared_cluster import QueueOrder, Scheduling


@dataclass(frozen=True)
class SchedulingMethod:
    """A line of the table; a queue of None keeps what the instance says of queue and defragmentation."""

    summary: str
    queue: QueueOrder | None = None
    defragment: bool = False

    def applied(self, scheduling: Scheduling) -> Scheduling:
        """The settings of an instance under this method."""
        if self.queue is None:
            return scheduling
        return replace(scheduling, queue=self.queue, defragment=self.defragment)


AS_STATED = "auto"
"""The method that keeps what the instance says."""

BEST = "best"
"""The method that tries all others."""

SCHEDULING_METHODS: Mapping[str, SchedulingMethod] = {
    AS_STATED: SchedulingMethod("as scheduling.queue of the instance says; without it the best of all"),
    "fifo": SchedulingMethod("only the first waiting job may start", QueueOrder.FIFO),
    "backfill": SchedulingMethod("any waiting job that fits may start", QueueOrder.BACKFILL),
    "reserve": SchedulingMethod("any that does not delay the first (EASY backfilling)", QueueOrder.RESERVE),
    "fifo-defragment": SchedulingMethod("fifo, running jobs are moved where that pays", QueueOrder.FIFO, True),
    "backfill-defragment": SchedulingMethod("backfill, running jobs are moved", QueueOrder.BACKFILL, True),
    "reserve-defragment": SchedulingMethod("reserve, running jobs are moved", QueueOrder.RESERVE, True),
    BEST: SchedulingMethod("all of them on the first fabric; the one with the least objective on all fabrics"),
}
