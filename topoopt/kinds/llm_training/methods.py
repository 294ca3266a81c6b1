"""The methods of kind `llm-training`, and the result that a plan amounts to."""

from __future__ import annotations

import math
from dataclasses import asdict
from functools import partial
from typing import Any

from solvers.collective.options import too_many_servers
from solvers.llm_training.plan import planned_on, planned_problems
from solvers.llm_training.strategies import Candidates, SearchedSpace, blocking_pins, least_memory, search
from solvers.stop import Stop, first_part
from solvers.switching import reasons_off_rails
from topoopt.core.arrays import GIB
from topoopt.core.errors import InfeasibleError, LimitError, Problem
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import (
    DIRECT_FABRICS,
    IDEAL_SWITCH,
    PHOTONIC_RAILS,
    POD_CIRCUITS,
    FabricPlan,
    LlmTrainingPlan,
    PlannedFabric,
    rail_bounds_s,
    shapes_certificate,
)
from topoopt.core.process import versions
from topoopt.core.proofs import StopReason, Tolerance, settle
from topoopt.core.result import UNCHECKED, Result, SearchResult
from topoopt.kinds.kind import Effort, Method, Solver, table
from topoopt.kinds.llm_training.figures import LlmTrainingFigures, bound_of
from topoopt.kinds.llm_training.interval import outside_measured
from topoopt.kinds.llm_training.read import replicas_left_out

SEARCH_SHARE = 0.5
"""Of the time of a limit, for strategies on an ideal switch; the rest is for networks that carry them."""


SHOWN_REASONS = 3
"""Of those that keep strategies off rails."""


Strategies = SearchResult[LlmTrainingPlan]


def _branch_and_bound(problem: LlmTrainingProblem, effort: Effort) -> Strategies:
    count = 1 + problem.top
    network_first = problem.fabrics[0] != IDEAL_SWITCH

    def tell(space: SearchedSpace, done: int, total: int) -> None:
        effort.tell("shapes of strategies", done, total)

        def build() -> Strategies:
            network = planned_on(problem, problem.fabrics[0], space.ranked[:1], effort.stop)
            return _result(problem, space, (network,), len(space.ranked), effort.stop)

        if space.ranked:
            effort.keep(build, rough=network_first)

    left_s = effort.stop.remaining_s()
    first = first_part(effort.stop, SEARCH_SHARE, left_s) if network_first and left_s is not None else effort.stop
    space = search(problem, first, count=count, tell=tell)
    if not space.ranked:
        raise failure(problem, space)
    candidates = Candidates(problem, space, effort.stop)
    networks: tuple[PlannedFabric | None, ...] = ()
    for done, name in enumerate(problem.fabrics):
        effort.tell("fabrics", done, len(problem.fabrics))
        if networks and effort.stop.reason() is not None:
            break
        networks += (planned_on(problem, name, candidates, effort.stop, 1 if networks else count),)
        effort.keep(partial(_result, problem, candidates.space, networks, count, effort.stop))
    return _result(problem, candidates.space, networks, count, effort.stop)


def _result(
    problem: LlmTrainingProblem,
    space: SearchedSpace,
    networks: tuple[PlannedFabric | None, ...],
    count: int,
    stop: Stop,
) -> Strategies:
    """Return plan and certificates, with as many strategies as are wanted, or as say what circuits cannot better."""
    results = [network[0] for network in networks if network is not None]
    limited = stop.reason() if results else None
    circuits = next((result for result in results if result.plan.fabric in (PHOTONIC_RAILS, POD_CIRCUITS)), None)
    if circuits is not None:
        limited = None if circuits.stopped_by is StopReason.CONVERGED else circuits.stopped_by
    if len(networks) < len(problem.fabrics):  # of a search that is left, maybe before its own time is over
        limited = limited or stop.reason() or StopReason.TIME
    rails = [result for result in results if result.plan.fabric == PHOTONIC_RAILS]
    count = max([count, *(1 + len(rail_bounds_s(result.certificates)) for result in rails)])
    ranked = tuple(row.strategy for row in space.ranked[:count])
    ideal = FabricPlan(ranked[0])
    plan = LlmTrainingPlan(ranked, tuple(ideal if network is None else network[0].plan for network in networks))
    others = tuple(certificate for result in results for certificate in result.certificates)
    figures = LlmTrainingFigures(problem, plan)
    first, *bounds = [bound_of(figures, fabric, space.shapes, others) for fabric in figures.fabrics]
    return SearchResult(
        plan=plan,
        certificates=(shapes_certificate(space.shapes, [bound.value for bound in bounds]), *others),
        bounds=(first,),
        stopped_by=limited or space.stopped_by,
        method="branch-and-bound",
    )


