"""Seconds of every stage of the pipeline of one strategy, for the explicit order of its passes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.pipeline import StageCosts
from topoopt.simulate.llm_training.rank_times import rank_times
from topoopt.simulate.llm_training.strategies import columns_of, stage_layers
from topoopt.simulate.llm_training.transfers import GroupRates


def stage_costs(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> StageCosts:
    """What one micro-batch costs in each of the p v stages, in the order of the model."""
    p, v = strategy.pipeline, strategy.chunks
    counts = strategy.stage_layers or stage_layers(problem.model.layers, p, v)
    loads = np.array([float(count) for count in counts])
    one = replace(strategy, stage_layers=())
    columns = columns_of([one] * len(counts), problem.model.layers)
    alone = np.ones_like(loads)
    columns = replace(columns, chunks=alone, first_layers=loads, inner_layers=loads, last_layers=loads)
    rates = GroupRates.of(problem.cluster, problem.device.reached, columns)
    ranks, moved = rank_times(problem, problem.device, columns, rates)
    places = [0, *([1] * (len(counts) - 2)), 2] if len(counts) > 1 else [0]
    forward = np.array([ranks[rank].forward[stage] for stage, rank in enumerate(places)])
    backward = np.array([ranks[rank].backward[stage] for stage, rank in enumerate(places)])
    weights = np.array([ranks[rank].passes.weights[stage] for stage, rank in enumerate(places)])
    slow = problem.cluster.slowdown
    hop = float(moved.hop[0]) * slow if p > 1 else 0.0
    return StageCosts(
        slow * forward, slow * (backward - weights), slow * weights, hop, not problem.overlap.pipeline and p > 1
    )
