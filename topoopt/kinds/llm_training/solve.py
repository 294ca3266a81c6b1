"""From the strategies that were found to the solution they amount to."""

from __future__ import annotations

from dataclasses import replace

from solvers.dag_topology.pod_search import FoundInPods
from solvers.llm_training.network.fabric_bound import fabric_bound_s
from solvers.llm_training.network.plan import FoundOnFabric, outcome_of
from solvers.llm_training.planned import Planned
from solvers.switching.strategies import FoundOnRails, rails_bound_s
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import FabricOutcome, StrategyFigures, TrainingNetwork, TrainingPlan
from topoopt.core.llm_training_solution import LlmTrainingSolution, TrainingSetting
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.proofs import Argument, Bound
from topoopt.core.solution import UNCHECKED, Objective
from topoopt.core.verdict import Tolerance, settle
from topoopt.core.versions import versions
from topoopt.kinds.kind import Effort, Solver
from topoopt.kinds.llm_training.methods import LLM_TRAINING_METHODS, FoundTraining
from topoopt.kinds.llm_training.timeline import stage_times
from topoopt.kinds.llm_training.validity import outside_measured, replicas_left_out
from topoopt.simulate.llm_training.estimate import estimate


def assemble(problem: LlmTrainingProblem, found: FoundTraining, effort: Effort) -> LlmTrainingSolution:
    """The solution that strategies and networks amount to."""
    ranked = tuple(_figures(problem, one.strategy) for one in found.space.ranked)
    fabrics = tuple(_outcome(problem, one, ranked[0]) for one in found.networks)
    bounds = [_bound_s(problem, found, one) for one in fabrics]
    first, network = fabrics[0], found.networks[0]
    strategy = first.plan.strategy
    own = estimate(problem, strategy)
    rates = network.best.evaluated.rates if isinstance(network, FoundOnFabric) else None
    argument = Argument.ALL_SHAPES if first.pods is None else Argument.POD_CIRCUITS
    rounding = Tolerance.ROUNDING if first.pods is None else Tolerance.EVENTS
    verdict = settle(first.iteration_time_s, (Bound(bounds[0], argument),), rounding, rounding=rounding)
    return LlmTrainingSolution(
        name=problem.name,
        status=verdict.status,
        stopped_by=found.stopped_by,
        objective=Objective("iteration_time", first.iteration_time_s, "s"),
        bound=verdict.bound,
        check=UNCHECKED,
        seed=effort.search.seed,
        method="branch-and-bound",
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=(*problem.notes, *replicas_left_out(problem), *outside_measured(problem, strategy)),
        setting=_setting(problem),
        model_flops=own.model_flops,
        peak_flops=own.peak_flops,
        sent_bytes=own.detail,
        stages=stage_times(problem, strategy, rates),
        ranked=ranked,
        shapes=found.space.shapes,
        fabrics=fabrics,
        other_bounds_s=tuple(bounds[1:]),
    )


def _bound_s(problem: LlmTrainingProblem, found: FoundTraining, one: FabricOutcome) -> float:
    """What no strategy is below on a fabric, by the certificate."""
    times, shapes = [other.iteration_time_s for other in found.space.ranked], found.space.shapes
    if one.rails is not None:
        return rails_bound_s(one.rails, times, shapes)
    if one.pods is not None:
        return one.pods.bound_s
    return fabric_bound_s(problem, one.fabric, shapes, times[0], one.iteration_time_s)


def _outcome(problem: LlmTrainingProblem, one: Planned, ideal: StrategyFigures) -> FabricOutcome:
    """One fabric."""
    if isinstance(one, FoundOnRails | FoundInPods):
        own = _figures(problem, one.ranked.strategy)
        plan = TrainingPlan(own.strategy, TrainingNetwork(one.fabric))
        outcome = FabricOutcome(plan, own.breakdown, own.memory, tried=one.tried)
        return replace(outcome, rails=one.plan) if isinstance(one, FoundOnRails) else replace(outcome, pods=one.plan)
    if one is None:
        return FabricOutcome(TrainingPlan(ideal.strategy), ideal.breakdown, ideal.memory)
    return outcome_of(problem, one)


def _figures(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> StrategyFigures:
    own = estimate(problem, strategy)
    return StrategyFigures(strategy, own.breakdown, own.memory)


def _setting(problem: LlmTrainingProblem) -> TrainingSetting:
    cluster, batch = problem.cluster, problem.batch
    return TrainingSetting(
        problem.model.name,
        problem.model.layers,
        cluster.servers,
        cluster.gpus_per_server,
        cluster.device,
        batch.sequences,
        batch.length,
        problem.usable_bytes,
    )


SOLVER = Solver(
    methods=lambda _: LLM_TRAINING_METHODS, assemble=assemble, tables=lambda _: (("", LLM_TRAINING_METHODS),)
)
