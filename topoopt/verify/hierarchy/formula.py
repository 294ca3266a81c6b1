"""A lower bound of a whole hierarchical design from sums of bytes alone (Cauchy-Schwarz), derived again."""

from __future__ import annotations

import math
from collections.abc import Sequence

from topoopt.core.hierarchy import Design, Fleet, HierarchicalNetwork, HierarchicalObjective, HierarchicalProblem
from topoopt.core.hierarchy_solution import PathWeight
from topoopt.core.hierarchy_workload import Collective, HierarchicalWorkload, Loop
from topoopt.verify.hierarchy.bounds import follow, terms_of
from topoopt.verify.hierarchy.times import moved_bytes
from topoopt.verify.laws.rounding import error_of_sum

INFINITE = math.inf


def formula_bound(problem: HierarchicalProblem, design: Design) -> float:
    """A lower bound from sums of bytes alone, of the form F + (sum_j sqrt W_j)^2 / total and its relatives.

    The bytes of a group are shared in proportion to what it moves in each dimension. Of a job with a dependency graph
    only compute counts.
    """
    parts = [_sums(job, len(design.network.dimensions)) for job in design.workloads]
    weights = [job.weight for job in design.workloads]
    if problem.fleet is Fleet.WORST_CASE:
        cases = [(w * f, [w * one for one in own]) for w, (f, own) in zip(weights, parts, strict=True)]
    else:
        together = [
            sum(w * own[j] for w, (_, own) in zip(weights, parts, strict=True)) for j in range(len(parts[0][1]))
        ]
        cases = [(sum(w * f for w, (f, _) in zip(weights, parts, strict=True)), together)]
    terms = sum(map(terms_of, design.workloads)) + 8 * len(design.network.dimensions) + 16
    rounding = error_of_sum(terms, 1.0)
    return max(_formula(problem, design.network, compute, own, rounding) for compute, own in cases)


def _sums(job: HierarchicalWorkload, dimensions: int) -> tuple[float, list[float]]:
    """F and W of the path that is longest when nothing is communicated."""
    if job.loop is Loop.DAG:
        ends: list[float] = []
        for task in job.tasks:
            ends.append(task.phase.compute_ns + max((ends[k] for k in task.after), default=0.0))
        return max(ends), [0.0] * dimensions
    steps = tuple(index for index, layer in enumerate(job.layers) if layer.weight_gradient.compute_ns > 0)
    due: dict[tuple[int, int, Collective], float] = {}
    compute = follow(job, PathWeight(0, 1.0, steps), 1.0, due)
    total = [0.0] * dimensions
    for (_, communicator, kind), amount in due.items():
        unit = moved_bytes(kind, 1.0, job.communicators[communicator].ranks)
        whole = sum(unit)
        for j, one in enumerate(unit):
            total[j] += amount * one * one / whole if whole else 0.0
    return compute, total


def _formula(
    problem: HierarchicalProblem,
    network: HierarchicalNetwork,
    compute: float,
    own: Sequence[float],
    rounding: float,
) -> float:
    """The bound less its rounding, which is so large a part of each sum at most."""
    prices = [network.npus * (one.usd_per_gbytes_per_s or 0.0) for one in network.dimensions]
    spread = sum(math.sqrt(one) for one in own) ** 2
    priced = sum(math.sqrt(one * price) for one, price in zip(own, prices, strict=True)) ** 2
    totals = [one for one in network.constraints if set(one.coefficients) == {1.0}]
    most = min((one.at_most for one in totals), default=INFINITE)
    least = max((one.at_least for one in totals), default=0.0)
    if problem.objective is HierarchicalObjective.TIME:
        bound = compute + spread / most
        if problem.cost_cap_usd is not None:
            left = problem.cost_cap_usd - network.fixed_cost_usd
            bound = max(bound, compute + priced / left if left > 0 else INFINITE)
        return bound * (1.0 - rounding)
    if problem.objective is HierarchicalObjective.COST:
        left = (problem.time_limit_ns or 0.0) - compute * (1.0 - rounding)
        return (network.fixed_cost_usd + priced / left) * (1.0 - rounding) if left > 0 else INFINITE
    floor = network.fixed_cost_usd + max(least, 0.0) * min(prices)
    return (compute * floor + priced) * (1.0 - rounding)
