"""Small valid arguments for each function of `topoopt.native.placement`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from solvers.placement.makespan_search import group_graph
from tests.support.dag_jobs import drawn
from tests.support.placed_graphs import problem
from topoopt.core.arrays import Floats, Ints
from topoopt.native import placement
from topoopt.simulate.dag import StepGraph
from topoopt.simulate.placement import PlacementArrays, placement_arrays, uniform_rates

Arguments = tuple[Any, ...]


def random_arrays(rng: np.random.Generator, sharing: str | None = None, groups: bool = True) -> PlacementArrays:
    """A random graph of up to nine operators, some of no time, on two to five devices."""
    n = int(rng.integers(2, 10))
    times = [float(rng.choice([0.0, rng.uniform(0.5, 4.0)], p=[0.2, 0.8])) for _ in range(n)]
    tensors = []
    for i in range(n - 1):
        users = sorted(set(rng.integers(i + 1, n, size=int(rng.integers(0, 4))).tolist()))
        if users:
            tensors.append((i, users, float(rng.choice([0.0, rng.uniform(0.1, 3.0)], p=[0.1, 0.9]))))
    servers = ([1, 1], [2], [2, 1], [1, 1, 1], [2, 1, 2])[int(rng.integers(5))]
    labels = [None if not groups or rng.random() < 0.7 else str(rng.integers(3)) for _ in range(n)]
    instance = problem(
        times,
        tensors,
        servers,
        sharing=sharing or str(rng.choice(["fair", "fifo", "static", "none"])),
        alpha=float(rng.choice([0.0, rng.uniform(0.1, 0.5)])),
        memory=rng.integers(0, 5, size=n).tolist(),
        room=4 * n,
        labels=labels,
    )
    return placement_arrays(instance)


def _placed(rng: np.random.Generator) -> tuple[PlacementArrays, Ints, Floats]:
    a = random_arrays(rng)
    place = rng.integers(len(a.room), size=len(a.group_ptr) - 1)
    return a, place[a.group].astype(np.int64), uniform_rates(a)


def _prioritised(rng: np.random.Generator) -> Arguments:
    a, device, rates = _placed(rng)
    return a, device, rates, rng.random(len(device))


def _ordered(rng: np.random.Generator) -> Arguments:
    a, device, rates = _placed(rng)
    return a, device, rates, a.topo.astype(np.int64)


def _allocated(rng: np.random.Generator) -> Arguments:
    a, device, rates = _placed(rng)
    return a, device, rates, bool(rng.integers(2)), float(rng.choice([np.inf, 10.0]))


def _volumes(rng: np.random.Generator) -> Arguments:
    a, device, _ = _placed(rng)
    return a, device, float(rng.choice([0.5, 1.0]))


def _annealing(rng: np.random.Generator) -> Arguments:
    a, device, rates = _placed(rng)
    start = device[a.group_member[a.group_ptr[:-1]]]
    return a, group_graph(a), start, rates, bool(rng.integers(2)), int(rng.integers(2**63))


def _orders(rng: np.random.Generator) -> Arguments:
    a, g, start, rates, _, seed = _annealing(rng)
    return a, g, start, rates, a.topo.astype(np.int64), seed


def _priorities(rng: np.random.Generator) -> Arguments:
    return *_prioritised(rng), int(rng.integers(2**63))


def _circuits(rng: np.random.Generator) -> Arguments:
    job = drawn(rng)
    graph = StepGraph.of(job)
    return (
        graph.first,
        graph.successor,
        graph.order,
        graph.duration,
        graph.volume,
        graph.channel,
        np.array(job.pairs, dtype=np.int64),
        np.array(job.ports, dtype=np.int64),
        job.rate,
    )


def _propagated(rng: np.random.Generator) -> Arguments:
    arguments = _circuits(rng)
    pairs = len(arguments[6])
    most = rng.integers(1, 6, size=pairs)
    return placement.CircuitBounds(*arguments), np.ones(pairs, dtype=np.int64), most, float(rng.uniform(1.0, 40.0))


def _steps(rng: np.random.Generator) -> Arguments:
    graph = StepGraph.of(drawn(rng))
    return graph.first, graph.successor, graph.order


def _lengths(rng: np.random.Generator) -> Arguments:
    arguments = _steps(rng)
    return placement.Steps(*arguments), rng.random(len(arguments[2]))


def _of(made: Callable[..., Any], arguments: Callable[..., Arguments], *more: Any) -> Callable[..., Arguments]:
    return lambda rng: (made(*arguments(rng)), *more)


CALLS: dict[str, Callable[[np.random.Generator], Arguments]] = {
    "tails": _placed,
    "simulate": _prioritised,
    "simulate_in_order": _ordered,
    "makespan": _allocated,
    "rates_by_volume": _volumes,
    "PlacementAnnealing": _annealing,
    "PlacementAnnealing.run": _of(placement.PlacementAnnealing, _annealing, 20, 0.02, 0.001),
    "PlacementAnnealing.restart": _of(placement.PlacementAnnealing, _annealing),
    "PlacementAnnealing.value": _of(placement.PlacementAnnealing, _annealing),
    "PlacementAnnealing.placement": _of(placement.PlacementAnnealing, _annealing),
    "OrderAnnealing": _orders,
    "OrderAnnealing.run": _of(placement.OrderAnnealing, _orders, 20, 0.02, 0.001),
    "OrderAnnealing.value": _of(placement.OrderAnnealing, _orders),
    "OrderAnnealing.placement": _of(placement.OrderAnnealing, _orders),
    "OrderAnnealing.order": _of(placement.OrderAnnealing, _orders),
    "PriorityAnnealing": _priorities,
    "PriorityAnnealing.run": _of(placement.PriorityAnnealing, _priorities, 20),
    "PriorityAnnealing.value": _of(placement.PriorityAnnealing, _priorities),
    "PriorityAnnealing.priority": _of(placement.PriorityAnnealing, _priorities),
    "CircuitBounds": _circuits,
    "CircuitBounds.propagated": _propagated,
    "Steps": _steps,
    "Steps.longest_path": _lengths,
}
