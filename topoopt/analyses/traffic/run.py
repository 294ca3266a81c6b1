"""Traffic on the links: of a plan, or of a job's starting strategy on the rings of TotientPerms."""

from __future__ import annotations

import numpy as np

from solvers.job.strategy.starts import data_parallel
from solvers.network.constructions import balanced_routes, circulant_topology, group_rings
from solvers.network.constructions.circulant import distances_text
from topoopt.core.errors import CheckError
from topoopt.core.job import CoOptimisation
from topoopt.core.job_solution import JobSolution
from topoopt.core.traffic import TrafficFigures
from topoopt.library.topologies import totient
from topoopt.simulate.demand import demand_of
from topoopt.simulate.lower import build_task_graph
from topoopt.simulate.traffic import traffic_figures

RELATIVE = 1e-9


def plan_traffic(solution: JobSolution) -> TrafficFigures:
    """Traffic of a plan, counted from its demand, routes and rings.

    Raises:
        InputError: AllReduces run on schedules.
        CheckError: the link loads the simulation recorded are others.
    """
    plan = solution.plan
    plan.require_rings("traffic by counting")
    text = f"the plan found, on {plan.topology.origin or 'its topology'}"
    found = traffic_figures(solution.name, text, solution.demand, plan.topology, plan.routes, plan.rings)
    recorded = np.repeat(solution.evaluation.link_bytes / plan.topology.multiplicity, plan.topology.multiplicity)
    if not np.allclose(found.link_bytes, recorded, rtol=RELATIVE, atol=1.0):
        raise CheckError("the bytes of the links in the solution are not those of its demand, routes and rings")
    return found


def starting_traffic(instance: CoOptimisation, selection: str) -> TrafficFigures:
    """Traffic of data parallelism, operators of one server spread evenly, on TotientPerms rings over all interfaces.

    This is the setting of TopoOpt's figures 13 to 15. Routes are shortest and balanced for the traffic.

    Args:
        instance: the job and its cluster.
        selection: of the ring distances, `paper`, `flexnet` or `best`.

    Raises:
        InputError: no such selection.
        InfeasibleError: rings alone do not connect the servers.
    """
    cluster, workload = instance.cluster, instance.workload
    found = totient(cluster.servers, cluster.degree, cluster.links.value, selection)
    topology = circulant_topology(cluster.servers, cluster.degree, cluster.links, found.distances)
    demand = demand_of(build_task_graph(cluster, workload, data_parallel(cluster.servers, workload)))
    routes = balanced_routes(topology, demand.model_parallel_bytes, seed=instance.search.seed)
    rings = group_rings(topology, [group.members for group in demand.allreduce], max_rings=max(2, topology.degree))
    text = f"data parallel, on rings {distances_text(found.distances)} ({selection})"
    return traffic_figures(instance.name, text, demand, topology, routes, rings)
