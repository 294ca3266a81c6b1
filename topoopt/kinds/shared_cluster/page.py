"""The page of a shared cluster: how long iterations and jobs take on each fabric, who waits, and who is where."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
from markupsafe import Markup

from topoopt.core.arrays import Floats
from topoopt.core.result import Result
from topoopt.core.shared_cluster import FAT_TREE, PARTITIONED, Fabric, FabricRun, SharedCluster, SharedClusterPlan
from topoopt.kinds.shared_cluster.figures import (
    LoadStatistics,
    Metrics,
    SharedClusterFigures,
    fabric_options,
    finished_times,
)
from topoopt.page.charts import (
    Axis,
    Point,
    Series,
    colour,
    element,
    joined,
    legend,
    number_axis,
    percentage,
    picture,
    use_class,
    utilisation_legend,
    xy_chart,
)
from topoopt.page.render import Column, Fact, Page, Plot, Section, Side, Swatch, Table
from topoopt.page.text import (
    compared,
    counted,
    milliseconds,
    number,
    objective_text,
    percent,
    possible_improvement,
    quotient,
    ratio,
    rejection,
)
from topoopt.simulate.fabrics import FABRICS

ClusterResult = Result[SharedCluster, SharedClusterPlan]

WHAT = {
    "mean_iteration_time": "an iteration of a job takes {value} on average",
    "mean_completion_time": "a job ends {value} after it came, on average",
}
"""The objectives of jobs that arrive."""

MEANS = {"mean_iteration_time": "iteration_ms", "mean_completion_time": "completion_s"}
"""Fields of the metrics that the objectives are means of."""

EVEN = 0.02
"""Ratios this close to 1 are no news."""

MAX_POINTS = 400
"""Points of a line of a distribution."""

SMALL_MARK = 1.4
"""Of a distribution, whose line is what counts."""

BINS = 240
"""Parts of the time; a point of a line is the mean over one."""

MAX_BARS = 4000
"""Bars of the chart of the servers; beyond, bands of servers are shaded."""

BANDS = 64
CELLS = 160
HEIGHT = 420.0
FOOT = 40.0

CSV_COLUMNS = (
    "fabric", "load", "jobs", "mean_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "largest_ms",
    "over_alone", "over_first", "p99_over_first",
)  # fmt: skip


def page(result: ClusterResult) -> Page:
    """Return the page of a result that has its problem."""
    figures: SharedClusterFigures = result.figures
    return _at_once_page(result, figures) if figures.at_once else _arrivals_page(result, figures)


def answer(result: ClusterResult) -> str:
    """Return the mean on the first fabric against every other one, and how much shorter it could be."""
    figures: SharedClusterFigures = result.figures
    sentence = _at_once_answer if figures.at_once else _arrivals_answer
    return rejection(result.check) or sentence(result, figures)


def statistics_table(result: ClusterResult) -> tuple[str, str] | None:
    """Return name and text of a file with the statistics of jobs at once, a row for each load and fabric."""
    figures: SharedClusterFigures = result.figures
    if not figures.at_once:
        return None
    stream = io.StringIO()
    writer = csv.DictWriter(stream, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in figures.statistics:
        cells = asdict(row)
        tail = {f"{name}_ms": value for name, value in cells.pop("iteration_ms").items()}
        writer.writerow({**cells, **tail})
    return "statistics.csv", stream.getvalue()


def _against(own: float, others: Sequence[tuple[str, float]]) -> str:
    return "".join(f", {compared(own, mean)[1]} on {name}" for name, mean in others)


def _fabric_text(fabric: Fabric, *, placement: bool) -> str:
    text = f"{fabric.server_gbps or 0.0:.4g} Gbit/s a server"
    if fabric.kind == FAT_TREE:
        ratio_above = fabric.oversubscription or 1.0
        if ratio_above > 1:
            text += f", {ratio_above:g}:1 above the {fabric.oversubscribed_at or 'rack'}"
        text += f", {fabric.paths} paths"
    return f"{text}, {fabric.placement} placement" if placement else f"{fabric.kind}, {text}"


# Jobs that arrive.


def _arrivals_answer(result: ClusterResult, figures: SharedClusterFigures) -> str:
    first, *others = figures.runs
    objective = result.objective
    means = [
        (run.fabric.name, float(getattr(metrics, MEANS[objective.name]).mean))
        for run, metrics in zip(others, figures.metrics[1:], strict=True)
        if run.whole and metrics is not None
    ]
    what = WHAT[objective.name].format(value=f"{number(objective.value)} {objective.unit}")
    part = "" if first.whole else " (cut short)"
    least = possible_improvement(result, "schedule of these jobs", "faster on average")
    return f"On {first.fabric.name}{part} {what}{_against(objective.value, means) if first.whole else ''}; {least}."


def _arrivals_cause(result: ClusterResult, figures: SharedClusterFigures) -> str:
    metrics, run, jobs = figures.metrics[0], figures.runs[0], figures.jobs
    assert metrics is not None
    if result.objective.name == "mean_completion_time":
        waiting = quotient(metrics.waiting_s.mean, metrics.completion_s.mean)
        if waiting < EVEN:
            return "Jobs hardly wait: nearly all of it is their own work."
        if waiting >= 0.5:
            return f"{percent(waiting)} of it is waiting for servers."
        return f"{percent(1.0 - waiting)} of it is the work of the jobs, {percent(waiting)} waiting for servers."
    times, index = finished_times(run, jobs)[0], jobs.class_index[run.finished]
    totals = np.bincount(index, times, len(figures.classes))
    largest = int(totals.argmax())
    share, count = quotient(float(totals[largest]), float(totals.sum())), float((index == largest).mean())
    name = figures.classes[largest].name
    return "" if len(figures.classes) < 2 else f"{percent(share)} of it are jobs of {name}, {percent(count)} of all."


def _arrivals_page(result: ClusterResult, figures: SharedClusterFigures) -> Page:
    problem, runs = figures.problem, figures.runs
    return Page(
        subtitle=f"{counted(len(figures.jobs), 'job')} on {counted(problem.servers, 'server')}, "
        f"{counted(len(runs), 'fabric')}",
        answer=answer(result),
        cause=_arrivals_cause(result, figures),
        facts=_arrivals_facts(result, figures),
        sections=(
            Section(
                "Fabrics",
                [_fabrics_table(figures)],
                "Of the finished jobs: time of an iteration, in the queue, and from arrival to end."
            ),
            Section("Iteration times", [Plot(lambda: _distribution(figures))]),
            Section("Over time", [Side([Plot(lambda: _over_time(figures, "held")),
                                        Plot(lambda: _over_time(figures, "waiting"))])]),
            _servers_section(figures),
            Section(
                "Figures",
                [_metrics_table(figures)],
                "Of the finished jobs; p of q percent is element floor(q N / 100) of the sorted list. Slowdown: "
                "completion time over that on a shard of its own without waiting."
            ),
            Section("Classes", [_classes_table(figures)]),
        ),
        provenance=_arrivals_provenance(result, figures),
        next_commands=(("topoopt compare", "other ways of scheduling the same jobs"),),
    )  # fmt: skip


def _arrivals_facts(result: ClusterResult, figures: SharedClusterFigures) -> tuple[Fact, ...]:
    objective, runs, first = result.objective, figures.runs, figures.metrics[0]
    jobs = len(figures.jobs)
    detail = f"{runs[0].fabric.name}, {int(runs[0].finished.sum()):,} of {counted(jobs, 'job')} finished"
    facts = [
        Fact("", objective_text(objective.name), objective.value, lambda v: f"{number(v)} {objective.unit}", detail),
        Fact("servers", "", figures.problem.servers),
        Fact("contention", "", figures.problem.contention),
        Fact("jobs", "jobs", jobs, lambda v: f"{v} on {figures.problem.servers} servers", card=False),
        Fact("fabrics", "", {run.fabric.name: _row(run, own) for run, own in zip(runs, figures.metrics, strict=True)}),
    ]
    for run, own in zip(runs[1:], figures.metrics[1:], strict=True):
        if own is None or first is None:
            continue
        mean = quotient(own.iteration_ms.mean, first.iteration_ms.mean)
        tail = ratio(quotient(own.iteration_ms.p99, first.iteration_ms.p99))
        text = f"of {runs[0].fabric.name}; p99 {tail}"
        facts.append(Fact("", f"{run.fabric.name}, mean iteration", mean, ratio, text))
    return tuple(facts)


def _row(run: FabricRun, metrics: Metrics | None) -> dict[str, Any]:
    row: dict[str, Any] = {"server_gbps": run.fabric.server_gbps, "whole": run.whole}
    return row if metrics is None else {**row, **asdict(metrics)}


def _fabrics_table(figures: SharedClusterFigures) -> Table:
    def text(value: float | None) -> str:
        return "-" if value is None else number(value)

    columns = (
        Column("fabric", "fabric"),
        Column("iteration_ms", "ms", text, number=True),
        Column("iteration_p99_ms", "p99", text, number=True),
        Column("waiting_s", "queue s", text, number=True),
        Column("waiting_p99_s", "p99", text, number=True),
        Column("completion_s", "in all s", text, number=True),
        Column("utilisation", "in use", lambda v: "-" if v is None else f"{100 * v:.1f} %", number=True),
    )
    rows: list[tuple[Any, ...]] = []
    for run, own in zip(figures.runs, figures.metrics, strict=True):
        name = run.fabric.name if run.whole else f"{run.fabric.name} (cut short)"
        if own is None:
            rows.append((name, *[None] * 6))
            continue
        tails = (own.iteration_ms.mean, own.iteration_ms.p99, own.waiting_s.mean, own.waiting_s.p99)
        rows.append((name, *tails, own.completion_s.mean, own.utilisation))
    return Table("fabric_times", columns, rows, terminal_rows=16)


def _metrics_table(figures: SharedClusterFigures) -> Table:
    kept = [(run, own) for run, own in zip(figures.runs, figures.metrics, strict=True) if own is not None]
    metrics = [own for _, own in kept]
    rows: list[tuple[str, ...]] = []
    for title, key, unit in (
        ("iteration time", "iteration_ms", "ms"),
        ("waiting time", "waiting_s", "s"),
        ("completion time", "completion_s", "s"),
        ("slowdown", "slowdown", "×"),
    ):
        for part in ("mean", "p50", "p90", "p95", "p99", "largest"):
            values = tuple(f"{number(getattr(getattr(own, key), part))} {unit}" for own in metrics)
            rows.append((f"{title}, {part}", *values))
    rows += [
        ("makespan", *(f"{number(own.makespan_s)} s" for own in metrics)),
        ("servers in use", *(percent(own.utilisation) for own in metrics)),
        ("servers at work", *(percent(own.goodput) for own in metrics)),
        ("waiting jobs, mean", *(number(own.queue_length) for own in metrics)),
        ("free servers while a job waits, mean", *(number(own.waiting_free) for own in metrics)),
        ("of them enough for the first job", *(number(own.stranded) for own in metrics)),
        ("largest shard over free servers, mean", *(percent(own.largest_share) for own in metrics)),
        ("circuits set", *(f"{own.reconfigurations:,}" for own in metrics)),
        ("moves", *(f"{own.moves:,}" for own in metrics)),
        ("time without work on held servers", *(f"{number(own.dark_s)} s" for own in metrics)),
    ]
    columns = [Column("figure", "figure"), *(Column(run.fabric.name, run.fabric.name, number=True) for run, _ in kept)]
    return Table("metrics", columns, rows, terminal_rows=0)


def _classes_table(figures: SharedClusterFigures) -> Table:
    counts = np.bincount(figures.jobs.class_index, minlength=len(figures.classes)).tolist()

    def span(times: tuple[float, ...]) -> str:
        return number(times[0]) if len(times) == 1 else f"{number(min(times))} to {number(max(times))}"

    columns = (
        Column("class", "class"),
        Column("jobs", "jobs", lambda v: f"{v:,}", number=True),
        Column("servers", "servers", number=True),
        Column("iteration_ms", "iteration, ms", span, number=True),
        Column("compute_ms", "compute, ms", number, number=True),
        Column("allreduce_bytes", "AllReduce, GB a server", lambda v: number(v / 1e9), number=True),
        Column("all_to_all_bytes", "all-to-all, GB a server", lambda v: number(v / 1e9), number=True),
    )
    rows = [
        (row.name, count, row.servers, row.iteration_ms, row.compute_ms, row.allreduce_bytes, row.all_to_all_bytes)
        for row, count in zip(figures.classes, counts, strict=True)
    ]
    return Table("classes", columns, rows, terminal_rows=0)


def _arrivals_provenance(result: ClusterResult, figures: SharedClusterFigures) -> tuple[tuple[str, str], ...]:
    problem = figures.problem
    declared = result.method == "auto"
    queue = problem.scheduling.queue if declared else result.method.removesuffix("-defragment")
    moving = problem.scheduling.defragment if declared else result.method.endswith("-defragment")
    ahead = ", set ahead on a second plane" if problem.look_ahead else ""
    return (
        ("scheduling", f"{queue}{', running jobs are moved where that pays' if moving else ''}"),
        ("circuits", f"{number(problem.layer.switching_time_s)} s to set those of a job{ahead}"),
        ("contention on shared fabrics", problem.contention),
        *((run.fabric.name, _fabric_text(run.fabric, placement=True)) for run in figures.runs),
    )


def _distribution_series(figures: SharedClusterFigures) -> list[Series]:
    """Share of the jobs with at most that iteration time, one line a fabric; no points where none has finished."""
    series = []
    for run in figures.runs:
        stays = run.stays
        worked = np.bincount(stays.job, stays.work_to_s - stays.work_from_s, minlength=len(figures.jobs))
        times = np.sort(1e3 * worked[run.finished] / figures.jobs.iterations[run.finished])
        points = []
        kept = np.unique(np.linspace(0, len(times) - 1, MAX_POINTS).astype(int)).tolist() if len(times) else []
        for at in kept:
            value = float(times[at])
            tip = f"{run.fabric.name}: {percent((at + 1) / len(times))} of the jobs in {number(value)} ms"
            points += [Point(value, 100 * at / len(times), tip), Point(value, 100 * (at + 1) / len(times), tip)]
        series.append(Series(run.fabric.name, tuple(points), line=True, dots=False))
    return series


def _distribution(figures: SharedClusterFigures) -> Markup:
    series = _distribution_series(figures)
    values = [point.x for line in series for point in line.points]
    least, largest = min(values, default=0.0), max(values, default=0.0)
    x = Axis("iteration time, ms", 0.0 if least < 0.5 * largest else 0.95 * least, max(1.05 * largest, 1e-9))
    names = legend([run.fabric.name for run in figures.runs], series)
    return joined([names, xy_chart(series, x, Axis("jobs, %", 0.0, 105.0), "Distribution of the iteration times")])


def mean_over_bins(times: Floats, change: Floats, edges: Floats) -> Floats:
    """Return the mean of a step function in each bin; it changes by `change` at `times`, from 0."""
    order = np.argsort(times, kind="stable")
    moments, level = times[order], np.cumsum(change[order])
    if not len(moments):
        return np.zeros(len(edges) - 1)
    area = np.concatenate(([0.0], np.cumsum(level[:-1] * np.diff(moments))))
    at = np.searchsorted(moments, edges, side="right") - 1
    inside = np.maximum(at, 0)
    until = np.where(at >= 0, area[inside] + level[inside] * (edges - moments[inside]), 0.0)
    means: Floats = np.diff(until) / np.diff(edges)
    return means


def time_scale(last_s: float) -> tuple[float, str]:
    for seconds, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if last_s >= 3 * seconds:
            return seconds, name
    return 1.0, "s"


def held_share(run: FabricRun, servers: int, edges: Floats) -> Floats:
    size = np.diff(run.stays.low).astype(np.float64)
    times = np.concatenate((run.stays.held_from_s, run.stays.held_to_s))
    return mean_over_bins(times, np.concatenate((size, -size)), edges) / servers


def waiting_jobs(run: FabricRun, arrival_s: Floats, edges: Floats) -> Floats:
    """Return the number of waiting jobs in each bin."""
    start = np.full(len(arrival_s), run.until_s)
    np.minimum.at(start, run.stays.job, run.stays.held_from_s)
    arrived = arrival_s <= run.until_s
    times = np.concatenate((arrival_s[arrived], start[arrived]))
    steps = np.ones(int(arrived.sum()))
    return mean_over_bins(times, np.concatenate((steps, -steps)), edges)


def _over_time(figures: SharedClusterFigures, what: str) -> Markup:
    last = max((run.until_s for run in figures.runs), default=0.0) or 1.0
    unit, name = time_scale(last)
    edges = np.linspace(0.0, last, BINS + 1)
    middle = (edges[:-1] + edges[1:]) / 2 / unit
    series = []
    for run in figures.runs:
        if what == "held":
            values, text = 100 * held_share(run, figures.problem.servers, edges), "{} % of the servers in use"
        else:
            values, text = waiting_jobs(run, figures.jobs.arrival_s, edges), "{} jobs wait"
        points = tuple(
            Point(x, y, f"{run.fabric.name}: {text.format(number(y))}")
            for x, y in zip(middle.tolist(), values.tolist(), strict=True)
        )
        series.append(Series(run.fabric.name, points, line=True, dots=False))
    largest = max((point.y for line in series for point in line.points), default=0.0)
    y = Axis("servers in use, %", 0.0, 105.0) if what == "held" else number_axis("waiting jobs", (0.0, largest))
    names = legend([run.fabric.name for run in figures.runs], series) if what == "held" else Markup("")
    label = "Servers in use over time" if what == "held" else "Waiting jobs over time"
    return joined([names, xy_chart(series, Axis(f"time, {name}", 0.0, last / unit), y, label)])


def _servers_section(figures: SharedClusterFigures) -> Section:
    """Servers over time on the first fabric: bars coloured by class, or bands shaded by use."""
    run = figures.runs[0]
    title = f"Servers of {run.fabric.name}"
    if len(_bar_starts(run)) <= MAX_BARS:
        note = (
            "A bar is a job on servers with consecutive numbers, from the moment it gets them until it gives them up; "
            "colour: class of the job."
        )
        names = legend([row.name for row in figures.classes])
        return Section(title, [Plot(lambda: joined([names, _bars(figures, run)]))], note)
    swatches = [Swatch(css, text, "box") for css, text in utilisation_legend()]
    note = "Bands of servers by number; colour: part of them in use."
    return Section(title, [Plot(lambda: _bands(figures, run))], note, swatches)


def _bar_starts(run: FabricRun) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Where a stretch of consecutive servers begins in the table of servers."""
    breaks = np.flatnonzero(np.diff(run.stays.servers) != 1) + 1
    return np.union1d(run.stays.low[:-1], breaks).astype(np.int64)


