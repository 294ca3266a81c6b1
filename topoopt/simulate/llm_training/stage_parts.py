"""What stages of a pipeline are made of, in seconds of one micro-batch, so that any number of layers adds up to one.

A stage is layers with one MLP, layers with experts, on the first one the embedding, on the last one the head. One row a
strategy says what each of these adds: to its passes, exposed transfers of tensor and context parallelism included; to
what its replicas reduce and gather; and to the step of the optimizer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.llm_training import LlmTrainingProblem, TrainingDevice
from topoopt.simulate.llm_training.layer_times import ComputeTimes, LayerTimes
from topoopt.simulate.llm_training.part_weights import DENSE, ROUTED, part_weights
from topoopt.simulate.llm_training.strategies import BOTH_ENDS, Column, StrategyColumns
from topoopt.simulate.llm_training.traffic import ELEMENT, layer_traffic
from topoopt.simulate.llm_training.transfers import GroupRates, layer_transfers

EXCHANGE_SHARE = 20 / 132
"""Part of the processors of a GPU that an exchange of tokens takes while it is hidden (arXiv:2412.19437, 3.2.2)."""

OPTIMIZER_BYTES = 30.0
"""Moved for a weight: gradient, master weight and moments read, the latter three and the weight written."""

FORWARD, INPUTS, WEIGHTS, REDUCED, GATHERED, STEP, COMPUTE = range(7)
"""Of a kind of part: seconds of its passes (what is computed again among INPUTS), of reducing its gradients, gathering
its weights, the optimizer; and of all its computing but what is computed again."""


@dataclass(frozen=True, eq=False)
class StageParts:
    """One value a strategy.

    Attributes:
        seconds: float64[R, 5, 7], of each kind of part.
        exchange: of tokens, in each direction of a layer with experts.
        hidden: whether computing of the other micro-batches hides exchanges.
        hop: to the next stage.
        iteration: what an iteration costs anyway.
    """

    seconds: Floats
    exchange: Column
    hidden: Bools
    hop: Column
    iteration: float

    def rows(self, rows: Ints) -> StageParts:
        """Of these strategies;"""
        return StageParts(self.seconds[rows], self.exchange[rows], self.hidden[rows], self.hop[rows], self.iteration)


def stage_parts(
    problem: LlmTrainingProblem, device: TrainingDevice, columns: StrategyColumns, rates: GroupRates
) -> StageParts:
    """Parts of the stages of strategies, by the rates of their groups."""
    model, length = problem.model, problem.batch.length
    times = LayerTimes(model, device, problem.formats, columns, length)
    traffic = layer_traffic(model, problem.formats, columns, length, problem.cluster.gpus_per_server)
    moved = layer_transfers(problem.cluster, problem.overlap, columns, traffic, rates)
    count, slow = len(columns.tensor), problem.cluster.slowdown
    hidden = columns.scheduled(*BOTH_ENDS) & (columns.expert > 1)
    scale = slow * np.where(hidden, 1.0 / (1.0 - EXCHANGE_SHARE), 1.0)
    seconds = np.zeros((count, 5, 7))
    dense = times.layer(expert_layer=False)
    routed = dense if model.experts is None else times.layer(expert_layer=True)
    fixed, zero = np.full(count, device.reached.chunk_us * 1e-6), np.zeros(count)
    predicted = 1.0 + model.mtp_layers
    head = times.head()
    kinds = (dense, routed, times.embedding(), head.scaled(np.full(count, predicted)))
    for kind, one in enumerate((*kinds, ComputeTimes(fixed, fixed, zero, zero))):
        seconds[:, kind, FORWARD] = scale * one.forward
        seconds[:, kind, INPUTS] = scale * (one.inputs + one.again)
        seconds[:, kind, WEIGHTS] = scale * one.weights
        seconds[:, kind, COMPUTE] = scale * (one.forward + one.backward)
    for kind in (DENSE, ROUTED):
        seconds[:, kind, FORWARD] += slow * (moved.tensor[0] + moved.context[0])
        seconds[:, kind, INPUTS] += slow * (moved.tensor[1] + moved.tensor[2] + moved.context[1])
    _of_weights(problem, device, columns, rates, seconds)
    return StageParts(seconds, slow * moved.expert, hidden, slow * moved.hop, slow * device.reached.iteration_ms * 1e-3)


def _of_weights(
    problem: LlmTrainingProblem, device: TrainingDevice, columns: StrategyColumns, rates: GroupRates, seconds: Floats
) -> None:
    """Reducing, gathering and the step: of ZeRO 3, which does both in every pass, of one micro-batch."""
    moving = device.memory_gbytes_per_s * device.reached.memory * 1e9
    slow, gradient = problem.cluster.slowdown, problem.formats.gradient_bytes
    none, shared = columns.zero == 0, columns.zero >= 1
    weights = part_weights(problem, columns)
    shared_out = (columns.replicas, rates.data), (columns.expert_replicas, rates.expert_data)
    for place, (ranks, rate) in enumerate(shared_out):
        ring = slow * (ranks - 1) / np.maximum(ranks, 1.0) / rate
        reduced = np.where(none, 2.0, 1.0) * gradient * ring
        gathered = np.where(none, 0.0, np.where(columns.zero >= 3, 2.0, 1.0)) * ELEMENT * ring
        step = slow * OPTIMIZER_BYTES / moving / np.where(shared, np.maximum(ranks, 1.0), 1.0)
        for kind, own in enumerate(weights):
            seconds[:, kind, REDUCED] += own[place] * reduced
            seconds[:, kind, GATHERED] += own[place] * gathered
            seconds[:, kind, STEP] += own[place] * step
