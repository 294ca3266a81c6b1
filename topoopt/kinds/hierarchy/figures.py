"""What a solution tells people beside its bandwidths: times of jobs and collectives, gains, the equal split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.hierarchy.hierarchical_certificate import Multipliers
from formulations.hierarchy.hierarchical_program import BandwidthProgram
from topoopt.core.arrays import Floats
from topoopt.core.hierarchy import Design
from topoopt.core.hierarchy_solution import CollectiveTime, JobTime
from topoopt.core.verdict import Tolerance


@dataclass(frozen=True)
class Figures:
    """See `HierarchicalSolution`."""

    time_ns: float
    cost_usd: float | None
    equal_cost_usd: float | None
    jobs: tuple[JobTime, ...]
    collectives: tuple[CollectiveTime, ...]
    gain_ns: tuple[float, ...]


def marginal_ns(program: BandwidthProgram, found: Multipliers, bandwidth: Floats) -> tuple[float, ...]:
    """Per dimension W / B^2: ns per GB/s, W the bytes that the multipliers hold against it for one unit of time."""
    bytes_held = np.zeros(len(bandwidth))
    at, units = 0, []
    for timeline, weights, weight in zip(program.timelines, found.path_weights, program.weights, strict=True):
        shares = found.shares[at : at + len(timeline.groups), program.shift :]
        bytes_held += (shares * timeline.volumes).sum(axis=0)
        units.append(float(weights.sum()) / float(weight))
        at += len(timeline.groups)
    unit = sum(units) if program.worst_case else max(units)
    if unit <= 0:
        return (0.0,) * len(bandwidth)
    held = np.divide(bytes_held / unit, bandwidth**2, out=np.zeros_like(bandwidth), where=bandwidth > 0)
    return tuple(held.tolist())


def equal_split(design: Design, bandwidth: Floats) -> Floats:
    """float64[D]: the total of the network, or else the sum of the bandwidths found, in equal parts."""
    total = design.network.total_gbytes_per_s
    return np.full(len(bandwidth), (float(bandwidth.sum()) if total is None else total) / len(bandwidth))


def figures_of(design: Design, plain: BandwidthProgram, bandwidth: Floats) -> Figures:
    """Everything that follows from float64[D] bandwidths; `plain`: the design's program without tau."""
    equal = equal_split(design, bandwidth)
    time = plain.time_of(bandwidth)
    priced = design.network.priced
    more = [plain.time_of(bandwidth + row) for row in np.eye(len(bandwidth))]
    endless = np.full(len(bandwidth), np.inf)
    jobs = tuple(
        JobTime(
            workload.name,
            workload.weight,
            timeline.time_ns(bandwidth),
            timeline.time_ns(endless),
            timeline.time_ns(equal),
        )
        for workload, timeline in zip(design.workloads, plain.timelines, strict=True)
    )
    return Figures(
        time_ns=time,
        cost_usd=plain.cost_of(bandwidth) if priced else None,
        equal_cost_usd=plain.cost_of(equal) if priced else None,
        jobs=jobs,
        collectives=tuple(_collectives(design, plain, bandwidth)),
        gain_ns=tuple(gain if (gain := time - faster) > Tolerance.ROUNDING.of(time) else 0.0 for faster in more),
    )


def _collectives(design: Design, plain: BandwidthProgram, bandwidth: Floats) -> list[CollectiveTime]:
    found = []
    for workload, timeline in zip(design.workloads, plain.timelines, strict=True):
        sizes = timeline.all_sizes
        for (communicator, kind), volumes, size in zip(timeline.groups, timeline.volumes, sizes, strict=True):
            moved = size * volumes
            times = np.divide(moved, bandwidth, out=np.zeros_like(moved), where=moved > 0)
            label = workload.communicators[communicator].name
            found.append(CollectiveTime(workload.name, label, kind, float(size), tuple(times.tolist())))
    return found
