"""Best static rates for a schedule's placement and orders: a linear program with tangents added where it is too fast.

HiGHS is driven directly, since each round adds a few rows to a solved program: the dual simplex goes on from there.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import numpy as np

from formulations.placement.placement_rates import Pair, RateProblem, build_arrays, tangent
from solvers.backends.highs import highs_model
from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.placement_solution import TensorTransfer
from topoopt.native import placement
from topoopt.simulate.placement.arrays import PlacementArrays
from topoopt.simulate.placement.rates import within_links
from topoopt.simulate.placement.schedule import PlacedSchedule, simulated

ROUNDS = 60
TOLERANCE = 1e-7
"""Part of a server's links by which rates may pass them before they are scaled back."""


Way = tuple[int, int]


def rate_problem(a: PlacementArrays, schedule: PlacedSchedule) -> tuple[RateProblem, float]:
    """The orders of a schedule as a problem, and the unit of rates in bytes/ms."""
    problem, unit, _ = _ordered_problem(a, schedule)
    return problem, unit


def _ordered_problem(a: PlacementArrays, schedule: PlacedSchedule) -> tuple[RateProblem, float, dict[Way, int]]:
    """The same, with the activity of each transfer between servers."""
    unit = float(a.network.max())
    n, device = len(schedule.device), schedule.device
    fixed = [float(a.time[i, device[i]]) for i in range(n)]
    volume, pair = [0.0] * n, [None] * n
    pairs: list[Pair | None] = list(pair)
    arcs: list[tuple[int, int, float]] = []
    number: dict[Way, int] = {}
    producer = np.repeat(np.arange(n), np.diff(a.tensor_ptr))
    queues: dict[Pair, list[int]] = defaultdict(list)
    for transfer in schedule.transfers:
        size = float(a.tensor_size[transfer.tensor])
        s, t = int(a.server[device[producer[transfer.tensor]]]), int(a.server[transfer.target])
        if s != t and size > 0:
            number[transfer.tensor, transfer.target] = len(fixed)
            queues[s, t].append(len(fixed))
            arcs.append((int(producer[transfer.tensor]), len(fixed), 0.0))
            fixed.append(a.alpha)
            volume.append(size / unit)
            pairs.append((s, t))
    for i in range(n):
        for tensor in range(a.tensor_ptr[i], a.tensor_ptr[i + 1]):
            size = float(a.tensor_size[tensor])
            for j in a.user[a.user_ptr[tensor] : a.user_ptr[tensor + 1]].tolist():
                way = number.get((tensor, int(device[j])))
                if way is not None:
                    arcs.append((way, j, 0.0))
                else:
                    arcs.append((i, j, _inside(a, size, int(device[i]), int(device[j]))))
    lanes: dict[int, list[int]] = defaultdict(list)
    for i in np.lexsort((schedule.end_ms, schedule.start_ms)).tolist():
        if fixed[i] > 0:
            lanes[int(device[i])].append(i)
    for line in (*lanes.values(), *queues.values()):
        arcs += [(before, after, 0.0) for before, after in pairwise(line)]
    problem = RateProblem(np.array(fixed), np.array(volume), tuple(pairs), tuple(dict.fromkeys(arcs)), a.network / unit)
    return problem, unit, number


def in_given_orders(a: PlacementArrays, schedule: PlacedSchedule, rates: Floats) -> PlacedSchedule | None:
    """The earliest schedule that keeps all orders of another one, even where a device or queue then waits; at given
    rates in bytes/ms. None if the orders contradict each other, or a pair that sends has no rate.
    """
    problem, unit, number = _ordered_problem(a, schedule)
    n, count = len(schedule.device), len(problem.fixed_ms)
    if any(rates[pair] <= 0 for pair in problem.pairs):
        return None
    took = problem.fixed_ms.copy()
    for u, pair in enumerate(problem.pair):
        if pair is not None:
            took[u] += problem.volume[u] * unit / rates[pair]
    start, waiting = np.zeros(count), np.zeros(count, dtype=np.int64)
    after: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for u, v, lag in problem.arcs:
        after[u].append((v, lag))
        waiting[v] += 1
    ready = [u for u in range(count) if not waiting[u]]
    for u in ready:  # grows while it is read
        for v, lag in after[u]:
            start[v] = max(start[v], start[u] + took[u] + lag)
            waiting[v] -= 1
            if not waiting[v]:
                ready.append(v)
    if len(ready) < count:
        return None
    end = start + took
    producer = np.repeat(np.arange(n), np.diff(a.tensor_ptr))
    ways = []
    for way in schedule.transfers:
        activity = number.get((way.tensor, way.target))
        i = int(producer[way.tensor])
        lag = _inside(a, float(a.tensor_size[way.tensor]), int(schedule.device[i]), way.target)
        times = float(end[i]), float(end[i] + lag)
        if activity is not None:
            times = float(start[activity]), float(end[activity])
        ways.append(TensorTransfer(way.tensor, way.target, *times))
    ways.sort(key=lambda way: (way.start_ms, way.tensor, way.target))
    return PlacedSchedule(schedule.device, start[:n], end[:n], tuple(ways), rates, float(end[:n].max()))


