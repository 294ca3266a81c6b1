"""How much a check may simulate."""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.core.solution import Decides
from topoopt.verify.laws.findings import CheckDepth, ViolationLog

BYTES_OF_A_HOP = 600
"""Memory that a task, or a hop of a transfer, takes while it is simulated: tuples, numbers, a place in a queue."""


@dataclass
class EventBudget:
    """Events that are left to the simulations of a check."""

    depth: CheckDepth
    left: int

    @classmethod
    def of(cls, depth: CheckDepth) -> EventBudget:
        """All that a check of this depth simulates."""
        return cls(depth, depth.events)

    def takes(self, findings: ViolationLog, figures: str, events: int, decides: Decides = Decides.NOTHING) -> bool:
        """Whether so many events may be simulated; if not, that these figures are left out is noted."""
        if events <= self.left:
            self.left -= events
            return True
        if self.depth.events == 0:
            findings.leave_out(figures, "not simulated: the check was a quick one", decides)
        else:
            findings.leave_out(figures, f"not simulated: {events} events are more than this check takes", decides)
        return False

    def holds(self, findings: ViolationLog, figures: str, hops: int, decides: Decides) -> bool:
        """Whether memory and events are enough for so many tasks and hops; if not, that is noted."""
        if hops > self.left:
            return self.takes(findings, figures, hops, decides)
        need = hops * BYTES_OF_A_HOP
        if need <= self.depth.memory_bytes:
            return True
        reason = f"not simulated: about {need / 1e9:.1f} GB are more than this check takes"
        findings.leave_out(figures, reason, decides)
        return False

    def tell(self, what: str, done: int, total: int) -> None:
        """Say how far a simulation is, if anybody listens."""
        if self.depth.tell is not None:
            self.depth.tell(what, done, total)
