"""The sections of a report on jobs at once."""

from __future__ import annotations

from collections.abc import Callable

from markupsafe import Markup

from topoopt.core.shared_cluster_figures import LoadStatistics
from topoopt.core.shared_cluster_solution import SharedClusterSolution
from topoopt.drawing.axes import number_axis
from topoopt.drawing.chart import Point, Series, legend, xy_chart
from topoopt.drawing.format import counted, milliseconds, ratio
from topoopt.drawing.page import Card, check_card

CDF_POINTS = 400
"""Steps drawn of one distribution."""

SMALL_MARK = 1.4
"""Of a distribution, whose line is what counts."""

EVEN = 0.02
"""Ratios this close to 1 are no news."""


def headline(solution: SharedClusterSolution) -> tuple[tuple[Card, ...], tuple[Card, ...]]:
    """The first fabric at the largest load, and every other one against it."""
    top = max(row.load for row in solution.statistics)
    rows = [row for row in solution.statistics if row.load == top]
    first = rows[0]
    cards = (
        Card(
            f"mean iteration, {counted(top, 'job')}",
            milliseconds(first.iteration_ms.mean),
            f"{first.fabric}; 99th percentile {milliseconds(first.iteration_ms.p99)}",
            "main",
        ),
        Card("draws", str(len(solution.draws)), f"{counted(sum(run.load for run in solution.draws), 'job')} in all"),
        check_card(solution.check),
    )
    others = tuple(
        Card(
            f"{row.fabric}, mean",
            ratio(row.over_first),
            f"of {first.fabric}; 99th percentile {ratio(row.p99_over_first)}; contention {ratio(row.over_alone)}",
            "good" if row.over_first > 1 + EVEN else "bad" if row.over_first < 1 - EVEN else "",
        )
        for row in rows[1:]
    )
    return cards, others


def _mean_ms(row: LoadStatistics) -> float:
    return row.iteration_ms.mean


def load_chart(solution: SharedClusterSolution, value: Callable[[LoadStatistics], float], title: str) -> Markup:
    """A statistic against the number of jobs, a line for each fabric."""
    series = load_series(solution, value)
    x = number_axis("jobs at once", [row.load for row in solution.statistics], zero=True)
    y = number_axis(f"{title}, ms", [0.0, *(value(row) for row in solution.statistics)])
    return xy_chart(series, x, y, title)


def load_series(solution: SharedClusterSolution, value: Callable[[LoadStatistics], float]) -> list[Series]:
    """The lines of the fabrics, in their order."""
    series = []
    for name, _ in solution.fabrics:
        rows = [row for row in solution.statistics if row.fabric == name]
        points = tuple(
            Point(row.load, value(row), f"{name}, {counted(row.load, 'job')}: {milliseconds(value(row))}")
            for row in rows
        )
        series.append(Series(name, points, line=True))
    return series


def cdf_chart(solution: SharedClusterSolution, load: int) -> Markup:
    """Part of the jobs done within a time, a line for each fabric."""
    series, largest = [], 0.0
    for place, (name, _) in enumerate(solution.fabrics):
        times = sorted(time for run in solution.draws if run.load == load for time in run.times_ms[place])
        largest = max(largest, times[-1])
        corners = [(times[0], 0.0)]
        stride = -(-len(times) // CDF_POINTS)
        for index, time in enumerate(times):
            if (index + 1) % stride and index + 1 < len(times):
                continue
            corners += [(time, corners[-1][1]), (time, (index + 1) / len(times))]
        tips = [f"{name}: {100 * part:.0f} % within {milliseconds(time)}" for time, part in corners]
        points = tuple(Point(time, part, tip) for (time, part), tip in zip(corners, tips, strict=True))
        series.append(Series(name, points, line=True))
    smallest = min(point.x for one in series for point in one.points)
    x = number_axis("iteration time, ms", [smallest, largest], log=True)
    y = number_axis("part of the jobs", [0.0, 1.0])
    return xy_chart(series, x, y, f"Distribution of iteration times, {counted(load, 'job')}", radius=SMALL_MARK)


def statistic_rows(solution: SharedClusterSolution) -> tuple[tuple[str, ...], ...]:
    """The table of all loads and fabrics; the load stands in the first row of its group only."""
    rows, last = [], None
    for row in solution.statistics:
        rows.append(
            (
                str(row.load) if row.load != last else "",
                row.fabric,
                str(row.jobs),
                *(f"{getattr(row.iteration_ms, key):.2f}" for key in ("mean", "p50", "p90", "p95", "p99")),
                *(ratio(value) for value in (row.over_alone, row.over_first, row.p99_over_first)),
            )
        )
        last = row.load
    return tuple(rows)


def class_rows(solution: SharedClusterSolution) -> tuple[tuple[str, ...], ...]:
    """Every class: how many of the jobs, and its time alone on every fabric."""
    jobs = [index for run in solution.draws for index in run.classes]
    rows = []
    for index, name in enumerate(one.name for one in solution.classes):
        part = jobs.count(index) / len(jobs)
        times = [plan.alone_ms for plan in solution.plans if plan.job_class == name]
        rows.append((name, f"{100 * part:.1f} %", *(f"{time:.2f}" for time in times)))
    return tuple(rows)


def facts(solution: SharedClusterSolution) -> tuple[tuple[str, str], ...]:
    """How the jobs were drawn and simulated."""
    model = {"fluid": ", max-min fair", "rounds": ", first come, first served"}.get(solution.time_model, "")
    return (
        ("contention on shared fabrics", f"{solution.contention}{model}"),
        ("servers of a job", f"{solution.placement}, in {solution.rank_order} order"),
    )


ANCHORS = (("loads", "Against load"), ("distribution", "Distribution"), ("table", "Table"), ("classes", "Jobs"))


def sections(solution: SharedClusterSolution) -> dict[str, object]:
    """Values of the template of the sections."""
    loads = sorted({row.load for row in solution.statistics})
    spread = f"{loads[0]} to {loads[-1]} jobs" if len(loads) > 1 else counted(loads[0], "job")
    verdict, comparisons = headline(solution)
    return {
        "subtitle": (
            f"{spread} at once · {solution.servers} servers · "
            f"{counted(len(solution.fabrics), 'fabric')} · {solution.placement} placement"
        ),
        "verdict": verdict,
        "comparisons": comparisons,
        "legend": legend([name for name, _ in solution.fabrics], load_series(solution, _mean_ms)),
        "means": load_chart(solution, _mean_ms, "mean"),
        "tails": load_chart(solution, lambda row: row.iteration_ms.p99, "99th percentile"),
        "distributions": [(counted(load, "job"), cdf_chart(solution, load)) for load in reversed(loads)],
        "statistics": statistic_rows(solution),
        "classes": class_rows(solution),
    }
