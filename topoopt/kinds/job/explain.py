"""What limits the plan of a training job: its critical path, its busiest links, and faster links simulated again.

Prices as for a network problem there are none: the objective is a simulated time, not a linear program. What is said
is read off the simulated iteration, or simulated again with the same plan; a plan searched for anew may gain more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from topoopt.core.errors import CheckError
from topoopt.core.job import CoOptimisation
from topoopt.core.job_solution import JobSolution, Span
from topoopt.drawing.format import percent
from topoopt.files.solution_head import bound_document
from topoopt.kinds.explanation import Explanation, Question
from topoopt.kinds.job.check import check_job
from topoopt.kinds.job.gap import GapParts, gap_parts, reached
from topoopt.kinds.job.order_free import order_free
from topoopt.kinds.job.solve import evaluate_plan
from topoopt.kinds.job.times import ROUNDING

SHOWN = 5


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
    """The same plan with links of another rate: `iteration_time_ms` is simulated again, None without the instance."""

    link_gbps: float
    iteration_time_ms: float | None


@dataclass(frozen=True, eq=False)
class JobExplanation:
    """What `topoopt explain` says of the plan of a job.

    Attributes:
        solution: what is explained.
        terms: (what, ms) of the critical path, largest first; they sum to the iteration time.
        steps: the longest steps of the critical path.
        busiest: arcs by utilisation, highest first.
        floor_ms: what the busiest server computes: no network makes this strategy faster.
        faster: links of a higher rate.
        gap: what of it a better bound may close; None: there is no gap, or nothing is known of an ideal switch.
    """

    solution: JobSolution
    terms: tuple[tuple[str, float], ...]
    steps: tuple[Span, ...]
    busiest: tuple[BusyLink, ...]
    floor_ms: float
    faster: FasterLinks
    gap: GapParts | None


def explain_job(
    solution: JobSolution, instance: CoOptimisation | None = None, *, added_links: float | None = None
) -> JobExplanation:
    """Explain the plan of a job.

    Args:
        instance: what was solved; needed to simulate again.
        added_links: by which the rate of every link grows, in links; None: 100 Gbit/s.

    Raises:
        CheckError: the solution does not hold for the instance.
    """
    if instance is not None:
        violations = check_job(instance, solution).violations
        if violations:
            text = "\n".join(f"{violation.code}: {violation.message}" for violation in violations)
            raise CheckError(f"the checker rejects the solution:\n{text}")
        instance = instance.shared_as(solution.cluster)
    evaluation, topology, rate = solution.evaluation, solution.plan.topology, solution.cluster.link_gbps
    parts, use = solution.breakdown, solution.link_utilisation
    terms = (
        ("computing", parts.compute_ms),
        ("waiting for model-parallel transfers", parts.model_parallel_ms),
        ("waiting for AllReduce", parts.allreduce_ms),
        ("anything else", 0.0 if abs(parts.idle_ms) <= ROUNDING * solution.objective.value else parts.idle_ms),
    )
    order = np.argsort(-use, kind="stable")[:SHOWN]
    return JobExplanation(
        solution=solution,
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
        floor_ms=solution.busiest_server_compute_ms,
        faster=_faster(solution, instance, rate + (100.0 if added_links is None else added_links * rate)),
        gap=gap_parts(solution, reached(solution) if instance is None else order_free(instance, solution)),
    )


def _faster(solution: JobSolution, instance: CoOptimisation | None, link_gbps: float) -> FasterLinks:
    if instance is None:
        return FasterLinks(link_gbps, None)
    other = replace(instance, cluster=replace(instance.cluster, link_gbps=link_gbps))
    return FasterLinks(link_gbps, evaluate_plan(other, solution.plan, solution.evaluation.time_model).iteration_time_ms)


def job_lines(explanation: JobExplanation) -> list[str]:
    """The explanation in sentences."""
    solution, faster = explanation.solution, explanation.faster
    total = solution.objective.value
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
        f"every plan: {solution.bound.value:.6g} ms by {solution.bound.proved_by}."
    )
    if explanation.gap is not None:
        lines.append(
            f"Of the gap of {percent(solution.gap)}, {explanation.gap.words}; {explanation.gap.likelier} is likelier."
        )
    if faster.iteration_time_ms is None:
        lines.append("What faster links would gain is simulated with --instance FILE.")
    else:
        less = 1 - faster.iteration_time_ms / total if total > 0 else 0.0
        change = "no change" if abs(less) < 1e-9 else f"{percent(abs(less))} {'less' if less > 0 else 'more'}"
        lines.append(
            f"Links of {faster.link_gbps:g} instead of {solution.cluster.link_gbps:g} Gbit/s, same plan: "
            f"{faster.iteration_time_ms:.6g} ms ({change}), simulated again. A new search may gain more."
        )
    return lines


def explain(instance: CoOptimisation | None, solution: JobSolution, question: Question) -> Explanation:
    """What limits the plan of a job, in words and figures."""
    added = None if question.added_links is None else float(question.added_links)
    found = explain_job(solution, instance, added_links=added)
    figures: dict[str, Any] = {
        "iteration_time_ms": solution.objective.value,
        "bound": bound_document(solution.bound),
        "critical_path_ms": dict(found.terms),
        "longest_steps": [vars(step) for step in found.steps],
        "busiest_links": [vars(link) for link in found.busiest],
        "busiest_server_compute_ms": found.floor_ms,
        "faster_links": {**vars(found.faster), "checked": found.faster.iteration_time_ms is not None},
    }
    if found.gap is not None:
        figures["gap_parts"] = {**vars(found.gap), "likelier": found.gap.likelier}
    return Explanation(tuple(job_lines(found)), figures, solution.notes)
