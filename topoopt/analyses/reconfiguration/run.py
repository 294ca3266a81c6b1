"""Reconfiguration delays are swept for a job or a trace of demands, up to the delay at which the one-shot network
wins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from solvers.job.annealing import AnnealSettings, anneal, graph_shape, memory_capacity, overflow_bytes
from solvers.job.fabrics import Group, busy_phases, network_for, schedule_text, schedules, stages_of
from solvers.job.starts import data_parallel, effort_for
from solvers.network.routing import route
from solvers.network.search import search_topology
from solvers.network.worst_case import search_budget
from solvers.stop import Stop
from solvers.timing import LateError
from topoopt.core.errors import CheckError, InfeasibleError, InputError, LimitError, Problem, raise_any
from topoopt.core.job import CoOptimisation, Plan
from topoopt.core.network import NetworkProblem, TopologyProblem
from topoopt.core.outcomes import BreakEven, DelayPoint, ReconfigurationSweep, Scheme
from topoopt.core.process import versions
from topoopt.core.proofs import StopReason, Tolerance, beats
from topoopt.core.topology import Topology
from topoopt.core.workload import Strategy, TaskGraph, strided_groups
from topoopt.simulate.circuits import (
    DYNAMIC_FABRICS,
    CircuitPolicy,
    Phase,
    simulate_circuits,
    simulate_stages,
)
from topoopt.simulate.fabrics import FabricOptions, ideal_switch, plan_network
from topoopt.simulate.network import Network, build_task_graph, network_arrays, workload_arrays
from topoopt.verify.network.bounds import quick_bound
from topoopt.verify.network.checker import NetworkResult

__all__ = ["break_even", "reconfiguration_sweep"]


Progress = Callable[[str, float], None]
"""Called with (scheme, delay) before each is simulated."""


@dataclass
class SweptJob:
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
        plan.require_rings("reconfiguration")
        self.network = plan_network(cluster, plan)
        self.network.require_rings("reconfiguration")

    def step(self, scheme: str, delay_ms: float) -> None:
        if self.stop.reason() is not None:
            raise LateError
        if self.progress is not None:
            self.progress(scheme, delay_ms)


def strategies_of(job: SweptJob, proposals: int) -> list[tuple[str, TaskGraph]]:
    """Distinct strategies to try where circuits follow demand; those that do not fit in memory are left out."""
    cluster, workload = job.instance.cluster, job.instance.workload
    arrays, capacity = workload_arrays(cluster, workload), memory_capacity(cluster)
    named: dict[Strategy, str] = {job.plan.strategy: "strategy of the plan"}
    plain = data_parallel(cluster.servers, workload)
    if overflow_bytes(arrays, plain, capacity) == 0:
        named.setdefault(plain, "data parallel")
    switch = ideal_switch(cluster, strided_groups(cluster.servers), FabricOptions(seed=job.seed))
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


FASTER = 1e-9
"""Relative difference that counts as faster."""

BISECTION_RATIO = 1.02
"""Break-even delays of simulations are known to this factor."""

LEAST_DELAY_MS = 1e-6
"""Below a nanosecond no break-even is looked for."""

At = Callable[[float], DelayPoint]
"""A scheme simulated at a delay, ms."""


def break_even(at: At, points: Sequence[DelayPoint], one_shot_ms: float, ratio: float = BISECTION_RATIO) -> BreakEven:
    """The largest delay at which a scheme beats the one-shot network, between two simulated delays.

    Of several crossings on the grid of `points` (ascending, at least one) the last is taken; where no point wins, the
    scheme is also tried without delay. The two delays are at most `ratio` apart.
    """

    def wins(point: DelayPoint) -> bool:
        return point.iteration_time_ms < one_shot_ms * (1 - FASTER)

    winning = [index for index, point in enumerate(points) if wins(point)]
    if winning:
        low = points[winning[-1]]
        if winning[-1] + 1 == len(points):
            return BreakEven("at every delay tried", low)
        high = points[winning[-1] + 1]
    else:
        low, high = at(0.0), points[0]
        if not wins(low) or high.delay_ms == 0.0:
            return BreakEven("never", None, low)
    while high.delay_ms > max(low.delay_ms * ratio, LEAST_DELAY_MS):
        middle = at(math.sqrt(max(low.delay_ms, LEAST_DELAY_MS / 2) * high.delay_ms))
        low, high = (middle, high) if wins(middle) else (low, middle)
    return BreakEven("up to", low, high)


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
    others = []
    if period_ms is not None and not 0 < period_ms < math.inf:
        others.append(Problem("bad period", path="period", value=str(period_ms), allowed="above 0, finite"))
    if iterations < 1:
        others.append(Problem("no iteration", path="iterations", value=str(iterations), allowed="at least 1"))
    refuse_sweep(delays_ms, schemes, tuple(SCHEMES), others)
    stop = stop or Stop()
    job = SweptJob(instance, plan, seed, period_ms, iterations, stop, progress)
    delays = sorted(set(delays_ms))
    one_shot_ms = simulate_stages(job.graph, [(tuple(Phase), job.network)], 0.0)[0]
    flat = tuple(DelayPoint(delay, one_shot_ms, plan.topology.origin, 0, 0.0) for delay in delays)
    evaluated = [Scheme("one-shot", "the plan on the network it was made for, set once", flat)]
    notes = ["flow-level model: max-min fair shares, bytes of a pair in order of arrival"]
    strategies: list[tuple[str, TaskGraph]] = []
    if any(name in DYNAMIC_FABRICS for name in schemes):
        strategies = strategies_of(job, proposals)
    for name in schemes:
        at, description = _scheme(job, name, strategies, notes)
        if at is None:
            continue
        evaluated.append(swept(name, description, at, delays, one_shot_ms if judged else None))
    return ReconfigurationSweep(
        name=instance.name,
        servers=instance.cluster.servers,
        degree=instance.cluster.degree,
        link_gbps=instance.cluster.link_gbps,
        schemes=tuple(evaluated),
        strategies=tuple(name for name, _ in strategies),
        stopped_by=stop.reason() or StopReason.CONVERGED,
        seed=seed,
        instance_sha256=instance.sha256,
        versions=versions(),
        notes=tuple(notes),
    )


def refuse_sweep(
    delays_ms: Sequence[float], schemes: Sequence[str], listed: Sequence[str], others: Sequence[Problem] = ()
) -> None:
    """Raise all that is wrong with the delays and the schemes of a sweep, and the other problems between these."""
    problems = [] if delays_ms else [Problem("no delay to sweep", path="delays")]
    for delay in delays_ms:
        if not 0 <= delay < math.inf:
            allowed = "at least 0, finite"
            problems.append(Problem("bad reconfiguration delay", path="delays", value=str(delay), allowed=allowed))
    problems += others
    for name in schemes:
        if name not in listed:
            problems.append(Problem("unknown scheme", path="fabrics", value=name, allowed=", ".join(listed)))
    raise_any(problems)


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
            time_ms, dark_ms, changes, _ = simulate_stages(job.graph, stages_of(schedule, networks), delay_ms)
            text = schedule_text(schedule) if changes else "one network for all"
            points.append(DelayPoint(delay_ms, time_ms, text, changes, dark_ms))
        return min(points, key=lambda point: point.iteration_time_ms)

    return at


def _by_demand(job: SweptJob, name: str, policy: CircuitPolicy, strategies: list[tuple[str, TaskGraph]]) -> At:
    def at(delay_ms: float) -> DelayPoint:
        points = []
        for label, graph in strategies:
            job.step(name, delay_ms)
            run = simulate_circuits(
                graph, job.instance.cluster, policy, delay_ms, job.period_ms, seed=job.seed, iterations=job.iterations
            )
            per_iteration_ms = run.dark_ms / job.iterations
            changes = round(run.reconfigurations / job.iterations)
            points.append(DelayPoint(delay_ms, run.iteration_time_ms, label, changes, per_iteration_ms))
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
    except LateError:
        return Scheme(name, description, tuple(points), BreakEven("not decided in time"))


REROUTED = "rerouted"
EVERY_STEP = "every-step"
BEST_SEQUENCE = "best-sequence"
TRACE_SCHEMES = (REROUTED, EVERY_STEP, BEST_SEQUENCE)
"""What may be compared with the one network of a trace."""

MOST_ROUTINGS = 600
"""Steps times topologies routed for sequences; beyond, only the step's own topology and the one for all are."""

