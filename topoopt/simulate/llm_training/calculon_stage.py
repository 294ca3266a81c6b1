"""Sums over the layers of a block in the Calculon model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.calculon import CalculonSettings, TensorTransfers
from topoopt.core.language_model import LanguageModel
from topoopt.core.parallelism import Recompute
from topoopt.simulate.llm_training.calculon_block import BlockBuilder, BlockLayer
from topoopt.simulate.llm_training.calculon_records import CalculonRecords, Numbers
from topoopt.simulate.llm_training.calculon_times import OperationTimes

ADAM_OPERATIONS = 11
"""For each weight."""


@dataclass(frozen=True, eq=False)
class BlockTimes:
    """Seconds of one micro-batch in one block, one value a record.

    Attributes:
        forward, again, input_gradient, weight_gradient, optimizer: computing and moving.
        again_computing, again_moving: sums over all layers up to each one that is computed again, as the tool adds
            them; they only count in what transfers of gradients may overlap.
        backward_computing, backward_moving: of both gradients.
        optimizer_computing, optimizer_moving: of the optimizer.
        inside: transfers of tensor parallelism (forward, backward, again) in a block inside a stage.
        edge: the same in the last block of a chunk.
    """

    forward: Numbers
    again: Numbers
    input_gradient: Numbers
    weight_gradient: Numbers
    optimizer: Numbers
    again_computing: Numbers
    again_moving: Numbers
    backward_computing: Numbers
    backward_moving: Numbers
    optimizer_computing: Numbers
    optimizer_moving: Numbers
    inside: tuple[Numbers, Numbers, Numbers]
    edge: tuple[Numbers, Numbers, Numbers]

    @property
    def backward(self) -> Numbers:
        """Both gradients."""
        return self.input_gradient + self.weight_gradient


@dataclass(frozen=True, eq=False)
class BlockBytes:
    """Bytes of one block, one value a record.

    Attributes:
        weights: in the format of computing.
        gradients_shared, gradients_whole: what a replica keeps of gradients, and before they are reduced (4 bytes).
        optimizer: master weights and moments.
        working, stored: activations while the block computes, and what stays until its backward pass.
        activation_gradients: while the block computes.
    """

    weights: Numbers
    gradients_shared: Numbers
    gradients_whole: Numbers
    optimizer: Numbers
    working: Numbers
    stored: Numbers
    activation_gradients: Numbers


def block_of(
    model: LanguageModel, length: int, settings: CalculonSettings, records: CalculonRecords
) -> tuple[BlockTimes, BlockBytes]:
    """Times and bytes of one block for sequences of `length`."""
    element = settings.machine.element_bytes
    builder = BlockBuilder(records, element, fused=settings.fused)
    layers = builder.layers(model.hidden, model.ffn_hidden, model.heads, model.head_size, length)
    size = records.micro_batch * length * model.hidden * element
    return _times(layers, settings, records, size), _bytes(layers, records, element)


def _shares(records: CalculonRecords) -> Numbers:
    """Replicas that share the states of the optimizer."""
    return np.where(records.sharded, records.data, 1.0)


def _times(
    layers: list[BlockLayer], settings: CalculonSettings, records: CalculonRecords, transferred: Numbers
) -> BlockTimes:
    machine = settings.machine
    times = OperationTimes(machine)
    zero = np.zeros_like(records.tensor)
    sums = dict.fromkeys(
        ("forward", "again", "input_gradient", "weight_gradient", "optimizer", "again_computing", "again_moving",
         "backward_computing", "backward_moving", "optimizer_computing", "optimizer_moving"), zero,
    )  # fmt: skip
    inside, edge = [zero] * 3, [zero] * 3
    split = records.transfers == TensorTransfers.SEQUENCE
    split_at_edge = records.transfers != TensorTransfers.ALL_REDUCE
    network = machine.networks[settings.tensor_network]
    so_far = [zero, zero]
    for layer in layers:
        computing = times.computing(layer.forward, matrix=layer.matrix)
        moving = times.moving(layer.forward_bytes)
        so_far = [so_far[0] + computing, so_far[1] + moving]
        for name, operations, moved in (
            ("input_gradient", layer.input_gradient, layer.input_gradient_bytes),
            ("weight_gradient", layer.weight_gradient, layer.weight_gradient_bytes),
        ):
            own, at_memory = times.computing(operations, matrix=layer.matrix), times.moving(moved)
            sums["backward_computing"] = sums["backward_computing"] + own
            sums["backward_moving"] = sums["backward_moving"] + at_memory
            if layer.side is None:
                sums[name] = sums[name] + times.both(own, at_memory)
        if layer.side is not None:
            for found, ways in ((inside, split), (edge, split_at_edge)):
                parts = times.transfer(network, layer, ways, records.tensor, transferred)
                found[:] = [total + part for total, part in zip(found, parts, strict=True)]
            continue
        both = times.both(computing, moving)
        sums["forward"] = sums["forward"] + both
        sums["again"] = sums["again"] + np.where(layer.again, both, 0.0)
        sums["again_computing"] = sums["again_computing"] + np.where(layer.again, so_far[0], 0.0)
        sums["again_moving"] = sums["again_moving"] + np.where(layer.again, so_far[1], 0.0)
        own = times.computing(layer.weights / _shares(records) * ADAM_OPERATIONS, matrix=False)
        at_memory = times.moving(_optimizer_bytes(layer, records, machine.element_bytes))
        sums["optimizer_computing"] = sums["optimizer_computing"] + own
        sums["optimizer_moving"] = sums["optimizer_moving"] + at_memory
        sums["optimizer"] = sums["optimizer"] + times.both(own, at_memory)
    return BlockTimes(**sums, inside=(inside[0], inside[1], inside[2]), edge=(edge[0], edge[1], edge[2]))


def _optimizer_bytes(layer: BlockLayer, records: CalculonRecords, element: int) -> Numbers:
    """Two moments of 4 bytes, and a master copy where weights are smaller."""
    return layer.weights * (12.0 if element < 4 else 8.0) / _shares(records)


def _bytes(layers: list[BlockLayer], records: CalculonRecords, element: int) -> BlockBytes:
    zero = np.zeros_like(records.tensor)
    weights, optimizer, working, stored, gradients = zero, zero, zero, zero, zero
    for layer in layers:
        weights = weights + layer.weights
        optimizer = optimizer + _optimizer_bytes(layer, records, element)
        if not layer.reused:
            working = working + layer.kept
        stored = stored + np.where(layer.stored, layer.kept, 0.0) - np.where(layer.output_stored, 0.0, layer.output)
        gradients = gradients + layer.gradient
    whole = records.recompute == Recompute.FULL
    return BlockBytes(
        weights=weights * element,
        gradients_shared=weights * element / _shares(records),
        gradients_whole=weights * 4,
        optimizer=optimizer,
        working=working,
        stored=np.where(whole, 0.0, stored),
        activation_gradients=gradients,
    )