def failure(problem: LlmTrainingProblem, space: SearchedSpace) -> Exception:
    """Why a search found nothing: a limit, no strategy, or the memory that the smallest takes."""
    if space.left:
        return LimitError(f"no strategy was found to fit in {space.records} of them when the limit came")
    if not space.records:
        count, texts = reasons_off_rails(problem) if PHOTONIC_RAILS in problem.fabrics else (0, ())
        if not count:
            pods = "" if problem.pods is None else f", or none that pods of {problem.pods.gpus} GPUs hold"
            return InfeasibleError(f"the rules and the instance leave no strategy at all{pods}{_instead(problem)}")
        reasons = "; ".join(texts[:SHOWN_REASONS]) or "passes gather weights over the rail, or hold the model twice"
        return InfeasibleError(f"no strategy of the instance can stand on rails: {reasons}")
    least, shape = min((line.least_bytes or 0.0, line.shape) for line in space.shapes)
    usable = (problem.usable_bytes or 0) / GIB
    parts = ", ".join(f"{name} {value}" for name, value in asdict(shape).items() if value > 1) or "one GPU"
    held = asdict(least_memory(problem, shape))
    why = ", ".join(f"{name} {value / GIB:.4g}" for name, value in sorted(held.items(), key=lambda part: -part[1]))
    enough = math.ceil((least + problem.cluster.headroom_bytes) / GIB * 100) / 100
    return InfeasibleError(
        f"none of {space.records} strategies fits in the {usable:.4g} GiB of a GPU that training may take; "
        f"the smallest takes {least / GIB:.4g} GiB ({parts}): {why}; gpu_memory_gib: {enough:.10g} would do"
    )


def _instead(problem: LlmTrainingProblem) -> str:
    """What of an instance, changed alone, leaves a strategy."""
    cluster, batch = problem.cluster, problem.batch
    if pins := blocking_pins(problem):
        return f" on {cluster.gpus} GPUs; they would if {', or '.join(pins)}"
    return (
        f"; no pin alone is in the way, of {cluster.gpus} GPUs and {batch.sequences} sequences of {batch.length} tokens"
    )


def _covers(problem: LlmTrainingProblem) -> Problem | None:
    wrong = planned_problems(problem.cluster, problem.fabrics)
    if not wrong and any(name in DIRECT_FABRICS for name in problem.fabrics):
        wrong = too_many_servers(problem.search.allreduce, problem.cluster.servers)
    return wrong[0] if wrong else None


LLM_TRAINING_METHODS = table(
    Method("auto", "branch-and-bound", _branch_and_bound, _covers),
    Method("branch-and-bound", "branch and bound over the ways to divide the GPUs", _branch_and_bound, _covers),
)


def assemble(problem: LlmTrainingProblem, search: Strategies, effort: Effort) -> Result[Any, Any]:
    """Return the result of a search, not checked yet.

    The bound is what the search says; the checker derives it again.
    """
    figures = LlmTrainingFigures(problem, search.plan)
    first = figures.fabrics[0]
    (bound,) = search.bounds
    rounding = Tolerance.ROUNDING if first.pods is None else Tolerance.EVENTS
    verdict = settle(first.iteration_time_s, (bound,), rounding, rounding=rounding)
    return Result(
        name=problem.name,
        kind=problem.kind,
        status=verdict.status,
        stopped_by=search.stopped_by,
        objective=figures.objective,
        bound=verdict.bound,
        claimed_bound=verdict.claimed_bound,
        check=UNCHECKED,
        seed=effort.search.seed,
        method=search.method,
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=(*problem.notes, *replicas_left_out(problem), *outside_measured(problem, search.plan.strategy)),
        problem=problem,
        plan=search.plan,
        certificates=search.certificates,
    )


SOLVER = Solver(
    methods=lambda _: LLM_TRAINING_METHODS, assemble=assemble, tables=lambda _: (("", LLM_TRAINING_METHODS),)
)