def _bars(figures: SharedClusterFigures, run: FabricRun) -> Markup:
    stays, starts = run.stays, _bar_starts(run)
    last, servers = max(run.until_s, 1e-9), figures.problem.servers
    row = (HEIGHT - FOOT) / servers
    owner = np.searchsorted(stays.low, starts, side="right") - 1
    shapes = []
    stops = np.append(starts[1:], len(stays.servers))
    for begin, end, stay in zip(starts.tolist(), stops.tolist(), owner.tolist(), strict=True):
        job = int(stays.job[stay])
        own = int(figures.jobs.class_index[job])
        start, stop = float(stays.held_from_s[stay]), float(stays.held_to_s[stay])
        tip = (
            f"{figures.jobs.names[job]} ({figures.classes[own].name}), servers {stays.servers[begin]} to "
            f"{stays.servers[end - 1]}, {number(start)} to {number(stop)} s"
        )
        height = row * (end - begin)
        shapes.append(
            element(
                "rect",
                element("title", tip),
                x=percentage(start / last),
                y=float(stays.servers[begin]) * row,
                width=percentage(max(stop - start, 0.0) / last),
                height=max(0.4, height - (0.6 if height > 4 else 0.0)),
                class_=f"dot {colour(own)}",
            )
        )
    return _framed(shapes, servers, last)


