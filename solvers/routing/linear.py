"""The arc formulation by HiGHS (simplex, or interior point without crossover) and by OR-Tools PDLP."""

from __future__ import annotations

import highspy
import numpy as np
from ortools.pdlp import solvers_pb2
from ortools.pdlp.python import pdlp
from scipy.sparse import csc_array

from formulations.concurrent_flow import ConcurrentFlow, build_arrays, flow_of, lengths_of
from solvers.routing.frank_wolfe import Potential
from solvers.routing.highs_model import highs_model
from solvers.routing.network import Network
from solvers.routing.proof import Proof

_PDLP_ACCURACY = (1e-3, 1e-4, 1e-5, 1e-6)


def _scaled(network: Network) -> tuple[ConcurrentFlow, float]:
    """The problem with demand of mean 1, which suits absolute tolerances, and that mean."""
    mean = float(network.demand.sum()) / (network.servers * (network.servers - 1))
    return ConcurrentFlow(network.tail, network.head, network.capacity, network.demand / mean), mean


def _by_highs(proof: Proof, algorithm: str) -> int:
    data, mean = _scaled(proof.network)
    solver = highspy.Highs()
    for option, value in (
        ("output_flag", False),
        ("threads", 1),
        ("solver", algorithm),
        ("run_crossover", "off"),
        ("primal_feasibility_tolerance", 1e-9),
        ("dual_feasibility_tolerance", 1e-9),
        ("ipm_optimality_tolerance", 1e-9),
    ):
        solver.setOptionValue(option, value)
    if proof.time_left_s is not None:
        solver.setOptionValue("time_limit", proof.time_left_s)
    solver.passModel(highs_model(build_arrays(data)))
    solver.run()
    solution, info = solver.getSolution(), solver.getInfo()
    if solution.dual_valid:
        proof.offer_lengths(lengths_of(data, np.array(solution.row_dual)))
    if solution.value_valid:
        proof.offer_rough_flow(flow_of(data, np.array(solution.col_value)) * mean, proof.lengths)
    return int(info.simplex_iteration_count if algorithm == "simplex" else info.ipm_iteration_count)


def simplex(proof: Proof) -> int:
    """HiGHS dual simplex on the arc formulation; returns its iterations."""
    return _by_highs(proof, "simplex")


def ipx(proof: Proof) -> int:
    """HiGHS IPX without crossover on the arc formulation; returns its iterations."""
    return _by_highs(proof, "ipx")


def first_order(proof: Proof) -> int:
    """PDLP at growing accuracy, each time with our own certificate and repair, and a few sweeps of `frank-wolfe`.

    Returns the iterations of PDLP.
    """
    data, mean = _scaled(proof.network)
    program = build_arrays(data)
    problem = pdlp.QuadraticProgram()
    problem.resize_and_initialize(program.columns, program.rows)
    problem.objective_vector = program.cost
    problem.constraint_matrix = csc_array(
        (program.value, program.index, program.start), shape=(program.rows, program.columns)
    )
    problem.constraint_lower_bounds, problem.constraint_upper_bounds = program.row_lower, program.row_upper
    problem.variable_lower_bounds, problem.variable_upper_bounds = program.lower, program.upper
    work = 0
    start = None
    for tolerance in _PDLP_ACCURACY:
        parameters = solvers_pb2.PrimalDualHybridGradientParams()
        criteria = parameters.termination_criteria
        criteria.simple_optimality_criteria.eps_optimal_absolute = tolerance
        criteria.simple_optimality_criteria.eps_optimal_relative = tolerance
        if proof.time_left_s is not None:
            criteria.time_sec_limit = max(proof.time_left_s, 1e-3)
        parameters.num_threads = 1
        answer = pdlp.primal_dual_hybrid_gradient(problem, parameters, initial_solution=start)
        start = pdlp.PrimalAndDualSolution()
        start.primal_solution, start.dual_solution = answer.primal_solution, answer.dual_solution
        work += answer.solve_log.iteration_count
        proof.offer_lengths(lengths_of(data, np.asarray(answer.dual_solution)))
        proof.offer_rough_flow(flow_of(data, np.asarray(answer.primal_solution)) * mean, proof.lengths)
        if not proof.proven and proof.flow is not None:
            Potential(proof, proof.flow.copy()).improve(sweeps=10)
        if proof.proven or proof.late:
            break
    return work
