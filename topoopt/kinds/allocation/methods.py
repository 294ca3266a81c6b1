"""The methods of `topoopt solve` on allocation problems: one literal table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from solvers.allocation import (
    AllocationResult,
    SharedCapacities,
    Shares,
    clashing_guarantees,
    first_rates,
    largest_total,
    network_of,
    raise_levels,
    shares_of,
    water_fill,
)
from topoopt.core.allocation import AllocationGoal, AllocationProblem, Surplus
from topoopt.core.errors import InfeasibleError, Problem
from topoopt.core.verdict import StopReason
from topoopt.kinds.kind import Effort, Method, table

Step = Callable[[AllocationProblem, SharedCapacities, Shares, Effort], AllocationResult]


def wants_total(problem: AllocationProblem) -> bool:
    """Whether the sum of the rates is sought, not fair ones."""
    return problem.goal is AllocationGoal.MIN_GUARANTEE and problem.surplus is Surplus.SUM


def _programs(
    problem: AllocationProblem, network: SharedCapacities, shares: Shares, effort: Effort
) -> AllocationResult:
    def keep(found: AllocationResult, rough: bool = False) -> None:
        effort.keep(lambda: replace(found, stopped_by=effort.stop.reason() or StopReason.TIME), rough)

    if effort.stop.deadline is not None:
        first = first_rates(network, shares, effort.stop)
        if first is not None:
            keep(first, rough=True)
    if wants_total(problem):
        return largest_total(network, shares, effort.stop)
    return raise_levels(network, shares, effort.stop, keep)


def _filled(problem: AllocationProblem, network: SharedCapacities, shares: Shares, effort: Effort) -> AllocationResult:
    return water_fill(network, shares, effort.stop, effort.keep)


def _chosen(problem: AllocationProblem, network: SharedCapacities, shares: Shares, effort: Effort) -> AllocationResult:
    if network.single_route and not wants_total(problem):
        return _filled(problem, network, shares, effort)
    return _programs(problem, network, shares, effort)


def _fair_only(problem: AllocationProblem) -> Problem | None:
    if not wants_total(problem):
        return None
    text = "water-filling gives fair rates, not those of the largest sum"
    return Problem(text, path="search.method", value="water-filling", allowed="auto, lp")


def _after_guarantees(step: Step, problem: AllocationProblem, effort: Effort) -> AllocationResult:
    """Rates by one step, once the guarantees are known to fit together.

    Raises:
        InfeasibleError: they do not; names the transfers and links that clash.
    """
    network, shares = network_of(problem), shares_of(problem)
    clash = clashing_guarantees(network, shares, effort.stop)
    if clash is not None:
        raise InfeasibleError(clash)
    return step(problem, network, shares, effort)


def _method(name: str, summary: str, step: Step) -> Method:
    return Method(name, summary, partial(_after_guarantees, step))


ALLOCATION_METHODS = table(
    _method("auto", "water-filling where every transfer has one route, else lp", _chosen),
    Method(
        "water-filling",
        "progressive filling; fair rates, one route a transfer",
        partial(_after_guarantees, _filled),
        _fair_only,
    ),
    _method("lp", "linear programs level by level, HiGHS dual simplex", _programs),
)
