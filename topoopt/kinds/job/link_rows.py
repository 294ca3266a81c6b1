"""Load of the links: bytes and utilisation of every arc, sorted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from topoopt.core.job_solution import JobSolution
from topoopt.drawing.format import byte_size, number, percent, quotient, ratio
from topoopt.drawing.svg import coordinate, element, joined, picture, tick_text, ticks

HEIGHT = 190.0
BASE = 164.0
TOP = 12.0
BUSIEST = 10
_UNITS = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


@dataclass(frozen=True)
class LinkStatistics:
    """Loads of single links: bytes of an arc divided by its parallel links.

    `imbalance` is the largest load over the mean (1 when all are equal), NaN when nothing is carried.
    """

    arcs: int
    links: int
    mean_bytes: float
    max_bytes: float
    min_bytes: float
    imbalance: float
    mean_utilisation: float
    max_utilisation: float
    unused: int


def link_loads(solution: JobSolution) -> NDArray[np.float64]:
    """float64[m], bytes a link of each arc."""
    return solution.evaluation.link_bytes / np.maximum(solution.plan.topology.multiplicity, 1)


def link_statistics(solution: JobSolution) -> LinkStatistics:
    """Mean, extremes and imbalance over all links (parallel links counted one by one)."""
    count = solution.plan.topology.multiplicity
    links = int(count.sum())
    loads, use = link_loads(solution), solution.evaluation.link_utilisation
    mean = float(solution.evaluation.link_bytes.sum() / links) if links else 0.0
    return LinkStatistics(
        arcs=len(count),
        links=links,
        mean_bytes=mean,
        max_bytes=float(loads.max(initial=0.0)),
        min_bytes=float(loads.min()) if links else 0.0,
        imbalance=quotient(float(loads.max(initial=0.0)), mean),
        mean_utilisation=float((use * count).sum() / links) if links else 0.0,
        max_utilisation=float(use.max(initial=0.0)),
        unused=int(np.count_nonzero(loads == 0)),
    )


def statistics_rows(solution: JobSolution) -> tuple[tuple[str, str], ...]:
    """Name and value pairs for the page."""
    found = link_statistics(solution)
    return (
        ("directed links", f"{found.links:,}" + (f" on {found.arcs:,} arcs" if found.arcs != found.links else "")),
        ("bytes a link, mean", byte_size(found.mean_bytes)),
        ("largest", byte_size(found.max_bytes)),
        ("smallest", byte_size(found.min_bytes)),
        ("imbalance (largest / mean)", ratio(found.imbalance)),
        ("utilisation, mean", percent(found.mean_utilisation)),
        ("utilisation, highest", percent(found.max_utilisation)),
        ("links that carry nothing", f"{found.unused:,}"),
    )


def sorted_chart(values: NDArray[np.float64], unit: str, scale: float, label: str, css: str) -> Markup:
    """Values in descending order as bars side by side, with their mean as a line; `scale` values make one unit."""
    ordered = np.sort(values / scale)[::-1]
    high = float(ordered[0])
    marks = ticks(0.0, high, 5)
    if marks[-1] < high * (1 - 1e-9):
        marks.append(marks[-1] + (marks[1] - marks[0] if len(marks) > 1 else high))
    top_value = marks[-1]

    def height(value: float) -> float:
        return BASE - (BASE - TOP) * value / top_value

    grid = []
    step = marks[1] - marks[0]
    for mark in marks:
        y = height(mark)
        grid.append(element("line", x1=0, x2="100%", y1=y, y2=y, class_="gridline"))
        grid.append(element("text", tick_text(mark, step), x=-6, y=y + 4, text_anchor="end"))
    count = len(ordered)
    outline = [f"M0 {coordinate(BASE)}"]
    ends = [*(np.flatnonzero(np.diff(ordered)) + 1).tolist(), count]
    for place, end in zip([0, *ends], ends, strict=False):
        level = coordinate(height(float(ordered[place])))
        outline.append(f"L{coordinate(1000 * place / count)} {level}H{coordinate(1000 * end / count)}")
    outline.append(f"V{coordinate(BASE)}z")
    plot = element(
        "svg",
        element("path", d="".join(outline), class_=css),
        viewBox=f"0 0 1000 {HEIGHT:.0f}",
        preserveAspectRatio="none",
        width="100%",
        height=HEIGHT,
    )
    mean = float(ordered.mean())
    return picture(
        joined(grid),
        plot,
        element("line", x1=0, x2="100%", y1=height(mean), y2=height(mean), class_="mean"),
        element("text", f"mean {number(mean)} {unit}", x="100%", y=height(mean) - 5, text_anchor="end", class_="halo"),
        element("line", x1=0, x2="100%", y1=BASE, y2=BASE, class_="axis"),
        element("text", "1", x=0, y=BASE + 15),
        element("text", "arcs, most loaded first", x="50%", y=BASE + 15, text_anchor="middle"),
        element("text", f"{count:,}", x="100%", y=BASE + 15, text_anchor="end"),
        label=label,
        class_="chart",
        height=int(HEIGHT),
    )


def byte_unit(largest: float) -> tuple[float, str]:
    """Unit in which the largest value is at least 1: bytes a unit, and its name."""
    return next(((scale, unit) for scale, unit in _UNITS if largest >= scale), (1.0, "B"))


@dataclass(frozen=True)
class LinkCharts:
    """Both charts and the most loaded arcs; `carried` is False when no link carries anything."""

    carried: bool
    bytes_unit: str
    bytes_chart: Markup
    use_chart: Markup
    busiest: tuple[tuple[str, str, str, str], ...]


def link_charts(solution: JobSolution) -> LinkCharts:
    """Charts and table of the link loads."""
    loads, use = link_loads(solution), solution.evaluation.link_utilisation
    if not len(loads) or float(loads.max()) <= 0:
        return LinkCharts(False, "", Markup(""), Markup(""), ())
    scale, unit = byte_unit(float(loads.max()))
    order = np.argsort(-loads, kind="stable")[:BUSIEST]
    arcs, count = solution.plan.topology.arcs, solution.plan.topology.multiplicity
    busiest = tuple(
        (f"{arcs[a, 0]} → {arcs[a, 1]}", str(count[a]), byte_size(float(loads[a])), percent(float(use[a])))
        for a in order
    )
    return LinkCharts(
        carried=True,
        bytes_unit=unit,
        bytes_chart=sorted_chart(loads, unit, scale, "Bytes a link, sorted", "area-bytes"),
        use_chart=sorted_chart(use, "%", 0.01, "Utilisation of the links, sorted", "area-use")
        if float(use.max()) > 0
        else Markup(""),
        busiest=busiest,
    )
