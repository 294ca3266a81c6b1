"""What the rails see of one iteration of a strategy: computing, what is exchanged when, and what that takes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from topoopt.core.errors import InputError, Problem
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy, PipelineSchedule
from topoopt.core.switching import PortUse, RailExchange, RailJob, SwitchSettings
from topoopt.simulate.llm_training.costs import (
    WHOLE,
    GroupRates,
    LayerTimes,
    RanksBeside,
    data_bytes,
    layer_traffic,
    ranks_beside,
)
from topoopt.simulate.llm_training.network.rates import (
    StagePasses,
    layer_sync,
    optimizer_s,
    pipeline_shape,
    stage_times,
)
from topoopt.simulate.llm_training.strategies import StrategyColumns, columns_of

TWO_WAY = (PipelineSchedule.DUALPIPE, PipelineSchedule.DUALPIPE_V)


def rail_job(problem: LlmTrainingProblem, strategy: ParallelStrategy, settings: SwitchSettings) -> RailJob:
    """One iteration as its rails see it.

    Raises:
        InputError: the strategy cannot stand on rails, or its circuits need more ports than there are.
    """
    columns = columns_of([strategy], problem.model.layers)
    beside = ranks_beside(columns, problem.cluster.gpus_per_server)
    problems = list(_problems(problem, strategy, settings, beside))
    if problems:
        raise InputError(problems)
    rates = GroupRates.of(problem.cluster, problem.device.reached, columns)
    stages = stage_times(problem, strategy, rates)
    slow, shape = problem.cluster.slowdown, pipeline_shape(problem, strategy)
    groups = strategy.data * strategy.context / float(beside.data[0] * beside.context[0])
    experts = strategy.expert * strategy.expert_tensor / float(beside.expert[0])
    inside = _inside(strategy, stages, groups, experts)
    exchange = None
    if inside is PortUse.EXPERT:
        exchange = _tokens(problem, columns, stages, rates)
    elif inside is PortUse.DATA:
        exchange = _weights(problem, strategy, stages, rates)
    own = 0.0 if inside is PortUse.EXPERT else 1.0
    sync = layer_sync(problem, strategy, stages, rates)
    ends = 0.0 if strategy.zero >= 3 else slow
    cluster, several = problem.cluster, strategy.pipeline > 1
    start = (cluster.message_latency_us + rates.hops.pipeline * cluster.hop_latency_us) * 1e-6 if several else 0.0
    there, back = (stages.tensor[i] + stages.context[i] + own * stages.expert[i] for i in range(2))
    rate = settings.port_gbps or cluster.gpu_gbps
    job = RailJob(
        schedule=strategy.schedule,
        ranks=strategy.pipeline,
        chunks=strategy.chunks,
        micro_batches=shape.micro_batches,
        forward_s=tuple((slow * (stages.passes.forward + there)).tolist()),
        inputs_s=tuple((slow * (stages.passes.inputs + stages.passes.again + back)).tolist()),
        weights_s=tuple((slow * stages.passes.weights).tolist()),
        exchange=exchange,
        inside=inside,
        hop_s=(slow * start, slow * (stages.hop_s - start)),
        layers=tuple(int(n) for n in sync.layers.tolist()),
        reduced_s=tuple((ends * sync.reduced).tolist()),
        gathered_s=tuple((ends * sync.gathered).tolist()),
        optimizer_s=slow * optimizer_s(problem, strategy, stages),
        blocking=several and not problem.overlap.pipeline,
        overlapped=problem.overlap.data,
        data_servers=round(groups),
        expert_servers=round(experts) if inside is PortUse.EXPERT else 1,
        ports=settings.ports,
        circuit_share=rate / cluster.gpu_gbps,
    )
    short = list(_short(job))
    if short:
        raise InputError(short)
    return job


def _inside(strategy: ParallelStrategy, stages: StagePasses, groups: float, experts: float) -> PortUse | None:
    """What passes exchange over the rail."""
    if experts > 1 and stages.routed.any():
        return PortUse.EXPERT
    return PortUse.DATA if strategy.zero >= 3 and groups > 1 else None


def _problems(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, settings: SwitchSettings, beside: RanksBeside
) -> Iterator[Problem]:
    """Why a strategy cannot stand on rails."""
    cluster, g = problem.cluster, problem.cluster.gpus_per_server
    for name, here in (("tensor", beside.tensor), ("context", beside.context)):
        ranks = getattr(strategy, name)
        if float(here[0]) < WHOLE * ranks:
            text = f"pods split a {name} group: rails join GPUs of the same place in their servers, and carry no {name}"
            yield Problem(text, path=name, value=str(ranks), allowed=f"groups inside servers of {g} GPUs")
    if float(beside.pipeline[0]) > 1:
        text = "a server holds ranks of several stages: their circuits cannot be set apart"
        yield Problem(text, path="pipeline", value=str(strategy.pipeline), allowed="servers of one stage each")
    if strategy.schedule in TWO_WAY:
        text = "switching follows schedules whose ranks hold the model once"
        yield Problem(text, path="schedule", value=strategy.schedule.value, allowed="1f1b, interleaved, gpipe, zb-*")
    if cluster.degree % g:
        text = "a GPU has no interface of its own on its rail"
        yield Problem(text, path="cluster.degree", value=str(cluster.degree), allowed=f"multiples of {g}")
    if strategy.zero >= 3 and float(beside.expert[0]) < WHOLE * strategy.expert * strategy.expert_tensor:
        text = "weights and tokens cross the rail inside the same pass"
        yield Problem(text, path="zero", value="3", allowed="0 to 2, or experts inside servers")


def _short(job: RailJob) -> Iterator[Problem]:
    """Circuits that exceed the ports."""
    for use in job.uses:
        most = max(job.needs(rank, use) for rank in range(job.ranks))
        if most > job.ports:
            text = f"circuits for {use.value} exceed the ports of a GPU"
            yield Problem(text, path="switching.ports", value=str(job.ports), allowed=f"at least {most}")


def _tokens(
    problem: LlmTrainingProblem, columns: StrategyColumns, stages: StagePasses, rates: GroupRates
) -> tuple[RailExchange, ...]:
    """Of tokens, to experts and back in every layer of them."""
    cluster, length, slow = problem.cluster, problem.batch.length, problem.cluster.slowdown
    traffic = layer_traffic(problem.model, problem.formats, columns, length, cluster.gpus_per_server)
    shown = slow * (1.0 - problem.overlap.expert)
    crossing = shown * float(traffic.expert_crossing[0] / rates.expert[0])
    within = shown * float(traffic.expert[0]) / rates.inside
    fixed = shown * 2.0 * (cluster.message_latency_us + rates.hops.expert * cluster.hop_latency_us) * 1e-6
    before, behind = LayerTimes(problem.model, problem.device, problem.formats, columns, length).attention()
    return tuple(
        RailExchange(
            (n * crossing, n * crossing),
            n * within,
            n * fixed,
            slow * float(before[0]) if n else 0.0,
            slow * float(behind[0]) if n else 0.0,
        )
        for n in stages.routed.tolist()
    )


def _weights(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, stages: StagePasses, rates: GroupRates
) -> tuple[RailExchange, ...]:
    """Of weights in every pass, and of gradients in backward ones (ZeRO 3)."""
    one, slow = np.ones(1), problem.cluster.slowdown
    replicas = strategy.data * strategy.context * one
    of_experts = strategy.gpus / strategy.pipeline / (strategy.expert * strategy.expert_tensor) * one
    size = problem.formats.gradient_bytes
    dense = data_bytes(stages.dense_weights, replicas, 3.0 * one, size, one)
    routed = data_bytes(stages.expert_weights, of_experts, 3.0 * one, size, one)
    reduced, gathered = (slow * (a / rates.data + b / rates.expert_data) for a, b in zip(dense, routed, strict=True))
    hidden = problem.overlap.data
    return tuple(
        RailExchange((both / 2.0, both / 2.0 + back), 0.0, 0.0, 0.0, 0.0, hidden)
        for both, back in zip(gathered.tolist(), reduced.tolist(), strict=True)
    )
