"""Time and memory of an iteration in the Calculon model (Isaev et al., SC'23), for many executions at once.

A stage is `chunks` runs of blocks, the last block of each run sends to the next stage. The bubble is that of an
interleaved schedule; gradients are reduced in the format of weights. Offloading, tiles of tensor parallelism and
attention with fewer heads of keys are not covered.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from topoopt.core.calculon import CalculonSettings, TensorTransfers
from topoopt.core.language_model import LanguageModel
from topoopt.core.parallelism import Recompute
from topoopt.simulate.llm_training.calculon_records import CalculonRecords, Numbers
from topoopt.simulate.llm_training.calculon_stage import BlockBytes, BlockTimes, block_of
from topoopt.simulate.llm_training.calculon_times import network_time


@dataclass(frozen=True, eq=False)
class CalculonStep:
    """What iterations take, one value a record.

    Attributes:
        forward, backward, recompute, bubble, optimizer: seconds of computing and waiting.
        tensor, tensor_again, pipeline, data: seconds of exposed transfers; `tensor_again`: in the backward pass for
            what was not kept.
        weights, gradients, optimizer_states, activations, checkpoints, activation_gradients: bytes.
    """

    forward: Numbers
    backward: Numbers
    optimizer: Numbers
    recompute: Numbers
    tensor_again: Numbers
    bubble: Numbers
    tensor: Numbers
    pipeline: Numbers
    data: Numbers
    weights: Numbers
    gradients: Numbers
    optimizer_states: Numbers
    activations: Numbers
    checkpoints: Numbers
    activation_gradients: Numbers

    @property
    def total(self) -> Numbers:
        """Seconds of the iteration."""
        return _sum(self, slice(9))

    @property
    def memory(self) -> Numbers:
        """Bytes of a GPU."""
        return _sum(self, slice(9, 15))


def _sum(step: CalculonStep, parts: slice) -> Numbers:
    return np.asarray(np.sum([getattr(step, part.name) for part in fields(step)[parts]], axis=0))


@dataclass(frozen=True, eq=False)
class _Stage:
    """Blocks of a stage and passes over them, one value a record.

    Attributes:
        blocks, in_chunk: of the fullest stage, and of one of its chunks.
        missing: stages with a block less.
        count: micro-batches of a replica.
        hop: seconds from one stage to the next.
        forward, backward: seconds of a block inside a chunk, and of its last.
    """

    blocks: Numbers
    in_chunk: Numbers
    missing: Numbers
    count: Numbers
    hop: Numbers
    forward: tuple[Numbers, Numbers]
    backward: tuple[Numbers, Numbers]

    def chunk(self, parts: tuple[Numbers, Numbers]) -> Numbers:
        """Of a whole chunk."""
        return (self.in_chunk - 1) * parts[0] + parts[1]


def calculon_step(
    model: LanguageModel, length: int, settings: CalculonSettings, records: CalculonRecords
) -> CalculonStep:
    """Evaluate executions that obey `admitted`."""
    times, kept = block_of(model, length, settings, records)
    stage = _stage(model, length, settings, records, times)
    passes = stage.count * records.chunks

    def of_stage(inside: Numbers, edge: Numbers) -> Numbers:
        return passes * ((stage.in_chunk - 1) * inside + edge)

    every = stage.blocks * stage.count
    return CalculonStep(
        forward=every * times.forward,
        backward=every * times.backward,
        optimizer=stage.blocks * times.optimizer,
        recompute=every * times.again,
        tensor_again=of_stage(times.inside[2], times.edge[2]),
        bubble=_bubble(stage, records),
        tensor=of_stage(times.inside[0], times.edge[0]) + of_stage(times.inside[1], times.edge[1]),
        pipeline=np.where(records.pipeline > 1, 2 * passes * stage.hop, 0.0),
        data=_data(settings, records, times, kept, stage),
        weights=stage.blocks * kept.weights,
        gradients=kept.gradients_whole + kept.gradients_shared * (stage.blocks - 1),
        optimizer_states=stage.blocks * kept.optimizer,
        activations=_activations(records, kept, stage),
        checkpoints=_checkpoints(model, length, settings, records, stage),
        activation_gradients=kept.activation_gradients,
    )


def chunk_seconds(
    model: LanguageModel, length: int, settings: CalculonSettings, records: CalculonRecords
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Of a micro-batch in a chunk: forward, gradients of inputs with what is done again, of weights; and a hop."""
    times, _ = block_of(model, length, settings, records)
    stage = _stage(model, length, settings, records, times)
    weights = stage.in_chunk * times.weight_gradient
    return stage.chunk(stage.forward) - stage.hop, stage.chunk(stage.backward) - stage.hop - weights, weights, stage.hop


