"""The checker of shared clusters: recomputes everything from what is recorded and the instance.

Draws of random jobs are made again from the seed, and so are the decisions of schedulers that leave nothing open. The
times of planned classes, and of jobs whose flows are simulated, are only claimed: the check holds them against what is
proven of every plan, on which all bounds rest, and says that the value rests on them.
"""

from __future__ import annotations

from topoopt.core.price_book import PriceBook
from topoopt.core.shared_cluster import Contention, SharedCluster
from topoopt.core.shared_cluster_jobs import JobsAtOnce
from topoopt.core.shared_cluster_solution import SharedClusterSolution
from topoopt.verify.laws.findings import CheckFindings, ViolationLog, check_identity
from topoopt.verify.shared_cluster.arrivals import check_arrivals
from topoopt.verify.shared_cluster.at_once import check_at_once
from topoopt.verify.shared_cluster.planned import with_stated_plans
from topoopt.verify.shared_cluster.rates import with_stated_rates


def check_shared_cluster(
    problem: SharedCluster, solution: SharedClusterSolution, book: PriceBook | None = None
) -> CheckFindings:
    """All laws the result breaks and all figures that are wrong, none for a right solution.

    Never raises, whatever stands in the solution; the instance is taken as valid. The verdict stored in the solution is
    not looked at.

    Args:
        book: the prices that rates of fat-trees of equal cost follow from; None: not at hand.
    """
    findings = ViolationLog()
    findings.guard("identity", "the solution", lambda: _check_identity(findings, problem, solution))

    def complete() -> None:
        nonlocal problem
        problem = with_stated_plans(findings, problem, solution.classes)
        problem = with_stated_rates(findings, problem, solution, book)

    if findings.clean:
        findings.guard("identity", "classes and rates", complete)
    if findings.clean:
        (check_at_once if problem.at_once else check_arrivals)(findings, problem, solution)
    return findings.findings()


def _check_identity(findings: ViolationLog, problem: SharedCluster, solution: SharedClusterSolution) -> None:
    rows: list[tuple[str, object, object]] = [
        ("servers", problem.servers, solution.servers),
        ("degree", problem.cluster.degree, solution.degree),
        ("link_gbps", problem.cluster.link_gbps, solution.link_gbps),
        ("contention", problem.contention.value, solution.contention),
        ("classes", len(problem.classes), len(solution.classes)),
    ]
    flows = problem.contention is Contention.FLOWS
    if isinstance(problem.jobs, JobsAtOnce):
        rows += [
            ("time_model", problem.time_model if flows else "", solution.time_model),
            ("rates_gbps", 0 if flows else len(problem.fabrics), len(solution.rates_gbps)),
            ("placement", problem.jobs.placement.value, solution.placement),
            ("rank_order", problem.jobs.rank_order.value, solution.rank_order),
            ("fabrics", tuple(each.name for each in problem.fabrics), tuple(name for name, _ in solution.fabrics)),
        ]
    else:
        rows += [
            ("look_ahead", problem.look_ahead, solution.look_ahead),
            ("switching_time_s", problem.layer.switching_time_s, solution.switching_time_s),
            ("checkpoint_s", problem.scheduling.checkpoint_s, solution.checkpoint_s),
        ]
    check_identity(findings, problem, solution, *((name, found, due) for name, due, found in rows))
