"""Reconfiguration delays swept for a job: one-shot network, schedules by phase, demand-driven circuits, break-even."""

from __future__ import annotations

import math
from collections.abc import Sequence

from solvers.job.fabrics import Group, busy_phases, network_for, schedule_text, schedules, stages_of
from solvers.job.starts import effort_for
from solvers.stop import Stop
from topoopt.analyses.reconfiguration.break_even import At, break_even
from topoopt.analyses.reconfiguration.job import OutOfTimeError, Progress, SweptJob, strategies_of
from topoopt.core.comparison import BreakEven, DelayPoint, ReconfigurationSweep, Scheme, WhenBetter
from topoopt.core.errors import InputError, Problem
from topoopt.core.job import CoOptimisation
from topoopt.core.plan import Plan
from topoopt.core.process import versions
from topoopt.core.proofs import StopReason
from topoopt.core.workload import TaskGraph
from topoopt.simulate.circuits import (
    DYNAMIC_FABRICS,
    CircuitPolicy,
    CircuitTiming,
    Phase,
    Stage,
    simulate_circuits,
    simulate_stages,
)
from topoopt.simulate.network import Network

PHASES = "per-phase"
SCHEMES = (PHASES, *DYNAMIC_FABRICS)
"""What may be compared with the one-shot network."""


def reconfiguration_sweep(
    instance: CoOptimisation,
    plan: Plan,
    *,
    delays_ms: Sequence[float],
    schemes: Sequence[str] = SCHEMES,
    period_ms: float | None = None,
    iterations: int = 1,
    judged: bool = True,
    proposals: int = 500,
    seed: int = 0,
    stop: Stop | None = None,
    progress: Progress | None = None,
) -> ReconfigurationSweep:
    """Simulate a job at every delay, all schemes by the same flow-level model.

    `one-shot` is the plan on its own network, which no delay touches. `per-phase` takes the best schedule at each
    delay. Demand-driven fabrics take the best at each delay of the plan's strategy, one searched on an ideal switch
    and data parallelism.

    Args:
        period_ms: time circuits of the demand-driven fabrics stay; None: 4 times the dark time before.
        iterations: simulated in a row on these fabrics; their mean counts.
        judged: whether break-even delays are looked for; without delay, circuits change every 10 us, so that takes
            longer than the delays themselves.
        proposals: of the strategy search on the ideal switch.
        stop: what is not simulated in time is left out, and `stopped_by` says so.

    Raises:
        InputError: no delay, a negative or infinite one, an unknown scheme, a bad period.
    """
    _refuse(delays_ms, schemes, period_ms, iterations)
    stop = stop or Stop()
    job = SweptJob(instance, plan, seed, period_ms, iterations, stop, progress)
    delays = sorted(set(delays_ms))
    one_shot = simulate_stages(job.graph, [Stage(tuple(Phase), job.network)], 0.0)
    flat = tuple(DelayPoint(delay, one_shot.iteration_time_ms, plan.topology.origin, 0, 0.0) for delay in delays)
    found = [Scheme("one-shot", "the plan on the network it was made for, set once", flat)]
    notes = ["flow-level model: max-min fair shares, bytes of a pair in order of arrival"]
    strategies: list[tuple[str, TaskGraph]] = []
    if any(name in DYNAMIC_FABRICS for name in schemes):
        strategies = strategies_of(job, proposals)
    for name in schemes:
        at, description = _scheme(job, name, strategies, notes)
        if at is None:
            continue
        found.append(swept(name, description, at, delays, one_shot.iteration_time_ms if judged else None))
    return ReconfigurationSweep(
        name=instance.name,
        servers=instance.cluster.servers,
        degree=instance.cluster.degree,
        link_gbps=instance.cluster.link_gbps,
        schemes=tuple(found),
        strategies=tuple(name for name, _ in strategies),
        stopped_by=stop.reason() or StopReason.CONVERGED,
        seed=seed,
        instance_sha256=instance.sha256,
        versions=versions(),
        notes=tuple(notes),
    )


