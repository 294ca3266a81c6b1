"""The circuits of a job: a start, exchanges, then a proof by branch and bound; then as few circuits as do."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from solvers.dag_topology.box import MARGIN, BoxLaws
from solvers.dag_topology.branching import CLOSED, SAME, Reached, earliest, fewest
from solvers.dag_topology.path_means import PathPool, PathProgram
from solvers.dag_topology.paths import PathGraph
from solvers.dag_topology.starts import dealt, exchanged, filled, thinned
from solvers.stop import Stop, first_part
from topoopt.core.arrays import Ints
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.dag_topology_solution import CircuitProof, PathMean, Split
from topoopt.core.verdict import StopReason
from topoopt.simulate.dag.shared_circuits import makespan

MOST_BOXES = 40_000
"""Boxes of a tree: what a solution file holds without growing large."""

CLOSE = 1e-9
"""Relative gap that is none."""

START_SHARE = 0.2
"""Part of the time left for starts, and again for exchanges."""

BOUND_SHARE = 0.8
"""Part of the time left for the least makespan; the rest is for fewest circuits."""


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


Keep = Callable[[Callable[[], FoundCircuits]], None]
"""Called with what makes the result, should the search have to be left from here on."""


@dataclass(frozen=True, eq=False)
class EarlyCircuits:
    """Circuits that let a job be done first, before it is asked how few do.

    Attributes:
        laws: of the problem.
        best: makespan and circuits.
        bound: no circuits do it earlier.
        tree, means: of the proof.
        pool: paths that means are of.
    """

    laws: BoxLaws
    best: Reached
    bound: float
    tree: tuple[Split, ...]
    means: list[PathMean]
    pool: PathPool


def search(
    problem: DagTopologyProblem, stop: Stop, tell: Callable[[str], None], keep: Keep, most_boxes: int = MOST_BOXES
) -> FoundCircuits:
    """Least makespan, then fewest circuits within the slack; both with their proofs, as far as the limits allow."""
    tell("circuits")

    def begun(laws: BoxLaws, first: Reached) -> None:
        keep(lambda: _left(laws, problem, first, stop))
        tell("bound")

    early = earliest_circuits(problem, first_part(stop, BOUND_SHARE, math.inf), begun, most_boxes)
    tell("fewest circuits")
    return fewest_circuits(problem, early, stop, most_boxes)


def earliest_circuits(
    problem: DagTopologyProblem,
    stop: Stop,
    begun: Callable[[BoxLaws, Reached], None] = lambda _, __: None,
    most_boxes: int = MOST_BOXES,
    cutoff: float = math.inf,
) -> EarlyCircuits:
    """Least makespan, with its proof as far as the limits allow.

    Args:
        begun: called with what the start reaches.
        cutoff: what is done no earlier does not matter: the bound is no larger.
    """
    laws = BoxLaws.of(problem)
    best = _start(laws, first_part(stop, START_SHARE, math.inf))
    begun(laws, replace(best))
    pool = PathPool.of(PathGraph.of(problem, laws.graph))
    bound, tree, means = _proven(laws, pool, best, stop, most_boxes, cutoff)
    return EarlyCircuits(laws, best, bound, tree, means, pool)


def fewest_circuits(
    problem: DagTopologyProblem, early: EarlyCircuits, stop: Stop, most_boxes: int = MOST_BOXES
) -> FoundCircuits:
    """Fewest circuits within the slack, with the proof."""
    laws, best, pool, means = early.laws, early.best, early.pool, list(early.means)
    limit = best.value * (1 + problem.slack_percent / 100)
    thin = thinned(laws, best.circuits, limit * (1 + SAME) * (1 - MARGIN), first_part(stop, START_SHARE, math.inf))
    few = Reached(float(thin.sum()), thin)
    program = PathProgram(laws, pool, limit, limit * (1 + SAME))
    few_tree = fewest(laws, program, limit, few, stop)
    needed = few_tree.grow(lambda: few.value - 0.5, stop, most_boxes)
    whole = early.bound >= best.value * (1 - CLOSE) and needed >= few.value
    stopped = StopReason.CONVERGED if whole else stop.reason() or StopReason.BUDGET
    few_splits = few_tree.written(means)
    proof = compact(CircuitProof(early.tree, int(min(needed, few.value)), few_splits, tuple(pool.paths), tuple(means)))
    return FoundCircuits(few.circuits, best.circuits, early.bound, proof, stopped)


def compact(proof: CircuitProof) -> CircuitProof:
    """A proof without means that close no box, and without paths that no mean has."""
    trees = proof.makespan_tree, proof.circuits_tree
    closing = sorted({count for tree in trees for pair, count in tree if pair < 0 < count})
    means = [proof.means[count - 1] for count in closing]
    used = sorted({path for mean in means for path, _ in mean.weights})
    number, place = ({one: k for k, one in enumerate(every)} for every in (used, closing))
    return CircuitProof(
        _renumbered(proof.makespan_tree, place),
        proof.circuits_bound,
        _renumbered(proof.circuits_tree, place),
        tuple(proof.paths[path] for path in used),
        tuple(PathMean(tuple((number[path], weight) for path, weight in one.weights), one.prices) for one in means),
    )


def _renumbered(tree: tuple[Split, ...], place: dict[int, int]) -> tuple[Split, ...]:
    """Boxes closed by the means in these places."""
    return tuple((pair, 1 + place[count]) if pair < 0 < count else (pair, count) for pair, count in tree)


def _left(laws: BoxLaws, problem: DagTopologyProblem, best: Reached, stop: Stop) -> FoundCircuits:
    """What the start alone amounts to, with what the root proves of it."""
    needed = root_circuits(laws, best.value * (1 + problem.slack_percent / 100))
    proof = CircuitProof((CLOSED,), needed, (CLOSED,))
    reason = stop.reason() or StopReason.TIME
    return FoundCircuits(best.circuits, best.circuits, root_bound(laws, best.value), proof, reason)


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


def _proven(
    laws: BoxLaws, pool: PathPool, best: Reached, stop: Stop, most_boxes: int, cutoff: float
) -> tuple[float, tuple[Split, ...], list[PathMean]]:
    """A time before which nothing is done, the tree that proves it, its means; betters `best`."""
    target = min(best.value, cutoff)
    by_windows = root_bound(laws, target)
    if by_windows >= target * (1 - CLOSE):
        return by_windows, (CLOSED,), []

    def good() -> float:
        return min(best.value, cutoff) * (1 - CLOSE)

    tree = earliest(laws, PathProgram(laws, pool, best.value), best, stop, cutoff)
    tree.grow(good, stop, 2)
    best.value, best.circuits = exchanged(laws, best.value, best.circuits, first_part(stop, START_SHARE, math.inf))
    bound = min(tree.grow(good, stop, most_boxes), best.value, cutoff)
    if by_windows >= bound:
        return by_windows, (CLOSED,), []
    means: list[PathMean] = []
    return bound, tree.written(means), means
