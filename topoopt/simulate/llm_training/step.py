"""What one iteration of a strategy takes, part by part.

Passes and their exposed transfers are those of the rank that has most to do, of all micro-batches. What its passes take
in their order with hops that take no time, beyond that, is the bubble; what they take longer for hops is the pipeline's
part; what an iteration takes longer for gathering weights and reducing gradients that of the data. So parts add up.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError
from topoopt.core.llm_training import LlmTrainingProblem, StepBreakdown, StepEstimate, TrainingMemory
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.parallelism import PipelineSchedule as S
from topoopt.simulate.llm_training.costs import GroupRates, iteration_traffic, ledger
from topoopt.simulate.llm_training.network.rates import StagePasses, stage_times
from topoopt.simulate.llm_training.strategies import columns_of, strategy_problems
from topoopt.simulate.llm_training.times import (
    OrderShape,
    OrderTimes,
    order_times,
    orders_of,
    shape_of,
    stage_parts,
    stage_tables,
)
from topoopt.simulate.pipeline.orders import PassOrders
from topoopt.workloads.language_models import token_operations

EQUAL = 1e-9
"""Ranks whose work differs by no more than this part of it have as much to do."""


def strategy_times(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, rates: GroupRates | None = None
) -> tuple[OrderTimes, Floats]:
    """Of a strategy: seconds at these rates, and of its passes where hops take no time, float64[1].

    Args:
        rates: of its groups; None: of an ideal switch.
    """
    columns = columns_of([strategy], problem.model.layers)
    assert columns.stages is not None
    ideal = GroupRates.of(problem.cluster, problem.device.reached, columns)
    parts = stage_parts(problem, problem.device, columns, ideal if rates is None else rates)
    tables = stage_tables(problem, parts, columns.stages)
    planned = (tables, parts.hop)
    if rates is not None and strategy.schedule is S.ZB_2P:
        usual = stage_parts(problem, problem.device, columns, ideal)
        planned = stage_tables(problem, usual, columns.stages), usual.hop
    shape = shape_of(problem, strategy)
    found = order_times(problem, shape, tables, parts.hop, planned)
    free = order_times(problem, shape, tables, 0.0 * parts.hop, planned)
    step = found.step + parts.iteration
    return replace(found, step=step), free.passes


def strategy_orders(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, micro_batches: int | None = None
) -> PassOrders:
    """The order of the passes of so many micro-batches, or of all; it does not depend on the network."""
    columns = columns_of([strategy], problem.model.layers)
    assert columns.stages is not None
    ideal = GroupRates.of(problem.cluster, problem.device.reached, columns)
    parts = stage_parts(problem, problem.device, columns, ideal)
    shape = shape_of(problem, strategy)
    if micro_batches is not None:
        shape = replace(shape, micro_batches=micro_batches)
    return orders_of(shape, stage_tables(problem, parts, columns.stages)[:, :, 0], float(parts.hop[0]))


def step_breakdown(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, rates: GroupRates | None = None
) -> StepBreakdown:
    """Seconds of an iteration of a strategy that obeys the rules, which add up to it."""
    times, free = strategy_times(problem, strategy, rates)
    if rates is None:
        columns = columns_of([strategy], problem.model.layers)
        rates = GroupRates.of(problem.cluster, problem.device.reached, columns)
    shape, stages = shape_of(problem, strategy), stage_times(problem, strategy, rates)
    each = problem.cluster.slowdown * shape.micro_batches * _busiest(shape, stages)
    passes = stages.passes

    def of_rank(values: Floats) -> float:
        return float((each * values).sum())

    parts = {
        "forward": of_rank(passes.forward),
        "backward": of_rank(passes.backward),
        "recompute": of_rank(passes.again),
        "tensor": of_rank(stages.tensor[0] + stages.tensor[1]),
        "context": of_rank(stages.context[0] + stages.context[1]),
        "expert": of_rank(stages.expert[0] + stages.expert[1]),
    }
    work = sum(parts.values())
    return StepBreakdown(
        **parts,
        bubble=max(0.0, float(free[0]) - work) if strategy.pipeline > 1 else 0.0,  # not what rounding leaves
        pipeline=max(0.0, float(times.passes[0]) - max(float(free[0]), work)),
        data=float(times.exchanged[0]),
        optimizer=float(times.step[0]),
    )


def _busiest(shape: OrderShape, stages: StagePasses) -> Floats:
    """float64[stages]: how often a micro-batch meets each stage on the rank that has most to do, the first of equals.

    Where the model is held twice, half of the micro-batches meet each of the two stages of a rank.
    """
    costs, p = stages.costs(blocking=False), shape.pipeline
    load = costs.forward_s + costs.inputs_s + costs.weights_s
    met = (shape.home() == np.arange(p)[:, None]).astype(np.float64)
    if shape.schedule is S.DUALPIPE:
        met = met / 2.0
    of_rank = met @ load
    return np.asarray(met[int(np.argmax(of_rank >= of_rank.max() * (1.0 - EQUAL)))])


def estimate(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> StepEstimate:
    """Time and memory of an iteration.

    Raises:
        InputError: the strategy cannot be run.
    """
    if problems := strategy_problems(problem, strategy):
        raise InputError(problems)
    return roofline_estimate(problem, strategy)


def roofline_estimate(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, rates: GroupRates | None = None
) -> StepEstimate:
    """Time and memory of an iteration of a strategy that obeys the rules.

    Args:
        rates: of its groups; None: of an ideal switch.
    """
    model, batch, device = problem.model, problem.batch, problem.device
    columns = columns_of([strategy], model.layers)
    held = ledger(problem, columns)
    sent = iteration_traffic(
        model, problem.formats, columns, batch.length, batch.sequences, problem.cluster.gpus_per_server
    )
    peak = device.fp8_tflops if problem.formats.fp8 and device.fp8_tflops is not None else device.matrix_tflops
    return StepEstimate(
        step_breakdown(problem, strategy, rates),
        TrainingMemory(
            weights=float(held.weights[0]),
            gradients=float(held.gradients[0]),
            optimizer=float(held.optimizer[0]),
            activations=float(held.activations[0]),
        ),
        token_operations(model, batch.length) * batch.tokens,
        peak * 1e12,
        tuple((f"{name}_sent_bytes", float(column[0])) for name, column in vars(sent).items()),
    )
