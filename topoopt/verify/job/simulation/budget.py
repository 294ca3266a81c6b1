"""How much a check may simulate."""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.verify.laws.findings import CheckDepth, ViolationLog


@dataclass
class EventBudget:
    """Events that are left to the simulations of a check."""

    depth: CheckDepth
    left: int

    @classmethod
    def of(cls, depth: CheckDepth) -> EventBudget:
        """All that a check of this depth simulates."""
        return cls(depth, depth.events)

    def takes(self, findings: ViolationLog, figures: str, events: int) -> bool:
        """Whether so many events may be simulated; if not, that these figures are left out is noted."""
        if events <= self.left:
            self.left -= events
            return True
        if self.depth.events == 0:
            findings.leave_out(figures, "not simulated: the check was a quick one")
        else:
            findings.leave_out(figures, f"not simulated: {events} events are more than this check takes")
        return False

    def tell(self, what: str, done: int, total: int) -> None:
        """Say how far a simulation is, if anybody listens."""
        if self.depth.tell is not None:
            self.depth.tell(what, done, total)
