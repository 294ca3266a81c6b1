"""CP-SAT on the makespan model: better placements and a proven bound, until a limit or Ctrl-C."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from solvers.placement.latency_model import LatencyModel, build_latency_model, devices_alike, relabelled
from solvers.placement.search.groups import GroupGraph
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.verdict import StopReason
from topoopt.simulate.placement.arrays import PlacementArrays

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

POLL_S = 0.02


@dataclass(frozen=True, eq=False)
class ExactResult:
    """What CP-SAT says.

    Attributes:
        place: int64[G], or None if it found nothing.
        start_ms: float64[operators], an order for a schedule (times rounded down, so not a schedule itself).
        bound_ms: lower bound on the model's makespan, for what is below `upper_ms`.
        infeasible: no placement at all is below `upper_ms`.
        stopped_by: why it ended.
    """

    place: Ints | None
    start_ms: Floats | None
    bound_ms: float
    infeasible: bool
    stopped_by: StopReason


def _hint(model: LatencyModel, place: Ints, start_ms: Floats | None) -> None:
    for row, device in zip(model.at, place.tolist(), strict=True):
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
    place: Ints | None = None,
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
        place, start_ms: a known schedule, as a hint.
        queues, rates, fixed: see `build_latency_model`.
        first_only: end with the first placement found.
    """
    from ortools.sat.python import cp_model

    if place is not None and devices_alike(a) and not fixed:
        place = relabelled(a, g, place)
    built = build_latency_model(a, g, upper_ms, queues=queues, rates=rates, fixed=fixed)
    if place is not None:
        _hint(built, place, start_ms)
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
    found = np.array([[solver.value(literal) for literal in row] for row in built.at]).argmax(axis=1).astype(np.int64)
    times = np.array([solver.value(variable) for variable in built.start], dtype=np.float64) * built.unit_ms
    done = status[0] == cp_model.OPTIMAL
    return ExactResult(found, times, bound, False, StopReason.CONVERGED if done else reason or StopReason.TIME)
