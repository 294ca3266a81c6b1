"""Static rates: over the physical links, best for the orders of a schedule, or together with placement and orders.

The best rates for given orders are a linear program with tangents added where it is too fast. HiGHS is driven directly,
since each round adds a few rows to a solved program: the dual simplex goes on from there.

The joint program is mixed-integer. Each round solves it with the tangents so far, so that its optimum is a lower bound;
takes placement and orders from it; computes the best rates for those by the linear program; and adds tangents at both.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import numpy as np

from formulations import placed_graphs, placement_joint
from formulations.placed_graphs import FACTORS, RateProblem, equal_split, joint_data, tangent
from formulations.placement_joint import JointPlacement, Pair
from solvers.backends import SOLVERS, SolverLimits, solve_guarded
from solvers.backends.highs import highs_model
from solvers.placement.makespan_search import LatencySearch
from solvers.stop import Stop, first_part
from topoopt.core.arrays import Floats
from topoopt.core.placement import LinkShare, Server, TensorTransfer
from topoopt.core.proofs import Argument, Status, StopReason
from topoopt.native import placement
from topoopt.simulate.placement import PlacedSchedule, PlacementArrays, simulated, within_links

PACK_S = 1.0
"""Limit of the search for few splits."""

SAFE = 1e-9
"""Part of the scale given up so that rounding leaves the second program feasible."""


def pack_links(servers: tuple[Server, ...], rate: Floats) -> tuple[Floats, list[LinkShare]]:
    """(rates that the links can carry, their shares): the rates are scaled down together if they do not fit.

    Args:
        rate: float64[servers, servers], Gbit/s.
    """
    most = max(len(server.links) for server in servers)
    links = [[link.gbps for link in server.links] for server in servers]
    capacity = np.array([row + [0.0] * (most - len(row)) for row in links])
    if not (rate > 0).any():
        return rate, []
    if most == 1:
        return rate, [LinkShare(int(s), int(t), 0, float(rate[s, t])) for s, t in np.argwhere(rate > 0)]
    table = placed_graphs.shares(rate, capacity)
    full = SOLVERS["highs"](placed_graphs.link_packing_arrays(rate, capacity), SolverLimits(time_s=PACK_S))
    if full.x is None:
        raise RuntimeError(f"no split over links: {full.message}")
    values, scale = full.x[: len(table)], float(full.x[len(table)])
    scale *= 1 - SAFE if scale < 1 else 1
    few = SOLVERS["highs"](placed_graphs.link_packing_arrays(rate, capacity, scale), SolverLimits(time_s=PACK_S))
    if few.x is not None:
        values = few.x[: len(table)]
    split: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for (s, t, link), gbps in zip(table, values.tolist(), strict=True):
        if gbps > 1e-9 * rate[s, t]:
            split.setdefault((s, t), []).append((link, gbps))
    packed = np.zeros_like(rate)
    for (s, t), parts in split.items():
        packed[s, t] = sum(gbps for _, gbps in parts)
    # a solver's rows hold up to its tolerance only: scale what a link would carry too much
    over = max(1.0, *(_load(split, end, capacity) for end in (0, 1)))
    packed = np.minimum(packed / over, rate)
    result = []
    for (s, t), parts in split.items():
        total = sum(gbps for _, gbps in parts)
        result += [LinkShare(s, t, link, gbps * float(packed[s, t]) / total) for link, gbps in parts]
    return packed, result


def _load(split: dict[tuple[int, int], list[tuple[int, float]]], end: int, capacity: Floats) -> float:
    sums = np.zeros_like(capacity)
    for pair, parts in split.items():
        for link, gbps in parts:
            sums[pair[end], link] += gbps
    return float((sums[capacity > 0] / capacity[capacity > 0]).max())


TOLERANCE = 1e-7
"""Part of a server's links by which rates may pass them before they are scaled back."""


TransferKey = tuple[int, int]


def rate_problem(a: PlacementArrays, schedule: PlacedSchedule) -> tuple[RateProblem, float]:
    """The orders of a schedule as a problem, and the unit of rates in bytes/ms."""
    problem, unit, _ = _ordered_problem(a, schedule)
    return problem, unit


