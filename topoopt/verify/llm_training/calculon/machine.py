"""Seconds of operations and transfers on a machine that Calculon describes."""

from __future__ import annotations

from topoopt.core.calculon import CalculonMachine, StepNetwork, Steps, TransferCost


def reached(steps: Steps, size: float) -> float:
    """Part of the peak: of the first row that a size reaches, else of the last one."""
    return next((part for start, part in steps if size >= start), steps[-1][1])


def unit_s(machine: CalculonMachine, work: float, *, matrix: bool) -> float:
    """Of so many operations at one of the units."""
    unit = machine.matrix if matrix else machine.vector
    return work / reached(unit.gflops_efficiency, work / 1e9) / (unit.tflops * 1e12)


def memory_s(machine: CalculonMachine, size: float) -> float:
    """Of so many bytes to and from memory."""
    return size / reached(machine.memory.mb_efficiency, size / 1e6) / (machine.memory.gbytes_per_s * 1e9)


def joint_s(machine: CalculonMachine, unit: float, memory: float) -> float:
    """Of an operation that takes so long at the unit and at memory."""
    return max(unit, memory) if machine.roofline else unit + memory


def transfer_s(network: StepNetwork, cost: TransferCost, size: float, ranks: int) -> float:
    """Of a collective, or of a message with two ranks."""
    sent = size * cost.scalar * (1.0 + cost.offset / ranks)
    return network.latency_s + sent / (network.gbytes_per_s * 1e9 * network.efficiency)
