"""Classes with a plan: what is proven of any plan, and what a solution may state of the one that was made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from topoopt.core.job import CoOptimisation
from topoopt.core.proofs import Argument
from topoopt.core.shared_cluster import PARTITIONED, Contention, Fabric, SharedCluster, too_short
from topoopt.core.shared_cluster_jobs import JobClass, TimeBounds
from topoopt.core.solution import Decides
from topoopt.core.verdict import Tolerance
from topoopt.verify.job.instance_bounds import instance_bounds
from topoopt.verify.laws.findings import ViolationLog

RELATIVE = Tolerance.ROUNDING.relative

OF_ONE_SERVER = (
    Argument.COMPUTE_WORK, Argument.WHOLE_OPERATORS, Argument.PINNED_OPERATORS,
    Argument.NO_LEGAL_SPLIT, Argument.TOO_LITTLE_MEMORY,
)  # fmt: skip
"""They bind what the busiest server computes; the others bind the iteration alone."""


def bounds_of_plan(job: CoOptimisation) -> TimeBounds:
    """What holds for every plan of a job on a shard of its own."""
    bounds = instance_bounds(job.cluster, job.workload)
    busiest = max(bound.value for bound in bounds if bound.argument in OF_ONE_SERVER)
    return TimeBounds(max(bound.value for bound in bounds), busiest)


def least_alone_ms(problem: SharedCluster, fabric: Fabric, one: JobClass) -> float:
    """What no plan of a planned class beats alone on a fabric, in the time model of `topoopt.core.shared_cluster_jobs`.

    With t the time on a shard, R and r the rates of a server there and here: the model makes the iteration no shorter
    than the compute time and, as V / R <= t, than t min(1, R / r). Bounds on chains of operators bind t alone: at a
    rate r > R the model may go below them.
    """
    assert one.lower_bounds is not None
    least = one.lower_bounds
    if fabric.kind == PARTITIONED:
        return least.iteration_ms
    measured = dict(one.fabric_ms).get(fabric.name)
    if measured is not None:
        return max(measured, least.compute_ms)
    faster = (fabric.server_gbps or math.inf) / problem.direct_gbps(one)
    return max(least.compute_ms, least.iteration_ms / max(1.0, faster))


def with_stated_plans(findings: ViolationLog, problem: SharedCluster, stated: Sequence[JobClass]) -> SharedCluster:
    """The problem, its planned classes with the times and bytes that a solution states of their plans, and with what is
    proven of them.

    A plan is not in the file, so that its times and bytes can be possible or not, but are not worked out again. What
    the instance says of a class must stand there as it is.
    """
    classes = []
    for given, one in zip(problem.classes, stated, strict=True):
        if given.plan is None or problem.contention is Contention.FLOWS:
            if given != one:
                findings.add("classes", f"class {given.name!r} is not that of the instance")
            classes.append(given)
            continue
        made = replace(
            given,
            iteration_ms=one.iteration_ms,
            compute_ms=one.compute_ms,
            allreduce_bytes=one.allreduce_bytes,
            all_to_all_bytes=one.all_to_all_bytes,
            lower_bounds=bounds_of_plan(given.plan),
        )
        if made != one:
            findings.add("classes", f"class {given.name!r} is not that of the instance")
        findings.guard("classes", f"class {given.name!r}", partial(_check_possible, findings, problem, made))
        classes.append(made)
    if any(one.lower_bounds is not None for one in classes):
        why = "the plans they come from are not in the file; that no plan is ruled out is checked"
        findings.leave_out("times and bytes of planned classes", why, Decides.VALUE)
    return replace(problem, classes=tuple(classes))


def _check_possible(findings: ViolationLog, problem: SharedCluster, one: JobClass) -> None:
    """Times and bytes of a planned class contradict neither each other nor what holds for every plan."""
    assert one.lower_bounds is not None
    least, where = one.lower_bounds, f"class {one.name!r}"
    if len(one.iteration_ms) != 1:
        findings.add("classes", f"{where} has {len(one.iteration_ms)} times of one plan")
        return
    time = one.iteration_ms[0]
    if not least.iteration_ms * (1 - RELATIVE) <= time < math.inf:
        findings.add("classes", f"{where}: {time} ms an iteration, but no plan takes under {least.iteration_ms} ms")
    if not one.compute_ms <= time * (1 + RELATIVE):
        findings.add("classes", f"{where} computes longer than its iteration lasts")
    if not one.compute_ms >= least.compute_ms * (1 - RELATIVE):
        text = f"{where}: {one.compute_ms} ms of compute, but some server computes for {least.compute_ms} ms"
        findings.add("classes", text)
    if min(one.allreduce_bytes, one.all_to_all_bytes) < 0 or (one.servers == 1 and one.sent_bytes > 0):
        findings.add("classes", f"{where} sends bytes that it cannot send")
    for key, shown, needed in too_short(one, problem.direct_gbps(one), problem.fabrics):
        findings.add("classes", f"{where}: {key} is {shown} ms, sending its bytes takes {needed} ms")
