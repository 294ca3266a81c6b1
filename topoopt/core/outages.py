"""Days of servers that are down, and what is left of a plan: results of `topoopt resilience --days`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OutageRow:
    """Days with so many spare servers.

    Attributes:
        spares: servers beside those of the plan.
        circuits: whether any servers make a copy of the model.
        mean, p99, worst: part of the throughput of the plan: mean of the days, what 99 % of them reach, least.
        whole_days: part of the days on which nothing is missing.
        exchanged: servers that copies get in place of others, a day in the mean.
        p99_step_s, worst_step_s: seconds for as many sequences as an iteration of the plan takes; None: none is done.
    """

    spares: int
    circuits: bool
    mean: float
    p99: float
    worst: float
    whole_days: float
    exchanged: float
    p99_step_s: float | None
    worst_step_s: float | None


@dataclass(frozen=True)
class Copies:
    """Whole copies of a model that a plan has: experts are on as many ranks as share them.

    Attributes:
        number: of them.
        servers_each: that hold one.
    """

    number: int
    servers_each: int


@dataclass(frozen=True, eq=False)
class OutageStudy:
    """A plan over days.

    Attributes:
        name: of the instance.
        copies: of the model.
        seed: of the draw.
        down: servers of the plan that are down, by day.
        rows: without spare servers and circuits, then with circuits for each number of spare servers.
        left: part of the throughput of the plan for each row, by day.
    """

    name: str
    copies: Copies
    seed: int
    down: tuple[int, ...]
    rows: tuple[OutageRow, ...]
    left: tuple[tuple[float, ...], ...]

    @property
    def days(self) -> int:
        """That were drawn."""
        return len(self.down)
