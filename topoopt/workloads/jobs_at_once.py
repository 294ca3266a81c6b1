"""Random draws of jobs at once: which jobs there are, and on which servers they run. The same for all fabrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Draws
from topoopt.core.shared_cluster import JobClass, JobPlacement, JobsAtOnce, RankOrder


@dataclass(frozen=True)
class Draw:
    """Jobs at once.

    Attributes:
        classes: of each job.
        servers: of each job, in rank order.
        sample: of each job, which of the given times it takes, as a fraction of their list.
        routes_seed: of the routes on fabrics with a choice.
    """

    classes: tuple[int, ...]
    servers: tuple[tuple[int, ...], ...]
    sample: tuple[float, ...]
    routes_seed: int


def server_order(jobs: JobsAtOnce, servers: int, draws: Draws) -> list[int]:
    """All servers in the order in which jobs take them."""
    if jobs.placement is JobPlacement.RANDOM:
        return [int(server) for server in draws.permutation(servers)]
    rack = jobs.rack_servers
    racks = [range(first, min(first + rack, servers)) for first in range(0, servers, rack)]
    return [server for place in draws.permutation(len(racks)) for server in racks[int(place)]]


def place_jobs(jobs: JobsAtOnce, sizes: Sequence[int], servers: int, draws: Draws) -> tuple[tuple[int, ...], ...]:
    """Servers of jobs of the given sizes, all different."""
    order = server_order(jobs, servers, draws)
    placed, first = [], 0
    for size in sizes:
        own = order[first : first + size]
        placed.append(tuple(sorted(own) if jobs.rank_order is RankOrder.SORTED else own))
        first += size
    return tuple(placed)


def draw_jobs(
    jobs: JobsAtOnce, classes: Sequence[JobClass], servers: int, load: int, repetition: int, seed: int
) -> Draw:
    """`load` jobs, each of a class drawn by its weight (another load or repetition does not change them)."""
    draws = Draws(seed, load, repetition)
    weights = np.array([weight for _, weight in jobs.mix])
    chosen = draws.weighted(weights, load)
    index = tuple(jobs.mix[int(place)][0] for place in chosen)
    sample = tuple(float(value) for value in draws.uniform(load))
    routes_seed = int(draws.below(2**31, 1)[0])
    placed = place_jobs(jobs, [classes[c].servers for c in index], servers, draws)
    return Draw(index, placed, sample, routes_seed)


def sampled(job_class: JobClass, sample: float) -> float | None:
    """One of the given times of a class, ms; None of a class without."""
    times = job_class.iteration_ms
    return times[min(int(sample * len(times)), len(times) - 1)] if times else None
