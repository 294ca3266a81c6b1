"""Time and memory of iterations in closed form, by a roofline with fitted efficiencies, for many strategies at once.

A rank of a pipeline is the first, an inner or the last one: embedding, head and uneven layers make them differ. With
m micro-batches, v chunks, stage times F and B of all chunks of a rank (with transfers that nothing hides), Q = F + B
and c for a hop, the pipeline takes

    m max Q + (sum Q - max Q) / v     1F1B (exact for equal stages), GPipe, interleaved (arXiv:2104.04473)
    m max Q + (p-1) (Q - 2 W)         ZB-H1, W gradients of weights (arXiv:2401.10241); Q - 3 W for ZB-2p
    m max Q + (p/2-1) (F + B - 3 W + B)   DualPipe (arXiv:2412.19437)

and hops 2c (p-1) + 2c (m-1 - ceil((m-1)/p)) under 1F1B, 2c (p v - 1) interleaved while a chunk outlasts a hop,
4c (p-1) under zero-bubble schedules, 2c (p-1) under GPipe; every hop where transfers between stages hide nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.pipeline import PipelineSchedule as S
from topoopt.simulate.llm_training.layer_times import LayerTimes, PassTimes
from topoopt.simulate.llm_training.ledger import LedgerColumns, ledger
from topoopt.simulate.llm_training.rank_weights import RankWeights, rank_weights
from topoopt.simulate.llm_training.strategies import Column, StrategyColumns
from topoopt.simulate.llm_training.traffic import data_bytes, layer_traffic
from topoopt.simulate.llm_training.transfers import GroupRates, LayerTransfers, layer_transfers
from topoopt.workloads.llm_training.devices import TrainingDevice

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


@dataclass(frozen=True, eq=False)
class RankTimes:
    """Seconds of one micro-batch in all chunks of a rank, one value a strategy.

    Attributes:
        passes: computing.
        tensor, context, expert: exposed transfers of the forward pass, and of the backward one.
    """

    passes: PassTimes
    tensor: tuple[Column, Column]
    context: tuple[Column, Column]
    expert: tuple[Column, Column]

    @property
    def forward(self) -> Column:
        """F."""
        return self.passes.forward + self.tensor[0] + self.context[0] + self.expert[0]

    @property
    def backward(self) -> Column:
        """B, with what is computed again."""
        return self.passes.backward + self.passes.again + self.tensor[1] + self.context[1] + self.expert[1]


def rank_times(
    problem: LlmTrainingProblem, device: TrainingDevice, columns: StrategyColumns
) -> tuple[tuple[RankTimes, RankTimes, RankTimes], LayerTransfers, GroupRates]:
    """Stage times of the first, an inner and the last rank (all the same with one stage)."""
    model, length = problem.model, problem.batch.length
    times = LayerTimes(model, device, problem.formats, columns, length)
    rates = GroupRates.of(problem.cluster, device.reached, columns)
    traffic = layer_traffic(model, problem.formats, columns, length, problem.cluster.gpus_per_server)
    moved = layer_transfers(problem.cluster, problem.overlap, columns, traffic, rates)
    alone = columns.pipeline == 1
    dense = times.layer(expert_layer=False)
    routed = dense if model.experts is None else times.layer(expert_layer=True)
    embedding, head = times.embedding(), times.head()
    fixed = columns.chunks * device.reached.chunk_us * 1e-6
    chunk = PassTimes(fixed, fixed, np.zeros_like(fixed), np.zeros_like(fixed))
    none = PassTimes(*(np.zeros_like(columns.tensor),) * 4)
    first_dense = 0 if model.experts is None else model.experts.dense_layers
    found = []
    for rank, load in enumerate((columns.first_layers, columns.inner_layers, columns.last_layers)):
        first, last = alone | (rank == 0), alone | (rank == 2)
        plain = np.where(first, np.minimum(first_dense, load), 0.0)
        further = np.where(last, float(model.mtp_layers), 0.0)
        count = load - plain + further
        passes = none.plus(routed, count).plus(dense, plain)
        passes = passes.plus(embedding, first).plus(head, last * (1.0 + model.mtp_layers)).plus(chunk)
        layers = load + further
        exchange = count * moved.expert
        both = columns.scheduled(S.DUALPIPE, S.DUALPIPE_V)
        hidden = np.where(both, np.minimum(2.0 * exchange, passes.forward + passes.backward), 0.0) / 2.0
        found.append(
            RankTimes(
                passes,
                (layers * moved.tensor[0], layers * (moved.tensor[1] + moved.tensor[2])),
                (layers * moved.context[0], layers * moved.context[1]),
                (exchange - hidden, exchange - hidden),
            )
        )
    return (found[0], found[1], found[2]), moved, rates


def roofline_columns(problem: LlmTrainingProblem, device: TrainingDevice, columns: StrategyColumns) -> RooflineColumns:
    """Evaluate strategies that obey the rules."""
    ranks, moved, rates = rank_times(problem, device, columns)
    m = problem.batch.sequences / columns.data / columns.micro_batch
    loads = [rank.forward + rank.backward for rank in ranks]
    most = np.maximum(loads[0], loads[2])
    inner = columns.pipeline > 2
    most = np.where(inner, np.maximum(most, loads[1]), most)

    def busiest(parts: list[Column]) -> Column:
        ends = np.where(loads[2] >= loads[0], parts[2], parts[0])
        return np.where(inner & (loads[1] >= most), parts[1], ends)

    weights = rank_weights(problem.model, columns)
    held = ledger(problem.model, problem.formats, columns, weights, problem.batch.length, m)
    reduction, optimizer = _data(problem, device, columns, weights, rates, ranks, m)
    slow = problem.cluster.slowdown
    passes = [rank.passes for rank in ranks]
    return RooflineColumns(
        forward=slow * m * busiest([one.forward for one in passes]),
        backward=slow * m * busiest([one.backward for one in passes]),
        recompute=slow * m * busiest([one.again for one in passes]),
        bubble=slow * _bubble(columns, ranks, loads, most),
        tensor=slow * m * busiest([sum(rank.tensor, np.zeros_like(m)) for rank in ranks]),
        context=slow * m * busiest([sum(rank.context, np.zeros_like(m)) for rank in ranks]),
        expert=slow * m * busiest([sum(rank.expert, np.zeros_like(m)) for rank in ranks]),
        pipeline=slow * _hops(problem, columns, ranks, moved.hop, m),
        data=slow * reduction,
        optimizer=slow * (optimizer + device.reached.iteration_ms * 1e-3),
        memory=held,
    )


def _bubble(
    columns: StrategyColumns, ranks: tuple[RankTimes, RankTimes, RankTimes], loads: list[Column], most: Column
) -> Column:
    """What the busiest rank waits for at both ends."""
    p = columns.pipeline
    total = loads[0] + loads[2] + np.maximum(p - 2, 0.0) * loads[1]
    plain = np.where(p > 1, (total - most) / columns.chunks, 0.0)
    weights, forward = ranks[1].passes.weights, ranks[1].forward
    inputs = ranks[1].backward - weights
    h1 = (p - 1) * np.maximum(forward + inputs - weights, 0.0)
    free = (p - 1) * np.maximum(forward + inputs - 2 * weights, 0.0)
    dual = np.maximum(p / 2 - 1, 0.0) * np.maximum(forward + 2 * inputs - weights, 0.0)
    found = np.where(columns.scheduled(S.ZB_H1), np.minimum(h1, plain), plain)
    found = np.where(columns.scheduled(S.ZB_2P), np.minimum(free, plain), found)
    found = np.where(columns.scheduled(S.DUALPIPE, S.DUALPIPE_V), np.minimum(dual, plain), found)
    return np.where(p > 1, found, 0.0)


def _hops(
    problem: LlmTrainingProblem,
    columns: StrategyColumns,
    ranks: tuple[RankTimes, RankTimes, RankTimes],
    hop: Column,
    m: Column,
) -> Column:
    """Exposed transfers between stages."""
    p, v = columns.pipeline, columns.chunks
    if not problem.overlap.pipeline:
        return np.where(p > 1, 2.0 * hop * (m * v + p - 1), 0.0)
    plain = 2.0 * hop * (p - 1)
    waits = plain + 2.0 * hop * (m - 1 - np.ceil((m - 1) / p))
    short = np.maximum(hop - ranks[1].forward / v, 0.0) + np.maximum(hop - ranks[1].backward / v, 0.0)
    interleaved = 2.0 * hop * (p * v - 1) + m * v * short
    found = np.where(columns.scheduled(S.ONE_F_ONE_B), waits, 2.0 * plain)
    found = np.where(columns.scheduled(S.INTERLEAVED), interleaved, found)
    found = np.where(columns.scheduled(S.GPIPE), plain, found)
    return np.where(p > 1, found, 0.0)


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
    reduced, gathered = ((a + b) / rates.data for a, b in zip(one, other, strict=True))
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