def _bands(figures: SharedClusterFigures, run: FabricRun) -> Markup:
    """Share of the servers of each band that is held, in each part of the time."""
    stays, servers, last = run.stays, figures.problem.servers, max(run.until_s, 1e-9)
    bands = min(BANDS, servers)
    band = np.arange(servers) * bands // servers
    size = np.bincount(band)
    edges = np.linspace(0.0, last, CELLS + 1)
    owner = np.repeat(np.arange(len(stays)), np.diff(stays.low))
    cells = np.bincount(owner * bands + band[stays.servers], minlength=len(stays) * bands).reshape(-1, bands)
    times = np.concatenate((stays.held_from_s, stays.held_to_s))
    plot = HEIGHT - FOOT
    shapes = []
    for index in range(bands):
        change = cells[:, index].astype(np.float64)
        share = mean_over_bins(times, np.concatenate((change, -change)), edges) / size[index]
        low, high = np.flatnonzero(band == index)[[0, -1]]
        for at, value in enumerate(share.tolist()):
            tip = f"servers {low} to {high}: {percent(value)} in use"
            shapes.append(
                element(
                    "rect",
                    element("title", tip),
                    x=percentage(at / CELLS),
                    y=plot * index / bands,
                    width=percentage(1.02 / CELLS),
                    height=plot / bands + 0.2,
                    class_=f"cell {use_class(min(value, 1.0))}",
                )
            )
    return _framed(shapes, servers, last)


