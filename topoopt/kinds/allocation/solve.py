"""The one straight line from an allocation problem to a checked solution."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from solvers.allocation import AllocationResult, clashing_guarantees, network_of, shares_of
from solvers.stop import stop_on_signals
from topoopt.core.allocation import GBIT_BYTES, AllocationGoal, AllocationProblem
from topoopt.core.allocation_rules import problem_faults
from topoopt.core.allocation_solution import AllocationSolution, TransferRate
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.search_settings import SearchSettings
from topoopt.core.solution import UNCHECKED
from topoopt.core.verdict import StopReason, Tolerance, settle
from topoopt.core.versions import versions
from topoopt.kinds.allocation.figures import destination_rates, limits_of, link_loads, reached
from topoopt.kinds.allocation.methods import ALLOCATION_METHODS, wants_total
from topoopt.verify.allocation.bounds import allocation_bound
from topoopt.verify.allocation.check import check_allocation


def search_problems(problem: AllocationProblem, method: str) -> list[Problem]:
    """What is wrong with the name of a method."""
    if method in ALLOCATION_METHODS:
        return []
    return [Problem("unknown method", path="search.method", value=repr(method), allowed=", ".join(ALLOCATION_METHODS))]


def solve_allocation(
    problem: AllocationProblem,
    *,
    seed: int | None = None,
    time_limit_s: float | None = None,
    method: str | None = None,
) -> AllocationSolution:
    """Find rates, bound and check them; arguments left out are taken from the instance. Nothing is random.

    Raises:
        InputError: unknown method, or one that does not cover the problem.
        InfeasibleError: the guarantees do not fit; names the transfers and links that clash.
        LimitError: the limit came before any rates were found.
    """
    search = problem.search.but(seed=seed, time_limit_s=time_limit_s, method=method)
    problems = search_problems(problem, search.method)
    problems += [Problem(fault, path="problem") for fault in problem_faults(problem)]
    if problems:
        raise InputError(problems)
    network, shares = network_of(problem), shares_of(problem)
    with stop_on_signals(search.time_limit_s) as stop:
        clash = clashing_guarantees(network, shares, stop)
        if clash is not None:
            raise InfeasibleError(clash)
        result = ALLOCATION_METHODS[search.method].run(problem, network, shares, stop)
    return assemble(problem, result, search)


def assemble(problem: AllocationProblem, result: AllocationResult, search: SearchSettings) -> AllocationSolution:
    """The solution that rates amount to, all figures recomputed, with the verdict of the checker."""
    rates = _transfer_rates(problem, result.route_gbps)
    objective = reached(problem, rates)
    certificates = result.certificates if wants_total(problem) or not problem.single_route else ()
    proven = allocation_bound(problem, certificates)
    bound, status = settle(
        objective.value,
        proven.value,
        Tolerance.LINEAR_PROGRAM,
        maximise=problem.goal is not AllocationGoal.COMPLETION_TIME,
        absolute=0.0 if objective.unit == "s" else Tolerance.ROUNDING.of(float(problem.capacity_gbps.max())),
        conclusive=result.stopped_by is StopReason.CONVERGED,
    )
    solution = AllocationSolution(
        name=problem.name,
        status=status,
        stopped_by=result.stopped_by,
        goal=problem.goal.value,
        surplus=problem.surplus.value,
        objective=objective,
        bound=replace(proven, value=bound),
        check=UNCHECKED,
        seed=search.seed,
        method=result.method,
        topology=problem.topology,
        capacity_gbps=problem.capacity_gbps,
        transfers=rates,
        link_gbps=link_loads(problem, result.route_gbps)[: len(problem.topology.arcs)],
        servers=destination_rates(problem, result.route_gbps),
        certificates=certificates,
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=problem.notes,
    )
    return solution.judged(check_allocation(problem, solution))


def _transfer_rates(problem: AllocationProblem, route_gbps: NDArray[np.float64]) -> tuple[TransferRate, ...]:
    limits = limits_of(problem, route_gbps)
    rows = []
    at = 0
    for transfer, limited_by in zip(problem.transfers, limits, strict=True):
        own = tuple(float(rate) for rate in route_gbps[at : at + len(transfer.routes)])
        at += len(own)
        rate = sum(own)
        size = transfer.size_bytes
        time = size / GBIT_BYTES / rate if size is not None and rate > 0 else None
        rows.append(TransferRate(transfer.name, transfer.source, transfer.destination, rate, own, time, limited_by))
    if problem.goal is AllocationGoal.COMPLETION_TIME and any(row.completion_time_s is None for row in rows):
        raise AssertionError("a transfer with a size and no rate")
    return tuple(rows)
