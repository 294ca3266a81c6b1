"""Rates of the servers on the fabrics: those of the instance, or of a fat-tree that costs as much as direct links."""

from __future__ import annotations

from dataclasses import replace

from topoopt.core.price_book import PriceBook
from topoopt.core.shared_cluster import Contention, Fabric, SharedCluster
from topoopt.core.shared_cluster_solution import SharedClusterSolution
from topoopt.core.solution import Decides
from topoopt.core.verdict import Tolerance
from topoopt.verify.job.fabrics.parts_list import equal_cost_gbps
from topoopt.verify.laws.findings import ViolationLog, differs

RELATIVE = Tolerance.ROUNDING.relative


def with_stated_rates(
    findings: ViolationLog, problem: SharedCluster, solution: SharedClusterSolution, book: PriceBook | None
) -> SharedCluster:
    """The problem, its fabrics with the rates that a solution states; of fabrics it does not hold as they are.

    A rate that the instance leaves to the prices is worked out again. One of other prices is possible up to the rate of
    all interfaces together, and the objective rests on it if it is that of the first fabric.
    """
    if problem.contention is Contention.FLOWS:
        return problem
    stated = solution.rates_gbps if problem.at_once else tuple(run.fabric.server_gbps for run in solution.runs)
    fabrics = list(problem.fabrics)
    for place, (fabric, rate) in enumerate(zip(problem.fabrics, stated, strict=False)):
        fabrics[place] = _with_rate(findings, problem, fabric, rate, book, first=place == 0)
    return replace(problem, fabrics=tuple(fabrics))


def _with_rate(
    findings: ViolationLog,
    problem: SharedCluster,
    fabric: Fabric,
    rate: float | None,
    book: PriceBook | None,
    *,
    first: bool,
) -> Fabric:
    if fabric.server_gbps is not None:
        if rate != fabric.server_gbps:
            findings.add("rates", f"a server of {fabric.name} has {rate} Gbit/s, not {fabric.server_gbps}")
        return fabric
    most = problem.cluster.degree * problem.cluster.link_gbps
    if rate is None or not 0 < rate <= most * (1 + RELATIVE):
        findings.add("rates", f"a server of {fabric.name} has {rate} Gbit/s, not more than 0 and at most {most}")
    elif book is None or differs(rate, equal_cost_gbps(problem.cluster, fabric.oversubscription or 1.0, book)):
        why = "the prices it follows from are not those of this check; what follows from it is recomputed"
        findings.leave_out(f"server rate of {fabric.name}", why, Decides.VALUE if first else Decides.NOTHING)
        if first:
            findings.leave_out("bound", f"it rests on the server rate of {fabric.name}", Decides.BOUND)
    return replace(fabric, server_gbps=rate)
