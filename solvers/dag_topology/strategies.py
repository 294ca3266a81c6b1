"""Strategies of a language model and circuits between pods, chosen together.

One iteration of each of some strategies is written as a graph whose circuits are then chosen. What circuits dealt out
by matrices reach leaves out the strategies that no circuits make faster; the others get circuits of their own, the
most promising first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from solvers.dag_topology.box import BoxLaws, refuse_crowded
from solvers.dag_topology.branching import Reached
from solvers.dag_topology.matrices import MATRIX_METHODS
from solvers.dag_topology.search import CLOSE, EarlyCircuits, FoundCircuits, earliest_circuits, fewest_circuits
from solvers.stop import Stop, first_part
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.verdict import StopReason
from topoopt.simulate.dag.shared_circuits import makespan
from topoopt.simulate.llm_training.estimate import estimate
from topoopt.simulate.llm_training.pod_graph import PodSetting, pod_graph
from topoopt.simulate.llm_training.rank_program import program_of


class PodVerdict(StrEnum):
    """What is known of a strategy in pods."""

    SEARCHED = "searched"  # its circuits were, to the end or as far as limits allowed
    SLOWER = "slower"  # no circuits make it faster than the best found
    LEFT = "left"  # a limit came


@dataclass(frozen=True, eq=False)
class PodStrategy:
    """A strategy in pods.

    Attributes:
        strategy: as ranks follow it.
        ideal_s: seconds on an ideal switch.
        graph: of one iteration.
        matrix_s: seconds over circuits of each method of `MATRIX_METHODS`, by its name.
        verdict: what is known of it.
        makespan_s: over the best circuits known.
        bound_s: no circuits make it faster.
        early: circuits that were searched; None: none were.
    """

    strategy: ParallelStrategy
    ideal_s: float
    graph: DagTopologyProblem
    matrix_s: dict[str, float]
    verdict: PodVerdict
    makespan_s: float
    bound_s: float
    early: EarlyCircuits | None = None


@dataclass(frozen=True, eq=False)
class JointCircuits:
    """Strategies and circuits together.

    Attributes:
        rows: strategies that pods hold, by ascending time on an ideal switch.
        best: place of the fastest of those whose circuits were searched.
        found: its circuits, as few as do.
        refused: strategies that pods do not hold, and why.
        stopped_by: CONVERGED where no row is faster than the best.
    """

    rows: tuple[PodStrategy, ...]
    best: int
    found: FoundCircuits
    refused: tuple[tuple[ParallelStrategy, str], ...]
    stopped_by: StopReason

    @property
    def bound_s(self) -> float:
        """None of the strategies is faster, whatever its circuits."""
        return min(row.bound_s for row in self.rows)


def best_in_pods(
    problem: LlmTrainingProblem,
    setting: PodSetting,
    candidates: Iterable[ParallelStrategy],
    count: int,
    stop: Stop,
    tell: Callable[[str, int, int | None], None],
) -> JointCircuits:
    """Choose a strategy and the circuits between pods together.

    Args:
        candidates: each once, the most promising first.
        count: strategies that pods hold, at most.

    Raises:
        InputError: pods hold none; what is wrong with the first.
        InfeasibleError: ports suffice for none.
    """
    rows, refused = _held(problem, setting, candidates, count, stop)
    # The fastest on an ideal switch in any case: what the others gain is told by it.
    order = [0, *sorted(range(1, len(rows)), key=lambda place: (rows[place].makespan_s, place))]
    best = 0
    for done, place in enumerate(order):
        row = rows[place]
        tell("circuits of strategies", done, len(rows))
        if done and stop.reason() is not None:
            continue
        part = first_part(stop, 1 / (len(rows) - done + 1), math.inf) if stop.deadline is not None else stop
        rows[place] = _searched(row, rows[best].makespan_s if done else math.inf, part)
        if rows[place].makespan_s < rows[best].makespan_s:
            best = place
    value, early = rows[best].makespan_s, rows[best].early
    assert early is not None
    tell("fewest circuits", 0, 1)
    found = fewest_circuits(rows[best].graph, early, stop)
    if min(row.bound_s for row in rows) < value * (1 - CLOSE):
        stopped = stop.reason() or (StopReason.TIME if stop.deadline is not None else StopReason.BUDGET)
    else:
        stopped = found.stopped_by
    return JointCircuits(tuple(rows), best, found, tuple(refused), stopped)


def _held(
    problem: LlmTrainingProblem, setting: PodSetting, candidates: Iterable[ParallelStrategy], count: int, stop: Stop
) -> tuple[list[PodStrategy], list[tuple[ParallelStrategy, str]]]:
    """Strategies that pods hold, with what matrices reach; those that they do not hold, and why."""
    rows: list[PodStrategy] = []
    refused: list[tuple[ParallelStrategy, str]] = []
    wrong: InputError | InfeasibleError | None = None
    for strategy in candidates:
        try:
            graph = pod_graph(problem, program_of(problem, strategy), setting)
            refuse_crowded(graph)
        except (InputError, InfeasibleError) as error:
            wrong = wrong or error
            text = error.problems[0].message if isinstance(error, InputError) else str(error)
            refused.append((strategy, text))
        else:
            rows.append(_dealt(strategy, estimate(problem, strategy).iteration_time_s, graph))
        if len(rows) == count or (rows and stop.reason() is not None):
            break
    if not rows:
        raise wrong or InfeasibleError("there is no strategy that pods could hold")
    return sorted(rows, key=lambda row: row.ideal_s), refused


def _dealt(strategy: ParallelStrategy, ideal_s: float, graph: DagTopologyProblem) -> PodStrategy:
    """With what circuits dealt out by matrices reach, bounded by its tasks."""
    laws = BoxLaws.of(graph)
    reached = {name: makespan(laws.graph, choice(laws), laws.rate) for name, (_, choice) in MATRIX_METHODS.items()}
    left, best_s = PodVerdict.LEFT, min(reached.values())
    return PodStrategy(strategy, ideal_s, graph, reached, left, best_s, graph.compute_time)


def _searched(row: PodStrategy, cutoff_s: float, stop: Stop) -> PodStrategy:
    """With circuits of its own, as far as these can be faster than the best strategy known.

    Args:
        cutoff_s: what that one takes.
    """
    if _never_before(row.graph, cutoff_s):
        return replace(row, verdict=PodVerdict.SLOWER, bound_s=cutoff_s)
    early = earliest_circuits(row.graph, stop, cutoff=cutoff_s)
    name = min(row.matrix_s, key=row.matrix_s.__getitem__)
    if row.matrix_s[name] < early.best.value:  # a limit came before the search was as far
        early = replace(early, best=Reached(row.matrix_s[name], MATRIX_METHODS[name][1](early.laws)))
    slower = early.best.value >= cutoff_s and early.bound >= cutoff_s * (1 - CLOSE)
    verdict = PodVerdict.SLOWER if slower else PodVerdict.SEARCHED
    return replace(row, verdict=verdict, makespan_s=early.best.value, bound_s=early.bound, early=early)


def _never_before(graph: DagTopologyProblem, target_s: float) -> bool:
    """Whether no circuits let the job be done before a time, by the windows of all circuits together."""
    laws = BoxLaws.of(graph)
    return math.isfinite(target_s) and laws.narrowed(np.ones_like(laws.most), laws.most, target_s) is None
