"""How long one evaluation of a strategy takes, and how many proposals a search simulates per second."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from solvers.job.annealing import AnnealSettings, StrategyAnnealResult, anneal, graph_shape, memory_capacity
from solvers.job.realise import realise
from solvers.job.starts import data_parallel
from solvers.network.routes import circulant_topology
from solvers.stop import Stop
from tests.benchmarks.figures import Figure, best_of
from tests.support.checked_times import checked_times
from topoopt.core.arrays import Ints
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.workload import Workload, strided_groups
from topoopt.files.job_document import read_profile
from topoopt.formats.flexnet.importer import workload_from_profile
from topoopt.native import jobs
from topoopt.simulate.network import (
    NetworkArrays,
    WorkloadArrays,
    build_task_graph,
    network_arrays,
    strategy_arrays,
    workload_arrays,
)

MEASURES = Path("../shared/data/flexnet/measures")
CASES = (
    ("dlrm", "dlrm16.json", 16, (1, 5), 0.3, 1.6),
    ("candle", "candle16.json", 16, (1, 5), 1.0, 3.0),
    ("dlrm", "dlrm128.json", 128, (1, 13), 16.0, 36.0),
)
RATES = {("candle", 16): (4000, 2000.0), ("dlrm", 128): (200, 400.0)}
"""Proposals of one annealing run, and how many a second of processor time are asked for."""
THREADED_RATES = {("dlrm", 128): (200, 100.0)}
"""The same, a second of the clock."""


def _workload(model: str, file: str) -> Workload:
    return workload_from_profile(model, read_profile(MEASURES / file), element_sizes="flexnet")


def _score(workload: WorkloadArrays, network: NetworkArrays, split: Ints, offset: Ints, rounds: bool) -> float:
    return jobs.simulate(jobs.lower(workload, split, offset), network, rounds)[0]


def _rate(search: Callable[[], StrategyAnnealResult], clock: Callable[[], float]) -> float:
    """Proposals simulated, or refused by link loads, a second of the clock."""
    began = clock()
    result = search()
    return (result.simulated + result.overloaded) / (clock() - began)


def evaluation_figures() -> list[Figure]:
    """Full evaluations (lowering and simulation) from split and offset arrays, and the rate of the search."""
    if not MEASURES.exists():
        print(f"skipped: {MEASURES} is not here (measured profiles)")
        return []
    figures = []
    for model, file, n, distances, hop_goal, rounds_goal in CASES:
        workload = _workload(model, file)
        cluster = Cluster(n, 4, 4, 100.0, intra_server_gbps=200.0, local_allreduce="flexnet")
        topology = circulant_topology(n, 4, LinkDirection.BIDIRECTIONAL, distances)
        network = realise(cluster, topology, strided_groups(n)).network
        start = data_parallel(n, workload)
        arrays, net, (split, offset) = (
            workload_arrays(cluster, workload),
            network_arrays(network),
            strategy_arrays(start),
        )
        graph = build_task_graph(cluster, workload, start)
        for name, by_rounds, goal in (("hop", False, hop_goal), ("rounds", True, rounds_goal)):
            inner = 20 if n == 16 else 2
            ours = best_of(partial(_score, arrays, net, split, offset, by_rounds), inner=inner)
            plain = None
            if n == 16:
                began = time.perf_counter()
                checked_times(graph, network, name)
                plain = (time.perf_counter() - began) * 1e3
            figures.append(Figure(f"evaluate {model} on {n}, {name}", ours * 1e3, "ms", goal, plain))
        if (model, n) in RATES:
            proposals, goal = RATES[model, n]
            shape, capacity = graph_shape(workload), memory_capacity(cluster)
            search = partial(anneal, arrays, net, shape, start, capacity=capacity, stop=Stop())
            search(AnnealSettings(20), seed=1)
            name = f"{model} on {n}: proposals simulated, or refused by link loads"
            rate = _rate(partial(search, AnnealSettings(proposals, threads=1), seed=0), time.process_time)
            figures.append(Figure(name, rate, "1/s", goal, higher_is_better=True))
        if (model, n) in THREADED_RATES:
            proposals, goal = THREADED_RATES[model, n]
            by_rounds = AnnealSettings(proposals, scored_by_rounds=True, threads=2)
            rate = _rate(partial(search, by_rounds, seed=0), time.perf_counter)
            figures.append(Figure("the same by rounds, two threads", rate, "1/s", goal, higher_is_better=True))
    return figures