def _framed(shapes: list[Markup], servers: int, last: float) -> Markup:
    plot = HEIGHT - FOOT
    unit, name = time_scale(last)
    axis = Axis(f"time, {name}", 0.0, last / unit)
    drawn = [element("rect", x=0, y=0, width="100%", height=plot, class_="lane"), *shapes]
    for value, text in axis.marks(8):
        drawn.append(element("text", text, x=percentage(axis.at(value)), y=plot + 16, text_anchor="middle"))
    drawn.append(element("text", axis.heading, x="100%", y=plot + 34, text_anchor="end"))
    for value, text in number_axis("servers", (0.0, float(servers))).marks(6):
        if 0 <= value <= servers:
            drawn.append(element("text", text, x=-6, y=plot * value / servers + 4, text_anchor="end"))
    return picture(*drawn, label="Servers over time", class_="chart servers-time", height=int(HEIGHT))


# Jobs at once.


def _at_once_answer(result: ClusterResult, figures: SharedClusterFigures) -> str:
    top = max(row.load for row in figures.statistics)
    first, *others = (row for row in figures.statistics if row.load == top)
    own = first.iteration_ms.mean
    against = _against(own, [(row.fabric, row.iteration_ms.mean) for row in others])
    least = possible_improvement(result, "strategy on shards of this size", "faster")
    return (
        f"With {counted(top, 'job')} at once an iteration takes {milliseconds(own)} on average on {first.fabric}"
        f"{against}; {least}."
    )


