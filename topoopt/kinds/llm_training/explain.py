"""What limits the training of a language model: exposed transfers, and what more memory, links or servers would gain.

Every gain is the best strategy of the changed cluster, found by the same search with its proof, so that a change of
strategy counts: more memory lets less be computed again, more links let groups leave their server.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from solvers.llm_training.plan import planned_on, planned_problems
from solvers.llm_training.strategies import Candidates, SearchedSpace, search
from solvers.stop import Stop
from topoopt.core.arrays import GIB
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem
from topoopt.core.llm_training import GpuCluster, LlmTrainingProblem, PodSettings
from topoopt.core.llm_training_plan import IDEAL_SWITCH, LlmTrainingPlan
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.proofs import StopReason
from topoopt.core.result import Result
from topoopt.kinds.llm_training.figures import LlmTrainingFigures
from topoopt.kinds.llm_training.page import answer, claims_of
from topoopt.kinds.llm_training.words import (
    NAMES,
    TRANSFERS,
    aside,
    exposed,
    fabric_name,
    pods_figures,
    pods_rows,
    reduction_words,
    seconds,
    strategy_words,
)
from topoopt.kinds.pipeline import Explanation, Question
from topoopt.page.text import counted, number, percent
from topoopt.verify.llm_training.check import check_llm_training

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

    Raises
    ------
    InputError
        The result is not one of this instance.
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
    text = f"{added:g} more link{'' if added == 1 else 's'} a server"
    changes.append((text, more_links))
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
    how = (
        f"{number(change.faster_percent)} % faster"
        if change.faster_percent >= 0
        else f"{number(-change.faster_percent)} % slower"
    )
    sure = "" if change.proven else " at least"
    return f"With {change.change}: {seconds(change.iteration_time_s)}, {how}{sure}, by {change.strategy}."
