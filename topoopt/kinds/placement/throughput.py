"""The methods for objective throughput."""

from __future__ import annotations

from functools import partial

from solvers.placement.stage_rounding import PROOF, round_stages
from solvers.placement.throughput import WORK, Search, polish, program_columns, settings_of, slice_orders, work_bound
from solvers.placement.throughput_proof import prove
from solvers.stop import Stop, at_most
from topoopt.core.errors import Problem
from topoopt.core.placement import PlacementProblem, StageShape
from topoopt.core.solution import Bound
from topoopt.core.verdict import StopReason
from topoopt.kinds.kind import Effort, Method, table
from topoopt.kinds.placement.outcome import PlacementOutcome

DEFAULT_S = 60.0
"""Time limit of the exact search where none is given."""

EXACT_UP_TO = 60_000
"""Columns of the stage-order program up to which `auto` tries to prove anything."""


def _heuristic(problem: PlacementProblem, effort: Effort, stop: Stop) -> Search:
    search = Search(problem)
    budget = effort.search.budget
    orders = slice_orders(search, effort.search.seed, stop, budget)
    if not search.graph.uniform or search.settings.stages is not StageShape.CONTIGUOUS:
        polish(search, effort.search.seed, stop, None if budget is None else max(0, budget - orders))
    return search


def _outcome(search: Search, bound: Bound, stopped_by: StopReason, method: str) -> PlacementOutcome:
    device, stage = search.placement()
    floor = work_bound(search.graph, search.settings)
    if floor >= bound.value:
        bound = Bound(floor, WORK)
    notes: tuple[str, ...] = (
        f"{len(search.problem.operators)} operators in {search.graph.size} blocks by exact reductions",
    )
    if not search.graph.uniform:
        notes += ("bound from transfers at the rate of the fastest pair of devices",)
    ordered = search.settings.stages is not StageShape.FREE
    return PlacementOutcome(device, bound, stopped_by, method, stage if ordered else None, notes=notes)


def slices(problem: PlacementProblem, effort: Effort) -> PlacementOutcome:
    """Order slicing and local search only."""
    search = _heuristic(problem, effort, effort.stop)
    ran = StopReason.CONVERGED if effort.search.budget is None or search.closed() else StopReason.BUDGET
    return _outcome(search, Bound(0.0, WORK), effort.stop.reason() or ran, "slices")


def rounding(problem: PlacementProblem, effort: Effort) -> PlacementOutcome:
    """Order slicing, then the linear relaxation of the stage-order program, rounded; its value is the bound."""
    stop = at_most(effort.stop, DEFAULT_S)
    search = _heuristic(problem, effort, stop)
    if search.closed():
        return _outcome(search, Bound(0.0, WORK), StopReason.CONVERGED, "rounding")
    bound, stopped_by = round_stages(search, effort.search.seed, stop)
    return _outcome(search, Bound(bound, PROOF), stop.reason() or stopped_by, "rounding")


def _ordered_only(problem: PlacementProblem) -> Problem | None:
    if settings_of(problem).stages is not StageShape.FREE:
        return None
    text = "this method rounds an order of stages, and free sets have none"
    allowed = "contiguous or interleaved"
    return Problem(text, path="throughput.stages", value=StageShape.FREE.value, allowed=allowed)


def exact(problem: PlacementProblem, effort: Effort, backend: str) -> PlacementOutcome:
    """Order slicing, then the stage-order program by a backend."""
    stop = at_most(effort.stop, DEFAULT_S)
    search = _heuristic(problem, effort, stop)
    if search.closed():
        return _outcome(search, Bound(0.0, WORK), StopReason.CONVERGED, "slices")
    bound, proved_by, stopped_by = prove(search, backend, effort.search.seed, stop)
    return _outcome(search, Bound(bound, proved_by), stopped_by, backend)


def auto(problem: PlacementProblem, effort: Effort) -> PlacementOutcome:
    """CP-SAT where the program is not too large, order slicing alone beyond."""
    if program_columns(problem) <= EXACT_UP_TO:
        return exact(problem, effort, "cp-sat")
    return slices(problem, effort)


THROUGHPUT_METHODS = table(
    Method("auto", "cp-sat; order slicing alone beyond its reach", auto),
    Method("cp-sat", "stage-order program by CP-SAT, times rounded down", partial(exact, backend="cp-sat")),
    Method("highs", "stage-order program by HiGHS", partial(exact, backend="highs")),
    Method("rounding", "linear relaxation of the stage-order program, rounded to orders", rounding, _ordered_only),
    Method("slices", "best slices of several topological orders, local search", slices),
)
