"""Figures that others published beside ours: differences, points of a picture, and a sentence on where they agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from topoopt.core.comparison import Figure, Published
from topoopt.drawing.chart import Point, Series
from topoopt.drawing.format import counted, number
from topoopt.studies.figure_parts import series_name
from topoopt.studies.report_data import STATISTICS, Row, chosen, number_of, starred, text_of

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
    return [Compared(each, _ours(each, rows)) for each in published]


def _ours(asked: Published, rows: Sequence[Row]) -> float | None:
    values = []
    for row in chosen(rows, asked.where):
        value = number_of(row, asked.column)
        if value is not None and asked.over is not None:
            below = number_of(row, asked.over)
            value = value / below if below else None
        if value is not None:
            values.append(value)
    return STATISTICS[asked.statistic](values) if values else None


def agreement(found: Sequence[Compared]) -> str:
    """Where ours and the published figures agree, where not, largest difference first, and why; empty without any."""
    known = [each for each in found if each.ours is not None]
    if not known:
        return "" if not found else "No run has a figure to set beside the published ones."
    apart = sorted((each for each in known if not each.agrees), key=lambda each: -abs(each.difference or 0.0))
    near = sorted((each for each in known if each.agrees), key=lambda each: -abs(each.difference or 0.0))
    agree = "agrees" if len(known) == 1 else "agree"
    parts = [f"{len(near)} of {counted(len(known), 'published figure')} {agree} within {AGREE:.0%}"]
    if near:
        parts[0] += (
            f", least of all {near[0].published.what} ({_pair(near[0])})"
            if len(near) > 1
            else (f": {near[0].published.what} ({_pair(near[0])})")
        )
    if apart:
        named = ", ".join(f"{each.published.what} ({_pair(each)})" for each in apart[:MOST_NAMED])
        whys = dict.fromkeys(each.published.why for each in apart if each.published.why)
        more = f" and {len(apart) - MOST_NAMED} more" if len(apart) > MOST_NAMED else ""
        parts.append("; ".join([f"not {named}{more}", *(why for why in whys if why)]))
    missing = len(found) - len(known)
    if missing:
        parts.append(f"{missing} {'has' if missing == 1 else 'have'} no run here")
    return "; ".join(parts) + "."


def signed_percent(part: float) -> str:
    """Per cent with its sign, 0 without one."""
    text = f"{part:+.2%}"
    return "0.00%" if text.strip("+-") == "0.00%" else text


def _pair(each: Compared) -> str:
    ours, difference = each.ours or 0.0, each.difference or 0.0
    return f"ours {number(ours)}, published {number(each.published.value)}, {signed_percent(difference)}"


def published_points(
    published: Sequence[Published], figure: Figure, x: str, y: str, names: Mapping[str, str]
) -> list[Series]:
    """Those that have a place in a figure of lines: of its columns, with an x of their own, none of another case.

    `names` says what columns are called.
    """
    case = {column: text_of(value) for column, value in figure.where}
    found: dict[str, list[Point]] = {}
    for each in published:
        own = dict(each.where)
        fits = all(text_of(own[column]) == value for column, value in case.items() if column in own)
        place = number_of(own, x) if each.column in (figure.columns or (y,)) else None
        for pattern in figure.columns:
            place = starred(each.column, pattern) if place is None else place
        if each.over is not None or not fits or place is None:
            continue
        part = text_of(own.get(figure.series or ""))
        name = series_name(figure.series or "", part, names) if part else names.get(each.column, each.column)
        tip = f"published: {each.what}\n{number(each.value)}\n{each.source}"
        found.setdefault(name, []).append(Point(place, each.value, tip))
    return [Series(f"{name}, published", tuple(points), beside=name) for name, points in found.items()]
