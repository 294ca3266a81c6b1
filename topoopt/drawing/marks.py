"""Marks of series: a colour, a shape and a dash for each, which tell lines that coincide apart, without colour too."""

from __future__ import annotations

from markupsafe import Markup

from topoopt.drawing.svg import coordinate, element

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


def colour(place: int) -> str:
    """CSS class of the n-th series."""
    return f"k{place % COLOURS}"


def dash(place: int) -> str:
    """CSS class of its line."""
    return f"dash{place % DASHES}"


def mark(
    place: int, *children: Markup, x: float | str, y: float, radius: float = 5.0, css: str | None = None
) -> Markup:
    """The mark of the n-th series at a point; colours and shapes repeat after 40.

    Args:
        place: of the series.
        children: its tip, if it has one.
        x, y: the point; `x` may be a percentage.
        radius: about half its size.
        css: classes, where not those of the series.
    """
    style = css or f"dot {colour(place)}"
    shape = place % SHAPES
    if shape == 0:
        return element("circle", *children, cx=x, cy=y, r=radius, class_=style)
    left, top = (0.0, 0.0) if isinstance(x, str) else (x, y)
    corners = "L".join(f"{coordinate(left + radius * dx)} {coordinate(top + radius * dy)}" for dx, dy in CORNERS[shape])
    drawn = element("path", *children, d=f"M{corners}z", class_=style)
    # A path has no percentages: its origin has.
    return element("svg", drawn, x=x, y=y, overflow="visible") if isinstance(x, str) else drawn


def sample(place: int, *, line: bool, dots: bool = True) -> Markup:
    """The mark in a legend, on a piece of its line if it has one; the line alone where points have no marks."""
    shown = mark(place, x=17.0 if line else 6.0, y=6.0) if dots else Markup("")
    if not line:
        return element("svg", shown, width=12, height=12, aria_hidden="true")
    piece = element("path", d="M0 6H34", class_=f"run {colour(place)} {dash(place)}")
    return element("svg", piece, shown, width=34, height=12, aria_hidden="true")
