"""Figures of a study are drawn from the rows of its table: series, bars, boxes, heat maps, and points that others
published.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from markupsafe import Markup

from topoopt.core.arrays import Floats
from topoopt.core.comparison import ComparedBy, Figure, Published
from topoopt.page.charts import (
    LINEAR,
    LOGARITHMIC,
    Axis,
    Point,
    Series,
    bar_chart,
    box_chart,
    heat_map,
    legend,
    name_axis,
    number_axis,
    xy_chart,
)
from topoopt.page.text import byte_size, counted, number
from topoopt.studies.results import (
    STATISTICS,
    Row,
    chosen,
    compared,
    in_order,
    number_of,
    performance_profile,
    starred,
    text_of,
)

NO_VALUES = "No run has values to show here."
"""What stands in place of a picture."""

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
class Material:
    """What a figure is drawn from: the rows that count, and what the study says of them."""

    rows: Sequence[Row]
    factors: Sequence[str]
    comparison: ComparedBy
    figure: Figure
    published: Sequence[Published]
    names: Mapping[str, str]

    def word(self, column: str) -> str:
        """What a column is called."""
        return self.names.get(column, column)


def anchor(row: Row) -> str:
    """Where a run is described in the report."""
    return f"#run-{str(row.get('run'))[:16]}"


def rows_by_series(material: Material, default: str) -> tuple[str, list[tuple[str, list[Row]]]]:
    """Rows by the column of the series, called by its name, too, where it has one (`degree 4`)."""
    column = material.figure.series or default
    values = [text_of(value) for value in in_order(row.get(column) for row in material.rows)]
    groups = [
        (
            series_name(column, value, material.names),
            [row for row in material.rows if text_of(row.get(column)) == value],
        )
        for value in values
    ]
    return column, groups[:MOST_SERIES]


def series_name(column: str, value: str, names: Mapping[str, str]) -> str:
    """What rows with a value in a column are called."""
    return f"{names[column]} {value}" if column in names else value


def tip(row: Row, *columns: str) -> str:
    """What a point says: its factors and figures."""
    shown = dict.fromkeys(["instance", "method", "seed", *columns])
    values = ((name, row.get(name)) for name in shown)
    return "\n".join(
        f"{name}: {number(value) if isinstance(value, float) else text_of(value)}"
        for name, value in values
        if value is not None
    )


def title_of(figure: Figure, text: str) -> str:
    """The title asked for, else what is drawn and of which rows."""
    where = ", ".join(f"{column} = {text_of(value)}" for column, value in figure.where)
    return figure.title or (f"{text} ({where})" if where else text)


def no_values(material: Material, text: str) -> Drawing:
    """A figure without a picture."""
    return Drawing(title_of(material.figure, text), Markup(""), Markup(""), NO_VALUES)


def mean_point(name: str, position: float, rows: list[Row], x: str, y: str) -> Point:
    """The mean of column y over rows, which have one, with their range."""
    values = [value for row in rows if (value := number_of(row, y)) is not None]
    mean = statistics.fmean(values)
    spread = (
        f"\n{counted(len(values), 'run')}: {number(min(values))} to {number(max(values))}" if len(values) > 1 else ""
    )
    return Point(position, mean, f"{name}\n{x}: {number(position)}\n{y}: {number(mean)}{spread}", anchor(rows[0]))


def over_numbers(material: Material, series: list[Series], x: str, y: str, text: str) -> Drawing:
    """Points and lines over two axes of numbers with the titles x and y; `text` says what they are."""
    figure = material.figure
    across = number_axis(x, (point.x for line in series for point in line.points), log=figure.log_x)
    up = number_axis(y, (point.y for line in series for point in line.points), log=figure.log_y)
    shown = positive(series, across, up)
    left_out = sum(len(line.points) for line in series) - sum(len(line.points) for line in shown)
    note = f"{counted(left_out, 'point')} at or below 0 cannot be shown on a logarithmic axis." if left_out else ""
    names = [line.name for line in series]
    return Drawing(title_of(figure, text), xy_chart(shown, across, up, text), legend(names, shown), note)


def positive(series: list[Series], x: Axis, y: Axis) -> list[Series]:
    """Points that have a place on the axes."""
    return [
        replace(
            line,
            points=tuple(point for point in line.points if (not x.log or point.x > 0) and (not y.log or point.y > 0)),
        )
        for line in series
    ]


def matrix_plot(material: Material) -> Drawing:
    """Bytes from row to column, whose numbers are what two stars stand for, of the first run that has any; columns that
    are missing are 0. On a logarithmic scale with `log_y`."""
    figure = material.figure
    pattern = figure.columns[0] if figure.columns else "*.*"
    text = f"{pattern.partition('*')[0].strip('.')} from row to column"
    matrices = [matrix for row in material.rows if (matrix := matrix_of(row, pattern)) is not None]
    if not matrices:
        return no_values(material, text)
    matrix, title = matrices[0], title_of(figure, text)
    note = (
        f"{byte_size(float(matrix.sum()))} between {counted(int(np.count_nonzero(matrix)), 'ordered pair')}, "
        f"{byte_size(float(matrix.max()))} at most."
    )
    if len(matrices) > 1:
        note += f" The first of {counted(len(matrices), 'run')}."
    picture = heat_map(matrix, title, scales=(LOGARITHMIC if figure.log_y else LINEAR,))
    return Drawing(title, picture, Markup(""), note)


def matrix_of(row: Row, pattern: str) -> Floats | None:
    """float64[n, n] of the columns of a row that a pattern with two stars names; None without a positive element."""
    parts = [re.escape(part) for part in pattern.split("*")]
    if len(parts) != 3:
        return None
    shape = re.compile(parts[0] + "([0-9]{1,3})" + parts[1] + "([0-9]{1,3})" + parts[2])
    cells = {}
    for name in row:
        match, value = shape.fullmatch(name), number_of(row, name)
        if match and value is not None and value > 0:
            cells[int(match[1]), int(match[2])] = value
    if not cells:
        return None
    n = 1 + max(max(cell) for cell in cells)
    matrix = np.zeros((n, n))
    for cell, value in cells.items():
        matrix[cell] = value
    return matrix


AGREE = 0.1
"""Relative difference up to which two figures are said to agree."""

MOST_NAMED = 4
"""Figures that the sentence names one by one."""


@dataclass(frozen=True)
class Compared:
    """A published figure, ours (None: no run has it) and ours / published - 1."""

    published: Published
    ours: float | None

    @property
    def difference(self) -> float | None:
        """Ours over the published one, less 1."""
        return None if self.ours is None else self.ours / self.published.value - 1.0

    @property
    def agrees(self) -> bool:
        """Whether the two differ by at most `AGREE`."""
        return self.difference is not None and abs(self.difference) <= AGREE


def set_beside(published: Sequence[Published], rows: Sequence[Row]) -> list[Compared]:
    """Ours of the same rows, column and statistic for each."""
    return [Compared(figure, _ours(figure, rows)) for figure in published]


def _ours(figure: Published, rows: Sequence[Row]) -> float | None:
    values = []
    for row in chosen(rows, figure.where):
        value = number_of(row, figure.column)
        if value is not None and figure.over is not None:
            below = number_of(row, figure.over)
            value = value / below if below else None
        if value is not None:
            values.append(value)
    return STATISTICS[figure.statistic](values) if values else None


def agreement(compared: Sequence[Compared]) -> str:
    """Where ours and the published figures agree, where not, largest difference first, and why; empty without any."""
    available = [figure for figure in compared if figure.ours is not None]
    if not available:
        return "" if not compared else "No run has a figure to set beside the published ones."
    apart = sorted(
        (figure for figure in available if not figure.agrees), key=lambda figure: -abs(figure.difference or 0.0)
    )
    near = sorted((figure for figure in available if figure.agrees), key=lambda figure: -abs(figure.difference or 0.0))
    agree = "agrees" if len(available) == 1 else "agree"
    parts = [f"{len(near)} of {counted(len(available), 'published figure')} {agree} within {AGREE:.0%}"]
    if near:
        parts[0] += (
            f", least of all {near[0].published.what} ({_pair(near[0])})"
            if len(near) > 1
            else (f": {near[0].published.what} ({_pair(near[0])})")
        )
    if apart:
        named = ", ".join(f"{figure.published.what} ({_pair(figure)})" for figure in apart[:MOST_NAMED])
        whys = dict.fromkeys(figure.published.why for figure in apart if figure.published.why)
        more = f" and {len(apart) - MOST_NAMED} more" if len(apart) > MOST_NAMED else ""
        parts.append("; ".join([f"not {named}{more}", *(why for why in whys if why)]))
    missing = len(compared) - len(available)
    if missing:
        parts.append(f"{missing} {'has' if missing == 1 else 'have'} no run here")
    return "; ".join(parts) + "."


def signed_percent(part: float) -> str:
    """Per cent with its sign, 0 without one."""
    text = f"{part:+.2%}"
    return "0.00%" if text.strip("+-") == "0.00%" else text


def _pair(figure: Compared) -> str:
    ours, difference = figure.ours or 0.0, figure.difference or 0.0
    return f"ours {number(ours)}, published {number(figure.published.value)}, {signed_percent(difference)}"


def published_points(
    published: Sequence[Published], figure: Figure, x: str, y: str, names: Mapping[str, str]
) -> list[Series]:
    """Those that have a place in a figure of lines: of its columns, with an x of their own, none of another case.

    `names` says what columns are called.
    """
    case = {column: text_of(value) for column, value in figure.where}
    points_of: dict[str, list[Point]] = {}
    for item in published:
        own = dict(item.where)
        fits = all(text_of(own[column]) == value for column, value in case.items() if column in own)
        position = number_of(own, x) if item.column in (figure.columns or (y,)) else None
        for pattern in figure.columns:
            position = starred(item.column, pattern) if position is None else position
        if item.over is not None or not fits or position is None:
            continue
        part = text_of(own.get(figure.series or ""))
        name = series_name(figure.series or "", part, names) if part else names.get(item.column, item.column)
        tip = f"published: {item.what}\n{number(item.value)}\n{item.source}"
        points_of.setdefault(name, []).append(Point(position, item.value, tip))
    return [Series(f"{name}, published", tuple(points), beside=name) for name, points in points_of.items()]


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
                    position = starred(key, pattern)
                    if position is not None and number_of(row, key) is not None:
                        cells.setdefault(position, (key, []))[1].append(row)
            label = material.names.get(pattern) or pattern.partition("*")[0].strip(".")
            named = name if len(figure.columns) == 1 else f"{label}, {name}" if len(groups) > 1 else label
            points = [mean_point(named, position, own, x, key) for position, (key, own) in sorted(cells.items())]
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
        position = number_of(row, x)
        if position is not None and number_of(row, y) is not None:
            cells.setdefault(position, []).append(row)
    return tuple(mean_point(name, position, cells[position], x_name, y) for position in sorted(cells))


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
        position, value = number_of(row, x), number_of(row, y)
        if position is not None and value is not None:
            points.append(Point(position, value, tip(row, x, y), anchor(row)))
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
    values = [point.y for line in series for point in line.points]
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
        for index, at in enumerate(names):
            there = [row for row in rows if text_of(row.get(x)) == at and number_of(row, y) is not None]
            if there:
                point = mean_point(name, float(index), there, x, y)
                points.append(Point(point.x, point.y, f"{at}\n{point.tip}", anchor(there[0])))
        series.append(Series(name, tuple(points)))
    text = f"{y} by {x} and {column}"
    values = [point.y for line in series for point in line.points]
    if not values:
        return no_values(material, text)
    up = number_axis(f"{material.word(y)} (mean)", values, log=figure.log_y, zero=True)
    picture = bar_chart(positive(series, name_axis(x, names), up), name_axis(x, names), up, text)
    return Drawing(title_of(figure, text), picture, legend([line.name for line in series]), "")


def distribution(material: Material) -> Drawing:
    """Cumulative distribution of y, one line for each value of `series`."""
    figure = material.figure
    y = figure.y or material.comparison.value
    column, groups = rows_by_series(material, "method")
    series = []
    for name, rows in groups:
        pairs = [(value, row) for row in rows if (value := number_of(row, y)) is not None]
        pairs.sort(key=lambda pair: pair[0])
        points = [
            Point(
                value,
                (index + 1) / len(pairs),
                f"{name}\n{number(value)} or less: {index + 1} of {len(pairs)}",
                anchor(row),
            )
            for index, (value, row) in enumerate(pairs)
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
    end = max(point.x for line in series for point in line.points)
    series = [
        Series(line.name, (*line.points, Point(end, line.points[-1].y, line.points[-1].tip)), True) for line in series
    ]
    return over_numbers(material, series, f"factor of {against}", "part of the runs", text)


KINDS: Mapping[str, Callable[[Material], Drawing]] = {
    "lines": lines,
    "scatter": scatter,
    "box": box,
    "bars": bars,
    "distribution": distribution,
    "performance-profile": profile,
    "across": across,
    "heat-map": matrix_plot,
}
"""Kinds of figures, by the name in the study file."""