def _at_once_cause(figures: SharedClusterFigures) -> str:
    """Say which class takes the largest part of the mean, on the first fabric at the largest load."""
    top = max(run.load for run in figures.draws)
    runs = [run for run in figures.draws if run.load == top]
    index = np.array([number for run in runs for number in run.classes])
    totals = np.bincount(index, np.array([time for run in runs for time in run.times_ms[0]]))
    if len(figures.problem.classes) < 2:
        return ""
    largest = int(totals.argmax())
    share, count = float(totals[largest] / totals.sum()), float((index == largest).mean())
    return f"{percent(share)} of it are jobs of {figures.problem.classes[largest].name}, {percent(count)} of all."


def _at_once_page(result: ClusterResult, figures: SharedClusterFigures) -> Page:
    problem = figures.problem
    jobs = problem.at_once
    assert jobs is not None
    loads = sorted({row.load for row in figures.statistics})
    spread = f"{loads[0]} to {loads[-1]} jobs" if len(loads) > 1 else counted(loads[0], "job")
    flows = problem.contention == "flows"
    model = {"fluid": ", max-min fair", "rounds": ", first come, first served"}.get(problem.time_model, "")
    ran = (
        "All jobs of a draw start together; a job that is done begins again until the last has done its first "
        "iteration, which is what counts."
        if flows
        else "All jobs of a draw run together; the time of an iteration follows from compute, bytes and fair rates."
    )
    return Page(
        subtitle=f"{spread} at once · {problem.servers} servers · {counted(len(problem.fabrics), 'fabric')} · "
        f"{jobs.placement} placement",
        answer=answer(result),
        cause=_at_once_cause(figures),
        facts=_at_once_facts(result, figures),
        sections=(
            Section(
                "Iteration time against load",
                [
                    Side(
                        [
                            Plot(
                                lambda: _load_chart(figures, attrgetter("iteration_ms.mean"), "mean", names=True),
                                title="Mean",
                            ),
                            Plot(
                                lambda: _load_chart(
                                    figures, attrgetter("iteration_ms.p99"), "99th percentile", names=False
                                ),
                                title="99th percentile",
                            ),
                        ]
                    )
                ],
                f"{ran} The same jobs on the same servers on every fabric.",
            ),
            Section(
                "Distribution of iteration times",
                [
                    Plot(partial(_cdf_chart, figures, load), title=f"{counted(load, 'job')} at once")
                    for load in reversed(loads)
                ],
            ),
            Section(
                "All loads and fabrics",
                [_statistics_table(figures)],
                "Percentile q is element floor(q N) of the N times in ascending order. Slow-down: mean of each job's "
                "time over the time of its class alone on the same fabric, on the first servers drawn; below 1 where "
                f"others suit the job better. Over first: against {problem.fabrics[0].name}.",
            ),
            Section("Jobs, and their time alone", [_alone_table(figures)]),
        ),
        provenance=(
            ("contention on shared fabrics", f"{problem.contention}{model if flows else ''}"),
            ("servers of a job", f"{jobs.placement}, in {jobs.rank_order} order"),
            *((fabric.name, _described(figures, fabric)) for fabric in figures.fabrics),
        ),
    )


