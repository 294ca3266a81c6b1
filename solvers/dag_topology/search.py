"""The circuits of a job: a start, exchanges, then a proof by branch and bound; then as few circuits as do.

Rivals choose circuits from the matrix of volumes alone: when a volume is needed plays no part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from solvers.dag_topology.branching import (
    CLOSED,
    MARGIN,
    SAME,
    BoxLaws,
    PathPool,
    PathProgram,
    dealt,
    earliest,
    exchanged,
    fewest,
    filled,
    thinned,
    used_ports,
)
from solvers.stop import Incumbent, Stop, first_part
from topoopt.core.arrays import Ints
from topoopt.core.dag_topology import (
    CircuitProof,
    DagTopologyPlan,
    DagTopologyProblem,
    PathMean,
    Split,
    branching_certificate,
)
from topoopt.core.proofs import Argument, Bound, StopReason
from topoopt.core.result import SearchResult
from topoopt.simulate.dag import StepGraph, followed, makespan

MOST_BOXES = 40_000
"""Boxes of a tree: what a solution file holds without growing large."""

CLOSE = 1e-9
"""Relative gap that is none."""

START_SHARE = 0.2
"""Part of the time left for starts, and again for exchanges."""

BOUND_SHARE = 0.8
"""Part of the time left for the least makespan; the rest is for fewest circuits."""


Circuits = SearchResult[DagTopologyPlan]

FewestCircuits = tuple[Ints, CircuitProof, StopReason]
"""int64[pairs], the fewest that do the job within the slack; the proof of all; and why the search ended."""

OnIncumbent = Callable[[Callable[[], Circuits]], None]
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
    best: Incumbent
    bound: float
    tree: tuple[Split, ...]
    means: list[PathMean]
    pool: PathPool


def search(
    problem: DagTopologyProblem,
    method: str,
    stop: Stop,
    tell: Callable[[str], None],
    on_incumbent: OnIncumbent,
    most_boxes: int = MOST_BOXES,
) -> Circuits:
    """Least makespan, then fewest circuits within the slack; both with their proofs, as far as the limits allow."""
    tell("circuits")

    def begun(laws: BoxLaws, first: Incumbent) -> None:
        on_incumbent(lambda: _left(laws, problem, first, method, stop))
        tell("bound")

    early = earliest_circuits(problem, first_part(stop, BOUND_SHARE, math.inf), begun, most_boxes)
    tell("fewest circuits")
    few, proof, stopped_by = fewest_circuits(problem, early, stop, most_boxes)
    return _result(problem, method, (few, early.best.circuits), (early.bound, proof), stopped_by)


def _result(
    problem: DagTopologyProblem,
    method: str,
    circuits: tuple[Ints, Ints],
    proven: tuple[float, CircuitProof],
    stopped_by: StopReason,
) -> Circuits:
    """The plan, with the fastest circuits where they are done earlier.

    Args:
        circuits: int64[pairs], the fewest within the slack; and those that are done first.
        proven: no circuits do it earlier; and the proof.
    """
    graph = StepGraph.of(problem)
    few, fastest = circuits
    times = [float(followed(graph, own, problem.rate)[1].max()) for own in circuits]
    bound, proof = proven
    return SearchResult(
        plan=DagTopologyPlan(few, fastest if times[1] < times[0] * (1 - 1e-12) else None),  # rounding
        certificates=(branching_certificate(bound, proof, problem.pods),),
        bounds=(Bound(bound, Argument.CIRCUIT_BRANCHING),),
        stopped_by=stopped_by,
        method=method,
    )


def earliest_circuits(
    problem: DagTopologyProblem,
    stop: Stop,
    begun: Callable[[BoxLaws, Incumbent], None] = lambda _, __: None,
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
    pool = PathPool(problem, laws.graph)
    bound, tree, means = _proven(laws, pool, best, stop, most_boxes, cutoff)
    return EarlyCircuits(laws, best, bound, tree, means, pool)


def fewest_circuits(
    problem: DagTopologyProblem, early: EarlyCircuits, stop: Stop, most_boxes: int = MOST_BOXES
) -> FewestCircuits:
    """Fewest circuits within the slack, with the proof."""
    laws, best, pool, means = early.laws, early.best, early.pool, list(early.means)
    limit = best.value * (1 + problem.slack_percent / 100)
    thin = thinned(laws, best.circuits, limit * (1 + SAME) * (1 - MARGIN), first_part(stop, START_SHARE, math.inf))
    few = Incumbent(float(thin.sum()), thin)
    program = PathProgram(laws, pool, limit, limit * (1 + SAME))
    few_tree = fewest(laws, program, limit, few, stop)
    needed = few_tree.grow(lambda: few.value - 0.5, stop, most_boxes)
    whole = early.bound >= best.value * (1 - CLOSE) and needed >= few.value
    stopped = StopReason.CONVERGED if whole else stop.reason() or StopReason.BUDGET
    few_splits = few_tree.written(means)
    proof = compact(CircuitProof(early.tree, int(min(needed, few.value)), few_splits, tuple(pool.paths), tuple(means)))
    return few.circuits, proof, stopped


def compact(proof: CircuitProof) -> CircuitProof:
    """A proof without means that close no box, and without paths that no mean has."""
    trees = proof.makespan_tree, proof.circuits_tree
    closing = sorted({count for tree in trees for pair, count in tree if pair < 0 < count})
    means = [proof.means[count - 1] for count in closing]
    used = sorted({path for mean in means for path, _ in mean.weights})
    number, index = ({item: k for k, item in enumerate(every)} for every in (used, closing))
    return CircuitProof(
        _renumbered(proof.makespan_tree, index),
        proof.circuits_bound,
        _renumbered(proof.circuits_tree, index),
        tuple(proof.paths[path] for path in used),
        tuple(PathMean(tuple((number[path], weight) for path, weight in item.weights), item.prices) for item in means),
    )


def _renumbered(tree: tuple[Split, ...], index: dict[int, int]) -> tuple[Split, ...]:
    """Boxes closed by the means in these places."""
    return tuple((pair, 1 + index[count]) if pair < 0 < count else (pair, count) for pair, count in tree)


def _left(laws: BoxLaws, problem: DagTopologyProblem, best: Incumbent, method: str, stop: Stop) -> Circuits:
    """What the start alone amounts to, with what the root proves of it."""
    needed = root_circuits(laws, best.value * (1 + problem.slack_percent / 100))
    proof = CircuitProof((CLOSED,), needed, (CLOSED,))
    reason = stop.reason() or StopReason.TIME
    return _result(problem, method, (best.circuits, best.circuits), (root_bound(laws, best.value), proof), reason)


def _start(laws: BoxLaws, stop: Stop) -> Incumbent:
    ones = np.ones_like(laws.most)
    starts = [dealt(laws, ones, laws.most, weight) for weight in (laws.pair_volume, np.ones(len(ones)))]
    plans = [Incumbent(makespan(laws.graph, circuits, laws.rate), circuits) for circuits in starts]
    plans.append(Incumbent(*filled(laws, ones, laws.most, stop)))
    best = min(plans, key=lambda plan: plan.value)
    return Incumbent(*exchanged(laws, best.value, best.circuits, stop))


def root_bound(laws: BoxLaws, value: float) -> float:
    """The largest time before which the root alone says that nothing is done, to 1e-7 of a value that is reached."""
    ones = np.ones_like(laws.most)
    if laws.narrowed(ones, laws.most, value) is None:
        return value
    low, high = 0.0, value
    while high - low > 1e-7 * value:
        middle = (low + high) / 2
        if laws.narrowed(ones, laws.most, middle) is None:
            low = middle
        else:
            high = middle
    return low


def root_circuits(laws: BoxLaws, limit: float) -> int:
    """Circuits that the root alone says are needed to be done within a limit."""
    narrowed = laws.narrowed(np.ones_like(laws.most), laws.most, limit * (1 + SAME))
    return len(laws.most) if narrowed is None else int(narrowed[0].sum())


def _proven(
    laws: BoxLaws, pool: PathPool, best: Incumbent, stop: Stop, most_boxes: int, cutoff: float
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


Choice = Callable[[BoxLaws], Ints]
"""Circuits of each pair, at least one, within the ports."""


def _largest(laws: BoxLaws) -> Ints:
    return dealt(laws, np.ones_like(laws.most), laws.most, laws.pair_volume)


def _square_roots(laws: BoxLaws) -> Ints:
    return dealt(laws, np.ones_like(laws.most), laws.most, np.sqrt(laws.pair_volume))


def _equal(laws: BoxLaws) -> Ints:
    return dealt(laws, np.ones_like(laws.most), laws.most, np.ones(len(laws.most)))


def _proportional(laws: BoxLaws) -> Ints:
    """Shares of the ports of the busier end, rounded down; what is left goes to the largest volume a circuit."""
    volume = laws.pair_volume
    at_pod = np.bincount(laws.ends.ravel(), np.repeat(volume, 2), minlength=len(laws.ports))
    share = (laws.ports / np.maximum(at_pod, 1e-300))[laws.ends].min(axis=1)
    wanted = np.clip(np.floor(volume * share), 1, laws.most).astype(np.int64)
    wanted = wanted if (used_ports(laws, wanted) <= laws.ports).all() else np.ones_like(laws.most)
    return dealt(laws, wanted, laws.most, volume)


def _matchings(laws: BoxLaws) -> Ints:
    """Again and again one circuit for each pair of the heaviest matching of the volume a circuit."""
    import networkx as nx  # takes a while

    circuits, volume = np.ones_like(laws.most), laws.pair_volume
    index = {(int(a), int(b)): p for p, (a, b) in enumerate(laws.ends)}
    while True:
        free = laws.ports - used_ports(laws, circuits)
        extendable = (free[laws.ends] > 0).all(axis=1) & (circuits < laws.most)
        if not extendable.any():
            return circuits
        graph: nx.Graph[int] = nx.Graph()
        largest = float((volume / circuits)[extendable].max())
        for p in np.flatnonzero(extendable).tolist():
            graph.add_edge(*laws.ends[p].tolist(), weight=float(volume[p] / circuits[p]) / largest)
        for ends in nx.max_weight_matching(graph):
            circuits[index[min(ends), max(ends)]] += 1


MATRIX_METHODS: Mapping[str, tuple[str, Choice]] = {
    "volume": ("by volume: each circuit to the pair with most volume a circuit", _largest),
    "proportional": ("in proportion to volumes, rounded down, the rest as `volume`", _proportional),
    "square-root": ("in proportion to square roots of volumes (least sum of times)", _square_roots),
    "matching": ("heaviest matchings of the volume a circuit, one after the other", _matchings),
    "equal": ("dealt out in turn", _equal),
}
"""What each does, in words, and how."""


def by_matrix(name: str, problem: DagTopologyProblem, stop: Stop) -> Circuits:
    """Circuits by a method of the table, and what the root says of all."""
    laws = BoxLaws.of(problem)
    circuits = MATRIX_METHODS[name][1](laws)
    value = makespan(laws.graph, circuits, laws.rate)
    bound = root_bound(laws, value)
    few = root_circuits(laws, value * (1 + problem.slack_percent / 100))
    proof = CircuitProof((CLOSED,), few, (CLOSED,))
    return _result(problem, name, (circuits, circuits), (bound, proof), stop.reason() or StopReason.CONVERGED)
