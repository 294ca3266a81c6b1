"""The checker of hierarchical networks: constraints on the bandwidths, time, cost, front and every proof; no solver.

Whoever adds an argument adds a line to a table here, and a row to `docs/checking.md`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from topoopt.core.hierarchy import Design, HierarchicalObjective, HierarchicalPlan, HierarchicalProblem
from topoopt.core.proofs import Argument, Tolerance
from topoopt.core.result import Certificate, Result
from topoopt.verify.checker import Checker, Derivation
from topoopt.verify.hierarchy.bounds import BandwidthProof, CertificateError, certified_bound, formula_bound
from topoopt.verify.hierarchy.times import RELATIVE, broken_laws, fleet_time_ns, network_cost_usd
from topoopt.verify.laws.findings import CheckDepth, CheckFindings

MAX_ENUMERATED = 100_000
"""Combinations of speeds up to which all are tried."""

UNITS = {
    HierarchicalObjective.TIME: "ns",
    HierarchicalObjective.TIME_TIMES_COST: "ns*USD",
    HierarchicalObjective.COST: "USD",
}


def has_catalogue(design: Design) -> bool:
    """Return whether some dimension of a design has a list of speeds."""
    return any(dimension.speeds_gbytes_per_s for dimension in design.network.dimensions)


# Constraints of a plan.


def design_of_the_instance(problem: HierarchicalProblem, plan: HierarchicalPlan) -> Iterator[str]:
    """The design exists; every network has a bandwidth for each of its dimensions."""
    if not 0 <= plan.design < len(problem.designs):
        yield f"there is no design {plan.design}"
        return
    count = len(problem.designs[plan.design].network.dimensions)
    for bandwidth in (plan.bandwidth_gbytes_per_s, *(point.bandwidth_gbytes_per_s for point in plan.front)):
        if len(bandwidth) != count:
            yield f"{len(bandwidth)} bandwidths for {count} dimensions"


def allowed_bandwidths(problem: HierarchicalProblem, plan: HierarchicalPlan) -> Iterator[str]:
    """Bandwidths are within their bounds, of the speeds there are, and keep every linear constraint."""
    yield from broken_laws(problem.designs[plan.design].network, plan.bandwidth_gbytes_per_s)


def within_cost_cap(problem: HierarchicalProblem, plan: HierarchicalPlan) -> Iterator[str]:
    """The network costs no more than is allowed."""
    cost, cap = (
        network_cost_usd(problem.designs[plan.design].network, plan.bandwidth_gbytes_per_s),
        problem.cost_cap_usd,
    )
    if cap is not None and (cost is None or not cost <= cap * (1 + RELATIVE)):
        yield f"the network costs {cost!r} USD, at most {cap!r} are allowed"


def within_time_limit(problem: HierarchicalProblem, plan: HierarchicalPlan) -> Iterator[str]:
    """An iteration takes no longer than is allowed."""
    time = fleet_time_ns(problem.designs[plan.design], problem.fleet, plan.bandwidth_gbytes_per_s)
    limit = problem.time_limit_ns
    if limit is not None and not time <= limit * (1 + RELATIVE):
        yield f"the time is {time!r} ns, at most {limit!r} are allowed"


def front_of_networks(problem: HierarchicalProblem, plan: HierarchicalPlan) -> Iterator[str]:
    """The points of the front are allowed networks that keep their limits, each cheaper than the faster one."""
    design, costs = problem.designs[plan.design], []
    if len(plan.front) > problem.pareto_points:
        yield f"{len(plan.front)} points, at most {problem.pareto_points} are sought"
    for point in plan.front:
        label, bandwidth = f"the point at {point.limit_ns!r} ns", point.bandwidth_gbytes_per_s
        yield from (f"{label}: {text}" for text in broken_laws(design.network, bandwidth))
        time, cost = fleet_time_ns(design, problem.fleet, bandwidth), network_cost_usd(design.network, bandwidth)
        if cost is None:
            yield f"{label} has no price"
        if not time <= point.limit_ns * (1 + RELATIVE):
            yield f"{label} takes longer, {time!r} ns"
        costs.append(math.nan if cost is None else cost)
    for k, (earlier, later) in enumerate(itertools.pairwise(plan.front)):
        if not (earlier.limit_ns < later.limit_ns and costs[k] > costs[k + 1]):
            yield f"the points at {earlier.limit_ns!r} and {later.limit_ns!r} ns are not in order"


# Objective.


def objective_value(problem: HierarchicalProblem, plan: HierarchicalPlan) -> float:
    """Return time, time x cost, or cost."""
    design, bandwidth = problem.designs[plan.design], plan.bandwidth_gbytes_per_s
    time, cost = fleet_time_ns(design, problem.fleet, bandwidth), network_cost_usd(design.network, bandwidth)
    priced = math.nan if cost is None else cost
    return {
        HierarchicalObjective.TIME: time,
        HierarchicalObjective.TIME_TIMES_COST: time * (priced or math.nan),
        HierarchicalObjective.COST: priced,
    }[problem.objective]


# Bounds.


def _byte_sums(problem: HierarchicalProblem) -> list[float]:
    return [formula_bound(problem, design) for design in problem.designs]


def _prices(problem: HierarchicalProblem, certificates: Sequence[Certificate]) -> list[float]:
    """Return a bound for each design, by its certificate or by sums of bytes.

    Raises
    ------
    CertificateError
        A certificate proves nothing, or two are of the same design.
    """
    bounds = _byte_sums(problem)
    proofs = [BandwidthProof.of(problem, certificate) for certificate in certificates]
    proofs = [proof for proof in proofs if proof.point is None]
    if len({(proof.design, proof.too_slow) for proof in proofs}) < len(proofs):
        raise CertificateError("two certificates of one design")
    for proof in proofs:
        bounds[proof.design] = max(bounds[proof.design], _certified(problem, proof))
    return bounds


def _certified(problem: HierarchicalProblem, proof: BandwidthProof) -> float:
    """Return what a proof says of the objective of its design."""
    design = problem.designs[proof.design]
    if not proof.too_slow:
        best = math.inf if proof.cutoff is None else proof.cutoff
        return min(best, certified_bound(problem, design, proof, best))
    limit = problem.time_limit_ns
    if problem.objective is not HierarchicalObjective.COST or limit is None:
        raise CertificateError("there is no time limit")
    as_time = replace(problem, objective=HierarchicalObjective.TIME, time_limit_ns=None)
    return math.inf if certified_bound(as_time, design, proof, math.inf) > limit else -math.inf


def _speeds(problem: HierarchicalProblem, certificates: Sequence[Certificate]) -> list[float]:
    """Return a bound for each design, all combinations tried where it has a list of speeds."""
    least = (least_by_speeds(problem, design) if has_catalogue(design) else -math.inf for design in problem.designs)
    return [max(pair) for pair in zip(_prices(problem, certificates), least, strict=True)]


def arguments(problem: HierarchicalProblem) -> Mapping[Argument, Derivation]:
    """Return the arguments that count: sums of bytes, certificates, and trying all speeds where these are few."""
    derivations: dict[Argument, Derivation] = {
        Argument.BYTE_SUMS: lambda problem, _: min(_byte_sums(problem)),
        Argument.BANDWIDTH_PRICES: lambda problem, certificates: min(_prices(problem, certificates)),
    }
    listed = [design for design in problem.designs if has_catalogue(design)]
    if listed and all(map(_few_speeds, listed)):
        derivations[Argument.ALL_SPEEDS] = lambda problem, certificates: min(_speeds(problem, certificates))
    return derivations


def point_bound(
    problem: HierarchicalProblem, plan: HierarchicalPlan, k: int, certificates: Sequence[Certificate]
) -> float:
    """Return the largest bound on the cost of networks that keep the limit of a point of the front.

    Certificates that prove nothing are passed over.
    """
    point, design = plan.front[k], problem.designs[plan.design]
    cheapest = replace(problem, objective=HierarchicalObjective.COST, time_limit_ns=point.limit_ns)
    bounds = [formula_bound(cheapest, design)]
    for certificate in certificates:
        try:
            proof = BandwidthProof.of(cheapest, certificate)
            if proof.point == k and proof.design == plan.design:
                bounds.append(_certified(cheapest, replace(proof, too_slow=False)))
        except CertificateError:
            continue
    if has_catalogue(design) and _few_speeds(design):
        bounds.append(least_by_speeds(cheapest, design))
    return max(bounds)


def _few_speeds(design: Design) -> bool:
    options = [len(dimension.speeds_gbytes_per_s) for dimension in design.network.dimensions]
    return all(options) and math.prod(options) <= MAX_ENUMERATED


def least_by_speeds(problem: HierarchicalProblem, design: Design) -> float:
    """Return the least objective over all combinations of speeds; infinite if none is allowed."""
    least = math.inf
    for bandwidth in itertools.product(*(dimension.speeds_gbytes_per_s for dimension in design.network.dimensions)):
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


CHECKER = Checker(
    objective=lambda problem: (problem.objective.value, UNITS[problem.objective]),
    constraints=(
        ("design", design_of_the_instance),
        ("bandwidth", allowed_bandwidths),
        ("cost-cap", within_cost_cap),
        ("time-limit", within_time_limit),
        ("pareto", front_of_networks),
    ),
    value=objective_value,
    arguments=arguments,
    optimal=Tolerance.TANGENTS,
)

SPEEDS_CHECKER = replace(CHECKER, claims=(Argument.SPEED_BRANCHING,), optimal=Tolerance.LINEAR_PROGRAM)
"""Of plans whose design has a list of speeds: linear programs in integers are right to 1e-6."""


def checker_of(problem: HierarchicalProblem, plan: HierarchicalPlan) -> Checker:
    """Return the checker of a plan."""
    listed = [has_catalogue(design) for design in problem.designs]
    chosen = listed[plan.design] if plan.design in range(len(listed)) else False
    return SPEEDS_CHECKER if chosen else replace(CHECKER, claims=SPEEDS_CHECKER.claims if any(listed) else ())


def check(
    problem: HierarchicalProblem, result: Result[HierarchicalProblem, HierarchicalPlan], depth: CheckDepth
) -> CheckFindings:
    """Check a result; see `Checker`."""
    return checker_of(problem, result.plan)(problem, result, depth)
