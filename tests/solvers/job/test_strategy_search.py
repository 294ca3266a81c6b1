"""Strategy search: moves stay legal, bounds hold, the search finds known optima and repeats itself."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.job.annealing import AnnealSettings, anneal, graph_shape, memory_capacity, overflow_bytes
from solvers.job.realise import realise
from solvers.job.starts import branches, data_parallel, starting_strategies
from solvers.network.routes import circulant_topology
from solvers.stop import Stop
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.proofs import StopReason
from topoopt.core.workload import Operator, OperatorInput, Placement, Split, Strategy, Workload, strided_groups
from topoopt.native import jobs
from topoopt.simulate.network import build_task_graph, network_arrays, strategy_arrays, workload_arrays
from topoopt.simulate.time_models.evaluate import simulate


def splits(n, work_ms, memory=0):
    """Sample splits over every divisor of n, with perfect speed-up."""
    return tuple(Split(p, work_ms / p, 2 * work_ms / p, memory) for p in range(1, n + 1) if n % p == 0)


def job(n, chains=((1.0, 2.0), (3.0,)), pinned=None, memory=0):
    """Parallel chains of operators joined by a last one; n samples of 1000 elements, weights of 1 MB."""
    operators: list[Operator] = []
    heads = []
    for chain in chains:
        last = None
        for work in chain:
            inputs = () if last is None else (OperatorInput(last),)
            name = f"op{len(operators)}"
            operators.append(
                Operator(name, "dense", 1000, 4, (250_000,), inputs, splits(n, work, memory), pinned_offset=pinned)
            )
            last = len(operators) - 1
        heads.append(last)
    operators.append(
        Operator("join", "concat", 1, 4, (), tuple(OperatorInput(h) for h in heads), splits(n, 0.5, memory))
    )
    return Workload("job", 12 * n, tuple(operators))


def setting(n, workload, distances, degree=4, memory=None):
    cluster = Cluster(n, 1, degree, 25.0, gpu_memory_bytes=memory)
    topology = circulant_topology(n, degree, LinkDirection.BIDIRECTIONAL, distances)
    network = realise(cluster, topology, strided_groups(n)).network
    return cluster, network


@settings(max_examples=60)
@given(n=st.sampled_from([2, 3, 4, 6, 12]), seed=st.integers(0, 2**32), steps=st.integers(1, 60))
def test_moves_keep_strategies_legal(n, seed, steps):
    """After any number of moves split indices and offsets are in range, and a pinned operator has not moved."""
    workload = job(n)
    first = workload.operators[0]
    pinned = Operator(**{**vars(first), "splits": first.splits[:2], "pinned_offset": 0})
    workload = Workload(workload.name, workload.samples, (pinned, *workload.operators[1:]))
    arrays, shape = workload_arrays(Cluster(n, 1, 2, 25.0), workload), graph_shape(workload)
    split, offset = strategy_arrays(data_parallel(n, workload))
    rng = np.array([seed], dtype=np.uint64)
    for _ in range(steps):
        before = (split.copy(), offset.copy())
        changed = jobs.propose(arrays, shape, split, offset, rng)
        if not changed:
            assert np.array_equal(before[0], split)
            assert np.array_equal(before[1], offset)
        for index, operator in enumerate(workload.operators):
            assert 0 <= split[index] < len(operator.splits)
            assert 0 <= offset[index] < n // operator.splits[split[index]].parts
        assert offset[0] == 0


@settings(max_examples=40)
@given(n=st.sampled_from([2, 4, 6]), seed=st.integers(0, 2**32))
def test_quick_bounds_are_below_the_simulated_time(n, seed):
    """The bound used for pruning never exceeds the iteration time of either event model."""
    workload = job(n)
    cluster, network = setting(n, workload, (1,), degree=2)
    arrays, shape = workload_arrays(cluster, workload), graph_shape(workload)
    split, offset = strategy_arrays(data_parallel(n, workload))
    rng = np.array([seed], dtype=np.uint64)
    for _ in range(20):
        jobs.propose(arrays, shape, split, offset, rng)
    strategy = Strategy(tuple(Placement(int(s), int(o)) for s, o in zip(split, offset, strict=True)))
    graph = build_task_graph(cluster, workload, strategy)
    bound, overflow = jobs.quick_bounds(arrays, split, offset, np.inf)
    assert overflow == 0
    for model in ("rounds", "hop"):
        assert bound <= simulate(graph, network, model).iteration_time_ms * (1 + 1e-12)


def test_annealing_finds_the_optimum_of_a_small_job():
    """On 4 servers the annealed strategy is as good as the best of all strategies, enumerated."""
    n = 4
    workload = job(n, chains=((1.0,), (2.0,)))
    cluster, network = setting(n, workload, (1,), degree=2)
    arrays = workload_arrays(cluster, workload)
    options = [
        [Placement(index, offset) for index, split in enumerate(operator.splits) for offset in range(n // split.parts)]
        for operator in workload.operators
    ]
    best = min(
        simulate(build_task_graph(cluster, workload, Strategy(choice)), network).iteration_time_ms
        for choice in itertools.product(*options)
    )
    found = anneal(
        arrays,
        network_arrays(network),
        graph_shape(workload),
        data_parallel(n, workload),
        AnnealSettings(3000, start_temperature=0.1),
        capacity=memory_capacity(cluster),
        seed=1,
        stop=Stop(),
    )
    assert found.iteration_time_ms == pytest.approx(best, rel=1e-12)


def test_the_reported_time_is_the_simulated_time_of_the_returned_strategy():
    """What annealing says of its strategy is what simulating it says, and the same seed gives the same strategy."""
    n = 6
    workload = job(n)
    cluster, network = setting(n, workload, (1, 2))
    arrays = workload_arrays(cluster, workload)

    def run(seed):
        return anneal(
            arrays,
            network_arrays(network),
            graph_shape(workload),
            data_parallel(n, workload),
            AnnealSettings(400),
            capacity=np.inf,
            seed=seed,
            stop=Stop(),
        )

    first, again = run(5), run(5)
    assert first == again
    graph = build_task_graph(cluster, workload, first.strategy)
    assert simulate(graph, network).iteration_time_ms == first.iteration_time_ms


def test_a_stop_is_obeyed_before_the_first_batch():
    """An interrupt that is already there: no proposal is made, the start comes back."""
    n = 4
    workload = job(n)
    cluster, network = setting(n, workload, (1,), degree=2)
    stop = Stop()
    stop.interrupted.set()
    start = data_parallel(n, workload)
    result = anneal(
        workload_arrays(cluster, workload),
        network_arrays(network),
        graph_shape(workload),
        start,
        AnnealSettings(1000),
        capacity=np.inf,
        seed=0,
        stop=stop,
    )
    assert (result.strategy, result.proposals, result.stopped_by) == (start, 0, StopReason.INTERRUPTED)


def test_memory_overflow_is_relieved_first():
    """Data parallelism needs 3 units on each of 4 servers of 2; annealing finds a strategy that fits."""
    n = 4
    workload = job(n, chains=((1.0,), (1.0,)), memory=100)
    cluster, network = setting(n, workload, (1,), degree=2, memory=200)
    arrays = workload_arrays(cluster, workload)
    start = data_parallel(n, workload)
    assert overflow_bytes(arrays, start, memory_capacity(cluster)) == 400
    result = anneal(
        arrays,
        network_arrays(network),
        graph_shape(workload),
        start,
        AnnealSettings(2000),
        capacity=memory_capacity(cluster),
        seed=3,
        stop=Stop(),
    )
    assert overflow_bytes(arrays, result.strategy, memory_capacity(cluster)) == 0


def test_branches_are_the_parts_that_can_run_side_by_side():
    """Two chains beside each other are two branches; the operator that joins them is in none."""
    workload = job(4, chains=((1.0, 2.0), (3.0,)))
    assert branches(workload) == [[0, 1], [2]]


@pytest.mark.parametrize("n", [2, 3, 4, 7, 12])
def test_starting_strategies_are_distinct_and_legal(n):
    """Every start places every operator in range; data parallelism comes first."""
    workload = job(n)
    starts = starting_strategies(Cluster(n, 1, 2, 25.0, gpu_memory_bytes=10**9), workload)
    assert starts[0].name == "data parallel"
    assert len({start.strategy for start in starts}) == len(starts)
    for start in starts:
        for operator, placement in zip(workload.operators, start.strategy.placements, strict=True):
            assert 0 <= placement.offset < n // operator.splits[placement.split].parts


def test_tables_are_spread_over_the_servers():
    """Single-server operators of equal work go one to a server, in order (FlexNet's start)."""
    table = [Operator(f"t{i}", "embedding", 8, 4, (), (), (Split(1, 1.0, 2.0, 0),)) for i in range(4)]
    start = data_parallel(4, Workload("tables", 4, tuple(table)))
    assert [placement.offset for placement in start.placements] == [0, 1, 2, 3]
