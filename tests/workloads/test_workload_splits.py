"""Candidate splits: legality, device times and memory, profile candidates."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topoopt.core.errors import InputError
from topoopt.workloads.models import build_operators, build_workload
from topoopt.workloads.operators import (
    DEVICES,
    ClassRates,
    DeviceModel,
    Efficiency,
    Job,
    LayerGraph,
    Measurement,
    OperatorSpec,
    Profile,
    ProfileCosts,
    SplitDegrees,
    divisors,
    legal_splits,
    part_memory_bytes,
)

A100 = DEVICES["a100"]


def one_dense(inputs: int, outputs: int, rows: int = 1, **units: int) -> OperatorSpec:
    graph = LayerGraph()
    graph.dense("layer", None, inputs, outputs, rows=rows, **units)
    return graph.operators[0]


@given(st.integers(1, 400))
@settings(max_examples=50)
def test_divisors_divide(number: int) -> None:
    """`divisors` lists exactly the divisors, ascending."""
    assert list(divisors(number)) == [k for k in range(1, number + 1) if number % k == 0]


@given(st.integers(1, 48), st.integers(1, 6), st.sampled_from(["dlrm", "gpt", "moe", "vgg"]))
@settings(max_examples=25)
def test_splits_are_legal_for_any_cluster(servers: int, per_gpu: int, model: str) -> None:
    """Parts divide the servers, sample ways the batch, channel and reduce ways the tensors; no split stands twice."""
    small = {"gpt": {"layers": 1}, "moe": {"layers": 1}, "dlrm": {"tables": 2}, "vgg": {}}[model]
    workload = build_workload(
        model, {**small, "samples_per_gpu": per_gpu}, servers=servers, gpus_per_server=2, costs=A100
    )
    for operator in workload.operators:
        ways = [(s.sample_ways, s.channel_ways, s.reduce_ways) for s in operator.splits]
        assert len(set(ways)) == len(ways)
        for split in operator.splits:
            assert servers % split.parts == 0
            assert workload.samples % split.sample_ways == 0
            assert operator.output_elements % split.channel_ways == 0
            assert all(w % (split.channel_ways * split.reduce_ways) == 0 for w in operator.weight_elements)
            assert split.forward_ms > 0
            assert split.backward_ms > 0
        if model == "dlrm" and operator.kind == "embedding":
            assert ways == [(1, 1, 1)]
            assert not operator.locally_reduced


def test_first_split_is_the_widest_sample_split() -> None:
    """Candidates start with data parallelism over all servers, whatever tensor splits follow."""
    workload = build_workload("gpt", {"layers": 1}, servers=8, gpus_per_server=4, costs=A100)
    assert {operator.splits[0].label for operator in workload.operators} == {"x8"}


def test_tensor_splits_of_a_dense_layer_on_four_servers() -> None:
    """n=4: sample, column and row ways whose product divides 4, columns and rows not mixed: 6 + 3 candidates."""
    spec = one_dense(64, 32, channel_units=32, reduce_units=64)
    found = {(w.sample, w.channel, w.reduce) for w in legal_splits(spec, Job(16, 4, 1))}
    columns = {(s, c, 1) for s in (1, 2, 4) for c in (1, 2, 4) if s * c <= 4}
    rows = {(s, 1, r) for s in (1, 2, 4) for r in (2, 4) if s * r <= 4}
    assert found == columns | rows


def test_heads_bound_the_attention_split() -> None:
    """An attention with six heads may be cut in 2 or 3, not in 4; norms are never cut by channels."""
    sizes = {"layers": 1, "heads": 6, "hidden": 768, "feed_forward": 768, "vocabulary": 1024}
    workload = build_workload("gpt", sizes, servers=12, gpus_per_server=1, costs=A100)
    ways = {o.name: {s.channel_ways for s in o.splits} for o in workload.operators}
    assert ways["layer0_attention"] == {1, 2, 3, 6}
    assert ways["layer0_norm0"] == {1}
    cores = {o.name: o.mixes_channels for o in workload.operators}
    assert (cores["layer0_attention"], cores["layer0_qkv"]) == (False, True)


def test_tensor_parallelism_can_be_switched_off() -> None:
    """`tensor_parallel: 0` leaves sample splits only."""
    workload = build_workload("gpt", {"layers": 1, "tensor_parallel": 0}, servers=8, gpus_per_server=1, costs=A100)
    assert {s.channel_ways * s.reduce_ways for o in workload.operators for s in o.splits} == {1}


def simple_device(memory_gib: int = 80) -> DeviceModel:
    rates = ClassRates(Efficiency(0.5, 0.25, 2.0), Efficiency(0.5, 0.25, 4.0))
    return DeviceModel("simple", 10.0, 100.0, 1000.0, memory_gib, {"dense": rates, "embedding": rates})


def test_roofline_of_a_dense_layer_by_hand() -> None:
    """Compute-bound: 2 * 256 * 4096 * 4096 flops at 5 TFLOP/s plus 2 us; backward twice that plus 4 us."""
    forward, backward = simple_device().times_ms(one_dense(4096, 4096), 256, SplitDegrees(1))
    compute_ms = 2 * 256 * 4096 * 4096 / 5e12 * 1e3
    assert forward == pytest.approx(compute_ms + 0.002, rel=1e-12)
    assert backward == pytest.approx(2 * compute_ms + 0.004, rel=1e-12)


def test_roofline_of_a_memory_bound_layer_by_hand() -> None:
    """A one-wide layer is bound by its bytes: inputs, weights with bias and outputs at 250 GB/s."""
    forward, _ = simple_device().times_ms(one_dense(4096, 1), 64, SplitDegrees(1))
    moved = 4 * (64 * 4096 + 64 + 4097)
    assert forward == pytest.approx(moved / 250e9 * 1e3 + 0.002, rel=1e-12)


def test_work_is_divided_over_parts_and_gpus() -> None:
    """Eight servers of four GPUs take 1/32 of a compute-bound layer's work each; a table runs whole on one GPU."""
    device = simple_device()
    free = DeviceModel("free", 10.0, 100.0, 1e9, 80, {"dense": ClassRates(*[Efficiency(1.0, 1.0, 0.0)] * 2)})
    spec = one_dense(1024, 1024)
    widest = free.splits(spec, Job(4096, 8, 4))[0]
    assert widest.forward_ms == pytest.approx(2 * 4096 * 1024 * 1024 / 32 / 10e12 * 1e3, rel=1e-12)
    graph = LayerGraph()
    graph.table("table", 1000, 64, 10)
    (split,) = device.splits(graph.operators[0], Job(4096, 8, 4))
    moved = 4096 * (10 * 64 * 4 + 64 * 4 + 10 * 8)
    assert split.forward_ms == pytest.approx(moved / 250e9 * 1e3 + 0.002, rel=1e-12)
    assert split.server_memory_bytes == 2 * (1000 * 64 * 4 + 4096 * (64 * 4 + 10 * 8))


