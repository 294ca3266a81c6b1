"""Loads of the devices of a placement, recomputed for the checker; shares no code with `topoopt.simulate`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.placement import PlacementProblem, Throughput


@dataclass(frozen=True, eq=False)
class Loads:
    """float64[2, devices] each, forward then backward: compute, communication; and int[devices] resident bytes."""

    compute: Floats
    communication: Floats
    memory: list[int]


def resident_bytes(problem: PlacementProblem, device: Ints) -> list[int]:
    """Bytes on each device, in exact integers."""
    held = [0] * len(problem.devices)
    for operator, where in zip(problem.operators, device.tolist(), strict=True):
        held[where] += operator.memory_bytes
    return held


def _transfer_ms(problem: PlacementProblem, shares: list[float], size: int, one: int, other: int) -> float:
    a, b = problem.devices[one], problem.devices[other]
    if a.server == b.server:
        server = problem.servers[a.server]
        gbps = server.intra_gbps if server.intra_gbps is not None else sum(link.gbps for link in server.links)
        return size * 8e-6 / gbps + problem.intra_latency_ms
    counted = [shares[d] for d, entry in ((one, a), (other, b)) if not entry.host]
    return size * 8e-6 / min(counted or (shares[one], shares[other])) + problem.transfer_latency_ms


def _shares(problem: PlacementProblem) -> list[float]:
    """Gbit/s of its server's links that each device counts on."""
    paying = [0] * len(problem.servers)
    for entry in problem.devices:
        paying[entry.server] += not entry.host
    return [
        sum(link.gbps for link in problem.servers[entry.server].links) / max(1, paying[entry.server])
        for entry in problem.devices
    ]


def transfer_table(problem: PlacementProblem, size_bytes: int) -> Floats:
    """float64[devices, devices]: ms of a transfer of so many bytes; 0 on one device."""
    shares, devices = _shares(problem), range(len(problem.devices))
    return np.array(
        [[0.0 if d == e else _transfer_ms(problem, shares, size_bytes, d, e) for e in devices] for d in devices]
    )


def loads_of(problem: PlacementProblem, device: Ints) -> Loads:
    """What each device does per micro-batch; the devices are known to exist and to run their operators."""
    k = len(problem.devices)
    table = np.array([operator.times_ms for operator in problem.operators])
    phase = np.array([operator.backward for operator in problem.operators], dtype=np.int64)
    column = np.array([entry.class_index for entry in problem.devices])[device]
    compute = np.zeros((2, k))
    np.add.at(compute, (phase, device), table[np.arange(len(device)), column])
    shares = _shares(problem)
    communication = np.zeros((2, k))
    for tensor in problem.tensors:
        home = int(device[tensor.producer])
        away = sorted(set(device[list(tensor.consumers)].tolist()) - {home})
        times = [_transfer_ms(problem, shares, tensor.size_bytes, home, target) for target in away]
        if times:
            row = communication[int(phase[tensor.producer])]
            row[home] += max(times)
            row[away] += times
    communication[:, [entry.host for entry in problem.devices]] = 0.0
    return Loads(compute, communication, resident_bytes(problem, device))


def objective_of(settings: Throughput, loads: Loads) -> float:
    """The throughput objective, ms."""
    together = np.add if settings.communication == "added" else np.maximum
    if settings.schedule == "gpipe":
        return float(together(loads.compute, loads.communication).max(axis=1).sum())
    return float(together(loads.compute.sum(axis=0), loads.communication.sum(axis=0)).max())


def work_bound(problem: PlacementProblem, settings: Throughput) -> float:
    """Compute that cannot be avoided: the mean over devices, and the largest co-located group, on the best classes.

    Forward and backward apart under GPipe, where the objective is the sum of their maxima.
    """
    k = len(problem.devices)
    usable = sorted({entry.class_index for entry in problem.devices})
    table = np.array([operator.times_ms for operator in problem.operators])[:, usable]
    phase = np.array([operator.backward for operator in problem.operators], dtype=bool)
    parts = [~phase, phase] if settings.schedule == "gpipe" else [np.ones(len(phase), dtype=bool)]
    total = 0.0
    for part in parts:
        mean = float(table[part].min(axis=1).sum()) / k if part.any() else 0.0
        groups = [
            float(table[[i for i in members if part[i]]].sum(axis=0).min(initial=np.inf))
            for members in problem.colocated()
            if any(part[i] for i in members)
        ]
        total += max([mean, *groups])
    return total
