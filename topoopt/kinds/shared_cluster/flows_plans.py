"""How the jobs of each class run on each fabric: planned once, by the search the fabric calls for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.job.fabric_strategy import FabricJob, fabric_job, search_strategy
from solvers.job.methods import default_budget, run_method
from solvers.stop import Stop
from topoopt.core.job import BaselineSettings, CoOptimisation, FabricChoice
from topoopt.core.plan import Plan
from topoopt.core.search_settings import SearchSettings
from topoopt.core.shared_load import SHARDS, JobClass, SharedLoadProblem
from topoopt.core.shared_load_solution import ClassPlan
from topoopt.core.solution import Bound
from topoopt.core.strategy import Strategy
from topoopt.core.taskgraph import TaskGraph
from topoopt.kinds.shared_cluster.flows_draw import place_jobs
from topoopt.kinds.shared_cluster.flows_statistics import mean
from topoopt.simulate.cluster.together import TOGETHER_MODELS, job_view
from topoopt.simulate.fabrics import FABRICS, FabricOptions, direct_connect_network
from topoopt.simulate.fabrics.chosen import options_of
from topoopt.simulate.lower import build_task_graph
from topoopt.simulate.network import Network
from topoopt.verify.job.instance_bounds import compute_bounds, instance_bounds
from topoopt.verify.job.plan import check_plan

Tell = Callable[[str], None]
"""Called with what is begun."""

ALONE = 2**32
"""In place of a load, for the placement on which a class is planned."""


@dataclass(frozen=True, eq=False)
class Planned:
    """A plan with the task graph it runs; None for a class of which only times are known."""

    plan: ClassPlan
    graph: TaskGraph | None


def fabric_options(choice: FabricChoice, seed: int) -> FabricOptions:
    """Options of a fabric the jobs share."""
    return options_of(choice, BaselineSettings(), seed)


def plan_class(
    problem: SharedLoadProblem, index: int, search: SearchSettings, stop: Stop, tell: Tell
) -> tuple[list[Planned], list[str]]:
    """The plans of a class on every fabric, and what the checker rejects of its plan on a shard.

    A shard gets the co-optimised plan. A shared fabric gets the best strategy found on it, for a job that has it to
    itself on servers drawn as those of the jobs are.

    Raises:
        InfeasibleError: no plan satisfies the constraints.
        InputError: a fabric does not exist for the cluster.
    """
    one = problem.classes[index]
    if one.job is None:
        alone = mean(one.times_ms)
        plans = [ClassPlan(each.name, one.name, alone, min(one.times_ms), "given", None) for each in problem.fabrics]
        return [Planned(plan, None) for plan in plans], []
    cluster, workload = one.job.cluster, one.job.workload
    budget = default_budget(cluster, workload) if search.budget is None else search.budget
    tell(f"{one.name}: plan of a shard")
    result = run_method(search.method, cluster, workload, budget=budget, seed=search.seed, stop=stop)
    rejected = [f"{one.name}: {each}" for each in check_plan(cluster, workload, result.plan)]
    tried = fabric_job(cluster, workload, [result.plan.strategy])
    found = []
    for place, choice in enumerate(problem.fabrics):
        if choice.fabric == SHARDS:
            found.append(_shard(problem, one, one.job, choice, result.plan))
            continue
        tell(f"{one.name}: strategy on {choice.name}")
        seed = search.seed * 1_000_003 + 900 + place
        found.append(_shared(problem, index, one.job, choice, tried, replace(search, seed=seed, budget=budget), stop))
    return found, rejected


def _alone(problem: SharedLoadProblem, graph: TaskGraph, network: Network) -> float:
    return float(TOGETHER_MODELS[problem.time_model](graph, network, np.array([0, graph.tasks], dtype=np.int64))[0])


def _planned(
    choice: FabricChoice, name: str, alone_ms: float, bounds: Sequence[Bound], strategy: Strategy, graph: TaskGraph
) -> Planned:
    bound = max(bounds, key=lambda each: each.value)
    return Planned(ClassPlan(choice.name, name, alone_ms, bound.value, bound.proved_by, strategy), graph)


def _shard(problem: SharedLoadProblem, one: JobClass, job: CoOptimisation, choice: FabricChoice, plan: Plan) -> Planned:
    graph = build_task_graph(job.cluster, job.workload, plan.strategy)
    network = direct_connect_network(job.cluster, plan.topology, plan.routes, plan.rings)
    bounds = instance_bounds(job.cluster, job.workload)
    made = _planned(choice, one.name, _alone(problem, graph, network), bounds, plan.strategy, graph)
    return replace(made, plan=replace(made.plan, topology=plan.topology.origin))


def _shared(
    problem: SharedLoadProblem,
    index: int,
    job: CoOptimisation,
    choice: FabricChoice,
    tried: FabricJob,
    search: SearchSettings,
    stop: Stop,
) -> Planned:
    draw = np.random.default_rng([problem.search.seed, ALONE, index])
    servers = place_jobs(problem, (index,), draw)[0]
    options = fabric_options(choice, int(draw.integers(2**31)))
    network = job_view(servers, problem.cluster, FABRICS[choice.fabric].build, options)
    found = search_strategy(tried, network, proposals=search.budget or 0, seed=search.seed, stop=stop)
    strategy = found.strategy
    graph = build_task_graph(job.cluster, job.workload, strategy)
    bounds = compute_bounds(job.cluster, job.workload)
    return _planned(choice, problem.classes[index].name, _alone(problem, graph, network), bounds, strategy, graph)
