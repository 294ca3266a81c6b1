"""What the rails see of an iteration, derived again from the instance: seconds, bytes and servers of groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.switching import PortUse, RailJob, SwitchSettings
from topoopt.core.verdict import Tolerance
from topoopt.verify.laws.findings import ViolationLog, differs
from topoopt.verify.llm_training.layer import GpuSeconds
from topoopt.verify.llm_training.space import Records, records_of, row_of
from topoopt.verify.llm_training.stage_rows import StageRows, stage_rows
from topoopt.verify.llm_training.transfers import DimensionRates, ideal_rates, near, sent_by, servers_met


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
    r = records_of([row_of(strategy)])
    rates, (beside, experts) = ideal_rates(problem, r), near(problem, r)
    slow, p = problem.cluster.slowdown, strategy.pipeline
    rows = stage_rows(problem, r, np.array(strategy.stage_layers, dtype=np.float64)[:, None], rates)
    for one in (D.TENSOR, D.CONTEXT):
        if float(beside[one][0]) < getattr(strategy, one.value) * (1 - 1e-9):
            findings.add("pods", f"rails split a {one.value} group")
    if float(beside[D.PIPELINE][0]) > 1:
        findings.add("pods", "a server holds several stages")
    servers = round(strategy.data * strategy.context / float((beside[D.DATA] * beside[D.CONTEXT])[0]))
    own = round(strategy.expert * strategy.expert_tensor / float(experts[0]))
    routed = _routed(problem, strategy)
    inside = PortUse.EXPERT if own > 1 and any(routed) else None
    if strategy.zero == 3 and servers > 1 and inside is None:
        inside = PortUse.DATA
    gpu_gbps = problem.cluster.degree * problem.cluster.link_gbps / problem.cluster.gpus_per_server
    findings.hold(
        "rails",
        ("schedule", job.schedule, strategy.schedule),
        ("stages", (job.ranks, job.chunks), (p, strategy.chunks)),
        ("micro-batches", job.micro_batches, problem.batch.sequences // (strategy.data * strategy.micro_batch)),
        ("inside", job.inside, inside),
        ("servers", (job.data_servers, job.expert_servers), (servers, own if inside is PortUse.EXPERT else 1)),
        ("ports", job.ports, settings.ports),
        ("overlap", (job.blocking, job.overlapped), (p > 1 and not problem.overlap.pipeline, problem.overlap.data)),
        ("layers", job.layers, tuple(round(n) for n in rows.layers[:, 0].tolist())),
    )
    if differs(job.circuit_share, (settings.port_gbps or gpu_gbps) / gpu_gbps, Tolerance.ROUNDING.relative):
        findings.add("rails", f"a circuit has {job.circuit_share!r} of the rate of a GPU")
    sent = sent_by(problem, r, rates)
    away = [slow * n * float(sent.expert[0]) if inside is PortUse.EXPERT else 0.0 for n in routed]
    start = (problem.cluster.message_latency_us + rates.stage_hops * problem.cluster.hop_latency_us) / 1e6
    hop = float(sent.hop[0])
    ends = 0.0 if strategy.zero == 3 else 1.0
    step = (
        max(float(rows.step[rank::p, 0].sum()) for rank in range(p)) + slow * problem.device.reached.iteration_ms / 1e3
    )
    _same(findings, "forward_s", job.forward_s, [a - b for a, b in zip(rows.forward[:, 0].tolist(), away, strict=True)])
    _same(findings, "inputs_s", job.inputs_s, [a - b for a, b in zip(rows.inputs[:, 0].tolist(), away, strict=True)])
    _same(findings, "weights_s", job.weights_s, rows.weights[:, 0].tolist())
    _same(findings, "hop_s", job.hop_s, (slow * start, slow * (hop - start)) if p > 1 else (0.0, 0.0))
    _same(findings, "reduced_s", job.reduced_s, (ends * rows.reduced / rows.layers)[:, 0].tolist())
    _same(findings, "gathered_s", job.gathered_s, (ends * rows.gathered / rows.layers)[:, 0].tolist())
    _same(findings, "optimizer_s", (job.optimizer_s,), (step,))
    _check_exchange(findings, problem, rows, job, r, rates, routed)


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


def _check_exchange(
    findings: ViolationLog,
    problem: LlmTrainingProblem,
    rows: StageRows,
    job: RailJob,
    r: Records,
    rates: DimensionRates,
    routed: list[int],
) -> None:
    """What passes exchange."""
    if (job.exchange is None) != (job.inside is None):
        findings.add("rails", "passes exchange something that is not said, or nothing")
    if job.exchange is None:
        return
    given = [
        (one.crossing_s[0], one.crossing_s[1], one.within_s, one.fixed_s, one.head_s, one.tail_s)
        for one in job.exchange
    ]
    due = _tokens(problem, r, rates, routed) if job.inside is PortUse.EXPERT else _weights(rows)
    for stage, (stated, own) in enumerate(zip(given, due, strict=True)):
        _same(findings, f"the exchange of stage {stage}", stated, own)
    hidden = job.inside is PortUse.DATA and problem.overlap.data
    if any(one.hidden != hidden for one in job.exchange):
        findings.add("rails", f"what passes exchange is hidden: {hidden} is due")


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
