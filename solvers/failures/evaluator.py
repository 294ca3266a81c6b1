"""What evaluates failures, whatever the problem: the searches for the worst ones need no more than this."""

from __future__ import annotations

from typing import Protocol

from topoopt.core.failures import Failure, FailureOutcome
from topoopt.core.topology import Topology


class Evaluator(Protocol):
    """A solution whose failures can be evaluated; the same failure gives the same outcome."""

    @property
    def topology(self) -> Topology:
        """Whose parts fail."""

    @property
    def nominal(self) -> float:
        """Value without any failure."""

    def outcome(self, failure: Failure) -> FailureOutcome:
        """What a failure does, after the best repair known."""


def badness(outcome: FailureOutcome) -> tuple[float, int]:
    """Order of outcomes, the worst largest: nothing delivered, then value, then pairs that are not connected."""
    return (float("inf") if outcome.value is None else outcome.value, outcome.disconnected_pairs)
