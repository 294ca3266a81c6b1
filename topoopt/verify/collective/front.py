"""What is best for which size of the vector: no point beats a bound, and each takes over where it says."""

from __future__ import annotations

import itertools

from topoopt.core.collective import CollectiveObjective, CollectiveProblem
from topoopt.core.collective_solution import CollectiveSolution
from topoopt.core.verdict import Tolerance, beats
from topoopt.verify.laws.findings import ViolationLog, differs


def check_front(
    findings: ViolationLog,
    problem: CollectiveProblem,
    solution: CollectiveSolution,
    least_latency_us: float,
    least_us_per_mbyte: float,
) -> None:
    """Report what is wrong with the points of a front; the schedule of the solution is the one of its size.

    Args:
        least_latency_us, least_us_per_mbyte: bounds on what messages and bytes take.
    """
    points = solution.front
    if problem.objective is not CollectiveObjective.PARETO:
        if points:
            findings.add("front", "best schedules by size where they are not asked for")
        return
    if not points or points[0].from_bytes != 1:
        findings.add("front", "no schedule for vectors of one byte")
        return
    tolerance = Tolerance.LONG_SUMS
    for place, point in enumerate(points):
        if beats(point.latency_us, least_latency_us, tolerance):
            findings.add("front", f"point {place} takes {point.latency_us!r} us of messages, {least_latency_us!r} due")
        if beats(point.us_per_mbyte, least_us_per_mbyte, tolerance):
            findings.add("front", f"point {place} takes {point.us_per_mbyte!r} us/MB, {least_us_per_mbyte!r} due")
        if problem.steps is not None and point.steps > problem.steps:
            findings.add("front", f"point {place} takes {point.steps} steps, at most {problem.steps}")
    for place, (one, other) in enumerate(itertools.pairwise(points), start=1):
        at, before = other.from_bytes, other.from_bytes - 1
        later = at > one.from_bytes and other.us_per_mbyte < one.us_per_mbyte and other.latency_us > one.latency_us
        early = other.time_us(before) < one.time_us(before) * (1 - tolerance.relative)
        late = other.time_us(at) > one.time_us(at) * (1 + tolerance.relative)
        if not later or early or late:
            findings.add("front", f"point {place} is not the best one from {at} bytes on")
    size = problem.vector_bytes
    own = next(point for point in reversed(points) if point.from_bytes <= size)
    due = own.time_us(size)
    if differs(solution.time_us, due, tolerance.relative):
        findings.add("front", f"the schedule takes {solution.time_us!r} us, the best one of its size {due!r}")
    if solution.steps != own.steps:
        findings.add("front", f"the schedule takes {solution.steps} steps, the best one of its size {own.steps}")
    others = "" if len(points) == 1 else ", steps of other sizes than that of the instance"
    findings.leave_out(f"front: method, pieces{others}", "of the schedules behind it only that of the solution is kept")
