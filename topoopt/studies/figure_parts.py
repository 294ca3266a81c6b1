"""What the kinds of figures of a study share: rows in series, means with their range, axes, and what says nothing."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from topoopt.core.comparison import ComparedBy, Figure, Published
from topoopt.drawing.axes import Axis, number_axis
from topoopt.drawing.chart import Point, Series, legend, xy_chart
from topoopt.drawing.format import counted, number
from topoopt.studies.report_data import Row, in_order, number_of, text_of

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


def mean_point(name: str, place: float, rows: list[Row], x: str, y: str) -> Point:
    """The mean of column y over rows, which have one, with their range."""
    values = [value for row in rows if (value := number_of(row, y)) is not None]
    mean = statistics.fmean(values)
    spread = (
        f"\n{counted(len(values), 'run')}: {number(min(values))} to {number(max(values))}" if len(values) > 1 else ""
    )
    return Point(place, mean, f"{name}\n{x}: {number(place)}\n{y}: {number(mean)}{spread}", anchor(rows[0]))


def over_numbers(material: Material, series: list[Series], x: str, y: str, text: str) -> Drawing:
    """Points and lines over two axes of numbers with the titles x and y; `text` says what they are."""
    figure = material.figure
    across = number_axis(x, (point.x for one in series for point in one.points), log=figure.log_x)
    up = number_axis(y, (point.y for one in series for point in one.points), log=figure.log_y)
    shown = positive(series, across, up)
    left_out = sum(len(one.points) for one in series) - sum(len(one.points) for one in shown)
    note = f"{counted(left_out, 'point')} at or below 0 cannot be shown on a logarithmic axis." if left_out else ""
    names = [one.name for one in series]
    return Drawing(title_of(figure, text), xy_chart(shown, across, up, text), legend(names, shown), note)


def positive(series: list[Series], x: Axis, y: Axis) -> list[Series]:
    """Points that have a place on the axes."""
    return [
        replace(
            one,
            points=tuple(point for point in one.points if (not x.log or point.x > 0) and (not y.log or point.y > 0)),
        )
        for one in series
    ]
