"""From a schedule to the solution it amounts to."""

from __future__ import annotations

from topoopt.core.collective import Collective, CollectiveObjective, CollectiveProblem
from topoopt.core.collective_solution import CollectiveSolution
from topoopt.core.proofs import Argument, Bound
from topoopt.core.solution import UNCHECKED, Objective
from topoopt.core.verdict import Tolerance, settle
from topoopt.core.versions import versions
from topoopt.kinds.collective.methods import COLLECTIVE_METHODS, FoundCollective
from topoopt.kinds.kind import Effort, Solver
from topoopt.verify.collective.check import proven_bound

ARGUMENTS = {
    Collective.ALLREDUCE: Argument.ALLREDUCE_ROOTS,
    Collective.ALL_TO_ALL: Argument.PAIR_LENGTHS,
}
"""What bounds the rate, where it is not a cut."""


def assemble(problem: CollectiveProblem, found: FoundCollective, effort: Effort) -> CollectiveSolution:
    """The solution that a schedule amounts to."""
    times = found.timing
    objective = {
        CollectiveObjective.TIME: Objective("time", times.step_us, "us"),
        CollectiveObjective.THROUGHPUT: Objective("algbw", problem.vector_bytes / times.busy_us / 1e3, "GB/s"),
        CollectiveObjective.LATENCY: Objective("steps", float(found.schedule.steps), "steps"),
    }[problem.objective]
    argument = ARGUMENTS.get(problem.collective, Argument.NETWORK_CUT)
    if problem.objective is CollectiveObjective.LATENCY:
        argument = Argument.RANK_DISTANCES
    value, status = settle(
        objective.value,
        Bound(proven_bound(problem, found.proof), argument),
        Tolerance.LONG_SUMS,
        rounding=Tolerance.LONG_SUMS,
        maximise=problem.objective is CollectiveObjective.THROUGHPUT,
    )
    return CollectiveSolution(
        name=problem.name,
        status=status,
        stopped_by=found.stopped_by,
        objective=objective,
        bound=value,
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
        time_us=times.step_us,
        makespan_us=times.makespan_us,
        busy_us=times.busy_us,
        proof=found.proof,
    )


SOLVER = Solver(methods=lambda _: COLLECTIVE_METHODS, assemble=assemble)
