"""A job on an ideal switch, in the order of traffic that suits it better: what no bound for any network exceeds."""

from __future__ import annotations

import math
from dataclasses import replace

from topoopt.core.cluster import LinkSharing
from topoopt.core.job import BaselineSettings, CoOptimisation, FabricChoice
from topoopt.core.job_solution import Baseline, JobSolution
from topoopt.core.strategy import strided_groups
from topoopt.kinds.job.gap import IDEAL, KnownTime, reached
from topoopt.simulate.fabrics import FABRICS, FabricOptions
from topoopt.simulate.lower import build_task_graph
from topoopt.simulate.time_models.evaluate import simulate
from topoopt.verify.job.fabrics.baselines import check_baselines
from topoopt.verify.job.simulation.budget import EventBudget
from topoopt.verify.laws.findings import CheckDepth, ViolationLog

CHECKED = CheckDepth(events=2_000_000)
"""Seconds of a check; what takes longer is not said."""


def order_free(instance: CoOptimisation, solution: JobSolution) -> KnownTime:
    """The fastest of the strategies known, whatever they were found for, on an ideal switch of the same interfaces.

    Each is simulated as links serve it, and with transfers before AllReduce, and checked.

    What the solution states of the switch, and of a random graph of the same links, counts as well.
    """
    fabric, options = FABRICS[IDEAL], FabricOptions()
    known = dict.fromkeys([solution.plan.strategy, *(line.strategy for line in solution.baselines)])
    best = math.inf
    for sharing in dict.fromkeys((instance.cluster.link_sharing, LinkSharing.TRANSFERS_FIRST)):
        cluster = replace(instance.cluster, link_sharing=sharing)
        asked = BaselineSettings(fabrics=(FabricChoice(IDEAL),))
        problem = replace(instance, cluster=cluster, baselines=asked)
        network = fabric.build(cluster, strided_groups(cluster.servers), options)
        for strategy in known:
            graph = build_task_graph(cluster, instance.workload, strategy)
            taken_ms = simulate(graph, network).iteration_time_ms
            line = Baseline(IDEAL, taken_ms, fabric.describe(cluster, options), strategy)
            if taken_ms < best and _holds(problem, replace(solution, baselines=(line,))):
                best = taken_ms
    return min(KnownTime(best), reached(solution))


def _holds(problem: CoOptimisation, solution: JobSolution) -> bool:
    """Whether the checker gets the same time."""
    findings = ViolationLog()
    check_baselines(findings, problem, solution, None, EventBudget.of(CHECKED))
    found = findings.findings()
    return found.ok and not found.not_recomputed
