"""Work that a check may still do, estimated from sizes before it is done."""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.verify.laws.findings import FULL

BEYOND = "events, more than this check has left"


@dataclass
class WorkBudget:
    """What is left of the events of a check.

    Attributes:
        left: events that it may still do.
    """

    left: float = FULL.events

    def take(self, work: float) -> bool:
        """Whether so much may be done; it is taken off then."""
        if not work <= self.left:
            return False
        self.left -= work
        return True
