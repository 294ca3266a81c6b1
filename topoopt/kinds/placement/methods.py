"""The methods of kind `placement`, and the result that their placements amount to.

Both objectives have methods of their own. A method returns a plan, claims of solvers, and what a search through
everything proves where that is little work.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from solvers.placement import makespan as engines
from solvers.placement.compaction import RULES, Compaction, compacted
from solvers.placement.makespan_search import LatencySearch, open_search, reason_of, require_capacity
from solvers.placement.pipelines import (
    MOST_DEVICES,
    Search,
    block_prices,
    enumerate_assignments,
    polish,
    program_columns,
    prove,
    slice_orders,
)
from solvers.placement.static_rates import in_given_orders, pack_links, possible_orders, solve_joint
from solvers.stop import Stop, at_most, first_part
from topoopt.core.arrays import Floats, Int32s, bytes_per_ms
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem
from topoopt.core.placement import (
    Latency,
    LinkShare,
    PlacementPlan,
    PlacementProblem,
    Throughput,
    WalkSize,
    cut_certificate,
    exhaustive_certificate,
    queued_transfers,
    schedule_certificate,
)
from topoopt.core.proofs import Argument, Bound, StopReason, Tolerance, meets
from topoopt.core.result import Certificate, Result, SearchResult, SearchSettings
from topoopt.kinds.kind import Effort, Method, MethodTables, Solver, table
from topoopt.kinds.pipeline import assembled, judged
from topoopt.simulate.placement import STATIC, PlacedSchedule, simulated
from topoopt.verify.placement.bounds import block_cuts, free_blocks, latency_floor, work_bound
from topoopt.verify.placement.check import checker_of
from topoopt.verify.placement.exhaustive import searches
from topoopt.verify.placement.schedules import ScheduleWalk

Placed = SearchResult[PlacementPlan]

DEFAULT_S = 60.0
"""Time limit of an exact search where none is given."""

PROGRAMS = {"cp-sat": Argument.STAGE_CP_SAT, "highs": Argument.STAGE_HIGHS}
"""What the stage-order program claims, by who solves it."""

EXACT_COLUMNS = 60_000
"""Columns of the stage-order program up to which `auto` tries to prove anything."""

FEW_ASSIGNMENTS = 4**10
"""Assignments of co-located groups to devices that are searched through whatever the links and the claims are."""

CUT_BLOCKS, CUT_HALVINGS = 64, 8
"""Co-located groups up to which cuts around each are priced; steps between the work and the value."""

FEW_OPERATORS = 64
"""Operators whose schedules are walked through whatever is claimed."""

WALKS = (
    WalkSize(rows=20_000),
    WalkSize(rows=50_000, doll_tasks=12, doll_rows=100),
    WalkSize(rows=200_000, doll_tasks=20, doll_rows=500),
)
"""Walks over schedules that are tried one after the other, each forwards and backwards."""

LARGE_WALK = 40
"""Operators up to which the largest of them is tried."""

QUEUED_WALK = 24
"""Operators up to which queues are walked through at length; dolls of queues take many times those without."""

HALVINGS, HALVED = 6, replace(WALKS[1], rows=70_000)
"""Of what is open between bound and value, where no walk at the value ends; and the walk at each."""

FULL_S = 10.0
"""Seconds remaining with which the whole effort of a check is spent; with less, as much less."""


# What is common to both objectives.


def exhaustive_proof(
    problem: PlacementProblem, value: float, bounds: Iterable[Bound], stop: Stop
) -> tuple[tuple[Bound, ...], tuple[Certificate, ...]]:
    """Return what a search through everything proves, of contiguous pipelines, of small problems, or of claims met.

    Nothing is searched where a verified bound meets the value.

    Returns:
        At most one bound, and its certificate.
    """
    closed = [bound for bound in bounds if meets(value, bound.value, Tolerance.TIMES_ROUNDED_DOWN)]
    if any(bound.verified for bound in closed) or stop.interrupted.is_set():
        return (), ()
    if isinstance(problem.objective, Throughput):
        few = problem.objective.stages == "contiguous"
        few = few or len(problem.devices) ** len(problem.colocated()) <= FEW_ASSIGNMENTS
    else:
        few = len(problem.operators) <= FEW_OPERATORS
    if not (few or closed):
        return cut_proof(problem, value, stop)
    remaining = stop.remaining_s()
    share = 1.0 if remaining is None else min(1.0, remaining / FULL_S)
    if not isinstance(problem.objective, Throughput):
        floor = max((bound.value for bound in bounds if bound.verified), default=0.0)
        return schedule_proof(problem, value, floor, share, stop)
    for argument, search in searches(problem).items():
        try:
            return (Bound(search(value, share), argument),), (exhaustive_certificate(argument, value),)
        except ValueError:  # it is too much
            continue
    return cut_proof(problem, value, stop)


def cut_proof(problem: PlacementProblem, value: float, stop: Stop) -> tuple[tuple[Bound, ...], tuple[Certificate, ...]]:
    """Return the largest load that the cuts around blocks refute, by halves below a value, with its certificate."""
    settings = problem.objective
    if not isinstance(settings, Throughput) or len(problem.colocated()) > CUT_BLOCKS:
        return (), ()
    low, high = work_bound(problem, settings), value
    best: Certificate | None = None
    with suppress(ValueError):  # loads are other sums
        free_blocks(problem)
        for _ in range(CUT_HALVINGS):
            limit = (low + high) / 2
            prices = block_prices(problem, limit, stop)
            if prices is None:
                break
            if block_cuts(problem, limit, *prices) > 0:
                low, best = limit, cut_certificate(limit, *prices)
            else:
                high = limit
    return ((), ()) if best is None else ((Bound(low, Argument.BLOCK_CUTS),), (best,))


def schedule_proof(
    problem: PlacementProblem, value: float, floor: float, share: float, stop: Stop
) -> tuple[tuple[Bound, ...], tuple[Certificate, ...]]:
    """Return the largest makespan that walks over schedules prove, without contention or with queues, its certificate.

    Args:
        value: of the plan, ms.
        floor: that is proven already.
        share: of the rows of a walk that time is left for.
    """
    walks: dict[tuple[Argument, WalkSize], ScheduleWalk] = {}

    def walked(argument: Argument, limit: float, size: WalkSize) -> tuple[float, WalkSize] | None:
        for backwards in (False, True):
            selected = replace(size, backwards=backwards, rows=max(1, int(share * size.rows)))
            if stop.reason() is None and value > 0:
                with suppress(ValueError):  # it is too much
                    if (argument, selected) not in walks:
                        queues = argument is Argument.QUEUED_SCHEDULES
                        walks[argument, selected] = ScheduleWalk(problem, value, selected, queues=queues)
                    return walks[argument, selected].least(limit, selected.rows), selected
        return None

    def derived(argument: Argument, low: float) -> tuple[Bound, Certificate] | None:
        count = len(problem.operators)
        few = count <= (QUEUED_WALK if argument is Argument.QUEUED_SCHEDULES else FEW_OPERATORS)
        for size in WALKS[: 3 if few and count <= LARGE_WALK else 2 if few else 1]:
            if (proven := walked(argument, value, size)) is not None:
                return Bound(proven[0], argument), schedule_certificate(argument, value, proven[1])
        best, high = None, value
        for _ in range(HALVINGS if few else 0):
            limit = (low + high) / 2
            proven = walked(argument, limit, HALVED)
            if proven is None:
                high = limit
                continue
            low = proven[0]
            best = Bound(low, argument), schedule_certificate(argument, limit, proven[1])
            if low < limit:  # the least of all
                break
        return best

    best = derived(Argument.ALL_SCHEDULES, floor)
    low = floor if best is None else best[0].value
    fifo = isinstance(problem.objective, Latency) and problem.objective.sharing == "fifo"
    if fifo and not meets(value, low, Tolerance.TIMES_ROUNDED_DOWN):
        queued = derived(Argument.QUEUED_SCHEDULES, low)
        best = queued if queued is not None and queued[0].value > low else best
    return ((), ()) if best is None else ((best[0],), (best[1],))


# Objective throughput.


def _heuristic(problem: PlacementProblem, effort: Effort, stop: Stop) -> Search:
    search = Search(problem)

    def on_incumbent() -> None:
        best = copy(search)  # as it is now
        effort.keep(lambda: _placed(best, (), stop.reason() or StopReason.TIME, "slices", stop))

    search.better = on_incumbent
    budget = effort.search.budget
    orders = slice_orders(search, effort.search.seed, stop, budget)
    if not search.graph.costs.uniform or search.settings.stages != "contiguous":
        polish(search, effort.search.seed, stop, None if budget is None else max(0, budget - orders))
    return search


def _placed(search: Search, claims: tuple[Bound, ...], stopped_by: StopReason, method: str, stop: Stop) -> Placed:
    problem, device = search.problem, search.placement()
    floor = Bound(work_bound(problem, search.settings), Argument.DEVICE_WORK)
    notes: tuple[str, ...] = (f"{len(problem.operators)} operators in {search.graph.size} blocks by exact reductions",)
    if not search.graph.costs.uniform:
        notes += ("bounds of programs take each device's transfers at the rate of its fastest link",)
    bounds, certificates = exhaustive_proof(problem, search.value, (floor, *claims), stop)
    return SearchResult(
        plan=PlacementPlan(device=device),
        certificates=certificates,
        stopped_by=stopped_by,
        method=method,
        bounds=(*claims, *bounds),
        notes=notes,
    )


def slices(problem: PlacementProblem, effort: Effort) -> Placed:
    """Order slicing and local search only."""
    search = _heuristic(problem, effort, effort.stop)
    ran = StopReason.CONVERGED if effort.search.budget is None or search.closed() else StopReason.BUDGET
    return _placed(search, (), effort.stop.reason() or ran, "slices", effort.stop)


def _programmed(search: Search, backend: str, seed: int, stop: Stop, bounds: tuple[Bound, ...]) -> Placed:
    """Return the placement after the stage-order program by a backend; `bounds`: claims so far."""
    if search.closed():
        return _placed(search, bounds, StopReason.CONVERGED, "slices", stop)
    value, stopped_by = prove(search, backend, seed, stop)
    return _placed(search, (*bounds, Bound(value, PROGRAMS[backend])), stopped_by, backend, stop)


def exact(problem: PlacementProblem, effort: Effort, backend: str) -> Placed:
    """Order slicing, then the stage-order program by a backend."""
    stop = at_most(effort.stop, DEFAULT_S)
    search = _heuristic(problem, effort, stop)
    return _programmed(search, backend, effort.search.seed, stop, ())


def _enumerated(search: Search, stop: Stop) -> tuple[Bound, StopReason]:
    value, stopped_by = enumerate_assignments(search, stop)
    if search.best is None and stopped_by is StopReason.CONVERGED:
        raise InfeasibleError("no placement fits: memory, co-location and device classes leave none")
    return Bound(value if math.isfinite(value) else 0.0, Argument.ASSIGNMENTS_LEFT), stopped_by


def assignments(problem: PlacementProblem, effort: Effort) -> Placed:
    """Order slicing and local search, then all assignments with what cannot be better cut off."""
    stop = at_most(effort.stop, DEFAULT_S)
    search = _heuristic(problem, effort, stop)
    bound, stopped_by = _enumerated(search, stop)
    return _placed(search, (bound,), stopped_by, "assignments", stop)


def _few_devices(problem: PlacementProblem) -> Problem | None:
    if len(problem.devices) <= MOST_DEVICES:
        return None
    text = "this method looks at all assignments to few devices"
    return Problem(text, path="servers", value=f"{len(problem.devices)} devices", allowed=f"at most {MOST_DEVICES}")


def auto(problem: PlacementProblem, effort: Effort) -> Placed:
    """CP-SAT where the program is not too large, order slicing alone beyond.

    All assignments are looked at first where they are few, and where links differ: there the program proves only a
    bound.
    """
    if program_columns(problem) > EXACT_COLUMNS:
        return slices(problem, effort)
    stop = at_most(effort.stop, DEFAULT_S)
    search = _heuristic(problem, effort, stop)
    contiguous = search.graph.costs.uniform and search.settings.stages == "contiguous"
    if contiguous and search.best is not None and not search.closed():
        placed = _placed(search, (), StopReason.CONVERGED, "slices", stop)  # a walk over ideals is quick where it ends
        if any(meets(search.value, bound.value, Tolerance.TIMES_ROUNDED_DOWN) for bound in placed.bounds):
            return placed
    bounds: tuple[Bound, ...] = ()
    few = search.graph.devices**search.graph.size <= FEW_ASSIGNMENTS
    if (few or not search.graph.costs.uniform) and not search.closed():
        bound, stopped_by = _enumerated(search, first_part(stop, 0.6, DEFAULT_S))
        bounds = (bound,)
        if stopped_by is StopReason.CONVERGED:
            return _placed(search, bounds, stopped_by, "assignments", stop)
    return _programmed(search, "cp-sat", effort.search.seed, stop, bounds)


THROUGHPUT_METHODS = table(
    Method("auto", "cp-sat, assignments where links differ; order slicing alone beyond their reach", auto),
    Method("cp-sat", "stage-order program by CP-SAT, times rounded down", partial(exact, backend="cp-sat")),
    Method("highs", "stage-order program by HiGHS", partial(exact, backend="highs")),
    Method("assignments", "all assignments to few devices, cut off by bounds", assignments, _few_devices),
    Method("slices", "best slices of several topological orders, local search", slices),
)


# Objective latency.

OPERATOR_MOVES = 30_000_000
"""Operators simulated by the annealing if no time limit is given: seconds, and the same result each time."""

LEAST_MOVES, MOST_MOVES = 2_000, 60_000

EXACT_EDGES = 5_000
"""Tensor consumers times devices up to which CP-SAT takes on the whole graph."""

CP_SAT_WORK = 40.0
"""CP-SAT's deterministic time where no time limit is given."""

