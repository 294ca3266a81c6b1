"""A plan: everything needed to patch the switches, set the routes and launch the job."""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.core.errors import InputError, Problem
from topoopt.core.group_schedule import GroupSchedule
from topoopt.core.routing import GroupRings, PathTable
from topoopt.core.shown import Shown
from topoopt.core.strategy import Strategy
from topoopt.core.topology import Topology


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Shown):
    """Strategy, topology, routes of every pair with model-parallel demand, and what AllReduces run on.

    Attributes:
        strategy: of the workload.
        topology: links of the servers.
        routes: of every pair with model-parallel demand.
        rings: of every group with an AllReduce that no schedule covers.
        schedules: what runs otherwise, by group and size of the payload.
    """

    strategy: Strategy
    topology: Topology
    routes: PathTable
    rings: tuple[GroupRings, ...]
    schedules: tuple[GroupSchedule, ...] = ()

    def require_rings(self, what: str) -> None:
        """Refuse a plan with AllReduces that are not on rings, for what knows rings only.

        Raises:
            InputError: says what, and what to ask for instead.
        """
        if self.schedules:
            methods = ", ".join(sorted({one.method for one in self.schedules}))
            raise InputError(
                [
                    Problem(
                        f"{what}: AllReduces on rings only",
                        path="plan.schedules",
                        value=methods,
                        allowed="a plan found with search.allreduce: rings",
                    )
                ]
            )
