"""The best order of the passes of a tiny pipeline under a limit of memory: how far schedules are from what is possible.

One stage a rank, backward passes in two parts; `formulations.pipeline.pass_order` states what is solved. CP-SAT takes
it as intervals, HiGHS as that mixed-integer program.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from formulations.pipeline.pass_order import B, F, PassOrder, W, build_arrays
from solvers.backends import SOLVERS, SolverLimits
from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.errors import InfeasibleError
from topoopt.core.pipeline import PassKind, PipelineShape
from topoopt.core.verdict import StopReason
from topoopt.simulate.pipeline.orders import PassOrders, in_a_line
from topoopt.simulate.pipeline.timeline import TickCosts, most_held, timed

MOST_RANKS, MOST_BATCHES = 4, 6
"""Pipelines up to this size are tiny."""

PARTS = (PassKind.FORWARD, PassKind.INPUTS, PassKind.WEIGHTS)
POLL_S = 0.05


@dataclass(frozen=True, eq=False)
class BestOrder:
    """The best order found.

    Attributes:
        orders: of the passes.
        ticks: makespan, or the longest time of a rank.
        bound: ticks that no order is below.
        stopped_by: CONVERGED where both are equal.
    """

    orders: PassOrders
    ticks: int
    bound: int
    stopped_by: StopReason


@dataclass(frozen=True, eq=False)
class OrderTask:
    """What is asked.

    Attributes:
        shape: of one chunk a rank, at most 4 ranks and 6 micro-batches.
        ticks: costs of the stages.
        adds: float64[3, p] whole numbers, memory that F, B and W take; negative: give back.
        room: of every rank, in the same unit.
        known: an order that fits; None: none is known.
        longest_rank: shorten the longest time of a rank, not the makespan.
    """

    shape: PipelineShape
    ticks: TickCosts
    adds: Floats
    room: float
    known: PassOrders | None = None
    longest_rank: bool = False

    def value(self, orders: PassOrders) -> int:
        """Ticks of the objective."""
        line = timed(orders, self.ticks)
        return int(line.spans.max()) if self.longest_rank else line.makespan

    def data(self) -> tuple[PassOrder, int]:
        """The data of the program in the largest whole unit, and the ticks of that unit."""
        cost = self.ticks.cost[list(PARTS)]
        unit = int(np.gcd.reduce(np.append(cost.ravel(), self.ticks.transfer))) or 1
        p, m = self.shape.ranks, self.shape.micro_batches
        transfer = float(self.ticks.transfer // unit)
        hold = np.zeros((3, p))
        if self.ticks.blocking:
            hold[F, :-1], hold[B, 1:] = transfer, transfer
        time = (cost // unit).astype(np.float64)
        one_by_one = m * (float(time.sum()) + float(hold.sum()) + 2.0 * transfer * (p - 1))
        upper = one_by_one if self.known is None else timed(self.known, self.ticks).makespan / unit
        return PassOrder(time, hold, self.adds, np.full(p, self.room), transfer, m, upper, self.longest_rank), unit


def best_order(task: OrderTask, stop: Stop, *, method: str = "cp-sat", seed: int = 0) -> BestOrder:
    """Search until proven or stopped.

    Args:
        method: `cp-sat`, or `milp`.

    Raises:
        InfeasibleError: the room does not hold one micro-batch.
    """
    data, unit = task.data()
    if (data.adds[F] > data.room).any():
        raise InfeasibleError("the room does not hold one micro-batch")
    ends, bound, reason = (_by_intervals if method == "cp-sat" else _by_rows)(data, stop, seed)
    orders = None if ends is None else _in_time(task.shape, ends)
    if orders is None or (most_held(orders, data.adds[F], -data.adds[W]) > data.room).any():
        orders, reason = task.known or _one_by_one(task.shape), StopReason.ERROR if ends is not None else reason
    found = task.value(orders)
    proven = found if reason is StopReason.CONVERGED else min(found, max(bound, 0) * unit)
    return BestOrder(orders, found, proven, reason)


def _by_rows(data: PassOrder, stop: Stop, seed: int) -> tuple[Floats | None, int, StopReason]:
    result = SOLVERS["highs"](build_arrays(data), SolverLimits(time_s=stop.remaining_s(), seed=seed))
    bound = 0 if result.bound is None else int(np.ceil(result.bound - 1e-6 * (1.0 + abs(result.bound))))
    if result.raw_x is None:
        return None, bound, result.stopped_by
    count = 3 * data.ranks * data.micro_batches
    return result.raw_x[:count].reshape(3, data.ranks, data.micro_batches), bound, result.stopped_by


def _by_intervals(data: PassOrder, stop: Stop, seed: int) -> tuple[Floats | None, int, StopReason]:
    from ortools.sat.python import cp_model

    model, ends = _model(cp_model, data)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed % 2**31
    solver.parameters.catch_sigint_signal = False
    left = stop.remaining_s()
    if left is not None:
        solver.parameters.max_time_in_seconds = max(0.01, left)
    status: list[Any] = []
    # In a thread of its own, so that this one sees Ctrl-C.
    worker = threading.Thread(target=lambda: status.append(solver.solve(model)), daemon=True)
    worker.start()
    reason: StopReason | None = None
    while worker.is_alive():
        worker.join(POLL_S)
        if reason is None and (reason := stop.reason()) is not None:
            solver.stop_search()
    if not status or status[0] == cp_model.MODEL_INVALID:
        return None, 0, StopReason.ERROR
    bound = int(np.ceil(solver.best_objective_bound - 1e-6))
    if status[0] not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, bound, reason or StopReason.TIME
    values = np.array([[[solver.value(end) for end in lane] for lane in kind] for kind in ends], dtype=np.float64)
    done = status[0] == cp_model.OPTIMAL
    return values, bound, StopReason.CONVERGED if done else reason or StopReason.TIME


def _model(cp_model: Any, data: PassOrder) -> tuple[Any, list[list[list[Any]]]]:
    """The program as intervals; families are numbered as in `pass_order`."""
    model = cp_model.CpModel()
    ranks, batches = range(data.ranks), range(data.micro_batches)
    upper, transfer, last = int(data.upper), int(data.transfer), data.micro_batches - 1
    time, hold = data.time.astype(int).tolist(), data.hold.astype(int).tolist()
    kinds = (F, B, W)
    end = [[[model.new_int_var(0, upper, f"end_{k}_{s}_{i}") for i in batches] for s in ranks] for k in kinds]
    for s in ranks:
        lane = []
        for k in kinds:
            for i in batches:
                start = end[k][s][i] - time[k][s]
                size = time[k][s] + hold[k][s]
                lane.append(model.new_interval_var(start, size, start + size, f"pass_{k}_{s}_{i}"))
                model.add(start >= (end[k][s][i - 1] + hold[k][s] if i else 0))  # 1
        model.add_no_overlap(lane)  # 5
        for i in batches:
            if s:
                model.add(end[F][s][i] >= end[F][s - 1][i] + transfer + time[F][s])  # 2
                model.add(end[B][s - 1][i] >= end[B][s][i] + transfer + time[B][s - 1])  # 3
            model.add(end[B][s][i] >= end[F][s][i] + hold[F][s] + time[B][s])  # 4
            model.add(end[W][s][i] >= end[B][s][i] + hold[B][s] + time[W][s])
        if np.isfinite(data.room[s]):  # 6: F takes at its begin, the others give back at their end
            taken = [end[F][s][i] - time[F][s] for i in batches] + [end[k][s][i] for k in (B, W) for i in batches]
            changes = [int(data.adds[k, s]) for k in kinds for _ in batches]
            model.add_reservoir_constraint(taken, changes, -sum(map(abs, changes)), int(data.room[s]))
    span = model.new_int_var(0, upper, "span")
    for s in ranks:
        begin = end[F][s][0] - time[F][s] if data.longest_rank else 0
        model.add(span >= end[W][s][last] - begin)  # 7
        model.add(span >= data.micro_batches * sum(time[k][s] for k in kinds))  # implied
    model.minimize(span)
    return model, end


def _in_time(shape: PipelineShape, ends: Floats) -> PassOrders:
    """The orders of times of passes, float64[3, p, m]; at the same time F before B before W."""
    p, m = shape.ranks, shape.micro_batches
    rows = []
    for s in range(p):
        found = sorted((float(ends[k, s, i]), k, i) for k in (F, B, W) for i in range(m))
        rows += [(int(PARTS[k]), i, s) for _, k, i in found]
    return in_a_line(shape, np.array(rows, dtype=np.int32), 3 * m)


def _one_by_one(shape: PipelineShape) -> PassOrders:
    """Each micro-batch when the one before it is done."""
    rows = [(int(k), i, s) for s in range(shape.ranks) for i in range(shape.micro_batches) for k in PARTS]
    return in_a_line(shape, np.array(rows, dtype=np.int32), 3 * shape.micro_batches)
