"""Building blocks of the drawings: escaped elements, numbers, ticks.

Positions along the width are percentages wherever a drawing must follow the width of the page without scaling its
text; colours are CSS classes, so that one drawing serves light, dark and printed pages.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from importlib.resources import files

from markupsafe import Markup, escape


def coordinate(value: float) -> str:
    """Short decimal text of a coordinate."""
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


def standalone(*children: Markup, label: str, width: float, height: float, css: str = "") -> str:
    """The text of an SVG file on paper of that size; the styles of our pages and `css` stand inside."""
    style = files("topoopt.drawing").joinpath("style.css").read_text(encoding="utf-8")
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
    last = math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def tick_text(value: float, step: float) -> str:
    """A tick with the decimals its step needs."""
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    return f"{value:,.{decimals}f}"


def decade_ticks(low: float, high: float) -> list[float]:
    """Powers of ten within [low, high], for 0 < low."""
    first = math.ceil(math.log10(low) - 1e-9)
    last = math.floor(math.log10(high) + 1e-9)
    return [10.0**power for power in range(first, last + 1)]