ACCURACY = 1e-4

SAME = 1e-6
"""Relative gain of theta that is worth no new links."""

EXACT = 1 + 1e-12
"""Break-even delays of formulas are found to this factor."""


@dataclass(frozen=True, eq=False)
class StepNetworks:
    """Topologies at hand, and theta of every step on them.

    Attributes:
        topologies: the one network first.
        topology_of: int64[k], index of the topology of each step.
        thetas: float64[k, topologies], routing adapted to the step; infinite where it was not routed.
    """

    topologies: tuple[Topology, ...]
    topology_of: NDArray[np.int64]
    thetas: NDArray[np.float64]

    @property
    def rerouted(self) -> NDArray[np.float64]:
        """float64[k]: on the one network."""
        return self.thetas[:, 0]

    @property
    def own(self) -> NDArray[np.float64]:
        """float64[k]: each step on its own topology."""
        return self.thetas[np.arange(len(self.topology_of)), self.topology_of]

    @property
    def changes(self) -> int:
        """How often links change when every step is on its own topology."""
        return int(np.count_nonzero(self.topology_of[1:] != self.topology_of[:-1]))


def trace_sweep(
    problem: NetworkProblem,
    solution: NetworkResult,
    *,
    delays_ms: Sequence[float],
    schemes: Sequence[str] = TRACE_SCHEMES,
    seed: int = 0,
    stop: Stop | None = None,
) -> ReconfigurationSweep:
    """All steps of a trace at every delay: on the network of the solution, rerouted, and on links set anew.

    Raises:
        InputError: an unknown scheme, one demand only, or no length of a step.
        CheckError: a step beats its bound (a bug of ours).
    """
    step_ms = _step_ms(problem, schemes)
    stop = stop or Stop()
    delays = sorted(set(delays_ms))
    fixed = np.array(solution.figures.thetas)
    result = [
        _trace_scheme("one-shot", "the network and routing of the solution, set once", _always(fixed, step_ms), delays)
    ]
    notes = ["a step takes its theta times its length; the links for the first step are set beforehand"]
    networks = step_networks(problem, solution, seed, stop)
    if networks is None:
        notes.append("links of their own for every step: left out, the time is up")
    else:
        one_shot_ms, rerouted_ms = (float(theta.sum()) * step_ms for theta in (fixed, networks.rerouted))
        common = solution.figures.mode == "common"
        if networks.changes == 0:
            notes.append("no step wants other links than the one before")
        for name, (at, thetas, description) in _anew(networks, step_ms).items():
            if name not in schemes or (name == REROUTED and not common):
                continue
            scheme = replace(_trace_scheme(name, description, at, delays), thetas=tuple(thetas.tolist()))
            against = break_even(at, scheme.points, rerouted_ms, EXACT) if common and name != REROUTED else None
            paid = break_even(at, scheme.points, one_shot_ms, EXACT)
            result.append(replace(scheme, break_even=paid, break_even_rerouted=against))
    return ReconfigurationSweep(
        name=problem.name,
        servers=solution.figures.topology.servers,
        degree=solution.figures.topology.degree,
        link_gbps=problem.link_gbps,
        schemes=(replace(result[0], thetas=solution.figures.thetas), *result[1:]),
        strategies=(),
        stopped_by=stop.reason() or StopReason.CONVERGED,
        seed=seed,
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=tuple(notes),
    )


