"""The best strategy over circuits between pods: strategies by a bound that all of them have, each with its circuits.

Strategies whose bound is no better than the best found need no look, so that the choice may be proven over all of the
space. Of the others one iteration is written as a graph whose circuits are chosen, the most promising first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from solvers.dag_topology.pod_bounds import BoundedStrategies, least_bounds
from solvers.dag_topology.pod_rows import PodRow, pod_row, refuse_all_crowded, searched
from solvers.dag_topology.search import CLOSE, SearchedCircuits, fewest_circuits
from solvers.dag_topology.starts import BoxLaws
from solvers.stop import Stop, first_part
from topoopt.core.arrays import Ints
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import POD_CIRCUITS, PodClaims, PodDecisions, RankedStrategy
from topoopt.core.proofs import StopReason
from topoopt.simulate.dag import makespan
from topoopt.simulate.llm_training.step import estimate

CROWDED = 4
"""Strategies that may be crowded for each one asked for: so many more are looked at."""

GRAPH_SHARE = 0.3
"""Part of the time left for the graphs of strategies; the rest is for circuits."""


@dataclass(frozen=True, eq=False)
class FoundInPods:
    """The best strategy in pods.

    Attributes
    ----------
    ranked : the strategy, with its time over the circuits of the plan.
    circuits : of the plan, and of the other candidates.
    claims : what is proven of them.
    limited : why no more was considered; None: the search came to its end.
    """

    ranked: RankedStrategy
    circuits: PodDecisions
    claims: PodClaims
    limited: StopReason | None
    fabric: str = POD_CIRCUITS

    @property
    def iteration_time_s(self) -> float:
        """Seconds."""
        return self.ranked.iteration_time_s


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
    least = bounded or BoundedStrategies((), 0.0, 0)
    rows = _rows(problem, first, least, stop)
    refuse_all_crowded(rows, settings, every=bounded is not None and len(rows) >= least.count)
    best = _search_circuits(rows, stop)
    row = rows[best]
    assert row.graph is not None
    assert row.early is not None
    fewest = fewest_circuits(row.graph, row.early, stop)
    makespan_s = _seconds(row.graph, fewest.circuits)
    circuits, claims = _decided(rows, best, least, fewest)
    limited = None
    if claims.bound_s(makespan_s) < row.reached_s * (1 - CLOSE) or fewest.stopped_by is not StopReason.CONVERGED:
        limited = stop.reason() or StopReason.BUDGET
    memory = estimate(problem, row.strategy).memory.total
    return FoundInPods(RankedStrategy(row.strategy, makespan_s, memory), circuits, claims, limited)


def _rows(problem: LlmTrainingProblem, first: RankedStrategy, least: BoundedStrategies, stop: Stop) -> list[PodRow]:
    """The fastest on an ideal switch, what the others' gain is told by; then by bounds, as many as are asked for."""
    settings = problem.pods
    assert settings is not None
    floors = {strategy: value for value, strategy in least.least}
    rows = [pod_row(problem, first.strategy, floors.get(first.strategy, 0.0))]
    held, part = int(rows[0].graph is not None), first_part(stop, GRAPH_SHARE, math.inf)
    reached = rows[0].reached_s
    for value, strategy in least.least:
        if held >= settings.strategies or value >= reached or part.reason() is not None:
            break
        if strategy != first.strategy:
            rows.append(pod_row(problem, strategy, value))
            held += rows[-1].graph is not None
            reached = min(reached, rows[-1].reached_s)
    return rows


def _search_circuits(rows: list[PodRow], stop: Stop) -> int:
    """Give strategies circuits of their own, the first in any case, then the most promising; the place of the best."""
    able = [k for k, row in enumerate(rows) if row.graph is not None]
    order = sorted(able, key=lambda k: (k > 0, rows[k].reached_s, k))
    best = order[0]
    for done, k in enumerate(order):
        if done and stop.reason() is not None:
            break
        cutoff = rows[best].reached_s if done else math.inf
        part = first_part(stop, 1 / (len(order) - done + 1), math.inf)
        rows[k] = searched(rows[k], cutoff, part)
        if rows[k].early is not None and rows[k].reached_s < rows[best].reached_s:
            best = k
    return best


def _decided(
    rows: list[PodRow], best: int, least: BoundedStrategies, fewest: SearchedCircuits
) -> tuple[PodDecisions, PodClaims]:
    """Return circuits and what is proven of them; strategies that the bound of all leaves out are no candidates."""
    value = rows[best].reached_s
    kept = [k for k in range(len(rows)) if k in (0, best) or rows[k].floor_s < value]
    kept.sort(key=lambda k: (rows[k].floor_s, k))
    listed = {rows[k].strategy for k in kept}
    others = min([least.rest_s, *(floor for floor, strategy in least.least if strategy not in listed)])
    rated = [rows[k].rated(value, fewest.proof if k == best else None) for k in kept]
    return PodDecisions(tuple(fewest.circuits.tolist()), tuple(row.candidate for row in rated)), PodClaims(
        verdicts=tuple(row.verdict for row in rated),
        bounds_s=tuple(row.bound_s for row in rated),
        rest_s=others if math.isfinite(others) else None,
        circuits_bound=fewest.proof.circuits_bound,
        proofs={number: row.proof for number, row in enumerate(rated) if row.proof is not None},
    )


def _seconds(graph: DagTopologyProblem, circuits: Ints) -> float:
    laws = BoxLaws.of(graph)
    return float(makespan(laws.graph, circuits, laws.rate))
