"""Nodes on a circle, and as many lines between two of them as they have circuits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from topoopt.drawing.layout import SIZE
from topoopt.drawing.svg import element, joined, picture
from topoopt.drawing.topology_picture import RADIUS, label_step, position
from topoopt.drawing.utilisation import use_class

MOST_LINES = 8
"""More circuits of one pair are drawn as so many lines."""


@dataclass(frozen=True)
class DrawnCircuits:
    """Circuits of a pair.

    Attributes:
        one, other: nodes.
        count: of them.
        share: part of the time in use, which is their colour.
        text: what is shown when pointed at.
    """

    one: int
    other: int
    count: int
    share: float
    text: str


def circle_of_circuits(circuits: Sequence[DrawnCircuits], tips: Sequence[str], label: str) -> Markup:
    """The picture.

    Args:
        tips: of each node.
        label: for those who cannot see it.
    """
    drawn, nodes, labels, n = [], [], [], len(tips)
    apart = 5.0 if n <= 16 else 3.0
    for each in circuits:
        (x1, y1), (x2, y2) = position(each.one, n), position(each.other, n)
        long = math.hypot(x2 - x1, y2 - y1) or 1.0
        lines = min(each.count, MOST_LINES)
        for k in range(lines):
            by = apart * (k - (lines - 1) / 2)
            dx, dy = -(y2 - y1) / long * by, (x2 - x1) / long * by
            path = f"M{x1 + dx:.1f} {y1 + dy:.1f}L{x2 + dx:.1f} {y2 + dy:.1f}"
            drawn.append(element("path", element("title", each.text), class_=f"lk {use_class(each.share)}", d=path))
    dot = 16.0 if n <= 16 else 8.0 if n <= 64 else 3.0
    for node, tip in enumerate(tips):
        x, y = position(node, n)
        nodes.append(element("circle", element("title", tip), cx=x, cy=y, r=dot))
        if node % label_step(n) == 0:
            x, y = position(node, n, RADIUS + 18 + dot / 2)
            labels.append(element("text", str(node), x=x, y=y))
    return picture(
        element("g", joined(drawn), class_="links", stroke_width=2.2 if n <= 16 else 1.2),
        element("g", joined(nodes), class_="nodes"),
        element("g", joined(labels), class_="labels"),
        label=label,
        viewBox=f"-30 -10 {SIZE + 60:.0f} {SIZE + 20:.0f}",
        class_="topology use-colours",
    )