def _step_ms(problem: NetworkProblem, schemes: Sequence[str]) -> float:
    if not problem.several or problem.step_ms is None:
        key = "step_ms" if problem.several else "demands"
        text = "delays need the length of a step" if problem.several else "links are set once for one demand"
        raise InputError([Problem(text, path=key, allowed="several demands, with step_ms")])
    unknown = [name for name in schemes if name not in TRACE_SCHEMES]
    if unknown:
        allowed = ", ".join(TRACE_SCHEMES)
        raise InputError([Problem("unknown scheme", path="fabrics", value=name, allowed=allowed) for name in unknown])
    return problem.step_ms


def step_networks(problem: NetworkProblem, solution: NetworkResult, seed: int, stop: Stop) -> StepNetworks | None:
    """Topologies for every step; None when the time is up before every step has its own.

    Raises:
        CheckError: a step beats its bound (a bug of ours).
    """
    network, demands = solution.figures.topology, problem.demands
    topologies = [network]
    network_of = np.zeros(len(demands), dtype=np.int64)
    if solution.figures.mode == "common":
        rerouted = np.array([route(network, demand).theta for demand in demands])
    else:
        rerouted = np.array(solution.figures.thetas)
    own = rerouted.copy()
    for k, demand in enumerate(demands):
        if stop.reason() is not None:
            return None
        alone = TopologyProblem(problem.name, network.servers, network.degree, network.links, demand)
        try:
            result = search_topology(alone, seed=seed, budget=search_budget(network.servers), stop=stop)
        except LimitError:
            continue
        value = route(result.topology, demand, accuracy=ACCURACY).theta
        if beats(value, quick_bound(alone).value, Tolerance.ROUNDING):
            raise CheckError(f"theta {value!r} of step {k} on links of its own is below its bound")
        if value < own[k] * (1 - SAME):
            own[k], network_of[k] = value, len(topologies)
            topologies.append(result.topology)
    thetas = np.full((len(demands), len(topologies)), np.inf)
    thetas[:, 0] = rerouted
    thetas[np.arange(len(demands)), network_of] = own
    if thetas.size <= MOST_ROUTINGS:
        _route_all(thetas, topologies, demands, stop)
    return StepNetworks(tuple(topologies), network_of, thetas)