def at_best_rates(a: PlacementArrays, schedule: PlacedSchedule, stop: Stop) -> PlacedSchedule | None:
    """The orders of a schedule at their best rates, None if HiGHS fails or the orders contradict each other."""
    rates = _best_rates(a, schedule, stop)
    return None if rates is None else in_given_orders(a, schedule, rates)


def _inside(a: PlacementArrays, size: float, d: int, e: int) -> float:
    """Time of a transfer that no rate governs."""
    if d == e:
        return 0.0
    s = a.server[d]
    if s != a.server[e]:
        return a.alpha
    return a.alpha_inside + (size / float(a.inside[s]) if size > 0 else 0.0)


def optimal_rates(problem: RateProblem, begin: dict[Pair, float], stop: Stop) -> tuple[dict[Pair, float], float] | None:
    """(rate of each pair, in units; lower bound on the makespan of these orders), None if HiGHS fails or time is up.

    Args:
        begin: rates at which the first tangents lie.
    """
    import highspy

    pairs, ports = problem.pairs, problem.ports()
    program = build_arrays(problem, [{pair: factor / begin[pair] for pair in pairs} for factor in (0.5, 1.0, 2.0)])
    first = len(problem.fixed_ms)
    solver = highspy.Highs()
    solver.silent()
    solver.passModel(highs_model(program))
    rates: dict[Pair, float] | None = None
    bound = 0.0
    for _ in range(ROUNDS):
        left = stop.remaining_s()
        if stop.reason() is not None:
            break
        if left is not None:
            solver.setOptionValue("time_limit", left + solver.getRunTime())
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            break
        x = np.array(solver.getSolution().col_value)
        bound = float(x[-1])
        slow = {pair: float(x[first + at]) for at, pair in enumerate(pairs)}
        rates = {pair: 1 / value for pair, value in slow.items()}
        over = [
            port
            for port, members in ports.items()
            if sum(rates[pair] for pair in members) > problem.capacity[port[1]] * (1 + TOLERANCE)
        ]
        if not over:
            break
        for port in over:
            coefficients, side = tangent(problem, port, slow)
            columns = np.array([first + pairs.index(pair) for pair in coefficients], dtype=np.int32)
            solver.addRow(side, highspy.kHighsInf, len(columns), columns, np.array([*coefficients.values()]))
    return None if rates is None else (rates, bound)


def allocated(a: PlacementArrays, schedule: PlacedSchedule, stop: Stop) -> PlacedSchedule:
    """The schedule at the best rates for its orders, or itself if that is no better."""
    rates = _best_rates(a, schedule, stop)
    if rates is None:
        return schedule
    tries = [simulated(a, schedule.device, rates), simulated(a, schedule.device, rates, schedule.start_ms)]
    kept = in_given_orders(a, schedule, rates)
    best = min([*tries, kept] if kept is not None else tries, key=lambda one: one.makespan_ms)
    return best if best.makespan_ms < schedule.makespan_ms else schedule


def _best_rates(a: PlacementArrays, schedule: PlacedSchedule, stop: Stop) -> Floats | None:
    """float64[S, S] bytes/ms within the links, best for the orders of a schedule."""
    problem, unit = rate_problem(a, schedule)
    if not problem.pairs:
        return np.zeros_like(schedule.rates)
    closed = placement.rates_by_volume(a, schedule.device, 0.5)
    found = optimal_rates(problem, {pair: float(closed[pair]) / unit for pair in problem.pairs}, stop)
    if found is None:
        return None
    rates = np.zeros_like(schedule.rates)
    for pair, rate in found[0].items():
        rates[pair] = rate * unit
    return within_links(a, rates)
