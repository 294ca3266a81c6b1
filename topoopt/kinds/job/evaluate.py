"""A training job on a topology, or with a strategy, given by hand: rings and routes are made for them anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from solvers.job.given import plan_on
from solvers.job.methods import AUTO_PROGRAMS, allreduce_problems
from solvers.job.strategy.starts import data_parallel
from solvers.network.constructions.assemble import switched
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, Problem
from topoopt.core.job import CoOptimisation
from topoopt.core.job_solution import JobSolution
from topoopt.core.reachability import strongly_connected
from topoopt.core.search_settings import SearchSettings
from topoopt.core.strategy import Strategy
from topoopt.core.topology import Topology
from topoopt.kinds.job.found_plan import FoundPlan
from topoopt.kinds.kind import Effort


def given_plan(
    instance: CoOptimisation,
    effort: Effort,
    solution: JobSolution | None,
    *,
    topology: Topology | None = None,
    strategy: Strategy | None = None,
) -> tuple[CoOptimisation, FoundPlan]:
    """The instance, and the plan of what is given; the rest is as in `solution`, or data parallel.

    Raises:
        InputError: no topology, one of other servers or links, too many links at a server, not connected; a strategy
            of other operators or placements.
    """
    if topology is None:
        if solution is None:
            raise InputError(
                [Problem("no topology", path="topology", allowed="a topology, or a solution that has one")]
            )
        topology = solution.plan.topology
    if strategy is None:
        kept = (
            data_parallel(instance.cluster.servers, instance.workload) if solution is None else solution.plan.strategy
        )
        strategy = kept
    problems = _topology_problems(instance, topology) + _strategy_problems(instance, strategy)
    if problems:
        raise InputError(problems)
    shared = replace(instance.cluster, link_sharing=instance.sharings[0]) if solution is None else solution.cluster
    instance = instance.shared_as(shared)
    cluster, search = instance.cluster, effort.search
    unscheduled = allreduce_problems(SearchSettings(allreduce=search.allreduce), cluster)
    if unscheduled:
        raise InputError(unscheduled)
    result = plan_on(
        cluster,
        instance.workload,
        _patched(instance, topology),
        strategy,
        programs=tuple(name for name, most in AUTO_PROGRAMS.items() if cluster.servers <= most),
        allreduce=search.allreduce,
        seed=search.seed,
        stop=effort.stop,
    )
    return instance, FoundPlan(result, None, cluster)


def _patched(instance: CoOptimisation, topology: Topology) -> Topology:
    """The same links with interfaces and optical switches of the cluster."""
    cluster = instance.cluster
    units = np.repeat(topology.arcs, topology.multiplicity, axis=0)
    return switched(
        Topology.of_arcs(
            cluster.servers, units, degree=cluster.degree, links=cluster.links, origin=topology.origin or "given"
        )
    )


def _topology_problems(instance: CoOptimisation, topology: Topology) -> list[Problem]:
    cluster, counts = instance.cluster, topology.adjacency()
    if topology.servers != cluster.servers:
        text, value = "another number of servers", str(topology.servers)
        return [Problem(text, path="topology.servers", value=value, allowed=str(cluster.servers))]
    most = int(max(counts.sum(axis=0).max(), counts.sum(axis=1).max()))
    problems = []
    if most > cluster.degree:
        text, allowed = "more links at a server than its interfaces", f"at most {cluster.degree}"
        problems.append(Problem(text, path="topology", value=str(most), allowed=allowed))
    if cluster.links is LinkDirection.BIDIRECTIONAL and not np.array_equal(counts, counts.T):
        text, allowed = "links that lead one way only", "as many links back as forth: the cluster has fibre pairs"
        problems.append(Problem(text, path="topology", allowed=allowed))
    if not strongly_connected(topology.servers, topology.arcs):
        problems.append(Problem("not every server can reach every other", path="topology"))
    return problems


def _strategy_problems(instance: CoOptimisation, strategy: Strategy) -> list[Problem]:
    operators, n = instance.workload.operators, instance.cluster.servers
    if len(strategy.placements) != len(operators):
        text, value = "another number of operators", str(len(strategy.placements))
        return [Problem(text, path="strategy", value=value, allowed=str(len(operators)))]
    problems = []
    for place, (operator, placement) in enumerate(zip(operators, strategy.placements, strict=True)):
        splits, pinned = len(operator.splits), operator.pinned_offset
        known = 0 <= placement.split < splits
        free = n // operator.splits[placement.split].parts if known else 0
        offsets = range(free) if pinned is None else (pinned,)
        for what, chosen, good, allowed in (
            ("split", placement.split, known, f"0 to {splits - 1}"),
            ("offset", placement.offset, not known or placement.offset in offsets, _span(offsets)),
        ):
            if not good:
                text, path = f"no such {what} of {operator.name}", f"strategy.placements[{place}].{what}"
                problems.append(Problem(text, path=path, value=str(chosen), allowed=allowed))
    return problems


def _span(numbers: Sequence[int]) -> str:
    return f"{numbers[0]} to {numbers[-1]}" if numbers else ""
