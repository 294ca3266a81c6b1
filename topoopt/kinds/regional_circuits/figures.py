"""Figures that follow from the circuits of a region; each is computed when it is first read, and none is stored."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.regional_circuits import RegionalCircuitsPlan, RegionalCircuitsProblem
from topoopt.core.result import Columns, Objective
from topoopt.simulate.circuits import RegionTraffic


@dataclass(frozen=True)
class StepTimes:
    """The times of a step.

    Attributes
    ----------
    circuits : index of its topology.
    stall_s : what the step waits for circuits that are reconfigured.
    transfer_s : from its first byte to its last.
    switch_s : what its transfers take at least if all interfaces lead into one electrical switch that nothing fills.
    """

    circuits: int
    stall_s: float
    transfer_s: float
    switch_s: float


def timed_step(traffic: RegionTraffic, circuits: Ints, topology: int, stall_s: float) -> StepTimes:
    """Return the times of a step over circuits by pair, which are those of a topology."""
    return StepTimes(topology, stall_s, traffic.seconds(circuits), traffic.switch_s())


@dataclass(frozen=True, eq=False)
class RegionalCircuitsFigures:
    """What follows from the circuits of every step: transfers, stalls, and bottlenecks."""

    problem: RegionalCircuitsProblem
    plan: RegionalCircuitsPlan

    @cached_property
    def reconfigured(self) -> tuple[bool, ...]:
        """Whether each step has other circuits than the step before."""
        return (False, *(first != second for first, second in pairwise(self.plan.steps)))

    @cached_property
    def steps(self) -> tuple[StepTimes, ...]:
        """The times of every step, in their order."""
        problem, circuits = self.problem, self.plan.circuits(self.problem)
        return tuple(
            timed_step(RegionTraffic.of(problem, problem.demands[k]), circuits[k], topology, stall if new else 0.0)
            for k, (topology, stall, new) in enumerate(
                zip(self.plan.steps, problem.stalls_s, self.reconfigured, strict=True)
            )
        )

    @cached_property
    def objective(self) -> Objective:
        """Transfers and stalls of all steps."""
        return Objective("communication_time", sum(step.stall_s + step.transfer_s for step in self.steps), "s")

    @property
    def switchings(self) -> int:
        """How many steps begin with other circuits than the step before."""
        return sum(self.reconfigured)

    @property
    def transfer_s(self) -> float:
        """Seconds of the transfers of all steps."""
        return sum(step.transfer_s for step in self.steps)

    @property
    def stall_s(self) -> float:
        """Seconds that all steps wait for circuits."""
        return sum(step.stall_s for step in self.steps)

    @property
    def switch_s(self) -> float:
        """What all steps take at least on one electrical switch with all interfaces."""
        return sum(step.switch_s for step in self.steps)

    @property
    def longest_step(self) -> int:
        """Index of the step with the longest transfers, the first of equals."""
        return max(range(len(self.steps)), key=lambda k: self.steps[k].transfer_s)

    def bottleneck(self, k: int) -> str:
        """Return what the transfers of a step use until their end, for people."""
        problem, circuits = self.problem, self.plan.circuits(self.problem)[k]
        traffic, time = RegionTraffic.of(problem, problem.demands[k]), self.steps[k].transfer_s
        carried = problem.circuit_rate * circuits * time
        if not problem.split:
            served = np.where(circuits > 0, traffic.larger / (problem.circuit_rate * np.maximum(circuits, 1)), 0.0)
            pair = int(np.argmax(served))
            if served[pair] >= time * (1 - 1e-9):
                return f"the circuits between servers {traffic.ends[pair, 0]} and {traffic.ends[pair, 1]}"
            carried = np.where(circuits > 0, np.inf, 0.0)
        wired = traffic.by_server(np.maximum(traffic.out - carried, 0.0), np.maximum(traffic.back - carried, 0.0))
        side, server = divmod(int(np.argmax(wired)), problem.servers)
        interfaces = "all interfaces" if problem.split else "the electrical interfaces"
        return f"{interfaces} {'to' if side else 'from'} server {server}"

    def columns(self) -> dict[str, Columns]:
        """The circuits of all topologies, as columns."""
        rows = [(index, *pair) for index, topology in enumerate(self.plan.topologies) for pair in topology]
        topology, first, second, count = ([row[column] for row in rows] for column in range(4))
        return {"links": {"topology": topology, "one": first, "other": second, "circuits": count}}
