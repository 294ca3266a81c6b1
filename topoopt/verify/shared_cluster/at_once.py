"""Jobs at once, as the checker sees them: placements, lower bounds, and every statistic recomputed.

Checked: all jobs of a draw stand on servers of their own, as many as their class needs, in the order and racks the
problem asks for; strategies are legal; no iteration is faster than the proven bounds of its class or than the busiest
server computes; a job on its own shard, or on an ideal switch, on which jobs share no link, takes the
time it takes alone; mean, percentiles, slow-downs, objective and bound follow from the times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from topoopt.core.proofs import Argument
from topoopt.core.shared_cluster import IDEAL_SWITCH, PARTITIONED, Contention, Fabric, SharedCluster
from topoopt.core.shared_cluster_jobs import JobClass, JobPlacement, JobsAtOnce, JobTable, RankOrder
from topoopt.core.shared_cluster_runs import ClassPlan, DrawnRun
from topoopt.core.shared_cluster_solution import SharedClusterSolution
from topoopt.core.solution import Decides
from topoopt.core.verdict import Status, StopReason, Tolerance
from topoopt.verify.job.instance_bounds import compute_bounds, instance_bounds
from topoopt.verify.job.parts import check_strategy
from topoopt.verify.laws.bounds import Derivations, check_stated
from topoopt.verify.laws.findings import ViolationLog, differs
from topoopt.verify.shared_cluster.at_once_objective import check_at_once_objective
from topoopt.verify.shared_cluster.bounds import alone_ms
from topoopt.verify.shared_cluster.contention import times_together
from topoopt.verify.shared_cluster.draws import check_runs_drawn
from topoopt.verify.shared_cluster.planned import least_alone_ms

RELATIVE = Tolerance.ROUNDING.relative
"""Rounding forgiven in recomputed figures."""

ALONE_RELATIVE = Tolerance.EVENTS.relative
"""Rounding forgiven where a simulation with others must equal one without."""


def check_at_once(findings: ViolationLog, problem: SharedCluster, solution: SharedClusterSolution) -> None:
    """Jobs at once: their draws, plans and times, objective and bound.

    By a formula `problem` has the rates of the fabrics, and the times of planned classes.
    """
    if solution.status is Status.OPTIMAL:
        findings.add("status", "called optimal: bounds of single jobs prove nothing of jobs that share links")
    if problem.contention is Contention.FLOWS and any(one.plan is not None for one in problem.classes):
        why = "the flows of jobs are not simulated again; that no bound is beaten is checked"
        findings.leave_out("times of planned classes, alone and together", why, Decides.VALUE)
    least: dict[tuple[int, int], float] = {}
    findings.guard("plans", "the plans", lambda: least.update(_check_plans(findings, problem, solution)))
    if findings.clean:
        findings.guard("draw", "the draws", lambda: check_runs_drawn(findings, problem, solution))
        findings.guard("runs", "the draws", lambda: _check_runs(findings, problem, solution, least))
        findings.guard("objective", "the objective", lambda: check_at_once_objective(findings, solution))


def _check_plans(
    findings: ViolationLog, problem: SharedCluster, solution: SharedClusterSolution
) -> dict[tuple[int, int], float]:
    """Least time of an iteration of each (fabric, class)."""
    expected = [(each, one) for each in problem.fabrics for one in problem.classes]
    if [(plan.fabric, plan.job_class) for plan in solution.plans] != [(each.name, one.name) for each, one in expected]:
        findings.add("plans", "not one plan for every fabric and class, in the order of the instance")
        return {}
    least = {}
    for place, (plan, (fabric, one)) in enumerate(zip(solution.plans, expected, strict=True)):
        where = f"{plan.job_class} on {plan.fabric}"
        if problem.contention is Contention.FLOWS:
            floor = _least_time(findings, where, plan, fabric, one)
        else:
            floor = _least_by_formula(findings, where, plan, problem, fabric, place % len(problem.classes))
        least[divmod(place, len(problem.classes))] = floor
        if not floor * (1 - RELATIVE) <= plan.alone_ms < math.inf:
            findings.add("plan-bound", f"{where}: {plan.alone_ms} ms alone, but no iteration is under {floor} ms")
    return least


def _least_time(findings: ViolationLog, where: str, plan: ClassPlan, fabric: Fabric, one: JobClass) -> float:
    if one.plan is None:
        mean = sum(one.iteration_ms) / len(one.iteration_ms)
        if differs(plan.alone_ms, mean, RELATIVE):
            findings.add("plan-times", f"{where}: not the mean of the given times")
        _check_plan_bound(findings, plan, {Argument.GIVEN_TIMES: partial(min, one.iteration_ms)})
        return min(one.iteration_ms)
    cluster, workload = one.plan.cluster, one.plan.workload
    bounds = instance_bounds(cluster, workload) if fabric.kind == PARTITIONED else compute_bounds(cluster, workload)
    proven = max(bounds, key=lambda bound: bound.value)
    best = proven.value
    _check_plan_bound(findings, plan, {proven.argument: partial(float, best)})
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


def _least_by_formula(
    findings: ViolationLog, where: str, plan: ClassPlan, problem: SharedCluster, fabric: Fabric, index: int
) -> float:
    one = problem.classes[index]
    samples = one.iteration_ms
    alone: list[float] = alone_ms(problem, fabric, job_table([index] * len(samples), samples)).tolist()
    if differs(plan.alone_ms, math.fsum(alone) / len(alone), RELATIVE):
        findings.add("plan-times", f"{where}: not the mean of the times alone")
    least = min(alone) if one.lower_bounds is None else least_alone_ms(problem, fabric, one)
    _check_plan_bound(findings, plan, {Argument.ALONE: partial(float, least)})
    if plan.strategy is not None:
        findings.add("plan-strategy", f"{where}: a strategy, where times follow from a formula")
    return least


def _check_plan_bound(findings: ViolationLog, plan: ClassPlan, derivations: Derivations) -> None:
    """The bound of a class on a fabric, as what it is the least of is stated alongside."""
    check_stated(findings, plan.bound, derivations, plan.alone_ms, code="plan-bound")


def job_table(classes: Sequence[int], iteration_ms: Sequence[float]) -> JobTable:
    """Jobs of one iteration that begin at time 0."""
    count = len(classes)
    names = tuple(str(number) for number in range(count))
    ones, index = np.ones(count, dtype=np.int64), np.array(classes, dtype=np.int32)
    return JobTable(names, np.zeros(count), index, ones, np.array(iteration_ms, dtype=np.float64))


def _check_runs(
    findings: ViolationLog, problem: SharedCluster, solution: SharedClusterSolution, least: dict[tuple[int, int], float]
) -> None:
    jobs = problem.at_once
    assert jobs is not None
    asked = [(load, repetition) for repetition in range(jobs.repetitions) for load in jobs.loads]
    made = [(run.load, run.repetition) for run in solution.draws]
    if not made or made != asked[: len(made)]:
        findings.add("runs", "the draws are not those asked for, in their order")
    if len(made) < len(asked) and solution.stopped_by in (StopReason.BUDGET, StopReason.CONVERGED):
        findings.add("runs", f"{len(made)} draws of {len(asked)}, though nothing stopped the run")
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
        if problem.contention is Contention.FLOWS:
            _check_times(findings, problem, solution, run, least)
        else:
            _check_formula(findings, problem, run, where, solution.seed)


def _check_servers(findings: ViolationLog, problem: SharedCluster, jobs: JobsAtOnce, run: DrawnRun, where: str) -> None:
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


def _check_formula(findings: ViolationLog, problem: SharedCluster, run: DrawnRun, where: str, seed: int) -> None:
    """Every time of a draw follows from the servers of its jobs."""
    given = [set(problem.classes[index].iteration_ms) for index in run.classes]
    if len(run.shard_ms) != run.load or any(time not in own for time, own in zip(run.shard_ms, given, strict=True)):
        findings.add("time-given", f"{where}: not one of the given times for every job")
        return
    jobs = job_table(run.classes, run.shard_ms)
    for place, fabric in enumerate(problem.fabrics):
        expected = jobs.iteration_ms
        if fabric.kind != PARTITIONED:
            expected = times_together(problem, fabric, jobs, run.servers, seed)
        for job, (time, right) in enumerate(zip(run.times_ms[place], expected.tolist(), strict=True)):
            if differs(time, right, ALONE_RELATIVE):
                findings.add("time", f"{where}, job {job} on {fabric.name}: {time} ms, the formula gives {right} ms")


def _check_times(
    findings: ViolationLog,
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
