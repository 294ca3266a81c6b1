"""AllReduce of a job on its own topology: rings of the plan beside trees and breadth-first broadcasts, by gradient.

A gradient of S bytes takes, alone on the network, 2 (k-1) rounds of S / k bytes on the rings of its group of k servers;
other schedules take fewer steps, and trees may use links better. Servers outside the group pass on what they get, as
switches do. A message over h hops costs the fixed time of a ring round and h - 1 times the latency of a hop besides its
bytes, on rings as elsewhere. Each schedule is executed and timed by the checker of collectives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

import numpy as np

from solvers.collective.schedules import least_time
from solvers.job.candidate_topologies import group_network, ring_line
from solvers.stop import Stop
from topoopt.core.cluster import Cluster
from topoopt.core.collective import (
    BestBySize,
    CircuitSchedule,
    CollectiveOp,
    CollectiveProblem,
    SteppedCollective,
    SwitchedCollective,
)
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.job import CoOptimisation, JobPlan
from topoopt.core.result import Result, SearchSettings
from topoopt.core.switching import delay_text
from topoopt.core.topology import Topology
from topoopt.core.workload import GroupRings, TaskKind
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import Explanation, solve
from topoopt.page.text import byte_size, compared, counted, server_set
from topoopt.simulate.network import build_task_graph
from topoopt.verify.collective import check_circuits
from topoopt.verify.job.plan import check_plan

MOST_MEMBERS = 128
"""Members of a group up to which schedules are made."""

MOST_GROUPS = 8
"""Groups that schedules are made for, those with most bytes first."""

SHOWN = 3
"""Groups that are told of."""


@dataclass(frozen=True)
class GradientSize:
    """Gradients of one size in one group.

    Attributes:
        count: how many.
        bytes: of each.
        ring_us: of each, on the rings of the plan.
        best_us: by the best schedule, rings among them.
        schedule: the best one.
        steps: its steps.
    """

    count: int
    bytes: int
    ring_us: float
    best_us: float
    schedule: str
    steps: int


@dataclass(frozen=True)
class GroupSchedules:
    """A group: its rings as a line over bytes, what else is best by size, and its gradients, large ones first."""

    members: tuple[int, ...]
    rings: BestBySize
    front: tuple[BestBySize, ...]
    gradients: tuple[GradientSize, ...]

    def total_us(self, name: str) -> float:
        """Sum over all gradients of `ring_us` or `best_us`."""
        return sum(gradient.count * float(getattr(gradient, name)) for gradient in self.gradients)


def job_collectives(
    instance: CoOptimisation, solution: Result[CoOptimisation, JobPlan], stop: Stop
) -> tuple[list[GroupSchedules], int]:
    """Schedules for the AllReduce groups of a plan, and how many groups were left out: too large, or of few bytes.

    Raises:
        InputError: the plan is not one of this instance, or has schedules already.
        CheckError: the checker rejects a schedule (a bug of ours).
    """
    plan, cluster = solution.plan, instance.cluster
    plan.require_rings("schedules beside rings")
    wrong = check_plan(cluster, instance.workload, plan)
    if wrong:
        raise InputError([Problem(f"not a plan for this instance: {wrong[0].message}")])
    graph = build_task_graph(cluster, instance.workload, plan.strategy)
    reduced = np.flatnonzero((graph.kind == TaskKind.ALLREDUCE) & (graph.group >= 0))
    payload = np.bincount(graph.group[reduced], graph.bytes[reduced], len(graph.groups))
    order = [int(group) for group in np.argsort(-payload, kind="stable") if payload[group] > 0]
    fitting = [group for group in order if len(graph.groups[group]) <= MOST_MEMBERS][:MOST_GROUPS]
    rings = {tuple(sorted(ring.members)): ring for ring in plan.rings}
    groups: list[GroupSchedules] = []
    for group in fitting:
        if groups and stop.reason() is not None:
            break
        members = tuple(sorted(graph.groups[group]))
        sizes = graph.bytes[reduced[graph.group[reduced] == group]]
        groups.append(_group(cluster, plan.topology, rings[members], sizes.tolist(), stop))
    return groups, len(order) - len(groups)


def _group(cluster: Cluster, topology: Topology, rings: GroupRings, sizes: list[int], stop: Stop) -> GroupSchedules:
    members = tuple(sorted(rings.members))
    line = ring_line(cluster, topology, rings).best_from(1)
    network = group_network(cluster, topology, members)
    problem = CollectiveProblem(
        f"AllReduce of {len(members)} servers",
        network,
        CollectiveOp.ALLREDUCE,
        max(sizes),
        message_us=max(cluster.ring_round_latency_us - cluster.hop_latency_us, 0.0),
        objective="pareto",
        search=SearchSettings(),
        sha256="0" * 64,
    )
    solution = solve(problem, SolveOptions(time_limit_s=stop.remaining_s()))
    if not solution.check.ok:
        raise CheckError(f"a schedule of {problem.name} is rejected: {solution.check.violations[0].message}")
    gradients = []
    for size in sorted(set(sizes), reverse=True):
        best = min((line, *solution.figures.front), key=lambda candidate: candidate.time_us(size))
        row = GradientSize(sizes.count(size), size, line.time_us(size), best.time_us(size), best.method, best.steps)
        gradients.append(row)
    return GroupSchedules(members, line, solution.figures.front, tuple(gradients))


def explain_collectives(
    explanation: Explanation, instance: CoOptimisation, solution: Result[CoOptimisation, JobPlan], stop: Stop
) -> Explanation:
    """The same explanation with what limits the AllReduces of the plan: its rings, and circuits that stay.

    Each gradient is timed alone: on the rings of the plan, by the best schedule on its links, and on an optical switch
    whose circuits may be set anew between steps.

    Raises:
        CheckError: the checker rejects a schedule (a bug of ours).
    """
    if solution.plan.schedules:
        return explanation
    groups, left_out = job_collectives(instance, solution, stop)
    words = [answer(groups)]
    figures: dict[str, Any] = {"collectives": job_document(groups, left_out)}
    for group in groups[:SHOWN]:
        first = group.gradients[0]
        words.append(
            f"Gradients of servers {server_set(group.members, instance.cluster.servers)} take "
            f"{group.total_us('ring_us'):.6g} us on their rings, {group.total_us('best_us'):.6g} us at best; the "
            f"largest, {byte_size(first.bytes)}, by {first.schedule} in {counted(first.steps, 'step')}."
        )
    if groups and instance.cluster.degree >= 2:
        schedules = switched(instance.cluster, groups[0])
        figures["switched_collectives"] = [
            {"collective": operation.collective, "times_set": circuits.times_set, **asdict(circuits)}
            for operation, circuits in schedules
        ]
        words.append(switched_answer(schedules))
    return replace(explanation, words=(*explanation.words, *words), figures={**explanation.figures, **figures})


DELAYS_MS = (0.001, 0.01, 0.1, 1.0, 10.0)


def switched(cluster: Cluster, group: GroupSchedules) -> list[tuple[SwitchedCollective, CircuitSchedule]]:
    """Least time of AllReduce and All-to-All of the largest gradient of a group where its servers have an optical
    switch alone to themselves, for each of `DELAYS_MS`, checked.

    Raises:
        CheckError: the checker rejects a schedule (a bug of ours).
    """
    ranks, ports = len(group.members), cluster.degree - cluster.degree % 2
    scheduled: list[tuple[SwitchedCollective, CircuitSchedule]] = []
    for delay_ms in DELAYS_MS:
        for collective in get_args(SteppedCollective):
            if collective == "halving-doubling" and ranks & (ranks - 1):
                continue
            size, rate = float(group.gradients[0].bytes), cluster.link_gbps / 8 * 1e9
            operation = SwitchedCollective(collective, ranks, ports, size, rate, cluster.ring_round_latency_us * 1e-6)
            schedule = least_time(operation, delay_ms / 1e3)
            checked = check_circuits(operation, schedule)
            if not checked.ok:
                raise CheckError("the checker rejects a schedule:\n" + "\n".join(map(str, checked.violations)))
            scheduled.append((operation, schedule))
    return scheduled


def switched_answer(scheduled: Sequence[tuple[SwitchedCollective, CircuitSchedule]]) -> str:
    """Up to which delay setting circuits anew between steps pays."""
    operation, best = max(scheduled, key=lambda row: row[1].break_even_s)
    if best.break_even_s == 0.0:
        return "Setting circuits anew between the steps of a collective never pays here."
    return (
        f"On an optical switch of their own, setting circuits anew between steps pays up to a delay of "
        f"{delay_text(1e3 * best.break_even_s)}, for {operation.collective}."
    )


def job_document(groups: Sequence[GroupSchedules], left_out: int) -> dict[str, Any]:
    totals = {name: sum(group.total_us(name) for group in groups) for name in ("ring_us", "best_us")}
    return {"groups": [asdict(group) for group in groups], "left_out": left_out, **totals}


def answer(groups: Sequence[GroupSchedules]) -> str:
    """The sentence that answers the question."""
    if not groups:
        return "No gradient of this plan goes over the network."
    rings, best = (sum(group.total_us(what) for group in groups) for what in ("ring_us", "best_us"))
    count = sum(gradient.count for group in groups for gradient in group.gradients)
    gain = "no schedule is faster than its rings" if rings <= best else f"{compared(best, rings)[1]} on its rings"
    return f"Alone, one after the other, the {counted(count, 'gradient')} of this plan take {best:.4g} us: {gain}."
