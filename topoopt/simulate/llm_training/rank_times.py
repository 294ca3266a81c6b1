"""Seconds of one micro-batch on the ranks of a pipeline: the first, an inner and the last one.

Embedding, head and uneven layers make them differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.llm_training import LlmTrainingProblem, TrainingDevice
from topoopt.core.pipeline import PipelineSchedule as S
from topoopt.simulate.llm_training.layer_times import ComputeTimes, LayerTimes
from topoopt.simulate.llm_training.stage_parts import EXCHANGE_SHARE
from topoopt.simulate.llm_training.strategies import Column, StrategyColumns
from topoopt.simulate.llm_training.traffic import layer_traffic
from topoopt.simulate.llm_training.transfers import GroupRates, LayerTransfers, layer_transfers


@dataclass(frozen=True, eq=False)
class RankTimes:
    """Seconds of one micro-batch in all chunks of a rank, one value a strategy.

    Attributes:
        passes: computing.
        tensor, context, expert: exposed transfers of the forward pass, and of the backward one.
    """

    passes: ComputeTimes
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
    problem: LlmTrainingProblem, device: TrainingDevice, columns: StrategyColumns, rates: GroupRates
) -> tuple[tuple[RankTimes, RankTimes, RankTimes], LayerTransfers]:
    """Stage times of the first, an inner and the last rank (all the same with one stage)."""
    model, length = problem.model, problem.batch.length
    times = LayerTimes(model, device, problem.formats, columns, length)
    traffic = layer_traffic(model, problem.formats, columns, length, problem.cluster.gpus_per_server)
    moved = layer_transfers(problem.cluster, problem.overlap, columns, traffic, rates)
    alone = columns.pipeline == 1
    dense = times.layer(expert_layer=False)
    routed = dense if model.experts is None else times.layer(expert_layer=True)
    embedding, head = times.embedding(), times.head()
    fixed = columns.chunks * device.reached.chunk_us * 1e-6
    chunk = ComputeTimes(fixed, fixed, np.zeros_like(fixed), np.zeros_like(fixed))
    none = ComputeTimes(*(np.zeros_like(columns.tensor),) * 4)
    first_dense = 0 if model.experts is None else model.experts.dense_layers
    both = columns.scheduled(S.DUALPIPE, S.DUALPIPE_V)
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
        passes = passes.scaled(np.where(both & (columns.expert > 1), 1.0 / (1.0 - EXCHANGE_SHARE), 1.0))
        hidden = np.where(both, np.minimum(2.0 * exchange, passes.forward + passes.backward), 0.0) / 2.0
        found.append(
            RankTimes(
                passes,
                (layers * moved.tensor[0], layers * (moved.tensor[1] + moved.tensor[2])),
                (layers * moved.context[0], layers * moved.context[1]),
                (exchange - hidden, exchange - hidden),
            )
        )
    return (found[0], found[1], found[2]), moved
