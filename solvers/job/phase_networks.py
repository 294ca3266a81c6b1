"""Networks of their own for phases of an iteration, and the schedules that can be made of them.

A schedule says which phases share a network. There are few of them (cyclic cuts of three phases: four besides the
one-shot network), so all are simulated at every delay: the choice is exact for the networks at hand, which come from
the portfolio of topologies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from solvers.job.realise import demand_routed, realise
from solvers.network.constructions import candidate_topologies
from solvers.stop import Stop
from topoopt.core.cluster import Cluster
from topoopt.core.workload import TaskGraph, TaskKind
from topoopt.simulate.circuits import Phase, Stage, phases_of
from topoopt.simulate.demand import demand_of
from topoopt.simulate.network import Network
from topoopt.simulate.time_models.evaluate import simulate

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
    return tuple(one for one in Phase if (carried & (phase == one)).any())


def schedules(busy: Sequence[Phase]) -> tuple[Schedule, ...]:
    """All ways to give phases networks, other than one network for all.

    Phases that share a network follow each other, the first of an iteration also the last of the one before.
    """
    if len(busy) < 2:
        return ()
    alone = tuple(frozenset({one}) for one in busy)
    if len(busy) == 2:
        return (alone,)
    pairs = tuple((one, frozenset(busy) - one) for one in alone)
    return (*pairs, alone)


def schedule_text(schedule: Schedule) -> str:
    """`forward + backward | AllReduce`."""
    ordered = sorted(schedule, key=min)
    return " | ".join(" + ".join(PHASE_WORDS[one] for one in sorted(group)) for group in ordered)


def stages_of(schedule: Schedule, networks: Mapping[Group, Network]) -> tuple[Stage, ...]:
    """The stages of a schedule; a phase without traffic goes with the one before it (or the first)."""
    stages: list[Stage] = []
    for phase in Phase:
        group = next((group for group in schedule if phase in group), None)
        if group is None and not stages:
            group = min(schedule, key=min)
        if stages and (group is None or networks[group] is stages[-1].network):
            stages[-1] = replace(stages[-1], phases=(*stages[-1].phases, phase))
        elif group is not None:
            stages.append(Stage((phase,), networks[group]))
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
    cluster: Cluster, graph: TaskGraph, group: Group, known: Network, *, candidates: int, seed: int, stop: Stop
) -> Network:
    """The network of the portfolio on which the phases' traffic, sent all at once, is through first.

    Args:
        known: a network to beat, used if nothing is faster.
        candidates: topologies tried; the best gets routes balanced for the traffic.
    """
    traffic = traffic_of(graph, group)
    demand = demand_of(traffic)
    members = [each.members for each in demand.allreduce]
    best, best_ms = known, simulate(traffic, known).iteration_time_ms
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
