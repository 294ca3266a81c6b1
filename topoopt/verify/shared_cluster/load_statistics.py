"""Statistics of jobs at once, recomputed from the times; objective and bound that follow from them."""

from __future__ import annotations

import math
from functools import partial

from topoopt.core.proofs import Argument
from topoopt.core.shared_cluster import SharedCluster
from topoopt.core.shared_cluster_solution import LoadStatistics, SharedClusterSolution, Tail
from topoopt.core.verdict import Status, Tolerance
from topoopt.verify.laws.bounds import check_claim, check_stated
from topoopt.verify.laws.findings import ViolationLog, differs

RELATIVE = Tolerance.ROUNDING.relative


def _statistics(
    problem: SharedCluster, solution: SharedClusterSolution, load: int, place: int, base: Tail | None
) -> LoadStatistics:
    """What the times say, one by one and by exact sums; `base`: those of the same jobs on the first fabric."""
    own = [run for run in solution.draws if run.load == load]
    times = [time for run in own for time in run.times_ms[place]]
    alone = [solution.plans[place * len(problem.classes) + index].alone_ms for run in own for index in run.classes]
    ascending, count = sorted(times), len(times)
    p50, p90, p95, p99 = (ascending[percent * count // 100] for percent in (50, 90, 95, 99))
    tail = Tail(math.fsum(times) / count, p50, p90, p95, p99, ascending[-1])
    first = base or tail
    return LoadStatistics(
        fabric=problem.fabrics[place].name,
        load=load,
        jobs=count,
        iteration_ms=tail,
        over_alone=math.fsum(time / without for time, without in zip(times, alone, strict=True)) / count,
        over_first=tail.mean / first.mean,
        p99_over_first=tail.p99 / first.p99,
    )


def _expected(problem: SharedCluster, solution: SharedClusterSolution) -> list[LoadStatistics]:
    """The statistics as they follow from the times, in the order in which they are stated."""
    rows = []
    for load in sorted({run.load for run in solution.draws}):
        base: Tail | None = None
        for place in range(len(problem.fabrics)):
            rows.append(_statistics(problem, solution, load, place, base))
            base = base or rows[-1].iteration_ms
    return rows


def check_statistics(findings: ViolationLog, problem: SharedCluster, solution: SharedClusterSolution) -> None:
    """Every row against its own computation."""
    expected = _expected(problem, solution)
    if len(expected) != len(solution.statistics):
        findings.add("statistics", f"{len(solution.statistics)} rows, {len(expected)} expected")
        return
    for found, right in zip(solution.statistics, expected, strict=True):
        where = f"{right.load} jobs on {right.fabric}"
        if (found.fabric, found.load, found.jobs) != (right.fabric, right.load, right.jobs):
            findings.add("statistics", f"{where}: the row is of {found.load} jobs on {found.fabric}")
        pairs = [(name, getattr(found.iteration_ms, name), value) for name, value in vars(right.iteration_ms).items()]
        for name in ("over_alone", "over_first", "p99_over_first"):
            pairs.append((name, getattr(found, name), getattr(right, name)))
        for name, stated, value in pairs:
            if differs(stated, value, RELATIVE):
                findings.add("statistics", f"{where}: {name} {stated} stated, {value} from the times")
    largest = max(run.load for run in solution.draws)
    value = next(row.iteration_ms.mean for row in expected if row.load == largest)
    named = (solution.objective.name, solution.objective.unit) == ("mean_iteration_time", "ms")
    if not named or differs(solution.objective.value, value, RELATIVE):
        findings.add("objective", f"{solution.objective.value} ms stated, {value} ms from the times")
    bounds = [solution.plans[index].bound for run in solution.draws if run.load == largest for index in run.classes]
    mean = math.fsum(bound.value for bound in bounds) / len(bounds)
    check_stated(findings, solution.bound, {Argument.CLASS_BOUNDS: partial(float, mean)}, value)
    check_claim(findings, solution, ())
    if solution.status is Status.OPTIMAL:
        findings.add("status", "called optimal, where only the largest load has a bound")
