"""What limits the plan of a training job: its critical path, its busiest links, and faster links simulated again.

Prices as for a network problem there are none: the objective is a simulated time, not a linear program. What is said
is read off the simulated iteration, or simulated again with the same plan; a plan searched for anew may gain more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.files.results import bound_document
from topoopt.kinds.job.figures import GapParts, JobFigures, JobResult, gap_parts, order_free
from topoopt.kinds.job.plots import breakdown_terms
from topoopt.kinds.pipeline import Explanation, Question
from topoopt.page.text import percent
from topoopt.simulate.fabrics import plan_network
from topoopt.simulate.network import build_task_graph
from topoopt.simulate.time_models.evaluate import simulate
from topoopt.verify.checker import BRIEF
from topoopt.verify.job.check import CHECKER

SHOWN = 5

TERMS = ("computing", "waiting for model-parallel transfers", "waiting for AllReduce", "anything else")
"""What the terms of the breakdown are called."""


def explain(result: JobResult, question: Question) -> Explanation:
    """Explain what limits the plan of a job, in words and figures.

    Args:
        result: what is explained.
        question: its links are those by which the rate of every link grows; None: 100 Gbit/s.

    Raises:
        InputError: There is no instance.
        CheckError: The result does not hold for the instance.
    """
    if result.problem is None:
        text = "the instance is not in this solution"
        raise InputError([Problem(text, path="instance", allowed="a solution with its instance")])
    violations = CHECKER(result.problem, result, BRIEF).violations
    if violations:
        text = "\n".join(f"{violation.code}: {violation.message}" for violation in violations)
        raise CheckError(f"the checker rejects the solution:\n{text}")
    figures: JobFigures = result.figures
    path, rate = figures.evaluation.critical_path, figures.cluster.link_gbps
    faster_gbps = rate + (100.0 if question.added_links is None else float(question.added_links) * rate)
    gap = gap_parts(result, order_free(figures))
    cluster = replace(figures.cluster, link_gbps=faster_gbps)
    graph = build_task_graph(cluster, figures.workload, figures.plan.strategy)
    terms = zip(TERMS, (ms for _, _, ms, *_ in breakdown_terms(figures)), strict=True)
    document: dict[str, Any] = {
        "iteration_time_ms": result.objective.value,
        "bound": bound_document(result.bound),
        "critical_path_ms": dict(sorted(terms, key=lambda term: -term[1])),
        "longest_steps": [vars(step) for step in sorted(path, key=lambda span: span.start_ms - span.end_ms)[:SHOWN]],
        "busiest_links": _busiest_links(figures),
        "busiest_server_compute_ms": figures.busiest_server_compute_ms,
        "faster_links": {
            "link_gbps": faster_gbps,
            "iteration_time_ms": simulate(graph, plan_network(cluster, figures.plan)).iteration_time_ms,
            "checked": True,
        },
    }
    if gap is not None:
        document["gap_parts"] = {**vars(gap), "likelier": gap.likelier}
    return Explanation(tuple(_lines(result, document, gap)), document, result.notes)


def _busiest_links(figures: JobFigures) -> list[dict[str, Any]]:
    topology, use = figures.plan.topology, figures.link_utilisation
    return [
        {
            "tail": int(topology.arcs[arc, 0]),
            "head": int(topology.arcs[arc, 1]),
            "links": int(topology.multiplicity[arc]),
            "carried_bytes": float(figures.evaluation.link_bytes[arc]),
            "utilisation": float(use[arc]),
        }
        for arc in np.argsort(-use, kind="stable")[:SHOWN]
    ]


def _lines(result: JobResult, document: dict[str, Any], gap: GapParts | None) -> Iterator[str]:
    total, faster = result.objective.value, document["faster_links"]
    share = 100.0 / total if total > 0 else 0.0
    terms = document["critical_path_ms"].items()
    parts = ", ".join(f"{name} {ms:.6g} ms ({ms * share:.1f} %)" for name, ms in terms if ms > 0)
    yield f"Iteration {total:.6g} ms along the critical path: {parts or 'nothing'}."
    if document["longest_steps"]:
        steps = "; ".join(
            f"{step['kind']} {step['label']} {step['end_ms'] - step['start_ms']:.6g} ms"
            for step in document["longest_steps"]
        )
        yield f"Its longest steps: {steps}."
    busy = [link for link in document["busiest_links"] if link["utilisation"] > 0]
    links = "; ".join(f"{link['tail']} → {link['head']} {percent(link['utilisation'])} of the time" for link in busy)
    yield f"Busiest links: {links}." if busy else "No link carries anything."
    yield (
        f"No network brings this strategy below {document['busiest_server_compute_ms']:.6g} ms, which the busiest "
        f"server computes. Proven for every plan: {result.bound.value:.6g} ms by {result.bound.proved_by}."
    )
    if gap is not None:
        yield f"Of the gap of {percent(result.gap)}, {gap.words}; {gap.likelier} is likelier."
    less = 1 - faster["iteration_time_ms"] / total if total > 0 else 0.0
    change = "no change" if abs(less) < 1e-9 else f"{percent(abs(less))} {'less' if less > 0 else 'more'}"
    yield (
        f"Links of {faster['link_gbps']:g} instead of {result.figures.cluster.link_gbps:g} Gbit/s, same plan: "
        f"{faster['iteration_time_ms']:.6g} ms ({change}), simulated again. A new search may gain more."
    )
