"""From a placement to the solution it amounts to."""

from __future__ import annotations

from collections.abc import Mapping

from topoopt.core.placement import PlacementProblem, Throughput
from topoopt.core.placement_solution import PlacementSolution
from topoopt.core.solution import UNCHECKED, Objective
from topoopt.core.verdict import Tolerance, settle
from topoopt.core.versions import versions
from topoopt.kinds.kind import Effort, Method, MethodTables, Solver
from topoopt.kinds.placement.outcome import PlacementOutcome
from topoopt.simulate.placement.stage_loads import compute_loads, device_loads, max_load_ms


def assemble(problem: PlacementProblem, outcome: PlacementOutcome, effort: Effort) -> PlacementSolution:
    """The solution an outcome amounts to, all figures recomputed."""
    settings = problem.objective
    if isinstance(settings, Throughput):
        loads = device_loads(problem, outcome.device)
        objective = Objective("max_load", max_load_ms(settings, loads), "ms")
    else:
        loads = compute_loads(problem, outcome.device)
        objective = Objective("makespan", 0.0 if outcome.end_ms is None else float(outcome.end_ms.max()), "ms")
    tolerance = Tolerance.TIMES_ROUNDED_DOWN
    verdict = settle(objective.value, outcome.bounds, tolerance, rounding=tolerance)
    return PlacementSolution(
        name=problem.name,
        status=verdict.status,
        stopped_by=outcome.stopped_by,
        objective=objective,
        bound=verdict.bound,
        claimed_bound=verdict.claimed_bound,
        check=UNCHECKED,
        seed=effort.search.seed,
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
        link_shares=outcome.link_shares,
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=(*problem.notes, *outcome.notes),
    )


def methods_of(problem: PlacementProblem) -> Mapping[str, Method]:
    """The methods for the objective of a problem."""
    if isinstance(problem.objective, Throughput):
        from topoopt.kinds.placement.throughput import THROUGHPUT_METHODS

        return THROUGHPUT_METHODS
    from topoopt.kinds.placement.latency import LATENCY_METHODS

    return LATENCY_METHODS


def method_tables(_: str) -> MethodTables:
    """By objective."""
    from topoopt.kinds.placement.latency import LATENCY_METHODS
    from topoopt.kinds.placement.throughput import THROUGHPUT_METHODS

    return (("objective throughput", THROUGHPUT_METHODS), ("objective latency", LATENCY_METHODS))


SOLVER = Solver(methods_of, assemble, method_tables)