def _stage(
    model: LanguageModel, length: int, settings: CalculonSettings, records: CalculonRecords, times: BlockTimes
) -> _Stage:
    p = records.pipeline
    blocks = np.ceil(model.layers / p)
    size = records.micro_batch * length * model.hidden * settings.machine.element_bytes
    size = np.where(records.transfers == TensorTransfers.ALL_REDUCE, size, size / records.tensor)
    network = settings.machine.networks[settings.pipeline_network]
    # The tool counts the latency of a hop in passes of chunks even where there is no next stage.
    hop = network_time(network, network.point_to_point, np.where(p > 1, size, 0.0), np.full_like(p, 2.0))
    ahead = times.again + times.backward
    return _Stage(
        blocks=blocks,
        in_chunk=blocks / records.chunks,
        missing=np.where(model.layers % p == 0, 0.0, p - model.layers % p),
        count=records.batch / records.data / records.micro_batch,
        hop=hop,
        forward=(times.forward + times.inside[0], times.forward + times.edge[0] + hop),
        backward=(ahead + times.inside[1] + times.inside[2], ahead + times.edge[1] + times.edge[2] + hop),
    )


def _bubble(stage: _Stage, records: CalculonRecords) -> Numbers:
    p = records.pipeline
    chunk = stage.chunk(stage.forward) + stage.chunk(stage.backward)
    inside = stage.forward[0] + stage.backward[0]
    edge = stage.forward[1] + stage.backward[1]
    less = stage.missing * np.where(stage.in_chunk > 1, (inside + edge) / 2, edge)
    short = np.where(stage.count % p == 0, 0.0, p - stage.count % p)
    return (p - 1) * chunk + (records.chunks - 1) * short * chunk - less


def _data(
    settings: CalculonSettings, records: CalculonRecords, times: BlockTimes, kept: BlockBytes, stage: _Stage
) -> Numbers:
    """Exposed reduction of gradients, and gathering of weights where replicas share the optimizer."""
    network = settings.machine.networks[settings.data_network]
    ranks = np.maximum(records.data, 2.0)
    scatter, gather, reduce = (
        network_time(network, cost, kept.weights, ranks)
        for cost in (network.reduce_scatter, network.all_gather, network.all_reduce)
    )
    block = np.where(records.sharded, scatter + gather, reduce)
    usage = network.processor_usage
    free = np.where(records.sharded, 0.0, times.optimizer - times.optimizer_moving)
    moving = times.backward_moving + times.again_moving
    inside, edge = (part - moving + free for part in stage.backward)
    if settings.data_network == settings.tensor_network:
        inside = inside - times.inside[2] - times.inside[1]
        edge = edge - times.edge[2] - times.edge[1]
    window = stage.chunk((inside, edge))
    computing = times.backward_computing + times.again_computing
    computing = computing + np.where(records.sharded, 0.0, times.optimizer_computing)
    p = records.pipeline
    chunk = stage.in_chunk * block
    collisions = np.zeros_like(p)
    if settings.data_network == settings.pipeline_network:
        most = np.where(stage.count % p == 0, p, stage.count % p)
        collisions = np.minimum(chunk // stage.chunk(stage.backward), most)
    excess = chunk - (p * window - collisions * stage.hop) + p * stage.in_chunk * computing * usage
    earlier = (records.chunks - 1) * np.where(excess > 0, excess, chunk * usage)
    tail = np.where(stage.in_chunk > 1, window - stage.hop - (stage.backward[0] + stage.backward[1]) / 2 + free, 0.0)
    last = (stage.in_chunk - 1) * block
    excess = last + computing * usage - tail
    last = np.where(excess > 0, excess, last * usage)
    exposed = np.where(records.data_overlap, block + earlier + last, stage.blocks * block)
    return np.where(records.data > 1, exposed, 0.0)


def _in_flight(records: CalculonRecords, stage: _Stage) -> Numbers:
    """Micro-batches that a stage keeps activations of."""
    p, v = records.pipeline, records.chunks
    return np.minimum(stage.count, p) * np.where(v > 1, 1 + (p - 1) / (v * p), 1.0)


def _activations(records: CalculonRecords, kept: BlockBytes, stage: _Stage) -> Numbers:
    more = kept.stored * (stage.blocks * _in_flight(records, stage) - 1)
    return kept.working + np.where(records.recompute == Recompute.FULL, 0.0, more)


def _checkpoints(
    model: LanguageModel, length: int, settings: CalculonSettings, records: CalculonRecords, stage: _Stage
) -> Numbers:
    size = records.micro_batch * length * model.hidden * settings.machine.element_bytes
    full = records.recompute == Recompute.FULL
    return np.where(full, stage.blocks * size * _in_flight(records, stage), 0.0)
