"""Arguments behind bounds of hierarchical networks, each with how it is derived again; no other is believed.

Whoever adds an argument adds a line to a table here, and a row to `docs/checking.md`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

from topoopt.core.hierarchy import Design, HierarchicalObjective, HierarchicalProblem
from topoopt.core.hierarchy_solution import BandwidthCertificate, DesignProof
from topoopt.core.proofs import Argument
from topoopt.verify.hierarchy.bounds import CertificateError, certified_bound
from topoopt.verify.hierarchy.formula import formula_bound
from topoopt.verify.hierarchy.laws import RELATIVE, broken_laws
from topoopt.verify.hierarchy.times import fleet_time_ns, network_cost_usd
from topoopt.verify.laws.bounds import Derivations

MAX_ENUMERATED = 100_000
"""Combinations of speeds up to which all are tried."""

CLAIMS = frozenset({Argument.SPEED_BRANCHING})


def has_catalogue(design: Design) -> bool:
    """Whether some dimension of its network has a list of speeds."""
    return any(one.speeds_gbytes_per_s for one in design.network.dimensions)


def of_designs(problem: HierarchicalProblem, proofs: Sequence[DesignProof], value: float) -> Derivations:
    """Of the objective over all designs: each is bounded by sums of bytes, its certificate, or by trying all speeds.

    Args:
        problem: the instance.
        proofs: as the solution has them.
        value: of its objective; designs without anything better need not be considered.
    """

    def byte_sums() -> list[float]:
        return [formula_bound(problem, design) for design in problem.designs]

    def prices() -> list[float]:
        proven = byte_sums()
        for proof in proofs:
            if not 0 <= proof.design < len(proven):
                raise CertificateError(f"a proof of design {proof.design}, which does not exist")
            own = _certified(problem, problem.designs[proof.design], proof, value)
            proven[proof.design] = max(proven[proof.design], own)
        return proven

    def speeds() -> list[float]:
        tried = ((design, has_catalogue(design)) for design in problem.designs)
        least = (least_by_speeds(problem, design) if listed else -math.inf for design, listed in tried)
        return [max(pair) for pair in zip(prices(), least, strict=True)]

    derivations: Derivations = {
        Argument.BYTE_SUMS: lambda: min(byte_sums()),
        Argument.BANDWIDTH_PRICES: lambda: min(prices()),
    }
    listed = [design for design in problem.designs if has_catalogue(design)]
    if listed and all(map(_few_speeds, listed)):
        derivations = {**derivations, Argument.ALL_SPEEDS: lambda: min(speeds())}
    return derivations


def of_point(
    problem: HierarchicalProblem, design: Design, limit_ns: float, cost_usd: float, proof: BandwidthCertificate | None
) -> Derivations:
    """Of the least cost of a design within a time limit."""
    cheapest = replace(problem, objective=HierarchicalObjective.COST, time_limit_ns=limit_ns)
    derivations: Derivations = {Argument.BYTE_SUMS: lambda: formula_bound(cheapest, design)}
    if proof is not None:
        certificate = proof
        derivations = {
            **derivations,
            Argument.BANDWIDTH_PRICES: lambda: certified_bound(cheapest, design, certificate, cost_usd),
        }
    if has_catalogue(design) and _few_speeds(design):
        derivations = {**derivations, Argument.ALL_SPEEDS: lambda: least_by_speeds(cheapest, design)}
    return derivations


def _certified(problem: HierarchicalProblem, design: Design, proof: DesignProof, best: float) -> float:
    if not proof.too_slow:
        return certified_bound(problem, design, proof.certificate, best)
    limit = problem.time_limit_ns
    if problem.objective is not HierarchicalObjective.COST or limit is None:
        raise CertificateError("there is no time limit")
    as_time = replace(problem, objective=HierarchicalObjective.TIME, time_limit_ns=None)
    return math.inf if certified_bound(as_time, design, proof.certificate, math.inf) > limit else -math.inf


def _few_speeds(design: Design) -> bool:
    options = [len(one.speeds_gbytes_per_s) for one in design.network.dimensions]
    return all(options) and math.prod(options) <= MAX_ENUMERATED


def least_by_speeds(problem: HierarchicalProblem, design: Design) -> float:
    """The least objective over all combinations of speeds; infinite if none is allowed."""
    least = math.inf
    for bandwidth in itertools.product(*(one.speeds_gbytes_per_s for one in design.network.dimensions)):
        cost = network_cost_usd(design.network, bandwidth)
        if problem.cost_cap_usd is not None and (cost is None or cost > problem.cost_cap_usd * (1 + RELATIVE)):
            continue
        if broken_laws(design.network, bandwidth):
            continue
        if problem.objective is HierarchicalObjective.COST and (cost is None or cost >= least):
            continue
        time = fleet_time_ns(design, problem.fleet, bandwidth)
        if problem.objective is HierarchicalObjective.COST:
            if time <= (problem.time_limit_ns or math.inf) * (1 + RELATIVE):
                least = cost or 0.0
        else:
            least = min(least, time if problem.objective is HierarchicalObjective.TIME else time * (cost or 0.0))
    return least
