"""Bounds on theta over all topologies by formulas, with the multipliers that a compiled search finds for them."""

from __future__ import annotations

from solvers.network.search.two_layer import default_iterations, two_layer_multipliers
from solvers.stop import Stop
from topoopt.core.network import TopologyProblem, TwoLayerMultipliers
from topoopt.core.proofs import Argument, Bound
from topoopt.verify.network.bounds import quick_bound, two_layer_bound

TWO_LAYER_SERVERS = 160
"""Above this the n^3 arrays of the two-layer bound are too large."""


def formula_bound(problem: TopologyProblem, *, stop: Stop | None = None) -> tuple[Bound, TwoLayerMultipliers | None]:
    """The best of all formulas, and what it was evaluated with; None where no search was needed.

    The two-layer bound takes some ten seconds at 128 servers, and is left out where it does not fit or `stop` leaves
    no time for it.
    """
    quick = quick_bound(problem)
    multipliers, done = best_multipliers(problem, stop=stop)
    if multipliers is None:
        return quick, None
    proven = two_layer_bound(problem, multipliers, done)
    return (proven, multipliers) if proven.value > quick.value else (quick, None)


def multipliers_of(problem: TopologyProblem, bound: Bound) -> TwoLayerMultipliers | None:
    """The multipliers behind a stated bound, found again; None for a bound that has none."""
    if bound.argument is not Argument.TWO_LAYER or bound.iterations is None or problem.several:
        return None
    return best_multipliers(problem, most=bound.iterations)[0]


def best_multipliers(
    problem: TopologyProblem, *, most: int | None = None, stop: Stop | None = None
) -> tuple[TwoLayerMultipliers | None, int]:
    """Multipliers for the two-layer bound, and the iterations they took; None where it does not fit or time is up.

    Args:
        problem: its size, degree and demand are looked at.
        most: iterations; no more than help are ever made.
        stop: ends the search early.
    """
    help_up_to = default_iterations(problem.servers)
    iterations = help_up_to if most is None else min(most, help_up_to)
    if not 3 <= problem.servers <= TWO_LAYER_SERVERS:
        return None, 0
    weight, first_link, done = two_layer_multipliers(problem.degree, problem.demand, iterations, stop=stop)
    return (TwoLayerMultipliers(weight, first_link) if done else None), done
