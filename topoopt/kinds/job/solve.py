"""Training jobs: strategy, topology and routes by a method, and the solution they amount to."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from solvers.job.baselines import FabricSearch, compare_fabrics
from solvers.job.methods import METHODS
from solvers.job.realise import routes_of_pairs
from topoopt.core.job import CoOptimisation
from topoopt.core.job_solution import Baseline, Evaluation, JobSolution, OperatorChoice
from topoopt.core.plan import Plan
from topoopt.core.proofs import Bound
from topoopt.core.solution import UNCHECKED, Objective
from topoopt.core.strategy import StrategyCertificate
from topoopt.core.verdict import Tolerance, settle
from topoopt.core.versions import versions
from topoopt.core.workload import GRADIENT_BYTES
from topoopt.costs.default_book import default_price_book
from topoopt.costs.fabric_prices import SimulatedFabric, fabric_prices
from topoopt.kinds.job.found_plan import COMPARED_SERVERS, FoundPlan, found_plan
from topoopt.kinds.job.strategy_bound import prove_bound
from topoopt.kinds.kind import Effort, Method, Solver, table
from topoopt.simulate.demand import demand_of
from topoopt.simulate.fabrics import plan_network
from topoopt.simulate.lower import build_task_graph
from topoopt.simulate.time_models.evaluate import evaluate
from topoopt.verify.job.instance_bounds import compute_bounds, instance_bounds

SEARCH_SHARE = 0.7
"""Part of a time limit for the search; bounds, other fabrics and the check have the rest."""

QUICK_S = 5.0
"""Time left below which the strategy program is tried only where it takes well under a second."""


def evaluate_plan(instance: CoOptimisation, plan: Plan, model: str = "rounds") -> Evaluation:
    """Simulate one iteration of a plan on its own direct-connect network."""
    graph = build_task_graph(instance.cluster, instance.workload, plan.strategy)
    network = plan_network(instance.cluster, plan)
    return evaluate(graph, network, model)


def assemble(instance: CoOptimisation, found: FoundPlan, effort: Effort) -> JobSolution:
    """The solution that a plan amounts to, simulated once more and bounded."""
    result, book, instance = found.result, effort.options.book, instance.shared_as(found.cluster)
    cluster, workload, plan = instance.cluster, instance.workload, result.plan
    evaluation = evaluate_plan(instance, plan)
    proven, certificate = _bound(instance, effort)
    baselines, notes = _baselines(instance, found, effort)
    prices = fabric_prices(cluster, _simulated(baselines, found.asked), book or default_price_book())
    objective = Objective("iteration_time", evaluation.iteration_time_ms, "ms")
    verdict = settle(objective.value, (proven,), Tolerance.ROUNDING)
    return JobSolution(
        name=instance.name,
        kind=instance.kind,
        status=verdict.status,
        stopped_by=result.stopped_by,
        objective=objective,
        bound=verdict.bound,
        check=UNCHECKED,
        seed=effort.search.seed,
        method=effort.search.method,
        cluster=cluster,
        workload_name=workload.name,
        samples=workload.samples,
        plan=plan,
        operators=tuple(_choices(instance, plan)),
        demand=demand_of(build_task_graph(cluster, workload, plan.strategy)),
        evaluation=evaluation,
        initial_ms=result.initial_ms,
        baselines=baselines,
        prices=prices,
        joint=result.joint,
        convergence=result.convergence,
        instance_sha256=instance.sha256,
        versions=versions(),
        notes=(*instance.notes, *result.notes, *notes),
        certificate=certificate,
    )


def _bound(instance: CoOptimisation, effort: Effort) -> tuple[Bound, StrategyCertificate | None]:
    """The best bound there is time for: of compute, of traffic, of the strategy program."""
    cluster, workload = instance.cluster, instance.workload
    known = effort.optional("bound on traffic", lambda: instance_bounds(cluster, workload))
    if known is None:
        return max(compute_bounds(cluster, workload), key=lambda each: each.value), None
    quick = _time_is_short(effort, QUICK_S)
    proven = effort.optional(
        "bound of the strategy program",
        lambda: prove_bound(
            cluster,
            workload,
            quick=quick,
            known=known,
            programs=effort.search.bound_programs,
            stop=lambda: _time_is_short(effort, 0.5 * QUICK_S),
        ),
    )
    return (max(known, key=lambda each: each.value), None) if proven is None else proven


def _time_is_short(effort: Effort, seconds: float) -> bool:
    left = None if effort.timing is None else effort.timing.before_check().remaining_s()
    return left is not None and left < seconds


def _baselines(
    instance: CoOptimisation, found: FoundPlan, effort: Effort
) -> tuple[tuple[Baseline, ...], tuple[str, ...]]:
    """The strategy held against other fabrics, where that is asked for, and notes on them."""
    if found.asked is None:
        large = instance.cluster.servers > COMPARED_SERVERS and not effort.options.objective_only
        return (), (f"no other fabrics: they are left out above {COMPARED_SERVERS} servers",) if large else ()
    stop = effort.stop if effort.timing is None else effort.timing.before_check()
    strategies = [found.result.plan.strategy]
    return compare_fabrics(instance.cluster, instance.workload, strategies, found.asked, stop, effort.optional)


def _simulated(baselines: tuple[Baseline, ...], asked: FabricSearch | None) -> list[SimulatedFabric]:
    """The fabrics that were simulated, as they are priced."""
    if asked is None:
        return []
    names = {line.fabric for line in baselines}
    return [
        SimulatedFabric(
            choice.name,
            choice.fabric,
            options.fat_tree_gbps if choice.fabric == "fat-tree" else options.nic_gbps,
            options.oversubscription,
            options.layer,
        )
        for choice, options in asked.fabrics
        if choice.name in names
    ]


def _choices(instance: CoOptimisation, plan: Plan) -> list[OperatorChoice]:
    choices = []
    for index, (operator, placement) in enumerate(
        zip(instance.workload.operators, plan.strategy.placements, strict=True)
    ):
        split = operator.splits[placement.split]
        choices.append(
            OperatorChoice(
                name=operator.name,
                kind=operator.kind,
                split=split.label,
                servers=plan.strategy.servers(instance.workload, index, instance.cluster.servers),
                forward_ms=split.forward_ms,
                backward_ms=split.backward_ms,
                weight_bytes=GRADIENT_BYTES * sum(operator.weight_elements),
                memory_bytes=split.server_memory_bytes,
            )
        )
    return choices


PARTS = 16
"""One route of so many is written to measure how long all take."""


def _excerpt(solution: JobSolution) -> tuple[JobSolution, int]:
    plan, routes, evaluation = solution.plan, solution.plan.routes, solution.evaluation
    some = np.zeros((solution.cluster.servers,) * 2, dtype=np.bool_)
    some[routes.source[::PARTS], routes.target[::PARTS]] = True
    demand = np.where(some, solution.demand.model_parallel_bytes, 0.0)
    part = replace(
        solution,
        plan=replace(plan, routes=routes_of_pairs(routes, some)),
        operators=solution.operators[::PARTS],
        demand=replace(solution.demand, model_parallel_bytes=demand),
        evaluation=replace(
            evaluation, link_bytes=evaluation.link_bytes[::PARTS], timeline=evaluation.timeline[::PARTS]
        ),
    )
    return part, PARTS


JOB_METHODS = table(
    Method("auto", "alternating; on small clusters it then asks the exact programs", partial(found_plan, "auto")),
    *(Method(name, line.summary, partial(found_plan, name)) for name, line in METHODS.items()),
)

SOLVER = Solver(
    methods=lambda _: JOB_METHODS,
    assemble=assemble,
    tables=lambda _: (("", JOB_METHODS),),
    search_share=SEARCH_SHARE,
    excerpt=_excerpt,
)
