"""Drawings are built of escaped SVG elements, marks of series, colours of utilisation, and raster images. Charts of
results: points and lines over two axes, sorted bars, and heat maps.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from topoopt.core.arrays import Floats
from topoopt.page.text import byte_size, number, power_of_ten


def coordinate(value: float) -> str:
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in {"", "-0"} else text


def percentage(fraction: float) -> str:
    """Coordinate as a percentage of the width."""
    text = f"{100 * fraction:.3f}".rstrip("0").rstrip(".")
    return f"{'0' if text in {'', '-0'} else text}%"


def element(name: str, *children: str | Markup, **attributes: object) -> Markup:
    """One element; text children and attribute values are escaped.

    `class_` stands for `class`, `stroke_width` for `stroke-width`; attributes of value None are left out.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None:
            continue
        text = coordinate(value) if isinstance(value, float) else str(value)
        parts.append(f' {key.rstrip("_").replace("_", "-")}="{escape(text)}"')
    if not children:
        return Markup("".join(parts) + "/>")
    inner = "".join(str(escape(child)) for child in children)
    return Markup(f"{''.join(parts)}>{inner}</{name}>")


def joined(parts: Iterable[Markup]) -> Markup:
    """Concatenation."""
    return Markup("").join(parts)


def picture(*children: Markup, label: str, **attributes: object) -> Markup:
    """An svg element with an accessible name; where its marks have titles, the keyboard goes from one to the next."""
    telling = any("<title>" in child for child in children) or "data_values" in attributes
    if not telling:
        return element("svg", *children, role="img", aria_label=label, **attributes)
    how = f"{label}; arrow keys go from mark to mark"
    return element("svg", *children, role="group", tabindex=0, aria_label=how, **attributes)


def stack(parts: Iterable[tuple[str, str, float]], height: float, y: float = 0.0) -> list[Markup]:
    """Draw parts (colour class, tip, part of the width) one behind the other; those of no size are left out."""
    shapes, at = [], 0.0
    for css, tip, share in parts:
        if share > 0:
            box = {"x": percentage(at), "y": y, "width": percentage(share), "height": height}
            shapes.append(element("rect", element("title", tip), **box, class_=css))
        at += max(share, 0.0)
    return shapes


def gauge(share: float, label: str, css: str = "wide") -> Markup:
    """Draw a figure beside others as a part of the largest."""
    track = element("rect", class_="track", width="100%", height="12")
    fill = element("rect", class_="fill", width=percentage(share), height="12")
    return element("svg", track, fill, class_=css, height="12", role="img", aria_label=label)


def standalone(*children: Markup, label: str, width: float, height: float, css: str = "") -> str:
    """The text of an SVG file on paper of that size; the styles of our pages and `css` stand inside."""
    style = files("topoopt.page").joinpath("style.css").read_text(encoding="utf-8")
    drawing = picture(
        element("style", Markup(style + css)),
        element("rect", width=width, height=height, class_="paper"),
        *children,
        label=label,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {coordinate(width)} {coordinate(height)}",
        class_="comparison",
    )
    return f"{drawing}\n"


