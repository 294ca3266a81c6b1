"""Figures that follow from the circuits for a job; each is computed when it is first read, and none is stored."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from topoopt.core.arrays import Floats
from topoopt.core.dag_topology import DagTopologyPlan, DagTopologyProblem
from topoopt.core.result import Columns, Objective
from topoopt.simulate.dag import StepGraph, followed

Channel = tuple[int, int]


@dataclass(frozen=True)
class StepSpan:
    """When a step is under way.

    Attributes
    ----------
    name : of the transfer or task.
    source, target : pods of a transfer; -1 for a task.
    start, end : in the unit of time of the instance.
    """

    name: str
    source: int
    target: int
    start: float
    end: float


@dataclass(frozen=True, eq=False)
class DagTopologyFigures:
    """What follows from the circuits for a job: when steps are under way, ports and channels in use."""

    problem: DagTopologyProblem
    plan: DagTopologyPlan

    @cached_property
    def spans(self) -> tuple[Floats, Floats]:
        """Start and end of every step, transfers first."""
        start, end = followed(StepGraph.of(self.problem), self.plan.circuits, self.problem.rate)
        return start, end

    @cached_property
    def steps(self) -> tuple[StepSpan, ...]:
        """When each step is under way, transfers first, in the order of the instance."""
        problem, (start, end) = self.problem, self.spans
        ends = [(m.source, m.target) for m in problem.transfers] + [(-1, -1)] * len(problem.tasks)
        rows = zip(problem.names, ends, start.tolist(), end.tolist(), strict=True)
        return tuple(StepSpan(name, *pods, begin, over) for name, pods, begin, over in rows)

    @property
    def makespan(self) -> float:
        """When the last step of the job ends."""
        return float(self.spans[1].max())

    @property
    def objective(self) -> Objective:
        """The makespan, in the unit of time of the instance."""
        return Objective("makespan", self.makespan, self.problem.time_unit)

    @property
    def compute_time(self) -> float:
        """The job if transfers took no time."""
        return self.problem.compute_time

    @property
    def communication_time(self) -> float:
        """By how much the job takes longer than if transfers took no time."""
        return max(0.0, self.makespan - self.compute_time)

    @cached_property
    def circuits(self) -> tuple[tuple[int, int, int], ...]:
        """The circuits of each pair of pods, by pair, ascending."""
        rows = zip(self.problem.pairs, self.plan.circuits.tolist(), strict=True)
        return tuple((*pair, count) for pair, count in rows)

    @property
    def circuits_total(self) -> int:
        return int(self.plan.circuits.sum())

    @cached_property
    def ports_used(self) -> tuple[int, ...]:
        """How many ports of each pod have a circuit."""
        used = [0] * self.problem.pods
        for pod, peer, count in self.circuits:
            used[pod] += count
            used[peer] += count
        return tuple(used)

    @property
    def ports_saved(self) -> int:
        """Ports of all pods that no circuit ends at."""
        return sum(self.problem.ports) - 2 * self.circuits_total

    @cached_property
    def by_channel(self) -> dict[Channel, list[StepSpan]]:
        """Transfers of each direction of each pair, by their start; channels ascending."""
        channels: dict[Channel, list[StepSpan]] = {}
        for step in self.steps:
            if step.source >= 0:
                channels.setdefault((step.source, step.target), []).append(step)
        return {
            channel: sorted(channels[channel], key=lambda step: (step.start, step.end, step.name))
            for channel in sorted(channels)
        }

    @cached_property
    def channel_use(self) -> dict[Channel, float]:
        """Part of the makespan in which something is transferred, by the circuits of a pair in one direction."""
        shares = {}
        for channel, steps in self.by_channel.items():
            busy, until = 0.0, 0.0
            for step in steps:
                busy += max(0.0, step.end - max(step.start, until))
                until = max(until, step.end)
            shares[channel] = busy / self.makespan if self.makespan > 0 else 0.0
        return shares

    def columns(self) -> dict[str, Columns]:
        """Return the circuits as a table of links."""
        names = ("one", "other", "circuits")
        return {"links": {name: [row[k] for row in self.circuits] for k, name in enumerate(names)}}
