"""The circuits of a job: a start, exchanges, then a proof by branch and bound; then as few circuits as do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from solvers.dag_topology.box import BoxLaws
from solvers.dag_topology.branching import CLOSED, SAME, Reached, fewest, nothing_before
from solvers.dag_topology.starts import dealt, exchanged, filled
from solvers.stop import Stop
from topoopt.core.arrays import Ints
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.dag_topology_solution import CircuitProof, Split
from topoopt.core.verdict import StopReason
from topoopt.simulate.dag.shared_circuits import makespan

MOST_BOXES = 40_000
"""Boxes of a tree: what a solution file holds without growing large."""

CLOSE = 1e-9
"""Relative gap that is none."""

SMALLEST_STEP = 1 / 64
"""Part of the gap below which a better bound is not tried for."""


@dataclass(frozen=True, eq=False)
class FoundCircuits:
    """Circuits and what is proven of them.

    Attributes:
        circuits: int64[pairs], the fewest that do the job within the slack.
        fastest: int64[pairs], those that do it first.
        bound: no circuits do it earlier.
        proof: of both.
        stopped_by: why the search ended.
    """

    circuits: Ints
    fastest: Ints
    bound: float
    proof: CircuitProof
    stopped_by: StopReason


def search(
    problem: DagTopologyProblem, stop: Stop, tell: Callable[[str], None], most_boxes: int = MOST_BOXES
) -> FoundCircuits:
    """Least makespan, then fewest circuits within the slack; both with their proofs, as far as the limits allow."""
    laws = BoxLaws.of(problem)
    tell("circuits")
    best = _start(laws, stop)
    tell("bound")
    bound, tree = _proven(laws, best, stop, most_boxes)
    tell("fewest circuits")
    limit = best.value * (1 + problem.slack_percent / 100)
    few = Reached(float(best.circuits.sum()), best.circuits)
    few_tree = fewest(laws, limit, few, stop, most_boxes)
    whole = bound >= best.value * (1 - CLOSE) and few_tree is not None
    stopped = StopReason.CONVERGED if whole else stop.reason() or StopReason.BUDGET
    if few_tree is None:
        proof = CircuitProof(tuple(tree), root_circuits(laws, limit), (CLOSED,))
    else:
        proof = CircuitProof(tuple(tree), int(few.value), tuple(few_tree))
    return FoundCircuits(few.circuits, best.circuits, bound, proof, stopped)


def _start(laws: BoxLaws, stop: Stop) -> Reached:
    """The best of the starts, and of exchanges from it."""
    one = np.ones_like(laws.most)
    starts = [dealt(laws, one, laws.most, weight) for weight in (laws.pair_volume, np.ones(len(one)))]
    plans = [Reached(makespan(laws.graph, circuits, laws.rate), circuits) for circuits in starts]
    plans.append(Reached(*filled(laws, one, laws.most, stop)))
    best = min(plans, key=lambda plan: plan.value)
    return Reached(*exchanged(laws, best.value, best.circuits, stop))


def root_bound(laws: BoxLaws, value: float) -> float:
    """The largest time before which the root alone says that nothing is done, to 1e-7 of a value that is reached."""
    one = np.ones_like(laws.most)
    if laws.narrowed(one, laws.most, value) is None:
        return value
    low, high = 0.0, value
    while high - low > 1e-7 * value:
        middle = (low + high) / 2
        if laws.narrowed(one, laws.most, middle) is None:
            low = middle
        else:
            high = middle
    return low


def root_circuits(laws: BoxLaws, limit: float) -> int:
    """Circuits that the root alone says are needed to be done within a limit."""
    narrowed = laws.narrowed(np.ones_like(laws.most), laws.most, limit * (1 + SAME))
    return len(laws.most) if narrowed is None else int(narrowed[0].sum())


def _proven(laws: BoxLaws, best: Reached, stop: Stop, most_boxes: int) -> tuple[float, list[Split]]:
    """The largest time before which nothing is done that the limits let us prove, and the tree; betters `best`."""
    low, tree = root_bound(laws, best.value), [CLOSED]
    share = 1.0
    while best.value - low > CLOSE * best.value and share >= SMALLEST_STEP and stop.reason() is None:
        target = best.value if share == 1.0 else low + (best.value - low) * share
        before = best.value
        found = nothing_before(laws, target, best, stop, most_boxes)
        if found is not None:
            low, tree = target, found
        elif best.value < before * (1 - SAME):
            best.value, best.circuits = exchanged(laws, best.value, best.circuits, stop)
        else:
            share /= 2
    return min(low, best.value), tree
