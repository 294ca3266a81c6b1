"""An iteration by the explicit order of its passes: p representative ranks stand for all replicas, which run in step.

The pipeline is followed pass by pass (as long as it does not repeat itself). Gradients of a layer are reduced as soon
as its last backward pass is through, one layer after the other, weights gathered (ZeRO 1 and 2) ahead of the first
forward pass that needs them; the step of the optimizer waits for all ranks, as gradients are normed. With ZeRO 3, which
gathers weights in all passes, what passes do not hide is taken from the closed form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.pipeline import PassKind
from topoopt.simulate.llm_training.network.stages import StagePasses, pipeline_shape, stage_times
from topoopt.simulate.llm_training.roofline import OPTIMIZER_BYTES, roofline_columns
from topoopt.simulate.llm_training.strategies import columns_of
from topoopt.simulate.llm_training.traffic import data_bytes
from topoopt.simulate.llm_training.transfers import GroupRates
from topoopt.simulate.pipeline import PipelineTime, pipeline_time

ENDS = (int(PassKind.BACKWARD), int(PassKind.WEIGHTS))


@dataclass(frozen=True)
class IterationTimeline:
    """Seconds of an iteration.

    Attributes:
        gathering: before the pipeline goes on as it would without.
        pipeline: from the first begin to the last end of a pass.
        reducing: of the last reduction after that.
        optimizer: step and what is fixed.
    """

    gathering: float
    pipeline: float
    reducing: float
    optimizer: float

    @property
    def total_s(self) -> float:
        """All of them, one after the other."""
        return self.gathering + self.pipeline + self.reducing + self.optimizer


@dataclass(frozen=True, eq=False)
class LayerSync:
    """Seconds of reducing and gathering one layer, float64[p v] by stage, and layers of each, int64[p v]."""

    reduced: Floats
    gathered: Floats
    layers: Floats


def iteration_timeline(problem: LlmTrainingProblem, strategy: ParallelStrategy, rates: GroupRates) -> IterationTimeline:
    """Time of an iteration at these rates of the groups."""
    stages = stage_times(problem, strategy, rates)
    line = pipeline_time(
        strategy.schedule,
        pipeline_shape(problem, strategy),
        stages.costs(blocking=not problem.overlap.pipeline),
    )
    slow, step = problem.cluster.slowdown, optimizer_s(problem, strategy, stages)
    if strategy.zero >= 3:
        left = float(_closed_form_data(problem, strategy, rates))
        return IterationTimeline(0.0, slow * line.makespan_s, slow * left, slow * step)
    sync = layer_sync(problem, strategy, stages, rates)
    gathering, reducing = _around(problem, strategy, stages, sync, line)
    return IterationTimeline(slow * gathering, slow * line.makespan_s, slow * reducing, slow * step)


def layer_sync(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, stages: StagePasses, rates: GroupRates
) -> LayerSync:
    """What replicas exchange for one layer of each stage, embedding and head shared out among the layers of theirs."""
    replicas = np.array([float(strategy.data * strategy.context)])
    of_stage = strategy.gpus / strategy.pipeline
    of_experts = np.array([of_stage / (strategy.expert * strategy.expert_tensor)])
    zero, size = np.array([float(strategy.zero)]), problem.formats.gradient_bytes
    dense = data_bytes(stages.dense_weights, replicas, zero, size, np.ones(1))
    experts = data_bytes(stages.expert_weights, of_experts, zero, size, np.ones(1))
    layers = np.maximum(stages.dense + stages.routed, 1).astype(np.float64)
    reduced, gathered = (a / rates.data + b / rates.expert_data for a, b in zip(dense, experts, strict=True))
    return LayerSync(reduced / layers, gathered / layers, layers)


def optimizer_s(problem: LlmTrainingProblem, strategy: ParallelStrategy, stages: StagePasses) -> float:
    """The step on the fullest rank, and what an iteration costs anyway."""
    replicas = strategy.data * strategy.context
    of_experts = strategy.gpus / strategy.pipeline / (strategy.expert * strategy.expert_tensor)
    shared = strategy.zero >= 1
    own = stages.dense_weights / (replicas if shared else 1.0)
    own = own + stages.expert_weights / (max(of_experts, 1.0) if shared else 1.0)
    rank = own.reshape(strategy.chunks, strategy.pipeline).sum(axis=0).max()
    device = problem.device
    rate = device.memory_gbytes_per_s * device.reached.memory * 1e9
    return float(rank * OPTIMIZER_BYTES / rate) + device.reached.iteration_ms * 1e-3


def _closed_form_data(problem: LlmTrainingProblem, strategy: ParallelStrategy, rates: GroupRates) -> float:
    columns = columns_of([strategy], problem.model.layers)
    return float(roofline_columns(problem, problem.device, columns, rates).data[0]) / problem.cluster.slowdown


def _around(
    problem: LlmTrainingProblem,
    strategy: ParallelStrategy,
    stages: StagePasses,
    sync: LayerSync,
    line: PipelineTime,
) -> tuple[float, float]:
    """Seconds of gathering before, and of reducing behind the pipeline."""
    count = stages.dense.size
    passes, ends = line.orders.passes, line.line.ends / line.line.costs.per_second
    later = line.makespan_s - line.line.makespan_s
    stage = passes[:, 2] % count
    done, begun = np.zeros(count), np.full(count, np.inf)
    last = np.isin(passes[:, 0], ENDS)
    np.maximum.at(done, stage[last], ends[last] + later)
    ahead = ~last & (passes[:, 0] != int(PassKind.INPUTS))
    costs = stages.costs(blocking=False)
    np.minimum.at(begun, stage[ahead], ends[ahead] - costs.forward_s[stage[ahead]])
    split = bool((passes[:, 0] == int(PassKind.WEIGHTS)).any())
    back = costs.weights_s if split else costs.inputs_s + costs.weights_s
    gathering, reducing = 0.0, 0.0
    rank = np.arange(count) % strategy.pipeline
    for one in range(strategy.pipeline):
        own = np.flatnonzero(rank == one)
        gathering = max(gathering, _gathering(problem, sync, own, begun, costs.forward_s))
        reducing = max(reducing, _reducing(problem, sync, own, done, back) - line.makespan_s)
    return gathering, reducing


def _gathering(problem: LlmTrainingProblem, sync: LayerSync, own: Ints, begun: Floats, forward: Floats) -> float:
    """How much later a rank could begin its first passes, weights coming layer by layer in the order of the passes."""
    own = own[np.argsort(begun[own], kind="stable")]
    layers = sync.layers[own].astype(np.int64)
    each = np.repeat(sync.gathered[own], layers)
    if not problem.overlap.data:
        return float(max(each.sum() - begun[own].min(), 0.0))
    place = np.concatenate([np.arange(n) / n for n in layers])
    needed = np.repeat(begun[own], layers) + place * np.repeat(forward[own], layers)
    return float(np.maximum(np.cumsum(each) - needed, 0.0).max())


def _reducing(problem: LlmTrainingProblem, sync: LayerSync, own: Ints, done: Floats, back: Floats) -> float:
    """When a rank has reduced all gradients."""
    own = own[np.argsort(done[own], kind="stable")]
    layers = sync.layers[own].astype(np.int64)
    each = np.repeat(sync.reduced[own], layers)
    if not problem.overlap.data:
        return float(done[own].max() + each.sum())
    place = np.concatenate([np.arange(n - 1, -1, -1) / n for n in layers])
    ready = np.repeat(done[own], layers) - place * np.repeat(back[own], layers)
    return float((ready + np.cumsum(each[::-1])[::-1]).max())
