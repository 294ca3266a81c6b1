"""Reconfiguration delays swept for a job: one-shot network, schedules by phase, demand-driven circuits, break-even."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from solvers.heuristics.phase_networks import Group, busy_phases, network_for, schedule_text, schedules, stages_of
from solvers.heuristics.strategy.anneal import AnnealSettings, anneal, memory_capacity
from solvers.heuristics.strategy.anneal_kernel import quick_bounds
from solvers.heuristics.strategy.moves import graph_shape
from solvers.heuristics.strategy.starts import data_parallel
from solvers.methods import candidate_limit
from solvers.stop import Stop
from topoopt.core.errors import InputError, Problem
from topoopt.core.instance import CoOptimisation
from topoopt.core.plan import Plan
from topoopt.core.reconfiguration import BreakEven, DelayPoint, ReconfigurationSweep, Scheme, Verdict
from topoopt.core.status import StopReason
from topoopt.core.strategy import Strategy, strided_groups
from topoopt.core.taskgraph import TaskGraph
from topoopt.core.versions import versions
from topoopt.simulate.circuits import (
    DYNAMIC_FABRICS,
    CircuitPolicy,
    CircuitTiming,
    Phase,
    Stage,
    simulate_circuits,
    simulate_stages,
)
from topoopt.simulate.events import network_arrays
from topoopt.simulate.fabrics import FABRICS, FabricOptions, direct_connect_network
from topoopt.simulate.lower import build_task_graph, strategy_arrays, workload_arrays
from topoopt.simulate.network import Network

PHASES = "per-phase"
SCHEMES = (PHASES, *DYNAMIC_FABRICS)
"""What may be compared with the one-shot network."""

FASTER = 1e-9
"""Relative difference that counts as faster."""

BISECTION_RATIO = 1.02
"""Break-even delays are known to this factor."""

LEAST_DELAY_MS = 1e-6
"""Below a nanosecond no break-even is looked for."""

Progress = Callable[[str, float], None]
"""Called with (scheme, delay) before each is simulated."""


class _OutOfTimeError(Exception):
    """The time is up; nothing more is simulated."""


@dataclass
class _Job:
    """A job, its one-shot network, and everything simulated so far."""

    instance: CoOptimisation
    plan: Plan
    seed: int
    period_ms: float | None
    iterations: int
    stop: Stop
    progress: Progress | None
    graph: TaskGraph = field(init=False)
    network: Network = field(init=False)

    def __post_init__(self) -> None:
        cluster, plan = self.instance.cluster, self.plan
        self.graph = build_task_graph(cluster, self.instance.workload, plan.strategy)
        self.network = direct_connect_network(cluster, plan.topology, plan.routes, plan.rings)

    def step(self, scheme: str, delay_ms: float) -> None:
        """Before anything is simulated."""
        if self.stop.reason() is not None:
            raise _OutOfTimeError
        if self.progress is not None:
            self.progress(scheme, delay_ms)


At = Callable[[float], DelayPoint]


def reconfiguration_sweep(
    instance: CoOptimisation,
    plan: Plan,
    *,
    delays_ms: Sequence[float],
    schemes: Sequence[str] = SCHEMES,
    period_ms: float | None = None,
    iterations: int = 1,
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
        proposals: of the strategy search on the ideal switch.
        stop: what is not simulated in time is left out, and `stopped_by` says so.

    Raises:
        InputError: no delay, a negative or infinite one, an unknown scheme, a bad period.
    """
    _refuse(delays_ms, schemes, period_ms, iterations)
    stop = stop or Stop()
    job = _Job(instance, plan, seed, period_ms, iterations, stop, progress)
    delays = sorted(set(delays_ms))
    one_shot = simulate_stages(job.graph, [Stage(tuple(Phase), job.network)], 0.0)
    flat = tuple(DelayPoint(delay, one_shot.iteration_time_ms, plan.topology.origin, 0, 0.0) for delay in delays)
    found = [Scheme("one-shot", "the plan on the network it was made for, set once", flat)]
    notes = ["flow-level model: max-min fair shares, bytes of a pair in order of arrival"]
    strategies: list[tuple[str, TaskGraph]] = []
    if any(name in DYNAMIC_FABRICS for name in schemes):
        strategies = _strategies(job, proposals)
    for name in schemes:
        at, description = _scheme(job, name, strategies, notes)
        if at is None:
            continue
        found.append(_swept(name, description, at, delays, one_shot.iteration_time_ms))
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


def _strategies(job: _Job, proposals: int) -> list[tuple[str, TaskGraph]]:
    """Distinct strategies to try where circuits follow demand; those that do not fit in memory are left out."""
    cluster, workload = job.instance.cluster, job.instance.workload
    arrays, capacity = workload_arrays(cluster, workload), memory_capacity(cluster)
    named: dict[Strategy, str] = {job.plan.strategy: "strategy of the plan"}
    plain = data_parallel(cluster.servers, workload)
    if quick_bounds(arrays, *strategy_arrays(plain), capacity)[1] == 0:
        named.setdefault(plain, "data parallel")
    switch = FABRICS["ideal-switch"](cluster, strided_groups(cluster.servers), FabricOptions(seed=job.seed))
    result = anneal(
        arrays,
        network_arrays(switch),
        graph_shape(workload),
        job.plan.strategy,
        AnnealSettings(proposals),
        capacity=capacity,
        seed=job.seed,
        stop=job.stop,
    )
    named.setdefault(result.strategy, "searched on an ideal switch")
    return [(name, build_task_graph(cluster, workload, strategy)) for strategy, name in named.items()]


def _scheme(job: _Job, name: str, strategies: list[tuple[str, TaskGraph]], notes: list[str]) -> tuple[At | None, str]:
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


def _by_phases(job: _Job) -> At | None:
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
                    candidates=candidate_limit(job.instance.cluster.servers),
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


def _by_demand(job: _Job, name: str, policy: CircuitPolicy, strategies: list[tuple[str, TaskGraph]]) -> At:
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


def _swept(name: str, description: str, at: At, delays: Sequence[float], one_shot_ms: float) -> Scheme:
    points: list[DelayPoint] = []
    try:
        for delay in delays:
            points.append(at(delay))
        return Scheme(name, description, tuple(points), break_even(at, points, one_shot_ms))
    except _OutOfTimeError:
        return Scheme(name, description, tuple(points), BreakEven(Verdict.OPEN))


def break_even(at: At, points: Sequence[DelayPoint], one_shot_ms: float) -> BreakEven:
    """The largest delay at which a scheme beats the one-shot network, between two simulated delays.

    Of several crossings on the grid of `points` (ascending, at least one) the last is taken; where no point wins, the
    scheme is also tried without delay.
    """

    def wins(point: DelayPoint) -> bool:
        return point.iteration_time_ms < one_shot_ms * (1 - FASTER)

    winning = [place for place, point in enumerate(points) if wins(point)]
    if winning:
        low = points[winning[-1]]
        if winning[-1] + 1 == len(points):
            return BreakEven(Verdict.ALWAYS, low)
        high = points[winning[-1] + 1]
    else:
        low, high = at(0.0), points[0]
        if not wins(low) or high.delay_ms == 0.0:
            return BreakEven(Verdict.NEVER, None, low)
    while high.delay_ms > max(low.delay_ms * BISECTION_RATIO, LEAST_DELAY_MS):
        middle = at(math.sqrt(max(low.delay_ms, LEAST_DELAY_MS / 2) * high.delay_ms))
        low, high = (middle, high) if wins(middle) else (low, middle)
    return BreakEven(Verdict.UP_TO, low, high)
