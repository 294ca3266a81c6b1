"""Time and cost of a hierarchical network, collective by collective: the checker's own evaluation.

Nothing is grouped or merged here: every collective of every layer or task is timed by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from topoopt.core.hierarchy import (
    Collective,
    CollectiveCall,
    Design,
    Fleet,
    HierarchicalNetwork,
    HierarchicalWorkload,
    Layer,
    LayerPhase,
    Loop,
)
from topoopt.core.proofs import Tolerance

INFINITE = float("inf")

RELATIVE = Tolerance.ROUNDING.relative
"""Rounding forgiven in figures and constraints."""


def moved_bytes(kind: Collective, size: float, ranks: Sequence[int]) -> list[float]:
    """Bytes an NPU sends in each dimension for one collective."""
    moved = [0.0] * len(ranks)
    if kind is Collective.ALL_REDUCE:
        # A reduce-scatter on the way up and the all-gather of what is left on the way down.
        scattered = moved_bytes(Collective.REDUCE_SCATTER, size, ranks)
        shard = size
        for p in ranks:
            shard /= p
        gathered = moved_bytes(Collective.ALL_GATHER, shard, ranks)
        return [up + down for up, down in zip(scattered, gathered, strict=True)]
    held = size
    for i in range(len(ranks)) if kind is not Collective.ALL_GATHER else range(len(ranks) - 1, -1, -1):
        p = ranks[i]
        if p <= 1:
            continue
        if kind is Collective.REDUCE_SCATTER:
            held /= p
            moved[i] = held * (p - 1)
        elif kind is Collective.ALL_GATHER:
            moved[i] = held * (p - 1)
            held *= p
        elif kind is Collective.ALL_TO_ALL:
            moved[i] = size - size / p
        else:
            moved[i] = size
    return moved


def collective_times(item: CollectiveCall, workload: HierarchicalWorkload, bandwidth: Sequence[float]) -> list[float]:
    """ns in each dimension; infinite where bytes meet no bandwidth."""
    moved = moved_bytes(item.collective, item.size_bytes, workload.communicators[item.communicator].ranks)
    return [0.0 if b == 0 else (b / w if w > 0 else INFINITE) for b, w in zip(moved, bandwidth, strict=True)]


def communication_ns(phase: LayerPhase, workload: HierarchicalWorkload, bandwidth: Sequence[float]) -> float:
    """Time of the collectives of a phase."""
    return sum(max(collective_times(item, workload, bandwidth)) for item in phase.communications)


def _layer_ns(layer: Layer, workload: HierarchicalWorkload, bandwidth: Sequence[float]) -> float:
    forward, inputs, weights = (
        communication_ns(phase, workload, bandwidth)
        for phase in (layer.forward, layer.input_gradient, layer.weight_gradient)
    )
    backward = layer.weight_gradient.compute_ns + weights
    tail = max(inputs, backward) if workload.loop is Loop.DP_OVERLAP else inputs + backward
    return layer.repeat * (layer.forward.compute_ns + forward + layer.input_gradient.compute_ns + tail)


def job_time_ns(workload: HierarchicalWorkload, bandwidth: Sequence[float]) -> float:
    """One iteration of a job."""
    if workload.loop is not Loop.DAG:
        return sum(_layer_ns(layer, workload, bandwidth) for layer in workload.layers)
    ends: list[float] = []
    for task in workload.tasks:
        begin = max((ends[before] for before in task.after), default=0.0)
        ends.append(begin + task.phase.compute_ns + communication_ns(task.phase, workload, bandwidth))
    return max(ends)


def fleet_time_ns(design: Design, fleet: Fleet, bandwidth: Sequence[float]) -> float:
    """What the objective means by time."""
    times = [workload.weight * job_time_ns(workload, bandwidth) for workload in design.workloads]
    return max(times) if fleet is Fleet.WORST_CASE else sum(times)


def network_cost_usd(network: HierarchicalNetwork, bandwidth: Sequence[float]) -> float | None:
    """US dollars; None without prices."""
    total = network.fixed_cost_usd
    for dimension, rate in zip(network.dimensions, bandwidth, strict=True):
        if dimension.usd_per_gbytes_per_s is None:
            return None
        total += network.npus * rate * dimension.usd_per_gbytes_per_s
    return total


def broken_laws(network: HierarchicalNetwork, bandwidth: Sequence[float]) -> list[str]:
    """Bounds, speeds and linear constraints that bandwidths break."""
    broken = []
    for item, value in zip(network.dimensions, bandwidth, strict=True):
        slack = RELATIVE * max(1.0, abs(value))
        if not item.min_gbytes_per_s - slack <= value <= item.max_gbytes_per_s + slack or not math.isfinite(value):
            broken.append(f"{item.name} has {value!r} GB/s, not {item.min_gbytes_per_s!r} to {item.max_gbytes_per_s!r}")
        elif item.speeds_gbytes_per_s and value not in item.speeds_gbytes_per_s:
            broken.append(f"{item.name} has {value!r} GB/s, which is none of its speeds")
    for row in network.constraints:
        terms = [c * value for c, value in zip(row.coefficients, bandwidth, strict=True)]
        total, size = sum(terms), max(1.0, *map(abs, terms))
        if not row.at_least - RELATIVE * size <= total <= row.at_most + RELATIVE * size:
            broken.append(f"constraint {row.name}: {total!r} is not between {row.at_least!r} and {row.at_most!r}")
    return broken
