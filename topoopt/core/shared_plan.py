"""From a co-optimised plan of one job to a class of jobs of a shared cluster."""

from __future__ import annotations

from dataclasses import replace

from topoopt.core.job_solution import JobSolution
from topoopt.core.shared_cluster_jobs import JobClass


def class_of_plan(job_class: JobClass, solution: JobSolution) -> JobClass:
    """The class with the times and bytes of a plan: iteration, compute of the busiest server, mean bytes of a server.

    AllReduces count with their ring traffic, 2 (k - 1) / k of the payload; model-parallel traffic as all-to-all.
    """
    demand = solution.demand
    n = demand.servers
    return replace(
        job_class,
        servers=n,
        iteration_ms=(solution.objective.value,),
        compute_ms=solution.busiest_server_compute_ms,
        allreduce_bytes=demand.allreduce_wire_bytes / n,
        all_to_all_bytes=float(demand.model_parallel_bytes.sum()) / n,
    )
