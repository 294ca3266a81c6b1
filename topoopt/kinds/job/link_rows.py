"""Load of the links: bytes and utilisation of every arc, sorted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from topoopt.core.arrays import Floats
from topoopt.core.job_solution import JobSolution
from topoopt.drawing.format import byte_size, percent, quotient, ratio
from topoopt.drawing.sorted_chart import sorted_chart
from topoopt.drawing.utilisation import use_class

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


def link_loads(solution: JobSolution) -> Floats:
    """float64[m], bytes a link of each arc."""
    return solution.evaluation.link_bytes / np.maximum(solution.plan.topology.multiplicity, 1)


def link_statistics(solution: JobSolution) -> LinkStatistics:
    """Mean, extremes and imbalance over all links (parallel links counted one by one)."""
    count = solution.plan.topology.multiplicity
    links = int(count.sum())
    loads, use = link_loads(solution), solution.link_utilisation
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
    loads, use = link_loads(solution), solution.link_utilisation
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
        bytes_chart=sorted_chart(loads, unit, scale, "Bytes a link, sorted", lambda _: "bytes"),
        use_chart=sorted_chart(use, "%", 0.01, "Utilisation of the links, sorted", use_class)
        if float(use.max()) > 0
        else Markup(""),
        busiest=busiest,
    )
