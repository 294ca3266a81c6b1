"""Charts of results: points and lines over two axes, boxes and bars over names. Every point can lead somewhere."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from topoopt.drawing.axes import LEAST_SPREAD, Axis
from topoopt.drawing.marks import colour, dash, mark, sample
from topoopt.drawing.svg import coordinate, element, percentage, picture

HEIGHT = 320.0
TOP = 26.0
BOTTOM = 44.0
LONGEST_NAME = 22
LETTER, PLOT = 6.3, 460.0
"""Mean width of a letter, and of a plot beside another one on a wide page; longer rows of names are set at a slant."""

HOLLOW = "dot hollow"
"""CSS classes of what others published."""

LEVEL, APART = 2e-3, 0.01
"""Lines coincide where they differ by less than this part of the highest value, and of all that is shown."""


@dataclass(frozen=True)
class Point:
    """A value in a chart: position, what is shown when pointed at, and the address behind it."""

    x: float
    y: float
    tip: str
    href: str | None = None


@dataclass(frozen=True)
class Series:
    """Points of one name; `line` joins them in order, `dots` marks each.

    `beside` names the series next to which published values are set: they have its colour and shape, hollow.
    """

    name: str
    points: tuple[Point, ...]
    line: bool = False
    dots: bool = True
    beside: str | None = None


def _place(series: Sequence[Series], place: int) -> tuple[int, bool]:
    """Whose marks the n-th series has, and whether they are hollow."""
    own = [one.name for one in series]
    beside = series[place].beside
    return (own.index(beside), True) if beside in own else (place, False)


def legend(names: Sequence[str], series: Sequence[Series] = ()) -> Markup:
    """Names with their marks; nothing for one series.

    Args:
        names: of the series, in their order.
        series: the same as they are drawn: the legend has them as their lines end, the highest first, and says which
            coincide.
    """
    if len(names) < 2:
        return Markup("")
    order = list(range(len(names)))
    if series:
        order.sort(key=lambda place: -series[place].points[-1].y if series[place].points else 0.0)
    values = [point.y for one in series for point in one.points]
    seen = max(values, default=0.0) - min(values, default=0.0)
    short = [name.partition(":")[0] for name in names]
    called = [word if short.count(word) == 1 else name for word, name in zip(short, names, strict=True)]
    hollow = [place for place in order if series and _place(series, place)[1]]
    items = []
    for place in order:
        if place in hollow:
            continue
        twin = next((k for k in range(min(place, len(series))) if _coincide(series[k], series[place], seen)), None)
        text = names[place] if twin is None else f"{names[place]} (on the line of {called[twin]})"
        items.append(element("li", _sample(place, series), element("span", text)))
    if hollow:
        shape = mark(0, x=6.0, y=6.0, css=HOLLOW)
        shown = element("svg", shape, width=12, height=12, aria_hidden="true")
        items.append(element("li", shown, element("span", "published")))
    return element("ul", *items, class_="legend flat")


def _sample(place: int, series: Sequence[Series]) -> Markup:
    """The mark of a series; of what is drawn in areas, which have no marks, its colour."""
    if series:
        return sample(place, line=series[place].line, dots=series[place].dots)
    return element("svg", mark(0, x=6.0, y=6.0, css=f"dot {colour(place)}"), width=12, height=12, aria_hidden="true")


def _coincide(one: Series, other: Series, seen: float) -> bool:
    """Whether two series have the same points, to what can be seen where the values of all span `seen`."""
    if not one.points or len(one.points) != len(other.points):
        return False
    high = max(abs(point.y) for point in one.points) or 1.0
    least = max(min(LEVEL * high, APART * seen), LEAST_SPREAD * high)
    return all(a.x == b.x and abs(a.y - b.y) <= least for a, b in zip(one.points, other.points, strict=True))


def xy_chart(series: Sequence[Series], x: Axis, y: Axis, label: str, *, radius: float | None = None) -> Markup:
    """Points, and lines where asked, over two axes; the size of marks follows from their number unless it is given."""
    shapes = _frame(x, y)
    base = HEIGHT - BOTTOM
    for place, one in enumerate(series):
        if one.line and len(one.points) > 1:
            path = "L".join(
                f"{coordinate(1000 * x.at(point.x))} {coordinate(base - (base - TOP) * y.at(point.y))}"
                for point in one.points
            )
            line = element("path", d=f"M{path}", class_=f"run {colour(place)} {dash(place)}")
            box = f"0 0 1000 {HEIGHT:.0f}"
            shapes.append(element("svg", line, viewBox=box, preserveAspectRatio="none", width="100%", height=HEIGHT))
    size = _radius(series) if radius is None else radius
    for place, one in enumerate(series):
        if one.dots:
            like, hollow = _place(series, place)
            css = f"{HOLLOW} {colour(like)}" if hollow else None
            shapes += [_dot(point, x, y, like, size * (1.6 if hollow else 1.0), css=css) for point in one.points]
    return picture(*shapes, label=label, class_="chart", height=int(HEIGHT))


def box_chart(series: Sequence[Series], x: Axis, y: Axis, label: str) -> Markup:
    """Medians, quartiles and single values of each series, side by side over the names of `x`."""
    shapes = _frame(x, y)
    width = 1.0 / max(1, len(x.names))
    for place, one in enumerate(series):
        values = sorted(point.y for point in one.points)
        if not values:
            continue
        low, middle, high = _quartiles(values)
        left, right = x.at(place) - 0.3 * width, x.at(place) + 0.3 * width
        top, bottom = _height(high, y), _height(low, y)
        shapes.append(
            element(
                "rect",
                x=percentage(left),
                y=top,
                width=percentage(right - left),
                height=max(1.0, bottom - top),
                class_=f"box {colour(place)}",
            )
        )
        at = _height(middle, y)
        shapes.append(element("line", x1=percentage(left), x2=percentage(right), y1=at, y2=at, class_="median"))
        spread = 0.22 * width
        for number, point in enumerate(one.points):
            shift = spread * (2 * ((number * 0.618034) % 1.0) - 1)
            shapes.append(_dot(point, x, y, place, _radius(series), at=x.at(place) + shift))
    return picture(*shapes, label=label, class_=_class(x), height=int(HEIGHT))


def bar_chart(series: Sequence[Series], x: Axis, y: Axis, label: str) -> Markup:
    """Bars of each series beside each other over the names of `x`; the points' x is the place of the name."""
    shapes = _frame(x, y)
    base = HEIGHT - BOTTOM
    width = 0.8 / max(1, len(x.names)) / max(1, len(series))
    for place, one in enumerate(series):
        for point in one.points:
            left = x.at(point.x) + (place - len(series) / 2) * width
            top = _height(point.y, y)
            bar = element(
                "rect",
                element("title", point.tip),
                x=percentage(left),
                y=top,
                width=percentage(0.94 * width),
                height=max(0.5, base - top),
                class_=f"bar {colour(place)}",
            )
            shapes.append(bar if point.href is None else element("a", bar, href=point.href))
    return picture(*shapes, label=label, class_=_class(x), height=int(HEIGHT))


