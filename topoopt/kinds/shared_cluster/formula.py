"""Jobs at once whose contention follows a formula: the time of an iteration while all of them run."""

from __future__ import annotations

import numpy as np

from solvers.stop import Stop
from topoopt.core.errors import InputError
from topoopt.core.proofs import Argument, Bound
from topoopt.core.shared_cluster import PARTITIONED, Fabric, SharedCluster
from topoopt.core.shared_cluster_jobs import JobClass, JobTable
from topoopt.core.shared_cluster_runs import ClassPlan
from topoopt.kinds.shared_cluster.arrivals import planned_classes, rate_problems
from topoopt.kinds.shared_cluster.fabric_run import rated
from topoopt.kinds.shared_cluster.plans import Tell
from topoopt.simulate.cluster.loads import shared_links
from topoopt.simulate.cluster.work import WorkShared, alone_ms
from topoopt.verify.shared_cluster.planned import least_alone_ms
from topoopt.workloads.jobs_at_once import Draw, sampled


class Formula:
    """See `topoopt.kinds.shared_cluster.at_once.Contender`."""

    def __init__(self, problem: SharedCluster) -> None:
        self.problem = problem
        self.classes: tuple[JobClass, ...] = problem.classes
        self.fabrics = [rated(problem, fabric) for fabric in problem.fabrics]
        self.rates_gbps = tuple(fabric.server_gbps or 0.0 for fabric in self.fabrics)
        self.steps = len(problem.classes)
        self.notes: tuple[str, ...] = ()

    def prepare(self, stop: Stop, tell: Tell) -> None:
        """Plan the classes whose times are not given.

        Raises:
            InputError: iteration times in which the bytes cannot be sent.
        """
        for one in self.classes:
            tell(f"{one.name}: times and bytes")
        self.classes, self.notes = planned_classes(self.problem, stop)
        problems = rate_problems(self.problem, self.classes)
        if problems:
            raise InputError(problems)

    def plans(self) -> tuple[ClassPlan, ...]:
        """For every fabric every class, which has no strategy here."""
        plans = []
        for fabric in self.fabrics:
            for index, one in enumerate(self.classes):
                times = self._alone_ms(fabric, _table([index] * len(one.iteration_ms), one.iteration_ms))
                planned = one.lower_bounds is not None
                least = least_alone_ms(self.problem, fabric, one) if planned else float(times.min())
                bound = Bound(least, Argument.ALONE)
                plans.append(ClassPlan(fabric.name, one.name, float(times.mean()), bound, None))
        return tuple(plans)

    def _alone_ms(self, fabric: Fabric, jobs: JobTable) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        if fabric.kind == PARTITIONED:
            return jobs.iteration_ms
        return alone_ms(jobs, self.classes, fabric, [self.problem.direct_gbps(one) for one in self.classes])

    def shard_ms(self, draw: Draw) -> tuple[float, ...]:
        """Time of each job on a shard of its own, ms."""
        return tuple(
            sampled(self.classes[index], sample) or 0.0 for index, sample in zip(draw.classes, draw.sample, strict=True)
        )

    def run(self, draw: Draw, place: int) -> tuple[float, ...]:
        """Iteration of each job of a draw on one fabric while all of them run, ms."""
        problem, fabric = self.problem, self.fabrics[place]
        jobs = _table(list(draw.classes), self.shard_ms(draw))
        if fabric.kind == PARTITIONED:
            return tuple(jobs.iteration_ms.tolist())
        links = shared_links(problem.servers, fabric, self.rates_gbps[place], problem.search.seed)
        direct = [problem.direct_gbps(one) for one in self.classes]
        work = WorkShared(jobs, self.classes, fabric, links, direct, problem.contention)
        for job, servers in enumerate(draw.servers):
            work.start(job, np.array(sorted(servers), dtype=np.int64), 0.0)
        work.refresh()
        return tuple(work.iteration_ms(job) for job in range(len(jobs)))

    def describe(self, fabric: Fabric) -> str:
        """What a fabric that jobs share is."""
        chosen = next(one for one in self.fabrics if one.name == fabric.name)
        ratio = chosen.oversubscription or 1.0
        thinned = f", {ratio:g}:1 above the {chosen.oversubscribed_at or 'rack'}" if ratio > 1 else ""
        return f"{chosen.kind}, {chosen.server_gbps:.4g} Gbit/s a server{thinned}, {chosen.paths} paths"


def _table(classes: list[int], iteration_ms: tuple[float, ...]) -> JobTable:
    """Jobs of one iteration that begin at time 0."""
    count = len(classes)
    return JobTable(
        tuple(f"job-{number}" for number in range(count)),
        np.zeros(count),
        np.array(classes, dtype=np.int32),
        np.ones(count, dtype=np.int64),
        np.array(iteration_ms, dtype=np.float64),
    )
