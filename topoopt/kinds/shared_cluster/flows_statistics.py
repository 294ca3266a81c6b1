"""Mean and tail of iteration times, as the TopoOpt artifact takes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from topoopt.core.shared_load_solution import ClassPlan, LoadStatistics, Together


def percentile(times_ms: Sequence[float], percent: int) -> float:
    """Element floor(percent N / 100) of the N times in ascending order, 0 <= percent < 100."""
    return sorted(times_ms)[percent * len(times_ms) // 100]


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean, correctly rounded sum."""
    return math.fsum(values) / len(values)


def load_statistics(
    fabrics: Sequence[str], class_names: Sequence[str], plans: Sequence[ClassPlan], runs: Sequence[Together]
) -> tuple[LoadStatistics, ...]:
    """For every load, ascending, and every fabric."""
    alone: Mapping[tuple[str, str], float] = {(plan.fabric, plan.job_class): plan.alone_ms for plan in plans}
    rows = []
    for load in sorted({run.load for run in runs}):
        own = [run for run in runs if run.load == load]
        first: LoadStatistics | None = None
        for place, fabric in enumerate(fabrics):
            times = [time for run in own for time in run.times_ms[place]]
            slower = [
                time / alone[fabric, class_names[index]]
                for run in own
                for time, index in zip(run.times_ms[place], run.classes, strict=True)
            ]
            average, tail = mean(times), percentile(times, 99)
            row = LoadStatistics(
                fabric=fabric,
                load=load,
                jobs=len(times),
                mean_ms=average,
                p50_ms=percentile(times, 50),
                p90_ms=percentile(times, 90),
                p95_ms=percentile(times, 95),
                p99_ms=tail,
                slowdown=mean(slower),
                over_first=average / first.mean_ms if first else 1.0,
                p99_over_first=tail / first.p99_ms if first else 1.0,
            )
            first = first or row
            rows.append(row)
    return tuple(rows)
