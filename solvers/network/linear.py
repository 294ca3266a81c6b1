"""The arc formulation of routing is solved by HiGHS, OR-Tools PDLP, Frank-Wolfe, or over nearly shortest paths only.

Routings over paths that are nearly shortest by some lengths: few of all arcs for each source, by interior points.

Lengths that are nearly best show which arcs each source uses; the linear program over these gives the routing that
balances them, and better lengths, whose short paths join the program until the gap is closed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from formulations import flow_routing
from formulations.flow_routing import ConcurrentFlow, narrowed_flow_arrays
from formulations.programs import LpArrays
from solvers.backends.backend import LpResult, Options, SolverLimits
from solvers.backends.table import solve_guarded, solver_named
from solvers.network.flows import RoutingProof, largest_utilisation
from topoopt.core.arrays import Floats

if TYPE_CHECKING:
    from ortools.pdlp.python import pdlp


TIGHT = {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9, "ipm_optimality_tolerance": 1e-9}
_GUARDED = 20_000  # columns from which on a program runs in a process that can be stopped; fewer take a second or so
_SLICE = 1e9  # coefficients times iterations after which PDLP looks for an interrupt: seconds


Program = tuple[LpArrays, Callable[[Floats], Floats], Callable[[Floats], Floats]]
"""The linear program of a proof, and what translates columns to a flow, and row duals to lengths."""


def _program(proof: RoutingProof) -> Program:
    """With demand of mean 1, which suits absolute tolerances."""
    network, hops = proof.network, proof.max_hops
    mean = float(network.demand.sum()) / (network.servers * (network.servers - 1))
    data = ConcurrentFlow(network.tail, network.head, network.capacity, network.demand / mean, proof.hop_price / mean)
    if hops is None:
        arrays, flow = (
            flow_routing.concurrent_flow_arrays(data),
            lambda x: flow_routing.concurrent_flow_flow(data, x) * mean,
        )
    else:
        arrays = flow_routing.concurrent_flow_hops_arrays(data, hops)
        flow = lambda x: flow_routing.concurrent_flow_hops_flow(data, hops, x) * mean  # noqa: E731
    return arrays, flow, lambda row_dual: flow_routing.lengths_of(data, row_dual)


def solved(proof: RoutingProof, algorithm: str, arrays: LpArrays, options: Options) -> LpResult:
    """What a backend finds in the time left; a large program runs in a process that can be stopped."""
    limits = SolverLimits(time_s=proof.stop.remaining_s())
    if arrays.columns < _GUARDED:
        return solver_named(algorithm)(arrays, limits, options)
    return solve_guarded(algorithm, arrays, limits, options, stop=proof.stop)


def _by_highs(proof: RoutingProof, algorithm: str) -> int:
    proof.offer_shortest()
    if proof.proven or proof.late:
        return 0
    arrays, flow_of, lengths_of = _program(proof)
    answer = solved(proof, algorithm, arrays, {**TIGHT, "run_crossover": "off"})
    if answer.row_dual is not None:
        proof.offer_lengths(lengths_of(answer.row_dual))
    if answer.raw_x is not None:
        proof.offer_rough_flow(flow_of(answer.raw_x), proof.lengths)
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
    arrays, flow_of, lengths_of = _program(proof)
    problem = pdlp.QuadraticProgram()
    problem.resize_and_initialize(arrays.columns, arrays.rows)
    problem.objective_vector = arrays.cost
    problem.constraint_matrix = arrays.matrix()
    problem.constraint_lower_bounds, problem.constraint_upper_bounds = arrays.row_lower, arrays.row_upper
    problem.variable_lower_bounds, problem.variable_upper_bounds = arrays.lower, arrays.upper
    work = 0
    start = None
    for tolerance in (1e-3, 1e-4, 1e-5, 1e-6):
        while True:
            answer = _slice(problem, tolerance, int(_SLICE / arrays.nonzeros) + 1, proof.stop.remaining_s(), start)
            start = pdlp.PrimalAndDualSolution()
            start.primal_solution, start.dual_solution = answer.primal_solution, answer.dual_solution
            work += answer.solve_log.iteration_count
            reason = solve_log_pb2.TerminationReason.Name(answer.solve_log.termination_reason)
            if reason != "TERMINATION_REASON_ITERATION_LIMIT" or proof.late:
                break
        proof.offer_lengths(lengths_of(np.asarray(answer.dual_solution)))
        rough = flow_of(np.asarray(answer.primal_solution))
        proof.offer_rough_flow(rough, proof.lengths)
        if not proof.proven and proof.max_hops is None and proof.hop_price == 0.0:
            # what another method left may be the best so far, but sweeps gain more from here
            frank_wolfe(proof, proof.near(rough, proof.lengths), sweeps=10)
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


_CLOSE = 1.5  # gap, in units of the error of the softmax, at which it is sharpened
_ROUND = 4  # sweeps between bounds


def frank_wolfe(proof: RoutingProof, flow: Floats | None = None, sweeps: int = 2000) -> int:
    """Sweep until the gap is small, time is up, nothing moves, or so many sweeps were made; returns how many.

    Args:
        flow: float64[n, m], to start from, which conserves (it is changed); None: from nothing.
    """
    net = proof.network
    n, m = net.servers, len(net.head)
    routed = np.full(n, flow is not None)
    softness = 0.2 if flow is None else max(1e-4, (proof.value - proof.bound) / proof.value)
    flow = np.zeros((n, m)) if flow is None else flow
    total = np.zeros(m)
    sharpness = np.log(m) / max(proof.bound, 1e-300)
    for count in range(1, sweeps + 1):
        mean = proof.router.sweep(net.capacity, flow, routed, sharpness / softness, 2.0 * softness)
        total += mean
        theta = largest_utilisation(net, flow)
        if theta < proof.value:
            proof.offer_flow(flow.copy())
        if count % _ROUND == 0:
            bound = max(proof.offer_lengths(mean), proof.offer_lengths(total))
            total[:] = 0.0
            # the softmax may be wrong by `softness`: sharpen once the gap is about as small
            if theta - bound <= _CLOSE * softness * theta:
                softness = max(softness * 0.5, 1e-7)
        if proof.proven or proof.late:
            break
    return count


_PART, _FINEST, _COARSEST = 0.1, 1e-10, 1e-3
"""Of the gap asked for, what a program may leave open; between these bounds."""


class NearPaths:
    """Arcs that each source may use, and the best routing over them."""

    def __init__(self, proof: RoutingProof, width: float, most: int) -> None:
        """`width`: of new paths, but the shortest; `most`: entries of servers with a choice, in a program."""
        self.proof, self.width, self.most = proof, width, most
        net = proof.network
        self.near = np.zeros((net.servers, len(net.head)), dtype=np.bool_)

    def widen(self, lengths: Floats, width: float) -> int:
        """Add arcs late by `width` at most, where sum c l = sum c; entries with a choice, or more than `most`."""
        return self.proof.router.mark_near(lengths, width, self.most, self.near)

    def improve(self, lengths: Floats) -> None:
        """Offer routings and lengths until proven, late, or slow, or the program is large."""
        proof, capacity = self.proof, self.proof.network.capacity
        gaps: list[float] = []
        for _ in range(10):
            prices = self._solve(lengths)
            if prices is None or proof.proven or proof.late:
                return
            gaps.append(1.0 - proof.bound / proof.value)
            if len(gaps) > 2 and gaps[-1] > 0.5 * gaps[-3]:  # a gap that shrinks to no less is left to another method
                return
            lengths = proof.lengths * (float(capacity.sum()) / float(capacity @ proof.lengths))
            wider = (lengths, self.width), ((lengths + prices) / 2, self.width), (prices, 0.0)
            if max(self.widen(*pair) for pair in wider) > self.most:
                return

    def _solve(self, lengths: Floats) -> Floats | None:
        """Offer the best routing over these arcs, and its lengths, which are returned in the scale of `lengths`."""
        proof, net = self.proof, self.proof.network
        flow = np.zeros(self.near.shape)
        source, into, start, entry, arc, need = proof.router.choices(self.near, flow)
        unit = proof.bound
        program = narrowed_flow_arrays(need / unit, into, start, entry, arc, flow.sum(axis=0) / unit, net.capacity)
        tolerance = min(max(_PART * proof.accuracy, _FINEST), _COARSEST)
        answer = solved(proof, "highs-ipx", program, {"ipm_optimality_tolerance": tolerance})
        if answer.raw_x is None or answer.row_dual is None:
            return None
        amount = np.maximum(answer.raw_x[:-1], 0.0) * unit
        np.add.at(flow, (source[entry], arc), amount[entry])
        proof.offer_rough_flow(flow, lengths)
        rent = np.abs(answer.row_dual[len(need) :]) / net.capacity
        price = float(rent @ net.capacity)
        if not 0.0 < price < np.inf:
            return None
        rent *= float(net.capacity.sum()) / price
        for part in (1.0, 0.5):
            proof.offer_lengths(part * rent + (1.0 - part) * lengths)
        return rent