def nice_step(span: float, target: int) -> float:
    """Step 1, 2 or 5 times a power of ten, giving at most about `target` steps in `span` > 0."""
    raw = span / max(target, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    return power * next(factor for factor in (1, 2, 5, 10) if raw <= factor * power * (1 + 1e-12))


def ticks(low: float, high: float, target: int) -> list[float]:
    """Round values within [low, high], ascending."""
    if not high > low:
        return [low]
    step = nice_step(high - low, target)
    first = math.ceil(low / step - 1e-9)
    return [index * step for index in range(first, math.floor(high / step + 1e-9) + 1)]


def tick_text(value: float, step: float) -> str:
    """A tick with the decimals its step needs."""
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    return f"{value:,.{decimals}f}"


def decade_ticks(low: float, high: float) -> list[float]:
    """Powers of ten within [low, high], for 0 < low."""
    first = math.ceil(math.log10(low) - 1e-9)
    return [10.0**power for power in range(first, math.floor(math.log10(high) + 1e-9) + 1)]


COLOURS = 8
SHAPES = 5
DASHES = 4
"""Of lines: whole, long, short, mixed; a later line is drawn over an earlier one, whose gaps it leaves open."""

CORNERS = {
    1: ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    2: ((0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)),
    3: ((0.0, -1.15), (1.1, 0.9), (-1.1, 0.9)),
    4: ((0.0, 1.15), (1.1, -0.9), (-1.1, -0.9)),
}
"""Of the shapes that are no circle, for a radius of 1."""


def colour(index: int) -> str:
    """CSS class of the n-th series."""
    return f"k{index % COLOURS}"


def dash(index: int) -> str:
    """CSS class of its line."""
    return f"dash{index % DASHES}"


def mark(
    index: int, *children: Markup, x: float | str, y: float, radius: float = 5.0, css: str | None = None
) -> Markup:
    """The mark of the n-th series at a point; colours and shapes repeat after 40.

    Args:
        index: of the series.
        children: its tip, if it has one.
        x, y: the point; `x` may be a percentage.
        radius: about half its size.
        css: classes, where not those of the series.
    """
    style = css or f"dot {colour(index)}"
    shape = index % SHAPES
    if shape == 0:
        return element("circle", *children, cx=x, cy=y, r=radius, class_=style)
    left, top = (0.0, 0.0) if isinstance(x, str) else (x, y)
    corners = "L".join(f"{coordinate(left + radius * dx)} {coordinate(top + radius * dy)}" for dx, dy in CORNERS[shape])
    drawn = element("path", *children, d=f"M{corners}z", class_=style)
    # A path has no percentages: its origin has.
    return element("svg", drawn, x=x, y=y, overflow="visible") if isinstance(x, str) else drawn


def sample(index: int, *, line: bool, dots: bool = True) -> Markup:
    """The mark in a legend, on a piece of its line if it has one; the line alone where points have no marks."""
    shown = mark(index, x=17.0 if line else 6.0, y=6.0) if dots else Markup("")
    if not line:
        return element("svg", shown, width=12, height=12, aria_hidden="true")
    piece = element("path", d="M0 6H34", class_=f"run {colour(index)} {dash(index)}")
    return element("svg", piece, shown, width=34, height=12, aria_hidden="true")


ColourClass = tuple[str, float, str, str]
"""A class of figures from 0 to 1: its colour class, its upper end, its colours on light and dark paper."""

USE_CLASSES: tuple[ColourClass, ...] = (
    ("u0", 0.2, "#cbd5dd", "#3a444f"),
    ("u1", 0.4, "#9fc3dd", "#3f6583"),
    ("u2", 0.6, "#4b97cb", "#4f9fd4"),
    ("u3", 0.8, "#e6b23c", "#e6b23c"),
    ("u4", 0.95, "#e07a1f", "#f0873a"),
    ("u5", float("inf"), "#b3261e", "#ff6b5e"),
)

SLOWDOWN_CLASSES: tuple[ColourClass, ...] = (
    ("s0", 0.2, "#ddd3e4", "#3d3347"),
    ("s1", 0.4, "#c4abd6", "#5b4570"),
    ("s2", 0.6, "#a680c2", "#7d5a9e"),
    ("s3", 0.8, "#8a55ab", "#a078c4"),
    ("s4", 0.95, "#6b2f8f", "#c39ce3"),
    ("s5", float("inf"), "#3f0a5c", "#ecd6ff"),
)
"""Of slow-downs, from none to the worst."""


def slowdown_class(part: float) -> str:
    """Colour class of a slow-down, as a part of the worst."""
    return next(css for css, up_to, *_ in SLOWDOWN_CLASSES if part <= up_to)


def use_class(utilisation: float) -> str:
    return next(css for css, up_to, *_ in USE_CLASSES if utilisation <= up_to)


def utilisation_legend() -> tuple[tuple[str, str], ...]:
    """Colour class and range of each class, the fullest last."""
    rows, low = [], 0.0
    for css, up_to, *_ in USE_CLASSES:
        rows.append((css, f">{100 * low:.0f} %" if math.isinf(up_to) else f"{100 * low:.0f}–{100 * up_to:.0f} %"))
        low = up_to
    return tuple(rows)


def use_style() -> Markup:
    """Style sheet of the classes: colours as variables, strokes of links, fills of areas."""
    both = (*USE_CLASSES, *SLOWDOWN_CLASSES)
    light = " ".join(f"--{css}: {paper};" for css, _, paper, _ in both)
    dark = " ".join(f"--{css}: {paper};" for css, _, _, paper in both)
    rules = [f":root {{ {light} }}", f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"]
    for css, *_ in both:
        strokes = f".legend .{css}, .use-colours .{css}, #by-use:checked ~ .split .links .{css}"
        rules.append(f"{strokes} {{ stroke: var(--{css}); stroke-dasharray: none; }}")
        rules.append(f".area.{css}, .cell.{css} {{ fill: var(--{css}); }}")
        rules.append(f"i.key.{css} {{ background: var(--{css}); }}")
    return Markup("\n".join(rules))  # no text of an instance is in it


def plain_style() -> str:
    """Strokes without variables, for a picture that stands in a page of others, as in a notebook."""
    return "\n".join(f".topoopt .{css} {{ stroke: {light}; }}" for css, _, light, _ in USE_CLASSES)


Colour = tuple[int, int, int]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def palette_png(index: NDArray[np.uint8], palette: list[Colour]) -> bytes:
    """Bytes of a PNG (8 bits a pixel) of `index` uint8[height, width]; colour 0 is transparent."""
    height, width = index.shape
    rows = np.zeros((height, width + 1), dtype=np.uint8)  # the first byte of a row says: not filtered
    rows[:, 1:] = index
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", bytes(channel for colour in palette for channel in colour)),
            _chunk(b"tRNS", b"\x00"),
            _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)),
            _chunk(b"IEND", b""),
        )
    )


