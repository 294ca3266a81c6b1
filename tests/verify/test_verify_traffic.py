"""Recomputed traffic against counting single elements, and against hand-made and published figures."""

from __future__ import annotations

from collections import Counter
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.plan_loads import plan_figures
from tests.support.verify_cases import four_servers, make_cluster, rotated_plan, sample_splits
from topoopt.core.workload import Operator, OperatorInput, Placement, Split, Strategy, Workload
from topoopt.verify.checker import ViolationLog
from topoopt.verify.job.plan import check_strategy, local_allreduce_ms, meetings, recompute_traffic, slices


def recompute(cluster, workload, placements):
    """Traffic of a legal strategy."""
    findings = ViolationLog()
    strategy = Strategy(tuple(Placement(*placement) for placement in placements))
    parts = check_strategy(findings, cluster, workload, strategy)
    assert findings.clean
    return recompute_traffic(cluster, workload, parts)


def element_count(workload, n, placements):
    """The demand matrix by looking at every element of every tensor, from the definition of a split."""
    matrix = np.zeros((n, n))

    def parts(index):
        split, offset = placements[index]
        s = workload.operators[index].splits[split]
        for a in range(s.sample_ways):
            for b in range(s.channel_ways):
                for e in range(s.reduce_ways):
                    part = (a * s.channel_ways + b) * s.reduce_ways + e
                    yield s, a, b, e, offset + part * (n // (s.sample_ways * s.channel_ways * s.reduce_ways))

    def inside(x, i, total, ways):
        return i * total // ways <= x < (i + 1) * total // ways

    for v, consumer in enumerate(workload.operators):
        for edge in consumer.inputs:
            producer = workload.operators[edge.producer]
            for t, a2, b2, e2, here in parts(v):
                for s, a1, b1, _, there in parts(edge.producer):
                    common = 0
                    for x in range(workload.samples):
                        for y in range(producer.output_elements):
                            made = inside(x, a1, workload.samples, s.sample_ways) and inside(
                                y, b1, producer.output_elements, s.channel_ways
                            )
                            if consumer.mixes_channels:
                                read = inside(y, e2, producer.output_elements, t.reduce_ways)
                            else:
                                read = inside(y, b2, producer.output_elements, t.channel_ways)
                            common += made and read and inside(x, a2, workload.samples, t.sample_ways)
                    if here != there:
                        size = floor(common * producer.element_bytes * edge.fraction)
                        matrix[there, here] += size
                        matrix[here, there] += size
    return matrix


@st.composite
def tiny_jobs(draw):
    """Up to three operators with random splits on 2..6 servers."""
    n = draw(st.sampled_from([2, 3, 4, 6]))
    samples = n * draw(st.integers(1, 2))
    operators, placements = [], []
    for index in range(draw(st.integers(1, 3))):
        ways, left = [], n
        for _ in range(3):
            ways.append(draw(st.sampled_from([p for p in range(1, left + 1) if left % p == 0])))
            left //= ways[-1]
        count = ways[0] * ways[1] * ways[2]
        split = Split(ways[0], 1.0, 1.0, 1, ways[1], ways[2])
        edges = tuple(
            OperatorInput(u, draw(st.sampled_from([1.0, 0.5, 0.25]))) for u in range(index) if draw(st.booleans())
        )
        width, size = draw(st.integers(1, 5)), draw(st.sampled_from([2, 4, 8]))
        mixes = draw(st.booleans())
        operators.append(Operator(f"op{index}", "dense", width, size, (), edges, (split,), mixes_channels=mixes))
        placements.append((0, draw(st.integers(0, n // count - 1))))
    return n, Workload("tiny", samples, tuple(operators)), placements


@settings(max_examples=60)
@given(tiny_jobs())
def test_transfers_equal_a_count_of_elements(job):
    """The interval arithmetic gives the bytes that counting samples and channels one by one gives."""
    n, workload, placements = job
    traffic = recompute(make_cluster(n, 4), workload, placements)
    assert np.array_equal(traffic.matrix, element_count(workload, n, placements))


@pytest.mark.parametrize(("total", "first", "second"), [(12, 3, 4), (7, 7, 2), (5, 8, 3), (64, 1, 16), (100, 6, 6)])
def test_slices_meet_where_they_have_elements_in_common(total, first, second):
    """Against the slices that every single element is in; more slices than elements leave some empty."""

    def of(element, ways):
        return next(i for i in range(ways) if i * total // ways <= element < (i + 1) * total // ways)

    common = Counter((of(element, first), of(element, second)) for element in range(total))
    i, j, length = meetings(slices(total, first), slices(total, second))
    assert list(zip(i.tolist(), j.tolist(), length.tolist(), strict=True)) == [
        (*at, common[at]) for at in sorted(common)
    ]


def test_uniform_dlrm_plan_has_the_published_matrix():
    """16 tables of 256 on 16 servers, batch 16384, 8-byte elements: 4 194 304 bytes per pair."""
    tables = [Operator(f"t{i}", "embedding", 256, 8, (), (), sample_splits([1])) for i in range(16)]
    concat = Operator("concat", "concat", 4096, 4, (), tuple(OperatorInput(i) for i in range(16)), sample_splits([16]))
    workload = Workload("dlrm", 16384, (*tables, concat))
    traffic = recompute(make_cluster(16, 4), workload, [(0, i) for i in range(16)] + [(0, 0)])
    expected = np.full((16, 16), 4194304.0)
    np.fill_diagonal(expected, 0.0)
    assert np.array_equal(traffic.matrix, expected)
    assert traffic.matrix.sum() == 1006632960
    assert traffic.transfers.sum() == 480


def test_bandwidth_tax_is_the_published_one():
    """DLRM with 128 tables on {1, 13} and {1, 5, 13, 39}: tax 1.111 and 1.047, share 0.790 / 32."""
    demanded = 345.3e9
    parameters = demanded / (2 * 127) / 4
    tables = [Operator(f"t{i}", "embedding", 128, 8, (), (), sample_splits([1])) for i in range(128)]
    inputs = tuple(OperatorInput(i) for i in range(128))
    top = Operator("top", "dense", 128, 4, (round(parameters),), inputs, sample_splits([128]))
    workload = Workload("dlrm", 32768, (*tables, top))
    for degree, distances, tax in ((4, [1, 13], 1.111), (8, [1, 5, 13, 39], 1.047)):
        cluster = make_cluster(128, degree)
        plan = rotated_plan(cluster, [(0, i) for i in range(128)] + [(0, 0)], distances)
        figures = plan_figures(cluster, workload, plan)
        assert figures.link_bytes.sum() / (figures.model_parallel_bytes.sum() + demanded) == pytest.approx(
            tax, abs=5e-4
        )
    share = figures.model_parallel_bytes.sum() / demanded
    assert share == pytest.approx(0.790 / 32, rel=1e-3)


def test_reductions_are_per_shard_and_tensor():
    """Four sample ways by two channel ways on eight servers: two groups of four, half of each weight."""
    split = Split(4, 1.0, 1.0, 1, channel_ways=2)
    workload = Workload("job", 8, (Operator("op", "dense", 8, 4, (1001, 8), (), (split,)),))
    traffic = recompute(make_cluster(8, 4), workload, [(0, 0)])
    assert traffic.payload_bytes == {(0, 2, 4, 6): 2002 + 16, (1, 3, 5, 7): 2002 + 16}
    assert traffic.wire_bytes == 2 * 2 * 3 * 2018
    assert [reduction.parts for reduction in traffic.reductions[:2]] == [(0, 2, 4, 6), (1, 3, 5, 7)]


def test_single_servers_reduce_nothing_over_the_network():
    """An operator in one part has no AllReduce group."""
    cluster, workload, plan = four_servers()
    figures = plan_figures(cluster, workload, plan)
    assert figures.allreduce_bytes == {(0, 1, 2, 3): 4 * (4096 + 8)}


def test_local_allreduce_models():
    """4 GPUs at 200 Gbit/s: 1157.41e6 bytes take 23.148 ms as the reference counts, thrice as a ring."""
    flexnet = make_cluster(gpus_per_server=4, intra_server_gbps=200.0, local_allreduce="flexnet")
    assert local_allreduce_ms(flexnet, 1157410000) == pytest.approx(23.148, abs=5e-4)
    ring = make_cluster(gpus_per_server=4, intra_server_gbps=200.0)
    assert local_allreduce_ms(ring, 1157410000) == pytest.approx(3 * 1157410000 / 2 / 25e6)
    assert local_allreduce_ms(make_cluster(gpus_per_server=1), 1157410000) == 0.0
