"""The pipeline of a strategy: seconds of its stages, all its passes in their order, and those that are drawn."""

from __future__ import annotations

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_solution import StageSeconds, TimedPass
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.pipeline import PipelineSchedule, StageCosts
from topoopt.simulate.llm_training.network import stages
from topoopt.simulate.llm_training.step import strategy_orders, strategy_times
from topoopt.simulate.llm_training.strategies import columns_of
from topoopt.simulate.llm_training.transfers import GroupRates
from topoopt.simulate.pipeline.timeline import TickCosts, timed

MOST_RANKS = 16
MOST_PASSES = 1500


def stage_times(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, rates: GroupRates | None = None
) -> StageSeconds:
    """Every stage, and all micro-batches in the order of the schedule.

    Args:
        rates: of the groups; None: of an ideal switch.
    """
    if rates is None:
        columns = columns_of([strategy], problem.model.layers)
        rates = GroupRates.of(problem.cluster, problem.device.reached, columns)
    several, slow = strategy.pipeline > 1, problem.cluster.slowdown
    plain = stages.stage_times(problem, strategy, rates).costs(blocking=several and not problem.overlap.pipeline)
    costs = StageCosts(
        slow * plain.forward_s,
        slow * plain.inputs_s,
        slow * plain.weights_s,
        slow * plain.transfer_s if several else 0.0,
        plain.blocking,
    )
    m = problem.batch.sequences // (strategy.data * strategy.micro_batch)
    passes = (costs.forward_s, costs.inputs_s, costs.weights_s)
    forward, inputs, weights = (tuple(part.tolist()) for part in passes)
    makespan = float(strategy_times(problem, strategy, rates)[0].passes[0])
    drawn, few = _drawn(problem, strategy, costs, m)
    return StageSeconds(forward, inputs, weights, costs.transfer_s, costs.blocking, makespan, drawn, few)


def _drawn(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, costs: StageCosts, m: int
) -> tuple[tuple[TimedPass, ...], int]:
    """Passes of so many micro-batches as a picture has room for."""
    p, v = strategy.pipeline, strategy.chunks
    if p == 1:
        return (), 0
    unit = p if strategy.schedule is PipelineSchedule.INTERLEAVED else 2
    room = MOST_PASSES // (2 * v * min(p, MOST_RANKS))
    few = min(m, max(2 * p, room // unit * unit))
    orders = strategy_orders(problem, strategy, few)
    line = timed(orders, TickCosts.of(costs, few))
    found = []
    for rank in range(min(p, MOST_RANKS)):
        for place in range(int(orders.start[rank]), int(orders.start[rank + 1])):
            kind, i, stage = (int(part) for part in orders.passes[place])
            end = line.costs.seconds(int(line.ends[place]))
            found.append(TimedPass(rank, kind, i, stage % len(costs.forward_s), end))
    return tuple(found), few
