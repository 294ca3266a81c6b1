"""The methods of `topoopt solve` on collectives: one literal table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from solvers.collective.limits import limiting
from solvers.collective.pieces import best_division, front, lines
from solvers.collective.plans import (
    PlannedSchedule,
    Plans,
    by_breadth,
    by_paths,
    by_program,
    by_rings,
    by_shortest,
    by_trees,
)
from solvers.collective.timing import ScheduleTimes, timing
from solvers.stop import Stop
from topoopt.core.collective import CollectiveObjective, CollectiveProblem, CollectiveSchedule
from topoopt.core.collective_solution import BestBySize, CollectiveProof
from topoopt.core.errors import InputError, LimitError, Problem
from topoopt.core.verdict import StopReason
from topoopt.kinds.kind import Effort, Method, table

Family = Callable[[CollectiveProblem, Stop], Plans]

FAMILIES: dict[str, Family] = {
    "bfb": by_breadth,
    "shortest": by_shortest,
    "forest": by_trees,
    "rings": by_rings,
    "all-to-all-paths": by_paths,
    "time-expanded": by_program,
}
QUICK = ("bfb", "shortest", "forest", "rings", "all-to-all-paths")
"""Families that `auto` tries, all of them."""


@dataclass(frozen=True, eq=False)
class FoundCollective:
    """A schedule, its times, what limits any, and the best ones by size."""

    schedule: CollectiveSchedule
    timing: ScheduleTimes
    proof: CollectiveProof
    method: str
    stopped_by: StopReason
    front: tuple[BestBySize, ...]


def score(problem: CollectiveProblem, schedule: CollectiveSchedule, times: ScheduleTimes) -> tuple[float, float]:
    """What is minimised, and what decides where that is equal."""
    if problem.objective is CollectiveObjective.LATENCY:
        return float(schedule.steps), times.step_us
    if problem.objective is CollectiveObjective.THROUGHPUT:
        return round(times.busy_us, 9), times.step_us
    return times.step_us, float(len(schedule.sends))


@dataclass(frozen=True, eq=False)
class _Candidate:
    """The best schedule of a family."""

    score: tuple[float, float]
    name: str
    schedule: CollectiveSchedule
    timing: ScheduleTimes
    stopped_by: StopReason


def _run(names: tuple[str, ...], problem: CollectiveProblem, effort: Effort) -> FoundCollective:
    best: _Candidate | None = None
    unfit: list[str] = []
    points: list[BestBySize] = []
    for name in names:
        if best is not None and effort.stop.reason() is not None:
            break
        effort.tell(f"schedules: {name}")
        found = _best_of(name, problem, effort.stop, points)
        if found is None:
            continue
        if problem.steps is not None and found.schedule.steps > problem.steps:
            unfit.append(f"{name} needs {found.schedule.steps} steps")
        elif best is None or found.score < best.score:
            best = found
            effort.keep(partial(_found, problem, effort, best, tuple(points)))
    if best is None:
        raise _nothing(names, unfit, effort)
    effort.tell("what limits any schedule")
    return _found(problem, effort, best, tuple(points))


def _found(
    problem: CollectiveProblem, effort: Effort, best: _Candidate, points: tuple[BestBySize, ...]
) -> FoundCollective:
    """What the best schedule amounts to, with what limits any."""
    proof = limiting(problem, effort.stop)
    reason = effort.stop.reason() or best.stopped_by
    return FoundCollective(best.schedule, best.timing, proof, best.name, reason, front(points))


def _best_of(name: str, problem: CollectiveProblem, stop: Stop, points: list[BestBySize]) -> _Candidate | None:
    """The best schedule of a family; what its schedules take by size goes to `points` where that is asked for."""
    tried: list[tuple[tuple[bool, float], int, int, PlannedSchedule]] = []
    for planned in FAMILIES[name](problem, stop):
        division = best_division(problem, planned)
        tried.append((division.value, len(tried), division.pieces, planned))
        if problem.objective is CollectiveObjective.PARETO:
            points += lines(problem, planned, name, division.pieces)
    if not tried:
        return None
    _, _, pieces, planned = min(tried, key=lambda one: one[:2])
    schedule = planned.pieces(pieces)
    times = timing(problem, schedule)
    return _Candidate(score(problem, schedule, times), name, schedule, times, planned.stopped_by)


def _nothing(names: tuple[str, ...], unfit: list[str], effort: Effort) -> Exception:
    if unfit:
        text = "no schedule in so few steps was found"
        return InputError([Problem(text, path="limits.steps", value="; ".join(unfit))])
    if effort.stop.reason() is not None:
        return LimitError("no schedule was found in time")
    text = "this method makes no such schedule on this network"
    return InputError([Problem(text, path="search.method", value=", ".join(names), allowed="auto")])


def _method(name: str, summary: str, families: tuple[str, ...]) -> Method:
    return Method(name, summary, partial(_run, families))


COLLECTIVE_METHODS = table(
    _method("auto", "the best of all families but time-expanded", QUICK),
    _method("bfb", "balanced breadth-first broadcasts: fewest steps (no switches)", ("bfb",)),
    _method("forest", "spanning trees of the best rate, through switches, in pieces", ("forest",)),
    _method("shortest", "whole shards in the fewest steps, through switches too", ("shortest",)),
    _method("rings", "rings of all ranks, each with an equal part", ("rings",)),
    _method("all-to-all-paths", "paths of the best rate of an all-to-all, in pieces", ("all-to-all-paths",)),
    _method("time-expanded", "whole chunks step by step, mixed-integer programs (small networks)", ("time-expanded",)),
)
