"""What limits the training of a language model: exposed transfers, and what more memory, links or servers would gain.

Every gain is the best strategy of the changed cluster, found by the same search with its proof, so that a change of
strategy counts: more memory lets less be computed again, more links let groups leave their server.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from solvers.llm_training.candidates import Candidates
from solvers.llm_training.planned import planned_on, planned_problems
from solvers.llm_training.search import SearchedSpace, search
from solvers.stop import Stop
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem
from topoopt.core.llm_training import GpuCluster, LlmTrainingProblem
from topoopt.core.llm_training_plan import IDEAL_SWITCH
from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.pod_settings import PodSettings
from topoopt.core.units import GIB
from topoopt.core.verdict import StopReason
from topoopt.drawing.format import counted, number, percent
from topoopt.files.documents import Document
from topoopt.kinds.explanation import Explanation, Question
from topoopt.kinds.llm_training.answer import answer
from topoopt.kinds.llm_training.pods_words import pods_figures, pods_rows
from topoopt.kinds.llm_training.read import read_llm_training
from topoopt.kinds.llm_training.words import (
    NAMES,
    aside,
    exposed,
    fabric_name,
    reduction_words,
    seconds,
    strategy_words,
)
from topoopt.verify.llm_training.check import check_llm_training

TRANSFERS = ("tensor", "context", "expert", "pipeline", "data")


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


def explain(problem: LlmTrainingProblem | None, solution: LlmTrainingSolution, question: Question) -> Explanation:
    """Explain a plan; without an instance by the one that stands in its file, else by its figures alone.

    Raises:
        InputError: the solution is not one of this instance.
    """
    most = f"Most exposed{aside(solution)}: {exposed(solution)}."
    words = [answer(solution), most, _parts(solution), *_reductions(solution)]
    words += [f"{name[0].upper()}{name[1:]}: {text}." for name, text in pods_rows(solution)]
    if problem is None and solution.instance is not None:
        problem = read_llm_training(Document("solution#/instance", solution.instance, lambda _: {}))
    if problem is None:
        return Explanation(
            tuple(words),
            {"exposed_s": _exposed(solution), **pods_figures(solution)},
            ("no instance, so that nothing is searched",),
        )
    if wrong := check_llm_training(problem, solution).violations:
        raise InputError([Problem(f"not a solution of this instance: {wrong[0].message}")])
    found = _what_if(problem, solution, question)
    words += [_sentence(one) for one in found]
    figures = {"exposed_s": _exposed(solution), **pods_figures(solution), "changes": [asdict(one) for one in found]}
    late = any(not one.proven for one in found)
    where = fabric_name(solution.plan.network.fabric)
    notes = (f"gains are those of the best strategy of the changed cluster on {where}, searched anew",)
    return Explanation(tuple(words), figures, notes, late)


def _exposed(solution: LlmTrainingSolution) -> dict[str, float]:
    return {name: getattr(solution.breakdown, name) for name in TRANSFERS}


def _parts(solution: LlmTrainingSolution) -> str:
    parts = sorted(((value, name) for name, value in asdict(solution.breakdown).items() if value > 0), reverse=True)
    total = solution.objective.value if solution.fabrics[0].pods is None else solution.breakdown.total
    text = ", ".join(f"{percent(value / total)} {NAMES[name]}" for value, name in parts)
    return f"Of an iteration{aside(solution)} {text}."


def _reductions(solution: LlmTrainingSolution) -> list[str]:
    """What AllReduces run on, fabric by fabric, where that was asked for."""
    found = []
    for one in solution.fabrics:
        if words := reduction_words(one.plan.network):
            took = f"{seconds(one.iteration_time_s)} an iteration, rounds of AllReduces counted"
            found.append(f"On {one.plan.network.fabric} {took}: {words}.")
    return found


def _changes(problem: LlmTrainingProblem, question: Question) -> list[tuple[str, LlmTrainingProblem]]:
    """Instances whose cluster has more of something."""
    found = [(text, replace(problem, cluster=cluster)) for text, cluster in _clusters(problem, question)]
    if problem.pods is not None:
        found = [*_pods(problem, problem.pods, question), *found]
    return found[: max(question.checks, 1)]


def _pods(problem: LlmTrainingProblem, pods: PodSettings, question: Question) -> list[tuple[str, LlmTrainingProblem]]:
    """Pods with more ports, and faster circuits."""
    added = max(1, round(question.added_links or 1))
    changes = {
        f"{counted(added, 'port')} more at every pod": replace(pods, ports=pods.ports + added),
        "circuits twice as fast": replace(pods, circuit_gbps=2 * pods.circuit_gbps),
    }
    return [(text, replace(problem, pods=changed)) for text, changed in changes.items()]


def _clusters(problem: LlmTrainingProblem, question: Question) -> list[tuple[str, GpuCluster]]:
    cluster, added = problem.cluster, float(question.added_links or 1)
    found: list[tuple[str, GpuCluster]] = []
    if cluster.gpu_memory_bytes is not None:
        more = replace(cluster, gpu_memory_bytes=cluster.gpu_memory_bytes + 16 * GIB)
        found += [
            ("16 GiB more memory a GPU", more),
            ("memory without a limit", replace(cluster, gpu_memory_bytes=None)),
        ]
    more_links = replace(cluster, link_gbps=cluster.link_gbps * (1.0 + added / cluster.degree))
    if problem.fabrics[0] != IDEAL_SWITCH and not cluster.per_gpu and added.is_integer():
        more_links = replace(cluster, degree=cluster.degree + int(added))
    text = f"{added:g} more link{'' if added == 1 else 's'} a server"
    found.append((text, more_links))
    found.append(("links twice as fast", replace(cluster, link_gbps=2 * cluster.link_gbps)))
    faster = replace(cluster, intra_server_gbps=2 * cluster.intra_server_gbps)
    found.append(("links inside servers twice as fast", faster))
    if cluster.servers < 2**16:
        found.append((f"{counted(2 * cluster.servers, 'server')}", replace(cluster, servers=2 * cluster.servers)))
    return found


def _what_if(problem: LlmTrainingProblem, solution: LlmTrainingSolution, question: Question) -> list[WhatIf]:
    found = []
    for change, changed in _changes(problem, question):
        if not question.left_s():
            found.append(WhatIf(change, None, None, "", proven=False))
            continue
        best = search(changed, question.stop, count=1)
        proven = best.stopped_by is StopReason.CONVERGED
        first = _on_fabric(changed, solution.plan.network.fabric, best, question.stop) if best.ranked else None
        if first is None:
            found.append(WhatIf(change, None, None, "", proven=proven))
            continue
        strategy, value = first
        gain = 100.0 * (solution.objective.value / value - 1.0)
        found.append(WhatIf(change, value, gain, strategy_words(strategy), proven and question.stop.reason() is None))
    return found


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
    return best.ranked.strategy, best.iteration_time_s


def _sentence(one: WhatIf) -> str:
    if one.iteration_time_s is None or one.faster_percent is None:
        why = "there is no strategy or no network" if one.proven else "no time was left to search"
        return f"With {one.change}: {why}."
    how = (
        f"{number(one.faster_percent)} % faster"
        if one.faster_percent >= 0
        else f"{number(-one.faster_percent)} % slower"
    )
    sure = "" if one.proven else " at least"
    return f"With {one.change}: {seconds(one.iteration_time_s)}, {how}{sure}, by {one.strategy}."