def _described(figures: SharedClusterFigures, fabric: Fabric) -> str:
    cluster = figures.problem.cluster
    if fabric.kind == PARTITIONED:
        rate = f"{cluster.degree} interfaces of {cluster.link_gbps:g} Gbit/s a server"
        return f"every job on a topology of its own, {rate}"
    if figures.problem.contention == "flows":
        return FABRICS[fabric.kind].describe(cluster, fabric_options(fabric, 0))
    return _fabric_text(fabric, placement=False)


def _at_once_facts(result: ClusterResult, figures: SharedClusterFigures) -> tuple[Fact, ...]:
    top = max(row.load for row in figures.statistics)
    first, *others = (row for row in figures.statistics if row.load == top)
    rows = [asdict(row) for row in (first, *others)]
    draws, jobs = len(figures.draws), sum(run.load for run in figures.draws)
    alone: dict[str, dict[str, float]] = {fabric.name: {} for fabric in figures.problem.fabrics}
    for time in figures.alone:
        alone[time.fabric][time.job_class] = time.alone_ms
    by_fabric = {row.pop("fabric"): {key: value for key, value in row.items() if key != "load"} for row in rows}
    detail = f"{first.fabric}; 99th percentile {milliseconds(first.iteration_ms.p99)}"
    facts = [
        Fact("", f"mean iteration, {counted(top, 'job')}", result.objective.value, milliseconds, detail),
        Fact("servers", "", figures.problem.servers),
        Fact("contention", "", figures.problem.contention),
        Fact("load", "", top),
        Fact("fabrics", "", by_fabric),
        Fact("statistics", "", [asdict(row) for row in figures.statistics]),
        Fact("alone_ms", "", alone),
        Fact("draws", "draws", draws, str, f"{counted(jobs, 'job')} in all"),
    ]
    for row in others:
        css = "good" if row.over_first > 1 + EVEN else "bad" if row.over_first < 1 - EVEN else ""
        text = f"of {first.fabric}; 99th percentile {ratio(row.p99_over_first)}; contention {ratio(row.over_alone)}"
        facts.append(Fact("", f"{row.fabric}, mean", row.over_first, ratio, text, css=css))
    return tuple(facts)