def data_uri(png: bytes) -> str:
    """The picture as a `data:` address, so that the page needs no second file."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def ramp(stops: tuple[Colour, ...], size: int) -> list[Colour]:
    """`size` >= 2 colours at equal distances along the stops."""
    position = np.linspace(0, len(stops) - 1, size)
    table = np.array(stops, dtype=np.float64)
    channels = [np.interp(position, np.arange(len(stops)), table[:, channel]) for channel in range(3)]
    return [(int(r), int(g), int(b)) for r, g, b in np.rint(np.stack(channels, axis=1))]


MOST_DECADES = 8
"""Decades that get a tick each; beyond, every second, third, ... does."""

FEWEST_MARKS = 3
"""Fewer round ticks of a logarithmic axis are replaced by evenly spaced ones."""

LARGE = 1e6
"""From here on the title says the power of ten, and ticks of one or two decades are multiples of it."""

LEAST_SPREAD = 1e-9
"""Part of the largest value below which values differ by rounding alone."""

MARGIN = 0.05
"""Part of the span left free at both ends of a linear axis."""


@dataclass(frozen=True)
class Axis:
    """One axis.

    Attributes:
        title: quantity with its unit.
        low, high: ends.
        log: logarithmic (low above 0).
        fixed: values of the ticks and their texts, where they are not round values.
    """

    title: str
    low: float
    high: float
    log: bool = False
    fixed: tuple[tuple[float, str], ...] = ()

    def at(self, value: float) -> float:
        """Part of the distance from the low end to the high one."""
        if self.log:
            return (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (value - self.low) / (self.high - self.low)

    @property
    def power(self) -> int:
        """Of ten, by which the ticks are multiplied: a multiple of 3, 0 where they stand for themselves."""
        plain = self.high < LARGE or (self.log and len(decade_ticks(self.low, self.high)) >= 2)
        return 0 if plain or self.fixed else 3 * (math.floor(math.log10(self.high)) // 3)

    @property
    def heading(self) -> str:
        """The title, with the power of ten of the ticks: `10⁶ bytes`."""
        return f"{power_of_ten(self.power)} {self.title}" if self.power else self.title

    def marks(self, target: int) -> Sequence[tuple[float, str]]:
        """Values of the ticks, with their texts."""
        if self.fixed:
            return self.fixed
        if self.log:
            return self._log_marks()
        values, unit = ticks(self.low, self.high, target), 10.0**self.power
        step = nice_step(self.high - self.low, target)
        return [(value, tick_text(value / unit + 0.0, step / unit)) for value in values]

    def _log_marks(self) -> list[tuple[float, str]]:
        decades = decade_ticks(self.low, self.high)
        if len(decades) > MOST_DECADES:
            decades = decades[:: -(-len(decades) // MOST_DECADES)]
        if len(decades) >= 2:
            return [(value, _power_text(value)) for value in decades]
        lowest, unit = 10.0 ** math.floor(math.log10(self.low)), 10.0**self.power
        fine = [factor * scale for scale in (lowest, 10 * lowest, 100 * lowest) for factor in (1, 1.5, 2, 3, 5, 7)]
        marks = [(value, f"{value / unit:,.6g}") for value in fine if self.low <= value <= self.high]
        if len(marks) >= FEWEST_MARKS:
            return marks
        return [(value, f"{value / unit:,.6g}") for value in ticks(self.low, self.high, FEWEST_MARKS) if value > 0]


def _power_text(value: float) -> str:
    return f"{value:,.10g}" if 1e-3 <= value < 1e6 else power_of_ten(round(math.log10(value)))


def number_axis(title: str, values: Iterable[float], *, log: bool = False, zero: bool = False) -> Axis:
    """An axis that holds all values, and 0 with `zero`; logarithmic only when all are above 0."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return Axis(title, 0.0, 1.0)
    low, high = min(finite), max(finite)
    if log and low > 0:
        ratio = (high / low) ** MARGIN if high > low else 1.5
        return Axis(title, low / ratio, high * ratio, log=True)
    spread = high - low > LEAST_SPREAD * max(abs(low), abs(high))
    margin = MARGIN * (high - low) if spread else max(abs(high), 1.0) * 0.1
    bottom = 0.0 if low == 0 or (zero and low > 0) or 0 < low < 0.15 * high else low - margin
    return Axis(title, bottom, high + margin)


