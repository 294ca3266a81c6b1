"""Traffic on the links: of a plan, or of a job's starting strategy on the rings of TotientPerms."""

from __future__ import annotations

import numpy as np

from solvers.job.starts import data_parallel
from solvers.network.constructions import balanced_routes, circulant_topology, group_rings
from solvers.network.constructions.circulant import distances_text
from topoopt.core.errors import CheckError
from topoopt.core.job import CoOptimisation, JobPlan
from topoopt.core.result import Result
from topoopt.core.routing import AllReduceDemand, Demand, TrafficFigures
from topoopt.library.topologies import totient
from topoopt.simulate.demand import demand_of
from topoopt.simulate.lower import build_task_graph
from topoopt.simulate.traffic import traffic_figures

RELATIVE = 1e-9


def plan_traffic(solution: Result[CoOptimisation, JobPlan]) -> TrafficFigures:
    """Traffic of a plan, counted from its demand, routes and rings.

    Raises:
        InputError: AllReduces run on schedules.
        CheckError: the link loads the simulation recorded are others.
    """
    plan, figures = solution.plan, solution.figures
    plan.require_rings("traffic by counting")
    text = f"the plan found, on {plan.topology.origin or 'its topology'}"
    found = traffic_figures(solution.name, text, figures.demand, plan.topology, plan.routes, plan.rings)
    recorded = np.repeat(figures.evaluation.link_bytes / plan.topology.multiplicity, plan.topology.multiplicity)
    if not np.allclose(found.link_bytes, recorded, rtol=RELATIVE, atol=1.0):
        raise CheckError("the simulated bytes of the links are not those of the demand, routes and rings")
    return found


PLACED, REPLICATED = STARTS = ("placed", "replicated")
"""Operators that cannot be split on one server each, or the weights of all of them on every server."""


def starting_traffic(instance: CoOptimisation, selection: str, start: str = PLACED) -> TrafficFigures:
    """Traffic of data parallelism on TotientPerms rings over all interfaces.

    `placed`, with operators of one server spread evenly, is the setting of TopoOpt's figures 13 to 15;
    figure 1 has both. Routes are shortest and balanced for the traffic.

    Args:
        instance: the job and its cluster.
        selection: of the ring distances, `paper`, `flexnet` or `best`.
        start: one of `STARTS`. `replicated` asks not whether the weights fit into memory.

    Raises:
        InputError: no such selection.
        InfeasibleError: rings alone do not connect the servers.
    """
    cluster = instance.cluster
    found = totient(cluster.servers, cluster.degree, cluster.links.value, selection)
    topology = circulant_topology(cluster.servers, cluster.degree, cluster.links, found.distances)
    demand = _replicated(instance) if start == REPLICATED else _placed(instance)
    routes = balanced_routes(topology, demand.model_parallel_bytes, seed=instance.search.seed)
    rings = group_rings(topology, [group.members for group in demand.allreduce], max_rings=max(2, topology.degree))
    what = "data parallel, all weights on every server" if start == REPLICATED else "data parallel"
    text = f"{what}, on rings {distances_text(found.distances)} ({selection})"
    return traffic_figures(instance.name, text, demand, topology, routes, rings)


def _placed(instance: CoOptimisation) -> Demand:
    cluster, workload = instance.cluster, instance.workload
    return demand_of(build_task_graph(cluster, workload, data_parallel(cluster.servers, workload)))


def _replicated(instance: CoOptimisation) -> Demand:
    """All servers reduce the gradients of all weights, and each has what its own samples need."""
    n = instance.cluster.servers
    everyone = AllReduceDemand(tuple(range(n)), float(instance.workload.weight_bytes))
    return Demand(np.zeros((n, n)), (everyone,))
