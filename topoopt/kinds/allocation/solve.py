"""From rates of routes to the solution they amount to."""

from __future__ import annotations

from dataclasses import replace

from solvers.allocation import AllocationResult
from topoopt.core.allocation import GBIT_BYTES, AllocationGoal, AllocationProblem
from topoopt.core.allocation_solution import AllocationSolution, TransferRate
from topoopt.core.arrays import Floats
from topoopt.core.solution import UNCHECKED
from topoopt.core.verdict import StopReason, Tolerance, settle
from topoopt.core.versions import versions
from topoopt.kinds.allocation.figures import destination_rates, limits_of, reached
from topoopt.kinds.allocation.methods import ALLOCATION_METHODS, wants_total
from topoopt.kinds.kind import Effort, Solver
from topoopt.verify.allocation.bounds import allocation_bound


def assemble(problem: AllocationProblem, result: AllocationResult, effort: Effort) -> AllocationSolution:
    """The solution that rates amount to."""
    rates = _transfer_rates(problem, result.route_gbps)
    objective = reached(problem, rates)
    certificates = result.certificates if wants_total(problem) or not problem.single_route else ()
    proven = allocation_bound(problem, certificates)
    verdict = settle(
        objective.value,
        (proven,),
        Tolerance.LINEAR_PROGRAM,
        maximise=problem.goal is not AllocationGoal.COMPLETION_TIME,
        absolute=0.0 if objective.unit == "s" else Tolerance.ROUNDING.of(float(problem.capacity_gbps.max())),
        conclusive=result.stopped_by is StopReason.CONVERGED,
    )
    return AllocationSolution(
        name=problem.name,
        status=verdict.status,
        stopped_by=result.stopped_by,
        goal=problem.goal.value,
        surplus=problem.surplus.value,
        objective=objective,
        bound=verdict.bound,
        check=UNCHECKED,
        seed=effort.search.seed,
        method=result.method,
        topology=problem.topology,
        capacity_gbps=problem.capacity_gbps,
        transfers=rates,
        servers=destination_rates(problem, result.route_gbps),
        certificates=certificates,
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=problem.notes,
    )


def _transfer_rates(problem: AllocationProblem, route_gbps: Floats) -> tuple[TransferRate, ...]:
    limits = limits_of(problem, route_gbps)
    rows = []
    at = 0
    for transfer, limited_by in zip(problem.transfers, limits, strict=True):
        own = tuple(float(rate) for rate in route_gbps[at : at + len(transfer.routes)])
        at += len(own)
        rate = sum(own)
        size = transfer.size_bytes
        time = size / GBIT_BYTES / rate if size is not None and rate > 0 else None
        rows.append(TransferRate(transfer.name, transfer.source, transfer.destination, own, time, limited_by))
    if problem.goal is AllocationGoal.COMPLETION_TIME and any(row.completion_time_s is None for row in rows):
        raise AssertionError("a transfer with a size and no rate")
    return tuple(rows)


PARTS = 16
"""One row of the servers of so many is written to measure how long all take."""


def _excerpt(solution: AllocationSolution) -> tuple[AllocationSolution, int]:
    return replace(solution, servers=solution.servers[::PARTS]), PARTS


SOLVER = Solver(
    methods=lambda _: ALLOCATION_METHODS,
    assemble=assemble,
    tables=lambda _: (("", ALLOCATION_METHODS),),
    excerpt=_excerpt,
)
