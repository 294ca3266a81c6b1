"""Figures of a study are drawn from the rows of its table: series, bars, boxes, heat maps, and points that others
published.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from topoopt.core.arrays import Floats
from topoopt.page.charts import LINEAR, LOGARITHMIC, intensity_plot
from topoopt.page.text import byte_size, counted, number
from topoopt.page.vega import bar_chart, box_chart, finite, number_axis, svg, xy_chart
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
from topoopt.studies.schema import Figure, Published, StudyFile

NO_VALUES = "No run has values to show here."
"""What stands in place of a picture."""

MOST_SERIES = 24
"""More lines than this cannot be told apart."""

MOST_POINTS = 20_000
AGREE = 0.1
"""Relative difference up to which two figures are said to agree."""

MOST_NAMED = 4
"""Figures that the sentence names one by one."""

Rows = Sequence[Row]
Drawing = dict[str, Any]
"""A figure of the report: its title, the picture (empty: there is none) and a note."""

Mark = dict[str, Any]
"""Where it is (`x`, `y`), its `series`, what it tells (`tip`), and the address behind it (`href`)."""

Beside = tuple[Published, float | None, float | None]
"""A published figure, ours and ours / published - 1; None: no run has it."""


def draw(figure: Figure, rows: Rows, factors: Sequence[str], study: StudyFile) -> Drawing:
    """Draw one figure.

    Args:
        figure: what is requested.
        rows: of the table of results.
        factors: columns that tell cases apart.
        study: what runs are compared by, what others published, and what columns are called.
    """
    return KINDS[figure.kind](figure, chosen(rows, figure.where), factors, study)


def _drawing(figure: Figure, text: str, picture: Markup | str = "", note: str = "") -> Drawing:
    """A figure under its own title, else what is drawn and of which rows; without a picture it says so."""
    where = ", ".join(f"{column} = {text_of(value)}" for column, value in figure.where.items())
    title = figure.title or (f"{text} ({where})" if where else text)
    return {"title": title, "picture": picture, "note": note if picture else NO_VALUES}


def _series(figure: Figure, rows: Rows, study: StudyFile, default: str) -> tuple[str, list[tuple[str, list[Row]]]]:
    """The column of the series, and rows by its values."""
    column = figure.series or default
    values = [text_of(value) for value in in_order(row.get(column) for row in rows)][:MOST_SERIES]
    return column, [
        (series_name(column, value, study.names), [row for row in rows if text_of(row.get(column)) == value])
        for value in values
    ]


def series_name(column: str, value: str, names: Mapping[str, str]) -> str:
    """What rows with a value in a column are called: with the name of the column, where it has one (`degree 4`)."""
    return f"{names[column]} {value}" if column in names else value


def _mark(x: float | str, y: float, tip: str, row: Row | None = None, series: str | None = None) -> Mark:
    address = {} if row is None else {"href": f"#run-{str(row.get('run'))[:16]}"}
    return {"x": x, "y": y, "tip": tip, **({} if series is None else {"series": series}), **address}


def _row_mark(row: Row, x: str, y: str, position: float | str, value: float, series: str | None = None) -> Mark:
    """A point that says its factors and figures."""
    cells = {name: row.get(name) for name in ("instance", "method", "seed", x, y) if row.get(name) is not None}
    lines = [f"{name}: {number(cell) if isinstance(cell, float) else text_of(cell)}" for name, cell in cells.items()]
    return _mark(position, value, "\n".join(lines), row, series)


def _mean_mark(name: str, position: float | str, rows: Rows, x: str, y: str) -> Mark:
    """The mean of column y over rows, which have one, with their range; x is the title of the axis."""
    values = [value for row in rows if (value := number_of(row, y)) is not None]
    mean = statistics.fmean(values)
    text = f"{name}\n{x}: {position if isinstance(position, str) else number(position)}\n{y}: {number(mean)}"
    if len(values) > 1:
        text += f"\n{counted(len(values), 'run')}: {number(min(values))} to {number(max(values))}"
    return _mark(position, mean, text, rows[0], name)


def _over_numbers(
    figure: Figure,
    marks: Sequence[Mark],
    x: str,
    y: str,
    text: str,
    line: str = "linear",
    published: Sequence[Mark] = (),
) -> Drawing:
    """Points and lines over two axes of numbers with the titles x and y; `text` says what they are."""
    if not marks:
        return _drawing(figure, text)
    every = [*marks, *published]
    names = list(dict.fromkeys(mark["series"] for mark in every))
    across = number_axis("x", x, finite(mark["x"] for mark in every), log=figure.log_x)
    up = number_axis("y", y, finite(mark["y"] for mark in every), log=figure.log_y)
    picture = svg(xy_chart(marks, names, across, up, line=line, published=published), text)
    return _drawing(figure, text, picture, "Hollow: published." if published else "")


def _lines(figure: Figure, rows: Rows, factors: Sequence[str], study: StudyFile) -> Drawing:
    """y over x, one line for each value of `series`: the mean over all runs at the same x, their range in the tips."""
    names = study.names
    x, y = figure.x or "servers", figure.y or study.compare.value
    over = names.get(x, x)
    if figure.columns:
        targets = [(names.get(column, column), [*rows], column) for column in figure.columns]
        title, text = figure.y or "value (mean)", f"{', '.join(name for name, _, _ in targets)} over {over}"
    else:
        column, groups = _series(figure, rows, study, "method")
        targets = [(name, peers, y) for name, peers in groups]
        title, text = f"{names.get(y, y)} (mean)", f"{names.get(y, y)} over {over}, by {names.get(column, column)}"
    marks: list[Mark] = []
    for name, peers, value in targets:
        cells: dict[float, list[Row]] = {}
        for row in peers:
            position = number_of(row, x)
            if position is not None and number_of(row, value) is not None:
                cells.setdefault(position, []).append(row)
        marks += [_mean_mark(name, position, cells[position], over, value) for position in sorted(cells)]
    return _over_numbers(figure, marks, over, title, text, published=published_marks(figure, x, y, study))


def _across(figure: Figure, rows: Rows, factors: Sequence[str], study: StudyFile) -> Drawing:
    """What the star in the name of a column stands for is x, the value in the column y; a line for each run or mean of
    runs with the same `series`."""
    column, groups = _series(figure, rows, study, "instance")
    x, y = figure.x or "x", figure.y or "value"
    marks: list[Mark] = []
    for pattern in figure.columns:
        label = study.names.get(pattern) or pattern.partition("*")[0].strip(".")
        for name, peers in groups:
            cells: dict[float, tuple[str, list[Row]]] = {}
            for row in peers:
                for key in row:
                    position = starred(key, pattern)
                    if position is not None and number_of(row, key) is not None:
                        cells.setdefault(position, (key, []))[1].append(row)
            named = name if len(figure.columns) == 1 else f"{label}, {name}" if len(groups) > 1 else label
            marks += [_mean_mark(named, position, local, x, key) for position, (key, local) in sorted(cells.items())]
    others = published_marks(figure, x, y, study)
    return _over_numbers(figure, marks, x, y, f"{y} over {x}, by {column}", published=others)


def _scatter(figure: Figure, rows: Rows, factors: Sequence[str], study: StudyFile) -> Drawing:
    """A point for each run: y over x, coloured by `series`."""
    x, y = figure.x or "solve_wall_s", figure.y or study.compare.value
    column, groups = _series(figure, rows, study, "method")
    marks = [
        _row_mark(row, x, y, position, value, name)
        for name, peers in groups
        for row in peers
        if (position := number_of(row, x)) is not None and (value := number_of(row, y)) is not None
    ]
    titles = [study.names.get(name, name) for name in (x, y)]
    return _over_numbers(figure, marks[:MOST_POINTS], titles[0], titles[1], f"{y} over {x}, by {column}", line="")


def _box(figure: Figure, rows: Rows, factors: Sequence[str], study: StudyFile) -> Drawing:
    """Spread of y for each value of x: median, quartiles, every run a point."""
    x, y = figure.x or study.compare.by, figure.y or "gap"
    names = [text_of(value) for value in in_order(row.get(x) for row in rows)][:MOST_SERIES]
    marks = [
        _row_mark(row, x, y, text_of(row.get(x)), value)
        for row in rows
        if text_of(row.get(x)) in names and (value := number_of(row, y)) is not None
    ]
    text = f"{y} by {x}"
    if not marks:
        return _drawing(figure, text)
    up = number_axis("y", y, [mark["y"] for mark in marks], log=figure.log_y)
    return _drawing(figure, text, svg(box_chart(marks[:MOST_POINTS], names, x, up), text))


def _bars(figure: Figure, rows: Rows, factors: Sequence[str], study: StudyFile) -> Drawing:
    """Means of y for each value of x, a bar for each value of `series`."""
    x, y = figure.x or "instance", figure.y or study.compare.value
    column, groups = _series(figure, rows, study, "method")
    names = [text_of(value) for value in in_order(row.get(x) for row in rows)][:MOST_SERIES]
    marks: list[Mark] = []
    for name, peers in groups:
        for value in names:
            local = [row for row in peers if text_of(row.get(x)) == value and number_of(row, y) is not None]
            marks += [_mean_mark(name, value, local, x, y)] if local else []
    text = f"{y} by {x} and {column}"
    if not marks:
        return _drawing(figure, text)
    up = number_axis("y", f"{study.names.get(y, y)} (mean)", [mark["y"] for mark in marks], log=figure.log_y, zero=True)
    return _drawing(figure, text, svg(bar_chart(marks, names, [name for name, _ in groups], x, up), text))


def _profile(figure: Figure, rows: Rows, factors: Sequence[str], study: StudyFile) -> Drawing:
    """Performance profile (Dolan and More, 2002): part of all cases a method solves within a factor of the best."""
    steps = performance_profile(compared(rows, factors, study.compare))
    against = study.compare.baseline or "the best"
    end = max((points[-1][0] for points in steps.values() if points), default=1.0)
    marks = [
        _mark(factor, part, f"{name}\nwithin a factor of {number(factor)}: {part:.0%} of its runs", series=name)
        for name, points in steps.items()
        if points
        for factor, part in (*points, (end, points[-1][1]))
    ]
    text = f"performance profile: part of the runs whose {study.compare.value} is within a factor of {against}"
    return _over_numbers(figure, marks, f"factor of {against}", "part of the runs", text, "step-after")


def _matrix(figure: Figure, rows: Rows, factors: Sequence[str], study: StudyFile) -> Drawing:
    """Bytes from row to column, whose numbers are what two stars stand for, of the first run that has any; columns that
    are missing are 0. On a logarithmic scale with `log_y`."""
    pattern = figure.columns[0] if figure.columns else "*.*"
    text = f"{pattern.partition('*')[0].strip('.')} from row to column"
    matrices = [matrix for row in rows if (matrix := matrix_of(row, pattern)) is not None]
    if not matrices:
        return _drawing(figure, text)
    matrix = matrices[0]
    pairs = counted(int(np.count_nonzero(matrix)), "ordered pair")
    note = f"{byte_size(float(matrix.sum()))} between {pairs}, {byte_size(float(matrix.max()))} at most."
    if len(matrices) > 1:
        note += f" The first of {counted(len(matrices), 'run')}."
    picture = intensity_plot(matrix, _drawing(figure, text)["title"], scale=LOGARITHMIC if figure.log_y else LINEAR)
    return _drawing(figure, text, picture, note)


def matrix_of(row: Row, pattern: str) -> Floats | None:
    """float64[n, n] of the columns of a row that a pattern with two stars names; None without a positive element."""
    if pattern.count("*") != 2:
        return None
    shape = re.compile("([0-9]{1,3})".join(map(re.escape, pattern.split("*"))))
    cells = {}
    for name in row:
        match, value = shape.fullmatch(name), number_of(row, name)
        if match and value is not None and value > 0:
            cells[int(match[1]), int(match[2])] = value
    if not cells:
        return None
    n = 1 + max(map(max, cells))
    matrix = np.zeros((n, n))
    for cell, value in cells.items():
        matrix[cell] = value
    return matrix


KINDS: Mapping[str, Callable[[Figure, Rows, Sequence[str], StudyFile], Drawing]] = {
    "lines": _lines,
    "scatter": _scatter,
    "box": _box,
    "bars": _bars,
    "performance-profile": _profile,
    "across": _across,
    "heat-map": _matrix,
}
"""Kinds of figures, by the name in the study file."""


def set_beside(published: Sequence[Published], rows: Rows) -> list[Beside]:
    """Ours of the same rows, column and statistic for each."""
    beside: list[Beside] = []
    for figure in published:
        values = []
        for row in chosen(rows, figure.where):
            value = number_of(row, figure.column)
            if value is not None and figure.over is not None:
                below = number_of(row, figure.over)
                value = value / below if below else None
            values += [] if value is None else [value]
        ours = STATISTICS[figure.statistic](values) if values else None
        beside.append((figure, ours, None if ours is None else ours / figure.value - 1.0))
    return beside


def agrees(difference: float | None) -> bool:
    """Whether ours and a published figure are said to agree."""
    return difference is not None and abs(difference) <= AGREE


def agreement(beside: Sequence[Beside]) -> str:
    """Where ours and the published figures agree, where not, largest difference first, and why; empty without any."""
    available = sorted((entry for entry in beside if entry[2] is not None), key=lambda entry: -abs(entry[2] or 0.0))
    if not available:
        return "" if not beside else "No run has a figure to set beside the published ones."

    def pair(entry: Beside) -> str:
        ours, published = number(entry[1] or 0.0), number(entry[0].value)
        return f"{entry[0].what} (ours {ours}, published {published}, {signed_percent(entry[2] or 0.0)})"

    near = [entry for entry in available if agrees(entry[2])]
    different = [entry for entry in available if not agrees(entry[2])]
    verb = "agrees" if len(available) == 1 else "agree"
    parts = [f"{len(near)} of {counted(len(available), 'published figure')} {verb} within {AGREE:.0%}"]
    if near:
        parts[0] += f", least of all {pair(near[0])}" if len(near) > 1 else f": {pair(near[0])}"
    if different:
        named = ", ".join(map(pair, different[:MOST_NAMED]))
        more = f" and {len(different) - MOST_NAMED} more" if len(different) > MOST_NAMED else ""
        reasons = dict.fromkeys(entry[0].why for entry in different if entry[0].why)
        parts.append("; ".join([f"not {named}{more}", *map(str, reasons)]))
    missing = len(beside) - len(available)
    if missing:
        parts.append(f"{missing} {'has' if missing == 1 else 'have'} no run here")
    return "; ".join(parts) + "."


def signed_percent(part: float) -> str:
    """Per cent with its sign, 0 without one."""
    text = f"{part:+.2%}"
    return "0.00%" if text.strip("+-") == "0.00%" else text


def published_marks(figure: Figure, x: str, y: str, study: StudyFile) -> list[Mark]:
    """Published figures with a place in a figure of lines: of its columns, with an x of their own, of the same case."""
    marks: list[Mark] = []
    for target in study.published:
        local = target.where
        fits = all(text_of(local[name]) == text_of(value) for name, value in figure.where.items() if name in local)
        position = number_of(local, x) if target.column in (figure.columns or (y,)) else None
        for pattern in figure.columns:
            position = starred(target.column, pattern) if position is None else position
        if target.over is not None or not fits or position is None:
            continue
        part = text_of(local.get(figure.series or ""))
        name = study.names.get(target.column, target.column)
        name = series_name(figure.series or "", part, study.names) if part else name
        text = f"published: {target.what}\n{number(target.value)}\n{target.source}"
        marks.append(_mark(position, target.value, text, series=name))
    return marks
