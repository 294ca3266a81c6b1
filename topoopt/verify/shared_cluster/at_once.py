"""Jobs at once, as the checker sees them: placements, lower bounds, and every statistic recomputed.

Checked: all jobs of a draw stand on servers of their own, as many as their class needs, in the order and racks the
problem asks for; strategies are legal; no iteration is faster than the proven bounds of its class or than the busiest
server computes; a job on its own shard, or on an ideal switch, on which jobs share no link, takes the
time it takes alone; mean, percentiles, slow-downs, objective and bound follow from the times.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from topoopt.core.shared_cluster import IDEAL_SWITCH, PARTITIONED, Fabric, SharedCluster
from topoopt.core.shared_cluster_jobs import JobClass, JobPlacement, JobsAtOnce, RankOrder
from topoopt.core.shared_cluster_solution import ClassPlan, DrawnRun, LoadStatistics, SharedClusterSolution, Tail
from topoopt.core.verdict import Tolerance
from topoopt.verify.job.instance_bounds import compute_bounds, instance_bounds
from topoopt.verify.job.parts import check_strategy
from topoopt.verify.laws.findings import Findings, differs

RELATIVE = Tolerance.ROUNDING.relative
"""Rounding forgiven in recomputed figures."""

ALONE_RELATIVE = Tolerance.EVENTS.relative
"""Rounding forgiven where a simulation with others must equal one without."""


def check_at_once(findings: Findings, problem: SharedCluster, solution: SharedClusterSolution) -> None:
    """Jobs at once: their draws, plans and times, the statistics, objective and bound."""
    least: dict[tuple[int, int], float] = {}
    findings.guard("plans", "the plans", lambda: least.update(_check_plans(findings, problem, solution)))
    if findings.clean:
        findings.guard("runs", "the draws", lambda: _check_runs(findings, problem, solution, least))
        findings.guard("statistics", "the statistics", lambda: _check_statistics(findings, problem, solution))


def _check_plans(
    findings: Findings, problem: SharedCluster, solution: SharedClusterSolution
) -> dict[tuple[int, int], float]:
    """Least time of an iteration of each (fabric, class)."""
    expected = [(each, one) for each in problem.fabrics for one in problem.classes]
    if [(plan.fabric, plan.job_class) for plan in solution.plans] != [(each.name, one.name) for each, one in expected]:
        findings.add("plans", "not one plan for every fabric and class, in the order of the instance")
        return {}
    least = {}
    for place, (plan, (fabric, one)) in enumerate(zip(solution.plans, expected, strict=True)):
        where = f"{plan.job_class} on {plan.fabric}"
        floor = _least_time(findings, where, plan, fabric, one)
        least[divmod(place, len(problem.classes))] = floor
        if not floor * (1 - RELATIVE) <= plan.alone_ms < math.inf:
            findings.add("plan-bound", f"{where}: {plan.alone_ms} ms alone, but no iteration is under {floor} ms")
    return least


def _least_time(findings: Findings, where: str, plan: ClassPlan, fabric: Fabric, one: JobClass) -> float:
    if one.plan is None:
        mean = sum(one.iteration_ms) / len(one.iteration_ms)
        if differs(plan.alone_ms, mean, RELATIVE) or differs(plan.bound_ms, min(one.iteration_ms), RELATIVE):
            findings.add("plan-times", f"{where}: not the mean and the least of the given times")
        return min(one.iteration_ms)
    cluster, workload = one.plan.cluster, one.plan.workload
    bounds = instance_bounds(cluster, workload) if fabric.kind == PARTITIONED else compute_bounds(cluster, workload)
    best = max(bound.value for bound in bounds)
    if differs(plan.bound_ms, best, RELATIVE):
        findings.add("plan-bound", f"{where}: bound {plan.bound_ms} ms stated, {best} ms proven")
    if plan.strategy is None:
        findings.add("plan-strategy", f"{where}: no strategy")
        return best
    parts = check_strategy(findings, cluster, workload, plan.strategy)
    if parts is None:
        return best
    busy = np.zeros(cluster.servers)
    for part in parts:
        np.add.at(busy, part.server, part.split.forward_ms + part.split.backward_ms)
    return max(best, float(busy.max()))


def _check_runs(
    findings: Findings,
    problem: SharedCluster,
    solution: SharedClusterSolution,
    least: dict[tuple[int, int], float],
) -> None:
    twice = [key for key, count in Counter((run.load, run.repetition) for run in solution.draws).items() if count > 1]
    for load, repetition in twice:
        findings.add("run-twice", f"{load} jobs, repetition {repetition}: more than one draw")
    if not solution.draws:
        findings.add("runs", "no draw was simulated")
    jobs = problem.at_once
    assert jobs is not None
    mixed = {index for index, _ in jobs.mix}
    for run in solution.draws:
        where = f"{run.load} jobs, repetition {run.repetition}"
        if run.load not in jobs.loads or not 0 <= run.repetition < jobs.repetitions:
            findings.add("run-load", f"{where}: not asked for")
        if len(run.classes) != run.load or not mixed.issuperset(run.classes):
            findings.add("run-classes", f"{where}: not a class of the mix for every job")
            continue
        _check_servers(findings, problem, jobs, run, where)
        if [len(times) for times in run.times_ms] != [run.load] * len(problem.fabrics):
            findings.add("run-times", f"{where}: not a time for every job on every fabric")
            continue
        _check_times(findings, problem, solution, run, least)


def _check_servers(findings: Findings, problem: SharedCluster, jobs: JobsAtOnce, run: DrawnRun, where: str) -> None:
    if [len(own) for own in run.servers] != [problem.classes[index].servers for index in run.classes]:
        findings.add("run-servers", f"{where}: a job has not as many servers as its class needs")
        return
    taken = [server for own in run.servers for server in own]
    if len(set(taken)) < len(taken):
        findings.add("run-servers", f"{where}: a server is given to two jobs")
    if any(not 0 <= server < problem.servers for server in taken):
        findings.add("run-servers", f"{where}: a server that does not exist")
    if jobs.rank_order is RankOrder.SORTED and any(list(own) != sorted(own) for own in run.servers):
        findings.add("run-order", f"{where}: the servers of a job are not in ascending order")
    if jobs.placement is JobPlacement.RACK_LOCAL:
        rack = jobs.rack_servers
        for job, own in enumerate(run.servers):
            # Consecutive servers of whole racks: all but the first, the last and a short one are full.
            if len({server // rack for server in own}) > len(own) // rack + 3:
                findings.add("run-racks", f"{where}: job {job} is spread over more racks than it needs")


def _check_times(
    findings: Findings,
    problem: SharedCluster,
    solution: SharedClusterSolution,
    run: DrawnRun,
    least: dict[tuple[int, int], float],
) -> None:
    for place, fabric in enumerate(problem.fabrics):
        for job, (index, time) in enumerate(zip(run.classes, run.times_ms[place], strict=True)):
            one = problem.classes[index]
            plan = solution.plans[place * len(problem.classes) + index]
            where = f"{run.load} jobs, repetition {run.repetition}, job {job} ({one.name}) on {fabric.name}"
            if not least[place, index] * (1 - RELATIVE) <= time < math.inf:
                findings.add("time-bound", f"{where}: {time} ms, but no iteration is under {least[place, index]} ms")
            if one.plan is None and time not in one.iteration_ms:
                findings.add("time-given", f"{where}: {time} ms is none of the given times")
            elif one.plan is not None and fabric.kind == PARTITIONED and time != plan.alone_ms:
                findings.add("time-alone", f"{where}: {time} ms, {plan.alone_ms} ms alone on the same shard")
            elif (
                fabric.kind == IDEAL_SWITCH
                and problem.time_model == "fluid"
                and differs(time, plan.alone_ms, ALONE_RELATIVE)
            ):
                findings.add("time-alone", f"{where}: {time} ms, {plan.alone_ms} ms alone, though no link is shared")


def _statistics(
    problem: SharedCluster,
    solution: SharedClusterSolution,
    load: int,
    place: int,
    base: Tail | None,
) -> LoadStatistics:
    """What the times say, one by one and by exact sums; `base`: those of the same jobs on the first fabric."""
    own = [run for run in solution.draws if run.load == load]
    times = [time for run in own for time in run.times_ms[place]]
    alone = [solution.plans[place * len(problem.classes) + index].alone_ms for run in own for index in run.classes]
    ascending, count = sorted(times), len(times)
    p50, p90, p95, p99 = (ascending[percent * count // 100] for percent in (50, 90, 95, 99))
    tail = Tail(math.fsum(times) / count, p50, p90, p95, p99, ascending[-1])
    first = base or tail
    return LoadStatistics(
        fabric=problem.fabrics[place].name,
        load=load,
        jobs=count,
        iteration_ms=tail,
        over_alone=math.fsum(time / without for time, without in zip(times, alone, strict=True)) / count,
        over_first=tail.mean / first.mean,
        p99_over_first=tail.p99 / first.p99,
    )


def _expected(problem: SharedCluster, solution: SharedClusterSolution) -> list[LoadStatistics]:
    """The statistics as they follow from the times, in the order in which they are stated."""
    rows = []
    for load in sorted({run.load for run in solution.draws}):
        base: Tail | None = None
        for place in range(len(problem.fabrics)):
            rows.append(_statistics(problem, solution, load, place, base))
            base = base or rows[-1].iteration_ms
    return rows


def _check_statistics(findings: Findings, problem: SharedCluster, solution: SharedClusterSolution) -> None:
    expected = _expected(problem, solution)
    if len(expected) != len(solution.statistics):
        findings.add("statistics", f"{len(solution.statistics)} rows, {len(expected)} expected")
        return
    for found, right in zip(solution.statistics, expected, strict=True):
        where = f"{right.load} jobs on {right.fabric}"
        if (found.fabric, found.load, found.jobs) != (right.fabric, right.load, right.jobs):
            findings.add("statistics", f"{where}: the row is of {found.load} jobs on {found.fabric}")
        pairs = [(name, getattr(found.iteration_ms, name), value) for name, value in vars(right.iteration_ms).items()]
        for name in ("over_alone", "over_first", "p99_over_first"):
            pairs.append((name, getattr(found, name), getattr(right, name)))
        for name, stated, value in pairs:
            if differs(stated, value, RELATIVE):
                findings.add("statistics", f"{where}: {name} {stated} stated, {value} from the times")
    largest = max(run.load for run in solution.draws)
    value = next(row.iteration_ms.mean for row in expected if row.load == largest)
    named = (solution.objective.name, solution.objective.unit) == ("mean_iteration_time", "ms")
    if not named or differs(solution.objective.value, value, RELATIVE):
        findings.add("objective", f"{solution.objective.value} ms stated, {value} ms from the times")
    bounds = [solution.plans[index].bound_ms for run in solution.draws if run.load == largest for index in run.classes]
    if differs(solution.bound.value, sum(bounds) / len(bounds), RELATIVE):
        findings.add("bound", f"{solution.bound.value} ms stated, {sum(bounds) / len(bounds)} ms from the classes")