def _load_chart(
    figures: SharedClusterFigures, value: Callable[[LoadStatistics], float], title: str, *, names: bool
) -> Markup:
    series = []
    for fabric in figures.problem.fabrics:
        points = tuple(
            Point(row.load, value(row), f"{fabric.name}, {counted(row.load, 'job')}: {milliseconds(value(row))}")
            for row in figures.statistics
            if row.fabric == fabric.name
        )
        series.append(Series(fabric.name, points, line=True))
    x = number_axis("jobs at once", [row.load for row in figures.statistics], zero=True)
    y = number_axis(f"{title}, ms", [0.0, *(value(row) for row in figures.statistics)])
    shown = legend([fabric.name for fabric in figures.problem.fabrics], series) if names else Markup("")
    return joined([shown, xy_chart(series, x, y, title)])


def _cdf_chart(figures: SharedClusterFigures, load: int) -> Markup:
    series, largest = [], 0.0
    for index, fabric in enumerate(figures.problem.fabrics):
        times = sorted(time for run in figures.draws if run.load == load for time in run.times_ms[index])
        largest = max(largest, times[-1])
        corners = [(times[0], 0.0)]
        stride = -(-len(times) // MAX_POINTS)
        for count, time in enumerate(times, 1):
            if count % stride and count < len(times):
                continue
            corners += [(time, corners[-1][1]), (time, count / len(times))]
        tips = [f"{fabric.name}: {100 * part:.0f} % within {milliseconds(time)}" for time, part in corners]
        points = tuple(Point(time, part, tip) for (time, part), tip in zip(corners, tips, strict=True))
        series.append(Series(fabric.name, points, line=True))
    x = number_axis("iteration time, ms", [min(point.x for line in series for point in line.points), largest], log=True)
    y = number_axis("part of the jobs", [0.0, 1.0])
    return xy_chart(series, x, y, f"Distribution of iteration times, {counted(load, 'job')}", radius=SMALL_MARK)


def _statistics_table(figures: SharedClusterFigures) -> Table:
    """A row for each load and fabric; the load stands in the first row of its group only."""

    def two(value: float) -> str:
        return f"{value:.2f}"

    def on_page(value: Any) -> Markup:  # such columns are left out in the terminal
        return Markup(value if isinstance(value, int) else two(value))

    columns = (
        Column("jobs_at_once", "jobs", lambda v: "" if v is None else str(v)),
        Column("fabric", "fabric"),
        Column("jobs", "times", number=True, html=on_page),
        Column("mean_ms", "mean ms", two, number=True),
        Column("p50_ms", "p50", two, number=True, html=on_page),
        Column("p90_ms", "p90", two, number=True, html=on_page),
        Column("p95_ms", "p95", two, number=True),
        Column("p99_ms", "p99", two, number=True),
        Column("over_alone", "slow-down", ratio, number=True),
        Column("over_first", "over first", ratio, number=True),
        Column("p99_over_first", "p99", ratio, number=True),
    )
    rows: list[tuple[Any, ...]] = []
    last: int | None = None
    for row in figures.statistics:
        tail = row.iteration_ms
        times = (tail.mean, tail.p50, tail.p90, tail.p95, tail.p99)
        load = row.load if row.load != last else None
        rows.append((load, row.fabric, row.jobs, *times, row.over_alone, row.over_first, row.p99_over_first))
        last = row.load
    return Table("all_statistics", columns, rows, max_rows=2000, terminal_rows=40)


def _alone_table(figures: SharedClusterFigures) -> Table:
    fabrics = figures.problem.fabrics
    jobs = [index for run in figures.draws for index in run.classes]
    columns = (
        Column("class", "class alone, ms"),
        Column("share", "of the jobs", lambda v: f"{100 * v:.1f} %", number=True),
        *(Column(fabric.name, fabric.name, lambda v: f"{v:.3f}", number=True) for fabric in fabrics),
    )
    rows = []
    for index, row in enumerate(figures.problem.classes):
        times = [time.alone_ms for time in figures.alone if time.job_class == row.name]
        rows.append((row.name, jobs.count(index) / len(jobs), *times))
    return Table("class_times", columns, rows, terminal_rows=40)
