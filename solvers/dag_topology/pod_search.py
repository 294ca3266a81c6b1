"""The best strategy over circuits between pods: strategies by a bound that all of them have, each with its circuits.

Strategies whose bound is no better than the best found need no look, so that the choice may be proven over all of the
space. Of the others one iteration is written as a graph whose circuits are chosen, the most promising first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from solvers.dag_topology.box import BoxLaws
from solvers.dag_topology.pod_bounds import BoundedStrategies, least_bounds
from solvers.dag_topology.pod_rows import PodRow, by_volume, pod_row, refuse_all_crowded, searched
from solvers.dag_topology.search import CLOSE, FoundCircuits, fewest_circuits
from solvers.stop import Stop, first_part
from topoopt.core.arrays import Ints
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import POD_CIRCUITS, RankedStrategy
from topoopt.core.pod_circuits import PodLink, PodPlan
from topoopt.core.verdict import StopReason
from topoopt.simulate.dag.shared_circuits import makespan
from topoopt.simulate.llm_training.estimate import estimate

CROWDED = 4
"""Strategies that may be crowded for each one asked for: so many more are looked at."""

GRAPH_SHARE = 0.3
"""Part of the time left for the graphs of strategies; the rest is for circuits."""


@dataclass(frozen=True, eq=False)
class FoundInPods:
    """What a search found.

    Attributes:
        ranked: the best strategy.
        plan: its circuits, and what proves them.
        limited: why no more was tried; None: the search came to its end.
    """

    ranked: RankedStrategy
    plan: PodPlan
    limited: StopReason | None
    fabric: str = POD_CIRCUITS

    @property
    def iteration_time_s(self) -> float:
        """Seconds."""
        return self.plan.makespan_s

    @property
    def tried(self) -> int:
        """Strategies that were looked at."""
        return len(self.plan.tried)


def best_in_pods(problem: LlmTrainingProblem, candidates: Iterable[RankedStrategy], stop: Stop) -> FoundInPods:
    """Search strategies and circuits together.

    Args:
        candidates: strategies that pods hold; the first is the fastest on an ideal switch.

    Raises:
        InfeasibleError: a pod has too few ports under each of the strategies.
        LimitError: or under each of those that were looked at before a limit came.
    """
    settings = problem.pods
    assert settings is not None
    first = next(iter(candidates))
    bounded = least_bounds(problem, (1 + CROWDED) * settings.strategies, stop)
    known = bounded or BoundedStrategies((), 0.0, 0)
    rows = _rows(problem, first, known, stop)
    refuse_all_crowded(rows, settings, every=bounded is not None and len(rows) >= known.count)
    best = _search_circuits(rows, stop)
    row = rows[best]
    assert row.graph is not None
    assert row.early is not None
    found = fewest_circuits(row.graph, row.early, stop)
    plan = _plan(problem, rows, best, known, found)
    limited = None
    if plan.bound_s < row.reached_s * (1 - CLOSE) or found.stopped_by is not StopReason.CONVERGED:
        limited = stop.reason() or StopReason.BUDGET
    memory = estimate(problem, row.strategy).memory.total
    ranked = RankedStrategy(row.strategy, plan.makespan_s, memory)
    return FoundInPods(ranked, plan, limited)


def _rows(problem: LlmTrainingProblem, first: RankedStrategy, known: BoundedStrategies, stop: Stop) -> list[PodRow]:
    """The fastest on an ideal switch, what the others' gain is told by; then by bounds, as many as are asked for."""
    settings = problem.pods
    assert settings is not None
    floors = {strategy: value for value, strategy in known.least}
    rows = [pod_row(problem, first.strategy, floors.get(first.strategy, 0.0))]
    held, part = int(rows[0].graph is not None), first_part(stop, GRAPH_SHARE, math.inf)
    reached = rows[0].reached_s
    for value, strategy in known.least:
        if held >= settings.strategies or value >= reached or part.reason() is not None:
            break
        if strategy != first.strategy:
            rows.append(pod_row(problem, strategy, value))
            held += rows[-1].graph is not None
            reached = min(reached, rows[-1].reached_s)
    return rows


def _search_circuits(rows: list[PodRow], stop: Stop) -> int:
    """Give strategies circuits of their own, the first in any case, then the most promising; the place of the best."""
    able = [place for place, row in enumerate(rows) if row.graph is not None]
    order = sorted(able, key=lambda place: (place > 0, rows[place].reached_s, place))
    best = order[0]
    for done, place in enumerate(order):
        if done and stop.reason() is not None:
            break
        cutoff = rows[best].reached_s if done else math.inf
        part = first_part(stop, 1 / (len(order) - done + 1), math.inf)
        rows[place] = searched(rows[place], cutoff, part)
        if rows[place].early is not None and rows[place].reached_s < rows[best].reached_s:
            best = place
    return best


def _plan(
    problem: LlmTrainingProblem, rows: list[PodRow], best: int, known: BoundedStrategies, found: FoundCircuits
) -> PodPlan:
    """What was found, as a solution has it: strategies that the bound of all leaves out do not stand in it."""
    settings, row = problem.pods, rows[best]
    assert settings is not None
    graph = row.graph
    assert graph is not None
    value = row.reached_s
    kept = [place for place in range(len(rows)) if place in (0, best) or rows[place].floor_s < value]
    kept.sort(key=lambda place: (rows[place].floor_s, place))
    shown = {rows[place].strategy for place in kept}
    others = min([known.rest_s, *(floor for floor, strategy in known.least if strategy not in shown)])
    volume_s, volume = by_volume(graph)
    return PodPlan(
        settings=settings,
        pods=graph.pods,
        makespan_s=_seconds(graph, found.circuits),
        compute_s=graph.compute_time,
        links=_links(graph, found.circuits),
        proof=found.proof,
        best=kept.index(best),
        tried=tuple(rows[place].tried(value, found.proof if place == best else None) for place in kept),
        first=kept.index(0),
        volume_s=volume_s,
        volume_counts=tuple(volume.tolist()),
        others_s=others if math.isfinite(others) else None,
    )


def _seconds(graph: DagTopologyProblem, circuits: Ints) -> float:
    laws = BoxLaws.of(graph)
    return float(makespan(laws.graph, circuits, laws.rate))


def _links(graph: DagTopologyProblem, circuits: Ints) -> tuple[PodLink, ...]:
    """Circuits by pair, with what goes over them."""
    sent = np.zeros((len(graph.pairs), 2))
    back = np.array([m.source > m.target for m in graph.transfers], dtype=np.int64)
    np.add.at(sent, (graph.pair_of, back), graph.volume)
    rows = zip(graph.pairs, circuits.tolist(), sent.tolist(), strict=True)
    return tuple(PodLink(*pair, count, *moved) for pair, count, moved in rows)