def _ordered_problem(a: PlacementArrays, schedule: PlacedSchedule) -> tuple[RateProblem, float, dict[TransferKey, int]]:
    """The same, with the activity of each transfer between servers."""
    unit = float(a.network.max())
    n, device = len(schedule.device), schedule.device
    fixed = [float(a.time[i, device[i]]) for i in range(n)]
    volume, pair = [0.0] * n, [None] * n
    pairs: list[Pair | None] = list(pair)
    arcs: list[tuple[int, int, float]] = []
    number: dict[TransferKey, int] = {}
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
                activity = number.get((tensor, int(device[j])))
                if activity is not None:
                    arcs.append((activity, j, 0.0))
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
    transfers = []
    for transfer in schedule.transfers:
        activity = number.get((transfer.tensor, transfer.target))
        i = int(producer[transfer.tensor])
        lag = _inside(a, float(a.tensor_size[transfer.tensor]), int(schedule.device[i]), transfer.target)
        times = float(end[i]), float(end[i] + lag)
        if activity is not None:
            times = float(start[activity]), float(end[activity])
        transfers.append(TensorTransfer(transfer.tensor, transfer.target, *times))
    transfers.sort(key=lambda transfer: (transfer.start_ms, transfer.tensor, transfer.target))
    return PlacedSchedule(schedule.device, start[:n], end[:n], tuple(transfers), rates, float(end[:n].max()))


def _inside(a: PlacementArrays, size: float, d: int, e: int) -> float:
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
    program = placed_graphs.placement_rates_arrays(
        problem, [{pair: factor / begin[pair] for pair in pairs} for factor in (0.5, 1.0, 2.0)]
    )
    first = len(problem.fixed_ms)
    solver = highspy.Highs()
    solver.silent()
    solver.passModel(highs_model(program))
    rates: dict[Pair, float] | None = None
    bound = 0.0
    for _ in range(60):
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
    best = min([*tries, kept] if kept is not None else tries, key=lambda schedule: schedule.makespan_ms)
    return best if best.makespan_ms < schedule.makespan_ms else schedule


def _best_rates(a: PlacementArrays, schedule: PlacedSchedule, stop: Stop) -> Floats | None:
    """float64[S, S] bytes/ms within the links, best for the orders of a schedule."""
    problem, unit = rate_problem(a, schedule)
    if not problem.pairs:
        return np.zeros_like(schedule.rates)
    closed = placement.rates_by_volume(a, schedule.device, 0.5)
    optimum = optimal_rates(problem, {pair: float(closed[pair]) / unit for pair in problem.pairs}, stop)
    if optimum is None:
        return None
    rates = np.zeros_like(schedule.rates)
    for pair, rate in optimum[0].items():
        rates[pair] = rate * unit
    return within_links(a, rates)


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
    for _ in range(40):
        left = stop.remaining_s()
        if (why := stop.reason()) is not None:
            return why
        tangents = {pair: tuple(sorted(at)) for pair, at in points.items()}
        data = joint_data(problem, search.value * (1 + 1e-6), tangents, least=LEAST * largest)
        program = placement_joint.build_arrays(data)
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
        schedule = _schedule(search.a, data, at)
        rates = _best_rates(search.a, schedule, stop)
        best = None if rates is None else in_given_orders(search.a, schedule, rates)
        if best is not None:
            first = search.a.group_member[search.a.group_ptr[:-1]]
            search.offer(best, best.device[first].astype(np.int64))
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


def _schedule(a: PlacementArrays, data: JointPlacement, at: dict[str, float]) -> PlacedSchedule:
    """Placement and starts of a solution of the program, as a schedule whose orders count, not its times."""
    groups = np.array([[at[f"at_{g}_{d}"] for d in data.devices] for g in range(len(data.memory))]).argmax(axis=1)
    device = groups[list(data.group)].astype(np.int64)
    start = np.array([at[f"start_{i}"] for i in range(len(device))])
    end = start + a.time[np.arange(len(device)), device]
    starts: dict[tuple[int, int], float] = defaultdict(float)
    for t, tensor in enumerate(data.tensors):
        for e in {int(device[j]) for j in tensor.consumers} - {int(device[tensor.producer])}:
            starts[t, e] = at.get(f"leave_{t}_{e}", float(end[tensor.producer]))
    order = sorted((leave, *sent) for sent, leave in starts.items())
    transfers = tuple(TensorTransfer(t, e, leave, leave) for leave, t, e in order)
    empty = np.zeros((len(a.network), len(a.network)))
    return PlacedSchedule(device, start, end, transfers, empty, float(end.max()))