def test_column_and_row_splits_share_work_and_weights() -> None:
    """Cutting a layer in four columns or rows leaves a quarter of the weights, and the activations each needs."""
    spec = one_dense(512, 1024, rows=8, channel_units=1024, reduce_units=512)
    job = Job(64, 4, 1)
    weights = 512 * 1024 + 1024
    whole, columns, rows = (
        part_memory_bytes(spec, job, ways)
        for ways in (SplitDegrees(1), SplitDegrees(1, channel=4), SplitDegrees(1, reduce=4))
    )
    assert whole == 8 * weights + 8 * 64 * 8 * (512 + 1024)
    assert columns == 8 * weights // 4 + 8 * 64 * 8 * (512 + 256)
    assert rows == 8 * weights // 4 + 8 * 64 * 8 * (128 + 1024)


def test_splits_that_overflow_the_gpu_are_left_out() -> None:
    """A 1 GiB device keeps the split in four parts of a layer whose whole batch needs more."""
    spec = one_dense(4096, 4096)
    job = Job(49152, 4, 1)
    assert part_memory_bytes(spec, job, SplitDegrees(2)) > 1 << 30 > part_memory_bytes(spec, job, SplitDegrees(4))
    assert [s.sample_ways for s in simple_device(1).splits(spec, job)] == [4]


def test_operator_too_large_for_the_device_is_refused() -> None:
    """A table that fits no GPU is named once a table, with the bytes it needs and the bytes there are."""
    with pytest.raises(InputError) as caught:
        build_workload("dlrm", {"table_rows": 10**9, "tables": 1}, servers=4, gpus_per_server=4, costs=A100)
    (problem,) = caught.value.problems
    assert "table0" in problem.message
    # weights and gradients of 10^9 x 256, outputs with gradients and indices of 4096 samples
    assert problem.value == f"at least {2 * (10**9 * 256 * 4 + 4096 * (256 * 4 + 100 * 8))} bytes"
    assert problem.allowed == f"at most {80 * 2**30} bytes on 1 GPU(s)"


def test_profile_candidates_are_those_measured() -> None:
    """Candidates equal the measured P; memory counts every GPU; a table's memory counts once."""
    operators = {
        "Dense_8_8": {4: Measurement(1.0, 2.0, 100), 1: Measurement(3.0, 5.0, 300)},
        "Embed_9x8": {1: Measurement(7.0, 8.0, 900)},
    }
    costs = ProfileCosts(Profile(4, 64, operators))
    splits = costs.splits(one_dense(8, 8), Job(64, 4, 2))
    assert [(s.parts, s.forward_ms, s.backward_ms, s.server_memory_bytes) for s in splits] == [
        (4, 1.0, 2.0, 200),
        (1, 3.0, 5.0, 600),
    ]
    graph = LayerGraph()
    graph.table("table", 9, 8, 1)
    assert costs.splits(graph.operators[0], Job(64, 4, 2))[0].server_memory_bytes == 900


def test_profile_of_another_job_is_refused() -> None:
    """Batch, server count and a missing operator are all reported, each once."""
    costs = ProfileCosts(Profile(4, 64, {"Dense_8_8": {4: Measurement(1.0, 2.0, 100)}}, "p.json"))
    with pytest.raises(InputError) as caught:
        costs.splits(one_dense(8, 9), Job(128, 8, 2))
    text = str(caught.value)
    assert len(caught.value.problems) == 3
    assert "batch_size" in text
    assert "ngpus" in text
    assert "Dense_8_9" in text


def test_small_batches_leave_fewer_splits() -> None:
    """With six samples on four servers only the sample splits 1 and 2 are legal."""
    spec = one_dense(8, 8)
    assert {w.sample for w in legal_splits(spec, Job(6, 4, 1))} == {1, 2}


def test_build_is_deterministic() -> None:
    """Equal arguments give equal workloads."""
    once, again = (build_workload("moe", {}, servers=8, gpus_per_server=4, costs=A100) for _ in range(2))
    assert once == again
    assert build_operators("ncf", {}) == build_operators("ncf", {})
