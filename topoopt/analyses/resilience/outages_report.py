"""Days of servers that are down as two charts and a table: how many are down, and what is left of the throughput."""

from __future__ import annotations

from markupsafe import Markup

from topoopt.core.failures import OutageRow, OutageStudy
from topoopt.core.process import versions_text
from topoopt.drawing.axes import Axis
from topoopt.drawing.chart import Point, Series, legend, xy_chart
from topoopt.drawing.format import counted, percent
from topoopt.drawing.page import render_page

TEMPLATE = "analyses/resilience/outages.html.j2"
ROOM = 1.06
"""Of an axis above its largest value."""

HEADINGS = (
    "spare servers",
    "circuits",
    "mean",
    "99 % of days",
    "worst day",
    "days without loss",
    "exchanged a day",
    "worst step",
)


def row_name(row: OutageRow) -> str:
    """What a row is of."""
    if not row.circuits:
        return "own servers"
    return "circuits" if row.spares == 0 else f"circuits, {row.spares} spare"


def row_cells(row: OutageRow) -> tuple[str, ...]:
    """Under `HEADINGS`."""
    worst = "–" if row.worst_step_s is None else f"{row.worst_step_s:.4g} s"
    shares = (percent(part) for part in (row.mean, row.p99, row.worst, row.whole_days))
    return (str(row.spares), "yes" if row.circuits else "no", *shares, f"{row.exchanged:.3g}", worst)


def outages_html(study: OutageStudy, answer: str) -> str:
    """Servers that are down day by day, throughput with the days sorted, and all figures; names are escaped."""
    sorted_days = _sorted(study)
    names = [row_name(row) for row in study.rows]
    copies = study.copies
    return render_page(
        TEMPLATE,
        answer,
        name=study.name,
        subtitle=f"{counted(copies.number, 'copy', 'copies')} of the model on "
        f"{counted(copies.servers_each, 'server')} each, {counted(study.days, 'day')}, seed {study.seed}",
        down=_down(study),
        legend=legend(names, sorted_days),
        throughput=xy_chart(
            sorted_days,
            Axis("days, the worst first", 1.0, float(max(study.days, 2))),
            Axis("part of the throughput, %", 0.0, 100.0 * ROOM),
            "Throughput over the days, the worst first",
        ),
        head=HEADINGS,
        rows=[row_cells(row) for row in study.rows],
        versions=versions_text(),
    )


def _down(study: OutageStudy) -> Markup:
    """Of the servers of the plan, day by day."""
    points = tuple(
        Point(day + 1.0, float(count), f"day {day + 1}: {counted(count, 'server')} down")
        for day, count in enumerate(study.down)
    )
    most = max(1, *study.down)
    return xy_chart(
        [Series("down", points, line=True, dots=study.days == 1)],
        Axis("day", 1.0, float(max(study.days, 2))),
        Axis("servers of the plan that are down", 0.0, most * ROOM),
        "Servers that are down, day by day",
    )


def _sorted(study: OutageStudy) -> list[Series]:
    """A line of stairs for each row."""
    found = []
    for row, left in zip(study.rows, study.left, strict=True):
        stairs: list[Point] = []
        for place, part in enumerate(sorted(left)):
            value = 100.0 * part
            if stairs and stairs[-1].y != value:
                stairs.append(Point(place + 1.0, stairs[-1].y, ""))
            if not stairs or stairs[-1].y != value:
                stairs.append(Point(place + 1.0, value, ""))
        stairs.append(Point(float(max(study.days, 2)), stairs[-1].y, ""))
        found.append(Series(row_name(row), tuple(stairs), line=True, dots=False))
    return found
