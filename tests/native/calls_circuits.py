"""Small valid arguments of the functions of the unit `circuits`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.support.plain_cases import random_case
from topoopt.simulate.circuits import Work, make_work, pair_chunks

Arguments = tuple[Any, ...]


def random_work(draw: np.random.Generator, both_ways: bool, stages: int = 1) -> tuple[Work, np.ndarray]:
    """Work of a random graph, its traffic in stages at random, and the pair of each queue."""
    graph, _ = random_case(int(draw.integers(1 << 30)), with_ties=bool(draw.integers(2)))
    chunks, pairs = pair_chunks(graph, mirrored=both_ways)
    work = make_work(
        graph,
        chunks,
        hop_latency_ms=float(draw.choice([0.0, 0.01])),
        round_latency_ms=0.002,
        stage=draw.integers(stages, size=graph.tasks).astype(np.int32),
        stage_delay=draw.choice([0.0, 0.3], size=stages),
    )
    return work, pairs


def random_routes(draw: np.random.Generator, queues: int) -> Arguments:
    """Rates of a few links, and the links of each queue."""
    hops = draw.integers(1, 4, size=queues)
    high = np.cumsum(hops).astype(np.int64)
    store = draw.integers(5, size=int(hops.sum())).astype(np.int32)
    return draw.uniform(1e6, 4e6, 5), high - hops, high, store


def follow_demand(draw: np.random.Generator) -> Arguments:
    """Circuits of one kind or the other."""
    directed = bool(draw.integers(2))
    work, pairs = random_work(draw, not directed)
    hop_us, delay_ms, periods = (float(draw.choice(few)) for few in ([0.0, 1.0], [0.0, 0.02, 1.0], [0.0, 4.0]))
    degree, iterations, seed = (int(draw.integers(*limits)) for limits in ((2, 5), (0, 3), (0, 99)))
    policy = directed, not directed, not directed
    return work, pairs, degree, 5e6, hop_us, *policy, delay_ms, periods, 0.05, iterations, seed


def run_stages(draw: np.random.Generator) -> Arguments:
    """A schedule of up to three stages, which may wait for each other."""
    work, pairs = random_work(draw, False, int(draw.integers(1, 4)))
    return work, *random_routes(draw, len(pairs)), float(draw.choice([0.0, 0.01]))


def scheduled_circuits(draw: np.random.Generator) -> Arguments:
    """Directed circuits, or fibre pairs, which may join all servers."""
    n, directed = int(draw.integers(1, 9)), bool(draw.integers(2))
    demand = draw.random((n, n)) * (draw.random((n, n)) < draw.choice([0.0, 0.3, 1.0]))
    return demand, int(draw.integers(2, 6)), directed, not directed and bool(draw.integers(2)), int(draw.integers(99))


def random_circuits(draw: np.random.Generator) -> Arguments:
    """Up to eight servers."""
    return int(draw.integers(1, 9)), int(draw.integers(1, 12)), int(draw.integers(99))


CALLS: dict[str, Callable[[np.random.Generator], Arguments]] = {
    "follow_demand": follow_demand,
    "run_stages": run_stages,
    "scheduled_circuits": scheduled_circuits,
    "random_circuits": random_circuits,
}
