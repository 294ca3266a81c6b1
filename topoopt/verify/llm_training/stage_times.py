"""Stages of a pipeline, and how long the micro-batches are on their way, again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_solution import LlmTrainingSolution, StageSeconds
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.verdict import Tolerance
from topoopt.verify.laws.findings import ViolationLog, differs
from topoopt.verify.llm_training.drawn_passes import check_drawn
from topoopt.verify.llm_training.pipeline_order import MOST_PASSES, RULED, makespan_s, near, passes
from topoopt.verify.llm_training.space import records_of, row_of
from topoopt.verify.llm_training.step import rank_passes
from topoopt.verify.llm_training.transfers import DimensionRates, sent_by


def check_stages(
    findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution, rates: DimensionRates
) -> None:
    """Seconds of every stage of the plan, and the makespan where the order of the schedule is a rule.

    Args:
        rates: on its network.
    """
    strategy = solution.plan.strategy
    stated, due = solution.stages, stages_of(problem, strategy, rates)
    for name in ("forward_s", "inputs_s", "weights_s"):
        if not near(getattr(stated, name), getattr(due, name), Tolerance.ROUNDING.relative):
            findings.add("stages", f"{name} of the stages are not those of their layers")
    if differs(stated.hop_s, due.hop_s, Tolerance.ROUNDING.relative) or stated.blocking != due.blocking:
        findings.add("stages", f"a hop takes {due.hop_s!r} s, blocking {due.blocking}")
    findings.guard("passes", "the passes drawn", lambda: check_drawn(findings, solution, due))
    p, v, m = strategy.pipeline, strategy.chunks, solution.micro_batches
    if strategy.schedule not in RULED:
        findings.leave_out("stages.makespan_s", f"the checker has no rule for the order of {strategy.schedule}")
    elif passes(p, v, m, strategy.schedule) > MOST_PASSES:
        findings.leave_out("stages.makespan_s", "too many passes to follow")
    else:
        value = makespan_s(strategy.schedule, p, v, m, due)
        if differs(stated.makespan_s, value, Tolerance.LONG_SUMS.relative):
            findings.add("stages", f"the passes take {value!r} s in their order, not {stated.makespan_s!r}")


def stages_of(problem: LlmTrainingProblem, strategy: ParallelStrategy, rates: DimensionRates) -> StageSeconds:
    """Seconds of a micro-batch in every stage; the makespan is left at 0.

    Args:
        rates: of the groups of this one strategy.
    """
    loads = np.array(strategy.stage_layers, dtype=np.float64)
    count = len(loads)
    r = records_of([row_of(strategy)] * count)
    r = replace(r, v=np.ones(count), first=loads, inner=loads, last=loads)
    sent, slow = sent_by(problem, r, rates), problem.cluster.slowdown
    plain = 0 if problem.model.experts is None else problem.model.experts.dense_layers
    ends = np.cumsum(loads)
    ranks = rank_passes(
        problem, r, sent, (loads, loads, loads), np.minimum(ends, plain) - np.minimum(ends - loads, plain)
    )
    own = [ranks[0] if stage == 0 else ranks[2] if stage == count - 1 else ranks[1] for stage in range(count)]
    weights = [slow * float(rank.compute.weights[stage]) for stage, rank in enumerate(own)]
    return StageSeconds(
        tuple(slow * float(rank.forward[stage]) for stage, rank in enumerate(own)),
        tuple(slow * float(rank.backward[stage]) - weights[stage] for stage, rank in enumerate(own)),
        tuple(weights),
        slow * float(sent.hop[0]) if strategy.pipeline > 1 else 0.0,
        strategy.pipeline > 1 and not problem.overlap.pipeline,
        0.0,
    )
