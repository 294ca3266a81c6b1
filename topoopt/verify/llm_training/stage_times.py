"""Stages of a pipeline, and how long the micro-batches are on their way, again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_solution import LlmTrainingSolution, StageSeconds
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.verdict import Tolerance
from topoopt.verify.laws.findings import ViolationLog, differs
from topoopt.verify.llm_training.drawn_passes import check_drawn
from topoopt.verify.llm_training.iteration import alike, given_rates
from topoopt.verify.llm_training.space import records_of, row_of
from topoopt.verify.llm_training.stage_rows import stage_rows
from topoopt.verify.llm_training.transfers import DimensionRates


def check_stages(
    findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution, rates: DimensionRates
) -> None:
    """Seconds of every stage of the plan, and the makespan.

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
    group = next(alike(problem, records_of([row_of(strategy)]), partial(given_rates, rates), [strategy.stage_layers]))
    value = float(group.passes()[0])
    if differs(stated.makespan_s, value, Tolerance.LONG_SUMS.relative):
        findings.add("stages", f"the passes take {value!r} s in their order, not {stated.makespan_s!r}")


def stages_of(problem: LlmTrainingProblem, strategy: ParallelStrategy, rates: DimensionRates) -> StageSeconds:
    """Seconds of a micro-batch in every stage; the makespan is left at 0.

    Args:
        rates: of the groups of this one strategy.
    """
    layers = np.array(strategy.stage_layers, dtype=np.float64)[:, None]
    rows = stage_rows(problem, records_of([row_of(strategy)]), layers, rates)
    several = strategy.pipeline > 1
    return StageSeconds(
        tuple(rows.forward[:, 0].tolist()),
        tuple(rows.inputs[:, 0].tolist()),
        tuple(rows.weights[:, 0].tolist()),
        float(rows.hop[0]) if several else 0.0,
        several and not problem.overlap.pipeline,
        0.0,
    )


def near(one: Sequence[float], other: Sequence[float], relative: float) -> bool:
    """Whether two lists of seconds are the same but for rounding."""
    if len(one) != len(other):
        return False
    most = max(map(abs, (*one, *other)), default=0.0)
    return all(abs(a - b) <= relative * most for a, b in zip(one, other, strict=True))
