"""Lowering a strategy to a task graph: sizes and dependencies against a count over single samples and channels."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topoopt.core.cluster import Cluster
from topoopt.core.workload import (
    Operator,
    OperatorInput,
    Placement,
    Split,
    Strategy,
    TaskKind,
    Workload,
    strided_groups,
)
from topoopt.simulate.network import build_task_graph, demand_of

SAMPLES, CHANNELS = 12, 6
DATA = Path("../shared/data/flexnet/taskgraphs")


@st.composite
def jobs(draw):
    """Servers, a small random workload with splits along all three cuts, and a strategy."""
    n = draw(st.sampled_from([2, 3, 4, 6, 12]))
    ways = [
        (s, c, r) for s in (1, 2, 3, 4, 6, 12) for c in (1, 2, 3) for r in (1, 2) if n % (s * c * r) == 0 and s * c * r
    ]
    operators, placements = [], []
    for index in range(draw(st.integers(1, 5))):
        s, c, r = draw(st.sampled_from(ways))
        mixes = draw(st.booleans())
        inputs = draw(st.sets(st.integers(0, index - 1), max_size=2)) if index else set()
        operators.append(
            Operator(
                name=f"op{index}",
                kind="dense",
                output_elements=CHANNELS,
                element_bytes=draw(st.sampled_from([2, 4, 8])),
                weight_elements=tuple(draw(st.lists(st.integers(1, 5000), max_size=2))),
                inputs=tuple(OperatorInput(i, draw(st.sampled_from([1.0, 0.5]))) for i in sorted(inputs)),
                splits=(Split(s, 1.0, 2.0, 0, c, r if mixes else 1),),
                mixes_channels=mixes,
                locally_reduced=draw(st.booleans()),
            )
        )
        parts = operators[-1].splits[0].parts
        placements.append(Placement(0, draw(st.integers(0, n // parts - 1))))
    return n, Workload("random", SAMPLES, tuple(operators)), Strategy(tuple(placements))


def reads(workload, consumer, part):
    """(samples, channels of a producer's output) that a part of a consumer reads, as sets."""
    split = workload.operators[consumer].splits[0]
    a, rest = divmod(part, split.channel_ways * split.reduce_ways)
    b, e = divmod(rest, split.reduce_ways)
    samples = {x for x in range(SAMPLES) if x * split.sample_ways // SAMPLES == a}
    if workload.operators[consumer].mixes_channels:
        ways, own = split.reduce_ways, e
    else:
        ways, own = split.channel_ways, b
    return samples, {x for x in range(CHANNELS) if own * CHANNELS // ways <= x < (own + 1) * CHANNELS // ways}


def writes(workload, producer, part):
    """(samples, channels) that a part of a producer writes."""
    split = workload.operators[producer].splits[0]
    a, rest = divmod(part, split.channel_ways * split.reduce_ways)
    b = rest // split.reduce_ways
    samples = {x for x in range(SAMPLES) if x * split.sample_ways // SAMPLES == a}
    ways = split.channel_ways
    return samples, {x for x in range(CHANNELS) if b * CHANNELS // ways <= x < (b + 1) * CHANNELS // ways}


@settings(max_examples=150)
@given(job=jobs())
def test_transfers_are_the_overlaps_counted_element_by_element(job):
    """Every overlap of different servers is one transfer each way, of its elements' bytes; nothing else is."""
    n, workload, strategy = job
    graph = build_task_graph(Cluster(n, 1, 2, 100.0), workload, strategy)
    expected: Counter = Counter()
    for v, operator in enumerate(workload.operators):
        there = strategy.servers(workload, v, n)
        for edge in operator.inputs:
            here = strategy.servers(workload, edge.producer, n)
            for q, target in enumerate(there):
                rows, columns = reads(workload, v, q)
                for p, source in enumerate(here):
                    own_rows, own_columns = writes(workload, edge.producer, p)
                    elements = len(rows & own_rows) * len(columns & own_columns)
                    size = elements * workload.operators[edge.producer].element_bytes * Fraction(edge.fraction)
                    if source != target and int(size) > 0:
                        expected[(source, target, int(size))] += 1
                        expected[(target, source, int(size))] += 1
    moved = graph.kind == TaskKind.TRANSFER
    found = Counter(
        zip(graph.source[moved].tolist(), graph.target[moved].tolist(), graph.bytes[moved].tolist(), strict=True)
    )
    assert found == expected
    matrix = demand_of(graph).model_parallel_bytes
    assert matrix.sum() == sum(size * times for (_, _, size), times in expected.items())
    assert np.array_equal(matrix, matrix.T)  # backward transfers mirror the forward ones


@settings(max_examples=100)
@given(job=jobs())
def test_allreduces_join_the_servers_that_share_a_shard(job):
    """One AllReduce per weight tensor and shard, over the servers with equal (channel, reduce) block, of its bytes."""
    n, workload, strategy = job
    graph = build_task_graph(Cluster(n, 1, 2, 100.0), workload, strategy)
    expected: Counter = Counter()
    for v, operator in enumerate(workload.operators):
        split = operator.splits[0]
        block = split.channel_ways * split.reduce_ways
        servers = strategy.servers(workload, v, n)
        for elements in operator.weight_elements:
            for shard in range(block):
                members = tuple(sorted(servers[shard::block]))
                expected[(members if len(members) > 1 else None, 4 * elements // block)] += 1
    reduced = graph.kind == TaskKind.ALLREDUCE
    found = Counter(
        (graph.groups[group] if group >= 0 else None, size)
        for group, size in zip(graph.group[reduced].tolist(), graph.bytes[reduced].tolist(), strict=True)
    )
    assert found == expected


def test_strided_groups_are_the_cosets_of_all_subgroups():
    """n = 6: cosets of size 2 (three), 3 (two) and 6 (one)."""
    assert strided_groups(6) == ((0, 3), (1, 4), (2, 5), (0, 2, 4), (1, 3, 5), (0, 1, 2, 3, 4, 5))


def test_local_allreduce_times():
    """Ring inside a server 2 (g-1)/g S/W; the reference's formula floor(2 S/g)/W is g-1 times smaller."""
    ring = Cluster(2, 4, 1, 100.0, intra_server_gbps=200.0)
    flexnet = Cluster(2, 4, 1, 100.0, intra_server_gbps=200.0, local_allreduce="flexnet")
    assert ring.local_allreduce_ms(25e6) == pytest.approx(1.5)
    assert flexnet.local_allreduce_ms(25e6) == pytest.approx(0.5)
    # Spec m.3: the local times of VGG sum to 23.148 ms for 1157.41 MB.
    assert flexnet.local_allreduce_ms(1157.41e6) == pytest.approx(23.148, abs=1e-3)


@pytest.mark.parametrize("name", ["100dlrm_16", "100candle_16", "100transformer_16", "100vgg_16", "topoopt_12"])
def test_released_task_graphs_come_back_from_their_recovered_workload(name):
    """A file's graph -> workload with pinned strategy -> graph: same tasks, same bytes, same flexnet time."""
    from topoopt.analyses.replay import replay
    from topoopt.formats.flexnet import read_flexnet_taskgraph
    from topoopt.formats.flexnet.importer import local_allreduce_gbps, workload_of_taskgraph

    path = DATA / f"{name}.fbuf"
    if not path.exists():
        pytest.skip(f"{path} is not here: the shared data folder is absent")
    file = read_flexnet_taskgraph(path)
    workload = workload_of_taskgraph(file)
    rate = local_allreduce_gbps(file.graph)
    cluster = Cluster(
        file.servers, 2 if rate else 1, 4, 100.0, intra_server_gbps=rate or 1.0, local_allreduce="flexnet"
    )
    pinned = Strategy(tuple(Placement(0, operator.pinned_offset or 0) for operator in workload.operators))
    graph = build_task_graph(cluster, workload, pinned)
    assert len(workload.operators) == len(file.operator_names)
    for kind in TaskKind:
        ours, theirs = graph.kind == kind, file.graph.kind == kind
        assert ours.sum() == theirs.sum()
        assert sorted(graph.bytes[ours].tolist()) == sorted(file.graph.bytes[theirs].tolist())
    times = [
        replay(each, fabric="ideal-switch", link_gbps=100.0, time_model="flexnet").iteration_time_ms
        for each in (graph, file.graph)
    ]
    assert times[0] == pytest.approx(times[1], rel=1e-6)