HEIGHT = 320.0
TOP = 26.0
BOTTOM = 44.0

LEVEL, APART = 2e-3, 0.01
"""Lines coincide where they differ by less than this part of the highest value, and of all that is shown."""


@dataclass(frozen=True)
class Point:
    """A value in a chart: position, and what is shown when pointed at."""

    x: float
    y: float
    tip: str


@dataclass(frozen=True)
class Series:
    """Points of one name; `line` joins them in order, `dots` marks each."""

    name: str
    points: tuple[Point, ...]
    line: bool = False
    dots: bool = True


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
        order.sort(key=lambda index: -series[index].points[-1].y if series[index].points else 0.0)
    values = [point.y for line in series for point in line.points]
    seen = max(values, default=0.0) - min(values, default=0.0)
    short = [name.partition(":")[0] for name in names]
    called = [word if short.count(word) == 1 else name for word, name in zip(short, names, strict=True)]
    items = []
    for index in order:
        twin = next((k for k in range(min(index, len(series))) if _coincide(series[k], series[index], seen)), None)
        text = names[index] if twin is None else f"{names[index]} (on the line of {called[twin]})"
        items.append(element("li", _sample(index, series), element("span", text)))
    return element("ul", *items, class_="legend flat")


def _sample(index: int, series: Sequence[Series]) -> Markup:
    """The mark of a series; of what is drawn in areas, which have no marks, its colour."""
    if series:
        return sample(index, line=series[index].line, dots=series[index].dots)
    return element("svg", mark(0, x=6.0, y=6.0, css=f"dot {colour(index)}"), width=12, height=12, aria_hidden="true")


