"""The one straight line from a placement problem to a checked solution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from topoopt.core.errors import InputError, Problem
from topoopt.core.placement import PlacementProblem, Throughput
from topoopt.core.placement_solution import PlacementSolution
from topoopt.core.search_settings import SearchSettings
from topoopt.core.solution import UNCHECKED, Objective
from topoopt.core.verdict import Tolerance, settle
from topoopt.core.versions import versions
from topoopt.kinds.placement.outcome import PlacementEffort, PlacementMethod, PlacementOutcome
from topoopt.simulate.placement.stage_loads import compute_loads, device_loads, max_load_ms
from topoopt.verify.placement.check import check_placement


def methods_table(problem: PlacementProblem) -> Mapping[str, PlacementMethod]:
    """The methods for the objective of a problem."""
    if isinstance(problem.objective, Throughput):
        from topoopt.kinds.placement.throughput import THROUGHPUT_METHODS

        return THROUGHPUT_METHODS
    from topoopt.kinds.placement.latency import LATENCY_METHODS

    return LATENCY_METHODS


def search_problems(problem: PlacementProblem, method: str) -> list[Problem]:
    """What is wrong with the name of a method."""
    names = ("auto", *(name for name in methods_table(problem) if name != "auto"))
    if method in names:
        return []
    return [Problem("unknown method", path="search.method", value=repr(method), allowed=", ".join(names))]


def solve_placement(
    problem: PlacementProblem,
    *,
    seed: int | None = None,
    time_limit_s: float | None = None,
    method: str | None = None,
    budget: int | None = None,
) -> PlacementSolution:
    """Place the operators; evaluate, bound and check what comes out.

    Arguments left out are taken from the instance.

    Raises:
        InputError: unknown method, or one that does not cover the problem.
        InfeasibleError: nothing satisfies the constraints.
        LimitError: the limit came before anything was found.
    """
    search = problem.search.but(seed=seed, time_limit_s=time_limit_s, method=method, budget=budget)
    problems = search_problems(problem, search.method)
    if problems:
        raise InputError(problems)
    effort = PlacementEffort(search.seed, search.time_limit_s, search.budget)
    outcome = methods_table(problem)[search.method].run(problem, effort)
    return assemble(problem, outcome, search)


def assemble(problem: PlacementProblem, outcome: PlacementOutcome, search: SearchSettings) -> PlacementSolution:
    """The solution an outcome amounts to, all figures recomputed, with the verdict of the checker."""
    settings = problem.objective
    if isinstance(settings, Throughput):
        loads = device_loads(problem, outcome.device)
        objective = Objective("max_load", max_load_ms(settings, loads), "ms")
    else:
        loads = compute_loads(problem, outcome.device)
        objective = Objective("makespan", 0.0 if outcome.end_ms is None else float(outcome.end_ms.max()), "ms")
    tolerance = Tolerance.TIMES_ROUNDED_DOWN
    bound, status = settle(objective.value, outcome.bound.value, tolerance, rounding=tolerance)
    solution = PlacementSolution(
        name=problem.name,
        status=status,
        stopped_by=outcome.stopped_by,
        objective=objective,
        bound=replace(outcome.bound, value=bound),
        check=UNCHECKED,
        seed=search.seed,
        method=outcome.method,
        settings=settings,
        servers=problem.servers,
        devices=problem.devices,
        classes=problem.classes,
        operators=tuple(operator.name for operator in problem.operators),
        device=outcome.device,
        stage=outcome.stage,
        loads=loads,
        start_ms=outcome.start_ms,
        end_ms=outcome.end_ms,
        transfers=outcome.transfers,
        rates_gbps=outcome.rates_gbps,
        link_shares=outcome.link_shares,
        compact=outcome.compact,
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=(*problem.notes, *outcome.notes),
    )
    return solution.judged(check_placement(problem, solution))
