"""Results of language models in training with other decisions or certificates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from topoopt.core.llm_training_plan import (
    FabricPlan,
    PodClaims,
    ShapeOutcome,
    pod_claims,
    pods_certificates,
    shape_outcomes,
    shapes_certificate,
    shapes_of,
)
from topoopt.core.proofs import Argument
from topoopt.core.result import Certificate, Result

Solved = Result[Any, Any]


def with_plan(solution: Solved, **changes: Any) -> Solved:
    """Other decisions."""
    return replace(solution, plan=replace(solution.plan, **changes))


def with_fabric(solution: Solved, place: int, plan: FabricPlan) -> Solved:
    """Another plan for one of the fabrics."""
    fabrics = list(solution.plan.fabrics)
    fabrics[place] = plan
    return with_plan(solution, fabrics=tuple(fabrics))


def with_network(plan: FabricPlan, **changes: Any) -> FabricPlan:
    """Another network."""
    return replace(plan, network=replace(plan.network, **changes))


def with_shapes(
    solution: Solved, outcomes: Iterable[ShapeOutcome] | None = None, bounds_s: Iterable[float] | None = None
) -> Solved:
    """Other lines of the certificate, or other bounds on the fabrics after the first."""
    own = solution.certificates
    lines = shape_outcomes(own) if outcomes is None else tuple(outcomes)
    bounds = shapes_of(own)["fabric_bounds_s"].tolist() if bounds_s is None else bounds_s
    return replace(solution, certificates=(shapes_certificate(lines, bounds), *own[1:]))


def with_certificate(solution: Solved, old: str, new: Certificate) -> Solved:
    """Another certificate in place of the one that has an array."""
    own = tuple(new if old in one.arrays else one for one in solution.certificates)
    assert own != solution.certificates
    return replace(solution, certificates=own)


def claims_of(solution: Solved) -> PodClaims:
    """What is claimed of strategies in pods."""
    return pod_claims(solution.certificates)


def with_claims(solution: Solved, **changes: Any) -> Solved:
    """Other claims of strategies in pods."""
    own = [one for one in solution.certificates if one.argument is not Argument.POD_CIRCUITS]
    claims = replace(claims_of(solution), **changes)
    return replace(solution, certificates=(*own, *pods_certificates(claims)))
