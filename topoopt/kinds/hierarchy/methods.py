"""The method of kind `hierarchical-bandwidth`, and the result that its bandwidths amount to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from formulations.hierarchical_bandwidth import BandwidthProgram, Multipliers, plain_program
from solvers.hierarchy import BestDesign, best_design, front
from solvers.hierarchy import FrontPoint as SolvedPoint
from topoopt.core.arrays import Floats
from topoopt.core.hierarchy import (
    Collective,
    FrontPoint,
    GroupShare,
    HierarchicalPlan,
    HierarchicalProblem,
    PathWeight,
    bandwidth_certificate,
)
from topoopt.core.proofs import Argument, Bound, StopReason
from topoopt.core.result import Certificate, Result, SearchResult
from topoopt.kinds.kind import Effort, Method, Solver, table
from topoopt.kinds.pipeline import assembled
from topoopt.verify.hierarchy import arguments, checker_of, has_catalogue

Bandwidths = SearchResult[HierarchicalPlan]


def _best(problem: HierarchicalProblem, effort: Effort) -> Bandwidths:
    """Return the best design and its front.

    Raises:
        InputError: nothing limits a bandwidth, or cost may vanish.
        InfeasibleError: nothing satisfies the constraints; they are named.
        LimitError: the limit came before there is a design.
    """

    def interrupted(best: BestDesign, points: tuple[SolvedPoint, ...]) -> None:
        def incumbent() -> Bandwidths:
            reason = effort.stop.reason() or StopReason.TIME
            return _search_result(problem, best, points, reason if len(points) < problem.pareto_points else None)

        effort.keep(incumbent)

    choice = best_design(
        problem,
        effort.stop,
        lambda best: interrupted(replace(best, stopped_by=effort.stop.reason() or StopReason.TIME), ()),
    )
    interrupted(choice, ())
    points: list[SolvedPoint] = []
    if problem.pareto_points and effort.stop.reason() is None:
        plain = plain_program(problem.designs[choice.design], problem)
        for point in front(plain, problem.pareto_points, effort.stop):
            points.append(point)
            interrupted(choice, tuple(points))
    ended = effort.stop.reason() if len(points) < problem.pareto_points else None
    return _search_result(problem, choice, tuple(points), ended)


def _search_result(
    problem: HierarchicalProblem, choice: BestDesign, points: tuple[SolvedPoint, ...], ended: StopReason | None
) -> Bandwidths:
    """Return plan, certificates and bounds; `ended` says why the front is cut short, None that it is not."""
    design, optimum = problem.designs[choice.design], choice.optimum
    plain = plain_program(design, problem)
    plan = HierarchicalPlan(
        choice.design,
        tuple(optimum.bandwidth.tolist()),
        tuple(FrontPoint(limit_ns, tuple(cheapest.bandwidth.tolist())) for limit_ns, _, cheapest in points),
    )
    of_cost = problem.objective == "cost"
    certificates = [
        certificate_of(
            program,
            multipliers,
            design=position,
            too_slow=too_slow,
            cutoff=plain.cost_of(optimum.bandwidth) if of_cost and not too_slow else None,
        )
        for position, program, multipliers, too_slow in choice.proofs
    ]
    certificates += [
        certificate_of(program, multipliers, design=choice.design, point=k, cutoff=plain.cost_of(cheapest.bandwidth))
        for k, (_, program, cheapest) in enumerate(points)
        if (multipliers := cheapest.multipliers) is not None
    ]
    bounds = [Bound(derive(problem, certificates), argument) for argument, derive in arguments(problem).items()]
    if any(map(has_catalogue, problem.designs)):
        bounds.append(Bound(choice.bound, Argument.SPEED_BRANCHING))
    unused = [row.name for row, used in zip(design.network.dimensions, plain.loaded, strict=True) if not used]
    notes = [f"no traffic in dimension {name}: its bandwidth says nothing about time" for name in unused]
    if len(problem.designs) > 1:
        notes.append(f"{len(problem.designs)} designs, {choice.opened} opened, the others excluded by bounds")
    if ended is not None:
        notes.append(f"the front of time and cost ends early: {ended.value}")
    return SearchResult(
        plan=plan,
        certificates=tuple(certificates),
        stopped_by=ended or choice.stopped_by,
        method="branch and bound" if any(plain.speeds) else "tangents",
        bounds=tuple(bounds),
        notes=tuple(notes),
    )


def certificate_of(program: BandwidthProgram, multipliers: Multipliers, **subject: Any) -> Certificate:
    """Return weights of paths, shares of groups on them and prices of rows, zeros left out; see core."""
    paths, shares, group = [], [], 0
    for job, (timeline, weights, job_paths) in enumerate(
        zip(program.timelines, multipliers.path_weights, multipliers.paths, strict=True)
    ):
        sizes: Floats = np.zeros(len(timeline.groups))
        for weight, path in zip(weights.tolist(), job_paths, strict=True):
            if weight > 0:
                paths.append(PathWeight(job, weight, path.steps))
                sizes += weight * path.sizes
        for (communicator, kind), size in zip(timeline.groups, sizes.tolist(), strict=True):
            row = multipliers.shares[group, program.shift :]
            if size > 0 and row.sum() > 0:
                shares.append(GroupShare(job, communicator, kind, tuple(row.tolist())))
            group += 1
    prices = {index: price for index, price in enumerate(multipliers.prices.tolist()) if price}
    return bandwidth_certificate(subject.pop("design"), paths, shares, prices, **subject)


def from_format_2(
    problem: HierarchicalProblem, document: Mapping[str, Any]
) -> tuple[HierarchicalPlan, tuple[Certificate, ...]]:
    """Return the plan and the certificates of a solution file of format 2."""
    points = document["pareto"]
    plan = HierarchicalPlan(
        document["design"],
        tuple(document["bandwidth_gbytes_per_s"]),
        tuple(FrontPoint(row["limit_ns"], tuple(row["bandwidth_gbytes_per_s"])) for row in points),
    )
    of_cost = problem.objective == "cost"
    ratio = problem.objective == "time-times-cost"
    certificates = [
        _converted(
            problem,
            row["certificate"],
            row["design"],
            ratio=ratio,
            too_slow=row["too_slow"],
            cutoff=document["objective"]["value"] if of_cost and not row["too_slow"] else None,
        )
        for row in document["proofs"]
    ]
    certificates += [
        _converted(problem, row["certificate"], document["design"], ratio=False, point=k, cutoff=row["cost_usd"])
        for k, row in enumerate(points)
        if row["certificate"] is not None
    ]
    return plan, tuple(certificates)


def _converted(
    problem: HierarchicalProblem, certificate: Mapping[str, Any], design: int, *, ratio: bool, **subject: Any
) -> Certificate:
    """Return a certificate of format 2, whose rows have names."""
    from formulations.hierarchical_bandwidth import with_ratio

    plain = plain_program(problem.designs[design], problem)
    names = (with_ratio(plain) if ratio else plain).row_names
    paths = [PathWeight(row["job"], row["weight"], tuple(row["steps"])) for row in certificate["paths"]]
    shares = [
        GroupShare(row["job"], row["communicator"], Collective(row["collective"]), tuple(row["bytes_by_dimension"]))
        for row in certificate["shares"]
    ]
    prices = {names.index(name): price for name, price in certificate["prices"].items()}
    return bandwidth_certificate(design, paths, shares, prices, **subject)


def _assemble(problem: HierarchicalProblem, bandwidths: Bandwidths, effort: Effort) -> Result[Any, Any]:
    return assembled(problem, bandwidths, effort, checker_of(problem, bandwidths.plan))


METHODS = table(Method("auto", "tangents; branch and bound over speeds and designs", _best))

SOLVER = Solver(methods=lambda _: METHODS, assemble=_assemble, tables=lambda _: (("", METHODS),))