def _coincide(line: Series, other: Series, seen: float) -> bool:
    """Whether two series have the same points, to what can be seen where the values of all span `seen`."""
    if not line.points or len(line.points) != len(other.points):
        return False
    high = max(abs(point.y) for point in line.points) or 1.0
    least = max(min(LEVEL * high, APART * seen), LEAST_SPREAD * high)
    return all(a.x == b.x and abs(a.y - b.y) <= least for a, b in zip(line.points, other.points, strict=True))


def xy_chart(series: Sequence[Series], x: Axis, y: Axis, label: str, *, radius: float | None = None) -> Markup:
    """Points, and lines where asked, over two axes; the size of marks follows from their number unless it is given."""
    shapes = _frame(x, y)
    for index, curve in enumerate(series):
        if curve.line and len(curve.points) > 1:
            path = "L".join(
                f"{coordinate(1000 * x.at(point.x))} {coordinate(_height(point.y, y))}" for point in curve.points
            )
            line = element("path", d=f"M{path}", class_=f"run {colour(index)} {dash(index)}")
            box = f"0 0 1000 {HEIGHT:.0f}"
            shapes.append(element("svg", line, viewBox=box, preserveAspectRatio="none", width="100%", height=HEIGHT))
    size = _radius(series) if radius is None else radius
    for index, curve in enumerate(series):
        if curve.dots:
            shapes += [_dot(point, x, y, index, size) for point in curve.points]
    return picture(*shapes, label=label, class_="chart", height=int(HEIGHT))


def _height(value: float, y: Axis) -> float:
    base = HEIGHT - BOTTOM
    return base - (base - TOP) * y.at(value)


def _radius(series: Sequence[Series]) -> float:
    points = sum(len(line.points) for line in series)
    return 4.0 if points <= 200 else 3.0 if points <= 600 else 2.0


def _dot(point: Point, x: Axis, y: Axis, series: int, radius: float) -> Markup:
    return mark(series, element("title", point.tip), x=percentage(x.at(point.x)), y=_height(point.y, y), radius=radius)


def _frame(x: Axis, y: Axis) -> list[Markup]:
    base = HEIGHT - BOTTOM
    shapes = []
    for value, text in y.marks(6):
        at = _height(value, y)
        shapes.append(element("line", x1=0, x2="100%", y1=at, y2=at, class_="gridline"))
        shapes.append(element("text", text, x=-6, y=at + 4, text_anchor="end"))
    shapes.append(element("text", y.heading, x=-6, y=12, text_anchor="start"))
    for value, text in x.marks(8):
        at_x = percentage(x.at(value))
        shapes.append(element("line", x1=at_x, x2=at_x, y1=TOP, y2=base, class_="gridline"))
        shapes.append(element("text", text, x=at_x, y=base + 16, text_anchor="middle"))
    shapes.append(element("line", x1=0, x2="100%", y1=base, y2=base, class_="axis"))
    shapes.append(element("text", x.heading, x="100%", y=base + 36, text_anchor="end"))
    return shapes


SORTED_HEIGHT = 190.0
BASE = 164.0
SORTED_TOP = 12.0