COMPACT_TO = 100
"""Blocks at which fusing ends."""

JOINT_UP_TO, JOINT_AUTO = 400, 160
"""Orders of two operators or transfers up to which the joint program is tried at all, and by `auto`."""

JOINT_S = 60.0
"""Seconds for the joint program where no time limit is given; graphs for `auto` took a few."""

Strategy = Callable[[LatencySearch, SearchSettings], str | None]
"""Searches, and returns a note for people."""


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
    return len(search.a.user) * len(search.a.room) <= EXACT_EDGES


def listed(search: LatencySearch, effort: SearchSettings) -> None:
    """Take the best of the first placements, without annealing."""
    engines.start(search)
    engines.finish(search, 0, None)


def annealed(search: LatencySearch, effort: SearchSettings) -> None:
    """First placements, annealing, priorities and rates."""
    engines.improve(search, engines.start(search), _moves(search, effort), _until(search, effort, 0.85))
    engines.finish(search, _moves(search, effort) // 10, _until(search, effort, 1.0))


def proven(search: LatencySearch, effort: SearchSettings) -> None:
    """Annealing, then CP-SAT on the whole graph, with contention if the model of it is exact."""
    incumbents = engines.start(search)
    # enough on small graphs; the rest of the time is for the proof
    moves = _moves(search, SearchSettings(budget=effort.budget))
    few = len(search.problem.operators) <= FEW_OPERATORS and not engines.devices_alike(search.a) and not search.allocate
    if few:
        engines.improve_orders(search, None if effort.budget is None else moves, _until(search, effort, 0.3))
    else:
        engines.improve(search, incumbents, moves, _until(search, effort, 0.3))
    engines.finish(search, moves // 10, _until(search, effort, 0.1))
    budget = None if effort.time_limit_s is not None else CP_SAT_WORK / 4 if few else CP_SAT_WORK
    contended = engines.exact_contention(search)
    for queues in (False, True) if contended else (False,):
        until = _until(search, effort, 0.4 if contended and not queues else 0.95)
        seconds = 600.0 if until is None else until - time.monotonic()
        engines.prove(search, seconds, budget, queues=queues)
    engines.finish(search, moves // 10, _until(search, effort, 1.0))


def windowed(search: LatencySearch, effort: SearchSettings) -> None:
    engines.improve(search, engines.start(search), _moves(search, effort), _until(search, effort, 0.5))
    engines.windows(search, _until(search, effort, 0.8), 20 if effort.time_limit_s is None else 1 << 30)
    engines.finish(search, _moves(search, effort) // 10, _until(search, effort, 1.0))


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
    homes = device[search.a.group_member[search.a.group_ptr[:-1]]].astype(np.int64)
    inside = np.empty(len(device))
    inside[search.a.topo] = np.arange(len(device))
    start_ms = small.best.start_ms[fused.block_of] + inside * 1e-12 * small.value
    search.offer_place(homes, start_ms)
    rest = replace(effort, budget=None if half is None or effort.budget is None else effort.budget - half)
    engines.improve(search, [homes], _moves(search, rest), _until(search, effort, 0.9))
    engines.finish(search, _moves(search, rest) // 10, _until(search, effort, 1.0))
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
    incumbents = engines.start(search)
    moves = min(MOST_MOVES // 10, _moves(search, SearchSettings(budget=effort.budget)))
    engines.improve(search, incumbents, moves, _until(search, effort, 0.2))
    engines.finish(search, moves // 10, _until(search, effort, 0.1))
    if not search.closed():
        limit = None if effort.time_limit_s is not None else JOINT_S
        search.stopped_by = solve_joint(search, limit)


def chosen(search: LatencySearch) -> tuple[Strategy, str]:
    """What `auto` does: a proof while the graph is small, annealing alone beyond."""
    if search.allocate and possible_orders(search) <= JOINT_AUTO:
        return jointly, "joint"
    return (proven, "exact") if _small(search) else (annealed, "anneal")


def latency_auto(search: LatencySearch, effort: SearchSettings) -> None:
    chosen(search)[0](search, effort)


def expanded(best: PlacedSchedule, exact: Compaction) -> PlacedSchedule:
    """A schedule of the problem reduced by exact rules, for the original one: idle sources are ready at once."""
    transfers = (replace(row, tensor=int(exact.tensor_of[row.tensor])) for row in best.transfers)
    return replace(
        best,
        device=best.device[exact.block_of],
        start_ms=np.where(exact.idle, 0.0, best.start_ms[exact.block_of]),
        end_ms=np.where(exact.idle, 0.0, best.end_ms[exact.block_of]),
        transfers=tuple(sorted(transfers, key=lambda row: (row.start_ms, row.tensor, row.target))),
    )


def sent_rates(search: LatencySearch, best: PlacedSchedule) -> Floats:
    """float64[servers, servers]: the rates; where they are chosen, only of pairs that send something."""
    if not search.allocate:
        return best.rates
    problem = search.problem
    server = [entry.server for entry in problem.devices]
    sends = np.zeros_like(best.rates, dtype=bool)
    for transfer in best.transfers:
        tensor = problem.tensors[transfer.tensor]
        if tensor.size_bytes:
            sends[server[int(best.device[tensor.producer])], server[transfer.target]] = True
    return np.where(sends, best.rates, 0.0)


def placed_schedule(
    problem: PlacementProblem, search: LatencySearch, method: str, note: str | None, exact: Compaction
) -> Placed:
    """Return the best schedule of a search, for the problem before exact reductions, at rates that the links carry.

    Args:
        problem: before the reductions.
        search, exact: of the reduced problem, and what was reduced.
        method: that ran.
        note: for people.

    Raises:
        LimitError: There is none.
    """
    best, a = search.best, search.a
    if best is None:
        raise LimitError("no placement was found in time")
    shares: list[LinkShare] = []
    notes: tuple[str, ...] = () if note is None else (note,)
    if a.sharing == STATIC:
        unit = bytes_per_ms(1.0)
        target = sent_rates(search, best) / unit
        rates_gbps, shares = pack_links(search.problem.servers, target)
        if (rates_gbps * (1 + 1e-12) < target).any():
            if (rates_gbps * (1 + 1e-6) < target).any():
                notes += ("the physical links cannot carry the chosen rates; all were scaled down",)
            retained = in_given_orders(a, best, rates_gbps * unit)
            best = simulated(a, best.device, rates_gbps * unit, best.start_ms)
            best = retained if retained is not None and retained.makespan_ms < best.makespan_ms else best
    best = expanded(best, exact)
    claims = () if search.claim is None else (search.claim,)
    bounds, certificates = exhaustive_proof(problem, best.makespan_ms, (search.floor, *claims), search.stop)
    return SearchResult(
        plan=plan_of(problem, best, shares),
        certificates=certificates,
        stopped_by=StopReason.CONVERGED if search.closed() else reason_of(search),
        method=method,
        bounds=(*claims, *bounds),
        notes=notes,
    )


def plan_of(problem: PlacementProblem, schedule: PlacedSchedule, shares: Iterable[LinkShare]) -> PlacementPlan:
    """Return the decisions in a schedule of the simulator."""
    device = schedule.device.astype(np.int32)
    sent = {(row.tensor, row.target): row.start_ms for row in schedule.transfers}
    return PlacementPlan(
        device=device,
        start_ms=schedule.start_ms,
        send_ms=np.array([sent[key] for key in queued_transfers(problem, device)], dtype=np.float64),
        link_shares=tuple(sorted(shares, key=lambda share: (share.source, share.target, share.link))),
    )


def _solve(problem: PlacementProblem, effort: Effort, strategy: Strategy, method: str) -> Placed:
    require_capacity(problem)
    exact = compacted(problem, rules=())
    search = open_search(exact.problem, latency_floor(problem), effort.search.seed, effort.stop)
    if strategy is latency_auto:
        strategy, method = chosen(search)

    def on_incumbent() -> None:
        best = replace(search)  # as it is now
        effort.keep(lambda: placed_schedule(problem, best, method, None, exact))

    search.better = on_incumbent
    return placed_schedule(problem, search, method, strategy(search, effort.search), exact)


def _method(name: str, summary: str, strategy: Strategy) -> Method:
    return Method(name, summary, partial(_solve, strategy=strategy, method=name))


LATENCY_METHODS = table(
    _method("auto", "joint or exact while the graph is small, anneal beyond", latency_auto),
    _method("list", "single device, topological fill, earliest finish: the best of them", listed),
    _method("anneal", "annealing of connected bunches of operators", annealed),
    _method(
        "exact",
        "annealing, of orders too where operators are few, then intervals by CP-SAT with a proven bound",
        proven,
    ),
    _method("joint", "placement, orders and static rates as one program, with a proven bound", jointly),
    _method("compact", "fused operators placed first, then polish of all", compact_first),
    _method("windows", "annealing, then CP-SAT on windows of time", windowed),
)


# Placements made elsewhere.


def complete_placement(problem: PlacementProblem, named: Mapping[str, str]) -> Int32s:
    """Device of every operator from names of operators and devices; the rest follow their co-located operators."""
    index = {operator.name: i for i, operator in enumerate(problem.operators)}
    devices = {device.name: d for d, device in enumerate(problem.devices)}
    problems = [Problem("no operator of that name", value=name) for name in named if name not in index]
    for name in dict.fromkeys(named.values()):
        if name not in devices:
            problems.append(Problem("no device of that name", value=name, allowed=", ".join(devices)))
    named_device = {index[name]: devices[at] for name, at in named.items() if name in index and at in devices}
    device = np.full(len(problem.operators), -1, dtype=np.int32)
    for members in problem.colocated():
        homes = sorted({named_device[i] for i in members if i in named_device})
        names = ", ".join(problem.operators[i].name for i in members[:4])
        if not homes:
            problems.append(Problem("placed nowhere", value=names))
        elif len(homes) > 1:
            problems.append(Problem("co-located operators placed apart", value=names))
        else:
            device[list(members)] = homes[0]
    if problems:
        raise InputError(problems)
    return device


def evaluate_given(
    problem: PlacementProblem, named: Mapping[str, str], method: str
) -> Result[PlacementProblem, PlacementPlan]:
    """Return the result that a placement by names amounts to; its check says what the placement violates.

    Raises:
        InputError: See `complete_placement`; or the objective is latency, or stages are interleaved.
    """
    settings = problem.objective
    if not isinstance(settings, Throughput) or settings.stages == "interleaved":
        text = "a placement alone can be judged for contiguous or free sets of objective throughput only"
        raise InputError([Problem(text, path="objective")])
    plan = PlacementPlan(device=complete_placement(problem, named))
    search = SearchResult(plan=plan, stopped_by=StopReason.CONVERGED, method=method)
    result: Result[PlacementProblem, PlacementPlan] = judged(problem, search, Effort(problem.search, Stop()))
    return result


def from_format_2(
    problem: PlacementProblem, document: Mapping[str, Any]
) -> tuple[PlacementPlan, tuple[Certificate, ...]]:
    """Return the plan and the certificates of a solution file of format 2."""
    device = np.array([d for _, d in document["operators"]], dtype=np.int32)
    sent = {(tensor, target): start for tensor, target, start, _ in document["transfers"]}
    plan = PlacementPlan(
        device=device,
        start_ms=np.array(document["start_ms"] or [], dtype=np.float64),
        send_ms=np.array([sent[key] for key in queued_transfers(problem, device)], dtype=np.float64),
        link_shares=tuple(LinkShare(*row) for row in document["link_shares"]),
    )
    argument = Argument(document["bound"]["proved_by"])
    if argument not in checker_of(problem).exhaustive:
        return plan, ()
    value = document["objective"]["value"]
    if argument is Argument.ALL_SCHEDULES:
        return plan, (schedule_certificate(argument, value, WalkSize()),)
    return plan, (exhaustive_certificate(argument, value),)


def _methods(problem: PlacementProblem) -> Mapping[str, Method]:
    return THROUGHPUT_METHODS if isinstance(problem.objective, Throughput) else LATENCY_METHODS


def _tables(_: str) -> MethodTables:
    return (("objective throughput", THROUGHPUT_METHODS), ("objective latency", LATENCY_METHODS))


def _assemble(problem: PlacementProblem, search: Placed, effort: Effort) -> Result[PlacementProblem, PlacementPlan]:
    result = assembled(problem, search, effort, checker_of(problem))
    return replace(result, certificates=tuple(c for c in search.certificates if c.argument is result.bound.argument))


SOLVER = Solver(
    methods=_methods,
    assemble=_assemble,
    tables=_tables,
)
