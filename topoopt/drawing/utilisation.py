"""The colours of utilisation, one table for every kind: the part of what a link, or a server, could do that it does.

Where a demand is larger than what the links carry, utilisation is that of the demand scaled down until the busiest link
is just full. Slow-downs by a failure are something else, and have colours of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup


@dataclass(frozen=True)
class ColourClass:
    """A class of figures from 0 to 1: its colour class, its upper end, its colours on light and dark paper."""

    css: str
    up_to: float
    light: str
    dark: str


USE_CLASSES = (
    ColourClass("u0", 0.2, "#cbd5dd", "#3a444f"),
    ColourClass("u1", 0.4, "#9fc3dd", "#3f6583"),
    ColourClass("u2", 0.6, "#4b97cb", "#4f9fd4"),
    ColourClass("u3", 0.8, "#e6b23c", "#e6b23c"),
    ColourClass("u4", 0.95, "#e07a1f", "#f0873a"),
    ColourClass("u5", float("inf"), "#b3261e", "#ff6b5e"),
)

SLOWDOWN_CLASSES = (
    ColourClass("s0", 0.2, "#ddd3e4", "#3d3347"),
    ColourClass("s1", 0.4, "#c4abd6", "#5b4570"),
    ColourClass("s2", 0.6, "#a680c2", "#7d5a9e"),
    ColourClass("s3", 0.8, "#8a55ab", "#a078c4"),
    ColourClass("s4", 0.95, "#6b2f8f", "#c39ce3"),
    ColourClass("s5", float("inf"), "#3f0a5c", "#ecd6ff"),
)
"""Of slow-downs, from none to the worst."""


def slowdown_class(part: float) -> str:
    """Colour class of a slow-down, as a part of the worst."""
    return next(one.css for one in SLOWDOWN_CLASSES if part <= one.up_to)


def use_class(utilisation: float) -> str:
    """Colour class of a utilisation."""
    return next(one.css for one in USE_CLASSES if utilisation <= one.up_to)


def utilisation_legend() -> tuple[tuple[str, str], ...]:
    """Colour class and range of each class, the fullest last."""
    rows, low = [], 0.0
    for one in USE_CLASSES:
        last = one is USE_CLASSES[-1]
        rows.append((one.css, f">{100 * low:.0f} %" if last else f"{100 * low:.0f}–{100 * one.up_to:.0f} %"))
        low = one.up_to
    return tuple(rows)


def use_style() -> Markup:
    """Style sheet of the classes: colours as variables, strokes of links, fills of areas."""
    both = (*USE_CLASSES, *SLOWDOWN_CLASSES)
    light = " ".join(f"--{one.css}: {one.light};" for one in both)
    dark = " ".join(f"--{one.css}: {one.dark};" for one in both)
    rules = [f":root {{ {light} }}", f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"]
    for one in both:
        strokes = f".legend .{one.css}, .use-colours .{one.css}, #by-use:checked ~ .split .links .{one.css}"
        rules.append(f"{strokes} {{ stroke: var(--{one.css}); stroke-dasharray: none; }}")
        rules.append(f".area.{one.css}, .cell.{one.css} {{ fill: var(--{one.css}); }}")
        rules.append(f"i.key.{one.css} {{ background: var(--{one.css}); }}")
    return Markup("\n".join(rules))  # no text of an instance is in it


def plain_style(scope: str) -> str:
    """Strokes without variables, for a picture that stands in a page of others, as in a notebook."""
    return "\n".join(f"{scope} .{one.css} {{ stroke: {one.light}; }}" for one in USE_CLASSES)
