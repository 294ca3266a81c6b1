"""The one straight line from an instance to a checked solution."""

from __future__ import annotations

from dataclasses import replace

from solvers.job.baselines import FabricSearch, compare_fabrics
from solvers.job.loop import LoopResult, Progress
from solvers.job.methods import METHODS, default_budget, run_method
from solvers.stop import stop_on_signals
from topoopt.core.errors import InputError, Problem
from topoopt.core.job import CoOptimisation
from topoopt.core.job_solution import Baseline, Evaluation, JobSolution, OperatorChoice
from topoopt.core.plan import Plan
from topoopt.core.price_book import PriceBook
from topoopt.core.search_settings import SearchSettings
from topoopt.core.solution import UNCHECKED, Bound, Objective
from topoopt.core.verdict import StopReason, Tolerance, settle
from topoopt.core.versions import versions
from topoopt.core.workload import GRADIENT_BYTES
from topoopt.costs.default_book import default_price_book
from topoopt.costs.fabric_prices import SimulatedFabric, fabric_prices
from topoopt.files.documents import parse_document
from topoopt.kinds.job.fabric_comparison import fabric_problems, fabric_search
from topoopt.kinds.job.strategy_bound import prove_bound
from topoopt.simulate.demand import demand_of
from topoopt.simulate.fabrics import direct_connect_network
from topoopt.simulate.hops import diameter_and_mean_hops
from topoopt.simulate.lower import build_task_graph
from topoopt.simulate.time_models.evaluate import evaluate
from topoopt.verify.job.check import check_solution
from topoopt.verify.job.instance_bounds import instance_bounds


def solve(
    instance: CoOptimisation,
    *,
    seed: int | None = None,
    time_limit_s: float | None = None,
    budget: int | None = None,
    method: str | None = None,
    baselines: bool = True,
    book: PriceBook | None = None,
    progress: Progress | None = None,
) -> JobSolution:
    """Find strategy, topology and routes of least iteration time, evaluate, bound and check them.

    Arguments left out are taken from the instance. Ctrl-C and the time limit end the search; the best plan so far is
    evaluated and returned. Without `baselines` the job is not searched on other fabrics. `book` has the prices of the
    networks, by default those shipped.

    Raises:
        InputError: a setting of the search is out of range, or its method unknown.
        InfeasibleError: no plan satisfies the constraints.
    """
    search = instance.search.but(seed=seed, time_limit_s=time_limit_s, budget=budget, method=method)
    problems = search_problems(search, instance.source if method is None else "")
    problems += fabric_problems(instance)
    if problems:
        raise InputError(problems)
    proposals = default_budget(instance.cluster, instance.workload) if search.budget is None else search.budget
    with stop_on_signals(search.time_limit_s) as stop:
        result = run_method(
            search.method,
            instance.cluster,
            instance.workload,
            budget=proposals,
            seed=search.seed,
            stop=stop,
            progress=progress,
            robust=search.robust,
        )
        asked = fabric_search(instance, proposals // 20, search.seed, book)
        others: tuple[tuple[Baseline, ...], tuple[str, ...]] = ((), ())
        if baselines:
            others = compare_fabrics(instance.cluster, instance.workload, [result.plan.strategy], asked, stop)
        # Still inside: Ctrl-C after the search must not lose the plan.
        bounds = instance_bounds(instance.cluster, instance.workload)
        quick = stop.reason() is not None
        solution = _assemble(replace(instance, search=search), result, others, bounds, asked, book, quick=quick)
        solution = solution.judged(check_solution(instance, solution, bounds))
    return replace(solution, stopped_by=StopReason.INTERRUPTED) if stop.interrupted.is_set() else solution


def search_problems(search: SearchSettings, source: str = "") -> list[Problem]:
    """What is wrong with the settings of a search; `source` is the instance file the method stands in, if any."""
    problems = []
    if search.method not in ("auto", *METHODS):
        line = _line_of(source, ("search", "method")) if source else None
        allowed = ", ".join(("auto", *METHODS))
        problems.append(
            Problem("unknown method", source or None, line, "search.method", repr(search.method), allowed=allowed)
        )
    for path, value, highest in (("search.seed", search.seed, 2**63 - 1), ("search.budget", search.budget, 10**12)):
        if value is not None and not 0 <= value <= highest:
            problems.append(Problem("out of range", path=path, value=str(value), allowed=f"0 to {highest}"))
    problems += robust_problems(search)
    limit = search.time_limit_s
    if limit is not None and not limit >= 0:
        problems.append(Problem("out of range", path="search.time_limit_s", value=str(limit), allowed="at least 0"))
    return problems


def robust_problems(search: SearchSettings) -> list[Problem]:
    """A robust design asked for beside a method that does not look at it."""
    if search.robust is None or search.method in ("auto", "robust"):
        return []
    text = "this method does not look at search.robust"
    return [Problem(text, path="search.method", value=repr(search.method), allowed="auto, robust")]


def _line_of(source: str, path: tuple[str, ...]) -> int | None:
    try:
        return parse_document(source).line(path)
    except InputError:  # the file has changed since, or the instance was not read from one
        return None


def evaluate_plan(instance: CoOptimisation, plan: Plan, model: str = "rounds") -> Evaluation:
    """Simulate one iteration of a plan on its own direct-connect network."""
    graph = build_task_graph(instance.cluster, instance.workload, plan.strategy)
    network = direct_connect_network(instance.cluster, plan.topology, plan.routes, plan.rings)
    return evaluate(graph, network, model)


def _assemble(
    instance: CoOptimisation,
    result: LoopResult,
    others: tuple[tuple[Baseline, ...], tuple[str, ...]],
    bounds: tuple[Bound, ...],
    asked: FabricSearch,
    book: PriceBook | None,
    *,
    quick: bool,
) -> JobSolution:
    cluster, workload, plan = instance.cluster, instance.workload, result.plan
    evaluation = evaluate_plan(instance, plan)
    proven, certificate = prove_bound(cluster, workload, quick=quick, known=bounds)
    diameter, mean_hops = diameter_and_mean_hops(plan.topology)
    objective = Objective("iteration_time", evaluation.iteration_time_ms, "ms")
    bound, status = settle(objective.value, proven.value, Tolerance.ROUNDING)
    return JobSolution(
        name=instance.name,
        kind=instance.kind,
        status=status,
        stopped_by=result.stopped_by,
        objective=objective,
        bound=replace(proven, value=bound),
        check=UNCHECKED,
        seed=instance.search.seed,
        method=instance.search.method,
        cluster=cluster,
        workload_name=workload.name,
        samples=workload.samples,
        plan=plan,
        operators=tuple(_choices(instance, plan)),
        demand=demand_of(build_task_graph(cluster, workload, plan.strategy)),
        evaluation=evaluation,
        initial_ms=result.initial_ms,
        diameter=diameter,
        mean_hops=mean_hops,
        diameter_bound=cluster.degree * cluster.servers ** (1 / cluster.degree),
        baselines=others[0],
        prices=fabric_prices(cluster, _simulated(others[0], asked), default_price_book() if book is None else book),
        convergence=result.convergence,
        instance_sha256=instance.sha256,
        versions=versions(),
        notes=(*instance.notes, *result.notes, *others[1]),
        certificate=certificate,
    )


def _simulated(baselines: tuple[Baseline, ...], asked: FabricSearch) -> list[SimulatedFabric]:
    """The fabrics that were simulated, as they are priced."""
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
            )
        )
    return choices
