"""Switching inside training steps beside published figures (arXiv:2602.12521)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulate.test_switching import DENSE
from topoopt.core.llm_training import LlmTrainingProblem, TrainingBatch
from topoopt.core.parallelism import ParallelStrategy, Recompute
from topoopt.core.switched_step import SwitchMode
from topoopt.core.switching import PortSplit, RailJob, StagePorts, SwitchSettings
from topoopt.kinds.instance_file import read_instance
from topoopt.simulate.switching import Delays, RailShares, electrical_s, follow, rail_job, rail_orders

INSTANCES = Path("instances/llm-training")


def more_s(job: RailJob, delay_s: float, mode: SwitchMode) -> float:
    """What a delay adds where both ports serve either the pipeline or the replicas, as published."""
    inside = PortSplit(0, 2) if job.inside is not None else PortSplit(2)
    data = PortSplit(0, 2)
    plan, known = (StagePorts(PortSplit(2), inside, data),) * job.ranks, rail_orders(job)
    times = [
        follow(job, known, RailShares.of(job, plan), plan, Delays.same(delay), mode).step_s for delay in (0.0, delay_s)
    ]
    return times[1] - times[0]


def test_the_dense_row() -> None:
    """DP 2, PP 2: 62.2416 s; 50 ms add 0.100 on demand (two switches), 0.049 provisioned, which windows hide here."""
    scale = 62.2416 / 8.25
    job = replace(
        DENSE,
        forward_s=(scale, scale),
        inputs_s=(2 * scale, 2 * scale),
        hop_s=(0.0, 0.5 * scale),
        reduced_s=(scale, scale),
        optimizer_s=0.25 * scale,
        data_servers=2,
    )
    assert electrical_s(job, rail_orders(job)) == pytest.approx(62.2416, rel=1e-9)
    assert more_s(job, 0.05, SwitchMode.ON_DEMAND) == pytest.approx(0.100, abs=5e-4)
    assert 0.0 <= more_s(job, 0.05, SwitchMode.PROVISIONED) <= 0.049


@pytest.mark.parametrize(("zero", "switches"), [(1, 2.0), (3, 6.0)])
def test_llama_3_8b(zero: int, switches: float) -> None:
    """DP 8, PP 2, TP 4, two micro-batches: measured 4.84 s a second of delay, between the two ways to keep weights."""
    problem = read_instance(INSTANCES / "a100.yaml")
    assert isinstance(problem, LlmTrainingProblem)
    model = replace(problem.model, layers=32, hidden=4096, ffn_hidden=14336, heads=32, kv_heads=8, head_size=128)
    problem = replace(
        problem,
        model=replace(model, gated=True, vocabulary=128_256, positions=0, biases=False),
        batch=TrainingBatch(64, 8192),
        cluster=replace(problem.cluster, servers=16, gpus_per_server=4, degree=4, per_gpu=True, link_gbps=200.0),
        overlap=replace(problem.overlap, data=False),
    )
    strategy = ParallelStrategy(
        tensor=4, sequence=True, pipeline=2, data=8, zero=zero, micro_batch=4, recompute=Recompute.FULL
    )
    job = rail_job(problem, strategy, SwitchSettings(0.01))
    assert more_s(job, 1.0, SwitchMode.ON_DEMAND) == pytest.approx(switches, rel=1e-6)
