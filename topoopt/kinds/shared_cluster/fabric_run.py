"""The jobs on one fabric: state of the cluster, simulation, figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from solvers.stop import Stop
from topoopt.core.shared_cluster import ACROSS_GROUPS, PARTITIONED, Fabric, Scheduling, SharedCluster, server_groups
from topoopt.core.shared_cluster_jobs import JobClass, JobTable
from topoopt.core.shared_cluster_runs import Decisions, FabricRun
from topoopt.core.shared_cluster_solution import SharedClusterSolution
from topoopt.core.verdict import StopReason
from topoopt.costs.equivalence import cost_equivalent_fat_tree_gbps
from topoopt.kinds.shared_cluster.exact import ExactPlacer
from topoopt.kinds.shared_cluster.spread import SpreadPlacer
from topoopt.simulate.cluster import simulate
from topoopt.simulate.cluster.loads import shared_links
from topoopt.simulate.cluster.placers import PLACERS, Placer
from topoopt.simulate.cluster.state import ClusterState, Switching
from topoopt.simulate.cluster.work import RunningWork, WorkAlone, WorkShared

Progress = Callable[[str, int, int], None]
"""Called with (what is begun, steps done, steps in all)."""

Keep = Callable[[Callable[[], SharedClusterSolution]], None]
"""Called whenever there is more, with what makes a solution of it should the run have to be left."""


def rated(problem: SharedCluster, fabric: Fabric) -> Fabric:
    """The fabric with its server rate."""
    if fabric.server_gbps is not None:
        return fabric
    return replace(fabric, server_gbps=cost_equivalent_fat_tree_gbps(problem.cluster.degree, problem.cluster.link_gbps))


def run_fabric(
    problem: SharedCluster,
    place: int,
    classes: tuple[JobClass, ...],
    jobs: JobTable,
    scheduling: Scheduling,
    seed: int,
    stop: Stop,
    progress: Progress,
) -> FabricRun:
    """Simulate the jobs on one fabric of the problem; the seed draws servers and paths."""
    fabric = rated(problem, problem.fabrics[place])
    assert fabric.server_gbps is not None
    partitioned = fabric.kind == PARTITIONED
    group = server_groups(problem.layer) if partitioned else np.zeros(problem.servers, dtype=np.int64)
    switching = Switching(problem.layer.switching_time_s, problem.look_ahead) if partitioned else Switching()
    work: RunningWork
    if partitioned:
        work = WorkAlone(jobs)
    else:
        links = shared_links(problem.servers, fabric, fabric.server_gbps, seed)
        direct = [problem.direct_gbps(one) for one in classes]
        work = WorkShared(jobs, classes, fabric, links, direct, problem.contention)
    if not partitioned or fabric.placement in ACROSS_GROUPS:
        scheduling = replace(scheduling, defragment=False)
    placer: Placer
    if fabric.placement == "exact":
        placer = ExactPlacer(problem.layer, classes, seed, stop)
    elif fabric.placement == "spread":
        placer = SpreadPlacer(problem.layer, classes, seed)
    else:
        placer = PLACERS[fabric.placement](group, seed)
    free = np.ones(problem.servers, dtype=bool)
    cluster = ClusterState(jobs, classes, free, placer, work, switching, scheduling)

    def ask() -> StopReason | None:
        progress(f"{fabric.name}: jobs started", len(cluster.record.job), len(jobs))
        return stop.reason()

    outcome = simulate(cluster, ask)
    return FabricRun(
        fabric=fabric,
        queue=scheduling.queue.value,
        defragment=scheduling.defragment,
        finished=outcome.finished,
        stays=outcome.stays,
        decisions=Decisions(placer.proven, placer.unproven) if isinstance(placer, ExactPlacer) else None,
    )
