"""What limits the plan of a training job: its critical path, its busiest links, and faster links simulated again.

Prices as for a network problem there are none: the objective is a simulated time, not a linear program. What is said
is read off the simulated iteration, or simulated again with the same plan; a plan searched for anew may gain more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.job import CoOptimisation, Span
from topoopt.files.results import bound_document
from topoopt.kinds.job.figures import GapParts, JobFigures, JobResult, gap_parts, order_free
from topoopt.kinds.pipeline import Explanation, Question
from topoopt.page.text import percent
from topoopt.simulate.fabrics import plan_network
from topoopt.simulate.lower import build_task_graph
from topoopt.simulate.time_models.evaluate import simulate
from topoopt.verify.checker import BRIEF
from topoopt.verify.job.check import CHECKER

SHOWN = 5

ROUNDING = 1e-9
"""Idle time below this part of the iteration is rounding."""


@dataclass(frozen=True)
class BusyLink:
    """An arc of the topology: links, bytes it carries in an iteration, busy part of the iteration."""

    tail: int
    head: int
    links: int
    carried_bytes: float
    utilisation: float


@dataclass(frozen=True)
class FasterLinks:
    """The same plan with links of another rate, simulated again."""

    link_gbps: float
    iteration_time_ms: float


@dataclass(frozen=True, eq=False)
class JobExplanation:
    """What `topoopt explain` says of the plan of a job.

    Attributes:
        result: what is explained.
        terms: (what, ms) of the critical path, largest first; they sum to the iteration time.
        steps: the longest steps of the critical path.
        busiest: arcs by utilisation, highest first.
        floor_ms: what the busiest server computes: no network makes this strategy faster.
        faster: links of a higher rate.
        gap: what of it a better bound may close; None: there is no gap, or nothing is known of an ideal switch.
    """

    result: JobResult
    terms: tuple[tuple[str, float], ...]
    steps: tuple[Span, ...]
    busiest: tuple[BusyLink, ...]
    floor_ms: float
    faster: FasterLinks
    gap: GapParts | None


def explain_job(result: JobResult, problem: CoOptimisation, *, added_links: float | None = None) -> JobExplanation:
    """Explain the plan of a job.

    Parameters
    ----------
    result : what is explained.
    problem : of the instance.
    added_links : by which the rate of every link grows, in links; None: 100 Gbit/s.

    Raises
    ------
    CheckError
        The result does not hold for the instance.
    """
    violations = CHECKER(problem, result, BRIEF).violations
    if violations:
        text = "\n".join(f"{violation.code}: {violation.message}" for violation in violations)
        raise CheckError(f"the checker rejects the solution:\n{text}")
    result = replace(result, problem=problem)
    figures: JobFigures = result.figures
    evaluation, topology, rate = figures.evaluation, result.plan.topology, figures.cluster.link_gbps
    parts, use = figures.breakdown, figures.link_utilisation
    terms = (
        ("computing", parts.compute_ms),
        ("waiting for model-parallel transfers", parts.model_parallel_ms),
        ("waiting for AllReduce", parts.allreduce_ms),
        ("anything else", 0.0 if abs(parts.idle_ms) <= ROUNDING * result.objective.value else parts.idle_ms),
    )
    order = np.argsort(-use, kind="stable")[:SHOWN]
    return JobExplanation(
        result=result,
        terms=tuple(sorted(terms, key=lambda term: -term[1])),
        steps=tuple(sorted(evaluation.critical_path, key=lambda span: span.start_ms - span.end_ms)[:SHOWN]),
        busiest=tuple(
            BusyLink(
                tail=int(topology.arcs[a, 0]),
                head=int(topology.arcs[a, 1]),
                links=int(topology.multiplicity[a]),
                carried_bytes=float(evaluation.link_bytes[a]),
                utilisation=float(use[a]),
            )
            for a in order
        ),
        floor_ms=figures.busiest_server_compute_ms,
        faster=_faster(figures, rate + (100.0 if added_links is None else added_links * rate)),
        gap=gap_parts(result, order_free(figures)),
    )


def _faster(figures: JobFigures, link_gbps: float) -> FasterLinks:
    cluster = replace(figures.cluster, link_gbps=link_gbps)
    graph = build_task_graph(cluster, figures.workload, figures.plan.strategy)
    return FasterLinks(link_gbps, simulate(graph, plan_network(cluster, figures.plan)).iteration_time_ms)


def job_lines(explanation: JobExplanation) -> list[str]:
    """The explanation in sentences."""
    result, faster = explanation.result, explanation.faster
    total = result.objective.value
    share = 100.0 / total if total > 0 else 0.0
    parts = ", ".join(f"{name} {ms:.6g} ms ({ms * share:.1f} %)" for name, ms in explanation.terms if ms > 0)
    lines = [f"Iteration {total:.6g} ms along the critical path: {parts or 'nothing'}."]
    if explanation.steps:
        steps = "; ".join(
            f"{step.kind} {step.label} {step.end_ms - step.start_ms:.6g} ms" for step in explanation.steps
        )
        lines.append(f"Its longest steps: {steps}.")
    busy = [link for link in explanation.busiest if link.utilisation > 0]
    if busy:
        links = "; ".join(f"{link.tail} → {link.head} {percent(link.utilisation)} of the time" for link in busy)
        lines.append(f"Busiest links: {links}.")
    else:
        lines.append("No link carries anything.")
    lines.append(
        f"The busiest server computes {explanation.floor_ms:.6g} ms: no network makes this strategy faster. Proven for "
        f"every plan: {result.bound.value:.6g} ms by {result.bound.proved_by}."
    )
    if explanation.gap is not None:
        lines.append(
            f"Of the gap of {percent(result.gap)}, {explanation.gap.words}; {explanation.gap.likelier} is likelier."
        )
    less = 1 - faster.iteration_time_ms / total if total > 0 else 0.0
    change = "no change" if abs(less) < 1e-9 else f"{percent(abs(less))} {'less' if less > 0 else 'more'}"
    lines.append(
        f"Links of {faster.link_gbps:g} instead of {result.figures.cluster.link_gbps:g} Gbit/s, same plan: "
        f"{faster.iteration_time_ms:.6g} ms ({change}), simulated again. A new search may gain more."
    )
    return lines


def explain(problem: CoOptimisation | None, result: JobResult, question: Question) -> Explanation:
    """Explain what limits the plan of a job, in words and figures.

    Raises
    ------
    InputError
        The instance is neither given nor in the result.
    """
    own = result.problem if problem is None else problem
    if own is None:
        text = "the instance is neither in this solution nor beside it"
        raise InputError([Problem(text, path="instance", allowed="--instance FILE")])
    added = None if question.added_links is None else float(question.added_links)
    explanation = explain_job(result, own, added_links=added)
    figures: dict[str, Any] = {
        "iteration_time_ms": result.objective.value,
        "bound": bound_document(result.bound),
        "critical_path_ms": dict(explanation.terms),
        "longest_steps": [vars(step) for step in explanation.steps],
        "busiest_links": [vars(link) for link in explanation.busiest],
        "busiest_server_compute_ms": explanation.floor_ms,
        "faster_links": {**vars(explanation.faster), "checked": True},
    }
    if explanation.gap is not None:
        figures["gap_parts"] = {**vars(explanation.gap), "likelier": explanation.gap.likelier}
    return Explanation(tuple(job_lines(explanation)), figures, result.notes)
