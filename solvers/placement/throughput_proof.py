"""Proof of a pipeline of least load: the stage-order program by an exact solver, from the best placement known."""

from __future__ import annotations

import math
import time

import numpy as np

from formulations.placement.stage_graph import StageGraph
from formulations.placement.stage_order import StageOrder, data_of, first_slots, rounded_down
from formulations.placement.stage_order_arrays import build_arrays, positions_of, start_values
from solvers.backends import LpResult, SolverLimits, solve_guarded
from solvers.placement.throughput import CLOSED, Positions, Search, work_bound
from solvers.stop import Stop
from topoopt.core.errors import InfeasibleError
from topoopt.core.verdict import Status, StopReason

ROUNDINGS = (1e-6, 1e-8)
"""Parts of the objective that rounding times down to whole units may lose in all (what it does lose is far less).

Much finer units make coefficients beyond 10^12, with which CP-SAT 9.15 was seen to call feasible programs infeasible.
"""

LEAST_S = 0.2
"""Time below which a solver is not started."""

KEPT_S = 0.3
"""Time kept from a solver, besides that of building its program, for handing programs over and looking at results."""

GRACE_S = 1.5
"""After the limit so much later a solver is killed; what it had found stays."""


def everything(graph: StageGraph) -> float:
    """What no objective exceeds: all work on the slowest class and all nets, for both phases."""
    work = np.where(np.isfinite(graph.time_ms), graph.time_ms, 0.0).sum(axis=0).max(axis=1).sum()
    nets = (float(np.nan_to_num(graph.costs.between(net), posinf=0.0).max()) for net in graph.nets)
    return 1.1 * (float(work) + sum(nets))


def rounding_unit(data: StageOrder, value: float, rounding: float) -> float:
    """A power of two, so small that rounding down all terms of a load loses at most this part of the value."""
    terms = 2 * (data.blocks + len(data.nets)) + 1
    return float(2.0 ** math.floor(math.log2(value * rounding / terms) if value > 0 else 0.0))


def normal_form(data: StageOrder, best: Positions) -> Positions:
    """The same placement with like slots of free sets in order of their first blocks, as the program wants it."""
    if data.slot_of_stage is not None or data.group_of_slot is None:
        return best
    new: dict[int, int] = {}
    for slots in first_slots(data):
        used = [s for s in dict.fromkeys(best.stage.tolist()) if s in slots]
        rest = [s for s in slots if s not in used]
        new.update(zip([*used, *rest], slots, strict=True))
    return Positions(np.array([new[s] for s in best.stage.tolist()]), best.group)


def prove(search: Search, backend: str, seed: int, stop: Stop) -> tuple[float, StopReason]:
    """Solve the stage-order program, offer what it finds; the bound it claims, and why it stopped.

    For CP-SAT times are rounded down to whole units, so that the least load of the program is a lower bound in exact
    arithmetic; if the gap that rounding leaves is too large, once more with smaller units.

    Raises:
        InfeasibleError: proven that nothing fits.
    """
    best, stopped_by = 0.0, StopReason.CONVERGED
    for rounding in ROUNDINGS if backend == "cp-sat" else (0.0,):
        left = stop.remaining_s()
        if stop.interrupted.is_set() or (left is not None and left < LEAST_S):
            return best, stop.reason() or StopReason.TIME
        bound, stopped_by = _proven(search, backend, rounding, seed, stop)
        best = max(best, bound)
        if stopped_by is not StopReason.CONVERGED or search.value - best <= CLOSED * search.value:
            break
    return best, stopped_by


def _proven(search: Search, backend: str, rounding: float, seed: int, stop: Stop) -> tuple[float, StopReason]:
    """One solve: (bound, why it stopped); times in whole units unless `rounding` is 0."""
    graph = search.graph
    upper = search.value if math.isfinite(search.value) else everything(graph)
    data = data_of(graph, search.settings, lower=work_bound(graph, search.settings), upper=upper)
    unit = 1.0
    if rounding:
        unit = rounding_unit(data, upper, rounding)
        data = rounded_down(data, unit)
    began = time.monotonic()
    program = build_arrays(data)
    start = None
    if search.best is not None:
        best = normal_form(data, search.best)
        start = start_values(data, program, best.stage, best.group)
    kept = KEPT_S + time.monotonic() - began

    def solved(options: dict[str, int]) -> LpResult:
        left = stop.remaining_s()
        limits = SolverLimits(time_s=None if left is None else max(LEAST_S, left - kept), seed=seed % 2**31)
        return solve_guarded(backend, program, limits, options, start, stop=stop, grace_s=kept + GRACE_S)

    result = solved({})
    if result.stopped_by is StopReason.ERROR and backend == "cp-sat":
        # seen with large coefficients: infeasible, although the start is feasible; not so without probing
        result = solved({"cp_model_probing_level": 0})
    if result.status is Status.INFEASIBLE and search.best is None:
        raise InfeasibleError("no placement fits: memory, co-location and device classes leave none")
    if result.x is not None:
        search.offer(Positions(*positions_of(data, program, result.x)))
    return (0.0 if result.bound is None else result.bound * unit), result.stopped_by
