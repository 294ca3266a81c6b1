"""The figures a study asks for, from the rows of its table. Each point leads to its run below."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from topoopt.core.study import ComparedBy, Figure
from topoopt.drawing.axes import Axis, name_axis, number_axis
from topoopt.drawing.chart import Point, Series, bar_chart, box_chart, legend, xy_chart
from topoopt.drawing.format import counted, number
from topoopt.studies.report_data import Row, chosen, compared, in_order, number_of, performance_profile, text_of

MOST_POINTS = 20_000
MOST_SERIES = 24
"""More lines than this cannot be told apart."""


@dataclass(frozen=True)
class Drawing:
    """A figure of the report: title, picture, legend, and what was left out."""

    title: str
    picture: Markup
    legend: Markup
    note: str


@dataclass(frozen=True)
class _Material:
    rows: Sequence[Row]
    factors: Sequence[str]
    comparison: ComparedBy
    figure: Figure


def anchor(row: Row) -> str:
    """Where a run is described in the report."""
    return f"#run-{str(row.get('run'))[:16]}"


def draw(figure: Figure, rows: Sequence[Row], factors: Sequence[str], comparison: ComparedBy) -> Drawing:
    """Draw one figure.

    Args:
        figure: what is asked for.
        rows: of the table of results.
        factors: columns that tell cases apart.
        comparison: of the study.
    """
    material = _Material(chosen(rows, figure.where), factors, comparison, figure)
    return KINDS[figure.kind](material)


def _series(material: _Material, default: str) -> tuple[str, list[tuple[str, list[Row]]]]:
    """Rows by the column of the series."""
    column = material.figure.series or default
    names = [text_of(value) for value in in_order(row.get(column) for row in material.rows)]
    groups = [(name, [row for row in material.rows if text_of(row.get(column)) == name]) for name in names]
    return column, groups[:MOST_SERIES]


def _tip(row: Row, *columns: str) -> str:
    """What a point says: its factors and figures."""
    shown = dict.fromkeys(["instance", "method", "seed", *columns])
    values = ((name, row.get(name)) for name in shown)
    return "\n".join(
        f"{name}: {number(value) if isinstance(value, float) else text_of(value)}"
        for name, value in values
        if value is not None
    )


def _title(figure: Figure, text: str) -> str:
    where = ", ".join(f"{column} = {text_of(value)}" for column, value in figure.where)
    return figure.title or (f"{text} ({where})" if where else text)


def _no_values(material: _Material, text: str) -> Drawing:
    return Drawing(_title(material.figure, text), Markup(""), Markup(""), "No run has values to show here.")


def lines(material: _Material) -> Drawing:
    """y over x, one line for each value of `series`: the mean over all runs at the same x, their range in the tips."""
    figure = material.figure
    x, y = figure.x or "servers", figure.y or material.comparison.value
    if figure.columns:
        wanted = [(name, list(material.rows), name) for name in figure.columns]
        y, text = "value", f"{', '.join(figure.columns)} over {x}"
    else:
        column, groups = _series(material, "method")
        wanted = [(name, rows, y) for name, rows in groups]
        text = f"{y} over {x}, by {column}"
    series = [
        Series(name, points, line=True) for name, rows, value in wanted if (points := _line(name, rows, x, value))
    ]
    if not series:
        return _no_values(material, text)
    return _over_numbers(material, series, x, f"{y} (mean)", text)


def _line(name: str, rows: Sequence[Row], x: str, y: str) -> tuple[Point, ...]:
    cells: dict[float, list[Row]] = {}
    for row in rows:
        place = number_of(row, x)
        if place is not None and number_of(row, y) is not None:
            cells.setdefault(place, []).append(row)
    return tuple(_mean_point(name, place, cells[place], x, y) for place in sorted(cells))


def _mean_point(name: str, place: float, rows: list[Row], x: str, y: str) -> Point:
    values = [value for row in rows if (value := number_of(row, y)) is not None]
    mean = statistics.fmean(values)
    spread = (
        f"\n{counted(len(values), 'run')}: {number(min(values))} to {number(max(values))}" if len(values) > 1 else ""
    )
    return Point(place, mean, f"{name}\n{x}: {number(place)}\n{y}: {number(mean)}{spread}", anchor(rows[0]))


def scatter(material: _Material) -> Drawing:
    """A point for each run: y over x, coloured by `series`."""
    figure = material.figure
    x, y = figure.x or "solve_wall_s", figure.y or material.comparison.value
    column, groups = _series(material, "method")
    series = [Series(name, points) for name, rows in groups if (points := tuple(_run_points(rows, x, y)[:MOST_POINTS]))]
    text = f"{y} over {x}, by {column}"
    return _over_numbers(material, series, x, y, text) if series else _no_values(material, text)


def _run_points(rows: Iterable[Row], x: str, y: str) -> list[Point]:
    points = []
    for row in rows:
        place, value = number_of(row, x), number_of(row, y)
        if place is not None and value is not None:
            points.append(Point(place, value, _tip(row, x, y), anchor(row)))
    return points


def _over_numbers(material: _Material, series: list[Series], x: str, y: str, text: str) -> Drawing:
    figure = material.figure
    across = number_axis(x, (point.x for one in series for point in one.points), log=figure.log_x)
    up = number_axis(y, (point.y for one in series for point in one.points), log=figure.log_y)
    shown = _positive(series, across, up)
    left_out = sum(len(one.points) for one in series) - sum(len(one.points) for one in shown)
    note = f"{counted(left_out, 'point')} at or below 0 cannot be shown on a logarithmic axis." if left_out else ""
    names = [one.name for one in series]
    return Drawing(_title(figure, text), xy_chart(shown, across, up, text), legend(names, shown), note)


def _positive(series: list[Series], x: Axis, y: Axis) -> list[Series]:
    """Points that have a place on the axes."""
    return [
        Series(
            one.name,
            tuple(point for point in one.points if (not x.log or point.x > 0) and (not y.log or point.y > 0)),
            one.line,
        )
        for one in series
    ]


def box(material: _Material) -> Drawing:
    """Spread of y for each value of x: median, quartiles, every run a point."""
    figure = material.figure
    x, y = figure.x or material.comparison.by, figure.y or "gap"
    names = [text_of(value) for value in in_order(row.get(x) for row in material.rows)][:MOST_SERIES]
    series = []
    for name in names:
        points = [
            Point(0.0, value, _tip(row, x, y), anchor(row))
            for row in material.rows
            if text_of(row.get(x)) == name and (value := number_of(row, y)) is not None
        ]
        series.append(Series(name, tuple(points[:MOST_POINTS])))
    text = f"{y} by {x}"
    values = [point.y for one in series for point in one.points]
    if not values:
        return _no_values(material, text)
    up = number_axis(y, values, log=figure.log_y)
    shown = _positive(series, name_axis(x, names), up)
    return Drawing(_title(figure, text), box_chart(shown, name_axis(x, names), up, text), Markup(""), "")


def bars(material: _Material) -> Drawing:
    """Means of y for each value of x, a bar for each value of `series`."""
    figure = material.figure
    x, y = figure.x or "instance", figure.y or material.comparison.value
    column, groups = _series(material, "method")
    names = [text_of(value) for value in in_order(row.get(x) for row in material.rows)][:MOST_SERIES]
    series = []
    for name, rows in groups:
        points = []
        for place, at in enumerate(names):
            there = [row for row in rows if text_of(row.get(x)) == at and number_of(row, y) is not None]
            if there:
                point = _mean_point(name, float(place), there, x, y)
                points.append(Point(point.x, point.y, f"{at}\n{point.tip}", anchor(there[0])))
        series.append(Series(name, tuple(points)))
    text = f"{y} by {x} and {column}"
    values = [point.y for one in series for point in one.points]
    if not values:
        return _no_values(material, text)
    up = number_axis(f"{y} (mean)", values, log=figure.log_y, zero=True)
    picture = bar_chart(_positive(series, name_axis(x, names), up), name_axis(x, names), up, text)
    return Drawing(_title(figure, text), picture, legend([one.name for one in series]), "")


def distribution(material: _Material) -> Drawing:
    """Cumulative distribution of y, one line for each value of `series`."""
    figure = material.figure
    y = figure.y or material.comparison.value
    column, groups = _series(material, "method")
    series = []
    for name, rows in groups:
        known = [(value, row) for row in rows if (value := number_of(row, y)) is not None]
        known.sort(key=lambda pair: pair[0])
        points = [
            Point(
                value,
                (place + 1) / len(known),
                f"{name}\n{number(value)} or less: {place + 1} of {len(known)}",
                anchor(row),
            )
            for place, (value, row) in enumerate(known)
        ]
        if points:
            series.append(Series(name, tuple(points[:MOST_POINTS]), line=True))
    text = f"distribution of {y}, by {column}"
    return _over_numbers(material, series, y, "part of the runs", text) if series else _no_values(material, text)


def profile(material: _Material) -> Drawing:
    """Performance profile (Dolan and More, 2002): part of all cases a method solves within a factor of the best."""
    steps = performance_profile(compared(material.rows, material.factors, material.comparison))
    against = material.comparison.baseline or "the best"
    series = []
    for name, points in steps.items():
        path: list[Point] = []
        for factor, part in points:
            before = path[-1].y if path else 0.0
            tip = f"{name}\nwithin a factor of {number(factor)}: {part:.0%} of its runs"
            path += [Point(factor, before, tip), Point(factor, part, tip)]
        if path:
            series.append(Series(name, tuple(path), line=True))
    value = material.comparison.value
    text = f"performance profile: part of the runs whose {value} is within a factor of {against}"
    if not series:
        return _no_values(material, text)
    end = max(point.x for one in series for point in one.points)
    series = [Series(one.name, (*one.points, Point(end, one.points[-1].y, one.points[-1].tip)), True) for one in series]
    return _over_numbers(material, series, f"factor of {against}", "part of the runs", text)


KINDS: Mapping[str, Callable[[_Material], Drawing]] = {
    "lines": lines,
    "scatter": scatter,
    "box": box,
    "bars": bars,
    "distribution": distribution,
    "performance-profile": profile,
}
"""Kinds of figures, by the name in the study file."""
