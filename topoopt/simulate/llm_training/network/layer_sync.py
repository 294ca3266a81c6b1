"""What replicas exchange for the layers of every stage of a strategy, and the step of the optimizer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy
from topoopt.simulate.llm_training.network.stages import StagePasses
from topoopt.simulate.llm_training.order_times import shape_of
from topoopt.simulate.llm_training.stage_parts import OPTIMIZER_BYTES
from topoopt.simulate.llm_training.traffic import data_bytes
from topoopt.simulate.llm_training.transfers import GroupRates


@dataclass(frozen=True, eq=False)
class LayerSync:
    """Seconds of reducing and gathering one layer, float64[p v] by stage, and layers of each, int64[p v]."""

    reduced: Floats
    gathered: Floats
    layers: Floats


def layer_sync(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, stages: StagePasses, rates: GroupRates
) -> LayerSync:
    """What replicas exchange for one layer of each stage, embedding and head shared out among the layers of theirs."""
    replicas, of_experts = np.array([float(strategy.replicas)]), np.array([float(strategy.expert_replicas)])
    zero, size = np.array([float(strategy.zero)]), problem.formats.gradient_bytes
    dense = data_bytes(stages.dense_weights, replicas, zero, size, np.ones(1))
    experts = data_bytes(stages.expert_weights, of_experts, zero, size, np.ones(1))
    layers = np.maximum(stages.dense + stages.routed, 1).astype(np.float64)
    reduced, gathered = (a / rates.data + b / rates.expert_data for a, b in zip(dense, experts, strict=True))
    return LayerSync(reduced / layers, gathered / layers, layers)


def optimizer_s(problem: LlmTrainingProblem, strategy: ParallelStrategy, stages: StagePasses) -> float:
    """The step on the fullest rank, and what an iteration costs anyway."""
    shared = strategy.zero >= 1
    own = stages.dense_weights / (strategy.replicas if shared else 1.0)
    own = own + stages.expert_weights / (strategy.expert_replicas if shared else 1.0)
    rank = np.bincount(shape_of(problem, strategy).home(), own).max()
    device = problem.device
    rate = device.memory_gbytes_per_s * device.reached.memory * 1e9
    return float(rank * OPTIMIZER_BYTES / rate) + device.reached.iteration_ms * 1e-3
