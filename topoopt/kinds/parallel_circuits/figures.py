"""Figures that follow from the configurations of parallel switches; none is stored."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.regional_circuits import ParallelCircuitsPlan, ParallelCircuitsProblem
from topoopt.core.result import Columns, Objective


@dataclass(frozen=True)
class BusiestLine:
    """The server that sends, or receives, for the longest.

    Attributes:
        server, sends: which one, and whether it is what it sends.
        demand_us: all its demand, microseconds.
        peers: how many servers it is exchanged with.
        least_us: its demand and a delay for each peer, shared by all switches.
    """

    server: int
    sends: bool
    demand_us: float
    peers: int
    least_us: float


def makespan_us(problem: ParallelCircuitsProblem, loads_us: Floats) -> float:
    """Return the time of the busiest switch, microseconds."""
    return float(loads_us.max()) - problem.saved_us


@dataclass(frozen=True, eq=False)
class ParallelCircuitsFigures:
    """What follows from the configurations: loads of the switches, and what the time is lost to."""

    problem: ParallelCircuitsProblem
    plan: ParallelCircuitsPlan

    @cached_property
    def objective(self) -> Objective:
        """The time of the busiest switch."""
        return Objective("makespan", makespan_us(self.problem, self.loads_us), "us")

    @cached_property
    def counts(self) -> list[int]:
        """The number of configurations of every switch."""
        switches = [switch for switch, _, _ in self.plan.configurations]
        return [switches.count(switch) for switch in range(self.problem.switches)]

    @cached_property
    def loads_us(self) -> Floats:
        """float64[s], durations and delays of every switch, that of its first configuration included."""
        switch, duration, _ = zip(*self.plan.configurations, strict=True)
        lit = np.bincount(switch, duration, self.problem.switches)
        return lit + self.problem.delay_us * np.array(self.counts)

    @property
    def delay_share(self) -> float:
        """Part of the time of all switches, while they work, that is delay."""
        delays = sum(max(count - (not self.problem.first_pays), 0) for count in self.counts) * self.problem.delay_us
        worked = float(self.loads_us.sum()) - self.problem.saved_us * sum(count > 0 for count in self.counts)
        return delays / worked if worked else 0.0

    @cached_property
    def busiest(self) -> BusiestLine:
        """The server whose demand and delays alone take longest."""
        demand = self.problem.demand_us
        rows = []
        for sends, axis in ((True, 1), (False, 0)):
            amounts, peers = demand.sum(axis=axis), (demand > 0).sum(axis=axis)
            least = (amounts + self.problem.delay_us * peers) / self.problem.switches
            server = int(least.argmax())
            rows.append(BusiestLine(server, sends, float(amounts[server]), int(peers[server]), float(least[server])))
        return max(rows, key=lambda row: row.least_us)

    def columns(self) -> dict[str, Columns]:
        """All configurations, as columns."""
        rows = self.plan.configurations
        switch, duration, targets = (list(column) for column in zip(*rows, strict=True))
        return {"configurations": {"switch": switch, "duration_us": duration, "targets": [list(t) for t in targets]}}
