"""From a schedule to the solution it amounts to."""

from __future__ import annotations

from dataclasses import replace

from topoopt.core.collective import CollectiveObjective, CollectiveProblem
from topoopt.core.collective_solution import CollectiveSolution, CollectiveTimes
from topoopt.core.solution import UNCHECKED, Objective
from topoopt.core.verdict import Tolerance, settle
from topoopt.core.versions import versions
from topoopt.kinds.collective.methods import COLLECTIVE_METHODS, FoundCollective
from topoopt.kinds.kind import Effort, Solver
from topoopt.verify.collective.check import proven_bound


def assemble(problem: CollectiveProblem, found: FoundCollective, effort: Effort) -> CollectiveSolution:
    """The solution that a schedule amounts to."""
    times = found.timing
    objective = {
        CollectiveObjective.TIME: Objective("time", times.step_us, "us"),
        CollectiveObjective.THROUGHPUT: Objective("algbw", problem.vector_bytes / times.busy_us / 1e3, "GB/s"),
        CollectiveObjective.LATENCY: Objective("steps", float(found.schedule.steps), "steps"),
        CollectiveObjective.PARETO: Objective("time", times.step_us, "us"),
    }[problem.objective]
    verdict = settle(
        objective.value,
        (proven_bound(problem, found.proof),),
        Tolerance.LONG_SUMS,
        rounding=Tolerance.LONG_SUMS,
        maximise=problem.objective is CollectiveObjective.THROUGHPUT,
    )
    return CollectiveSolution(
        name=problem.name,
        status=verdict.status,
        stopped_by=found.stopped_by,
        objective=objective,
        bound=verdict.bound,
        check=UNCHECKED,
        seed=effort.search.seed,
        method=found.method,
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=problem.notes,
        network=problem.network,
        collective=problem.collective,
        vector_bytes=problem.vector_bytes,
        root=problem.root,
        message_us=problem.message_us,
        multicast=problem.multicast,
        relaying=problem.relaying,
        schedule=found.schedule,
        times=CollectiveTimes(
            times.makespan_us,
            step_us=None if objective.name == "time" else times.step_us,
            busy_us=None if objective.name == "algbw" else times.busy_us,
        ),
        proof=found.proof,
        front=found.front,
    )


PARTS = 16
"""One message of so many is written to measure how long all take."""


def _excerpt(solution: CollectiveSolution) -> tuple[CollectiveSolution, int]:
    return replace(solution, schedule=solution.schedule.one_in(PARTS)), PARTS


SOLVER = Solver(
    methods=lambda _: COLLECTIVE_METHODS,
    assemble=assemble,
    tables=lambda _: (("", COLLECTIVE_METHODS),),
    excerpt=_excerpt,
)
