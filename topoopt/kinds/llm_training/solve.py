"""From the strategies that were found to the solution they amount to."""

from __future__ import annotations

from itertools import takewhile

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import IDEAL_SWITCH, FabricOutcome, ShapeVerdict, TrainingPlan
from topoopt.core.llm_training_solution import LlmTrainingSolution, StrategyFigures, TrainingSetting
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.proofs import Argument, Bound
from topoopt.core.solution import UNCHECKED, Objective
from topoopt.core.verdict import Tolerance, settle
from topoopt.core.versions import versions
from topoopt.kinds.kind import Effort, Solver
from topoopt.kinds.llm_training.methods import LLM_TRAINING_METHODS, FoundTraining
from topoopt.kinds.llm_training.timeline import stage_times
from topoopt.kinds.llm_training.validity import outside_measured
from topoopt.simulate.llm_training.estimate import estimate


def assemble(problem: LlmTrainingProblem, found: FoundTraining, effort: Effort) -> LlmTrainingSolution:
    """The solution that strategies amount to."""
    ranked = tuple(_figures(problem, one.strategy) for one in found.space.ranked)
    best, own = ranked[0], estimate(problem, ranked[0].strategy)
    lines = found.space.shapes
    least = min(
        float("inf") if line.verdict is ShapeVerdict.MEMORY else line.bound_s if line.best_s is None else line.best_s
        for line in lines
    )
    value = best.iteration_time_s
    verdict = settle(value, (Bound(least, Argument.ALL_SHAPES),), Tolerance.ROUNDING)
    plan = TrainingPlan(best.strategy)
    ideal = FabricOutcome(plan, value, best.memory.total, verdict.bound.value)
    known = {IDEAL_SWITCH: ideal, **{one.plan.network.fabric: one for one in found.fabrics}}
    return LlmTrainingSolution(
        name=problem.name,
        status=verdict.status,
        stopped_by=found.space.stopped_by,
        objective=Objective("iteration_time", value, "s"),
        bound=verdict.bound,
        check=UNCHECKED,
        seed=effort.search.seed,
        method="branch-and-bound",
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=(*problem.notes, *outside_measured(problem, best.strategy)),
        setting=_setting(problem),
        plan=plan,
        breakdown=best.breakdown,
        memory=best.memory,
        model_flops=own.model_flops,
        peak_flops=own.peak_flops,
        sent_bytes=own.detail,
        stages=stage_times(problem, best.strategy),
        ranked=ranked,
        shapes=lines,
        fabrics=tuple(known[name] for name in takewhile(known.__contains__, problem.fabrics)),
    )


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
        cluster.usable_bytes,
        problem.time_model,
    )


SOLVER = Solver(
    methods=lambda _: LLM_TRAINING_METHODS, assemble=assemble, tables=lambda _: (("", LLM_TRAINING_METHODS),)
)
