"""Jobs at once, each flow simulated: a plan for every class on every fabric, and the draws run together."""

from __future__ import annotations

from collections.abc import Sequence

from solvers.stop import Stop
from topoopt.core.errors import InputError, Problem
from topoopt.core.shared_cluster import PARTITIONED, Fabric, SharedCluster
from topoopt.core.shared_cluster_jobs import JobClass
from topoopt.core.shared_cluster_runs import ClassPlan
from topoopt.kinds.shared_cluster.plans import Planned, Tell, fabric_options, plan_class
from topoopt.simulate.cluster.together import JobOnServers, simulate_together
from topoopt.simulate.fabrics import FABRICS
from topoopt.workloads.jobs_at_once import Draw, sampled

MOST_UNEVEN = 100_000
"""Iterations of one job during one of another: about a minute of simulation."""


class JobFlows:
    """See `topoopt.kinds.shared_cluster.at_once.Contender`."""

    rates_gbps: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()

    def __init__(self, problem: SharedCluster) -> None:
        self.problem = problem
        self.classes: tuple[JobClass, ...] = problem.classes
        self.steps = len(problem.classes) * len(problem.fabrics)
        self._planned: list[list[Planned]] = []

    def prepare(self, stop: Stop, tell: Tell) -> None:
        """Plan every class for every fabric.

        Raises:
            InputError: a fabric that is not for this cluster, or classes too uneven to run together.
            InfeasibleError: a class has no plan.
        """
        for index in range(len(self.classes)):
            self._planned.append(plan_class(self.problem, index, self.problem.search, stop, tell))
        _refuse_uneven(self.problem, self._planned)

    def plans(self) -> tuple[ClassPlan, ...]:
        """For every fabric every class."""
        return tuple(own[place].plan for place in range(len(self.problem.fabrics)) for own in self._planned)

    def shard_ms(self, draw: Draw) -> tuple[float, ...]:
        """The times of plans are on the fabrics themselves."""
        return ()

    def run(self, draw: Draw, place: int) -> tuple[float, ...]:
        """First iteration of each job of a draw on one fabric, ms."""
        problem, fabric = self.problem, self.problem.fabrics[place]
        if fabric.kind == PARTITIONED:
            return tuple(
                sampled(self.classes[index], sample) or self._planned[index][place].plan.alone_ms
                for index, sample in zip(draw.classes, draw.sample, strict=True)
            )
        placed = []
        for index, servers in zip(draw.classes, draw.servers, strict=True):
            graph = self._planned[index][place].graph
            if graph is None:
                raise ValueError("a class without a job on a fabric that jobs share")
            placed.append(JobOnServers(graph, servers))
        options = fabric_options(fabric, draw.routes_seed)
        first = simulate_together(placed, problem.cluster, FABRICS[fabric.kind].build, options, problem.time_model)
        return tuple(float(time) for time in first)

    def describe(self, fabric: Fabric) -> str:
        """What a fabric that jobs share is."""
        return FABRICS[fabric.kind].describe(self.problem.cluster, fabric_options(fabric, 0))


def _refuse_uneven(problem: SharedCluster, planned: Sequence[Sequence[Planned]]) -> None:
    """Refuse jobs of which one would begin again for ever while another does its first iteration.

    Raises:
        InputError: iteration times alone are more than `MOST_UNEVEN` apart.
    """
    if all(fabric.kind == PARTITIONED for fabric in problem.fabrics):
        return
    alone = [each.plan.alone_ms for plans in planned for each in plans]
    if max(alone) > MOST_UNEVEN * min((time for time in alone if time > 0), default=0.0) > 0:
        text = f"{min(alone):.3g} to {max(alone):.3g} ms"
        allowed = f"iteration times within a factor of {MOST_UNEVEN}"
        raise InputError([Problem("classes too uneven to run together", path="classes", value=text, allowed=allowed)])
