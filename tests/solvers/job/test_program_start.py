"""The start from the strategy program: its cost model by hand, brute force over splits, placement, size rule."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.job_plans import longest_path
from solvers.job import strategy_program as module
from solvers.job.starts import starting_strategies
from solvers.job.strategy_program import bulk_synchronous, choose_splits, mean_hops, place_blocks, program_start
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.workload import Operator, OperatorInput, Split, Workload


def layer(name, ways, ms, inputs=(), width=1000, weights=(), **changes):
    """A dense layer cut along the samples, 1/P of the time in P parts."""
    splits = tuple(Split(p, ms / p, 2 * ms / p, 10) for p in ways)
    return Operator(name, "dense", width, 4, weights, tuple(OperatorInput(p) for p in inputs), splits, **changes)


def test_hand_computed_two_operators() -> None:
    """Four servers, 16e6 bytes a ms in all: whole and in four parts, with the AllReduce and the transfer in between."""
    cluster = Cluster(4, 1, 2, 16.0, LinkDirection.UNIDIRECTIONAL)  # 4 * 2 * 2e6 bytes/ms
    first = layer("first", (1, 4), 4.0, weights=(1_000_000,))
    workload = Workload("two", 400, (first, layer("second", (1, 4), 8.0, (0,))))
    data = bulk_synchronous(cluster, workload)
    hops = 4 / 3  # two servers at one hop, one at two
    assert mean_hops(cluster) == pytest.approx(hops)
    moved = 2 * 3 / 4 * 400 * 4000 * hops / 16e6  # three of four quarters, there and back
    reduced = 2 * 3 * 4e6 / 16e6
    assert longest_path(data, (0, 0)) == pytest.approx(36.0)
    assert longest_path(data, (1, 1)) == pytest.approx(9.0 + reduced)
    assert longest_path(data, (0, 1)) == pytest.approx(12.0 + 6.0 + moved)
    assert longest_path(data, (1, 0)) == pytest.approx(3.0 + 24.0 + moved + reduced)
    assert choose_splits(data, 100) == (1, 1)


@st.composite
def workloads(draw) -> Workload:
    """Up to four layers of random times and weights, each reading some before it."""
    operators = []
    for index in range(draw(st.integers(1, 4))):
        inputs = draw(st.lists(st.integers(0, index - 1), max_size=2, unique=True)) if index else []
        ways = draw(st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=3, unique=True))
        weights = tuple(draw(st.lists(st.integers(1, 10**6), max_size=1)))
        ms, width = draw(st.floats(0.1, 5.0)), draw(st.integers(1, 3000))
        operators.append(layer(f"o{index}", ways, ms, inputs, width, weights))
    return Workload("random", 400, tuple(operators))


def plain_cost(cluster, workload, splits) -> float:
    """C + N of the module text, for splits along the samples, in plain Python."""
    n = cluster.servers
    chosen = [op.splits[s] for op, s in zip(workload.operators, splits, strict=True)]
    work = sum(split.parts * (split.forward_ms + split.backward_ms) for split in chosen) / n
    turn = [0.0] * len(chosen)
    for v in reversed(range(len(chosen))):
        above = [turn[w] for w, op in enumerate(workload.operators) if any(e.producer == v for e in op.inputs)]
        turn[v] = chosen[v].forward_ms + chosen[v].backward_ms + max(above, default=0.0)
    traffic = 0.0
    for v, operator in enumerate(workload.operators):
        traffic += sum(2 * (chosen[v].parts - 1) * 4 * elements for elements in operator.weight_elements)
        for edge in operator.inputs:
            p, q = chosen[edge.producer].parts, chosen[v].parts
            fine = max(p, q)
            remote = sum(1 for i in range(fine) if i * p // fine * (n // p) != i * q // fine * (n // q)) / fine
            traffic += 2 * remote * 400 * workload.operators[edge.producer].output_elements * 4 * mean_hops(cluster)
    return max(work, *turn) + traffic / (n * cluster.degree * cluster.link_gbps * 125_000)


@given(workloads())
@settings(max_examples=40)
def test_the_program_finds_the_cheapest_splits(workload: Workload) -> None:
    """All choices of splits, their cost in plain Python: the program's model is that cost, its choice the least."""
    cluster = Cluster(4, 1, 2, 16.0)
    data = bulk_synchronous(cluster, workload)
    every = list(itertools.product(*(range(len(op.splits)) for op in workload.operators)))
    costs = [plain_cost(cluster, workload, splits) for splits in every]
    np.testing.assert_allclose([longest_path(data, splits) for splits in every], costs, rtol=1e-9)
    chosen = choose_splits(data, 1000)
    assert chosen is not None
    assert longest_path(data, chosen) <= min(costs) * (1 + 2e-4)


def test_blocks_share_an_offset_and_are_spread() -> None:
    """Two chains on halves of four servers stand on different halves; pinned operators stay where they are."""
    chains = [
        layer("a0", (2,), 5.0),
        layer("a1", (2,), 5.0, (0,)),
        layer("b0", (2,), 4.0),
        layer("b1", (2,), 4.0, (2,)),
    ]
    join = layer("join", (4,), 1.0, (1, 3))
    pinned = layer("pinned", (1,), 0.5, pinned_offset=3)
    strategy = place_blocks(4, Workload("w", 8, (*chains, join, pinned)), (0,) * 6)
    assert [p.offset for p in strategy.placements] == [0, 0, 1, 1, 0, 3]


def test_it_is_one_of_the_starts_and_the_same_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Named among the starts where it is new; left out above the size rule, on one server, and when no split fits."""
    cluster = Cluster(4, 1, 2, 0.001)  # so slow that all on one server is best
    workload = Workload(
        "w", 400, (layer("a", (1, 4), 1.0, weights=(10**6,)), layer("b", (1, 4), 1.0, (0,), weights=(10**6,)))
    )
    starts = [start for start in starting_strategies(cluster, workload) if start.name == "strategy program"]
    assert len(starts) == 1
    assert {(p.split, p.offset) for p in starts[0].strategy.placements} == {(0, 0)}
    assert program_start(cluster, workload) == starts[0].strategy
    monkeypatch.setattr(module, "MOST_PAIR_SPLITS", 3)
    assert program_start(cluster, workload) is None
    monkeypatch.undo()
    assert program_start(Cluster(1, 1, 1, 1.0), Workload("w", 400, (layer("a", (1,), 1.0),))) is None
    tight = Cluster(4, 1, 2, 1.0, gpu_memory_bytes=1)
    assert program_start(tight, workload) is None
