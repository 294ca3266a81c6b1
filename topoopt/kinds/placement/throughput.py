"""The methods for objective throughput."""

from __future__ import annotations

import math
from copy import copy
from functools import partial

from solvers.placement.assignments import MOST_DEVICES, enumerate_assignments
from solvers.placement.stage_numbers import stage_numbers
from solvers.placement.throughput import Search, polish, program_columns, slice_orders
from solvers.placement.throughput_proof import prove
from solvers.stop import Stop, at_most, first_part
from topoopt.core.errors import InfeasibleError, Problem
from topoopt.core.placement import PlacementProblem, StageShape
from topoopt.core.proofs import Argument, Bound
from topoopt.core.verdict import StopReason
from topoopt.kinds.kind import Effort, Method, table
from topoopt.kinds.placement.outcome import PlacementOutcome
from topoopt.kinds.placement.tried_again import tried_again
from topoopt.verify.placement.loads import work_bound

DEFAULT_S = 60.0
"""Time limit of the exact search where none is given."""

PROGRAMS = {"cp-sat": Argument.STAGE_CP_SAT, "highs": Argument.STAGE_HIGHS}
"""What the stage-order program claims, by who solves it."""

EXACT_UP_TO = 60_000
"""Columns of the stage-order program up to which `auto` tries to prove anything."""

ASSIGNMENTS_UP_TO = 4**10
"""Assignments of blocks to devices up to which `auto` looks at them all, whatever the links."""


def _heuristic(problem: PlacementProblem, effort: Effort, stop: Stop) -> Search:
    search = Search(problem)

    def kept() -> None:
        best = copy(search)  # as it is now
        effort.keep(lambda: _outcome(best, (), stop.reason() or StopReason.TIME, "slices", stop))

    search.better = kept
    budget = effort.search.budget
    orders = slice_orders(search, effort.search.seed, stop, budget)
    if not search.graph.costs.uniform or search.settings.stages is not StageShape.CONTIGUOUS:
        polish(search, effort.search.seed, stop, None if budget is None else max(0, budget - orders))
    return search


def _outcome(
    search: Search, claims: tuple[Bound, ...], stopped_by: StopReason, method: str, stop: Stop
) -> PlacementOutcome:
    device = search.placement()
    floor = Bound(work_bound(search.problem, search.settings), Argument.DEVICE_WORK)
    notes: tuple[str, ...] = (
        f"{len(search.problem.operators)} operators in {search.graph.size} blocks by exact reductions",
    )
    if not search.graph.costs.uniform:
        notes += ("bounds of programs take each device's transfers at the rate of its fastest link",)
    stage = stage_numbers(search.problem, search.settings, device)
    again = tried_again(search.problem, search.value, (floor, *claims), stop)
    return PlacementOutcome(device, (floor, *claims, *again), stopped_by, method, stage, notes=notes)


def slices(problem: PlacementProblem, effort: Effort) -> PlacementOutcome:
    """Order slicing and local search only."""
    search = _heuristic(problem, effort, effort.stop)
    ran = StopReason.CONVERGED if effort.search.budget is None or search.closed() else StopReason.BUDGET
    return _outcome(search, (), effort.stop.reason() or ran, "slices", effort.stop)


def _programmed(search: Search, backend: str, seed: int, stop: Stop, known: tuple[Bound, ...]) -> PlacementOutcome:
    """The stage-order program by a backend; `known`: bounds so far."""
    if search.closed():
        return _outcome(search, known, StopReason.CONVERGED, "slices", stop)
    value, stopped_by = prove(search, backend, seed, stop)
    return _outcome(search, (*known, Bound(value, PROGRAMS[backend])), stopped_by, backend, stop)


def exact(problem: PlacementProblem, effort: Effort, backend: str) -> PlacementOutcome:
    """Order slicing, then the stage-order program by a backend."""
    stop = at_most(effort.stop, DEFAULT_S)
    search = _heuristic(problem, effort, stop)
    return _programmed(search, backend, effort.search.seed, stop, ())


def _enumerated(search: Search, stop: Stop) -> tuple[Bound, StopReason]:
    """All assignments, as far as time goes.

    Raises:
        InfeasibleError: none is allowed.
    """
    value, stopped_by = enumerate_assignments(search, stop)
    if search.best is None and stopped_by is StopReason.CONVERGED:
        raise InfeasibleError("no placement fits: memory, co-location and device classes leave none")
    return Bound(value if math.isfinite(value) else 0.0, Argument.ASSIGNMENTS_LEFT), stopped_by


def assignments(problem: PlacementProblem, effort: Effort) -> PlacementOutcome:
    """Order slicing and local search, then all assignments with what cannot be better cut off."""
    stop = at_most(effort.stop, DEFAULT_S)
    search = _heuristic(problem, effort, stop)
    bound, stopped_by = _enumerated(search, stop)
    return _outcome(search, (bound,), stopped_by, "assignments", stop)


def _few_devices(problem: PlacementProblem) -> Problem | None:
    if len(problem.devices) <= MOST_DEVICES:
        return None
    text = "this method looks at all assignments to few devices"
    return Problem(text, path="servers", value=f"{len(problem.devices)} devices", allowed=f"at most {MOST_DEVICES}")


def auto(problem: PlacementProblem, effort: Effort) -> PlacementOutcome:
    """CP-SAT where the program is not too large, order slicing alone beyond.

    All assignments are looked at first where they are few, and where links differ: there the program proves only a
    bound.
    """
    if program_columns(problem) > EXACT_UP_TO:
        return slices(problem, effort)
    stop = at_most(effort.stop, DEFAULT_S)
    search = _heuristic(problem, effort, stop)
    known: tuple[Bound, ...] = ()
    few = search.graph.devices**search.graph.size <= ASSIGNMENTS_UP_TO
    if (few or not search.graph.costs.uniform) and not search.closed():
        bound, stopped_by = _enumerated(search, first_part(stop, 0.6, DEFAULT_S))
        known = (bound,)
        if stopped_by is StopReason.CONVERGED:
            return _outcome(search, known, stopped_by, "assignments", stop)
    return _programmed(search, "cp-sat", effort.search.seed, stop, known)


THROUGHPUT_METHODS = table(
    Method("auto", "cp-sat, assignments where links differ; order slicing alone beyond their reach", auto),
    Method("cp-sat", "stage-order program by CP-SAT, times rounded down", partial(exact, backend="cp-sat")),
    Method("highs", "stage-order program by HiGHS", partial(exact, backend="highs")),
    Method("assignments", "all assignments to few devices, cut off by bounds", assignments, _few_devices),
    Method("slices", "best slices of several topological orders, local search", slices),
)
