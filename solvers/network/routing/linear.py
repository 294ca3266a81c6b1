"""The arc formulation, with hops apart where they are limited, by HiGHS and by OR-Tools PDLP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.network import concurrent_flow, concurrent_flow_hops
from formulations.network.concurrent_flow import ConcurrentFlow
from formulations.parts.arrays import LpArrays
from solvers.backends.backend import LpResult, Options, SolverLimits
from solvers.backends.table import solve_guarded, solver_named
from solvers.network.routing.frank_wolfe import Potential
from solvers.network.routing.proof import RoutingProof
from topoopt.core.arrays import Floats

if TYPE_CHECKING:
    from ortools.pdlp.python import pdlp

_PDLP_ACCURACY = (1e-3, 1e-4, 1e-5, 1e-6)
_TIGHT = {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9, "ipm_optimality_tolerance": 1e-9}
_GUARDED = 20_000  # columns from which on a program runs in a process that can be stopped; fewer take a second or so
_SLICE = 1e9  # coefficients times iterations after which PDLP looks for an interrupt: seconds


@dataclass(frozen=True, eq=False)
class _Program:
    """The linear program of a proof; `flow` and `lengths` translate back from columns and row duals."""

    arrays: LpArrays
    flow: Callable[[Floats], Floats]
    lengths: Callable[[Floats], Floats]


def _program(proof: RoutingProof) -> _Program:
    """With demand of mean 1, which suits absolute tolerances."""
    network, hops = proof.network, proof.max_hops
    mean = float(network.demand.sum()) / (network.servers * (network.servers - 1))
    data = ConcurrentFlow(network.tail, network.head, network.capacity, network.demand / mean, proof.hop_price / mean)
    if hops is None:
        arrays, flow = concurrent_flow.build_arrays(data), lambda x: concurrent_flow.flow_of(data, x) * mean
    else:
        arrays = concurrent_flow_hops.build_arrays(data, hops)
        flow = lambda x: concurrent_flow_hops.flow_of(data, hops, x) * mean  # noqa: E731
    return _Program(arrays, flow, lambda row_dual: concurrent_flow.lengths_of(data, row_dual))


def solved(proof: RoutingProof, algorithm: str, arrays: LpArrays, options: Options) -> LpResult:
    """What a backend finds in the time left; a large program runs in a process that can be stopped."""
    limits = SolverLimits(time_s=proof.time_left_s)
    if arrays.columns < _GUARDED:
        return solver_named(algorithm)(arrays, limits, options)
    return solve_guarded(algorithm, arrays, limits, options, stop=proof.stop)


def _by_highs(proof: RoutingProof, algorithm: str) -> int:
    proof.offer_shortest()
    if proof.proven or proof.late:
        return 0
    program = _program(proof)
    answer = solved(proof, algorithm, program.arrays, {**_TIGHT, "run_crossover": "off"})
    if answer.row_dual is not None:
        proof.offer_lengths(program.lengths(answer.row_dual))
    if answer.raw_x is not None:
        proof.offer_rough_flow(program.flow(answer.raw_x), proof.lengths)
    return 1


def simplex(proof: RoutingProof) -> int:
    """HiGHS dual simplex on the arc formulation; returns the programs solved."""
    return _by_highs(proof, "highs-simplex")


def ipx(proof: RoutingProof) -> int:
    """HiGHS IPX without crossover on the arc formulation; returns the programs solved."""
    return _by_highs(proof, "highs-ipx")


def first_order(proof: RoutingProof) -> int:
    """PDLP at growing accuracy, each time with our own certificate and repair, and a few sweeps of `frank-wolfe`.

    Returns the iterations of PDLP.
    """
    from ortools.pdlp import solve_log_pb2
    from ortools.pdlp.python import pdlp

    if proof.late:
        proof.offer_shortest()
        return 0
    program = _program(proof)
    arrays = program.arrays
    problem = pdlp.QuadraticProgram()
    problem.resize_and_initialize(arrays.columns, arrays.rows)
    problem.objective_vector = arrays.cost
    problem.constraint_matrix = arrays.matrix()
    problem.constraint_lower_bounds, problem.constraint_upper_bounds = arrays.row_lower, arrays.row_upper
    problem.variable_lower_bounds, problem.variable_upper_bounds = arrays.lower, arrays.upper
    work = 0
    start = None
    for tolerance in _PDLP_ACCURACY:
        while True:
            answer = _slice(problem, tolerance, int(_SLICE / arrays.nonzeros) + 1, proof.time_left_s, start)
            start = pdlp.PrimalAndDualSolution()
            start.primal_solution, start.dual_solution = answer.primal_solution, answer.dual_solution
            work += answer.solve_log.iteration_count
            reason = solve_log_pb2.TerminationReason.Name(answer.solve_log.termination_reason)
            if reason != "TERMINATION_REASON_ITERATION_LIMIT" or proof.late:
                break
        proof.offer_lengths(program.lengths(np.asarray(answer.dual_solution)))
        rough = program.flow(np.asarray(answer.primal_solution))
        proof.offer_rough_flow(rough, proof.lengths)
        if not proof.proven and proof.max_hops is None and proof.hop_price == 0.0:
            # what another method left may be the best so far, but sweeps gain more from here
            Potential(proof, proof.near(rough, proof.lengths)).improve(sweeps=10)
        if proof.proven or proof.late:
            break
    return work


def _slice(
    problem: pdlp.QuadraticProgram,
    tolerance: float,
    iterations: int,
    time_s: float | None,
    start: pdlp.PrimalAndDualSolution | None,
) -> pdlp.SolverResult:
    from ortools.pdlp import solvers_pb2
    from ortools.pdlp.python import pdlp

    parameters = solvers_pb2.PrimalDualHybridGradientParams()
    criteria = parameters.termination_criteria
    criteria.simple_optimality_criteria.eps_optimal_absolute = tolerance
    criteria.simple_optimality_criteria.eps_optimal_relative = tolerance
    criteria.iteration_limit = iterations
    if time_s is not None:
        criteria.time_sec_limit = max(time_s, 1e-3)
    parameters.num_threads = 1
    return pdlp.primal_dual_hybrid_gradient(problem, parameters, initial_solution=start)
