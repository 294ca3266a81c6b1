"""Figures that follow from a plan to train a language model; each is computed when it is first read, none is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from functools import cached_property

import numpy as np

from solvers.dag_topology.branching import BoxLaws
from solvers.dag_topology.pods import by_volume, iteration_graph
from solvers.llm_training.evaluation import EvaluatedNetwork, dimension_loads, evaluated, network_of
from solvers.llm_training.plan import fabric_bound_s, unplaced
from solvers.stop import Stop
from solvers.switching import RailSteps, rails_bound_s, switch_mode
from topoopt.core.arrays import Floats
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.llm_training import LlmTrainingProblem, PodSettings, StepBreakdown, StepEstimate, TrainingMemory
from topoopt.core.llm_training_plan import (
    IDEAL_SWITCH,
    PHOTONIC_RAILS,
    POD_CIRCUITS,
    DimensionLoad,
    FabricPlan,
    LlmTrainingPlan,
    NetworkPlan,
    PodCandidate,
    PodCircuits,
    PodDecisions,
    ShapeOutcome,
    StrategyFigures,
    pod_claims,
    rail_bounds_s,
    shapes_of,
)
from topoopt.core.parallelism import ParallelStrategy, PassKind, PipelineSchedule, StageCosts
from topoopt.core.proofs import Argument, Bound
from topoopt.core.result import Certificate, Columns, Objective, Result
from topoopt.core.switching import PortChange, StagePorts, SwitchedStep, SwitchMode, changes_of
from topoopt.simulate.dag import makespan
from topoopt.simulate.llm_training import step as stages
from topoopt.simulate.llm_training.costs import GroupRates
from topoopt.simulate.llm_training.links import family_groups
from topoopt.simulate.llm_training.step import estimate, roofline_estimate, strategy_orders, strategy_times
from topoopt.simulate.llm_training.strategies import columns_of
from topoopt.simulate.llm_training.times import iteration_times
from topoopt.simulate.pipeline import TickCosts, timed

WITHOUT_LINKS = (IDEAL_SWITCH, PHOTONIC_RAILS, POD_CIRCUITS)
"""Fabrics whose plans have no network of their own."""

MAX_RANKS = 16
MAX_PASSES = 1500


@dataclass(frozen=True)
class TimedPass:
    """A pass of the drawing of a pipeline.

    Attributes:
        rank, kind, micro_batch, stage: which pass; a joined forward pass has its backward one right behind it, and both
            end together.
        end_s: when it ends.
    """

    rank: int
    kind: int
    micro_batch: int
    stage: int
    end_s: float


@dataclass(frozen=True, eq=False)
class StageFigures:
    """Seconds of a micro-batch in each stage of the model, exposed transfers included, and how long all take.

    Attributes:
        problem: an instance.
        strategy: of the plan.
        rates: of its groups on its network.
    """

    problem: LlmTrainingProblem
    strategy: ParallelStrategy
    rates: GroupRates

    @cached_property
    def costs(self) -> StageCosts:
        """Of each stage, p v of them: forward passes, backward ones in two parts, and the hop to the next stage."""
        several, slow = self.strategy.pipeline > 1, self.problem.cluster.slowdown
        blocking = several and not self.problem.overlap.pipeline
        base = stages.stage_times(self.problem, self.strategy, self.rates).costs(blocking=blocking)
        return StageCosts(
            slow * base.forward_s,
            slow * base.inputs_s,
            slow * base.weights_s,
            slow * base.transfer_s if several else 0.0,
            base.blocking,
        )

    @property
    def forward_s(self) -> tuple[float, ...]:
        return tuple(self.costs.forward_s.tolist())

    @property
    def inputs_s(self) -> tuple[float, ...]:
        """Gradients of inputs, with what is computed again."""
        return tuple(self.costs.inputs_s.tolist())

    @property
    def weights_s(self) -> tuple[float, ...]:
        return tuple(self.costs.weights_s.tolist())

    @property
    def hop_s(self) -> float:
        """From a stage to the next."""
        return float(self.costs.transfer_s)

    @property
    def blocking(self) -> bool:
        """Whether a rank waits until what it sends has arrived."""
        return self.costs.blocking

    @cached_property
    def makespan_s(self) -> float:
        """Of all micro-batches in the order of the schedule, without reduction of gradients and optimizer step."""
        return float(strategy_times(self.problem, self.strategy, self.rates)[0].passes[0])

    @property
    def drawn_batches(self) -> int:
        """Micro-batches of the passes that are drawn: as few as show the order; 0 with one stage."""
        p, v, strategy = self.strategy.pipeline, self.strategy.chunks, self.strategy
        if p == 1:
            return 0
        m = self.problem.batch.sequences // (strategy.data * strategy.micro_batch)
        unit = p if strategy.schedule is PipelineSchedule.INTERLEAVED else 2
        space = MAX_PASSES // (2 * v * min(p, MAX_RANKS))
        return min(m, max(2 * p, space // unit * unit))

    @cached_property
    def passes(self) -> tuple[TimedPass, ...]:
        """Of the first ranks, with few micro-batches; empty with one stage."""
        if self.strategy.pipeline == 1:
            return ()
        orders = strategy_orders(self.problem, self.strategy, self.drawn_batches)
        line = timed(orders, TickCosts.of(self.costs, self.drawn_batches))
        rows = []
        for rank in range(min(self.strategy.pipeline, MAX_RANKS)):
            for k in range(int(orders.start[rank]), int(orders.start[rank + 1])):
                kind, i, stage = (int(part) for part in orders.passes[k])
                end = line.costs.seconds(int(line.ends[k]))
                rows.append(TimedPass(rank, kind, i, stage % len(self.costs.forward_s), end))
        return tuple(rows)

    def start_s(self, k: int) -> float:
        """Return when pass k starts; two that are joined start as the first of them."""
        row, forward, inputs, weights = self.passes[k], self.forward_s, self.inputs_s, self.weights_s
        costs = {
            PassKind.FORWARD: forward[row.stage],
            PassKind.BACKWARD: inputs[row.stage] + weights[row.stage],
            PassKind.INPUTS: inputs[row.stage],
            PassKind.WEIGHTS: weights[row.stage],
        }
        if row.kind != PassKind.JOINED:
            return row.end_s - costs[PassKind(row.kind)]
        back = self.passes[k + 1].stage
        return row.end_s - forward[row.stage] - inputs[back] - weights[back]


@dataclass(frozen=True, eq=False)
class RailFigures:
    """A strategy on rails whose circuits are reconfigured inside its steps."""

    problem: LlmTrainingProblem
    plan: FabricPlan

    @cached_property
    def _steps(self) -> RailSteps:
        settings = self.problem.switching
        assert settings is not None
        return RailSteps(self.problem, self.plan.strategy, settings)

    @cached_property
    def step(self) -> SwitchedStep:
        return self._steps.stepped(self.stages, 0.0, self.delay_s, self.mode, events=True)

    @property
    def mode(self) -> SwitchMode:
        return switch_mode(self._steps.settings)

    @property
    def delay_s(self) -> float:
        return self._steps.settings.delay_s

    @property
    def stages(self) -> tuple[StagePorts, ...]:
        return self.plan.ports

    @property
    def step_s(self) -> float:
        return self.step.step_s

    @property
    def stall_s(self) -> float:
        """What the step would gain if switching took no time."""
        return self.step.exposed_s

    @cached_property
    def one_shot_s(self) -> float | None:
        """Of the same strategy on the best topology that is never switched; None: there is none."""
        seconds, _ = self._steps.static(Stop())
        return seconds if seconds < float("inf") else None

    @property
    def changes(self) -> tuple[PortChange, ...]:
        """When ports are reconfigured, by rank and time."""
        return changes_of(self.step.events)


@dataclass(frozen=True)
class PodLink:
    """Circuits between two pods, the smaller number first, and the bytes that they carry there and back."""

    pod: int
    peer: int
    count: int
    there_bytes: float
    back_bytes: float


@dataclass(frozen=True, eq=False)
class PodFigures:
    """A strategy and the circuits between its pods."""

    problem: LlmTrainingProblem
    strategy: ParallelStrategy
    fastest_ideal: ParallelStrategy
    decisions: PodDecisions

    @property
    def settings(self) -> PodSettings:
        assert self.problem.pods is not None
        return self.problem.pods

    @cached_property
    def graph(self) -> DagTopologyProblem:
        return iteration_graph(self.problem, self.strategy)

    @property
    def pods(self) -> int:
        """n; pod = stage x pods of a stage + index."""
        return self.strategy.gpus // self.settings.gpus

    @cached_property
    def makespan_s(self) -> float:
        return _over_circuits(self.graph, self.decisions.circuits)

    @property
    def compute_s(self) -> float:
        """Of one whose transfers take no time."""
        return self.graph.compute_time

    @property
    def communication_s(self) -> float:
        """What an iteration takes longer than that."""
        return max(0.0, self.makespan_s - self.compute_s)

    @cached_property
    def links(self) -> tuple[PodLink, ...]:
        """Circuits by pair, ascending, with what they carry."""
        sent = np.zeros((len(self.graph.pairs), 2))
        back = np.array([m.source > m.target for m in self.graph.transfers], dtype=np.int64)
        np.add.at(sent, (self.graph.pair_of, back), self.graph.volume)
        rows = zip(self.graph.pairs, self.decisions.circuits, sent.tolist(), strict=True)
        return tuple(PodLink(*pair, count, *moved) for pair, count, moved in rows)

    @property
    def candidates(self) -> tuple[PodCandidate, ...]:
        return self.decisions.candidates

    @property
    def best(self) -> int:
        """Index of the strategy of the plan among the candidates."""
        return [candidate.strategy for candidate in self.candidates].index(self.strategy)

    @property
    def first(self) -> int:
        """Index of the one that is fastest on an ideal switch."""
        return [candidate.strategy for candidate in self.candidates].index(self.fastest_ideal)

    @cached_property
    def candidates_s(self) -> tuple[float | None, ...]:
        """Of an iteration of each candidate over its circuits; None: none were searched."""
        return tuple(
            _over_circuits(iteration_graph(self.problem, candidate.strategy), candidate.circuits)
            if candidate.circuits
            else None
            for candidate in self.candidates
        )

    @property
    def first_s(self) -> float | None:
        """Of the strategy that is fastest on an ideal switch, over the best circuits for it; None: none."""
        return self.candidates_s[self.first]

    @cached_property
    def volume_s(self) -> float:
        """Of an iteration over circuits by volume alone."""
        return by_volume(self.graph)[0]

    @property
    def circuits_total(self) -> int:
        return sum(self.decisions.circuits)

    @cached_property
    def circuits(self) -> PodCircuits:
        links = tuple((*pair, count) for pair, count in zip(self.graph.pairs, self.decisions.circuits, strict=True))
        return PodCircuits(self.settings, self.pods, links)

    @property
    def ports_used(self) -> tuple[int, ...]:
        return self.circuits.ports_used

    @property
    def ports_saved(self) -> tuple[int, ...]:
        """Of each pod, those that no circuit ends at."""
        return self.circuits.ports_saved


def _over_circuits(graph: DagTopologyProblem, circuits: Sequence[int]) -> float:
    laws = BoxLaws.of(graph)
    return float(makespan(laws.graph, np.array(circuits, dtype=np.int64), laws.rate))


@dataclass(frozen=True, eq=False)
class FabricFigures:
    """What the plan for one of the fabrics comes to."""

    problem: LlmTrainingProblem
    plan: FabricPlan
    fastest_ideal: ParallelStrategy

    @property
    def fabric(self) -> str:
        return self.plan.fabric

    @property
    def strategy(self) -> ParallelStrategy:
        return self.plan.strategy

    @property
    def network(self) -> NetworkPlan:
        return self.plan.network

    @property
    def note(self) -> str:
        """The form of the network, such as "4 x 4 torus"."""
        return self.plan.network.form

    @cached_property
    def evaluated(self) -> EvaluatedNetwork | None:
        """The network with what it gives the strategy; None: it has none of its own."""
        if self.plan.fabric in WITHOUT_LINKS:
            return None
        groups = family_groups(self.strategy, self.problem.cluster.gpus_per_server)
        return evaluated(self.problem, self.strategy, network_of(self.problem, self.plan.network, groups), groups)

    @property
    def rates(self) -> GroupRates:
        """Of the groups; without a network of its own those of an ideal switch."""
        if self.evaluated is not None:
            return self.evaluated.rates
        return GroupRates.of(self.problem, columns_of([self.strategy], self.problem.model.layers))

    @cached_property
    def _step(self) -> StepEstimate:
        if self.evaluated is None:
            return estimate(self.problem, self.strategy)
        return roofline_estimate(self.problem, self.strategy, self.evaluated.rates)

    @property
    def breakdown(self) -> StepBreakdown:
        """Of the time of an iteration; on rails and in pods of the same strategy on an ideal switch."""
        return self._step.breakdown

    @property
    def memory(self) -> TrainingMemory:
        return self._step.memory

    @cached_property
    def loads(self) -> tuple[DimensionLoad, ...]:
        """What each family between servers demands of the network, and gets."""
        return () if self.evaluated is None else dimension_loads(self.problem, self.strategy, self.evaluated)

    @cached_property
    def next(self) -> tuple[StrategyFigures, ...]:
        """The fastest others, each on its own best network, ranks in their order."""
        return tuple(unplaced(self.problem, self.fabric, strategy) for strategy in self.plan.next)

    @cached_property
    def rails(self) -> RailFigures | None:
        """What circuits that are reconfigured make of the strategy."""
        return RailFigures(self.problem, self.plan) if self.plan.ports else None

    @cached_property
    def pods(self) -> PodFigures | None:
        """What circuits between pods make of the strategy."""
        if self.plan.pods is None:
            return None
        return PodFigures(self.problem, self.strategy, self.fastest_ideal, self.plan.pods)

    @property
    def iteration_time_s(self) -> float:
        """Seconds, by which fabrics are compared."""
        if self.pods is not None:
            return self.pods.makespan_s
        return self.breakdown.total if self.rails is None else self.rails.step_s


@dataclass(frozen=True, eq=False)
class LlmTrainingFigures:
    """The figures of a plan; those of the first fabric where no fabric is named."""

    problem: LlmTrainingProblem
    plan: LlmTrainingPlan

    @cached_property
    def fabrics(self) -> tuple[FabricFigures, ...]:
        """In the order of the instance."""
        return tuple(FabricFigures(self.problem, plan, self.plan.ranked[0]) for plan in self.plan.fabrics)

    @cached_property
    def ranked(self) -> tuple[StrategyFigures, ...]:
        """The fastest on an ideal switch, the best first."""
        rows = [(strategy, estimate(self.problem, strategy)) for strategy in self.plan.ranked]
        return tuple(StrategyFigures(strategy, step.breakdown, step.memory) for strategy, step in rows)

    @cached_property
    def ranked_s(self) -> tuple[float, ...]:
        """Times of these, as the search has them; sums of their parts may differ in the last bit."""
        return tuple(iteration_times(self.problem, columns_of(self.plan.ranked, self.problem.model.layers)).tolist())

    @cached_property
    def objective(self) -> Objective:
        return Objective("iteration_time", self.fabrics[0].iteration_time_s, "s")

    @cached_property
    def _ideal(self) -> StepEstimate:
        return estimate(self.problem, self.plan.strategy)

    @property
    def model_flops(self) -> float:
        """Of an iteration over all GPUs: forward and backward once, attention causal."""
        return self._ideal.model_flops

    @property
    def peak_flops(self) -> float:
        """Of one GPU, operations a second."""
        return self._ideal.peak_flops

    @property
    def sent_bytes(self) -> tuple[tuple[str, float], ...]:
        """By a GPU in an iteration, by dimension."""
        return self._ideal.detail

    @cached_property
    def stages(self) -> StageFigures:
        """Of the pipeline of the plan, on its network."""
        return StageFigures(self.problem, self.plan.strategy, self.fabrics[0].rates)

    @property
    def breakdown(self) -> StepBreakdown:
        """Of the time of an iteration."""
        return self.fabrics[0].breakdown

    @property
    def memory(self) -> TrainingMemory:
        return self.fabrics[0].memory

    @property
    def best(self) -> tuple[StrategyFigures, ...]:
        """The strategy of the plan, then the next best on its fabric."""
        first = self.fabrics[0]
        if first.fabric == IDEAL_SWITCH:
            return self.ranked
        return (StrategyFigures(first.strategy, first.breakdown, first.memory), *first.next)

    @property
    def flops_per_gpu(self) -> float:
        """Model operations a second of a GPU."""
        return self.model_flops / self.objective.value / self.problem.cluster.gpus

    @property
    def mfu(self) -> float:
        """Model operations a second over the peak of all GPUs."""
        return self.flops_per_gpu / self.peak_flops

    @property
    def tokens_per_s_per_gpu(self) -> float:
        return self.problem.batch.tokens / self.objective.value / self.problem.cluster.gpus

    @property
    def micro_batches(self) -> int:
        """Of a replica in an iteration."""
        strategy = self.plan.strategy
        return self.problem.batch.sequences // (strategy.data * strategy.micro_batch)

    def columns(self) -> dict[str, Columns]:
        """Tables of strategies and fabrics, as columns."""
        return {
            "ranked": _columns(self.ranked),
            "fabrics": {
                "fabric": [row.fabric for row in self.fabrics],
                "iteration_time_s": [row.iteration_time_s for row in self.fabrics],
                "memory_bytes": [row.memory.total for row in self.fabrics],
                **_strategy_columns([row.strategy for row in self.fabrics]),
            },
        }


def _columns(rows: Sequence[StrategyFigures]) -> Columns:
    seconds: dict[str, Floats] = {
        f"{name}_s": np.array([asdict(row.breakdown)[name] for row in rows])
        for name in StepBreakdown.__dataclass_fields__
    }
    return {
        "iteration_time_s": [row.iteration_time_s for row in rows],
        "memory_bytes": [row.memory.total for row in rows],
        **_strategy_columns([row.strategy for row in rows]),
        **seconds,
    }


def _strategy_columns(strategies: Sequence[ParallelStrategy]) -> Columns:
    names = [name for name in ParallelStrategy.__dataclass_fields__ if name not in ("order", "stage_layers")]
    rows = [asdict(strategy) for strategy in strategies]
    return {name: [row[name].value if isinstance(row[name], Enum) else row[name] for row in rows] for name in names}


def fabric_bounds_s(result: Result[LlmTrainingProblem, LlmTrainingPlan]) -> tuple[float, ...]:
    """Return what no strategy is below on each fabric, in the order of the plan."""
    others: list[float] = shapes_of(result.certificates)["fabric_bounds_s"].tolist()
    return (result.bound.value, *others)


def bound_of(
    figures: LlmTrainingFigures,
    fabric: FabricFigures,
    shapes: Sequence[ShapeOutcome],
    certificates: Sequence[Certificate],
) -> Bound:
    """Return what no strategy is below on a fabric, by the shapes that were searched and the other certificates.

    Raises:
        ValueError: a certificate is missing.
    """
    times = figures.ranked_s
    if fabric.pods is not None:
        return Bound(pod_claims(certificates).bound_s(fabric.iteration_time_s), Argument.POD_CIRCUITS)
    if fabric.rails is not None:
        seconds = rails_bound_s(fabric.iteration_time_s, rail_bounds_s(certificates), times, shapes)
    else:
        seconds = fabric_bound_s(figures.problem, fabric.fabric, shapes, times[0], fabric.iteration_time_s)
    return Bound(seconds, Argument.ALL_SHAPES)
