"""How jobs at once of each class run on each fabric: planned once, by the search the fabric calls for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.job.fabric_strategy import FabricJob, fabric_job, search_strategy
from solvers.job.methods import default_budget, run_method
from solvers.stop import Stop
from topoopt.core.draws import Draws
from topoopt.core.errors import CheckError
from topoopt.core.job import BaselineSettings, CoOptimisation, FabricChoice
from topoopt.core.plan import Plan
from topoopt.core.proofs import Argument, Bound
from topoopt.core.search_settings import SearchSettings
from topoopt.core.shared_cluster import PARTITIONED, Fabric, SharedCluster
from topoopt.core.shared_cluster_jobs import JobClass
from topoopt.core.shared_cluster_runs import ClassPlan
from topoopt.core.strategy import Strategy
from topoopt.core.taskgraph import TaskGraph
from topoopt.simulate.cluster.together import first_iterations, job_view
from topoopt.simulate.fabrics import FABRICS, FabricOptions, plan_network
from topoopt.simulate.fabrics.chosen import options_of
from topoopt.simulate.lower import build_task_graph
from topoopt.simulate.network import Network
from topoopt.simulate.time_models.time_model import whole
from topoopt.verify.job.instance_bounds import compute_bounds, instance_bounds
from topoopt.verify.job.plan import check_plan
from topoopt.workloads.jobs_at_once import place_jobs

Tell = Callable[[str], None]
"""Called with what is begun."""

ALONE = 2**32
"""In place of a load, for the placement on which a class is planned."""


@dataclass(frozen=True, eq=False)
class Planned:
    """A plan with the task graph it runs; None for a class of which only times are known."""

    plan: ClassPlan
    graph: TaskGraph | None


def fabric_options(fabric: Fabric, seed: int) -> FabricOptions:
    """Options of a fabric the jobs share."""
    choice = FabricChoice(
        fabric=fabric.kind,
        nic_gbps=fabric.server_gbps,
        oversubscription=fabric.oversubscription,
        layer=fabric.oversubscribed_at,
        shape=fabric.shape,
        ecmp=fabric.paths if fabric.paths in ("spread", "sprayed") else None,
    )
    return options_of(choice, BaselineSettings(), seed)


def plan_class(problem: SharedCluster, index: int, search: SearchSettings, stop: Stop, tell: Tell) -> list[Planned]:
    """The plans of a class on every fabric.

    A shard gets the co-optimised plan. A shared fabric gets the best strategy found on it, for a job that has it to
    itself on servers drawn as those of the jobs are.

    Raises:
        InfeasibleError: no plan satisfies the constraints.
        InputError: a fabric does not exist for the cluster.
        CheckError: the checker rejects the plan of a shard (a bug of ours).
    """
    one = problem.classes[index]
    if one.plan is None:
        alone = float(np.mean(one.iteration_ms))
        plans = [
            ClassPlan(each.name, one.name, alone, Bound(min(one.iteration_ms), Argument.GIVEN_TIMES), None)
            for each in problem.fabrics
        ]
        return [Planned(plan, None) for plan in plans]
    cluster, workload = one.plan.cluster, one.plan.workload
    budget = default_budget(cluster, workload) if search.budget is None else search.budget
    tell(f"{one.name}: plan of a shard")
    result = run_method(search.method, cluster, workload, budget=budget, seed=search.seed, stop=stop)
    rejected = [f"{one.name}: {each}" for each in check_plan(cluster, workload, result.plan)]
    if rejected:
        raise CheckError("\n".join(rejected))
    tried = fabric_job(cluster, workload, [result.plan.strategy])
    found = []
    for place, fabric in enumerate(problem.fabrics):
        if fabric.kind == PARTITIONED:
            found.append(_shard(problem, one, one.plan, fabric, result.plan))
            continue
        tell(f"{one.name}: strategy on {fabric.name}")
        seed = search.seed * 1_000_003 + 900 + place
        found.append(_shared(problem, index, one.plan, fabric, tried, replace(search, seed=seed, budget=budget), stop))
    return found


def _alone(problem: SharedCluster, graph: TaskGraph, network: Network) -> float:
    return float(first_iterations(problem.time_model, graph, network, whole(graph))[0])


def _planned(
    fabric: Fabric, name: str, alone_ms: float, bounds: Sequence[Bound], strategy: Strategy, graph: TaskGraph
) -> Planned:
    bound = max(bounds, key=lambda each: each.value)
    return Planned(ClassPlan(fabric.name, name, alone_ms, bound, strategy), graph)


def _shard(problem: SharedCluster, one: JobClass, job: CoOptimisation, fabric: Fabric, plan: Plan) -> Planned:
    graph = build_task_graph(job.cluster, job.workload, plan.strategy)
    network = plan_network(job.cluster, plan)
    bounds = instance_bounds(job.cluster, job.workload)
    made = _planned(fabric, one.name, _alone(problem, graph, network), bounds, plan.strategy, graph)
    return replace(made, plan=replace(made.plan, topology=plan.topology.origin))


def _shared(
    problem: SharedCluster,
    index: int,
    job: CoOptimisation,
    fabric: Fabric,
    tried: FabricJob,
    search: SearchSettings,
    stop: Stop,
) -> Planned:
    jobs = problem.at_once
    assert jobs is not None
    draws = Draws(problem.search.seed, ALONE, index)
    servers = place_jobs(jobs, [problem.classes[index].servers], problem.servers, draws)[0]
    options = fabric_options(fabric, int(draws.below(2**31, 1)[0]))
    network = job_view(servers, problem.cluster, FABRICS[fabric.kind].build, options)
    found = search_strategy(tried, network, proposals=search.budget or 0, seed=search.seed, stop=stop)
    strategy = found.strategy
    graph = build_task_graph(job.cluster, job.workload, strategy)
    bounds = compute_bounds(job.cluster, job.workload)
    return _planned(fabric, problem.classes[index].name, _alone(problem, graph, network), bounds, strategy, graph)
