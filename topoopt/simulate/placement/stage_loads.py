"""What a placement makes each device do per micro-batch of a full pipeline, and the throughput objective.

A tensor that is cut costs its producer's device once (the slowest of its copies) and each other device with a consumer
once; CPUs of the pool pay nothing (Tarnawski et al., NeurIPS 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from topoopt.core.arrays import Int32s
from topoopt.core.placement import Communication, PlacementProblem, Schedule, Throughput
from topoopt.core.placement_solution import DeviceLoad


def device_loads(problem: PlacementProblem, device: Int32s) -> tuple[DeviceLoad, ...]:
    """Loads of all devices for a placement int32[operators]."""
    k = len(problem.devices)
    compute = np.zeros((k, 2))
    communication = np.zeros((k, 2))
    memory = [0] * k
    at = device.tolist()
    for index, operator in enumerate(problem.operators):
        where = at[index]
        compute[where, int(operator.backward)] += operator.times_ms[problem.devices[where].class_index]
        memory[where] += operator.memory_bytes
    for tensor in problem.tensors:
        source = at[tensor.producer]
        targets = {at[user] for user in tensor.consumers} - {source}
        if not targets:
            continue
        phase = int(problem.operators[tensor.producer].backward)
        costs = {target: problem.send_ms(tensor.size_bytes, source, target) for target in targets}
        communication[source, phase] += max(costs.values())
        for target, cost in costs.items():
            communication[target, phase] += cost
    for index, entry in enumerate(problem.devices):
        if entry.host:
            communication[index] = 0.0
    return tuple(
        DeviceLoad(
            float(compute[d, 0]),
            float(compute[d, 1]),
            float(communication[d, 0]),
            float(communication[d, 1]),
            memory[d],
        )
        for d in range(k)
    )


def max_load_ms(settings: Throughput, loads: Sequence[DeviceLoad]) -> float:
    """The objective: largest load, or largest forward plus largest backward load (GPipe)."""

    def joined(compute: float, communication: float) -> float:
        added = settings.communication is Communication.ADDED
        return compute + communication if added else max(compute, communication)

    if settings.schedule is Schedule.GPIPE:
        forward = max(joined(load.forward_ms, load.forward_communication_ms) for load in loads)
        return forward + max(joined(load.backward_ms, load.backward_communication_ms) for load in loads)
    return max(joined(load.compute_ms, load.communication_ms) for load in loads)


def compute_loads(problem: PlacementProblem, device: Int32s) -> tuple[DeviceLoad, ...]:
    """The same without communication, which does not occupy devices in objective latency."""
    return tuple(
        replace(load, forward_communication_ms=0.0, backward_communication_ms=0.0)
        for load in device_loads(replace(problem, tensors=()), device)
    )
