"""Switching inside training steps beside published figures (arXiv:2602.12521)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from scipy.optimize import brentq

from solvers.stop import Stop
from solvers.switching import RailSteps, fastest_ports
from tests.simulate.test_switching import DENSE
from topoopt.core.llm_training import Attention, LlmTrainingProblem, Mlp, TrainingBatch
from topoopt.core.parallelism import ParallelStrategy, Recompute
from topoopt.core.switching import PortSplit, RailJob, StagePorts, SwitchMode, SwitchSettings
from topoopt.kinds.files import read_instance
from topoopt.simulate.rail_job import rail_job
from topoopt.simulate.switching import RailShares, electrical_s, follow, rail_orders, same_delay
from topoopt.workloads.language_models import uniform

INSTANCES = Path("instances/llm-training")
ON_DEMAND, PROVISIONED = "on-demand", "provisioned"


def more_s(job: RailJob, delay_s: float, mode: SwitchMode) -> float:
    """What a delay adds where both ports serve either the pipeline or the replicas, as published."""
    inside = PortSplit(0, 2) if job.inside is not None else PortSplit(2)
    data = PortSplit(0, 2)
    plan, known = (StagePorts(PortSplit(2), inside, data),) * job.ranks, rail_orders(job)
    times = [
        follow(job, known, RailShares.of(job, plan), plan, same_delay(delay), mode).step_s for delay in (0.0, delay_s)
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
    assert more_s(job, 0.05, "on-demand") == pytest.approx(0.100, abs=5e-4)
    assert 0.0 <= more_s(job, 0.05, "provisioned") <= 0.049


@pytest.mark.parametrize(("zero", "switches"), [(1, 2.0), (3, 6.0)])
def test_llama_3_8b(zero: int, switches: float) -> None:
    """DP 8, PP 2, TP 4, two micro-batches: measured 4.84 s a second of delay, between the two ways to keep weights.

    Asked for ahead, measured 4.75: a second that weights kept would hide to the most part, gathered ones not at all.
    """
    problem = read_instance(INSTANCES / "a100.yaml")
    assert isinstance(problem, LlmTrainingProblem)
    problem = replace(
        problem,
        model=uniform("llama3-8b", 32, 4096, Attention(32, 8, 128), Mlp(14336), 128_256),
        batch=TrainingBatch(64, 8192),
        cluster=replace(problem.cluster, servers=16, gpus_per_server=4, degree=4, per_gpu=True, link_gbps=200.0),
        overlap=replace(problem.overlap, data=False),
    )
    strategy = ParallelStrategy(
        tensor=4, sequence=True, pipeline=2, data=8, zero=zero, micro_batch=4, recompute=Recompute.FULL
    )
    job = rail_job(problem, strategy, SwitchSettings(0.01))
    assert more_s(job, 1.0, "on-demand") == pytest.approx(switches, rel=1e-6)
    ahead = more_s(job, 1.0, "provisioned")
    assert ahead == pytest.approx(switches, rel=1e-6) if zero == 3 else 0.0 <= ahead < 1.0


GB = 1e9
SWEEP = {
    2: (21.378669448, {ON_DEMAND: (21.597698752, 21.917219443), PROVISIONED: (21.566790487, 21.686787712)}),
    4: (10.709945847, {ON_DEMAND: (11.019921237, 11.401772657), PROVISIONED: (10.989426864, 11.109566709)}),
    8: (5.375601153, {ON_DEMAND: (5.750912335, 6.150912335), PROVISIONED: (5.704058217, 5.872597866)}),
}
"""Replicas: seconds on the electrical network; on circuits of 10 and 50 ms. PP 4, TP 8, batch 256, 96 layers, 50 GB/s
(H200; results of the simulations of arXiv:2602.12521 among its authors' scripts)."""


def sweep_job(replicas: int, forward_s: float) -> RailJob:
    """One micro-batch; by the logs 51.5 GB go between stages in all, gradients of four replicas are 450.4 GB."""
    of_stage = 450_367_586_304 / (4 * 32) / 1.5
    hop_s = 51_539_607_552 / (replicas * 8 * 6) / (50 * GB)
    reduced_s = of_stage * 2 * (replicas - 1) / replicas / (50 * GB)
    return replace(
        DENSE,
        ranks=4,
        forward_s=(forward_s,) * 4,
        inputs_s=(2 * forward_s,) * 4,
        weights_s=(0.0,) * 4,
        hop_s=(1e-6, hop_s),
        layers=(24,) * 4,
        reduced_s=(reduced_s / 24,) * 4,
        gathered_s=(0.0,) * 4,
        optimizer_s=0.0,
        data_servers=replicas,
    )


@pytest.mark.parametrize("replicas", SWEEP)
def test_the_dense_sweep(replicas: int) -> None:
    """Computing fitted to the electrical step: ours takes no longer than published at 10 and 50 ms in either mode.

    Provisioned at most 2 % over the electrical network at 10 ms, 6 % at 50; published: up to 6.1 and 9.2 %.
    """
    electrical, published = SWEEP[replicas]

    def missed(forward_s: float) -> float:
        job = sweep_job(replicas, forward_s)
        return electrical_s(job, rail_orders(job)) - electrical

    job = sweep_job(replicas, brentq(missed, 0.01, 5.0, xtol=1e-9))
    known = rail_orders(job)
    for mode, times in published.items():
        for delay_s, theirs, most in zip((0.01, 0.05), times, (1.02, 1.06), strict=True):
            ours = fastest_ports(job, known, delay_s, mode, Stop())
            assert ours is not None
            _, step_s, _ = ours
            assert step_s <= theirs
            assert mode == ON_DEMAND or step_s <= most * electrical
            waited = (step_s - electrical) / delay_s
            assert waited <= (theirs - electrical) / delay_s
            assert waited <= (3.0 if mode == ON_DEMAND else 0.0) + 1e-6  # one before each hop forward; behind windows


GROUPS = {
    (512, 8): 1.0, (512, 32): 1.0, (512, 64): 1.0, (512, 128): 618.0 / 550.6, (512, 256): 680.9 / 467.0,
    (256, 8): 1.0, (256, 16): 1.0, (256, 32): 3174.6 / 3064.5, (256, 64): 2007.0 / 1883.9,
}  # fmt: skip
"""GPUs, experts: circuits without delay over the electrical network (simulation of arXiv:2602.12521)."""

APART = {(512, 128), (512, 256), (256, 32)}
"""Where ours is faster: tokens go the shorter way round a ring, both ways at once."""


@pytest.mark.parametrize(("hidden", "routed", "chosen"), [(7168, 2048, 8), (8192, 3584, 2)])
@pytest.mark.parametrize(("gpus", "expert"), GROUPS)
def test_groups_of_experts(gpus: int, expert: int, hidden: int, routed: int, chosen: int) -> None:
    """Within 2 % in six of nine rows with sizes of DeepSeek-V3, the others faster; with few large experts five are.

    A ring of k servers carries an exchange at min(1, 2 (k - 1) / floor(k^2 / 4)) of the rate of a GPU: no loss up to
    four servers, 8/7 of the time for eight, whatever the model. As in that simulation, computing hides nothing
    and software costs nothing: both, fitted to measured runs, make the exchange a smaller part of the step.
    """
    problem = read_instance(INSTANCES / "rails-experts-256.yaml")
    assert isinstance(problem, LlmTrainingProblem)
    reached = replace(problem.device.reached, layer_us=0.0, expert_us=0.0, iteration_ms=0.0)
    overlap = replace(problem.overlap, tensor=0.0, expert=0.0)
    problem = replace(problem, device=replace(problem.device, reached=reached), overlap=overlap)
    model, cluster = problem.model, problem.cluster
    assert model.experts is not None
    large = gpus == 512
    tensor, pipeline = (32, 2) if large else (8, 4)
    experts = replace(model.experts, hidden=routed, per_token=chosen)
    mixer = model.kinds[0].mixer
    assert isinstance(mixer, Attention)
    mixer = replace(mixer, head_size=hidden // mixer.heads)
    model = uniform("mixtral", 2 * pipeline, hidden, mixer, experts, model.vocabulary)
    if large:
        cluster = replace(cluster, servers=16, gpus_per_server=32, degree=32, link_gbps=800.0, intra_server_gbps=7200.0)
    strategy = ParallelStrategy(
        tensor=tensor, sequence=True, pipeline=pipeline, data=8, expert=expert, zero=0, micro_batch=8
    )
    assert problem.switching is not None
    steps = RailSteps(replace(problem, model=model, cluster=cluster), strategy, problem.switching)
    ratio = steps.switched(0.0, PROVISIONED, Stop()).step_s / steps.electrical_s
    published = GROUPS[gpus, expert]
    assert 1.0 - 1e-9 <= ratio <= 8 / 7
    assert ratio <= 1.02 * published
    few = chosen == 2 and (gpus, expert) == (256, 64)  # less of the step is exchange
    if (gpus, expert) not in APART and not few:
        assert ratio == pytest.approx(published, rel=0.02)


def test_a_model_of_experts_on_2048_gpus() -> None:
    """Ports that are set before and behind every pass; the bound of the search proves what two ports allow."""
    problem = read_instance(INSTANCES / "deepseek-v3-2048.yaml")
    assert isinstance(problem, LlmTrainingProblem)
    assert problem.switching is not None
    strategy = ParallelStrategy(pipeline=16, data=128, expert=64, zero=1, recompute=Recompute.FULL)

    def over(delay_s: float, expert: int = 64, ports: int = 2) -> tuple[float, float]:
        settings = replace(problem.switching, ports=ports)
        steps = RailSteps(problem, replace(strategy, expert=expert), settings)
        step = steps.switched(delay_s, PROVISIONED, Stop())
        return step.step_s / steps.electrical_s - 1.0, step.bound_s / steps.electrical_s - 1.0

    for delay_s, goal in ((0.01, 0.02), (0.05, 0.06)):  # of dense models; two ports miss it, proven
        value, bound = over(delay_s)
        assert value == pytest.approx(bound, rel=1e-9)
        assert bound > goal
    assert over(0.05, ports=4)[0] <= 0.06
    assert over(0.01, expert=8)[0] <= 0.02
    assert over(0.05, expert=8)[0] <= 0.06