def _quartiles(values: list[float]) -> tuple[float, float, float]:
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def _height(value: float, y: Axis) -> float:
    base = HEIGHT - BOTTOM
    return base - (base - TOP) * y.at(value)


def _radius(series: Sequence[Series]) -> float:
    """Smaller dots where there are many."""
    points = sum(len(one.points) for one in series)
    return 4.0 if points <= 200 else 3.0 if points <= 600 else 2.0


def _dot(
    point: Point, x: Axis, y: Axis, series: int, radius: float, *, at: float | None = None, css: str | None = None
) -> Markup:
    across = percentage(x.at(point.x) if at is None else at)
    dot = mark(series, element("title", point.tip), x=across, y=_height(point.y, y), radius=radius, css=css)
    return dot if point.href is None else element("a", dot, href=point.href)


def _frame(x: Axis, y: Axis) -> list[Markup]:
    """Grid, ticks and titles."""
    base = HEIGHT - BOTTOM
    shapes = []
    for value, text in y.marks(6):
        at = _height(value, y)
        shapes.append(element("line", x1=0, x2="100%", y1=at, y2=at, class_="gridline"))
        shapes.append(element("text", text, x=-6, y=at + 4, text_anchor="end"))
    shapes.append(element("text", y.heading, x=-6, y=12, text_anchor="start"))
    marks, slanted = x.marks(8), _crowded(x)
    for value, text in marks:
        at_x = percentage(x.at(value))
        if not x.names:
            shapes.append(element("line", x1=at_x, x2=at_x, y1=TOP, y2=base, class_="gridline"))
        shown = text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"
        if slanted:
            turned = element("text", shown, x=0, y=0, text_anchor="end", transform="rotate(-35)")
            shapes.append(element("svg", turned, x=at_x, y=base + 14, overflow="visible", class_="name"))
        else:
            shapes.append(element("text", shown, x=at_x, y=base + 16, text_anchor="middle"))
    shapes.append(element("line", x1=0, x2="100%", y1=base, y2=base, class_="axis"))
    if not slanted:
        shapes.append(element("text", x.heading, x="100%", y=base + 36, text_anchor="end"))
    return shapes


def _crowded(x: Axis) -> bool:
    """Whether names side by side would run into each other."""
    longest = max((min(len(name), LONGEST_NAME) for name in x.names), default=0)
    return len(x.names) > 1 and longest * LETTER * len(x.names) > PLOT


def _class(x: Axis) -> str:
    return "chart slanted" if _crowded(x) else "chart"
