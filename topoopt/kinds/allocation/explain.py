"""What holds the objective of an allocation back, and what more capacity there would gain, solved again."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from topoopt.core.allocation import AllocationGoal, AllocationProblem
from topoopt.core.allocation_solution import AllocationSolution, TransferRate
from topoopt.core.errors import InputError, LimitError, Problem
from topoopt.files.solution_head import bound_document
from topoopt.kinds.allocation.methods import wants_total
from topoopt.kinds.explanation import Explanation, Question
from topoopt.kinds.pipeline import solve
from topoopt.verify.allocation.bounds import base_and_gain
from topoopt.verify.allocation.check import check_allocation

SAME = 1e-6
"""Relative difference of two levels that is none."""


@dataclass(frozen=True)
class CapacityGain:
    """More capacity on something that is shared.

    Attributes:
        names: links, or what servers send or receive.
        added_gbps: on each of them.
        value: objective solved again and checked; None: the time limit came first.
    """

    names: tuple[str, ...]
    added_gbps: tuple[float, ...]
    value: float | None


@dataclass(frozen=True, eq=False)
class AllocationExplanation:
    """What `topoopt explain` says of an allocation.

    Attributes:
        solution: what is explained.
        critical: the transfers whose rates are the objective; all of them for a total.
        full: what is full on their ways, those that hold most of them back first, with how many.
        own_limit: critical transfers at their own largest rate.
        single: gains of more capacity on one of the full things each; together: on all of them.
        late: whether something was not solved again for lack of time.
    """

    solution: AllocationSolution
    critical: tuple[TransferRate, ...]
    full: tuple[tuple[str, int], ...]
    own_limit: tuple[str, ...]
    single: tuple[CapacityGain, ...]
    together: CapacityGain | None
    late: bool


def explain_allocation(
    problem: AllocationProblem,
    solution: AllocationSolution,
    *,
    added_links: float = 1.0,
    question: Question | None = None,
) -> AllocationExplanation:
    """Explain rates; capacity is added in links: of the rate of a link there, or of the fastest link for servers.

    Raises:
        InputError: the solution is not one of this instance.
    """
    wrong = check_allocation(problem, solution).violations
    if wrong:
        raise InputError([Problem(f"not a solution of this instance: {wrong[0].message}")])
    question = question or Question()
    critical = tuple(solution.transfers[index] for index in _critical(problem, solution))
    counts: dict[str, int] = {}
    for row in critical:
        for name in row.limited_by:
            counts[name] = counts.get(name, 0) + 1
    places = {problem.shared_name(index): index for index in range(len(problem.shared_gbps()))}
    shared = [(name, count) for name, count in counts.items() if name in places]
    full = sorted(shared, key=lambda one: (-one[1], one[0]))
    single = tuple(_gain(problem, [places[name]], added_links, question) for name, _ in full[: question.checks])
    together = _gain(problem, [places[name] for name, _ in full], added_links, question) if len(full) > 1 else None
    return AllocationExplanation(
        solution=solution,
        critical=critical,
        full=tuple(full),
        own_limit=tuple(row.name for row in critical if row.limited_by == ("its own limit",)),
        single=single,
        together=together,
        late=any(gain is not None and gain.value is None for gain in (*single, together)),
    )


def _critical(problem: AllocationProblem, solution: AllocationSolution) -> list[int]:
    """Transfers whose rate is the objective."""
    rates = solution.rates_gbps
    if wants_total(problem):
        return list(range(len(rates)))
    if problem.goal is AllocationGoal.COMPLETION_TIME:
        times = np.array([row.completion_time_s or 0.0 for row in solution.transfers])
        return np.flatnonzero(times >= times.max() * (1 - SAME)).tolist()
    base, gain = base_and_gain(problem)
    level = (rates - base) / gain
    noise = SAME * max(float(np.abs(level).max()), float(rates.max()))
    return np.flatnonzero(level <= level.min() + noise).tolist()


def _gain(problem: AllocationProblem, places: list[int], added_links: float, question: Question) -> CapacityGain:
    """More capacity at places of the problem's numbering, solved again."""
    m, n = len(problem.topology.arcs), problem.topology.servers
    link = problem.capacity_gbps / problem.topology.multiplicity
    shared = problem.shared_gbps()
    added = [added_links * float(link[place] if place < m else link.max()) for place in places]
    shared[places] += added
    more = replace(
        problem, capacity_gbps=shared[:m], egress_gbps=shared[m : m + n], ingress_gbps=shared[m + n :], sha256=""
    )
    value: float | None = None
    if question.left_s() > 0:
        try:
            found = solve(more, question.options())
            value = found.objective.value if found.check.ok else None
        except LimitError:
            value = None
    return CapacityGain(tuple(problem.shared_name(place) for place in places), tuple(added), value)


def allocation_lines(found: AllocationExplanation) -> list[str]:
    """The explanation in words."""
    solution = found.solution
    value, unit = solution.objective.value, solution.objective.unit
    name = solution.objective.name.replace("_", " ")
    lines = [f"{solution.name}: {name} {value:.6g} {unit}, {solution.status.value}"]
    if len(found.critical) == len(solution.transfers):
        lines.append("all transfers count for it")
    else:
        some = ", ".join(row.name for row in found.critical[:6])
        more = f" and {len(found.critical) - 6} more" if len(found.critical) > 6 else ""
        lines.append(f"held by {len(found.critical)} of {len(solution.transfers)} transfers: {some}{more}")
    lines += [f"  full: {name} ({count} of them cross it)" for name, count in found.full[:8]]
    if found.own_limit:
        lines.append(f"  at their own largest rate, which no link changes: {', '.join(found.own_limit[:6])}")
    for gain in found.single:
        lines.append(f"{gain.added_gbps[0]:g} Gbit/s more on {gain.names[0]}: {_told(gain, value, unit)}")
    if found.together is not None:
        lines.append(f"as much more on all {len(found.together.names)} of them: {_told(found.together, value, unit)}")
    return lines


def _told(gain: CapacityGain, value: float, unit: str) -> str:
    if gain.value is None:
        return "not solved again within the time limit"
    change = gain.value - value
    if abs(change) <= SAME * max(abs(value), abs(gain.value)):
        return f"{gain.value:.6g} {unit}, no gain (checked)"
    return f"{gain.value:.6g} {unit}, {change:+.4g} {unit} (checked)"


def explain(problem: AllocationProblem | None, solution: AllocationSolution, question: Question) -> Explanation:
    """What holds the objective back, in words and figures.

    Raises:
        InputError: no instance, or one that the solution is not of.
    """
    if problem is None:
        raise InputError([Problem("needed for the routes", path="--instance", allowed="the instance that was solved")])
    added = 1.0 if question.added_links is None else float(question.added_links)
    found = explain_allocation(problem, solution, added_links=added, question=question)
    gains = (*found.single, *([found.together] if found.together is not None else []))
    figures = {
        "objective": vars(solution.objective),
        "bound": bound_document(solution.bound),
        "critical": [row.name for row in found.critical],
        "full": [{"name": name, "transfers": count} for name, count in found.full],
        "at_their_own_limit": list(found.own_limit),
        "more_capacity": [
            {"names": list(gain.names), "added_gbps": list(gain.added_gbps), "checked_value": gain.value}
            for gain in gains
        ],
    }
    return Explanation(tuple(allocation_lines(found)), figures, solution.notes, found.late)
