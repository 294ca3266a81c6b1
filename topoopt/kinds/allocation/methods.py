"""The methods of `topoopt solve` on allocation problems: one literal table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from solvers.allocation import AllocationResult, SharedCapacities, Shares, largest_total, raise_levels, water_fill
from solvers.stop import Stop
from topoopt.core.allocation import AllocationGoal, AllocationProblem, Surplus
from topoopt.core.errors import InputError, Problem

Run = Callable[[AllocationProblem, SharedCapacities, Shares, Stop], AllocationResult]


@dataclass(frozen=True)
class AllocationMethod:
    """A line of the table; `run` raises InputError for what the method does not cover, and LimitError."""

    summary: str
    run: Run


def wants_total(problem: AllocationProblem) -> bool:
    """Whether the sum of the rates is sought, not fair ones."""
    return problem.goal is AllocationGoal.MIN_GUARANTEE and problem.surplus is Surplus.SUM


def _programs(
    problem: AllocationProblem, network: SharedCapacities, shares: Shares, stop: Stop, backend: str
) -> AllocationResult:
    step = largest_total if wants_total(problem) else raise_levels
    return step(network, shares, backend, stop)


def _filled(problem: AllocationProblem, network: SharedCapacities, shares: Shares, stop: Stop) -> AllocationResult:
    if wants_total(problem):
        text = "water-filling gives fair rates, not those of the largest sum"
        raise InputError([Problem(text, path="search.method", value="water-filling", allowed="auto, lp, lp-glop")])
    return water_fill(network, shares, stop.reason())


def _chosen(problem: AllocationProblem, network: SharedCapacities, shares: Shares, stop: Stop) -> AllocationResult:
    if network.single_route and not wants_total(problem):
        return _filled(problem, network, shares, stop)
    return _programs(problem, network, shares, stop, "highs-simplex")


ALLOCATION_METHODS: Mapping[str, AllocationMethod] = {
    "auto": AllocationMethod("water-filling where every transfer has one route, else lp", _chosen),
    "water-filling": AllocationMethod("progressive filling; fair rates, one route a transfer", _filled),
    "lp": AllocationMethod(
        "linear programs level by level, HiGHS dual simplex", partial(_programs, backend="highs-simplex")
    ),
    "lp-glop": AllocationMethod("the same by OR-Tools GLOP", partial(_programs, backend="glop")),
}
