"""The figures a study asks for, from the rows of its table. Each point leads to its run below."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from markupsafe import Markup

from topoopt.core.comparison import ComparedBy, Figure, Published
from topoopt.drawing.axes import name_axis, number_axis
from topoopt.drawing.chart import Point, Series, bar_chart, box_chart, legend
from topoopt.drawing.format import number
from topoopt.studies.figure_parts import (
    MOST_SERIES,
    Drawing,
    Material,
    anchor,
    mean_point,
    no_values,
    over_numbers,
    positive,
    rows_by_series,
    tip,
    title_of,
)
from topoopt.studies.heat_figures import heat
from topoopt.studies.published import published_points
from topoopt.studies.report_data import (
    Row,
    chosen,
    compared,
    in_order,
    number_of,
    performance_profile,
    starred,
    text_of,
)

MOST_POINTS = 20_000


def draw(
    figure: Figure,
    rows: Sequence[Row],
    factors: Sequence[str],
    comparison: ComparedBy,
    published: Sequence[Published] = (),
    names: Mapping[str, str] = MappingProxyType({}),
) -> Drawing:
    """Draw one figure.

    Args:
        figure: what is asked for.
        rows: of the table of results.
        factors: columns that tell cases apart.
        comparison, published: of the study.
        names: what columns are called.
    """
    material = Material(chosen(rows, figure.where), factors, comparison, figure, published, names)
    return KINDS[figure.kind](material)


def lines(material: Material) -> Drawing:
    """y over x, one line for each value of `series`: the mean over all runs at the same x, their range in the tips."""
    figure = material.figure
    x, y = figure.x or "servers", figure.y or material.comparison.value
    if figure.columns:
        wanted = [(material.word(name), list(material.rows), name) for name in figure.columns]
        title, text = figure.y or "value (mean)", f"{', '.join(name for name, _, _ in wanted)} over {material.word(x)}"
    else:
        column, groups = rows_by_series(material, "method")
        wanted = [(name, rows, y) for name, rows in groups]
        title, text = (
            f"{material.word(y)} (mean)",
            f"{material.word(y)} over {material.word(x)}, by {material.word(column)}",
        )
    series = [
        Series(name, points, line=True)
        for name, rows, value in wanted
        if (points := _line(name, rows, x, value, material.word(x)))
    ]
    if not series:
        return no_values(material, text)
    series += published_points(material.published, figure, x, y, material.names)
    return over_numbers(material, series, material.word(x), title, text)


def across(material: Material) -> Drawing:
    """What the star in the name of a column stands for is x, the value in the column y; a line for each run or mean of
    runs with the same `series`."""
    figure = material.figure
    column, groups = rows_by_series(material, "instance")
    x, y = figure.x or "x", figure.y or "value"
    series = []
    for pattern in figure.columns:
        for name, rows in groups:
            cells: dict[float, tuple[str, list[Row]]] = {}
            for row in rows:
                for key in row:
                    place = starred(key, pattern)
                    if place is not None and number_of(row, key) is not None:
                        cells.setdefault(place, (key, []))[1].append(row)
            label = material.names.get(pattern) or pattern.partition("*")[0].strip(".")
            named = name if len(figure.columns) == 1 else f"{label}, {name}" if len(groups) > 1 else label
            points = [mean_point(named, place, own, x, key) for place, (key, own) in sorted(cells.items())]
            if points:
                series.append(Series(named, tuple(points), line=True))
    text = f"{y} over {x}, by {column}"
    if not series:
        return no_values(material, text)
    series += published_points(material.published, figure, x, y, material.names)
    return over_numbers(material, series, x, y, text)


def _line(name: str, rows: Sequence[Row], x: str, y: str, x_name: str) -> tuple[Point, ...]:
    cells: dict[float, list[Row]] = {}
    for row in rows:
        place = number_of(row, x)
        if place is not None and number_of(row, y) is not None:
            cells.setdefault(place, []).append(row)
    return tuple(mean_point(name, place, cells[place], x_name, y) for place in sorted(cells))


def scatter(material: Material) -> Drawing:
    """A point for each run: y over x, coloured by `series`."""
    figure = material.figure
    x, y = figure.x or "solve_wall_s", figure.y or material.comparison.value
    column, groups = rows_by_series(material, "method")
    series = [Series(name, points) for name, rows in groups if (points := tuple(_run_points(rows, x, y)[:MOST_POINTS]))]
    text = f"{y} over {x}, by {column}"
    return (
        over_numbers(material, series, material.word(x), material.word(y), text)
        if series
        else no_values(material, text)
    )


def _run_points(rows: Iterable[Row], x: str, y: str) -> list[Point]:
    points = []
    for row in rows:
        place, value = number_of(row, x), number_of(row, y)
        if place is not None and value is not None:
            points.append(Point(place, value, tip(row, x, y), anchor(row)))
    return points


def box(material: Material) -> Drawing:
    """Spread of y for each value of x: median, quartiles, every run a point."""
    figure = material.figure
    x, y = figure.x or material.comparison.by, figure.y or "gap"
    names = [text_of(value) for value in in_order(row.get(x) for row in material.rows)][:MOST_SERIES]
    series = []
    for name in names:
        points = [
            Point(0.0, value, tip(row, x, y), anchor(row))
            for row in material.rows
            if text_of(row.get(x)) == name and (value := number_of(row, y)) is not None
        ]
        series.append(Series(name, tuple(points[:MOST_POINTS])))
    text = f"{y} by {x}"
    values = [point.y for one in series for point in one.points]
    if not values:
        return no_values(material, text)
    up = number_axis(y, values, log=figure.log_y)
    shown = positive(series, name_axis(x, names), up)
    return Drawing(title_of(figure, text), box_chart(shown, name_axis(x, names), up, text), Markup(""), "")


def bars(material: Material) -> Drawing:
    """Means of y for each value of x, a bar for each value of `series`."""
    figure = material.figure
    x, y = figure.x or "instance", figure.y or material.comparison.value
    column, groups = rows_by_series(material, "method")
    names = [text_of(value) for value in in_order(row.get(x) for row in material.rows)][:MOST_SERIES]
    series = []
    for name, rows in groups:
        points = []
        for place, at in enumerate(names):
            there = [row for row in rows if text_of(row.get(x)) == at and number_of(row, y) is not None]
            if there:
                point = mean_point(name, float(place), there, x, y)
                points.append(Point(point.x, point.y, f"{at}\n{point.tip}", anchor(there[0])))
        series.append(Series(name, tuple(points)))
    text = f"{y} by {x} and {column}"
    values = [point.y for one in series for point in one.points]
    if not values:
        return no_values(material, text)
    up = number_axis(f"{material.word(y)} (mean)", values, log=figure.log_y, zero=True)
    picture = bar_chart(positive(series, name_axis(x, names), up), name_axis(x, names), up, text)
    return Drawing(title_of(figure, text), picture, legend([one.name for one in series]), "")


def distribution(material: Material) -> Drawing:
    """Cumulative distribution of y, one line for each value of `series`."""
    figure = material.figure
    y = figure.y or material.comparison.value
    column, groups = rows_by_series(material, "method")
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
    return over_numbers(material, series, y, "part of the runs", text) if series else no_values(material, text)


def profile(material: Material) -> Drawing:
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
        return no_values(material, text)
    end = max(point.x for one in series for point in one.points)
    series = [Series(one.name, (*one.points, Point(end, one.points[-1].y, one.points[-1].tip)), True) for one in series]
    return over_numbers(material, series, f"factor of {against}", "part of the runs", text)


KINDS: Mapping[str, Callable[[Material], Drawing]] = {
    "lines": lines,
    "scatter": scatter,
    "box": box,
    "bars": bars,
    "distribution": distribution,
    "performance-profile": profile,
    "across": across,
    "heat-map": heat,
}
"""Kinds of figures, by the name in the study file."""
