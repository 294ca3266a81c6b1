"""The checker of jobs run together: placements, lower bounds, and every statistic recomputed, without a simulator.

Checked: all jobs of a draw stand on servers of their own, as many as their class needs, in the order and racks the
problem asks for; strategies are legal; no iteration is faster than the proven bounds of its class or than the busiest
server computes; a job on its own shard, or on an ideal switch, on which jobs share no link, takes the
time it takes alone; mean, percentiles, slow-downs, objective and bound follow from the times.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from topoopt.core.job import FabricChoice
from topoopt.core.shared_load import SHARDS, JobClass, JobPlacement, RankOrder, SharedLoadProblem
from topoopt.core.shared_load_solution import ClassPlan, LoadStatistics, SharedLoadSolution, Together
from topoopt.core.verdict import Tolerance
from topoopt.verify.job.instance_bounds import compute_bounds, instance_bounds
from topoopt.verify.job.parts import check_strategy
from topoopt.verify.laws.findings import Findings, Violation, differs

RELATIVE = Tolerance.ROUNDING.relative
"""Rounding forgiven in recomputed figures."""

ALONE_RELATIVE = Tolerance.EVENTS.relative
"""Rounding forgiven where a simulation with others must equal one without."""


def check_shared_load(problem: SharedLoadProblem, solution: SharedLoadSolution) -> tuple[Violation, ...]:
    """All laws the result breaks and all figures that are wrong.

    Never raises, whatever stands in the solution; the instance is taken as valid. The verdict stored in the solution is
    not looked at.
    """
    findings = Findings()
    findings.guard("identity", "the identity", lambda: _check_identity(findings, problem, solution))
    if not findings.clean:
        return findings.violations()
    least: dict[tuple[int, int], float] = {}
    findings.guard("plans", "the plans", lambda: least.update(_check_plans(findings, problem, solution)))
    if findings.clean:
        findings.guard("runs", "the draws", lambda: _check_runs(findings, problem, solution, least))
        findings.guard("statistics", "the statistics", lambda: _check_statistics(findings, problem, solution))
    return findings.violations()


def _check_identity(findings: Findings, problem: SharedLoadProblem, solution: SharedLoadSolution) -> None:
    stated = (
        ("name", solution.name, problem.name),
        ("instance", solution.instance_sha256, problem.sha256),
        ("servers", solution.servers, problem.cluster.servers),
        ("time model", solution.time_model, problem.time_model),
        ("placement", solution.placement, problem.placement.value),
        ("rank order", solution.rank_order, problem.rank_order.value),
        ("classes", solution.class_names, tuple(one.name for one in problem.classes)),
        ("fabrics", tuple(name for name, _ in solution.fabrics), tuple(each.name for each in problem.fabrics)),
    )
    for what, found, expected in stated:
        if found != expected:
            findings.add("identity", f"{what}: {found!r} in the solution, {expected!r} in the instance")


def _check_plans(
    findings: Findings, problem: SharedLoadProblem, solution: SharedLoadSolution
) -> dict[tuple[int, int], float]:
    """Least time of an iteration of each (fabric, class)."""
    expected = [(each, one) for each in problem.fabrics for one in problem.classes]
    if [(plan.fabric, plan.job_class) for plan in solution.plans] != [(each.name, one.name) for each, one in expected]:
        findings.add("plans", "not one plan for every fabric and class, in the order of the instance")
        return {}
    least = {}
    for place, (plan, (choice, one)) in enumerate(zip(solution.plans, expected, strict=True)):
        where = f"{plan.job_class} on {plan.fabric}"
        floor = _least_time(findings, where, plan, choice, one)
        least[divmod(place, len(problem.classes))] = floor
        if not floor * (1 - RELATIVE) <= plan.alone_ms < math.inf:
            findings.add("plan-bound", f"{where}: {plan.alone_ms} ms alone, but no iteration is under {floor} ms")
    return least


def _least_time(findings: Findings, where: str, plan: ClassPlan, choice: FabricChoice, one: JobClass) -> float:
    if one.job is None:
        mean = sum(one.times_ms) / len(one.times_ms)
        if differs(plan.alone_ms, mean, RELATIVE) or differs(plan.bound_ms, min(one.times_ms), RELATIVE):
            findings.add("plan-times", f"{where}: not the mean and the least of the given times")
        return min(one.times_ms)
    cluster, workload = one.job.cluster, one.job.workload
    bounds = instance_bounds(cluster, workload) if choice.fabric == SHARDS else compute_bounds(cluster, workload)
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
    problem: SharedLoadProblem,
    solution: SharedLoadSolution,
    least: dict[tuple[int, int], float],
) -> None:
    twice = [key for key, count in Counter((run.load, run.repetition) for run in solution.runs).items() if count > 1]
    for load, repetition in twice:
        findings.add("run-twice", f"{load} jobs, repetition {repetition}: more than one draw")
    if not solution.runs:
        findings.add("runs", "no draw was simulated")
    for run in solution.runs:
        where = f"{run.load} jobs, repetition {run.repetition}"
        if run.load not in problem.loads or not 0 <= run.repetition < problem.repetitions:
            findings.add("run-load", f"{where}: not asked for")
        if len(run.classes) != run.load or any(not 0 <= index < len(problem.classes) for index in run.classes):
            findings.add("run-classes", f"{where}: not a class for every job")
            continue
        _check_servers(findings, problem, run, where)
        if [len(times) for times in run.times_ms] != [run.load] * len(problem.fabrics):
            findings.add("run-times", f"{where}: not a time for every job on every fabric")
            continue
        _check_times(findings, problem, solution, run, least)


def _check_servers(findings: Findings, problem: SharedLoadProblem, run: Together, where: str) -> None:
    if [len(own) for own in run.servers] != [problem.classes[index].servers for index in run.classes]:
        findings.add("run-servers", f"{where}: a job has not as many servers as its class needs")
        return
    taken = [server for own in run.servers for server in own]
    if len(set(taken)) < len(taken):
        findings.add("run-servers", f"{where}: a server is given to two jobs")
    if any(not 0 <= server < problem.cluster.servers for server in taken):
        findings.add("run-servers", f"{where}: a server that does not exist")
    if problem.rank_order is RankOrder.SORTED and any(list(own) != sorted(own) for own in run.servers):
        findings.add("run-order", f"{where}: the servers of a job are not in ascending order")
    if problem.placement is JobPlacement.RACK_LOCAL:
        rack = problem.rack_servers
        for job, own in enumerate(run.servers):
            # Consecutive servers of whole racks: all but the first, the last and a short one are full.
            if len({server // rack for server in own}) > len(own) // rack + 3:
                findings.add("run-racks", f"{where}: job {job} is spread over more racks than it needs")


def _check_times(
    findings: Findings,
    problem: SharedLoadProblem,
    solution: SharedLoadSolution,
    run: Together,
    least: dict[tuple[int, int], float],
) -> None:
    for place, choice in enumerate(problem.fabrics):
        for job, (index, time) in enumerate(zip(run.classes, run.times_ms[place], strict=True)):
            one = problem.classes[index]
            plan = solution.plans[place * len(problem.classes) + index]
            where = f"{run.load} jobs, repetition {run.repetition}, job {job} ({one.name}) on {choice.name}"
            if not least[place, index] * (1 - RELATIVE) <= time < math.inf:
                findings.add("time-bound", f"{where}: {time} ms, but no iteration is under {least[place, index]} ms")
            if one.job is None and time not in one.times_ms:
                findings.add("time-given", f"{where}: {time} ms is none of the given times")
            elif one.job is not None and choice.fabric == SHARDS and time != plan.alone_ms:
                findings.add("time-alone", f"{where}: {time} ms, {plan.alone_ms} ms alone on the same shard")
            elif (
                choice.fabric == "ideal-switch"
                and problem.time_model == "fluid"
                and differs(time, plan.alone_ms, ALONE_RELATIVE)
            ):
                findings.add("time-alone", f"{where}: {time} ms, {plan.alone_ms} ms alone, though no link is shared")


def _statistics(
    problem: SharedLoadProblem, solution: SharedLoadSolution, load: int, place: int, base: tuple[float, float] | None
) -> LoadStatistics:
    """What the times say, worked out in another way than the statistics under check: by sorted arrays."""
    own = [run for run in solution.runs if run.load == load]
    times = np.array([time for run in own for time in run.times_ms[place]])
    alone = np.array(
        [solution.plans[place * len(problem.classes) + index].alone_ms for run in own for index in run.classes]
    )
    ascending = np.sort(times)
    rank = {percent: float(ascending[(len(times) * percent) // 100]) for percent in (50, 90, 95, 99)}
    mean = float(times.mean())
    first = base or (mean, rank[99])
    return LoadStatistics(
        fabric=problem.fabrics[place].name,
        load=load,
        jobs=len(times),
        mean_ms=mean,
        p50_ms=rank[50],
        p90_ms=rank[90],
        p95_ms=rank[95],
        p99_ms=rank[99],
        slowdown=float((times / alone).mean()),
        over_first=mean / first[0],
        p99_over_first=rank[99] / first[1],
    )


def _check_statistics(findings: Findings, problem: SharedLoadProblem, solution: SharedLoadSolution) -> None:
    loads = sorted({run.load for run in solution.runs})
    expected: list[LoadStatistics] = []
    for load in loads:
        base: tuple[float, float] | None = None
        for place in range(len(problem.fabrics)):
            row = _statistics(problem, solution, load, place, base)
            base = base or (row.mean_ms, row.p99_ms)
            expected.append(row)
    if len(expected) != len(solution.statistics):
        findings.add("statistics", f"{len(solution.statistics)} rows, {len(expected)} expected")
        return
    for found, right in zip(solution.statistics, expected, strict=True):
        for name, value in vars(right).items():
            stated = getattr(found, name)
            if stated != value if isinstance(value, str | int) else differs(stated, value, RELATIVE):
                where = f"{right.load} jobs on {right.fabric}"
                findings.add("statistics", f"{where}: {name} {stated} stated, {value} from the times")
    top = [row for row in expected if row.load == loads[-1]]
    if differs(solution.objective.value, top[0].mean_ms, RELATIVE):
        findings.add("objective", f"{solution.objective.value} ms stated, {top[0].mean_ms} ms from the times")
    bounds = [solution.plans[index].bound_ms for run in solution.runs if run.load == loads[-1] for index in run.classes]
    if differs(solution.bound.value, sum(bounds) / len(bounds), RELATIVE):
        findings.add("bound", f"{solution.bound.value} ms stated, {sum(bounds) / len(bounds)} ms from the classes")
