"""Demand-driven circuits: what a scheduler may join and how, and when it does so."""

from __future__ import annotations

import math
from dataclasses import dataclass

from topoopt.core.errors import InputError, Problem

PERIOD_DELAYS = 4.0
"""Circuits stay for so many times the dark time (the reference scheduler's rule: a fifth of the time is dark)."""

LEAST_PERIOD_MS = 0.01
"""Circuits stay 10 us at least: demand has to be collected, whatever the optical switch can do."""


@dataclass(frozen=True)
class CircuitPolicy:
    """A scheduler of circuits.

    Attributes:
        description: one line for people.
        directed: transmit and receive sides of an interface are switched apart; else a circuit is a fibre pair.
        forwarding: servers forward for each other over shortest routes, and all servers stay connected; else only
            servers joined by a circuit can talk, and other traffic waits. Not with `directed`.
        draining: what is on the way arrives before circuits change (one hop latency a hop, added to the dark time).
    """

    description: str
    directed: bool
    forwarding: bool
    draining: bool


@dataclass(frozen=True)
class CircuitTiming:
    """When circuits change.

    Attributes:
        delay_ms: reconfiguration delay, in which no circuit carries anything.
        period_ms: time circuits stay before demand is looked at again; None: 4 times the dark time before (delay and
            draining), and 10 us at least.

    Raises:
        InputError: a delay that is negative or not finite, a period that is not above 0.
    """

    delay_ms: float
    period_ms: float | None = None

    def __post_init__(self) -> None:
        problems = []
        if not 0 <= self.delay_ms < math.inf:
            text = "bad reconfiguration delay"
            problems.append(Problem(text, path="delay_ms", value=str(self.delay_ms), allowed="at least 0, finite"))
        if self.period_ms is not None and not 0 < self.period_ms < math.inf:
            text = "bad period"
            problems.append(Problem(text, path="period_ms", value=str(self.period_ms), allowed="above 0, finite"))
        if problems:
            raise InputError(problems)

    @property
    def period(self) -> tuple[float, float]:
        """Circuits stay for so many times the dark time before, and for so many ms at least."""
        return (PERIOD_DELAYS, LEAST_PERIOD_MS) if self.period_ms is None else (0.0, self.period_ms)
