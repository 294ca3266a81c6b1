"""What is known of a strategy in pods: its graph, circuits dealt out by matrices, circuits searched, their proof."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.dag_topology.branching import CLOSED, Reached
from solvers.dag_topology.search import CLOSE, MATRIX_METHODS, EarlyCircuits, compact, earliest_circuits
from solvers.dag_topology.starts import BoxLaws
from solvers.stop import Stop
from topoopt.core.arrays import Ints
from topoopt.core.dag_topology import CircuitProof, DagTopologyProblem
from topoopt.core.errors import InfeasibleError, LimitError
from topoopt.core.llm_training import LlmTrainingProblem, PodSettings
from topoopt.core.llm_training_plan import PodCandidate, PodVerdict
from topoopt.core.parallelism import ParallelStrategy
from topoopt.simulate.dag import makespan, ordered_by_name
from topoopt.simulate.llm_training.ranks import PodSetting, pod_graph, program_of

DEALT = ("volume", "proportional", "square-root", "equal")
"""Matrices whose circuits are quick to deal out, as starts."""

ROUNDING = 2e-9
"""Part by which a bound must be above the one that all strategies have, to stand there with its proof."""

MOST_STEPS = 200_000
"""Of a graph that is made: passes, and what they send."""

STEPS_OF_PASS = 6
"""More steps than a pass of a pod comes with, but for exchanges of tokens."""


@dataclass(frozen=True, eq=False)
class PodRow:
    """A strategy in pods.

    Attributes:
        strategy: as ranks follow it.
        floor_s: no circuits make it faster, by the bound that all strategies have.
        graph: of one iteration, by names; None: it is too large, or crowded.
        crowded: a pod exchanges with more others than it has ports.
        dealt: best of the circuits that matrices deal out, and what an iteration takes over them.
        bound_s: no circuits make it faster; 0 where none were searched.
        early: circuits that were searched; None: none were.
    """

    strategy: ParallelStrategy
    floor_s: float
    graph: DagTopologyProblem | None = None
    crowded: bool = False
    dealt: Reached | None = None
    bound_s: float = 0.0
    early: EarlyCircuits | None = None

    @property
    def reached_s(self) -> float:
        """Over the best circuits known; infinite: there are none."""
        if self.early is not None:
            return self.early.best.value
        return math.inf if self.dealt is None else self.dealt.value

    def rated(self, value_s: float, proof: CircuitProof | None) -> RatedCandidate:
        """Return what a solution says of the strategy.

        Parameters
        ----------
        value_s : over the fastest circuits of the plan's strategy.
        proof : of the plan, where this is its strategy.
        """
        bare = PodCandidate(self.strategy)
        if self.crowded:
            return RatedCandidate(bare, PodVerdict.CROWDED, 0.0)
        if self.early is None:
            if max(self.bound_s, self.floor_s) < value_s * (1 - CLOSE):
                return RatedCandidate(bare, PodVerdict.LEFT, self.floor_s)
            closed = CircuitProof((CLOSED,), 0, ()) if self.floor_s < value_s else None
            return RatedCandidate(bare, PodVerdict.SLOWER, value_s, closed)
        floor_only = self.bound_s <= self.floor_s * (1 + ROUNDING)  # nothing that needs a proof
        bound = min(self.floor_s if floor_only else self.bound_s, self.reached_s)
        searched, early = PodCandidate(self.strategy, tuple(self.early.best.circuits.tolist())), self.early
        if proof is None and not floor_only:
            proof = compact(CircuitProof(early.tree, 0, (), tuple(early.pool.paths), tuple(early.means)))
        return RatedCandidate(searched, PodVerdict.SEARCHED, bound, proof)


@dataclass(frozen=True, eq=False)
class RatedCandidate:
    """A candidate, and what is proven of it; None: nothing but the bound that all strategies have."""

    candidate: PodCandidate
    verdict: PodVerdict
    bound_s: float
    proof: CircuitProof | None = None


def pod_row(problem: LlmTrainingProblem, strategy: ParallelStrategy, floor_s: float) -> PodRow:
    """A strategy with its graph and circuits dealt out by matrices."""
    settings = problem.pods
    assert settings is not None
    row = PodRow(strategy, floor_s)
    batches = problem.batch.sequences // (strategy.data * strategy.micro_batch)
    pods = strategy.gpus // settings.gpus
    if STEPS_OF_PASS * batches * strategy.chunks * pods > MOST_STEPS:
        return row
    graph = iteration_graph(problem, strategy)
    degree = np.bincount(np.array(graph.pairs).ravel(), minlength=graph.pods)
    if degree.max() > settings.ports:
        return replace(row, crowded=True)
    laws = BoxLaws.of(graph)
    reached = []
    for name in DEALT:
        circuits = MATRIX_METHODS[name][1](laws)
        reached.append(Reached(makespan(laws.graph, circuits, laws.rate), circuits))
    return replace(row, graph=graph, dealt=min(reached, key=lambda option: option.value))


def iteration_graph(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> DagTopologyProblem:
    """Return one iteration between the pods of the instance, steps by their names."""
    settings = problem.pods
    assert settings is not None
    setting = PodSetting(settings.gpus, settings.ports, settings.circuit_gbps)
    graph = ordered_by_name(pod_graph(problem, program_of(problem, strategy), setting))
    return replace(graph, slack_percent=settings.slack_percent)


def searched(row: PodRow, cutoff_s: float, stop: Stop) -> PodRow:
    """With circuits of its own, as far as these can be faster than the best strategy known.

    Args:
        cutoff_s: what that one takes.
    """
    assert row.graph is not None
    assert row.dealt is not None
    if row.floor_s >= cutoff_s:
        return row
    if _never_before(row.graph, cutoff_s):
        return replace(row, bound_s=cutoff_s)
    early = earliest_circuits(row.graph, stop, cutoff=cutoff_s)
    if row.dealt.value < early.best.value:  # a limit came before the search was as far
        early = replace(early, best=row.dealt)
    return replace(row, bound_s=early.bound, early=early)


def _never_before(graph: DagTopologyProblem, target_s: float) -> bool:
    """Whether no circuits let the job be done before a time, by the windows of all circuits together."""
    laws = BoxLaws.of(graph)
    return math.isfinite(target_s) and laws.narrowed(np.ones_like(laws.most), laws.most, target_s) is None


def by_volume(graph: DagTopologyProblem) -> tuple[float, Ints]:
    """Circuits by the matrix of volumes alone, and what an iteration takes over them."""
    laws = BoxLaws.of(graph)
    circuits = MATRIX_METHODS["volume"][1](laws)
    return makespan(laws.graph, circuits, laws.rate), circuits


def refuse_all_crowded(rows: Sequence[PodRow], settings: PodSettings, *, every: bool) -> None:
    """Some strategy has a graph whose pods have ports enough.

    Args:
        every: these are all that there are.

    Raises:
        InfeasibleError: none has.
        LimitError: none of those that were looked at has.
    """
    if any(row.graph is not None for row in rows):
        return
    count = f"{len(rows)} strategies" if len(rows) > 1 else "the one strategy looked at"
    if all(row.crowded for row in rows):
        text = f"a pod exchanges with more others than its {settings.ports} ports under each of {count}"
        if every:
            raise InfeasibleError(f"{text}: pods.ports: more, or pods of more GPUs")
        raise LimitError(f"{text}, and there are more: pods.strategies, pods.ports or time: more")
    text = f"an iteration has more than {MOST_STEPS} steps between pods, or pods too few ports, under each of {count}"
    raise LimitError(f"{text}: pods of more GPUs, or larger micro-batches")
