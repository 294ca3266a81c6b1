"""The methods of kind `allocation`, the result that their rates amount to, and why it is no better."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from formulations.bandwidth_allocation import SharedCapacities, Shares, network_of, shares_of
from solvers.allocation import clashing_guarantees, first_rates, largest_total, raise_levels, water_fill
from topoopt.core.allocation import AllocationPlan, AllocationProblem, price_certificate
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem
from topoopt.core.proofs import StopReason
from topoopt.core.result import Certificate, Result, SearchResult
from topoopt.files.results import bound_document
from topoopt.kinds.allocation.page import OWN_LIMIT, AllocationFigures
from topoopt.kinds.kind import Effort, Method, Solver, table
from topoopt.kinds.pipeline import Explanation, Question, assembled, solve
from topoopt.verify.allocation import CHECKER, base_and_gain
from topoopt.verify.checker import FULL

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


SOLVER = Solver(methods=lambda _: ALLOCATION_METHODS, assemble=_assemble, tables=lambda _: (("", ALLOCATION_METHODS),))


SAME = 1e-6
"""Relative difference of two levels that is none."""

NAMED_TRANSFERS = 6
NAMED_RESOURCES = 8


CapacityGain = tuple[list[str], list[float], float | None]
"""Names of resources, Gbit/s added to each, and the objective solved again and checked; None: the time limit came."""


@dataclass(frozen=True, eq=False)
class Bottlenecks:
    """What holds the objective back.

    Attributes:
        critical: indices of the transfers whose rates are the objective; all of them for a total.
        full: full resources on their routes with the number of critical transfers, most transfers first.
        at_limit: indices of critical transfers at their own largest rate.
        gains: of more capacity on each full resource, then on all of them together.
    """

    critical: Sequence[int]
    full: Sequence[tuple[str, int]]
    at_limit: Sequence[int]
    gains: Sequence[CapacityGain]


def explain(result: Result[AllocationProblem, AllocationPlan], question: Question) -> Explanation:
    """Explain what holds the objective back, in sentences and figures.

    Raises:
        InputError: there is no instance, or the result is not one of it.
    """
    problem = result.problem
    if problem is None:
        raise InputError([Problem("needed for the routes", path="instance", allowed="the instance that was solved")])
    violations = CHECKER(problem, result, FULL).violations
    if violations:
        raise InputError([Problem(f"not a solution of this instance: {violations[0].message}")])
    added_links = 1.0 if question.added_links is None else float(question.added_links)
    bottlenecks = find_bottlenecks(problem, result, added_links, question)
    names = [transfer.name for transfer in problem.transfers]
    figures = {
        "objective": vars(result.objective),
        "bound": bound_document(result.bound),
        "critical": [names[t] for t in bottlenecks.critical],
        "full": [{"name": name, "transfers": count} for name, count in bottlenecks.full],
        "at_their_own_limit": [names[t] for t in bottlenecks.at_limit],
        "more_capacity": [
            {"names": resources, "added_gbps": added, "checked_value": value}
            for resources, added, value in bottlenecks.gains
        ],
    }
    late = any(value is None for _, _, value in bottlenecks.gains)
    return Explanation(tuple(sentences(result, names, bottlenecks)), figures, result.notes, late)


def find_bottlenecks(
    problem: AllocationProblem,
    result: Result[AllocationProblem, AllocationPlan],
    added_links: float,
    question: Question,
) -> Bottlenecks:
    """Return the bottlenecks of a result; capacity is added in links, of the fastest link for a server."""
    figures = AllocationFigures(problem, result.plan)
    critical = _critical(problem, figures)
    count = Counter(name for t in critical for name in figures.limited_by[t] if name != OWN_LIMIT)
    full = sorted(count.items(), key=lambda row: (-row[1], row[0]))
    index = {problem.shared_name(r): r for r in range(len(problem.shared_gbps()))}
    groups = [[index[name]] for name, _ in full[: question.checks]]
    groups += [[index[name] for name, _ in full]] if len(full) > 1 else []
    return Bottlenecks(
        critical,
        full,
        [t for t in critical if figures.limited_by[t] == (OWN_LIMIT,)],
        [_gain(problem, resources, added_links, question) for resources in groups],
    )


def _critical(problem: AllocationProblem, figures: AllocationFigures) -> list[int]:
    rates = figures.rates_gbps
    if problem.wants_total:
        return list(range(len(rates)))
    if problem.goal == "completion-time":
        times = np.array([time or 0.0 for time in figures.completion_times_s])
        return np.flatnonzero(times >= times.max() * (1 - SAME)).tolist()
    base, gain = base_and_gain(problem)
    level = (rates - base) / gain
    noise = SAME * max(float(np.abs(level).max()), float(rates.max()))
    return np.flatnonzero(level <= level.min() + noise).tolist()


def _gain(problem: AllocationProblem, resources: list[int], added_links: float, question: Question) -> CapacityGain:
    m, n = len(problem.topology.arcs), problem.topology.servers
    link, capacity = problem.capacity_gbps / problem.topology.multiplicity, problem.shared_gbps()
    added = [added_links * float(link[r] if r < m else link.max()) for r in resources]
    capacity[resources] += added
    larger = replace(
        problem, capacity_gbps=capacity[:m], egress_gbps=capacity[m : m + n], ingress_gbps=capacity[m + n :], sha256=""
    )
    value: float | None = None
    if question.left_s() > 0:
        try:
            result = solve(larger, question.options())
            value = result.objective.value if result.check.ok else None
        except LimitError:
            value = None
    return [*map(problem.shared_name, resources)], added, value


def sentences(
    result: Result[AllocationProblem, AllocationPlan], names: Sequence[str], bottlenecks: Bottlenecks
) -> list[str]:
    """Return the sentences of the explanation, the value first, gains of capacity last."""
    objective, critical = result.objective, bottlenecks.critical
    name = objective.name.replace("_", " ")
    lines = [f"{result.name}: {name} {objective.value:.6g} {objective.unit}, {result.status.value}"]
    if len(critical) == len(names):
        lines.append("all transfers count for it")
    else:
        some = ", ".join(names[t] for t in critical[:NAMED_TRANSFERS])
        more = f" and {len(critical) - NAMED_TRANSFERS} more" if len(critical) > NAMED_TRANSFERS else ""
        lines.append(f"held by {len(critical)} of {len(names)} transfers: {some}{more}")
    lines += [f"  full: {name} ({count} of them cross it)" for name, count in bottlenecks.full[:NAMED_RESOURCES]]
    if bottlenecks.at_limit:
        limited = ", ".join(names[t] for t in bottlenecks.at_limit[:NAMED_TRANSFERS])
        lines.append(f"  at their own largest rate, which no link changes: {limited}")
    for resources, added, value in bottlenecks.gains:
        where = f"{added[0]:g} Gbit/s more on {resources[0]}"
        if len(resources) > 1:
            where = f"as much more on all {len(resources)} of them"
        lines.append(f"{where}: {_change(value, objective.value, objective.unit)}")
    return lines


def _change(gained: float | None, value: float, unit: str) -> str:
    if gained is None:
        return "not solved again within the time limit"
    change = gained - value
    if abs(change) <= SAME * max(abs(value), abs(gained)):
        return f"{gained:.6g} {unit}, no gain (checked)"
    return f"{gained:.6g} {unit}, {change:+.4g} {unit} (checked)"
