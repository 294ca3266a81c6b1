"""The methods of kind `llm-training`, the result that a plan amounts to, and why it is no better."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from solvers.collective.options import too_many_servers
from solvers.llm_training.plan import planned_on, planned_problems
from solvers.llm_training.strategies import Candidates, SearchedSpace, blocking_pins, least_memory, search
from solvers.stop import Stop, first_part
from solvers.switching import reasons_off_rails
from topoopt.core.arrays import GIB
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem
from topoopt.core.llm_training import GpuCluster, LlmTrainingProblem, PodSettings
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
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.process import versions
from topoopt.core.proofs import StopReason, Tolerance, settle
from topoopt.core.result import UNCHECKED, Result, SearchResult
from topoopt.kinds.kind import Effort, Method, Solver, table
from topoopt.kinds.llm_training.figures import LlmTrainingFigures, bound_of
from topoopt.kinds.llm_training.page import answer, claims_of
from topoopt.kinds.llm_training.read import replicas_left_out
from topoopt.kinds.llm_training.words import (
    NAMES,
    TRANSFERS,
    aside,
    exposed,
    fabric_name,
    outside_measured,
    pods_figures,
    pods_rows,
    reduction_words,
    seconds,
    strategy_words,
)
from topoopt.kinds.pipeline import Explanation, Question
from topoopt.page.text import counted, number, percent
from topoopt.verify.llm_training.check import check_llm_training

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


Solved = Result[LlmTrainingProblem, LlmTrainingPlan]


@dataclass(frozen=True)
class WhatIf:
    """The best of a changed cluster.

    Attributes:
        change: in words.
        iteration_time_s: of its best strategy; None: none was found in time.
        faster_percent: than the solution, of iterations a second.
        strategy: the best, in words.
        proven: whether it is the best of its space.
    """

    change: str
    iteration_time_s: float | None
    faster_percent: float | None
    strategy: str
    proven: bool


def explain(result: Solved, question: Question) -> Explanation:
    """Explain a plan, and search what changes of its cluster would gain.

    Raises:
        InputError: the result is not one of this instance.
    """
    figures: LlmTrainingFigures = result.figures
    problem = figures.problem
    if wrong := check_llm_training(problem, result).violations:
        raise InputError([Problem(f"not a solution of this instance: {wrong[0].message}")])
    claims = claims_of(result)
    most = f"Most exposed{aside(figures)}: {exposed(figures)}."
    words = [answer(result), most, _parts(figures), *_reductions(figures)]
    words += [f"{name[0].upper()}{name[1:]}: {text}." for name, text in pods_rows(figures, claims)]
    changes = _what_if(problem, figures, question)
    words += [_sentence(change) for change in changes]
    document = {
        "exposed_s": {name: getattr(figures.breakdown, name) for name in TRANSFERS},
        **pods_figures(figures, claims),
        "changes": [asdict(change) for change in changes],
    }
    late = any(not change.proven for change in changes)
    where = fabric_name(figures.plan.network.fabric)
    notes = (f"gains are those of the best strategy of the changed cluster on {where}, searched anew",)
    return Explanation(tuple(words), document, notes, late)


def _parts(figures: LlmTrainingFigures) -> str:
    parts = sorted(((value, name) for name, value in asdict(figures.breakdown).items() if value > 0), reverse=True)
    total = figures.objective.value if figures.fabrics[0].pods is None else figures.breakdown.total
    text = ", ".join(f"{percent(value / total)} {NAMES[name]}" for value, name in parts)
    return f"Of an iteration{aside(figures)} {text}."


def _reductions(figures: LlmTrainingFigures) -> list[str]:
    sentences = []
    for fabric in figures.fabrics:
        if words := reduction_words(fabric):
            took = f"{seconds(fabric.iteration_time_s)} an iteration, rounds of AllReduces counted"
            sentences.append(f"On {fabric.fabric} {took}: {words}.")
    return sentences


def _changes(problem: LlmTrainingProblem, question: Question) -> list[tuple[str, LlmTrainingProblem]]:
    changes = [(text, replace(problem, cluster=cluster)) for text, cluster in _clusters(problem, question)]
    if problem.pods is not None:
        changes = [*_pods(problem, problem.pods, question), *changes]
    return changes[: max(question.checks, 1)]


def _pods(problem: LlmTrainingProblem, pods: PodSettings, question: Question) -> list[tuple[str, LlmTrainingProblem]]:
    added = max(1, round(question.added_links or 1))
    changes = {
        f"{counted(added, 'port')} more at every pod": replace(pods, ports=pods.ports + added),
        "circuits twice as fast": replace(pods, circuit_gbps=2 * pods.circuit_gbps),
    }
    return [(text, replace(problem, pods=changed)) for text, changed in changes.items()]


def _clusters(problem: LlmTrainingProblem, question: Question) -> list[tuple[str, GpuCluster]]:
    cluster, added = problem.cluster, float(question.added_links or 1)
    changes: list[tuple[str, GpuCluster]] = []
    if cluster.gpu_memory_bytes is not None:
        more = replace(cluster, gpu_memory_bytes=cluster.gpu_memory_bytes + 16 * GIB)
        changes += [
            ("16 GiB more memory a GPU", more),
            ("memory without a limit", replace(cluster, gpu_memory_bytes=None)),
        ]
    more_links = replace(cluster, link_gbps=cluster.link_gbps * (1.0 + added / cluster.degree))
    if problem.fabrics[0] != IDEAL_SWITCH and not cluster.per_gpu and added.is_integer():
        more_links = replace(cluster, degree=cluster.degree + int(added))
    changes.append((f"{added:g} more link{'' if added == 1 else 's'} a server", more_links))
    changes.append(("links twice as fast", replace(cluster, link_gbps=2 * cluster.link_gbps)))
    faster = replace(cluster, intra_server_gbps=2 * cluster.intra_server_gbps)
    changes.append(("links inside servers twice as fast", faster))
    if cluster.servers < 2**16:
        changes.append((f"{counted(2 * cluster.servers, 'server')}", replace(cluster, servers=2 * cluster.servers)))
    return changes


def _what_if(problem: LlmTrainingProblem, figures: LlmTrainingFigures, question: Question) -> list[WhatIf]:
    changes = []
    for change, changed in _changes(problem, question):
        if not question.left_s():
            changes.append(WhatIf(change, None, None, "", proven=False))
            continue
        best = search(changed, question.stop, count=1)
        proven = best.stopped_by is StopReason.CONVERGED
        first = _on_fabric(changed, figures.plan.network.fabric, best, question.stop) if best.ranked else None
        if first is None:
            changes.append(WhatIf(change, None, None, "", proven=proven))
            continue
        strategy, value = first
        gain = 100.0 * (figures.objective.value / value - 1.0)
        changes.append(WhatIf(change, value, gain, strategy_words(strategy), proven and question.stop.reason() is None))
    return changes


def _on_fabric(
    problem: LlmTrainingProblem, fabric: str, space: SearchedSpace, stop: Stop
) -> tuple[ParallelStrategy, float] | None:
    """The best strategy on the fabric of the plan, and its seconds; None: the cluster has no such network."""
    if planned_problems(problem.cluster, (fabric,)):
        return None
    try:
        best = planned_on(problem, fabric, Candidates(problem, space, stop), stop)
    except (InfeasibleError, LimitError):
        return None
    if best is None:
        return space.ranked[0].strategy, space.ranked[0].iteration_time_s
    return best[0].plan.strategy, best[1]


def _sentence(change: WhatIf) -> str:
    if change.iteration_time_s is None or change.faster_percent is None:
        why = "there is no strategy or no network" if change.proven else "no time was left to search"
        return f"With {change.change}: {why}."
    if not change.proven and change.faster_percent < 0:
        return f"With {change.change}: the search of {seconds(change.iteration_time_s)} ended before it was faster."
    how = (
        f"{number(change.faster_percent)} % faster"
        if change.faster_percent >= 0
        else f"{number(-change.faster_percent)} % slower"
    )
    sure = "" if change.proven else " at least"
    return f"With {change.change}: {seconds(change.iteration_time_s)}, {how}{sure}, by {change.strategy}."
