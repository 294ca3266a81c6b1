"""Engines for placements of least makespan: first placements, annealing, CP-SAT (all, or windows), rates, priorities.

Each engine works on a `LatencySearch`, to which it offers schedules; bounds are those of CP-SAT.

The CP-SAT model counts whole units of time, every time rounded down, on intervals.

Sets: operators i, groups g of co-located operators, devices d, tensors t with their consumers.
Variables: at[g,d] in {0,1}, sum_d at[g,d] = 1; start[i]; span (the makespan).

1. memory:      sum_g m[g] at[g,d] <= M[d]
2. one_at_once: NoOverlap over the operators of each device that take time
3. precedence:  start[j] >= start[i] + p[i] + transfer of the tensor from the device of i to that of j
4. links (only with `queues`): transfers of one server out, and in, do not overlap (sharing FIFO), or those of one
   pair of servers (STATIC at given rates)
5. work:        span >= head + sum_i p[i,d] at + tail of each device (redundant)
6. symmetry:    if all devices are alike, the r-th largest group is on one of the first r + 1

Without (4) the model is a relaxation for every kind of sharing: a transfer is never faster than alone at the full rate
of both servers. Since times are rounded down, its bound holds for the true times in any case.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from solvers.placement.makespan_search import (
    GroupGraph,
    LatencySearch,
    Placement,
    anneal,
    anneal_orders,
    device_of,
    first_placements,
    polish_priorities,
)
from solvers.placement.static_rates import allocated
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InfeasibleError, LimitError
from topoopt.core.proofs import Argument, StopReason
from topoopt.simulate.placement import ALONE, FIFO, STATIC, PlacementArrays, simulated, uniform_rates

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


UNITS = 1 << 38
"""Units of time in the makespan known: rounding down n operators in a row loses n / UNITS of it."""


def devices_alike(a: PlacementArrays) -> bool:
    """Whether any two devices can change names: equal times, memory, and links."""
    own_servers = len(set(a.server.tolist())) == len(a.server)
    one_server = len(set(a.server.tolist())) == 1
    if not (own_servers or one_server) or len(set(a.room.tolist())) > 1:
        return False
    links = {float(a.network[s]) for s in a.server.tolist()}
    return len(links) == 1 and bool((a.time == a.time[:, :1]).all())


def alone_ms(a: PlacementArrays, size: float, rates: Floats | None) -> Floats:
    """float64[k, k], time of a transfer of `size` bytes between each two devices, alone."""
    same = a.server[:, None] == a.server[None, :]
    network = a.network[a.server]
    rate = np.minimum(network[:, None], network[None, :]) if rates is None else rates[np.ix_(a.server, a.server)]
    if size > 0:
        with np.errstate(divide="ignore"):
            times = np.where(same, size / a.inside[a.server][:, None] + a.alpha_inside, size / rate + a.alpha)
    else:
        times = np.where(same, a.alpha_inside, a.alpha)
    np.fill_diagonal(times, 0.0)
    return times


def heads_and_tails(a: PlacementArrays) -> tuple[Floats, Floats]:
    """float64[n] each: longest path to the start of an operator, and from it to the end, without communication."""
    fast = a.time.min(axis=1)
    head, tail = np.zeros(len(fast)), np.zeros(len(fast))
    for i in a.topo:
        users = a.user[a.user_ptr[a.tensor_ptr[i]] : a.user_ptr[a.tensor_ptr[i + 1]]]
        head[users] = np.maximum(head[users], head[i] + fast[i])
    for i in a.topo[::-1]:
        users = a.user[a.user_ptr[a.tensor_ptr[i]] : a.user_ptr[a.tensor_ptr[i + 1]]]
        tail[i] = fast[i] + (tail[users].max() if len(users) else 0.0)
    return head, tail


def relabelled(a: PlacementArrays, g: GroupGraph, homes: Ints) -> Ints:
    """An equal placement that obeys (6)."""
    names: dict[int, int] = {}
    for group in _by_work(g):
        names.setdefault(int(homes[group]), len(names))
    return np.array([names[int(d)] for d in homes], dtype=np.int64)


def _by_work(g: GroupGraph) -> list[int]:
    return [int(group) for group in np.lexsort((-g.memory, -g.time.min(axis=1)))]


class LatencyModel:
    """The model, its variables by the names of the algebra, and `unit_ms`, the length of a unit.

    Args:
        upper_ms: everything that is not above it is in the model.
        queues: with rows (4).
        rates: float64[S, S] bytes/ms, of sharing STATIC; None: the full rate of the links.
        fixed: devices of groups that stay where they are.
    """

    def __init__(
        self,
        a: PlacementArrays,
        g: GroupGraph,
        upper_ms: float,
        *,
        queues: bool = False,
        rates: Floats | None = None,
        fixed: dict[int, int] | None = None,
    ) -> None:
        from ortools.sat.python import cp_model

        self.a, self.g, self.rates = a, g, rates
        self.unit_ms = upper_ms / UNITS
        self.horizon = UNITS
        self.model = cp_model.CpModel()
        self.size = np.floor(np.where(np.isfinite(a.time), a.time, 0.0) / self.unit_ms).astype(np.int64)
        self.at: list[list[Any]] = []
        self.start: list[Any] = []
        self.apart: dict[tuple[int, int], Any] = {}
        self.fixed = fixed or {}
        self._homes()
        self._run()
        self._precede()
        if queues:
            self._queue()
        self._finish()

    def whole(self, time_ms: float) -> int:
        return math.floor(time_ms / self.unit_ms)

    def _homes(self) -> None:
        from ortools.sat.python import cp_model

        a, g, model, fixed = self.a, self.g, self.model, self.fixed
        for group in range(len(g.memory)):
            row = [
                model.new_bool_var(f"at_{group}_{d}")
                if np.isfinite(g.time[group, d]) and fixed.get(group, d) == d
                else model.new_constant(0)
                for d in range(len(a.room))
            ]
            model.add_exactly_one(row)
            self.at.append(row)
        for d, capacity in enumerate(a.room.tolist()):
            if g.memory.sum() > capacity:
                model.add(cp_model.LinearExpr.weighted_sum([row[d] for row in self.at], g.memory.tolist()) <= capacity)
        if devices_alike(a) and not fixed:
            for rank, group in enumerate(_by_work(g)[: len(a.room) - 1]):
                for d in range(rank + 1, len(a.room)):
                    model.add(self.at[group][d] == 0)

    def _run(self) -> None:
        a, model = self.a, self.model
        head, tail = heads_and_tails(a)
        for i in range(len(head)):
            low, high = self.whole(head[i]), self.horizon - self.whole(tail[i])
            # heads and tails are sums rounded once; those of rounded terms may be smaller by a unit each
            self.start.append(model.new_int_var(max(0, low - len(head)), high + len(head), f"start_{i}"))
        for d in range(len(a.room)):
            intervals = [
                model.new_optional_fixed_size_interval_var(
                    self.start[i], int(self.size[i, d]), self.at[a.group[i]][d], f"run_{i}_{d}"
                )
                for i in range(len(head))
                if self.size[i, d] > 0 and np.isfinite(a.time[i, d]) and self.fixed.get(int(a.group[i]), d) == d
            ]
            model.add_no_overlap(intervals)

    def duration(self, i: int) -> Any:
        from ortools.sat.python import cp_model

        sizes = self.size[i]
        if (sizes == sizes[0]).all() and np.isfinite(self.a.time[i]).all():
            return int(sizes[0])
        return cp_model.LinearExpr.weighted_sum(self.at[self.a.group[i]], sizes.tolist())

    def differ(self, g: int, h: int) -> Any:
        """Literal: two groups are on different devices."""
        key = (min(g, h), max(g, h))
        if key not in self.apart:
            literal = self.model.new_bool_var(f"apart_{key[0]}_{key[1]}")
            for first, other in zip(self.at[g], self.at[h], strict=True):
                self.model.add_bool_or([~first, other, literal])
                self.model.add_bool_or([first, ~other, literal])
                self.model.add_bool_or([~first, ~other, ~literal])
            self.apart[key] = literal
        return self.apart[key]

    def _precede(self) -> None:
        a = self.a
        for i in range(len(self.start)):
            ends = self.start[i] + self.duration(i)
            for tensor in range(a.tensor_ptr[i], a.tensor_ptr[i + 1]):
                alone = alone_ms(a, float(a.tensor_size[tensor]), self.rates)
                away = alone[~np.eye(len(alone), dtype=bool)]
                for j in a.user[a.user_ptr[tensor] : a.user_ptr[tensor + 1]]:
                    self._wait(int(a.group[i]), int(a.group[j]), ends, self.start[j], alone, away)

    def _wait(self, g: int, h: int, ends: Any, start: Any, alone: Floats, away: Floats) -> None:
        model = self.model
        if g == h or not len(away) or not away.any():
            model.add(start >= ends)
        elif g in self.fixed and h in self.fixed:
            model.add(start >= ends + self.whole(alone[self.fixed[g], self.fixed[h]]))
        elif np.isfinite(away).all() and self.whole(away.min()) == self.whole(away.max()):
            model.add(start >= ends + self.whole(away[0]) * self.differ(g, h))
        else:
            model.add(start >= ends)
            for d in range(len(alone)):
                for e in range(len(alone)):
                    both = [self.at[g][d], self.at[h][e]]
                    if not np.isfinite(alone[d, e]):
                        model.add_bool_or([~both[0], ~both[1]])
                    elif self.whole(alone[d, e]) > 0:
                        model.add(start >= ends + self.whole(alone[d, e])).only_enforce_if(both)

    def _queue(self) -> None:
        a, model = self.a, self.model
        queues: dict[tuple[object, ...], list[Any]] = {}
        for i in range(len(self.start)):
            g = int(a.group[i])
            ends = self.start[i] + self.duration(i)
            for tensor in range(a.tensor_ptr[i], a.tensor_ptr[i + 1]):
                users = [int(j) for j in a.user[a.user_ptr[tensor] : a.user_ptr[tensor + 1]] if a.group[j] != g]
                size = float(a.tensor_size[tensor])
                if not users or size <= 0:
                    continue
                alone = alone_ms(a, size, self.rates)
                for e in range(len(a.room)):
                    self._queue_one(queues, tensor, g, ends, users, alone, e)
        for intervals in queues.values():
            if len(intervals) > 1:
                model.add_no_overlap(intervals)

    def _queue_one(
        self,
        queues: dict[tuple[object, ...], list[Any]],
        tensor: int,
        g: int,
        ends: Any,
        users: list[int],
        alone: Floats,
        e: int,
    ) -> None:
        a, model = self.a, self.model
        leave = model.new_int_var(0, self.horizon, f"leave_{tensor}_{e}")
        model.add(leave >= ends)
        for d in range(len(a.room)):
            s, t = int(a.server[d]), int(a.server[e])
            if s == t or not np.isfinite(alone[d, e]):
                continue
            sent = model.new_bool_var(f"sent_{tensor}_{d}_{e}")
            model.add_implication(sent, self.at[g][d])
            for j in users:
                there = self.at[int(a.group[j])][e]
                model.add_bool_or([~self.at[g][d], ~there, sent])
                model.add(self.start[j] >= leave + self.whole(alone[d, e])).only_enforce_if([self.at[g][d], there])
            interval = model.new_optional_fixed_size_interval_var(
                leave, self.whole(alone[d, e]), sent, f"way_{tensor}_{d}_{e}"
            )
            if a.sharing == STATIC:
                queues.setdefault((s, t), []).append(interval)
            elif a.sharing == FIFO:
                queues.setdefault(("out", s), []).append(interval)
                queues.setdefault(("in", t), []).append(interval)

    def _finish(self) -> None:
        from ortools.sat.python import cp_model

        a, model = self.a, self.model
        span = model.new_int_var(0, self.horizon, "span")
        for i in range(len(self.start)):
            if a.tensor_ptr[i] == a.tensor_ptr[i + 1]:
                model.add(span >= self.start[i] + self.duration(i))
        for d in range(len(a.room)):
            work = [int(total) for total in np.bincount(a.group, weights=self.size[:, d], minlength=len(self.at))]
            model.add(span >= cp_model.LinearExpr.weighted_sum([row[d] for row in self.at], work))
        model.minimize(span)


POLL_S = 0.02


@dataclass(frozen=True, eq=False)
class ExactResult:
    """What CP-SAT says.

    Attributes:
        homes: int64[G], or None where there is no placement.
        start_ms: float64[operators], an order for a schedule (times rounded down, so not a schedule itself).
        bound_ms: lower bound on the model's makespan, for what is below `upper_ms`.
        infeasible: no placement at all is below `upper_ms`.
        stopped_by: why it ended.
    """

    homes: Ints | None
    start_ms: Floats | None
    bound_ms: float
    infeasible: bool
    stopped_by: StopReason


def _hint(model: LatencyModel, homes: Ints, start_ms: Floats | None) -> None:
    for row, device in zip(model.at, homes.tolist(), strict=True):
        for d, literal in enumerate(row):
            if literal.name:
                model.model.add_hint(literal, int(d == device))
    if start_ms is not None:
        for variable, time in zip(model.start, start_ms.tolist(), strict=True):
            model.model.add_hint(variable, int(time / model.unit_ms))


def solve_exact(
    a: PlacementArrays,
    g: GroupGraph,
    upper_ms: float,
    *,
    stop: Stop,
    time_s: float,
    seed: int,
    homes: Ints | None = None,
    start_ms: Floats | None = None,
    queues: bool = False,
    rates: Floats | None = None,
    fixed: dict[int, int] | None = None,
    work_limit: float | None = None,
    first_only: bool = False,
) -> ExactResult:
    """Search below `upper_ms`.

    Args:
        time_s: wall-clock limit of this call; `work_limit`: the same in CP-SAT's deterministic time, for runs that
            repeat.
        homes, start_ms: a schedule, as a hint.
        queues, rates, fixed: see `LatencyModel`.
        first_only: end with the first placement found.
    """
    from ortools.sat.python import cp_model

    if homes is not None and devices_alike(a) and not fixed:
        homes = relabelled(a, g, homes)
    built = LatencyModel(a, g, upper_ms, queues=queues, rates=rates, fixed=fixed)
    if homes is not None:
        _hint(built, homes, start_ms)
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.num_workers = 1
    parameters.random_seed = seed % 2**31
    parameters.max_time_in_seconds = max(0.01, time_s)
    parameters.catch_sigint_signal = False
    parameters.linearization_level = 2
    if work_limit is not None:
        parameters.max_deterministic_time = work_limit
    parameters.stop_after_first_solution = first_only
    status: list[cp_model.CpSolverStatus] = []
    # In a thread of its own, so that this one sees Ctrl-C.
    worker = threading.Thread(target=lambda: status.append(solver.solve(built.model)), daemon=True)
    worker.start()
    reason: StopReason | None = None
    while worker.is_alive():
        worker.join(POLL_S)
        if reason is None and (reason := stop.reason()) is not None:
            solver.stop_search()
    if not status:
        return ExactResult(None, None, 0.0, False, StopReason.ERROR)
    if status[0] == cp_model.INFEASIBLE:
        return ExactResult(None, None, upper_ms, True, StopReason.CONVERGED)
    bound = max(0.0, float(solver.best_objective_bound)) * built.unit_ms if status[0] != cp_model.MODEL_INVALID else 0.0
    if status[0] not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return ExactResult(None, None, bound, False, reason or StopReason.TIME)
    packed = np.array([[solver.value(literal) for literal in row] for row in built.at]).argmax(axis=1).astype(np.int64)
    times = np.array([solver.value(variable) for variable in built.start], dtype=np.float64) * built.unit_ms
    done = status[0] == cp_model.OPTIMAL
    return ExactResult(packed, times, bound, False, StopReason.CONVERGED if done else reason or StopReason.TIME)


ROUNDS, ROUND_ALONE, ROUND_CONTENDED = 4, 2500, 100
"""Rounds of annealing of orders, and moves of a round by the square of the number of operators."""

RUNS = 6
"""First placements that are annealed."""


def start(search: LatencySearch) -> list[Placement]:
    """First placements, best first.

    Raises:
        InfeasibleError: None exists.
        LimitError: None was found in time.
    """
    places = [homes for _, homes in first_placements(search.a, search.g)]
    if not places:
        packed = _packed(search)
        if packed is not None:
            places = [packed]
    ranked = []
    for number, homes in enumerate(places):
        value = min(
            simulated(search.a, device_of(search.a, homes), rates).makespan_ms for rates in search.rates_for(homes)
        )
        ranked.append((value, number))
        search.offer_place(homes)
    if search.best is None:
        raise LimitError("no placement within the memory of the devices was found in time")
    return [places[number] for _, number in sorted(ranked)]


def _packed(search: LatencySearch) -> Placement | None:
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
    return result.homes


def improve(search: LatencySearch, places: list[Placement], moves: int, until: float | None) -> None:
    """Anneal from the best first placements in turn, then again from the best.

    Args:
        moves: in all.
        until: `time.monotonic()` value at which to end.
    """
    chosen = places[:RUNS]
    for number, homes in enumerate([*chosen, None]):
        origin = search.homes if homes is None else homes
        if origin is None or search.closed() or search.stop.reason() is not None:
            return
        now = time.monotonic()
        share = 0.5 if homes is None else 0.5 / len(chosen)
        deadline = search.stop.deadline
        if until is not None:
            runs_left = len(chosen) - number
            deadline = until if homes is None else now + (until - now) * 0.5 / max(1, runs_left)
        if deadline is not None and now >= deadline:
            return
        annealed = anneal(
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
        search.offer_place(annealed)


def improve_orders(search: LatencySearch, moves: int | None, until: float | None) -> None:
    """Anneal devices and orders at once, each round from the best so far.

    Args:
        moves: in all; None: as many as a graph of its size needs.
        until: `time.monotonic()` value at which to end.
    """
    stop = search.stop.until(until if until is not None else search.stop.deadline)
    length = (ROUND_ALONE if search.a.sharing == ALONE else ROUND_CONTENDED) * len(search.a.group) ** 2
    length = length if moves is None else min(length, moves // ROUNDS)
    for number in range(ROUNDS):
        if search.best is None or search.homes is None or search.closed() or stop.reason() is not None:
            return
        seed = search.seed + 1_000_003 * number
        search.offer_place(*anneal_orders(search.a, search.g, search.best, search.homes, length, seed, stop))


def prove(search: LatencySearch, time_s: float, work: float | None, *, queues: bool) -> ExactResult | None:
    """CP-SAT on the whole graph: a bound, and perhaps a better placement; `queues`: with contention."""
    if search.best is None or search.homes is None or search.closed():
        return None
    fixed_rates = search.a.sharing == STATIC and not search.allocate
    result = solve_exact(
        search.a,
        search.g,
        search.value,
        stop=search.stop,
        time_s=time_s,
        seed=search.seed,
        homes=search.homes,
        start_ms=search.best.start_ms,
        queues=queues,
        rates=uniform_rates(search.a) if fixed_rates else None,
        work_limit=work,
    )
    if result.homes is not None:
        search.offer_place(result.homes, result.start_ms)
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
        if done or search.best is None or search.homes is None or search.closed():
            return
        moment = rng.uniform(0, search.value)
        distance = np.maximum(search.best.start_ms - moment, moment - search.best.end_ms)
        nearest = np.full(len(search.homes), np.inf)
        np.minimum.at(
            nearest, search.a.group, np.where(search.a.memory + search.a.time.min(axis=1) > 0, distance, 1e30)
        )
        free = set(np.argsort(nearest, kind="stable")[:40].tolist())  # groups CP-SAT may move at once
        stays = {group: int(d) for group, d in enumerate(search.homes.tolist()) if group not in free}
        result = solve_exact(
            search.a,
            search.g,
            search.value,
            stop=search.stop,
            time_s=5.0 if until is None else min(5.0, until - now),
            seed=int(rng.integers(2**31)),
            homes=search.homes,
            start_ms=search.best.start_ms,
            fixed=stays,
            work_limit=2.0,
        )
        if result.homes is not None:
            search.offer_place(result.homes, result.start_ms)


def finish(search: LatencySearch, moves: int, until: float | None) -> None:
    """Static rates by linear program, and better priorities, for the best placement."""
    if search.best is None or search.homes is None or search.closed():
        return
    if search.allocate:
        search.offer(allocated(search.a, search.best, search.stop), search.homes)
    deadline = until if until is not None else search.stop.deadline
    stop = search.stop.until(deadline)
    search.offer(polish_priorities(search.a, search.best, moves, search.seed, stop), search.homes)
    if search.allocate:
        search.offer(allocated(search.a, search.best, search.stop), search.homes)
