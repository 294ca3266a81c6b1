"""Drawings are built of escaped SVG elements, marks of series, colours of utilisation, and raster images."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Iterable
from importlib.resources import files

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray


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


def plain_style(scope: str) -> str:
    """Strokes without variables, for a picture that stands in a page of others, as in a notebook."""
    return "\n".join(f"{scope} .{css} {{ stroke: {light}; }}" for css, _, light, _ in USE_CLASSES)


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
