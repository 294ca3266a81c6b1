"""The methods of `topoopt solve` on collectives: one literal table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from solvers.collective.limits import limiting
from solvers.collective.plans import PlannedSchedule, by_breadth, by_paths, by_program, by_rings, by_shortest, by_trees
from solvers.collective.timing import ScheduleTimes, timing
from solvers.stop import Stop
from topoopt.core.collective import CollectiveObjective, CollectiveProblem, CollectiveSchedule
from topoopt.core.collective_solution import CollectiveProof
from topoopt.core.errors import InputError, LimitError, Problem
from topoopt.core.verdict import StopReason
from topoopt.kinds.kind import Effort, Method, table

Family = Callable[[CollectiveProblem, Stop], PlannedSchedule | None]

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
    """A schedule, its times, and what limits any."""

    schedule: CollectiveSchedule
    timing: ScheduleTimes
    proof: CollectiveProof
    method: str
    stopped_by: StopReason


def score(problem: CollectiveProblem, schedule: CollectiveSchedule, times: ScheduleTimes) -> tuple[float, float]:
    """What is minimised, and what decides where that is equal."""
    if problem.objective is CollectiveObjective.LATENCY:
        return float(schedule.steps), times.step_us
    if problem.objective is CollectiveObjective.THROUGHPUT:
        return round(times.busy_us, 9), times.step_us
    return times.step_us, float(len(schedule.sends))


def _run(names: tuple[str, ...], problem: CollectiveProblem, effort: Effort) -> FoundCollective:
    best: tuple[tuple[float, float], str, PlannedSchedule, ScheduleTimes] | None = None
    unfit = []
    for name in names:
        if best is not None and effort.stop.reason() is not None:
            break
        effort.tell(f"schedules: {name}")
        planned = FAMILIES[name](problem, effort.stop)
        if planned is None:
            continue
        if problem.steps is not None and planned.schedule.steps > problem.steps:
            unfit.append(f"{name} needs {planned.schedule.steps} steps")
            continue
        times = timing(problem, planned.schedule)
        own = score(problem, planned.schedule, times)
        if best is None or own < best[0]:
            best = own, name, planned, times
    if best is None:
        raise _nothing(names, unfit, effort)
    _, name, planned, times = best
    effort.tell("what limits any schedule")
    proof = limiting(problem, effort.stop)
    reason = effort.stop.reason() or planned.stopped_by
    return FoundCollective(planned.schedule, times, proof, name, reason)


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