def sorted_chart(
    values: Floats,
    unit: str,
    scale: float,
    label: str,
    css: Callable[[float], str],
    of: str = "arcs, most loaded first",
) -> Markup:
    """Values in descending order as bars side by side, with their mean as a line.

    Args:
        values: at least one above 0.
        unit: of the axis.
        scale: so much of a value makes one unit.
        label: what is shown, in words.
        css: colour class of a value.
        of: what the bars are, and in which order.
    """
    ordered = np.sort(values / scale)[::-1]
    high = float(ordered[0])
    marks = ticks(0.0, high, 5)
    if marks[-1] < high * (1 - 1e-9):
        marks.append(marks[-1] + (marks[1] - marks[0] if len(marks) > 1 else high))
    top_value = marks[-1]

    def height(value: float) -> float:
        return BASE - (BASE - SORTED_TOP) * value / top_value

    grid = []
    step = marks[1] - marks[0]
    for tick in marks:
        y = height(tick)
        grid.append(element("line", x1=0, x2="100%", y1=y, y2=y, class_="gridline"))
        grid.append(element("text", tick_text(tick, step), x=-6, y=y + 4, text_anchor="end"))
    count = len(ordered)
    outlines: dict[str, list[str]] = {}
    ends = [*(np.flatnonzero(np.diff(ordered)) + 1).tolist(), count]
    for index, end in zip([0, *ends], ends, strict=False):
        level, left = coordinate(height(float(ordered[index]))), coordinate(1000 * index / count)
        outline = outlines.setdefault(css(float(ordered[index]) * scale), [f"M{left} {coordinate(BASE)}"])
        outline.append(f"L{left} {level}H{coordinate(1000 * end / count)}")
    plot = element(
        "svg",
        *(
            element("path", d="".join([*parts, f"V{coordinate(BASE)}z"]), class_=f"area {name}")
            for name, parts in outlines.items()
        ),
        viewBox=f"0 0 1000 {SORTED_HEIGHT:.0f}",
        preserveAspectRatio="none",
        width="100%",
        height=SORTED_HEIGHT,
    )
    mean = float(ordered.mean())
    return picture(
        joined(grid),
        plot,
        element("line", x1=0, x2="100%", y1=height(mean), y2=height(mean), class_="mean"),
        element("text", f"mean {number(mean)} {unit}", x="100%", y=height(mean) - 5, text_anchor="end", class_="halo"),
        element("line", x1=0, x2="100%", y1=BASE, y2=BASE, class_="axis"),
        element("text", "1", x=0, y=BASE + 15),
        element("text", of, x="50%", y=BASE + 15, text_anchor="middle"),
        element("text", f"{count:,}", x="100%", y=BASE + 15, text_anchor="end"),
        label=label,
        class_="chart",
        height=int(SORTED_HEIGHT),
    )


MAX_CELLS = 256
"""Bigger matrices are summed in square blocks down to at most so many rows."""


LEVELS = 255
DECADES = 4
"""Depth of the logarithmic scale below the largest cell."""

LOGARITHMIC, LINEAR = ("scale-log", "scale-lin")
"""What the style sheet calls them."""


STOPS: tuple[Colour, ...] = ((223, 239, 214), (140, 203, 181), (63, 151, 182), (42, 90, 155), (27, 31, 94))
"""Light to dark, distinct for the colour-blind; dark pages invert the picture."""


SIDE = 400.0
LEFT = 46.0
PLOT_TOP = 34.0


