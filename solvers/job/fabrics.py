"""A job gets the best strategy on other fabrics than that of its plan, and phases of its iteration get networks of
their own.

A schedule says which phases share a network. There are few of them (cyclic cuts of three phases: four besides the
one-shot network), so all are simulated at every delay: the choice is exact for the networks at hand, which come from
the portfolio of topologies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.job.annealing import (
    FAR_ON_FABRICS,
    AnnealSettings,
    GraphShape,
    StrategyAnnealResult,
    anneal,
    graph_shape,
    memory_capacity,
    overflow_bytes,
    promising,
)
from solvers.job.realise import demand_routed, realise
from solvers.job.starts import effort_for, starting_strategies
from solvers.network.finder import candidate_topologies
from solvers.stop import Stop, first_part
from topoopt.core.arrays import seed_for
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError
from topoopt.core.job import Baseline, FabricChoice
from topoopt.core.workload import Strategy, TaskGraph, TaskKind, Workload, strided_groups
from topoopt.simulate.circuits import Phase, Stage, phases_of
from topoopt.simulate.fabrics import FABRICS, FabricOptions
from topoopt.simulate.network import (
    Network,
    WorkloadArrays,
    build_task_graph,
    demand_of,
    network_arrays,
    workload_arrays,
)
from topoopt.simulate.time_models.evaluate import rounds_within, simulate


@dataclass(frozen=True, eq=False)
class FabricJob:
    """A job, and the strategies tried on every fabric: those that fit into memory."""

    cluster: Cluster
    workload: Workload
    arrays: WorkloadArrays
    shape: GraphShape
    capacity: float
    strategies: tuple[Strategy, ...]


def fabric_job(cluster: Cluster, workload: Workload, plans: Sequence[Strategy]) -> FabricJob:
    """The strategies are those found before, then the starting ones, the promising of them; if none fits into
    memory, the first alone."""
    arrays, capacity = workload_arrays(cluster, workload), memory_capacity(cluster)

    def fits(strategy: Strategy) -> bool:
        return overflow_bytes(arrays, strategy, capacity) == 0

    starts = starting_strategies(cluster, workload)
    within = [start for start in starts if fits(start.strategy)]
    tried = promising(cluster, workload, within, far=FAR_ON_FABRICS)
    fitting = [*filter(fits, plans), *(start.strategy for start in tried)]
    chosen = fitting or [*plans, starts[0].strategy][:1]
    return FabricJob(cluster, workload, arrays, graph_shape(workload), capacity, tuple(dict.fromkeys(chosen)))


def search_strategy(job: FabricJob, network: Network, *, proposals: int, seed: int, stop: Stop) -> StrategyAnnealResult:
    """Search on one network.

    All strategies of the job are simulated, on large clusters by `hop` and the best of them by `rounds`. The best is
    annealed. Once `stop` says so, only the first is tried.

    Args:
        job: on n servers.
        network: of n servers, with rings for all groups of `strided_groups(n)`, in that order.
        proposals: of the annealing.
        seed: of its moves.
        stop: looked at between strategies, and by the annealing.
    """
    positions: Sequence[int] = range(len(job.strategies))
    most = effort_for(job.cluster.servers).on_fabrics
    if len(positions) > most:
        by_hop = sorted(
            _timed(job, positions, stop, lambda graph, _: simulate(graph, network, "hop").iteration_time_ms)
        )
        positions = [position for _, position in by_hop[:most]]
    time_ms, position = min(_timed(job, positions, stop, lambda graph, best: rounds_within(graph, network, best)))
    start = job.strategies[position]
    settings = AnnealSettings(proposals)
    arrays = network_arrays(network)
    result = anneal(
        job.arrays, arrays, job.shape, start, settings, capacity=job.capacity, seed=seed, stop=stop, start_ms=time_ms
    )
    return result if result.iteration_time_ms < time_ms else replace(result, strategy=start, iteration_time_ms=time_ms)


def _timed(
    job: FabricJob, positions: Sequence[int], stop: Stop, time_ms: Callable[[TaskGraph, float], float]
) -> list[tuple[float, int]]:
    """(ms, position) of the strategies at these positions, of the first alone once `stop` says so.

    Args:
        time_ms: of a graph; may be infinite where it exceeds the least time before, which is given, too.
    """
    timed: list[tuple[float, int]] = []
    best = math.inf
    for position in positions:
        if timed and stop.reason() is not None:
            break
        graph = build_task_graph(job.cluster, job.workload, job.strategies[position])
        timed.append((time_ms(graph, best), position))
        best = min(best, timed[-1][0])
    return timed


Inspect = Callable[[FabricChoice, FabricOptions, Network], None]
"""Looks at the network of a fabric before a job is searched on it; raises if it is wrong."""


@dataclass(frozen=True)
class FabricSearch:
    """Settings of the comparison.

    Attributes:
        proposals: strategies proposed on each fabric.
        seed: of the searches.
        fabrics: what to compare, with the options of each.
        inspect: called with every network.
    """

    proposals: int
    seed: int
    fabrics: tuple[tuple[FabricChoice, FabricOptions], ...]
    inspect: Inspect | None = None


def best_on(
    job: FabricJob, search: FabricSearch, choice: FabricChoice, options: FabricOptions, stop: Stop
) -> tuple[Baseline, Network, int]:
    """The best strategy on one fabric, its network, and how many strategies were proposed.

    Raises:
        InputError: the cluster has no such fabric; the problem says why.
    """
    fabric = FABRICS[choice.fabric]
    network = fabric.build(job.cluster, strided_groups(job.cluster.servers), options)
    if search.inspect is not None:
        search.inspect(choice, options, network)
    seed = seed_for(search.seed, choice.fabric)
    result = search_strategy(job, network, proposals=search.proposals, seed=seed, stop=stop)
    description = fabric.describe(job.cluster, options)
    return Baseline(choice.name, result.iteration_time_ms, description, result.strategy), network, result.proposals


def left_out(choice: FabricChoice, error: InputError) -> str:
    """Why a fabric is missing from a comparison, in one line."""
    return f"no {choice.name} for this cluster: " + "; ".join(str(problem) for problem in error.problems)


Attempt = Callable[[str, Callable[[], Baseline | str]], Baseline | str | None]
"""Called with the name of a step and what does it; its result, or None if there is no time for it."""


def compare_fabrics(
    cluster: Cluster,
    workload: Workload,
    plans: Sequence[Strategy],
    search: FabricSearch,
    stop: Stop,
    attempt: Attempt,
) -> tuple[tuple[Baseline, ...], tuple[str, ...]]:
    """Iteration time (`rounds`) of the job on every fabric of the search, and notes on those that cannot be built.

    Those that `attempt` has no time for are missing.
    """
    jobs: list[FabricJob] = []
    lines = []
    for index, (choice, options) in enumerate(search.fabrics):
        share = 0.8 / (len(search.fabrics) - index)  # part of the time left that all fabrics together may take
        mine = stop if stop.deadline is None else first_part(stop, share, math.inf)

        def line(choice: FabricChoice = choice, options: FabricOptions = options, mine: Stop = mine) -> Baseline | str:
            if not jobs:
                jobs.append(fabric_job(cluster, workload, plans))
            try:
                return best_on(jobs[0], search, choice, options, mine)[0]
            except InputError as error:
                return left_out(choice, error)

        lines.append(attempt(f"baseline {choice.name}", line))
    baselines = tuple(row for row in lines if isinstance(row, Baseline))
    return baselines, tuple(row for row in lines if isinstance(row, str))


Group = frozenset[Phase]
Schedule = tuple[Group, ...]
"""Groups of phases with a network each; together all phases that have traffic."""

PHASE_WORDS = {Phase.FORWARD: "forward", Phase.BACKWARD: "backward", Phase.ALLREDUCE: "AllReduce"}


def busy_phases(graph: TaskGraph) -> tuple[Phase, ...]:
    """Phases with bytes to carry between servers."""
    phase = phases_of(graph)
    carried = (graph.bytes > 0) & (
        ((graph.kind == TaskKind.TRANSFER) & (graph.source != graph.target))
        | ((graph.kind == TaskKind.ALLREDUCE) & (graph.group >= 0))
    )
    return tuple(entry for entry in Phase if (carried & (phase == entry)).any())


def schedules(busy: Sequence[Phase]) -> tuple[Schedule, ...]:
    """All ways to give phases networks, other than one network for all.

    Phases that share a network follow each other, the first of an iteration also the last of the one before.
    """
    if len(busy) < 2:
        return ()
    alone = tuple(frozenset({single}) for single in busy)
    if len(busy) == 2:
        return (alone,)
    pairs = tuple((single, frozenset(busy) - single) for single in alone)
    return (*pairs, alone)


def schedule_text(schedule: Schedule) -> str:
    """`forward + backward | AllReduce`."""
    ordered = sorted(schedule, key=min)
    return " | ".join(" + ".join(PHASE_WORDS[entry] for entry in sorted(group)) for group in ordered)


def stages_of(schedule: Schedule, networks: Mapping[Group, Network]) -> tuple[Stage, ...]:
    """The stages of a schedule; a phase without traffic goes with the one before it (or the first)."""
    stages: list[Stage] = []
    for phase in Phase:
        group = next((group for group in schedule if phase in group), None)
        if group is None and not stages:
            group = min(schedule, key=min)
        if stages and (group is None or networks[group] is stages[-1][1]):
            stages[-1] = (*stages[-1][0], phase), stages[-1][1]
        elif group is not None:
            stages.append(((phase,), networks[group]))
    return tuple(stages)


def traffic_of(graph: TaskGraph, group: Group) -> TaskGraph:
    """Only the traffic of some phases, all ready at once."""
    phase = phases_of(graph)
    kept = np.flatnonzero((graph.kind >= TaskKind.TRANSFER) & np.isin(phase, list(group)))
    return replace(
        graph,
        kind=graph.kind[kept],
        source=graph.source[kept],
        target=graph.target[kept],
        group=graph.group[kept],
        duration_ms=np.zeros(len(kept)),
        bytes=graph.bytes[kept],
        operator=graph.operator[kept],
        successor_ptr=np.zeros(len(kept) + 1, dtype=np.int64),
        successor=np.zeros(0, dtype=np.int32),
    )


def network_for(
    cluster: Cluster, graph: TaskGraph, group: Group, incumbent: Network, *, candidates: int, seed: int, stop: Stop
) -> Network:
    """The network of the portfolio on which the phases' traffic, sent all at once, is through first.

    Args:
        incumbent: a network to beat, used if nothing is faster.
        candidates: topologies tried; the best gets routes balanced for the traffic.
    """
    traffic = traffic_of(graph, group)
    demand = demand_of(traffic)
    members = [allreduce.members for allreduce in demand.allreduce]
    best, best_ms = incumbent, simulate(traffic, incumbent).iteration_time_ms
    leader = None
    leader_ms = np.inf
    for topology in candidate_topologies(cluster, demand, limit=candidates, seed=seed):
        if stop.reason() is not None:
            return best
        realised = realise(cluster, topology, members, seed=seed)
        time_ms = simulate(traffic, realised.network).iteration_time_ms
        if time_ms < leader_ms:
            leader, leader_ms = realised, time_ms
    if leader is None:
        return best
    options = [leader, *demand_routed(cluster, leader, demand.model_parallel_bytes, seed=seed)]
    for option in options:
        time_ms = simulate(traffic, option.network).iteration_time_ms
        if time_ms < best_ms:
            best, best_ms = option.network, time_ms
    return best
