"""The report of jobs run together: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Callable

from markupsafe import Markup

from topoopt.core.shared_load_solution import LoadStatistics, SharedLoadSolution
from topoopt.drawing.axes import number_axis
from topoopt.drawing.chart import Point, Series, legend, xy_chart
from topoopt.drawing.format import counted, milliseconds, ratio
from topoopt.drawing.page import Card, check_card, render_page, run_rows

TEMPLATE = "kinds/shared_cluster/flows_page.html.j2"
CDF_POINTS = 400
"""Steps drawn of one distribution."""

EVEN = 0.02
"""Ratios this close to 1 are no news."""


def headline(solution: SharedLoadSolution) -> tuple[tuple[Card, ...], tuple[Card, ...]]:
    """The first fabric at the largest load, and every other one against it."""
    top = max(row.load for row in solution.statistics)
    rows = [row for row in solution.statistics if row.load == top]
    first = rows[0]
    cards = (
        Card(
            f"mean iteration, {counted(top, 'job')}",
            milliseconds(first.mean_ms),
            f"{first.fabric}; 99th percentile {milliseconds(first.p99_ms)}",
            "main",
        ),
        Card(
            "draws",
            str(len(solution.runs)),
            f"{counted(sum(run.load for run in solution.runs), 'job')} in all",
        ),
        check_card(solution.check),
    )
    others = tuple(
        Card(
            f"{row.fabric}, mean",
            ratio(row.over_first),
            f"of {first.fabric}; 99th percentile {ratio(row.p99_over_first)}; contention {ratio(row.slowdown)}",
            "good" if row.over_first > 1 + EVEN else "bad" if row.over_first < 1 - EVEN else "",
        )
        for row in rows[1:]
    )
    return cards, others


def load_chart(solution: SharedLoadSolution, value: Callable[[LoadStatistics], float], title: str) -> Markup:
    """A statistic against the number of jobs, a line for each fabric."""
    series = []
    for name, _ in solution.fabrics:
        rows = [row for row in solution.statistics if row.fabric == name]
        points = tuple(
            Point(row.load, value(row), f"{name}, {row.load} jobs: {milliseconds(value(row))}") for row in rows
        )
        series.append(Series(name, points, line=True))
    x = number_axis("jobs at once", [row.load for row in solution.statistics], zero=True)
    y = number_axis(f"{title}, ms", [0.0, *(value(row) for row in solution.statistics)])
    return xy_chart(series, x, y, title)


def cdf_chart(solution: SharedLoadSolution, load: int) -> Markup:
    """Part of the jobs done within a time, a line for each fabric."""
    series, largest = [], 0.0
    for place, (name, _) in enumerate(solution.fabrics):
        times = sorted(time for run in solution.runs if run.load == load for time in run.times_ms[place])
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
    x = number_axis("time of the first iteration, ms", [smallest, largest], log=True)
    y = number_axis("part of the jobs", [0.0, 1.0])
    return xy_chart(series, x, y, f"Distribution of iteration times, {load} jobs")


def statistic_rows(solution: SharedLoadSolution) -> tuple[tuple[str, ...], ...]:
    """The table of all loads and fabrics; the load stands in the first row of its group only."""
    rows, last = [], None
    for row in solution.statistics:
        rows.append(
            (
                str(row.load) if row.load != last else "",
                row.fabric,
                str(row.jobs),
                *(f"{value:.2f}" for value in (row.mean_ms, row.p50_ms, row.p90_ms, row.p95_ms, row.p99_ms)),
                *(ratio(value) for value in (row.slowdown, row.over_first, row.p99_over_first)),
            )
        )
        last = row.load
    return tuple(rows)


def class_rows(solution: SharedLoadSolution) -> tuple[tuple[str, ...], ...]:
    """Every class: how many of the jobs, and its time alone on every fabric."""
    jobs = [index for run in solution.runs for index in run.classes]
    rows = []
    for index, name in enumerate(solution.class_names):
        part = jobs.count(index) / len(jobs)
        times = [plan.alone_ms for plan in solution.plans if plan.job_class == name]
        rows.append((name, f"{100 * part:.1f} %", *(f"{time:.2f}" for time in times)))
    return tuple(rows)


def provenance(solution: SharedLoadSolution) -> tuple[tuple[str, str], ...]:
    """Where the figures come from."""
    model = "max-min fair flows" if solution.time_model == "fluid" else solution.time_model
    return (
        *run_rows(solution),
        ("bound on the objective", f"{solution.bound.value!r} ms, proved by: {solution.bound.proved_by}"),
        ("time model", f"{solution.time_model} ({model})" if model != solution.time_model else model),
        ("servers of a job", f"{solution.placement}, in {solution.rank_order} order"),
        ("check again", "topoopt check INSTANCE solution.json"),
        ("versions", ", ".join(f"{name} {version}" for name, version in solution.versions) or "not recorded"),
    )


def render_shared_load(solution: SharedLoadSolution) -> str:
    """The whole report as one HTML page; names from the instance are escaped. Same solution, same bytes."""
    verdict, comparisons = headline(solution)
    loads = sorted({row.load for row in solution.statistics})
    spread = f"{loads[0]} to {loads[-1]} jobs" if len(loads) > 1 else counted(loads[0], "job")
    return render_page(
        TEMPLATE,
        solution.check,
        solution=solution,
        subtitle=(
            f"{spread} at once · {solution.servers} servers · "
            f"{counted(len(solution.fabrics), 'fabric')} · {solution.placement} placement"
        ),
        verdict=verdict,
        comparisons=comparisons,
        legend=legend([name for name, _ in solution.fabrics]),
        means=load_chart(solution, lambda row: row.mean_ms, "mean"),
        tails=load_chart(solution, lambda row: row.p99_ms, "99th percentile"),
        distributions=[(load, cdf_chart(solution, load)) for load in reversed(loads)],
        statistics=statistic_rows(solution),
        classes=class_rows(solution),
        provenance=provenance(solution),
    )
