"""The methods of kind `collective`, and the result that a schedule amounts to."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from solvers.collective.best_rates import limiting
from solvers.collective.options import best_by_size, best_division, lines
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
from solvers.collective.schedules import step_loads_us
from solvers.stop import Stop
from topoopt.core.collective import (
    CollectivePlan,
    CollectiveProblem,
    CollectiveResult,
    CollectiveSchedule,
    TimeLine,
    cut_certificate,
    lengths_certificate,
    tree_certificate,
)
from topoopt.core.errors import InputError, LimitError, Problem
from topoopt.core.proofs import StopReason
from topoopt.core.result import Certificate, SearchResult
from topoopt.kinds.kind import Effort, Method, Solver, table
from topoopt.kinds.pipeline import assembled
from topoopt.verify.collective import CHECKER, bandwidth_us

FAMILIES: dict[str, Callable[[CollectiveProblem, Stop], Plans]] = {
    "bfb": by_breadth,
    "shortest": by_shortest,
    "forest": by_trees,
    "rings": by_rings,
    "all-to-all-paths": by_paths,
    "time-expanded": by_program,
}
QUICK = ("bfb", "forest", "all-to-all-paths", "shortest", "rings")
"""Families that `auto` tries; where bytes alone count, none after one that is at the bound."""

MET = 1e-4
"""Gap at which a schedule is at the bound."""

MOST_RANKS_PAIRED = 128
"""Ranks up to which messages of every pair are tried behind switches, where the time of `shortest` and `rings` grows
with their cube."""

THINNED = 16
"""One send of so many is written to measure how long all take."""


_Candidate = tuple[tuple[float, float], str, CollectiveSchedule, StopReason, tuple[Certificate, ...]]
"""Score (what is minimised, and what decides between equals), family, its best schedule, why the family stopped, and
what it proved of all schedules."""


def _search(names: tuple[str, ...], problem: CollectiveProblem, effort: Effort) -> SearchResult[CollectivePlan]:
    """Run the families, and return the best schedule with what limits any.

    Raises:
        InputError: no family makes a schedule here, or none in so few steps.
        LimitError: there is no schedule yet when time runs out.
    """
    best: _Candidate | None = None
    too_long: list[str] = []
    by_size: list[TimeLine] = []
    proven: tuple[Certificate, ...] = ()
    for name in names:
        if best is not None and (effort.stop.reason() is not None or _at_the_bound(problem, best)):
            break
        if len(names) > 1 and name in ("shortest", "rings") and _too_many_pairs(problem):
            continue
        effort.tell(f"schedules: {name}")
        candidate = _best_of(name, problem, effort.stop, by_size)
        if candidate is None:
            continue
        proven = proven or candidate[4]
        if problem.steps is not None and candidate[2].steps > problem.steps:
            too_long.append(f"{name} needs {candidate[2].steps} steps")
        elif best is None or candidate[0] < best[0]:
            best = (*candidate[:4], proven)
            effort.keep(partial(_with_limits, problem, effort, best, tuple(by_size)))
    if best is None:
        raise _no_schedule(names, too_long, effort)
    effort.tell("what limits any schedule")
    best = (*best[:4], proven)
    return _with_limits(problem, effort, best, tuple(by_size))


def _with_limits(
    problem: CollectiveProblem, effort: Effort, best: _Candidate, by_size: tuple[TimeLine, ...]
) -> SearchResult[CollectivePlan]:
    _, method, schedule, stopped_by, proven = best
    certificates = proven or limiting(problem, effort.stop)
    front = [TimeLine(line.method, line.pieces, line.steps, line.latency_us, line.us_per_mbyte)
             for line in best_by_size(by_size)]  # fmt: skip
    return SearchResult(
        plan=CollectivePlan.of(schedule, front),
        certificates=certificates,
        stopped_by=effort.stop.reason() or stopped_by,
        method=method,
    )


def _best_of(name: str, problem: CollectiveProblem, stop: Stop, by_size: list[TimeLine]) -> _Candidate | None:
    """Return the best schedule of a family; times over sizes go to `by_size` where they are sought."""
    candidates: list[tuple[tuple[bool, float], int, int, PlannedSchedule]] = []
    certificates: tuple[Certificate, ...] = ()
    for planned in FAMILIES[name](problem, stop):
        certificates = certificates or planned.certificates
        value, pieces = best_division(problem, planned)
        candidates.append((value, len(candidates), pieces, planned))
        if problem.objective == "pareto":
            by_size += lines(problem, planned, name, pieces)
    if not candidates:
        return None
    _, _, pieces, planned = min(candidates, key=lambda row: row[:2])
    schedule = planned.pieces(pieces)
    return _score(problem, schedule), name, schedule, planned.stopped_by, certificates


def _at_the_bound(problem: CollectiveProblem, best: _Candidate) -> bool:
    """Whether bytes alone count, and no schedule can be faster."""
    if problem.objective != "throughput" or not best[4]:
        return False
    return best[0][0] * (1 - MET) <= float(bandwidth_us(problem, best[4]))


def _too_many_pairs(problem: CollectiveProblem) -> bool:
    return bool(problem.network.is_switch.any()) and len(problem.network.ranks) > MOST_RANKS_PAIRED


def _score(problem: CollectiveProblem, schedule: CollectiveSchedule) -> tuple[float, float]:
    loads, latency = step_loads_us(problem, schedule)
    step_us = float((loads.max(axis=1, initial=0.0) + latency).sum())
    if problem.objective == "latency":
        return float(schedule.steps), step_us
    if problem.objective == "throughput":
        return round(float(loads.sum(axis=0).max(initial=0.0)), 9), step_us
    return step_us, float(len(schedule.sends))


def _no_schedule(names: tuple[str, ...], too_long: list[str], effort: Effort) -> Exception:
    if too_long:
        text = "no schedule in so few steps was found"
        return InputError([Problem(text, path="limits.steps", value="; ".join(too_long))])
    if effort.stop.reason() is not None:
        return LimitError("no schedule was found in time")
    text = "this method makes no such schedule on this network"
    return InputError([Problem(text, path="search.method", value=", ".join(names), allowed="auto")])


def _method(name: str, summary: str, families: tuple[str, ...]) -> Method:
    return Method(name, summary, partial(_search, families))


COLLECTIVE_METHODS = table(
    _method("auto", "the best of all families but time-expanded", QUICK),
    _method("bfb", "balanced breadth-first broadcasts: fewest steps (no switches)", ("bfb",)),
    _method("forest", "spanning trees of the best rate, through switches, in pieces", ("forest",)),
    _method("shortest", "whole shards in the fewest steps, through switches too", ("shortest",)),
    _method("rings", "rings of all ranks, each with an equal part", ("rings",)),
    _method("all-to-all-paths", "paths of the best rate of an all-to-all, in pieces", ("all-to-all-paths",)),
    _method("time-expanded", "whole chunks step by step, mixed-integer programs (small networks)", ("time-expanded",)),
)


def from_format_2(
    problem: CollectiveProblem, document: Mapping[str, Any]
) -> tuple[CollectivePlan, tuple[Certificate, ...]]:
    """Return the plan and the certificates of a solution file of format 2."""
    schedule, proof = document["schedule"], document["proof"]
    units, owner, target = np.array(schedule["blocks"], dtype=np.int64).reshape(-1, 3).T
    step, block, route, reduce = np.array(schedule["sends"], dtype=np.int32).reshape(-1, 4).T
    front = [
        TimeLine(row["method"], row["pieces"], row["steps"], row["latency_us"], row["us_per_mbyte"])
        for row in document.get("front", ())
    ]
    routes = tuple(map(tuple, schedule["routes"]))
    narrow = (owner.astype(np.int32), target.astype(np.int32))
    plan = CollectivePlan(units, *narrow, routes, step, block, route, reduce, tuple(front))
    if proof.get("lengths") is not None:
        return plan, (lengths_certificate(np.array(proof["lengths"], dtype=np.int64)),)
    cut = cut_certificate(proof["cut"])
    return plan, (cut,) if proof.get("allreduce") is None else (_tree_lengths(problem, proof["allreduce"]), cut)


def _tree_lengths(problem: CollectiveProblem, document: Mapping[str, Any]) -> Certificate:
    """Prices of links by weights of sets and potentials: trees of a root cross every set that it is in."""
    arcs = problem.network.arcs.tolist()
    prices = []
    for name, first, last in (("broadcast", 0, 1), ("reduce", 1, 0)):
        potential = [Fraction(own) for own in document[f"{name}_potential"]]
        price = [potential[arc[0]] - potential[arc[1]] for arc in arcs]
        for row in document[name]:
            inside = set(row["nodes"])
            for index, arc in enumerate(arcs):
                if arc[first] in inside and arc[last] not in inside:
                    price[index] += Fraction(row["weight"])
        prices.append(price)
    lengths = [max(*own, Fraction(0)) for own in zip(*prices, strict=True)]
    scale = math.lcm(*(own.denominator for own in lengths))
    return tree_certificate(np.array([int(own * scale) for own in lengths], dtype=np.int64))


def _assemble(problem: CollectiveProblem, search: SearchResult[CollectivePlan], effort: Effort) -> CollectiveResult:
    return assembled(problem, search, effort, CHECKER)


def _excerpt(result: CollectiveResult) -> tuple[CollectiveResult, int]:
    return replace(result, plan=result.plan.thinned(THINNED)), THINNED


SOLVER = Solver(
    methods=lambda _: COLLECTIVE_METHODS,
    assemble=_assemble,
    tables=lambda _: (("", COLLECTIVE_METHODS),),
    excerpt=_excerpt,
)