def _refuse(delays_ms: Sequence[float], schemes: Sequence[str], period_ms: float | None, iterations: int) -> None:
    problems = []
    if not delays_ms:
        problems.append(Problem("no delay to sweep", path="delays"))
    for delay in delays_ms:
        if not 0 <= delay < math.inf:
            allowed = "at least 0, finite"
            problems.append(Problem("bad reconfiguration delay", path="delays", value=str(delay), allowed=allowed))
    if period_ms is not None and not 0 < period_ms < math.inf:
        problems.append(Problem("bad period", path="period", value=str(period_ms), allowed="above 0, finite"))
    if iterations < 1:
        problems.append(Problem("no iteration", path="iterations", value=str(iterations), allowed="at least 1"))
    for name in schemes:
        if name not in SCHEMES:
            problems.append(Problem("unknown scheme", path="fabrics", value=name, allowed=", ".join(SCHEMES)))
    if problems:
        raise InputError(problems)


def _scheme(
    job: SweptJob, name: str, strategies: list[tuple[str, TaskGraph]], notes: list[str]
) -> tuple[At | None, str]:
    if name == PHASES:
        at = _by_phases(job)
        if at is None:
            notes.append("per-phase: left out, all traffic is of one phase or the time is up")
        return at, "networks of their own for forward, backward and AllReduce traffic, best schedule at each delay"
    policy = DYNAMIC_FABRICS[name]
    if policy.forwarding and job.instance.cluster.degree < 2 and job.instance.cluster.servers > 2:
        notes.append(f"{name}: left out, one interface per server cannot connect all servers")
        return None, ""
    return _by_demand(job, name, policy, strategies), policy.description


def _by_phases(job: SweptJob) -> At | None:
    busy = busy_phases(job.graph)
    networks: dict[Group, Network] = {}
    for schedule in schedules(busy):
        for group in schedule:
            if group not in networks:
                if job.stop.reason() is not None:
                    return None
                networks[group] = network_for(
                    job.instance.cluster,
                    job.graph,
                    group,
                    job.network,
                    candidates=effort_for(job.instance.cluster.servers).topologies,
                    seed=job.seed,
                    stop=job.stop,
                )
    if not networks:
        return None

    def at(delay_ms: float) -> DelayPoint:
        points = []
        for schedule in schedules(busy):
            job.step(PHASES, delay_ms)
            run = simulate_stages(job.graph, stages_of(schedule, networks), delay_ms)
            text = schedule_text(schedule) if run.reconfigurations else "one network for all"
            points.append(DelayPoint(delay_ms, run.iteration_time_ms, text, run.reconfigurations, run.dark_ms))
        return min(points, key=lambda point: point.iteration_time_ms)

    return at


def _by_demand(job: SweptJob, name: str, policy: CircuitPolicy, strategies: list[tuple[str, TaskGraph]]) -> At:
    def at(delay_ms: float) -> DelayPoint:
        points = []
        timing = CircuitTiming(delay_ms, job.period_ms)
        for label, graph in strategies:
            job.step(name, delay_ms)
            run = simulate_circuits(
                graph, job.instance.cluster, policy, timing, seed=job.seed, iterations=job.iterations
            )
            each = run.dark_ms / job.iterations
            changes = round(run.reconfigurations / job.iterations)
            points.append(DelayPoint(delay_ms, run.iteration_time_ms, label, changes, each))
        return min(points, key=lambda point: point.iteration_time_ms)

    return at


def swept(name: str, description: str, at: At, delays: Sequence[float], one_shot_ms: float | None) -> Scheme:
    """A scheme at all delays, as far as the time goes, and its break-even delay against a time, if one is given."""
    points: list[DelayPoint] = []
    try:
        for delay in delays:
            points.append(at(delay))
        judgement = None if one_shot_ms is None else break_even(at, points, one_shot_ms)
        return Scheme(name, description, tuple(points), judgement)
    except OutOfTimeError:
        return Scheme(name, description, tuple(points), BreakEven(WhenBetter.OPEN))