def in_blocks(matrix: Floats, most: int = MAX_CELLS) -> tuple[Floats, int]:
    """The matrix summed over square blocks so that at most `most` rows remain, and the servers a block."""
    n = len(matrix)
    block = -(-n // most)
    if block <= 1:
        return matrix, 1
    starts = np.arange(0, n, block)
    return np.add.reduceat(np.add.reduceat(matrix, starts, axis=0), starts, axis=1), block


def scale_range(matrix: Floats, logarithmic: bool) -> tuple[float, float]:
    """Values at the two ends of the colour scale, for a matrix with at least one positive cell."""
    high = float(matrix.max())
    if not logarithmic:
        return 0.0, high
    return max(float(matrix[matrix > 0].min()), high / 10.0**DECADES), high


def colour_index(matrix: Floats, logarithmic: bool) -> NDArray[np.uint8]:
    """Palette index of every cell: 0 for no traffic, 1..255 along the scale."""
    low, high = scale_range(matrix, logarithmic)
    index = np.zeros(matrix.shape, dtype=np.uint8)
    some = matrix > 0
    if logarithmic:
        shade = np.log(np.maximum(matrix[some], low) / low) / np.log(high / low) if high > low else np.ones(some.sum())
    else:
        shade = matrix[some] / high
    index[some] = 1 + np.rint(np.clip(shade, 0, 1) * (LEVELS - 1)).astype(np.uint8)
    return index


def _axis(n: int) -> Markup:
    step = 1
    while n / step > (16 if n <= 100 else 12):
        step *= 2
    cell = SIDE / n
    labels = []
    for server in range(0, n, step):
        at = (server + 0.5) * cell
        labels.append(element("text", str(server), x=LEFT + at, y=PLOT_TOP - 7, text_anchor="middle"))
        labels.append(element("text", str(server), x=LEFT - 6, y=PLOT_TOP + at + 4, text_anchor="end"))
    middle = PLOT_TOP + SIDE / 2
    turned = element("text", "sender", x=10, y=middle, text_anchor="middle", transform=f"rotate(-90 10 {middle:.0f})")
    return joined([*labels, element("text", "receiver", x=LEFT + SIDE / 2, y=11, text_anchor="middle"), turned])


def _legend(matrix: Floats, logarithmic: bool, text_of: Callable[[float], str]) -> Markup:
    low, high = scale_range(matrix, logarithmic)
    middle = (low * high) ** 0.5 if logarithmic else high / 2
    top = PLOT_TOP + SIDE + 14
    strip = palette_png(np.arange(1, LEVELS + 1, dtype=np.uint8)[None, :], [(0, 0, 0), *ramp(STOPS, LEVELS)])
    marks = ((low, 0.0, "start"), (middle, 0.5, "middle"), (high, 1.0, "end")) if high > low else ((high, 1.0, "end"),)
    texts = [
        element("text", text_of(value), x=LEFT + SIDE * shade, y=top + 26, text_anchor=anchor)
        for value, shade, anchor in marks
    ]
    image = element("image", href=data_uri(strip), x=LEFT, y=top, width=SIDE, height=10.0, preserveAspectRatio="none")
    return joined([image, *texts])


def intensity_plot(
    matrix: Floats,
    title: str,
    unit: str = "bytes",
    text_of: Callable[[float], str] = byte_size,
    scale: str = LOGARITHMIC,
) -> Markup:
    """Picture of a matrix with at least one positive cell.

    Args:
        matrix: float64[n, n], sender by receiver.
        title: what it is.
        unit: of a cell, for the tool tips.
        text_of: a value as text, for the scale.
        scale: of the colours, `LOGARITHMIC` or `LINEAR`.
    """
    n = len(matrix)
    cells, block = in_blocks(matrix)
    logarithmic = scale == LOGARITHMIC
    uri = data_uri(palette_png(colour_index(cells, logarithmic), [(0, 0, 0), *ramp(STOPS, LEVELS)]))
    image = element("image", href=uri, x=LEFT, y=PLOT_TOP, width=SIDE, height=SIDE, preserveAspectRatio="none")
    grid = Markup("")
    if n <= 32:
        lines = "".join(
            f"M{LEFT + i * SIDE / n:.1f} {PLOT_TOP:.0f}v{SIDE:.0f}M{LEFT:.0f} {PLOT_TOP + i * SIDE / n:.1f}h{SIDE:.0f}"
            for i in range(1, n)
        )
        grid = element("path", d=lines, class_="grid")
    frame = element("rect", x=LEFT, y=PLOT_TOP, width=SIDE, height=SIDE, class_="frame")
    return picture(
        element("g", image, _legend(cells, logarithmic, text_of), class_=scale),
        grid,
        frame,
        element("rect", x=LEFT, y=PLOT_TOP, width=SIDE, height=SIDE, class_="catch"),
        _axis(n),
        label=f"{title}: {unit} from sender (row) to receiver (column)",
        viewBox=f"0 0 {LEFT + SIDE + 8:.0f} {PLOT_TOP + SIDE + 48:.0f}",
        class_="heat",
        data_rows=len(cells),
        data_block=block,
        data_servers=n,
        data_unit=unit,
        data_values=base64.b64encode(cells.astype("<f4").tobytes()).decode("ascii"),
    )
