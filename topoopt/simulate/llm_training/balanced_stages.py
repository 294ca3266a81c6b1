"""Layers to the ranks of a pipeline so that the slowest takes as little as memory lets it.

Layers are dealt one at a time, each to the rank that is through with it first among those that have room. No division
has a faster slowest rank: in less than it takes, no rank gets through more layers than it had when the slowest got its
last one, and those were not all. Nor does one fit where this one does not. Of ranks that are through together the later
one has the layer, as it keeps fewer micro-batches. Layers without experts count as those of the first rank.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Bools, Floats
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.native import pipeline
from topoopt.simulate.llm_training.ledger import bytes_around, in_flight, layer_activations, state_bytes
from topoopt.simulate.llm_training.part_weights import CHUNK, DENSE, EMBEDDING, HEAD, ROUTED, part_weights
from topoopt.simulate.llm_training.stage_parts import FORWARD, INPUTS, WEIGHTS, StageParts, stage_parts
from topoopt.simulate.llm_training.stage_table import stages_of
from topoopt.simulate.llm_training.strategies import StrategyColumns, with_stages
from topoopt.simulate.llm_training.transfers import GroupRates


def with_balanced(problem: LlmTrainingProblem, columns: StrategyColumns, chosen: Bools) -> StrategyColumns:
    """Strategies, the layers of some balanced by their seconds on an ideal switch.

    Args:
        columns: layers as even as can be, or with short ends.
        chosen: bool[R], those that are balanced, of several stages; where no division fits their layers stay.
    """
    stages, rows = stages_of(problem, columns), np.flatnonzero(chosen)
    own = columns.rows(rows)
    parts = stage_parts(problem, problem.device, own, GroupRates.of(problem.cluster, problem.device.reached, own))
    m = problem.batch.sequences / own.data / own.micro_batch
    ranks = np.arange(own.pipeline.max())
    flight = np.stack([in_flight(own, m, np.full_like(m, rank)) for rank in ranks], axis=1)
    usable, experts = problem.cluster.usable_bytes, problem.model.experts
    stages[rows] = pipeline.balanced_stages(
        np.stack([own.pipeline, own.chunks], axis=1).astype(np.int64),
        _seconds(problem, parts),
        _bytes(problem, own),
        flight,
        np.inf if usable is None else float(usable),
        problem.model.layers,
        0 if experts is None else experts.dense_layers,
        stages[rows],
    )
    return with_stages(columns, stages)


def _seconds(problem: LlmTrainingProblem, parts: StageParts) -> Floats:
    """float64[R, 5]: of a layer without experts and one with them, of what each chunk costs, and what the first and the
    last rank have beside."""
    passes = parts.seconds[:, :, [FORWARD, INPUTS, WEIGHTS]].sum(axis=2)
    routed = passes[:, ROUTED] + 2.0 * parts.exchange if problem.model.experts is not None else passes[:, ROUTED]
    last = passes[:, HEAD] + problem.model.mtp_layers * routed
    return np.stack([passes[:, DENSE], routed, passes[:, CHUNK], passes[:, EMBEDDING], last], axis=1)


def _bytes(problem: LlmTrainingProblem, columns: StrategyColumns) -> Floats:
    """float64[R, 6]: state of a layer without experts and of one with them, activations of a layer and micro-batch, and
    what every, the first and the last rank have beside."""
    model, formats = problem.model, problem.formats
    weights = part_weights(problem, columns)
    state = [np.add.reduce(state_bytes(columns, formats, weights[kind])) for kind in (DENSE, ROUTED, EMBEDDING, HEAD)]
    length, experts = problem.batch.length, model.experts is not None
    kept = layer_activations(model, formats, columns, length, expert_layer=experts)
    whole, logits = bytes_around(model, formats, columns, length)
    last = state[HEAD] + model.mtp_layers * state[ROUTED] + logits
    return np.stack([state[DENSE], state[ROUTED], kept, whole, state[EMBEDDING], last], axis=1)
