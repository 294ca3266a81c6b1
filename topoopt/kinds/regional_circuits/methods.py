"""The methods of `topoopt solve` on circuits of a region: one literal table."""

from __future__ import annotations

from solvers.regional_circuits.greedy import in_turn, largest_first
from solvers.regional_circuits.switching import FoundRegional, best_circuits, greedy_circuits, kept_circuits
from topoopt.core.regional_circuits import RegionalCircuitsProblem
from topoopt.kinds.kind import Effort, Method, table


def _matching(problem: RegionalCircuitsProblem, effort: Effort) -> FoundRegional:
    return best_circuits(problem, effort.stop, effort.tell, effort.keep)


def _kept(problem: RegionalCircuitsProblem, effort: Effort) -> FoundRegional:
    return kept_circuits(problem, effort.stop)


def _greedy(problem: RegionalCircuitsProblem, effort: Effort) -> FoundRegional:
    return greedy_circuits(problem, effort.stop, largest_first, kept=False)


def _in_turn(problem: RegionalCircuitsProblem, effort: Effort) -> FoundRegional:
    return greedy_circuits(problem, effort.stop, in_turn, kept=True)


REGIONAL_METHODS = table(
    Method("auto", "least time of each step by branch and bound, circuits set anew where that pays", _matching),
    Method("matching", "the same", _matching),
    Method("kept", "one choice of circuits for all steps, least time of their demands added", _kept),
    Method("greedy", "MixNet's: in each step a circuit to the largest demand, over and over", _greedy),
    Method("in-turn", "one choice for all steps, whatever the demand: servers at each distance in turn", _in_turn),
)
