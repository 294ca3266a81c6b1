"""Time and memory of iterations in closed form, by a roofline with fitted efficiencies, for many strategies at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.llm_training import LlmTrainingProblem, TrainingDevice
from topoopt.core.pipeline import PipelineSchedule as S
from topoopt.simulate.llm_training.ledger import LedgerColumns, ledger
from topoopt.simulate.llm_training.pipeline_waits import bubble_s, hops_s
from topoopt.simulate.llm_training.rank_times import RankTimes, rank_times
from topoopt.simulate.llm_training.rank_weights import RankWeights, rank_weights
from topoopt.simulate.llm_training.strategies import Column, StrategyColumns
from topoopt.simulate.llm_training.traffic import data_bytes
from topoopt.simulate.llm_training.transfers import GroupRates

OPTIMIZER_BYTES = 30.0
"""Moved for a weight: gradient, master weight and moments read, the latter three and the weight written."""


@dataclass(frozen=True, eq=False)
class RooflineColumns:
    """What iterations take, one value a strategy: exposed seconds, and bytes of the fullest rank."""

    forward: Column
    backward: Column
    recompute: Column
    bubble: Column
    tensor: Column
    context: Column
    expert: Column
    pipeline: Column
    data: Column
    optimizer: Column
    memory: LedgerColumns

    @property
    def total(self) -> Column:
        """Seconds of the iteration."""
        computing = self.forward + self.backward + self.recompute + self.bubble + self.optimizer
        return computing + self.tensor + self.context + self.expert + self.pipeline + self.data


def roofline_columns(
    problem: LlmTrainingProblem, device: TrainingDevice, columns: StrategyColumns, rates: GroupRates | None = None
) -> RooflineColumns:
    """Evaluate strategies that obey the rules.

    Args:
        rates: of their groups; None: of an ideal switch.
    """
    rates = GroupRates.of(problem.cluster, device.reached, columns) if rates is None else rates
    ranks, moved = rank_times(problem, device, columns, rates)
    m = problem.batch.sequences / columns.data / columns.micro_batch
    loads = [rank.forward + rank.backward for rank in ranks]
    both = columns.scheduled(S.DUALPIPE, S.DUALPIPE_V)
    ends = np.where(both, (loads[0] + loads[2]) / 2.0, np.maximum(loads[0], loads[2]))
    inner = columns.pipeline > 2
    most = np.where(inner, np.maximum(ends, loads[1]), ends)

    def busiest(parts: list[Column]) -> Column:
        one = np.where(loads[2] >= loads[0], parts[2], parts[0])
        one = np.where(both, (parts[0] + parts[2]) / 2.0, one)
        return np.where(inner & (loads[1] >= most), parts[1], one)

    weights = rank_weights(problem.model, columns)
    held = ledger(problem.model, problem.formats, columns, weights, problem.batch.length, m)
    reduction, optimizer = _data(problem, device, columns, weights, rates, ranks, m)
    slow = problem.cluster.slowdown
    passes = [rank.passes for rank in ranks]
    return RooflineColumns(
        forward=slow * m * busiest([one.forward for one in passes]),
        backward=slow * m * busiest([one.backward for one in passes]),
        recompute=slow * m * busiest([one.again for one in passes]),
        bubble=slow * bubble_s(columns, ranks, loads, most, m),
        tensor=slow * m * busiest([sum(rank.tensor, np.zeros_like(m)) for rank in ranks]),
        context=slow * m * busiest([sum(rank.context, np.zeros_like(m)) for rank in ranks]),
        expert=slow * m * busiest([sum(rank.expert, np.zeros_like(m)) for rank in ranks]),
        pipeline=slow * hops_s(problem, columns, ranks, moved.hop, m),
        data=slow * reduction,
        optimizer=slow * (optimizer + device.reached.iteration_ms * 1e-3),
        memory=held,
    )


def _data(
    problem: LlmTrainingProblem,
    device: TrainingDevice,
    columns: StrategyColumns,
    weights: RankWeights,
    rates: GroupRates,
    ranks: tuple[RankTimes, RankTimes, RankTimes],
    m: Column,
) -> tuple[Column, Column]:
    """Exposed reduction of gradients and gathering of weights on the fullest rank, and the step of the optimizer."""
    replicas = columns.data * columns.context
    of_experts = columns.tensor * replicas / (columns.expert * columns.expert_tensor)
    size = problem.formats.gradient_bytes
    dense = np.maximum.reduce(weights.dense)
    experts = np.maximum.reduce(weights.experts)
    one = data_bytes(dense, replicas, columns.zero, size, m)
    other = data_bytes(experts, of_experts, columns.zero, size, m)
    reduced, gathered = (a / rates.data + b / rates.expert_data for a, b in zip(one, other, strict=True))
    if problem.overlap.data:
        # Gradients of all layers but the one computed last travel during the last backward passes; weights of all
        # but the first layer during the first forward passes. Rounds of ZeRO 3 have a pass each to hide in.
        layers = np.maximum(columns.inner_layers, 1.0)
        rounds = np.where(columns.zero >= 3, m, np.where(columns.chunks > 1, np.minimum(m, columns.pipeline), 1.0))
        part = 1.0 / layers
        windows = ((1.0 - part) * rounds * ranks[1].backward, (1.0 - part) * rounds * ranks[1].forward)
        reduced = np.maximum(part / np.where(columns.zero >= 3, m, 1.0) * reduced, reduced - windows[0])
        gathered = np.maximum(part / np.where(columns.zero >= 3, m, 1.0) * gathered, gathered - windows[1])
    shared = columns.zero >= 1
    own = dense / np.where(shared, replicas, 1.0) + experts / np.where(shared, np.maximum(of_experts, 1.0), 1.0)
    step = own * OPTIMIZER_BYTES / (device.memory_gbytes_per_s * device.reached.memory * 1e9)
    return reduced + gathered, step
