"""Placement, orders and static rates together, proven: the joint program with tangents added until they are tight.

Each round solves the mixed-integer program with the tangents so far, whose optimum is a lower bound; takes placement
and orders from it; finds the best rates for those by the linear program; and adds tangents at both.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from formulations.placement.placed_programs import FACTORS, equal_split, joint_data
from formulations.placement.placement_joint import JointPlacement, Pair
from formulations.placement.placement_joint_arrays import build_arrays
from solvers.backends import SolverLimits, solve_guarded
from solvers.placement.latency_rates import at_best_rates
from solvers.placement.latency_search import LatencySearch
from solvers.stop import first_part
from topoopt.core.arrays import Ints
from topoopt.core.placement_solution import TensorTransfer
from topoopt.core.proofs import Argument
from topoopt.core.verdict import Status, StopReason
from topoopt.simulate.placement.arrays import PlacementArrays
from topoopt.simulate.placement.schedule import PlacedSchedule

ROUNDS = 40
CLOSE = 9e-8
"""Relative gap at which tangents are tight enough, just below what is called optimal."""

FINE = 1e-9
"""Tolerance of HiGHS: rows hold with big M only as far as binaries are whole."""

LEAST = 1e-4
"""Tensors smaller than this part of the largest count as empty in the program: its big M grows with the ratio."""


MANY = 1000
"""More operators and transfers than any size the joint program is for: not counted out."""


def possible_orders(search: LatencySearch) -> int:
    """Pairs of operators, and of transfers to one server, of which either may be first: the program grows with them."""
    if len(search.a.needs) + len(search.a.tensor_size) * len(search.a.room) > MANY:
        return MANY**2
    data = joint_data(search.problem, 1.0, {})
    return len(data.queues()) + len(data.unordered())


def solve_joint(search: LatencySearch, time_s: float | None = None) -> StopReason:
    """Rounds until the value meets the bound, or the time is over; why it ended. There must be a schedule already.

    Args:
        time_s: wall-clock limit besides that of the search.
    """
    stop = search.stop if time_s is None else first_part(search.stop, 1.0, time_s)
    problem = search.problem
    unit = float(search.a.network.max())
    largest = max((tensor.size_bytes for tensor in problem.tensors), default=0)
    split = equal_split(problem, unit)
    points: dict[Pair, list[float]] = {pair: [factor * r for factor in FACTORS] for pair, r in split.items()}
    for _ in range(ROUNDS):
        left = stop.remaining_s()
        if (why := stop.reason()) is not None:
            return why
        tangents = {pair: tuple(sorted(at)) for pair, at in points.items()}
        data = joint_data(problem, search.value * (1 + 1e-6), tangents, least=LEAST * largest)
        program = build_arrays(data)
        options: dict[str, int | float | str | bool] = {
            "mip_feasibility_tolerance": FINE,
            "primal_feasibility_tolerance": FINE,
        }
        limits = SolverLimits(time_s=left, seed=search.seed % 2**31)
        result = solve_guarded("highs", program, limits, options, stop=stop)
        if result.bound is not None and np.isfinite(result.bound):
            search.raise_bound(float(result.bound), Argument.SCHEDULE_HIGHS)
        if result.x is None:
            return stop.reason() or result.stopped_by
        at = dict(zip(program.column_names or (), result.x.tolist(), strict=True))
        before = {pair: len(rows) for pair, rows in points.items()}
        best = at_best_rates(search.a, _schedule(search.a, data, at), stop)
        if best is not None:
            search.offer(best, _place(search, best))
        if search.value <= search.bound * (1 + CLOSE):
            return StopReason.CONVERGED
        if result.status is not Status.OPTIMAL:
            return stop.reason() or result.stopped_by
        for (s, u), rows in points.items():
            if at[f"used_{s}_{u}"] > 0.5:
                _add(rows, at[f"slow_{s}_{u}"])
            if best is not None and best.rates[s, u] > 0:
                _add(rows, unit / float(best.rates[s, u]))
        if all(len(points[pair]) == count for pair, count in before.items()):
            return StopReason.GAP  # the tangents are as tight as the tolerance of the solver
    return StopReason.BUDGET


def _add(points: list[float], at: float) -> None:
    if all(abs(at - point) > 1e-9 * point for point in points):
        points.append(at)


def _place(search: LatencySearch, schedule: PlacedSchedule) -> Ints:
    """Device of each group."""
    first = search.a.group_member[search.a.group_ptr[:-1]]
    return schedule.device[first].astype(np.int64)


def _schedule(a: PlacementArrays, data: JointPlacement, at: dict[str, float]) -> PlacedSchedule:
    """Placement and starts of a solution of the program, as a schedule whose orders count, not its times."""
    groups = np.array([[at[f"at_{g}_{d}"] for d in data.devices] for g in range(len(data.memory))]).argmax(axis=1)
    device = groups[list(data.group)].astype(np.int64)
    start = np.array([at[f"start_{i}"] for i in range(len(device))])
    end = start + a.time[np.arange(len(device)), device]
    ways: dict[tuple[int, int], float] = defaultdict(float)
    for t, tensor in enumerate(data.tensors):
        for e in {int(device[j]) for j in tensor.consumers} - {int(device[tensor.producer])}:
            ways[t, e] = at.get(f"leave_{t}_{e}", float(end[tensor.producer]))
    transfers = sorted((TensorTransfer(t, e, leave, leave) for (t, e), leave in ways.items()), key=_by_start)
    empty = np.zeros((len(a.network), len(a.network)))
    return PlacedSchedule(device, start, end, tuple(transfers), empty, float(end.max()))


def _by_start(way: TensorTransfer) -> tuple[float, int, int]:
    return way.start_ms, way.tensor, way.target
