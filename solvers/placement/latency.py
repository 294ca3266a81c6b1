"""Placements of least makespan: first placements, annealing, CP-SAT on all or on windows, rates, priorities.

What is found is a `Schedule` of the simulator, so its value is never a solver's claim; bounds are CP-SAT's.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.heuristics.placement import anneal, first_placements
from solvers.heuristics.placement.anneal import device_of
from solvers.heuristics.placement.groups import GroupGraph, group_graph
from solvers.heuristics.placement.priorities import polish_priorities
from solvers.heuristics.placement.starts import Placement
from solvers.placement.latency_exact import ExactResult, solve_exact
from solvers.placement.latency_rates import allocated
from solvers.stop import Stop
from topoopt.core.errors import InfeasibleError, LimitError
from topoopt.core.placement import Latency, PlacementProblem, RateAllocation
from topoopt.core.status import StopReason
from topoopt.simulate.placement_arrays import ALONE, FIFO, STATIC, PlacementArrays, placement_arrays
from topoopt.simulate.placement_rates import rates_by_volume, uniform_rates, volumes
from topoopt.simulate.placement_schedule import Schedule, ordered, simulated

CLOSE = 1e-9
"""Relative distance from a bound at which a value has reached it."""

RUNS = 6
"""First placements that are annealed."""

WINDOW_GROUPS = 40
"""Groups CP-SAT may move at once."""


@dataclass
class LatencySearch:
    """The state of one solve.

    Attributes:
        bound: best proven lower bound, ms, and `proved_by`.
        best: best schedule so far; `place`: its placement by groups.
        stopped_by: why the last engine ended, if it says so.
    """

    problem: PlacementProblem
    a: PlacementArrays
    g: GroupGraph
    stop: Stop
    seed: int
    bound: float
    proved_by: str
    best: Schedule | None = None
    place: Placement | None = None
    stopped_by: StopReason | None = None

    @property
    def allocate(self) -> bool:
        """Whether static rates are chosen here."""
        settings = self.problem.objective
        chosen = isinstance(settings, Latency) and settings.rates is RateAllocation.OPTIMISED
        return self.a.sharing == STATIC and chosen

    @property
    def value(self) -> float:
        """Best makespan, inf before there is one."""
        return np.inf if self.best is None else self.best.makespan_ms

    def closed(self) -> bool:
        """Whether the best one is proven optimal."""
        return self.value <= self.bound * (1 + CLOSE)

    def offer(self, schedule: Schedule, place: Placement) -> bool:
        """Keep a schedule if it is better."""
        if schedule.makespan_ms < self.value:
            self.best, self.place = schedule, place
            return True
        return False

    def rates_for(self, place: Placement) -> list[NDArray[np.float64]]:
        """Static rates worth trying for a placement, in closed form; one unused table for other kinds of sharing."""
        if not self.allocate:
            return [uniform_rates(self.a)]
        volume = volumes(self.a, device_of(self.a, place))
        tables = [rates_by_volume(self.a, volume, power) for power in (0.5, 1.0)]
        return tables if self.best is None else [*tables, self.best.rates]

    def offer_place(self, place: Placement, start_ms: NDArray[np.float64] | None = None) -> bool:
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

    def raise_bound(self, value: float, proved_by: str) -> None:
        """Take over a bound; one that rounding lifts above a value that is reached counts as reached."""
        if value > self.bound:
            self.bound, self.proved_by = min(value, self.value), proved_by


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


def open_search(problem: PlacementProblem, floor: tuple[float, str], seed: int, stop: Stop) -> LatencySearch:
    """A search that knows nothing but a lower bound.

    Raises:
        InfeasibleError: see `require_room`; or devices without links to the rest.
    """
    require_room(problem)
    a = placement_arrays(problem)
    return LatencySearch(problem, a, group_graph(a), stop, seed, *floor)


def start(search: LatencySearch) -> list[Placement]:
    """First placements, best first.

    Raises:
        InfeasibleError: none exists. LimitError: none was found in time.
    """
    places = [place for _, place in first_placements(search.a, search.g)]
    if not places:
        found = _packed(search)
        if found is not None:
            places = [found]
    ranked = []
    for number, place in enumerate(places):
        value = min(
            simulated(search.a, device_of(search.a, place), rates).makespan_ms for rates in search.rates_for(place)
        )
        ranked.append((value, number))
        search.offer_place(place)
    if search.best is None:
        raise LimitError("no placement within the memory of the devices was found in time")
    return [places[number] for _, number in sorted(ranked)]


def _packed(search: LatencySearch) -> Placement | None:
    """Any placement that fits, by CP-SAT."""
    left = search.stop.remaining_s()
    horizon = float(np.where(np.isfinite(search.a.time), search.a.time, 0.0).max(axis=1).sum())
    longest = search.a.tensor_size.sum() / search.a.network[search.a.network > 0].min(initial=np.inf)
    inside = search.a.tensor_size.sum() / search.a.inside[search.a.inside > 0].min(initial=np.inf)
    fixed = (search.a.alpha + search.a.alpha_inside) * (len(search.a.user) + 1)
    result = solve_exact(
        search.a,
        search.g,
        (horizon + longest + inside + fixed) * 2 + 1.0,
        stop=search.stop,
        time_s=30.0 if left is None else left,
        seed=search.seed,
        first_only=True,
    )
    if result.infeasible:
        raise InfeasibleError("no placement keeps co-located operators together within the memory of the devices")
    return result.place


def improve(search: LatencySearch, places: list[Placement], moves: int, until: float | None) -> None:
    """Anneal from the best first placements in turn, then again from the best.

    Args:
        moves: in all. until: `time.monotonic()` value at which to end.
    """
    chosen = places[:RUNS]
    for number, place in enumerate([*chosen, None]):
        origin = search.place if place is None else place
        if origin is None or search.closed() or search.stop.reason() is not None:
            return
        now = time.monotonic()
        share = 0.5 if place is None else 0.5 / len(chosen)
        deadline = search.stop.deadline
        if until is not None:
            runs_left = len(chosen) - number
            deadline = until if place is None else now + (until - now) * 0.5 / max(1, runs_left)
        if deadline is not None and now >= deadline:
            return
        result = anneal(
            search.a,
            search.g,
            origin,
            uniform_rates(search.a),
            allocate=search.allocate,
            moves=int(moves * share),
            seed=search.seed + 1_000_003 * number,
            stop=Stop(deadline, search.stop.interrupted),
            goal=search.bound,
        )
        search.offer_place(result.place)


def prove(search: LatencySearch, time_s: float, work: float | None, *, queues: bool) -> ExactResult | None:
    """CP-SAT on the whole graph: a bound, and perhaps a better placement; `queues`: with contention."""
    if search.best is None or search.place is None or search.closed():
        return None
    fixed_rates = search.a.sharing == STATIC and not search.allocate
    result = solve_exact(
        search.a,
        search.g,
        search.value,
        stop=search.stop,
        time_s=time_s,
        seed=search.seed,
        place=search.place,
        start_ms=search.best.start_ms,
        queues=queues,
        rates=uniform_rates(search.a) if fixed_rates else None,
        work_limit=work,
    )
    if result.place is not None:
        search.offer_place(result.place, result.start_ms)
    kind = "all placements and schedules" if queues or search.a.sharing == ALONE else "no contention"
    search.raise_bound(result.bound_ms, f"CP-SAT ({kind}, times rounded down)")
    return result


def exact_contention(search: LatencySearch) -> bool:
    """Whether rows for contention make the model exact for this kind of sharing."""
    return search.a.sharing == FIFO or (search.a.sharing == STATIC and not search.allocate)


def windows(search: LatencySearch, until: float | None, rounds: int) -> None:
    """Large neighbourhood search: CP-SAT places the groups that run in a window of time anew, the others stay."""
    rng = np.random.default_rng(search.seed)
    for _ in range(rounds):
        now = time.monotonic()
        done = search.stop.reason() is not None or (until is not None and now >= until)
        if done or search.best is None or search.place is None or search.closed():
            return
        moment = rng.uniform(0, search.value)
        distance = np.maximum(search.best.start_ms - moment, moment - search.best.end_ms)
        nearest = np.full(len(search.place), np.inf)
        np.minimum.at(
            nearest, search.a.group, np.where(search.a.memory + search.a.time.min(axis=1) > 0, distance, 1e30)
        )
        free = set(np.argsort(nearest, kind="stable")[:WINDOW_GROUPS].tolist())
        stays = {group: int(d) for group, d in enumerate(search.place.tolist()) if group not in free}
        result = solve_exact(
            search.a,
            search.g,
            search.value,
            stop=search.stop,
            time_s=5.0 if until is None else min(5.0, until - now),
            seed=int(rng.integers(2**31)),
            place=search.place,
            start_ms=search.best.start_ms,
            fixed=stays,
            work_limit=2.0,
        )
        if result.place is not None:
            search.offer_place(result.place, result.start_ms)


def finish(search: LatencySearch, moves: int, until: float | None) -> None:
    """Static rates by linear program, and better priorities, for the best placement."""
    if search.best is None or search.place is None or search.closed():
        return
    if search.allocate:
        search.offer(allocated(search.a, search.best, search.stop), search.place)
    deadline = until if until is not None else search.stop.deadline
    stop = Stop(deadline, search.stop.interrupted)
    search.offer(polish_priorities(search.a, search.best, moves, search.seed, stop), search.place)
    if search.allocate:
        search.offer(allocated(search.a, search.best, search.stop), search.place)


def reason_of(search: LatencySearch) -> StopReason:
    """Why a search that ran its course ended."""
    if search.closed():
        return StopReason.CONVERGED
    return search.stop.reason() or search.stopped_by or StopReason.BUDGET
