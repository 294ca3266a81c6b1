"""Candidates of the alternating loop as plans, and those of different strategies among them."""

from __future__ import annotations

from collections.abc import Iterable

from solvers.job.loop import Candidate
from solvers.job.realise import routes_of_pairs
from solvers.job.scheduled import allreduce_sizes
from solvers.job.topology_step import TopologyStep
from topoopt.core.collective import schedule_for
from topoopt.core.plan import Plan
from topoopt.core.workload import Strategy
from topoopt.simulate.demand import demand_of


def distinct_strategies(reached: Candidate, others: Iterable[Candidate]) -> list[Candidate]:
    """One candidate for each strategy: what was reached, then the others, fast ones first."""
    found: dict[Strategy, Candidate] = {}
    for each in (reached, *sorted(others, key=lambda each: each.iteration_time_ms)):
        found.setdefault(each.strategy, each)
    return list(found.values())


def plan_of(step: TopologyStep, candidate: Candidate) -> Plan:
    """The plan of a candidate: rings and schedules in use, and routes of the pairs with demand, no more."""
    graph, own = step.graph(candidate.strategy), candidate.realisation
    demand = demand_of(graph)
    sizes = allreduce_sizes(graph)

    def on_rings(members: tuple[int, ...]) -> bool:
        return any(schedule_for(own.schedules, members, size) is None for size in sizes[tuple(sorted(members))])

    used = {group.members for group in demand.allreduce if on_rings(group.members)}
    rings = tuple(group for group in own.rings if group.members in used)
    routes = routes_of_pairs(own.routes, demand.model_parallel_bytes > 0)
    return Plan(candidate.strategy, own.topology, routes, rings, own.schedules)
