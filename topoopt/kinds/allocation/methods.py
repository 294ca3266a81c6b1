"""The methods of kind `allocation`, and the result that their rates amount to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from formulations.bandwidth_allocation import SharedCapacities, Shares, network_of, shares_of
from solvers.allocation import clashing_guarantees, first_rates, largest_total, raise_levels, water_fill
from topoopt.core.allocation import AllocationPlan, AllocationProblem, price_certificate
from topoopt.core.errors import InfeasibleError, Problem
from topoopt.core.proofs import StopReason
from topoopt.core.result import Certificate, Result, SearchResult
from topoopt.kinds.kind import Effort, Method, Solver, table
from topoopt.kinds.pipeline import assembled
from topoopt.verify.allocation import CHECKER

Rates = SearchResult[AllocationPlan]
Step = Callable[[AllocationProblem, SharedCapacities, Shares, Effort], Rates]


def _programs(problem: AllocationProblem, network: SharedCapacities, shares: Shares, effort: Effort) -> Rates:
    def keep(incumbent: Rates, rough: bool = False) -> None:
        effort.keep(lambda: replace(incumbent, stopped_by=effort.stop.reason() or StopReason.TIME), rough)

    if effort.stop.deadline is not None:
        first = first_rates(network, shares, effort.stop)
        if first is not None:
            keep(first, rough=True)
    if problem.wants_total:
        return largest_total(network, shares, effort.stop)
    return raise_levels(network, shares, effort.stop, keep)


def _filled(problem: AllocationProblem, network: SharedCapacities, shares: Shares, effort: Effort) -> Rates:
    return water_fill(network, shares, effort.stop, effort.keep)


def _automatic(problem: AllocationProblem, network: SharedCapacities, shares: Shares, effort: Effort) -> Rates:
    if network.single_route and not problem.wants_total:
        return _filled(problem, network, shares, effort)
    return _programs(problem, network, shares, effort)


def _fair_only(problem: AllocationProblem) -> Problem | None:
    if not problem.wants_total:
        return None
    text = "water-filling gives fair rates, not those of the largest sum"
    return Problem(text, path="search.method", value="water-filling", allowed="auto, lp")


def _after_guarantees(step: Step, problem: AllocationProblem, effort: Effort) -> Rates:
    """Return the rates of a step, once the guarantees are known to fit together."""
    network, shares = network_of(problem), shares_of(problem)
    clash = clashing_guarantees(network, shares, effort.stop)
    if clash is not None:
        raise InfeasibleError(clash)
    return step(problem, network, shares, effort)


def _method(name: str, summary: str, step: Step) -> Method:
    return Method(name, summary, partial(_after_guarantees, step))


ALLOCATION_METHODS = table(
    _method("auto", "water-filling where every transfer has one route, else lp", _automatic),
    Method(
        "water-filling",
        "progressive filling; fair rates, one route a transfer",
        partial(_after_guarantees, _filled),
        _fair_only,
    ),
    _method("lp", "linear programs level by level, HiGHS dual simplex", _programs),
)


def from_format_2(
    problem: AllocationProblem, document: Mapping[str, Any]
) -> tuple[AllocationPlan, tuple[Certificate, ...]]:
    """Return the plan and the certificates of a solution file of format 2."""
    rates = [rate for transfer in document["transfers"] for rate in transfer["route_gbps"]]
    certificates = [
        price_certificate(
            np.array(row["transfers"], dtype=np.int64),
            np.array([resource for resource, _ in row["prices"]], dtype=np.int64),
            np.array([price for _, price in row["prices"]]),
            np.array([transfer for transfer, _ in row["multipliers"]], dtype=np.int64),
            np.array([multiplier for _, multiplier in row["multipliers"]]),
        )
        for row in document["certificates"]
    ]
    return AllocationPlan(np.array(rates, dtype=np.float64)), tuple(certificates)


def _assemble(problem: AllocationProblem, rates: Rates, effort: Effort) -> Result[Any, Any]:
    needed = problem.wants_total or not problem.single_route
    return assembled(problem, rates if needed else replace(rates, certificates=()), effort, CHECKER)


SOLVER = Solver(
    methods=lambda _: ALLOCATION_METHODS,
    assemble=_assemble,
    tables=lambda _: (("", ALLOCATION_METHODS),),
)
