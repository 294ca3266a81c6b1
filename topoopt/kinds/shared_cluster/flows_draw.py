"""Random draws: which jobs there are, and on which servers they run. The same for all fabrics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.shared_load import JobPlacement, RankOrder, SharedLoadProblem


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


def server_order(problem: SharedLoadProblem, draw: np.random.Generator) -> list[int]:
    """All servers in the order in which jobs take them."""
    n, rack = problem.cluster.servers, problem.rack_servers
    if problem.placement is JobPlacement.RANDOM:
        return [int(server) for server in draw.permutation(n)]
    racks = [range(first, min(first + rack, n)) for first in range(0, n, rack)]
    return [server for place in draw.permutation(len(racks)) for server in racks[int(place)]]


def place_jobs(
    problem: SharedLoadProblem, classes: tuple[int, ...], draw: np.random.Generator
) -> tuple[tuple[int, ...], ...]:
    """Servers of jobs of the given classes, all different."""
    order = server_order(problem, draw)
    placed, first = [], 0
    for index in classes:
        last = first + problem.classes[index].servers
        own = order[first:last]
        placed.append(tuple(sorted(own) if problem.rank_order is RankOrder.SORTED else own))
        first = last
    return tuple(placed)


def draw_jobs(problem: SharedLoadProblem, load: int, repetition: int, seed: int) -> Draw:
    """`load` jobs, each of a class drawn by its share (another load or repetition does not change them)."""
    draw = np.random.default_rng([seed, load, repetition])
    shares = np.array([one.share for one in problem.classes])
    classes = tuple(int(index) for index in draw.choice(len(shares), size=load, p=shares / shares.sum()))
    sample = tuple(float(value) for value in draw.random(load))
    routes_seed = int(draw.integers(2**31))
    return Draw(classes, place_jobs(problem, classes, draw), sample, routes_seed)
