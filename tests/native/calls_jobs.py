"""Valid arguments of the unit `jobs`, for calls that damage them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from solvers.job.annealing import GraphShape, graph_shape
from solvers.job.realise import realise, with_schedules
from solvers.network.routes import circulant_topology
from tests.support.schedule_cases import one_tree
from topoopt.core.arrays import Ints
from topoopt.core.cluster import Cluster, LinkDirection, LinkSharing
from topoopt.core.workload import Operator, OperatorInput, Split, Workload, strided_groups
from topoopt.native import jobs
from topoopt.simulate.network import GraphArrays, NetworkArrays, WorkloadArrays, network_arrays, workload_arrays

N = 4


class Case(NamedTuple):
    """A small job on a network."""

    workload: WorkloadArrays
    network: NetworkArrays
    shape: GraphShape


def banks(n: int, experts: int, elements: int) -> Workload:
    """Two banks of experts with a gate before each and a head that is pinned behind them."""
    ways = tuple(Split(k, 2.0 / k, 3.0 / k, 10, channel_ways=c) for k in (1, 2, n) for c in {1, n // k})[1:]
    operators: list[Operator] = []
    behind: tuple[OperatorInput, ...] = ()
    for layer in range(2):
        operators.append(Operator(f"g{layer}", "dense", elements, 4, (90_000,), behind, ways))
        gate = len(operators) - 1
        operators += [
            Operator(f"e{layer}.{e}", "dense", elements, 4, (9_000, 9), (OperatorInput(gate, 0.5),), ways)
            for e in range(experts)
        ]
        behind = tuple(OperatorInput(gate + 1 + e) for e in range(experts))
    head = (Split(1, 1.0, 1.0, 1),)
    operators.append(Operator("head", "dense", 8, 4, (), behind, head, pinned_offset=1, mixes_channels=True))
    return Workload("banks", 12 * n, tuple(operators))


@cache
def case_of(sharing: LinkSharing, scheduled: bool) -> Case:
    """One of the jobs; a schedule beside rings, if wanted."""
    workload, cluster = banks(N, 3, 40_000), Cluster(N, 1, 2, 25.0, link_sharing=sharing)
    topology = circulant_topology(N, 2, LinkDirection.BIDIRECTIONAL, (1,))
    made = realise(cluster, topology, strided_groups(N))
    if scheduled:
        made = with_schedules(cluster, made, (one_tree(topology, (0, 2), 0, pieces=2),))
    return Case(workload_arrays(cluster, workload), network_arrays(made.network), graph_shape(workload))


def drawn(rng: np.random.Generator) -> tuple[Case, Ints, Ints]:
    """A job and a strategy of it."""
    case = case_of(tuple(LinkSharing)[rng.integers(3)], bool(rng.random() < 0.5))
    w = case.workload
    split = rng.integers(0, np.diff(w.split_ptr))
    s = w.split_ptr[:-1] + split
    stride = w.servers // (w.sample_ways[s] * w.channel_ways[s] * w.reduce_ways[s])
    return case, split, np.where(w.pinned >= 0, w.pinned, rng.integers(0, stride))


def strategy(rng: np.random.Generator) -> tuple[Any, ...]:
    """Workload, split, offset."""
    case, split, offset = drawn(rng)
    return case.workload, split, offset


def graph(rng: np.random.Generator) -> tuple[GraphArrays, NetworkArrays]:
    """The graph of a strategy on its network."""
    case, split, offset = drawn(rng)
    return GraphArrays(*jobs.lower(case.workload, split, offset)), case.network


def simulation(rng: np.random.Generator) -> tuple[Any, ...]:
    """One job, or its tasks beside themselves as another one that begins again."""
    arrays, network = graph(rng)
    tasks, rounds, record = len(arrays.kind), bool(rng.random() < 0.5), bool(rng.random() < 0.5)
    limit = float(rng.choice([np.inf, 20.0]))
    if rng.random() < 0.5:
        return arrays, network, rounds, limit, None, record, None, False
    twice = GraphArrays(
        *(np.concatenate((column, column)) for column in arrays[:-2]),
        np.concatenate((arrays.successor_ptr, arrays.successor_ptr[1:] + arrays.successor_ptr[-1])),
        np.concatenate((arrays.successor, arrays.successor + np.int32(tasks))),
    )
    return twice, network, rounds, limit, np.full(2 * tasks, limit), record, np.array([0, tasks, 2 * tasks]), True


def annealing(rng: np.random.Generator) -> tuple[Any, ...]:
    """A run from a strategy."""
    case, split, offset = drawn(rng)
    start_ms = float(rng.choice([np.nan, 30.0]))
    rounds = bool(rng.random() < 0.5)
    capacity = float(rng.choice([40.0, np.inf]))
    threads = int(rng.integers(1, 4))
    return case.workload, case.network, case.shape, split, offset, capacity, 5, rounds, 10_000, start_ms, threads


def move(rng: np.random.Generator) -> tuple[Any, ...]:
    """A strategy with the state of a generator."""
    case, split, offset = drawn(rng)
    return case.workload, case.shape, split, offset, rng.integers(0, 2**63, 1).astype(np.uint64)


def layer_move(rng: np.random.Generator) -> tuple[Any, ...]:
    """The same of layers."""
    workload, shape, *rest = move(rng)
    return workload, shape.layers, *rest


def distances(rng: np.random.Generator) -> tuple[Any, ...]:
    """Of up to nine members."""
    k = int(rng.integers(1, 10))
    return (rng.integers(0, 9, (k, k)).astype(np.float64),)


def shared(rng: np.random.Generator) -> tuple[Any, ...]:
    """Jobs that load links."""
    count, links, loads = int(rng.integers(1, 6)), int(rng.integers(1, 5)), 9
    low = rng.integers(0, loads, count)
    high = rng.integers(low, loads + 1)
    active = rng.permutation(count)[: rng.integers(0, count + 1)]
    link, part = rng.integers(0, links, loads), rng.random(loads)
    return active, low, high, link, part, rng.uniform(0.1, 2.0, links), rng.choice([0.5, 1.0, 2.0], count)


def passes(rng: np.random.Generator) -> tuple[Any, ...]:
    """Two ranks that do passes in turn, some of which exchange something."""
    ranks, each = 2, int(rng.integers(1, 4))
    n = ranks * each
    waits = np.where(np.arange(n) >= each, np.arange(n) - each, -1)
    gets = np.where(np.arange(n) < each, 1, -1)
    times = [rng.random(n) for _ in range(2)]
    ranked = [rng.uniform(-1.0, 1.0, ranks) for _ in range(3)]
    return (
        np.arange(ranks + 1) * each,
        np.stack((waits, gets)),
        times[0],
        rng.integers(0, 2, n),
        rng.random((2, n)),
        times[1],
        rng.random((ranks, ranks)),
        *ranked,
        rng.random((2, ranks)),
        rng.integers(0, 2, ranks),
        bool(rng.random() < 0.5),
        bool(rng.random() < 0.5),
    )


CALLS: dict[str, Callable[[np.random.Generator], tuple[Any, ...]]] = {
    "lower": strategy,
    "task_count": strategy,
    "quick_bounds": lambda rng: (*strategy(rng), 40.0),
    "simulate": simulation,
    "load_bound": lambda rng: (*graph(rng), float(rng.uniform(1.0, 60.0))),
    "propose": move,
    "move_layer": layer_move,
    "Annealing": annealing,
    "Annealing.run": lambda rng: (jobs.Annealing(*annealing(rng)), 20, 0.02, 0.99),
    "exact_ring": distances,
    "move_segments": lambda rng: (own := distances(rng)[0], rng.permutation(len(own))),
    "fair_rates": shared,
    "follow_passes": passes,
}
