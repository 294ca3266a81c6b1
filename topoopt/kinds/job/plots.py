"""Drawings of the plan of a job: breakdown, critical path, topology by groups, timeline, progress of the search."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right, insort
from collections.abc import Collection, Sequence

import numpy as np
from markupsafe import Markup

from topoopt.core.cluster import LinkDirection
from topoopt.core.job import ConvergencePoint, Span
from topoopt.core.workload import TrafficFigures
from topoopt.kinds.job.figures import JobFigures
from topoopt.page.charts import (
    Axis,
    Point,
    Series,
    coordinate,
    element,
    legend,
    percentage,
    picture,
    tick_text,
    ticks,
    xy_chart,
)
from topoopt.page.networks import (
    MOST_DRAWN,
    RADIUS,
    SIZE,
    DrawnLink,
    Layout,
    adjacency_plot,
    families,
    find_links,
    topology_svg,
)
from topoopt.page.render import Swatch
from topoopt.page.text import byte_size, counted, milliseconds, percent, shortened
from topoopt.page.timelines import COMPUTE, FEW_LANES, HEAD, LANE, critical, lane_bar, merged_spans, sending, time_axis
from topoopt.simulate.network import traffic_figures

ROUNDING = 1e-9
"""Idle time below this part of the iteration is rounding."""
SPAN_CLASSES = {"forward": "fwd", "backward": "bwd", "transfer": "mp", "allreduce": "ar"}
SPAN_NAMES = {"forward": "forward", "backward": "backward", "transfer": "transfer", "allreduce": "AllReduce"}
MAX_LABEL = 60

GROUP_GAP = 1.0
"""Free angle between two groups on the circle, in servers."""
GROUP_COLOURS = 8

MAX_LANES = 32
"""Servers up to which every one has a lane in the timeline."""
ALLREDUCE_ROWS = 12
TOUCHING_MS = 1e-12

HEIGHT = 250.0
TOP = 26.0
BASE = 222.0
LOGARITHMIC_FROM = 100
"""With more proposals than this the axis is logarithmic: most gains come early."""
PHASE_COLOURS = 8


Term = tuple[str, str, float, float, str]
"""One term of the breakdown: name, colour class, ms, share of the iteration, and what it is."""


def breakdown_terms(figures: JobFigures) -> tuple[Term, ...]:
    """Return the four terms that sum to the iteration time."""
    terms, total = figures.breakdown, figures.evaluation.iteration_time_ms
    rows = (
        ("compute", "compute", terms.compute_ms, "operators on the critical path"),
        ("model-parallel", "mp", terms.model_parallel_ms, "waiting for transfers between operators"),
        ("AllReduce", "ar", terms.allreduce_ms, "waiting for gradients, inside servers and over the network"),
        ("idle", "idle", 0.0 if abs(terms.idle_ms) <= ROUNDING * total else terms.idle_ms, "anything else"),
    )
    return tuple((name, css, ms, ms / total if total > 0 else 0.0, text) for name, css, ms, text in rows)


def breakdown_bar(figures: JobFigures) -> Markup:
    """Draw one stacked bar over the width of the page."""
    shapes = []
    start = 0.0
    for name, css, ms, share, _ in breakdown_terms(figures):
        if share <= 0:
            continue
        tip = f"{name}: {milliseconds(ms)} ({percent(share)})"
        inner = [element("rect", element("title", tip), class_=f"c-{css}", width="100%", height="100%")]
        if share >= 0.12:
            inner.append(element("text", name, x="50%", y=24, class_=f"on on-{css}", text_anchor="middle"))
        shapes.append(element("svg", *inner, x=percentage(start), y=0, width=percentage(share), height=38))
        start += share
    return picture(*shapes, label="Breakdown of the iteration time", class_="wide", height=38)


def critical_strip(figures: JobFigures) -> Markup:
    """Draw the critical path in time order, a block a step."""
    total = figures.evaluation.iteration_time_ms
    shapes = [
        element(
            "rect",
            element("title", f"{_step_name(step)}: {milliseconds(step.start_ms)} to {milliseconds(step.end_ms)}"),
            class_=f"c-{SPAN_CLASSES.get(step.kind, 'idle')} block",
            x=percentage(step.start_ms / total),
            width=percentage((step.end_ms - step.start_ms) / total),
            height=22,
        )
        for step in figures.evaluation.critical_path
        if total > 0 and step.end_ms > step.start_ms
    ]
    return picture(*shapes, label="Critical path in time order", class_="wide", height=22)


def _step_name(step: Span) -> str:
    return f"{SPAN_NAMES.get(step.kind, step.kind)} {shortened(step.label, MAX_LABEL)}"


# The topology.


def groups_of(figures: JobFigures) -> tuple[tuple[int, ...], ...]:
    """Return the groups of servers that reduce most bytes together, if groups of one size hold every server once.

    A group of all servers says nothing about where they stand; without smaller ones there are no groups.
    """
    n = figures.cluster.servers
    by_size: dict[int, dict[tuple[int, ...], float]] = {}
    for group in figures.demand.allreduce:
        members = tuple(sorted(group.members))
        if 1 < len(members) < n:
            own = by_size.setdefault(len(members), {})
            own[members] = own.get(members, 0.0) + group.payload_bytes
    best: dict[tuple[int, ...], float] = {}
    for groups in by_size.values():
        covers = sorted(itertools.chain.from_iterable(groups)) == list(range(n))
        if covers and sum(groups.values()) > sum(best.values()):
            best = groups
    return tuple(sorted(best))


def group_name(index: int) -> str:
    """Return A, B, ..., Z, AA, AB, ... by number from 0."""
    name = ""
    index += 1
    while index:
        index, letter = divmod(index - 1, 26)
        name = chr(65 + letter) + name
    return name


def _group_index(groups: Sequence[Sequence[int]], n: int) -> list[int]:
    index = [-1] * n
    for number, group in enumerate(groups):
        for server in group:
            index[server] = number
    return index


def topology_plot(figures: JobFigures) -> Markup:
    """Draw the links: by groups if there are any, else by ring distance; of many servers the adjacency matrix."""
    topology, groups = figures.plan.topology, groups_of(figures)
    if topology.servers > MOST_DRAWN:
        order = [server for group in groups for server in group]
        title = "Links between servers in the order of their groups" if groups else "Links between servers"
        return adjacency_plot(topology.servers, topology.arcs, topology.multiplicity, title, order=order)
    if groups:
        return _by_groups(figures, groups)
    links = find_links(topology, figures.plan.rings)
    return topology_svg(topology, links, figures.link_utilisation, lambda arc: _arc_text(figures, arc))


def _arc_text(figures: JobFigures, arc: int) -> str:
    size, busy = figures.evaluation.link_bytes.item(arc), figures.link_utilisation.item(arc)
    return f"{byte_size(size)}, busy {percent(busy)}"


def _by_groups(figures: JobFigures, groups: Sequence[Sequence[int]]) -> Markup:
    topology = figures.plan.topology
    n, index = topology.servers, _group_index(groups, topology.servers)
    spots: list[tuple[float, float]] = [(0.0, 0.0)] * n
    for number, group in enumerate(groups):
        for position, server in enumerate(group):
            turn = (number * (len(group) + GROUP_GAP) + position) / (n + GROUP_GAP * len(groups))
            angle = 2 * math.pi * turn - math.pi / 2
            spots[server] = (SIZE / 2 + RADIUS * math.cos(angle), SIZE / 2 + RADIUS * math.sin(angle))

    def named(link: DrawnLink) -> tuple[str, str]:
        own = index[link.tail]
        return (
            (f"in group {group_name(own)}", f"k{own % GROUP_COLOURS}") if own == index[link.head] else ("across", "km")
        )

    links, layout = find_links(topology), Layout("by groups", tuple(spots), tuple(spots))
    use = figures.link_utilisation
    return topology_svg(topology, links, use, lambda arc: _arc_text(figures, arc), named=named, layout=layout)


def topology_legend(figures: JobFigures) -> list[Swatch]:
    """Return what the colours of the links mean, and how many links are of each."""
    topology, groups = figures.plan.topology, groups_of(figures)
    if topology.servers > MOST_DRAWN:
        return []
    if not groups:
        entries = families(topology, find_links(topology, figures.plan.rings))
        return [Swatch(css, f"{name}: {counted(links, 'link')}") for css, name, links in entries]
    index, count = _group_index(groups, topology.servers), dict[int, int]()
    for (tail, head), links in zip(topology.arcs.tolist(), topology.multiplicity.tolist(), strict=True):
        own = index[tail] if index[tail] == index[head] else -1
        count[own] = count.get(own, 0) + links
    half = 2 if topology.links is LinkDirection.BIDIRECTIONAL else 1
    inside = [
        Swatch(f"k{own % GROUP_COLOURS}", f"in group {group_name(own)}: {counted(count[own] // half, 'link')}")
        for own in range(len(groups))
        if count.get(own)
    ]
    if len(inside) > GROUP_COLOURS:
        total = sum(links for own, links in count.items() if own >= 0)
        inside = [Swatch("k0", f"in one group: {counted(total // half, 'link')}")]
    across = [Swatch("km", f"across: {counted(count[-1] // half, 'link')}")] if count.get(-1) else []
    return [*inside, *across]


# The timeline.


def shown_servers(figures: JobFigures) -> list[int]:
    """Return all servers, or of many those on the critical path, then those that compute longest; ascending."""
    n = figures.cluster.servers
    if n <= MAX_LANES:
        return list(range(n))
    on_path = dict.fromkeys(
        step.lane for step in figures.evaluation.critical_path if step.lane >= 0 and step.kind != "transfer"
    )
    busy = [0.0] * n
    for span in figures.evaluation.timeline:
        if 0 <= span.lane < n and span.kind in {"forward", "backward"}:
            busy[span.lane] += span.end_ms - span.start_ms
    chosen = [*on_path, *sorted((i for i in range(n) if i not in on_path), key=lambda i: (-busy[i], i))]
    return sorted(chosen[:FEW_LANES])


def packed(spans: list[Span], rows: int, first: Collection[Span] = ()) -> tuple[list[tuple[int, Span]], int]:
    """Row of each span so that no two of a row overlap, and how many found no row.

    Those of `first` are placed before the others; each in the first row that is free, in the order of their starts.
    """
    taken: list[list[tuple[float, float]]] = [[] for _ in range(rows)]
    placed: list[tuple[int, Span]] = []
    for span in sorted(spans, key=lambda item: (item not in first, item.start_ms, -item.end_ms, item.label)):
        row = next((i for i, times in enumerate(taken) if _is_free(times, span)), None)
        if row is not None:
            insort(taken[row], (span.start_ms, span.end_ms))
            placed.append((row, span))
    return placed, len(spans) - len(placed)


def _is_free(times: list[tuple[float, float]], span: Span) -> bool:
    """Whether a span overlaps none of a row, whose spans do not overlap each other."""
    after = bisect_right(times, (span.start_ms, math.inf))
    clear = after == 0 or times[after - 1][1] <= span.start_ms + TOUCHING_MS
    return clear and (after == len(times) or span.end_ms <= times[after][0] + TOUCHING_MS)


def _joined(figures: JobFigures, spans: list[Span]) -> list[str]:
    notes = []
    names = {operator.name for operator in figures.operators}
    joined = sum(span.kind in {"forward", "backward"} and span.label not in names for span in spans)
    if joined:
        notes.append(f"{counted(joined, 'bar')} stand for several short operators that follow each other.")
    missing = figures.evaluation.timeline_servers_left_out
    if missing:
        notes.append(f"No bars are drawn of {counted(missing, 'server')} off the critical path.")
    return notes


def timeline(figures: JobFigures) -> tuple[Markup, tuple[str, ...]]:
    """Draw the iteration, a lane a server and then the AllReduces; also return notes on what is not drawn."""
    spans = [span for span in figures.evaluation.timeline if span.end_ms > span.start_ms]
    total = max([figures.evaluation.iteration_time_ms, *(span.end_ms for span in spans)])
    if not spans or total <= 0:
        return Markup(""), ()
    servers = shown_servers(figures)
    n = figures.cluster.servers
    top = {server: HEAD + LANE * index for index, server in enumerate(servers)}
    shapes, names = [], []
    sends: dict[int, list[Span]] = {server: [] for server in servers}
    for server, y in top.items():
        shapes.append(element("rect", x=0, width="100%", y=y, height=LANE - 4, class_="lane"))
        names.append(element("text", f"server {server}", x=0, y=y + 14))
    for span in spans:
        if span.lane not in top:
            continue
        if span.kind == "transfer":
            sends[span.lane].append(span)
        elif span.kind in {"forward", "backward"}:
            css = "fwd" if span.kind == "forward" else "bwd"
            shapes.append(lane_bar(span, total, top[span.lane], css, span.kind))
    path = dict.fromkeys(figures.evaluation.critical_path)  # in order: the same bytes every time
    for step in path:
        if step.lane in top:
            y = top[step.lane] + (COMPUTE if step.kind == "transfer" else -2.0)
            shapes.append(critical(step, total, y))
    for server, mine in sends.items():
        shapes.extend(sending(run, total, top[server] + COMPUTE + 1) for run in merged_spans(mine))
    height = HEAD + LANE * len(servers)
    notes = []
    if len(servers) < n:
        notes.append(
            f"{len(servers)} of {n} servers are drawn: those on the critical path, then those that compute longest."
        )
    notes += _joined(figures, spans)
    reductions = [span for span in spans if span.kind == "allreduce"]
    if reductions:
        placed, left_out = packed(reductions, ALLREDUCE_ROWS, path)
        rows = 1 + max(row for row, _ in placed)
        height += 8
        names.append(element("text", "AllReduce", x=0, y=height + 11))
        for row, span in placed:
            shapes.append(lane_bar(span, total, height + row * (COMPUTE + 2), "ar", "AllReduce"))
            if span in path:
                shapes.append(critical(span, total, height + row * (COMPUTE + 2) - 2.0))
        height += rows * (COMPUTE + 2) + 4
        if left_out:
            notes.append(
                f"At most {ALLREDUCE_ROWS} simultaneous AllReduces are drawn; {counted(left_out, 'more')[:-1]} not."
                if left_out > 1
                else f"At most {ALLREDUCE_ROWS} simultaneous AllReduces are drawn; one more is not."
            )
    lanes = picture(*names, label="Lanes", class_="lanes", width=84, height=int(height) + 2)
    bars = picture(
        time_axis(total, height), *shapes, label="Timeline of one iteration", class_="bars", height=int(height) + 2
    )
    scrolled = element("div", bars, class_="scroll", data_label="timeline")
    return element("div", element("div", lanes), scrolled, class_="gantt"), tuple(notes)


# Progress of the search.


def _phases(points: Sequence[ConvergencePoint]) -> dict[str, str]:
    names = dict.fromkeys(point.phase for point in points)
    return {name: f"k{index % PHASE_COLOURS}" for index, name in enumerate(names)}


def _value_range(bound: float, points: Sequence[ConvergencePoint]) -> tuple[float, float, bool]:
    """Range of the vertical axis, and whether the bound is near enough to be drawn."""
    values = [point.best_ms for point in points]
    low, high = min(values), max(values)
    near = low >= bound > 0 and low - bound <= 2.0 * max(high - low, 0.02 * high)
    if near:
        low = bound
    margin = 0.06 * max(high - low, 0.02 * high)
    return low - margin, high + margin, near


def search_points(points: Sequence[ConvergencePoint]) -> list[ConvergencePoint]:
    """Return the points of a search that can be drawn; none where it made no proposal."""
    finite = [point for point in points if math.isfinite(point.best_ms)]
    return finite if len(finite) > 1 and finite[-1].proposals > finite[0].proposals else []


def search_legend(points: Sequence[ConvergencePoint]) -> list[Swatch]:
    """Return the phases of a search with their colours."""
    return [Swatch(css, shortened(name, 40), "dot") for name, css in _phases(points).items()]


def search_text(points: Sequence[ConvergencePoint]) -> str:
    better = sum(after.best_ms < before.best_ms for before, after in itertools.pairwise(points))
    return (
        f"{milliseconds(points[0].best_ms)} at the start, {milliseconds(points[-1].best_ms)} after "
        f"{counted(points[-1].proposals, 'proposal')}; {counted(better, 'improvement')}."
    )


def search_plot(points: Sequence[ConvergencePoint], bound: float) -> Markup:
    """Draw the best iteration time against the number of simulated proposals."""
    low, high, near = _value_range(bound, points)
    last = points[-1].proposals
    logarithmic = last > LOGARITHMIC_FROM

    def x_at(proposals: float) -> float:
        return math.log1p(proposals) / math.log1p(last) if logarithmic else proposals / last

    def y_at(value: float) -> float:
        return BASE - (BASE - TOP) * (value - low) / (high - low)

    shapes = []
    marks = ticks(low, high, 5)
    step = marks[1] - marks[0] if len(marks) > 1 else 1.0
    for mark in marks:
        y = y_at(mark)
        shapes.append(element("line", x1=0, x2="100%", y1=y, y2=y, class_="gridline"))
        shapes.append(element("text", tick_text(mark, step), x=-6, y=y + 4, text_anchor="end"))
    shapes.append(element("text", "best, ms, after so many proposals", x=-6, y=12, text_anchor="start"))
    for mark in _proposal_marks(last, logarithmic):
        at = percentage(x_at(mark))
        shapes.append(element("line", x1=at, x2=at, y1=TOP, y2=BASE, class_="gridline"))
        shapes.append(element("text", f"{mark:,}", x=at, y=BASE + 16, text_anchor="middle" if mark else "start"))
    shapes.append(element("text", f"{last:,}", x="100%", y=BASE + 16, text_anchor="end"))
    if near:
        y = y_at(bound)
        shapes.append(element("line", x1=0, x2="100%", y1=y, y2=y, class_="boundline"))
        text = f"lower bound {milliseconds(bound)}"
        shapes.append(element("text", text, x=6, y=y - 5, class_="halo"))
    shapes.append(element("line", x1=0, x2="100%", y1=BASE, y2=BASE, class_="axis"))
    line = f"M{coordinate(1000 * x_at(points[0].proposals))} {coordinate(y_at(points[0].best_ms))}"
    for point in points[1:]:
        line += f"H{coordinate(1000 * x_at(point.proposals))}V{coordinate(y_at(point.best_ms))}"
    path = element("path", d=line, class_="curve")
    shapes.append(
        element("svg", path, viewBox=f"0 0 1000 {HEIGHT:.0f}", preserveAspectRatio="none", width="100%", height=HEIGHT)
    )
    colours = _phases(points)
    for point in points:
        tip = f"{point.phase}\n{milliseconds(point.best_ms)} after {counted(point.proposals, 'proposal')}"
        shapes.append(
            element(
                "circle",
                element("title", tip),
                cx=percentage(x_at(point.proposals)),
                cy=y_at(point.best_ms),
                r=4.0,
                class_=f"dot {colours[point.phase]}",
            )
        )
    return picture(*shapes, label="Best iteration time against proposals", class_="chart", height=int(HEIGHT))


def _proposal_marks(last: int, logarithmic: bool) -> list[int]:
    if logarithmic:
        return [0, *(10**power for power in range(12) if 10**power < last * 0.5)]
    marks = [round(value) for value in ticks(0.0, float(last), 6) if value == round(value)]
    return [mark for mark in marks if mark < last * 0.9]


LEAST_HOPS = 5.0
"""The axis of hops reaches at least so far, so that its ticks are whole numbers."""


def hop_lines(traffic: TrafficFigures) -> tuple[list[Series], Axis, Axis]:
    """Return the parts of pairs and of model-parallel bytes by the hops they take, cumulative, and both axes."""
    lines = []
    for name, shares in (("model-parallel bytes", traffic.byte_hops), ("pairs of servers", traffic.pair_hops)):
        points = [
            Point(float(hops), upto, f"{name}: {percent(upto)} in {counted(hops, 'hop')} or fewer")
            for hops, upto in enumerate(np.cumsum(shares).tolist())
            if hops and upto > 0
        ]
        if points or name.startswith("pairs"):
            lines.append(Series(name, tuple(points), line=True))
    most = max((point.x for line in lines for point in line.points), default=0.0)
    return lines, Axis("hops", 0.0, max(most, LEAST_HOPS) + 0.5), Axis("part, cumulative", 0.0, 1.0)


def path_lengths_plot(figures: JobFigures) -> Markup:
    """Return how many hops the routed pairs and the model-parallel bytes take."""
    plan = figures.plan
    try:
        traffic = traffic_figures("", "", figures.demand, plan.topology, plan.routes, plan.rings)
    except ValueError:  # routes over links that are not there, which the checker rejects
        return Markup()
    lines, x, y = hop_lines(traffic)
    return legend([line.name for line in lines], lines) + xy_chart(lines, x, y, "Path lengths")
