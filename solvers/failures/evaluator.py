"""What evaluates failures, whatever the problem: the searches for the worst ones need no more than this."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

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


class RepairedFailure(Protocol):
    """What became of a failure, with the plan that runs then."""

    @property
    def outcome(self) -> FailureOutcome:
        """In plain figures."""


R = TypeVar("R", bound=RepairedFailure)


class RepairMemory(ABC, Generic[R]):
    """Evaluates failures, each once."""

    def __init__(self) -> None:
        self._known: dict[Failure, R] = {}

    def outcome(self, failure: Failure) -> FailureOutcome:
        """What a failure does, after the best repair."""
        return replace(self.repair(failure).outcome, failure=failure)

    def repair(self, failure: Failure) -> R:
        """The best repair of a failure, or of one that is just like it."""
        key = self._representative(failure)
        if key not in self._known:
            self._known[key] = self._repaired(key)
        return self._known[key]

    def _representative(self, failure: Failure) -> Failure:
        """The failure that stands for all that are alike."""
        return failure

    @abstractmethod
    def _repaired(self, failure: Failure) -> R:
        """The best repair."""


def badness(outcome: FailureOutcome) -> tuple[float, int]:
    """Order of outcomes, the worst largest: nothing delivered, then value, then pairs that are not connected."""
    return (float("inf") if outcome.value is None else outcome.value, outcome.disconnected_pairs)
