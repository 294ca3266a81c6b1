"""The methods of kind `parallel-circuits`: plans, and what proves how good they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from solvers.parallel_circuits import Timed, eclipse, optimum, search, spectra
from solvers.parallel_proofs import PRICED_SERVERS, TREE_SERVERS, Prices, tree_of
from solvers.stop import Stop, first_part
from topoopt.core.arrays import Floats
from topoopt.core.proofs import StopReason
from topoopt.core.regional_circuits import ParallelCircuitsPlan, ParallelCircuitsProblem
from topoopt.core.result import Certificate, Result, SearchResult
from topoopt.kinds.kind import Effort, Method, Solver, table
from topoopt.kinds.pipeline import assembled
from topoopt.verify.parallel_circuits import CHECKER, assignment_prices, configuration_tree, line_work, single_line

SEARCH_SHARE, PROOF_SHARE = 0.7, 0.5
"""Of the time left, for plans, and then for their proof."""

FIRST_ROUNDS, ROUNDS = 150, 1200
"""Rounds of the search before a first proof, and in all; fewer where a round is long."""

ROUND_WORK = 320_000_000
"""Servers cubed times rounds."""

PROOF_S = 60.0
"""Seconds of a proof where there is no limit."""

PROVEN = 2e-6
"""Relative gap below which nothing more is proven."""


def _auto(problem: ParallelCircuitsProblem, effort: Effort) -> SearchResult[ParallelCircuitsPlan]:
    stop, rng = effort.stop, np.random.default_rng(effort.search.seed)
    bound = max(line_work(problem), single_line(problem))
    rounds = min(ROUNDS, max(20, ROUND_WORK // problem.servers**3))
    best: Timed | None = None
    certificates: tuple[Certificate, ...] = ()

    def on_round(done: int, of: int, plan: Timed) -> None:
        effort.tell("configurations", done, of)
        if done % 10 == 0:
            effort.keep(partial(_result, problem, _shorter(best, plan), certificates, stop, "auto"))

    # A first proof shows what the search need not go below; a tree leaves nothing to search for.
    prove = None if problem.servers > PRICED_SERVERS else _tree if problem.servers <= TREE_SERVERS else _prices
    for share in (
        (1.0,) if prove is None else (FIRST_ROUNDS / rounds,) if prove is _tree else (FIRST_ROUNDS / rounds, 1.0)
    ):
        limited = stop if prove is None or stop.deadline is None else first_part(stop, SEARCH_SHARE * share, np.inf)
        plan = search(
            problem.demand_us, problem.delay_us, problem.switches, bound, int(rounds * share), rng, limited, on_round
        )
        best = _shorter(best, plan)
        if prove is None or best.makespan <= bound * (1 + PROVEN) or (certificates and best is not plan):
            break
        if stop.reason() is None:
            effort.tell("proof")
            best, proofs = prove(problem, best, first_part(stop, PROOF_SHARE, PROOF_S))
            certificates += proofs
            bound = max(bound, assignment_prices(problem, certificates))
    assert best is not None
    return _result(problem, best, certificates, stop, "auto")


def _shorter(best: Timed | None, plan: Timed) -> Timed:
    return plan if best is None or plan.makespan < best.makespan else best


def _tree(problem: ParallelCircuitsProblem, best: Timed, stop: Stop) -> tuple[Timed, tuple[Certificate, ...]]:
    """Solve the integer program, then prove its value by a tree, of one switch where that is enough."""
    demand, delay, switches = problem.demand_us, problem.delay_us, problem.switches
    better = optimum(demand, delay, switches, best.makespan, first_part(stop, 0.5, PROOF_S))
    if better is not None and better.makespan < best.makespan:
        best = better
    certificates: list[Certificate] = []
    for count in sorted({1, switches}):
        target: float | None = best.makespan
        if count < switches:
            single = optimum(demand, delay, count, switches * best.makespan, first_part(stop, 0.5, PROOF_S))
            target = None if single is None else single.makespan
        tree = None if target is None else tree_of(demand, delay, count, target, stop)
        if tree is not None:
            certificates.append(tree)
            if configuration_tree(problem, [tree]) >= best.makespan * (1 - PROVEN):
                return best, (tree,)
    return best, tuple(certificates)


def _prices(problem: ParallelCircuitsProblem, best: Timed, stop: Stop) -> tuple[Timed, tuple[Certificate, ...]]:
    demand, delay, switches = problem.demand_us, problem.delay_us, problem.switches
    longest = float(demand.max())
    if switches > 1:  # a better plan is below its makespan
        longest = min(longest, best.makespan - delay)
    configurations = [*zip(best.steps.targets, best.steps.durations.tolist(), strict=True)]
    return best, (Prices(demand, delay, longest).best(configurations, switches, best.makespan, stop),)


def _compared(
    plan: Callable[[Floats, float, int], Timed],
) -> Callable[[ParallelCircuitsProblem, Effort], SearchResult[ParallelCircuitsPlan]]:
    def run(problem: ParallelCircuitsProblem, effort: Effort) -> SearchResult[ParallelCircuitsPlan]:
        best = plan(problem.demand_us, problem.delay_us, problem.switches)
        return _result(problem, best, (), effort.stop, plan.__name__)

    return run


def _result(
    problem: ParallelCircuitsProblem, best: Timed, certificates: tuple[Certificate, ...], stop: Stop, method: str
) -> SearchResult[ParallelCircuitsPlan]:
    return SearchResult(
        plan=ParallelCircuitsPlan.of(best.switch, best.steps.durations, best.steps.targets),
        certificates=certificates,
        stopped_by=stop.reason() or StopReason.CONVERGED,
        method=method,
    )


PARALLEL_METHODS = table(
    Method("auto", "greedy permutations, ruin and recreate; exact for 4 servers, prices of pairs for 8", _auto),
    Method("spectra", "Spectra's: few permutations, longest first to the switch that is free", _compared(spectra)),
    Method(
        "eclipse", "Eclipse's: permutations that serve most in a unit of time, switch by switch", _compared(eclipse)
    ),
)


def _assemble(problem: ParallelCircuitsProblem, result: Any, effort: Effort) -> Result[Any, Any]:
    return assembled(problem, result, effort, CHECKER)


SOLVER = Solver(methods=lambda _: PARALLEL_METHODS, assemble=_assemble, tables=lambda _: (("", PARALLEL_METHODS),))
