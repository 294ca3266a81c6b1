"""Seconds and weights of every stage of a pipeline under a strategy, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.pipeline import PipelineShape, StageCosts
from topoopt.simulate.llm_training.layer_times import ComputeTimes, LayerTimes
from topoopt.simulate.llm_training.part_weights import DENSE, EMBEDDING, HEAD, ROUTED, part_weights
from topoopt.simulate.llm_training.stage_parts import EXCHANGE_SHARE
from topoopt.simulate.llm_training.strategies import BOTH_ENDS, StrategyColumns, columns_of, stage_layers
from topoopt.simulate.llm_training.traffic import layer_traffic
from topoopt.simulate.llm_training.transfers import GroupRates, layer_transfers


@dataclass(frozen=True, eq=False)
class StagePasses:
    """One value a stage of the model, in its order.

    Attributes:
        dense, routed: int64, layers with one MLP, and with experts.
        passes: seconds of one micro-batch.
        tensor, context, expert: seconds of exposed transfers in the forward pass, and in the backward one.
        hop_s: to the next stage.
        dense_weights, expert_weights: parameters on a rank, of experts and of all else.
    """

    dense: Ints
    routed: Ints
    passes: ComputeTimes
    tensor: tuple[Floats, Floats]
    context: tuple[Floats, Floats]
    expert: tuple[Floats, Floats]
    hop_s: float
    dense_weights: Floats
    expert_weights: Floats

    def costs(self, *, blocking: bool) -> StageCosts:
        """As the pipeline takes them: what is computed again belongs to the gradients of the inputs."""
        there, back = (self.tensor[i] + self.context[i] + self.expert[i] for i in range(2))
        return StageCosts(
            self.passes.forward + there,
            self.passes.inputs + self.passes.again + back,
            self.passes.weights,
            self.hop_s,
            blocking,
        )


def pipeline_shape(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> PipelineShape:
    """Its sizes."""
    micro_batches = problem.batch.sequences // (strategy.data * strategy.micro_batch)
    return PipelineShape(strategy.pipeline, micro_batches, strategy.chunks)


def stage_times(problem: LlmTrainingProblem, strategy: ParallelStrategy, rates: GroupRates) -> StagePasses:
    """Times of all stages at these rates."""
    model, length = problem.model, problem.batch.length
    columns = columns_of([strategy], model.layers)
    times = LayerTimes(model, problem.device, problem.formats, columns, length)
    traffic = layer_traffic(model, problem.formats, columns, length, problem.cluster.gpus_per_server)
    moved = layer_transfers(problem.cluster, problem.overlap, columns, traffic, rates)
    known = strategy.stage_layers or stage_layers(model.layers, strategy.pipeline, strategy.chunks)
    count = np.array(known, dtype=np.int64)
    plain = model.layers if model.experts is None else model.experts.dense_layers
    ends = np.cumsum(count)
    dense = np.minimum(ends, plain) - np.minimum(ends - count, plain)
    routed = count - dense
    routed[-1] += model.mtp_layers
    if model.experts is None:
        dense, routed = dense + routed, np.zeros_like(routed)
    first, last = np.zeros(len(count)), np.zeros(len(count))
    first[0], last[-1] = 1.0, 1.0 + model.mtp_layers
    fixed = np.array([problem.device.reached.chunk_us * 1e-6])
    zero = np.zeros(1)
    none = ComputeTimes(*(np.zeros(len(count)),) * 4)
    passes = none.plus(ComputeTimes(fixed, fixed, zero, zero)).plus(times.layer(expert_layer=False), dense)
    if model.experts is not None:
        passes = passes.plus(times.layer(expert_layer=True), routed)
    passes = passes.plus(times.embedding(), first).plus(times.head(), last)
    layers = dense + routed
    exchange = routed * moved.expert
    if strategy.schedule in BOTH_ENDS and strategy.expert > 1:
        passes = passes.scaled(np.array([1.0 / (1.0 - EXCHANGE_SHARE)]))
        exchange = exchange - np.minimum(2.0 * exchange, passes.forward + passes.backward) / 2.0
    return StagePasses(
        dense,
        routed,
        passes,
        (layers * moved.tensor[0], layers * (moved.tensor[1] + moved.tensor[2])),
        (layers * moved.context[0], layers * moved.context[1]),
        (exchange, exchange),
        float(moved.hop[0]),
        *_weights(problem, columns, dense, routed),
    )


def _weights(problem: LlmTrainingProblem, columns: StrategyColumns, dense: Ints, routed: Ints) -> tuple[Floats, Floats]:
    own = [(float(plain[0]), float(experts[0])) for plain, experts in part_weights(problem, columns)]
    of_dense = dense * own[DENSE][0] + routed * own[ROUTED][0]
    of_dense[0] += own[EMBEDDING][0]
    of_dense[-1] += own[HEAD][0]
    return np.asarray(of_dense), np.asarray(routed * own[ROUTED][1])
