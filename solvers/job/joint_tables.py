"""Data of the joint program (`formulations.job.joint_plan`) of a job, and the sizes it is meant for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from formulations.job.joint_plan import JointPlan, PlanOption
from solvers.job.strategy.program_start import pair_job
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.errors import InputError, Problem
from topoopt.core.workload import Placement, Strategy, Workload, strided_groups
from topoopt.simulate.demand import demand_of
from topoopt.simulate.lower import build_task_graph

MOST_SERVERS = 5
MOST_DEGREE = 4
MOST_PAIRS_OF_OPTIONS = 400
"""Limits of the joint program. Pairs of options: over all pairs of operators joined by an edge, the placements of one
times those of the other. `instances/tiny-4.yaml` has 230."""


@dataclass(frozen=True, eq=False)
class JointTables:
    """The data of the program, and what its options and groups stand for."""

    data: JointPlan
    placements: tuple[tuple[Placement, ...], ...]
    groups: tuple[tuple[int, ...], ...]


def joint_problems(cluster: Cluster, workload: Workload) -> list[Problem]:
    """Why the joint program is not for this job; empty if it is."""
    found = []
    if not 2 <= cluster.servers <= MOST_SERVERS:
        found.append(_too_large("cluster.servers", cluster.servers, f"2 to {MOST_SERVERS}"))
    if cluster.degree > MOST_DEGREE:
        found.append(_too_large("cluster.degree", cluster.degree, f"at most {MOST_DEGREE}"))
    if found:
        return found
    options = [len(_placements(cluster, workload, o)) for o in range(len(workload.operators))]
    pairs = {(edge.producer, v) for v, operator in enumerate(workload.operators) for edge in operator.inputs}
    size = sum(options[u] * options[v] for u, v in pairs)
    if size > MOST_PAIRS_OF_OPTIONS:
        allowed = f"at most {MOST_PAIRS_OF_OPTIONS} pairs of placements of operators joined by an edge"
        found.append(_too_large("workload", size, allowed))
    return found


def _too_large(path: str, value: int, allowed: str) -> Problem:
    return Problem("too large for the method `joint`", path=path, value=str(value), allowed=allowed)


def _placements(cluster: Cluster, workload: Workload, o: int) -> tuple[Placement, ...]:
    n, operator = cluster.servers, workload.operators[o]
    return tuple(
        Placement(index, offset)
        for index, split in enumerate(operator.splits)
        if n % split.parts == 0 and workload.samples % split.sample_ways == 0
        for offset in range(n // split.parts)
        if operator.pinned_offset in (None, offset)
    )


def joint_tables(cluster: Cluster, workload: Workload, theta_most: float) -> JointTables:
    """Data of the joint program.

    Raises:
        InputError: the job is too large for it.
    """
    problems = joint_problems(cluster, workload)
    if problems:
        raise InputError(problems)
    n, rate = cluster.servers, cluster.link_bytes_per_ms
    groups = strided_groups(n)
    index = {members: g for g, members in enumerate(groups)}
    placements = tuple(_placements(cluster, workload, o) for o in range(len(workload.operators)))
    memory = cluster.server_memory_bytes
    options = []
    for o, operator in enumerate(workload.operators):
        alone = Workload("alone", workload.samples, (replace(operator, inputs=()),))
        found = []
        for placement in placements[o]:
            split = operator.splits[placement.split]
            demand = demand_of(build_task_graph(cluster, alone, Strategy((placement,))))
            here = np.zeros(n)
            here[placement.offset :: n // split.parts] = 1.0
            found.append(
                PlanOption(
                    forward_ms=split.forward_ms,
                    backward_ms=split.backward_ms,
                    load=here * (split.forward_ms + split.backward_ms),
                    memory=here * (0.0 if memory is None else split.server_memory_bytes / memory),
                    reduced={index[each.members]: each.wire_bytes_per_member / rate for each in demand.allreduce},
                )
            )
        options.append(tuple(found))
    pairs = tuple(sorted({(edge.producer, v) for v, op in enumerate(workload.operators) for edge in op.inputs}))
    demand_ms = []
    for u, v in pairs:
        job = pair_job(workload, u, v)
        table = np.zeros((len(placements[u]), len(placements[v]), n, n))
        for a, first in enumerate(placements[u]):
            for c, second in enumerate(placements[v]):
                graph = build_task_graph(cluster, job, Strategy((first, second)))
                table[a, c] = demand_of(graph).model_parallel_bytes / rate
        demand_ms.append(table)
    used = {g for of in options for option in of for g in option.reduced}
    data = JointPlan(
        servers=n,
        degree=cluster.degree,
        bidirectional=cluster.links is LinkDirection.BIDIRECTIONAL,
        options=tuple(options),
        pairs=pairs,
        demand=tuple(demand_ms),
        rings=tuple(ring_orders(members) if g in used else () for g, members in enumerate(groups)),
        theta_most=theta_most,
        memory_limited=memory is not None,
    )
    return JointTables(data, placements, groups)


def ring_orders(members: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """All directed cyclic orders of a group: (k - 1)!, the first member first."""
    return tuple((members[0], *rest) for rest in permutations(members[1:]))