def _route_all(
    thetas: NDArray[np.float64], topologies: Sequence[Topology], demands: NDArray[np.float64], stop: Stop
) -> None:
    """Fill in what is infinite, until the time is up; what no path joins stays."""
    for k, j in np.argwhere(np.isinf(thetas)).tolist():
        if stop.reason() is not None:
            return
        try:
            thetas[k, j] = route(topologies[j], demands[k], accuracy=ACCURACY).theta
        except InfeasibleError:
            continue


def _trace_scheme(name: str, description: str, at: At, delays: Sequence[float]) -> Scheme:
    return Scheme(name, description, tuple(at(delay) for delay in delays))


def _always(thetas: NDArray[np.float64], step_ms: float) -> At:
    return lambda delay_ms: DelayPoint(delay_ms, float(thetas.sum()) * step_ms, "one network", 0, 0.0)


def _anew(
    networks: StepNetworks, step_ms: float
) -> dict[str, tuple[Callable[[float], DelayPoint], NDArray[np.float64], str]]:
    """Of every scheme: its time at a delay, theta of every step without any, and what it does."""
    changes, total = networks.changes, float(networks.own.sum()) * step_ms

    def every(delay_ms: float) -> DelayPoint:
        dark_ms = delay_ms * changes
        return DelayPoint(delay_ms, total + dark_ms, "links of its own for each step", changes, dark_ms)

    def best(delay_ms: float) -> DelayPoint:
        time, count = best_sequence(networks.thetas * step_ms, delay_ms)
        text = f"{count} changes of links" if count else "one network for all"
        return DelayPoint(delay_ms, time, text, count, count * delay_ms)

    least = networks.thetas.min(axis=1)
    return {
        REROUTED: (_always(networks.rerouted, step_ms), networks.rerouted, "links set once, routes for every step"),
        EVERY_STEP: (every, networks.own, "links and routes of its own for every step"),
        BEST_SEQUENCE: (best, least, "of the networks at hand the best for each step, links changed where it pays"),
    }


def best_sequence(times: NDArray[np.float64], delay: float) -> tuple[float, int]:
    """Least total time over sequences of topologies, and how often they change (dynamic program).

    The least time to be on topology j after step k is its time there plus the lesser of staying and coming from the
    best other one.

    Args:
        times: float64[k, topologies].
        delay: of a change, in the same unit.
    """
    best = times[0].copy()
    count = np.zeros(len(best), dtype=np.int64)
    for row in times[1:]:
        cheapest = int(np.argmin(best))
        moved = best[cheapest] + delay < best
        count = np.where(moved, count[cheapest] + 1, count)
        best = np.where(moved, best[cheapest] + delay, best) + row
    end = int(np.argmin(best))
    return float(best[end]), int(count[end])
