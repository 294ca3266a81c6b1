"""Engines for placements of least makespan: first placements, annealing, CP-SAT (all, or windows), rates, priorities.

Each works on a `LatencySearch`, to which it offers what it finds; bounds are CP-SAT's.
"""

from __future__ import annotations

import time

import numpy as np

from solvers.placement.latency_exact import ExactResult, solve_exact
from solvers.placement.latency_rates import allocated
from solvers.placement.latency_search import LatencySearch
from solvers.placement.search import anneal, first_placements
from solvers.placement.search.anneal import device_of
from solvers.placement.search.priorities import polish_priorities
from solvers.placement.search.starts import Placement
from topoopt.core.errors import InfeasibleError, LimitError
from topoopt.core.proofs import Argument
from topoopt.simulate.placement.arrays import ALONE, FIFO, STATIC
from topoopt.simulate.placement.rates import uniform_rates
from topoopt.simulate.placement.schedule import simulated

RUNS = 6
"""First placements that are annealed."""

WINDOW_GROUPS = 40
"""Groups CP-SAT may move at once."""


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
            stop=search.stop.until(deadline),
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
    contended = queues or search.a.sharing == ALONE
    search.raise_bound(result.bound_ms, Argument.SCHEDULE_CP_SAT if contended else Argument.SCHEDULE_NO_CONTENTION)
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
    stop = search.stop.until(deadline)
    search.offer(polish_priorities(search.a, search.best, moves, search.seed, stop), search.place)
    if search.allocate:
        search.offer(allocated(search.a, search.best, search.stop), search.place)
