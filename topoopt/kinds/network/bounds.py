"""Bounds on theta over all topologies by formulas, with the multipliers that a compiled search finds for them."""

from __future__ import annotations

from solvers.network.search.two_layer import default_iterations, two_layer_multipliers
from solvers.stop import Stop
from topoopt.core.network import TopologyProblem, TwoLayerMultipliers
from topoopt.core.solution import Argument, Bound, Proof
from topoopt.verify.network.bounds import TWO_LAYER_SERVERS, quick_bound, two_layer_bound


def formula_bound(problem: TopologyProblem, *, stop: Stop | None = None) -> tuple[Bound, TwoLayerMultipliers | None]:
    """The best of all formulas, and what it was evaluated with; None where no search was needed.

    The two-layer bound takes some ten seconds at 128 servers, and is left out where it does not fit or `stop` leaves
    no time for it.
    """
    quick = quick_bound(problem)
    multipliers, done = _searched(problem, default_iterations(problem.servers), stop)
    if multipliers is None:
        return quick, None
    proven = two_layer_bound(problem, multipliers, done)
    return (proven, multipliers) if proven.value > quick.value else (quick, None)


def multipliers_of(problem: TopologyProblem, proof: Proof | None) -> TwoLayerMultipliers | None:
    """The multipliers behind a stated bound, found again; None for a bound that has none."""
    if proof is None or proof.argument is not Argument.TWO_LAYER or proof.iterations is None:
        return None
    return _searched(problem, min(proof.iterations, default_iterations(problem.servers)), None)[0]


def _searched(problem: TopologyProblem, iterations: int, stop: Stop | None) -> tuple[TwoLayerMultipliers | None, int]:
    if not 3 <= problem.servers <= TWO_LAYER_SERVERS:
        return None, 0
    weight, first_link, done = two_layer_multipliers(problem.degree, problem.demand, iterations, stop=stop)
    return (TwoLayerMultipliers(weight, first_link) if done else None), done
