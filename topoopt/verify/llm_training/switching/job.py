"""What the rails see of an iteration, derived again from the instance: seconds, bytes and servers of groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.pipeline import PipelineSchedule
from topoopt.core.switching import PortUse, RailExchange, RailJob, SwitchSettings
from topoopt.core.verdict import Tolerance
from topoopt.verify.laws.findings import ViolationLog
from topoopt.verify.llm_training.layer import GpuSeconds
from topoopt.verify.llm_training.space import Records, records_of, row_of
from topoopt.verify.llm_training.stage_rows import StageRows, stage_rows
from topoopt.verify.llm_training.switching.ports import carried
from topoopt.verify.llm_training.transfers import DimensionRates, ideal_rates, near, sent_by, servers_met

SECONDS = ("forward_s", "inputs_s", "weights_s", "hop_s", "reduced_s", "gathered_s", "optimizer_s", "circuit_share")
"""Figures of a job that are sums of doubles."""


def refusal(problem: LlmTrainingProblem, strategy: ParallelStrategy, settings: SwitchSettings) -> str:
    """Why a strategy cannot stand on rails; empty: it can."""
    r = records_of([row_of(strategy)])
    beside, experts = near(problem, r)
    for one in (D.TENSOR, D.CONTEXT):
        if float(beside[one][0]) < getattr(strategy, one.value) * (1 - 1e-9):
            return f"rails split a {one.value} group"
    if float(beside[D.PIPELINE][0]) > 1:
        return "a server holds several stages"
    if strategy.schedule in (PipelineSchedule.DUALPIPE, PipelineSchedule.DUALPIPE_V):
        return "a rank holds two copies of stages"
    if strategy.zero == 3 and strategy.expert * strategy.expert_tensor > float(experts[0]) * (1 + 1e-9):
        return "weights and tokens cross the rail in the same pass"
    job = derived_job(problem, strategy, settings)
    short = [use.value for rank in range(job.ranks) for use, most in carried(job, rank).items() if most > job.ports]
    return f"too few ports for {short[0]}" if short else ""


def derived_job(problem: LlmTrainingProblem, strategy: ParallelStrategy, settings: SwitchSettings) -> RailJob:
    """What the rails see of an iteration.

    Args:
        strategy: with the layers of its chunks.
    """
    r = records_of([row_of(strategy)])
    rates, (beside, experts) = ideal_rates(problem, r), near(problem, r)
    slow, p = problem.cluster.slowdown, strategy.pipeline
    rows = stage_rows(problem, r, np.array(strategy.stage_layers, dtype=np.float64)[:, None], rates)
    servers = round(strategy.data * strategy.context / float((beside[D.DATA] * beside[D.CONTEXT])[0]))
    own = round(strategy.expert * strategy.expert_tensor / float(experts[0]))
    routed = _routed(problem, strategy)
    inside = PortUse.EXPERT if own > 1 and any(routed) else None
    if strategy.zero == 3 and servers > 1 and inside is None:
        inside = PortUse.DATA
    gpu_gbps = problem.cluster.degree * problem.cluster.link_gbps / problem.cluster.gpus_per_server
    sent = sent_by(problem, r, rates)
    away = np.array([slow * n * float(sent.expert[0]) if inside is PortUse.EXPERT else 0.0 for n in routed])
    start = (problem.cluster.message_latency_us + rates.stage_hops * problem.cluster.hop_latency_us) / 1e6
    ends = 0.0 if strategy.zero == 3 else 1.0
    fixed = slow * problem.device.reached.iteration_ms / 1e3
    exchange = None
    if inside is not None:
        due = _tokens(problem, r, rates, routed) if inside is PortUse.EXPERT else _weights(rows)
        hidden = inside is PortUse.DATA and problem.overlap.data
        exchange = tuple(
            RailExchange((a, b), within, fixed_s, head, tail, hidden) for a, b, within, fixed_s, head, tail in due
        )
    return RailJob(
        schedule=strategy.schedule,
        ranks=p,
        chunks=strategy.chunks,
        micro_batches=problem.batch.sequences // (strategy.data * strategy.micro_batch),
        forward_s=_listed(rows.forward[:, 0] - away),
        inputs_s=_listed(rows.inputs[:, 0] - away),
        weights_s=_listed(rows.weights[:, 0]),
        exchange=exchange,
        inside=inside,
        hop_s=(slow * start, slow * (float(sent.hop[0]) - start)) if p > 1 else (0.0, 0.0),
        layers=tuple(round(n) for n in rows.layers[:, 0].tolist()),
        reduced_s=_listed((ends * rows.reduced / rows.layers)[:, 0]),
        gathered_s=_listed((ends * rows.gathered / rows.layers)[:, 0]),
        optimizer_s=max(float(rows.step[rank::p, 0].sum()) for rank in range(p)) + fixed,
        blocking=p > 1 and not problem.overlap.pipeline,
        overlapped=problem.overlap.data,
        data_servers=servers,
        expert_servers=own if inside is PortUse.EXPERT else 1,
        ports=settings.ports,
        circuit_share=(settings.port_gbps or gpu_gbps) / gpu_gbps,
    )


def _listed(values: Floats) -> tuple[float, ...]:
    return tuple(values.tolist())


def check_job(
    findings: ViolationLog,
    problem: LlmTrainingProblem,
    strategy: ParallelStrategy,
    settings: SwitchSettings,
    job: RailJob,
) -> None:
    """Every figure of a job.

    Args:
        strategy: with the layers of its chunks.
    """
    if text := refusal(problem, strategy, settings):
        findings.add("pods", text)
        return
    due = derived_job(problem, strategy, settings)
    for part in fields(due):
        stated, own = getattr(job, part.name), getattr(due, part.name)
        if part.name in SECONDS:
            _same(findings, part.name, np.ravel(stated).tolist(), np.ravel(own).tolist())
        elif part.name != "exchange":
            findings.hold("rails", (part.name, stated, own))
    if (job.exchange is None) != (due.exchange is None):
        findings.add("rails", "passes exchange something that is not said, or nothing")
    for stage, (one, other) in enumerate(zip(job.exchange or (), due.exchange or (), strict=True)):
        rows = [[*row.crossing_s, row.within_s, row.fixed_s, row.head_s, row.tail_s] for row in (one, other)]
        _same(findings, f"the exchange of stage {stage}", *rows)
        findings.hold("rails", (f"whether the exchange of stage {stage} is hidden", one.hidden, other.hidden))


def _same(findings: ViolationLog, name: str, stated: Sequence[float], due: Sequence[float]) -> None:
    scale = max((abs(one) for one in due), default=0.0)
    if len(stated) != len(due) or not all(
        abs(a - b) <= Tolerance.LONG_SUMS.relative * scale for a, b in zip(stated, due, strict=True)
    ):
        findings.add("rails", f"{name} is {tuple(stated)!r}, {tuple(due)!r} is due")


def _routed(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> list[int]:
    """Layers of experts of each stage."""
    experts, found, begin = problem.model.experts, [], 0
    if experts is None:
        return [0] * len(strategy.stage_layers)
    for layers in strategy.stage_layers:
        found.append(sum(layer >= experts.dense_layers for layer in range(begin, begin + layers)))
        begin += layers
    found[-1] += problem.model.mtp_layers
    return found


def _tokens(problem: LlmTrainingProblem, r: Records, rates: DimensionRates, routed: list[int]) -> list[list[float]]:
    experts, cluster = problem.model.experts, problem.cluster
    assert experts is not None
    one = 2.0 * r.b * problem.batch.length / r.c * problem.model.hidden / r.t
    one = one * (1.5 if problem.formats.fp8_dispatch else 2.0)
    servers = r.x * r.y / near(problem, r)[1]
    crossing = one * servers_met(problem, float(servers[0])) * (1.0 - 1.0 / servers) / rates.expert
    within = one * experts.per_token * (1.0 - 1.0 / r.x) / rates.inside
    fixed = 2.0 * (cluster.message_latency_us + rates.expert_hops * cluster.hop_latency_us) / 1e6
    head, tail = (float(part[0]) for part in GpuSeconds(problem, r).attention())
    shown = cluster.slowdown * (1.0 - problem.overlap.expert)
    return [
        [shown * n * float(value) for value in (crossing[0], crossing[0], within[0], fixed)]
        + [cluster.slowdown * value * min(1, n) for value in (head, tail)]
        for n in routed
    ]


def _weights(rows: StageRows) -> list[list[float]]:
    """Weights come once in a forward pass, and in a backward one, where gradients go too."""
    reduced, gathered = rows.reduced[:, 0].tolist(), rows.gathered[:, 0].tolist()
    return [[both / 2, both / 2 + out, 0.0, 0.0, 0.0, 0.0] for out, both in zip(reduced, gathered, strict=True)]
