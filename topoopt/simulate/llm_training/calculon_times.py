"""Times of operations and transfers in the Calculon model."""

from __future__ import annotations

import numpy as np

from topoopt.core.calculon import CalculonMachine, StepNetwork, Steps, TransferCost
from topoopt.simulate.llm_training.calculon_block import BlockLayer, Side
from topoopt.simulate.llm_training.calculon_records import Flags, Numbers


def step_efficiency(steps: Steps, unit: float, sizes: Numbers) -> Numbers:
    """Part of the peak for operations of these sizes; rows state sizes in `unit`, largest first.

    What is smaller than the last row has the efficiency of that row.
    """
    starts = np.array([start * unit for start, _ in reversed(steps)])
    parts = np.array([part for _, part in reversed(steps)])
    return parts[np.maximum(np.searchsorted(starts, sizes, side="right") - 1, 0)]


def network_time(network: StepNetwork, cost: TransferCost, size: Numbers, ranks: Numbers) -> Numbers:
    """Seconds of an operation on so many bytes."""
    scaled = size * cost.scalar
    return network.latency_s + (scaled + 1 / ranks * scaled * cost.offset) / (
        network.gbytes_per_s * 1e9 * network.efficiency
    )


class OperationTimes:
    """Seconds of parts of layers on a machine."""

    def __init__(self, machine: CalculonMachine) -> None:
        self._machine = machine

    def computing(self, operations: Numbers, *, matrix: bool) -> Numbers:
        """Time at the unit."""
        unit = self._machine.matrix if matrix else self._machine.vector
        return operations / (unit.tflops * 1e12 * step_efficiency(unit.gflops_efficiency, 1e9, operations))

    def moving(self, size: Numbers) -> Numbers:
        """Time at the memory."""
        memory = self._machine.memory
        return size / (memory.gbytes_per_s * 1e9 * step_efficiency(memory.mb_efficiency, 1e6, size))

    def both(self, computing: Numbers, moving: Numbers) -> Numbers:
        """Time of an operation that does both."""
        return np.maximum(computing, moving) if self._machine.roofline else computing + moving

    def transfer(
        self, network: StepNetwork, layer: BlockLayer, split: Flags, ranks: Numbers, size: Numbers
    ) -> TransferTimes:
        """What a transfer of tensor parallelism takes in each pass; `split`: by ReduceScatter and AllGather."""
        scatter, gather, reduce = (
            network_time(network, cost, size, ranks)
            for cost in (network.reduce_scatter, network.all_gather, network.all_reduce)
        )
        before = layer.side is Side.BEFORE
        forward = np.where(split, gather if before else scatter, 0.0 if before else reduce)
        backward = np.where(split, scatter if before else gather, reduce if before else 0.0)
        own_forward = self.both(self.computing(layer.forward, matrix=False), self.moving(layer.forward_bytes))
        own_backward = self.both(
            self.computing(layer.input_gradient, matrix=False), self.moving(layer.input_gradient_bytes)
        )
        shared = ranks > 1
        again = np.where(layer.transferred_again, forward, 0.0)
        return np.where(shared, forward + own_forward, 0.0), np.where(shared, backward + own_backward, 0.0), again


TransferTimes = tuple[Numbers, Numbers, Numbers]
"""Forward, backward, and again in the backward pass."""
