"""The methods for objective latency."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from solvers.placement import latency as work
from solvers.placement.compaction import RULES, compacted
from solvers.placement.latency_joint import possible_orders, solve_joint
from solvers.placement.latency_search import LatencySearch, open_search, require_room
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem
from topoopt.core.placement import Latency, PlacementProblem
from topoopt.core.search_settings import SearchSettings
from topoopt.kinds.kind import Effort, Method, table
from topoopt.kinds.placement.latency_outcome import outcome_of
from topoopt.kinds.placement.outcome import PlacementOutcome
from topoopt.verify.placement.latency_bounds import latency_floor

OPERATOR_MOVES = 30_000_000
"""Operators simulated by the annealing if no time limit is given: seconds, and the same result each time."""

LEAST_MOVES, MOST_MOVES = 2_000, 60_000

EXACT_UP_TO = 5_000
"""Tensor consumers times devices up to which CP-SAT takes on the whole graph."""

WORK = 40.0
"""CP-SAT's deterministic time where no time limit is given."""

COMPACT_TO = 100
"""Blocks at which fusing ends."""

JOINT_UP_TO, JOINT_AUTO = 400, 160
"""Orders of two operators or transfers up to which the joint program is tried at all, and by `auto`."""

JOINT_S = 60.0
"""Seconds for the joint program where no time limit is given; graphs for `auto` took a few."""

Plan = Callable[[LatencySearch, SearchSettings], str | None]
"""A way to search; what it says is for people."""


