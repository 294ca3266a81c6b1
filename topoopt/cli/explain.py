"""`topoopt explain`: the bottleneck of a solution in words, and what more capacity would gain."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from topoopt.console.output import JsonOption, Output
from topoopt.core.errors import InputError, Problem
from topoopt.core.verdict import StopReason
from topoopt.kinds.kind import EXIT_OF_STOP

if TYPE_CHECKING:
    from topoopt.kinds.network.explain import Explanation
    from topoopt.kinds.network.explain_degree import DegreeGain
    from topoopt.kinds.network.explain_gains import Gain


@dataclass(frozen=True)
class ExplainOptions:
    """Options of the command; None: the default."""

    instance: Path | None
    added: Fraction | None
    checks: int
    time_limit_s: float


def explain(
    solution: Annotated[Path, typer.Argument(help="solution.json of `topoopt solve`.")],
    instance: Annotated[Path | None, typer.Option(help="Instance file: its demand and constraints hold.")] = None,
    more: Annotated[
        float | None,
        typer.Option(help="Capacity to add, in links; default: 100 Gbit/s where the rate is known, else one link."),
    ] = None,
    checks: Annotated[int, typer.Option(min=0, max=1000, help="Positions of one more link to solve again.")] = 8,
    time_limit: Annotated[float, typer.Option(min=0.0, help="Seconds for all that is solved again.")] = 60.0,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Say what limits a solution, and what more links or capacity would gain; exit code 4 if not all was checked."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.files.solution_kind import solution_kind

        if more is not None and not 0.001 <= more <= 1e6:
            raise InputError([Problem("out of range", path="--more", value=f"{more:g}", allowed="0.001 to 1000000")])
        added = None if more is None else Fraction(more).limit_denominator(1000)
        kind = solution_kind(solution, EXPLAINERS)
        return EXPLAINERS[kind](output, solution, ExplainOptions(instance, added, checks, time_limit))

    output.run(command)


def _network(output: Output, path: Path, question: ExplainOptions) -> int:
    from topoopt.core.network import RoutingProblem, TopologyProblem
    from topoopt.kinds.instance_file import read_instance
    from topoopt.kinds.network.explain import explain_network
    from topoopt.kinds.network.explain_text import explanation_lines
    from topoopt.kinds.network.solution_file import read_network_solution

    began = time.monotonic()
    problem = None if question.instance is None else read_instance(question.instance)
    if problem is not None and not isinstance(problem, RoutingProblem | TopologyProblem):
        text, where = "not an instance of this solution", str(question.instance)
        raise InputError([Problem(text, file=where, path="kind", value=problem.kind, allowed="routing, topology")])
    found = explain_network(
        read_network_solution(path),
        problem,
        added=question.added,
        checks=question.checks,
        time_limit_s=question.time_limit_s,
    )
    lines = explanation_lines(found)
    stopped_by = StopReason.TIME if found.late else StopReason.CONVERGED
    document = {**_document(found, lines), "stopped_by": stopped_by.value, "solution": str(path)}
    output.result({**document, "wall_s": round(time.monotonic() - began, 3)}, lambda console: _show(console, lines))
    return EXIT_OF_STOP.get(stopped_by, 0)


def _job(output: Output, path: Path, question: ExplainOptions) -> int:
    from topoopt.core.job import CoOptimisation
    from topoopt.files.solution_head import bound_document
    from topoopt.kinds.instance_file import read_instance
    from topoopt.kinds.job.explain import explain_job, job_lines
    from topoopt.kinds.job.solution_file import SOLUTION_FILE

    began = time.monotonic()
    instance = None if question.instance is None else read_instance(question.instance)
    if instance is not None and not isinstance(instance, CoOptimisation):
        text, where = "not an instance of this solution", str(question.instance)
        raise InputError([Problem(text, file=where, path="kind", value=instance.kind, allowed="co-optimisation")])
    added = None if question.added is None else float(question.added)
    found = explain_job(SOLUTION_FILE.read(path), instance, added_links=added)
    lines, solution = job_lines(found), found.solution
    document = {
        "kind": solution.kind,
        "name": solution.name,
        "iteration_time_ms": solution.evaluation.iteration_time_ms,
        "bound": bound_document(solution.bound),
        "critical_path_ms": dict(found.terms),
        "longest_steps": [vars(step) for step in found.steps],
        "busiest_links": [vars(link) for link in found.busiest],
        "busiest_server_compute_ms": found.floor_ms,
        "faster_links": {**vars(found.faster), "checked": found.faster.iteration_time_ms is not None},
        "words": lines,
        "notes": list(solution.notes),
        "seed": solution.seed,
        "versions": dict(solution.versions),
        "instance_sha256": solution.instance_sha256,
        "stopped_by": StopReason.CONVERGED.value,
        "solution": str(path),
    }
    output.result({**document, "wall_s": round(time.monotonic() - began, 3)}, lambda console: _show(console, lines))
    return 0


def _allocation(output: Output, path: Path, question: ExplainOptions) -> int:
    from topoopt.core.allocation import AllocationProblem
    from topoopt.files.solution_head import bound_document
    from topoopt.kinds.allocation.explain import allocation_lines, explain_allocation
    from topoopt.kinds.allocation.solution_file import SOLUTION_FILE
    from topoopt.kinds.instance_file import read_instance

    began = time.monotonic()
    if question.instance is None:
        raise InputError([Problem("needed for the routes", path="--instance", allowed="the instance that was solved")])
    problem = read_instance(question.instance)
    if not isinstance(problem, AllocationProblem):
        text, where = "not an instance of this solution", str(question.instance)
        raise InputError([Problem(text, file=where, path="kind", value=problem.kind, allowed="allocation")])
    found = explain_allocation(
        problem,
        SOLUTION_FILE.read(path),
        added_links=1.0 if question.added is None else float(question.added),
        checks=question.checks,
        time_limit_s=question.time_limit_s,
    )
    lines, solution = allocation_lines(found), found.solution
    stopped_by = StopReason.TIME if found.late else StopReason.CONVERGED
    document = {
        "kind": solution.kind,
        "name": solution.name,
        "objective": vars(solution.objective),
        "bound": bound_document(solution.bound),
        "critical": [row.name for row in found.critical],
        "full": [{"name": name, "transfers": count} for name, count in found.full],
        "at_their_own_limit": list(found.own_limit),
        "more_capacity": [
            {"names": list(gain.names), "added_gbps": list(gain.added_gbps), "checked_value": gain.value}
            for gain in (*found.single, *([found.together] if found.together is not None else []))
        ],
        "words": lines,
        "notes": list(solution.notes),
        "seed": solution.seed,
        "versions": dict(solution.versions),
        "instance_sha256": solution.instance_sha256,
        "stopped_by": stopped_by.value,
        "solution": str(path),
    }
    output.result({**document, "wall_s": round(time.monotonic() - began, 3)}, lambda console: _show(console, lines))
    return EXIT_OF_STOP.get(stopped_by, 0)


def _show(console: Console, lines: list[str]) -> None:
    for line in lines:
        console.print(line, markup=False, soft_wrap=True, highlight=False)


def _document(found: Explanation, lines: list[str]) -> dict[str, Any]:
    solution, bottleneck = found.solution, found.bottleneck
    arcs = solution.topology.arcs

    def priced(positions: tuple[int, ...]) -> list[dict[str, Any]]:
        return [
            {
                "tail": int(arcs[a, 0]),
                "head": int(arcs[a, 1]),
                "links": int(solution.topology.multiplicity[a]),
                "price": float(bottleneck.lengths[a]),
            }
            for a in positions
        ]

    return {
        "kind": solution.kind,
        "name": solution.name,
        "theta": found.theta,
        "lambda": 1.0 / found.theta,
        "bound": {"value": solution.bound.value, "proved_by": solution.bound.proved_by},
        "link_gbps": solution.link_gbps,
        "bottleneck": {
            "routing_bound": bottleneck.bound,
            "arcs": priced(bottleneck.arcs),
            "cuts": [
                {
                    "senders": list(cut.senders),
                    "demand": cut.demand,
                    "capacity": cut.capacity,
                    "theta": cut.theta,
                    "arcs": priced(cut.arcs),
                }
                for cut in bottleneck.cuts
            ],
            "hop_total": bottleneck.hop_total,
            "pairs": len(found.payments),
            "demands": [vars(payment) for payment in found.payments[:100]],
        },
        "more_capacity": {
            "everywhere": _gain(found, found.everywhere),
            "dearest_arc": None if found.single is None else _gain(found, found.single),
        },
        "one_more_link": {
            "candidates": found.links.candidates,
            "best_proven": found.links.best_proven,
            "positions": [_gain(found, gain) for gain in found.links.gains],
        },
        "one_more_interface": None if found.degree is None else _degree(found.degree),
        "words": lines,
        "notes": list(found.notes),
        "seed": solution.seed,
        "versions": dict(solution.versions),
        "instance_sha256": solution.instance_sha256,
    }


def _gain(found: Explanation, gain: Gain) -> dict[str, Any]:
    rate = found.solution.link_gbps
    return {
        "arcs": [list(pair) for pair in gain.pairs],
        "added_links": float(gain.added),
        "added_gbps": None if rate is None else float(gain.added) * rate,
        "predicted_theta": gain.predicted,
        "checked_theta": gain.theta,
        "checked_bound": gain.bound,
        "checked": gain.theta is not None,
    }


def _degree(found: DegreeGain) -> dict[str, Any]:
    from topoopt.files.solution_head import bound_document

    return {
        "degree": found.degree + 1,
        "bounds_now": [bound_document(bound) for bound in found.bounds],
        "bounds": [bound_document(bound) for bound in found.more_bounds],
        "checked_theta": found.theta,
        "checked_bound": found.bound,
        "optimal": found.optimal,
        "note": found.note,
    }


EXPLAINERS: Mapping[str, Callable[[Output, Path, ExplainOptions], int]] = {
    "allocation": _allocation,
    "co-optimisation": _job,
    "routing": _network,
    "topology": _network,
}
"""By kind of instance: shows what limits the solution in the file, and gives the exit code."""
