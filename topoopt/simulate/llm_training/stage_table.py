"""Seconds of every stage of a pipeline, for strategies with any numbers of layers; kernels that others build on."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.simulate.jit import kernel, piece
from topoopt.simulate.llm_training.part_weights import CHUNK, DENSE, EMBEDDING, HEAD, ROUTED
from topoopt.simulate.llm_training.stage_parts import COMPUTE, FORWARD, INPUTS, STEP, StageParts
from topoopt.simulate.llm_training.strategies import StrategyColumns

SPANS = 7
"""Rows of a table: those of a part up to STEP, and layers."""

LAYERS = 6


def layer_kinds(problem: LlmTrainingProblem) -> Ints:
    """int64[3]: layers at the begin that have no experts, those that predict further tokens, whether there are experts;
    as the kernels take them."""
    model = problem.model
    plain = model.layers if model.experts is None else model.experts.dense_layers
    return np.array([plain, model.mtp_layers, model.experts is not None], dtype=np.int64)


@piece
def chunks_of_load(load: int, rank: int, p: int, v: int, found: Ints) -> None:  # pragma: no cover - compiled
    """Layers of the stages of a rank. Where they differ, all ranks have the longer ones at the same turns: the last
    ones, but for the last rank not the one that the head stands behind."""
    end = v - (1 if rank == p - 1 else 0)
    for chunk in range(v):
        longer = end - load % v <= chunk < end
        found[chunk * p + rank] = load // v + (1 if longer else 0)


@piece
def even_stages(layers: int, first: int, last: int, p: int, v: int, found: Ints) -> None:  # pragma: no cover - compiled
    """Layers of every stage, those between the first and the last rank as even as can be."""
    between, inner = layers - first - last, max(p - 2, 1)
    for rank in range(p):
        load = (
            first
            if rank == 0
            else last
            if rank == p - 1
            else between // inner + (1 if rank - 1 < between % inner else 0)
        )
        if p == 1:
            load = layers
        chunks_of_load(load, rank, p, v, found)


@piece
def fill_stages(
    seconds: Floats, exchange: float, hidden: bool, kinds: Ints, layers: Ints, stages: int, found: Floats
) -> None:  # pragma: no cover - compiled
    """Write float64[7, stages] of a strategy.

    Args:
        seconds: float64[5, 7], its parts.
        kinds: as `layer_kinds`.
        layers: int64[stages].
    """
    before = 0
    for stage in range(stages):
        plain = min(max(kinds[0] - before, 0), layers[stage])
        routed = layers[stage] - plain
        before += layers[stage]
        if stage == stages - 1:
            if kinds[2] == 1:
                routed += kinds[1]
            else:
                plain += kinds[1]
        for row in range(STEP + 1):
            value = plain * seconds[DENSE, row] + routed * seconds[ROUTED, row] + seconds[CHUNK, row]
            if stage == 0:
                value += seconds[EMBEDDING, row]
            if stage == stages - 1:
                value += seconds[HEAD, row]
            found[row, stage] = value
        found[LAYERS, stage] = max(plain + routed, 1)
        waited = routed * exchange
        if hidden:
            busy = plain * seconds[DENSE, COMPUTE] + routed * seconds[ROUTED, COMPUTE] + seconds[CHUNK, COMPUTE]
            if stage == 0:
                busy += seconds[EMBEDDING, COMPUTE]
            if stage == stages - 1:
                busy += seconds[HEAD, COMPUTE]
            waited -= min(2.0 * waited, busy) / 2.0
        found[FORWARD, stage] += waited
        found[INPUTS, stage] += waited


@piece
def late_weights(
    gathered: float, layers: float, forward: float, before: float, hiding: bool
) -> float:  # pragma: no cover
    """Before when a stage cannot begin, its weights coming layer by layer behind those of stages before it."""
    if not hiding:
        return before + gathered
    return before + max(gathered / layers, gathered - forward * (layers - 1.0) / layers)


@piece
def reduced_at(
    free: float, done: float, reduced: float, layers: float, back: float, hiding: bool
) -> float:  # pragma: no cover
    """When the gradients of a stage are reduced, layer by layer, behind those before, as its last pass makes them."""
    if not hiding:
        return max(free, done) + reduced
    one = max(done + reduced / layers, done - back * (layers - 1.0) / layers + reduced)
    return max(free + reduced, one)


def stage_tables(problem: LlmTrainingProblem, parts: StageParts, layers: Ints) -> Floats:
    """float64[7, stages, R] of strategies of as many stages.

    Args:
        layers: int64[R, stages].
    """
    own = np.ascontiguousarray(layers)  # kernels are compiled for each layout
    return _tables(parts.seconds, parts.exchange, parts.hidden, layer_kinds(problem), own)


@kernel
def _tables(seconds: Floats, exchange: Floats, hidden: Bools, kinds: Ints, layers: Ints) -> Floats:  # pragma: no cover
    count, stages = layers.shape
    found, own = np.empty((SPANS, stages, count)), np.empty((SPANS, stages))
    for one in range(count):
        fill_stages(seconds[one], exchange[one], hidden[one], kinds, layers[one], stages, own)
        for row in range(SPANS):
            for stage in range(stages):
                found[row, stage, one] = own[row, stage]
    return found


def stages_of(problem: LlmTrainingProblem, columns: StrategyColumns) -> Ints:
    """int64[R, most stages], layers of every stage of strategies."""
    if columns.stages is not None:
        return columns.stages
    ends = columns.pipeline, columns.chunks, columns.first_layers, columns.last_layers
    p, v, first, last = (part.astype(np.int64) for part in ends)
    found: Ints = _layers(problem.model.layers, p, v, first, last)
    return found


@kernel
def _layers(layers: int, p: Ints, v: Ints, first: Ints, last: Ints) -> Ints:  # pragma: no cover - compiled
    found = np.zeros((len(p), (p * v).max()), dtype=np.int64)
    for one in range(len(p)):
        even_stages(layers, first[one], last[one], p[one], v[one], found[one])
    return found
