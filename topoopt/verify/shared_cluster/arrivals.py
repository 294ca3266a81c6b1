"""Jobs that arrive, as the checker sees them: everything is recomputed from the recorded stays and the instance."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.shared_cluster import PARTITIONED, Goal, SharedCluster
from topoopt.core.shared_cluster_figures import rounding_of
from topoopt.core.shared_cluster_jobs import DrawnJobs, JobsAtOnce, JobTable
from topoopt.core.shared_cluster_runs import FabricRun
from topoopt.core.shared_cluster_solution import SharedClusterSolution
from topoopt.core.solution import Decides
from topoopt.core.verdict import Status, StopReason, Tolerance, beats
from topoopt.verify.laws.bounds import check_claim, check_stated
from topoopt.verify.laws.findings import ViolationLog, check_status, differs
from topoopt.verify.shared_cluster.bounds import shared_bound
from topoopt.verify.shared_cluster.contention import check_contention
from topoopt.verify.shared_cluster.draws import check_jobs_drawn
from topoopt.verify.shared_cluster.queue import check_decisions, check_settings
from topoopt.verify.shared_cluster.stays import check_stays


def check_arrivals(findings: ViolationLog, problem: SharedCluster, solution: SharedClusterSolution) -> None:
    """Jobs that arrive: who held which servers when, what follows from it, objective and bound.

    `problem` has the rates of the fabrics, and the times of planned classes.
    """
    findings.guard("jobs", "the jobs", lambda: _check_jobs(findings, problem, solution))
    if not findings.clean:
        return
    findings.guard("draw", "the draws", lambda: check_jobs_drawn(findings, problem, solution))
    _check_groups(findings, problem, solution)
    there, asked = len(solution.runs), len(problem.fabrics)
    if not 1 <= there <= asked:
        findings.add("runs", f"{there} fabrics, not 1 to {asked}")
        return
    if there < asked:
        left = ", ".join(fabric.name for fabric in problem.fabrics[there:])
        findings.leave_out(f"jobs on {left}", "the solution does not hold them: it is of the objective, not whole")
    # The first fabric alone is what is simulated where nothing but the objective was asked for.
    whole = there in (1, asked) and all(run.whole for run in solution.runs)
    if not whole and solution.stopped_by in (StopReason.BUDGET, StopReason.CONVERGED):
        findings.add("runs", "not all jobs on all fabrics, though nothing stopped the run")
    for place, run in enumerate(solution.runs):
        step = partial(_check_run, findings, problem, solution, run, place)
        findings.guard("run", run.fabric.name, step)
    if findings.clean:
        findings.guard("objective", "the objective", lambda: _check_objective(findings, problem, solution))


def _check_groups(findings: ViolationLog, problem: SharedCluster, solution: SharedClusterSolution) -> None:
    """Servers with the same switches in all planes are a group; all of them where no fabric is partitioned."""
    due = np.zeros(problem.servers, dtype=np.int64)
    if any(fabric.kind == PARTITIONED for fabric in problem.fabrics):
        due = _groups(problem)
    if not np.array_equal(solution.groups, due):
        findings.add("groups", "the groups of the servers are not those of the switches")


def _check_jobs(findings: ViolationLog, problem: SharedCluster, solution: SharedClusterSolution) -> None:
    """The jobs are those of the trace, or possible draws."""
    jobs, given = solution.jobs, problem.jobs
    assert not isinstance(given, JobsAtOnce)
    count = given.count if isinstance(given, DrawnJobs) else len(given)
    lengths = {
        len(jobs.names),
        len(jobs.arrival_s),
        len(jobs.class_index),
        len(jobs.iterations),
        len(jobs.iteration_ms),
    }
    if lengths != {count}:
        findings.add("jobs", f"{len(jobs)} jobs, not {count}")
        return
    if not (np.isfinite(jobs.arrival_s).all() and (jobs.arrival_s >= 0).all() and (np.diff(jobs.arrival_s) >= 0).all()):
        findings.add("jobs", "arrivals fall or are no times")
    if (jobs.class_index < 0).any() or (jobs.class_index >= len(problem.classes)).any():
        findings.add("jobs", "a job of no class")
        return
    samples = [set(one.iteration_ms) for one in problem.classes]
    strange = [j for j, c in enumerate(jobs.class_index) if float(jobs.iteration_ms[j]) not in samples[c]]
    findings.add_each("jobs", np.array(strange, dtype=np.int64), lambda j: f"{jobs.names[j]} has a time of no class")
    if (jobs.iterations < 1).any():
        findings.add("jobs", "a job without iterations")
    if isinstance(given, DrawnJobs):
        mix = [index for index, _ in given.mix]
        if not np.isin(jobs.class_index, mix).all():
            findings.add("jobs", "a job of a class that is not in the mix")
        if given.rate_per_s is None and given.load is None and (jobs.arrival_s != 0).any():
            findings.add("jobs", "a job does not arrive at time 0")
        if given.spread != "fixed":
            return
    usual = [_usual(problem, jobs, j) for j in range(count)]
    if not isinstance(given, DrawnJobs):
        if tuple(job.name for job in given) != jobs.names:
            findings.add("jobs", "the names are not those of the trace")
        if [job.arrival_s for job in given] != jobs.arrival_s.tolist():
            findings.add("jobs", "the arrivals are not those of the trace")
        if [job.class_index for job in given] != jobs.class_index.tolist():
            findings.add("jobs", "the classes are not those of the trace")
        usual = [job.iterations or other for job, other in zip(given, usual, strict=True)]
    wrong = np.flatnonzero(np.abs(jobs.iterations - np.array(usual)) > 0.5 + 1e-6)
    findings.add_each("jobs", wrong, lambda j: f"{jobs.names[j]} has {jobs.iterations[j]} iterations, not {usual[j]:g}")


def _usual(problem: SharedCluster, jobs: JobTable, job: int) -> float:
    """Iterations its class gives a job, not rounded."""
    one = problem.classes[jobs.class_index[job]]
    if one.duration_s is None:
        return float(one.iterations or 0)
    return float(max(1.0, one.duration_s * 1e3 / float(jobs.iteration_ms[job])))


def _check_run(
    findings: ViolationLog, problem: SharedCluster, solution: SharedClusterSolution, run: FabricRun, place: int
) -> None:
    if problem.fabrics[place] != run.fabric:
        findings.add("fabric", f"{run.fabric.name!r} is not fabric {place} of the instance")
        return
    partitioned = run.fabric.kind == PARTITIONED
    if (run.decisions is not None) != (run.fabric.placement == "exact"):
        findings.add("decisions", f"{run.fabric.name}: decisions are counted where the placement is exact, only there")
    check_settings(findings, problem, solution, run)
    group = _groups(problem) if partitioned else np.zeros(problem.servers, dtype=np.int64)
    if not check_stays(findings, problem, solution.jobs, run):
        return
    check_decisions(findings, problem, solution.jobs, run, group)
    if not partitioned:
        decides = Decides.NOTHING if place else Decides.VALUE
        check_contention(findings, problem, solution.jobs, run, solution.seed, decides)


def _groups(problem: SharedCluster) -> Ints:
    """Servers with the same switches in all planes have one number, in the order of these switches."""
    columns = [tuple(column) for column in problem.layer.switch_of.T.tolist()]
    number = {column: place for place, column in enumerate(sorted(set(columns)))}
    return np.array([number[column] for column in columns], dtype=np.int64)


def _objective(problem: SharedCluster, jobs: JobTable, run: FabricRun) -> tuple[str, float, str]:
    """Name, value and unit of the objective, from the stays of the finished jobs."""
    stays = run.stays
    done = np.flatnonzero(run.finished).tolist()
    if problem.goal is Goal.COMPLETION_TIME:
        end = {
            int(job): float(time) for job, time in zip(stays.job, stays.work_to_s, strict=True)
        }  # the last stay counts
        return "mean_completion_time", math.fsum(end[j] - float(jobs.arrival_s[j]) for j in done) / len(done), "s"
    worked = dict.fromkeys(done, 0.0)
    for job, begin, until in zip(stays.job.tolist(), stays.work_from_s, stays.work_to_s, strict=True):
        if job in worked:
            worked[job] += float(until - begin)
    mean = math.fsum(worked[j] * 1e3 / int(jobs.iterations[j]) for j in done) / len(done)
    return "mean_iteration_time", mean, "ms"


def _check_objective(findings: ViolationLog, problem: SharedCluster, solution: SharedClusterSolution) -> None:
    first = solution.runs[0]
    if not first.finished.any():
        findings.add("objective", "no job has ended on the first fabric")
        return
    name, value, unit = _objective(problem, solution.jobs, first)
    found = solution.objective
    if (found.name, found.unit) != (name, unit) or differs(found.value, value):
        findings.add("objective", f"{found.name} is {found.value!r} {found.unit}, not {name} {value!r} {unit}")
    bound = shared_bound(problem, first.fabric, solution.jobs, first.finished)
    check_stated(findings, solution.bound, {bound.argument: partial(float, bound.value)}, found.value)
    check_claim(findings, solution, ())
    rounding = rounding_of(found.value, first, solution.jobs)
    if beats(found.value, bound.value, Tolerance.ROUNDING, absolute=rounding):
        findings.add("bound", f"{found.value!r} is better than the bound {bound.value!r}")
    if solution.status is Status.OPTIMAL and not first.whole:
        findings.add("status", "called optimal, where not all jobs are there")
    check_status(findings, solution, Tolerance.ROUNDING, absolute=rounding, conclusive=first.whole)
