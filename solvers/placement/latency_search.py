"""The state of one search for a placement of least makespan: the best schedule so far, and the best proven bound.

What is found is a `PlacedSchedule` of the simulator, so its value is never a solver's claim.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from solvers.placement.search.anneal import device_of
from solvers.placement.search.groups import GroupGraph, group_graph
from solvers.placement.search.starts import Placement
from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.errors import InfeasibleError
from topoopt.core.placement import Latency, PlacementProblem, RateAllocation
from topoopt.core.proofs import Argument, Bound
from topoopt.core.verdict import StopReason
from topoopt.native import placement
from topoopt.simulate.placement.arrays import ALONE, STATIC, PlacementArrays, placement_arrays
from topoopt.simulate.placement.rates import uniform_rates
from topoopt.simulate.placement.schedule import PlacedSchedule, ordered, simulated

CLOSE = 1e-9
"""Relative distance from a bound at which a value has reached it."""


@dataclass
class LatencySearch:
    """The state of one solve.

    Attributes:
        floor: lower bound by a formula, ms.
        claim: a larger one by a program; None where there is none.
        best: best schedule so far; `place`: its placement by groups.
        stopped_by: why the last engine ended, if it says so.
        better: called after each schedule that is better than those before.
    """

    problem: PlacementProblem
    a: PlacementArrays
    g: GroupGraph
    stop: Stop
    seed: int
    floor: Bound
    claim: Bound | None = None
    best: PlacedSchedule | None = None
    place: Placement | None = None
    stopped_by: StopReason | None = None
    better: Callable[[], None] | None = None

    @property
    def allocate(self) -> bool:
        """Whether static rates are chosen here."""
        settings = self.problem.objective
        chosen = isinstance(settings, Latency) and settings.rates is RateAllocation.OPTIMISED
        return self.a.sharing == STATIC and chosen

    @property
    def bound(self) -> float:
        """The larger of floor and claim, ms."""
        return self.floor.value if self.claim is None else self.claim.value

    @property
    def value(self) -> float:
        """Best makespan, inf before there is one."""
        return np.inf if self.best is None else self.best.makespan_ms

    def closed(self) -> bool:
        """Whether the best one is proven optimal."""
        return self.value <= self.bound * (1 + CLOSE)

    def offer(self, schedule: PlacedSchedule, place: Placement) -> bool:
        """Keep a schedule if it is better."""
        if schedule.makespan_ms < self.value:
            self.best, self.place = schedule, place
            if self.better is not None:
                self.better()
            return True
        return False

    def rates_for(self, place: Placement) -> list[Floats]:
        """Static rates worth trying for a placement, in closed form; one unused table for other kinds of sharing."""
        if not self.allocate:
            return [uniform_rates(self.a)]
        device = device_of(self.a, place)
        tables = [placement.rates_by_volume(self.a, device, power) for power in (0.5, 1.0)]
        return tables if self.best is None else [*tables, self.best.rates]

    def offer_place(self, place: Placement, start_ms: Floats | None = None) -> bool:
        """Simulate a placement, also in the order of given starts."""
        device = device_of(self.a, place)
        better = False
        for rates in self.rates_for(place):
            better |= self.offer(simulated(self.a, device, rates), place)
            if start_ms is not None:
                better |= self.offer(simulated(self.a, device, rates, start_ms), place)
        if start_ms is not None and self.a.sharing == ALONE:
            better |= self.offer(ordered(self.a, device, uniform_rates(self.a), start_ms), place)
        return better

    def raise_bound(self, value: float, argument: Argument) -> None:
        """Take over a bound; one that rounding lifts above a value that is reached counts as reached."""
        if value > self.bound:
            self.claim = Bound(min(value, self.value), argument)


def require_room(problem: PlacementProblem) -> None:
    """Refuse what no placement can hold.

    Raises:
        InfeasibleError: a group that fits no device, or more bytes than all devices have.
    """
    a = placement_arrays(problem)
    g = group_graph(a)
    fits = np.isfinite(g.time) & (g.memory[:, None] <= a.room[None, :])
    homeless = np.flatnonzero(~fits.any(axis=1))
    if len(homeless):
        group = int(homeless[0])
        members = a.group_member[a.group_ptr[group] : a.group_ptr[group + 1]].tolist()
        names = ", ".join(problem.operators[i].name for i in members[:5])
        raise InfeasibleError(
            f"no device can hold {names}{', ...' if len(members) > 5 else ''} "
            f"({g.memory[group]} bytes; {len(homeless)} such groups of operators)"
        )
    if g.memory.sum() > sum(a.room.tolist()):
        raise InfeasibleError(f"the operators need {g.memory.sum()} bytes, the devices have {sum(a.room.tolist())}")


def open_search(problem: PlacementProblem, floor: Bound, seed: int, stop: Stop) -> LatencySearch:
    """A search that knows nothing but a lower bound.

    Raises:
        InfeasibleError: see `require_room`; or devices without links to the rest.
    """
    require_room(problem)
    a = placement_arrays(problem)
    return LatencySearch(problem, a, group_graph(a), stop, seed, floor)


def reason_of(search: LatencySearch) -> StopReason:
    """Why a search that ran its course ended."""
    if search.closed():
        return StopReason.CONVERGED
    return search.stop.reason() or search.stopped_by or StopReason.BUDGET