def _moves(search: LatencySearch, effort: SearchSettings) -> int:
    """Moves of the annealing; priorities take a tenth as many, once or twice, so that all stay within a budget."""
    if effort.budget is not None:
        return effort.budget - 2 * (effort.budget // 12)
    if effort.time_limit_s is not None:
        return 1 << 40
    return max(LEAST_MOVES, min(MOST_MOVES, OPERATOR_MOVES // len(search.a.needs)))


def _until(search: LatencySearch, effort: SearchSettings, share: float) -> float | None:
    """When this share of what is left of the time limit is over."""
    left = search.stop.remaining_s()
    return None if left is None else time.monotonic() + share * left


def _small(search: LatencySearch) -> bool:
    return len(search.a.user) * len(search.a.room) <= EXACT_UP_TO


def listed(search: LatencySearch, effort: SearchSettings) -> None:
    """First placements only."""
    work.start(search)
    work.finish(search, 0, None)


def annealed(search: LatencySearch, effort: SearchSettings) -> None:
    """First placements, annealing, priorities and rates."""
    places = work.start(search)
    work.improve(search, places, _moves(search, effort), _until(search, effort, 0.85))
    work.finish(search, _moves(search, effort) // 10, _until(search, effort, 1.0))


def proven(search: LatencySearch, effort: SearchSettings) -> None:
    """Annealing, then CP-SAT on the whole graph, with contention if the model of it is exact."""
    places = work.start(search)
    # enough on small graphs; the rest of the time is for the proof
    moves = _moves(search, SearchSettings(budget=effort.budget))
    work.improve(search, places, moves, _until(search, effort, 0.3))
    work.finish(search, moves // 10, _until(search, effort, 0.1))
    budget = None if effort.time_limit_s is not None else WORK
    contended = work.exact_contention(search)
    for queues in (False, True) if contended else (False,):
        until = _until(search, effort, 0.4 if contended and not queues else 0.95)
        seconds = 600.0 if until is None else until - time.monotonic()
        work.prove(search, seconds, budget, queues=queues)
    work.finish(search, moves // 10, _until(search, effort, 1.0))


def windowed(search: LatencySearch, effort: SearchSettings) -> None:
    """Annealing, then CP-SAT on windows of time."""
    places = work.start(search)
    work.improve(search, places, _moves(search, effort), _until(search, effort, 0.5))
    work.windows(search, _until(search, effort, 0.8), 20 if effort.time_limit_s is None else 1 << 30)
    work.finish(search, _moves(search, effort) // 10, _until(search, effort, 1.0))


def compact_first(search: LatencySearch, effort: SearchSettings, rules: tuple[str, ...] = RULES) -> str:
    """Fuse operators, place the blocks (by CP-SAT if there are few), expand, polish on the original graph."""
    fused = compacted(search.problem, rules=rules, target=COMPACT_TO)
    began = time.monotonic()
    until = _until(search, effort, 0.5)
    half = None if effort.budget is None else effort.budget // 2
    part = replace(effort, time_limit_s=None if until is None else until - began, budget=half)
    try:
        floor = latency_floor(fused.problem)
        small = open_search(fused.problem, floor, effort.seed, search.stop.until(until))
        (proven if _small(small) else annealed)(small, part)
    except (InfeasibleError, LimitError):  # fusing can make a tight problem infeasible
        annealed(search, effort)
        return f"fused to {len(fused.problem.operators)} operators, which fit nowhere"
    assert small.best is not None
    device = small.best.device[fused.block_of]
    place = device[search.a.group_member[search.a.group_ptr[:-1]]].astype(np.int64)
    inside = np.empty(len(device))
    inside[search.a.topo] = np.arange(len(device))
    start_ms = small.best.start_ms[fused.block_of] + inside * 1e-12 * small.value
    search.offer_place(place, start_ms)
    rest = replace(effort, budget=None if half is None or effort.budget is None else effort.budget - half)
    work.improve(search, [place], _moves(search, rest), _until(search, effort, 0.9))
    work.finish(search, _moves(search, rest) // 10, _until(search, effort, 1.0))
    return f"fused to {len(fused.problem.operators)} operators, which take {small.value:.6g} ms at first"


def jointly(search: LatencySearch, effort: SearchSettings) -> None:
    """Annealing, then placement, orders and rates together as one program, with a proven bound."""
    problems = []
    if not search.allocate:
        text = "this method chooses static rates"
        settings = search.problem.objective
        given = f"{settings.sharing}, {settings.rates}" if isinstance(settings, Latency) else settings.name
        problems.append(Problem(text, path="latency", value=given, allowed="sharing: static, rates: optimised"))
    elif (orders := possible_orders(search)) > JOINT_UP_TO:
        text = "too large for the joint program"
        allowed = f"at most {JOINT_UP_TO} orders of two operators or transfers"
        problems.append(Problem(text, path="search.method", value=f"{orders} orders", allowed=allowed))
    if problems:
        raise InputError(problems)
    places = work.start(search)
    moves = min(MOST_MOVES // 10, _moves(search, SearchSettings(budget=effort.budget)))
    work.improve(search, places, moves, _until(search, effort, 0.2))
    work.finish(search, moves // 10, _until(search, effort, 0.1))
    if not search.closed():
        limit = None if effort.time_limit_s is not None else JOINT_S
        search.stopped_by = solve_joint(search, limit)


def chosen(search: LatencySearch) -> tuple[Plan, str]:
    """What `auto` does: a proof while the graph is small, annealing alone beyond."""
    if search.allocate and possible_orders(search) <= JOINT_AUTO:
        return jointly, "joint"
    return (proven, "exact") if _small(search) else (annealed, "anneal")


def auto(search: LatencySearch, effort: SearchSettings) -> None:
    """The method that fits the size of the graph."""
    chosen(search)[0](search, effort)


def last(search: LatencySearch) -> tuple[Ints, Floats, Floats]:
    """Placement, rates and starts of the best schedule."""
    assert search.best is not None
    return search.best.device, search.best.rates, search.best.start_ms


def _solve(problem: PlacementProblem, effort: Effort, plan: Plan, method: str) -> PlacementOutcome:
    require_room(problem)
    exact = compacted(problem, rules=())
    search = open_search(exact.problem, latency_floor(problem), effort.search.seed, effort.stop)
    if plan is auto:
        plan, method = chosen(search)

    def kept() -> None:
        best = replace(search)  # as it is now
        effort.keep(lambda: outcome_of(problem, best, method, None, exact))

    search.better = kept
    noted = plan(search, effort.search)
    return outcome_of(problem, search, method, noted, exact)


def _method(name: str, summary: str, plan: Plan) -> Method:
    return Method(name, summary, partial(_solve, plan=plan, method=name))


LATENCY_METHODS = table(
    _method("auto", "joint or exact while the graph is small, anneal beyond", auto),
    _method("list", "single device, topological fill, earliest finish: the best of them", listed),
    _method("anneal", "annealing of connected bunches of operators", annealed),
    _method("exact", "annealing, then intervals by CP-SAT with a proven bound", proven),
    _method("joint", "placement, orders and static rates as one program, with a proven bound", jointly),
    _method("compact", "fused operators placed first, then polish of all", compact_first),
    _method("windows", "annealing, then CP-SAT on windows of time", windowed),
)
