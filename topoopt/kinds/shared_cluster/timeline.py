"""A shared cluster over time: how many servers are held, how many jobs wait, and who is where."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from topoopt.core.arrays import Floats
from topoopt.core.shared_cluster_jobs import JobTable
from topoopt.core.shared_cluster_runs import FabricRun
from topoopt.core.shared_cluster_solution import SharedClusterSolution
from topoopt.drawing.axes import Axis, number_axis
from topoopt.drawing.chart import Point, Series, xy_chart
from topoopt.drawing.format import number, percent
from topoopt.drawing.marks import colour
from topoopt.drawing.svg import element, percentage, picture
from topoopt.drawing.utilisation import use_class

BINS = 240
"""Parts of the time; a point of a line is the mean over one."""

MOST_BARS = 4000
"""Bars of the chart of the servers; beyond, bands of servers are shaded."""

BANDS = 64
WIDE = 160
HEIGHT = 420.0
FOOT = 40.0


def mean_over_bins(times: Floats, change: Floats, edges: Floats) -> Floats:
    """Mean of a step function in each bin; it changes by `change` at `times`, from 0."""
    order = np.argsort(times, kind="stable")
    moments, level = times[order], np.cumsum(change[order])
    area = np.concatenate(([0.0], np.cumsum(level[:-1] * np.diff(moments)))) if len(moments) else np.zeros(0)
    if not len(moments):
        return np.zeros(len(edges) - 1)
    at = np.searchsorted(moments, edges, side="right") - 1
    inside = np.maximum(at, 0)
    until = np.where(at >= 0, area[inside] + level[inside] * (edges - moments[inside]), 0.0)
    means: Floats = np.diff(until) / np.diff(edges)
    return means


def time_scale(last_s: float) -> tuple[float, str]:
    """Seconds of a unit that suits, and its name."""
    for seconds, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if last_s >= 3 * seconds:
            return seconds, name
    return 1.0, "s"


def held_share(run: FabricRun, servers: int, edges: Floats) -> Floats:
    """Held servers over all, in each bin."""
    size = np.diff(run.stays.low).astype(np.float64)
    times = np.concatenate((run.stays.held_from_s, run.stays.held_to_s))
    return mean_over_bins(times, np.concatenate((size, -size)), edges) / servers


def waiting_jobs(run: FabricRun, jobs: JobTable, edges: Floats) -> Floats:
    """Waiting jobs in each bin."""
    start = np.full(len(jobs), run.until_s)
    np.minimum.at(start, run.stays.job, run.stays.held_from_s)
    arrived = jobs.arrival_s <= run.until_s
    times = np.concatenate((jobs.arrival_s[arrived], start[arrived]))
    steps = np.ones(int(arrived.sum()))
    return mean_over_bins(times, np.concatenate((steps, -steps)), edges)


def over_time(solution: SharedClusterSolution, what: str) -> Markup:
    """Lines of all fabrics: `held` servers in percent, or `waiting` jobs."""
    series = []
    last = max(run.until_s for run in solution.runs)
    unit, name = time_scale(last)
    highest = 0.0
    for run in solution.runs:
        if run.until_s <= 0:
            continue
        edges = np.linspace(0.0, run.until_s, BINS + 1)
        held = what == "held"
        values = 100 * held_share(run, solution.servers, edges) if held else waiting_jobs(run, solution.jobs, edges)
        highest = max(highest, float(values.max()))
        middle = (edges[:-1] + edges[1:]) / 2 / unit
        points = tuple(Point(float(x), float(y), "") for x, y in zip(middle, values, strict=True))
        series.append(Series(run.fabric.name, points, line=True, dots=False))
    title = "servers in use, %" if what == "held" else "waiting jobs"
    top = 105.0 if what == "held" else max(1.0, 1.05 * highest)
    x = Axis(f"time, {name}", 0.0, max(last / unit, 1e-9))
    return xy_chart(series, x, Axis(title, 0.0, top), title)


def server_chart(solution: SharedClusterSolution, run: FabricRun) -> tuple[Markup, bool]:
    """Servers over time, and whether single jobs are shown: bars coloured by class, or bands shaded by use."""
    stays = run.stays
    breaks = np.flatnonzero(np.diff(stays.servers) != 1) + 1
    begins = np.union1d(np.union1d(stays.low[:-1], breaks), np.zeros(0, dtype=np.int64)).astype(np.int64)
    last = max(run.until_s, 1e-9)
    if len(begins) > MOST_BARS:
        return _bands(solution, run, last), False
    ends = np.append(begins[1:], len(stays.servers))
    owner = np.searchsorted(stays.low, begins, side="right") - 1
    plot = HEIGHT - FOOT
    row = plot / solution.servers
    shapes = []
    for begin, end, stay in zip(begins.tolist(), ends.tolist(), owner.tolist(), strict=True):
        job = int(stays.job[stay])
        own = int(solution.jobs.class_index[job])
        start, stop = float(stays.held_from_s[stay]), float(stays.held_to_s[stay])
        tip = (
            f"{solution.jobs.names[job]} ({solution.classes[own].name}), servers {stays.servers[begin]} to "
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
                class_=f"stay {colour(own)}",
            )
        )
    return _framed(shapes, solution.servers, last), True


def _bands(solution: SharedClusterSolution, run: FabricRun, last: float) -> Markup:
    """Share of the servers of each band that is held, in each part of the time."""
    stays = run.stays
    bands = min(BANDS, solution.servers)
    band = np.arange(solution.servers) * bands // solution.servers
    size = np.bincount(band)
    edges = np.linspace(0.0, last, WIDE + 1)
    owner = np.repeat(np.arange(len(stays)), np.diff(stays.low))
    cells = np.bincount(owner * bands + band[stays.servers], minlength=len(stays) * bands).reshape(-1, bands)
    times = np.concatenate((stays.held_from_s, stays.held_to_s))
    plot = HEIGHT - FOOT
    shapes = []
    for place in range(bands):
        change = cells[:, place].astype(np.float64)
        share = mean_over_bins(times, np.concatenate((change, -change)), edges) / size[place]
        low, high = np.flatnonzero(band == place)[[0, -1]]
        for at, value in enumerate(share.tolist()):
            tip = f"servers {low} to {high}: {percent(value)} in use"
            shapes.append(
                element(
                    "rect",
                    element("title", tip),
                    x=percentage(at / WIDE),
                    y=plot * place / bands,
                    width=percentage(1.02 / WIDE),
                    height=plot / bands + 0.2,
                    class_=f"cell {use_class(min(value, 1.0))}",
                )
            )
    return _framed(shapes, solution.servers, last)


def _framed(shapes: list[Markup], servers: int, last: float) -> Markup:
    """The bars with an axis of time below and of servers at the left."""
    plot = HEIGHT - FOOT
    unit, name = time_scale(last)
    axis = Axis(f"time, {name}", 0.0, last / unit)
    drawn = [element("rect", x=0, y=0, width="100%", height=plot, class_="lane"), *shapes]
    for value, text in axis.marks(8):
        at = percentage(axis.at(value))
        drawn.append(element("text", text, x=at, y=plot + 16, text_anchor="middle"))
    drawn.append(element("text", axis.heading, x="100%", y=plot + 34, text_anchor="end"))
    rows = number_axis("servers", (0.0, float(servers)))
    for value, text in rows.marks(6):
        if 0 <= value <= servers:
            drawn.append(element("text", text, x=-6, y=plot * value / servers + 4, text_anchor="end"))
    return picture(*drawn, label="Servers over time", class_="chart servers-time", height=int(HEIGHT))
