"""Values of many arcs, sorted, as bars side by side."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from topoopt.core.arrays import Floats
from topoopt.drawing.format import number
from topoopt.drawing.svg import coordinate, element, joined, picture, tick_text, ticks

HEIGHT = 190.0
BASE = 164.0
TOP = 12.0


def sorted_chart(values: Floats, unit: str, scale: float, label: str, css: str) -> Markup:
    """Values in descending order as bars side by side, with their mean as a line; `scale` values make one unit."""
    ordered = np.sort(values / scale)[::-1]
    high = float(ordered[0])
    marks = ticks(0.0, high, 5)
    if marks[-1] < high * (1 - 1e-9):
        marks.append(marks[-1] + (marks[1] - marks[0] if len(marks) > 1 else high))
    top_value = marks[-1]

    def height(value: float) -> float:
        return BASE - (BASE - TOP) * value / top_value

    grid = []
    step = marks[1] - marks[0]
    for mark in marks:
        y = height(mark)
        grid.append(element("line", x1=0, x2="100%", y1=y, y2=y, class_="gridline"))
        grid.append(element("text", tick_text(mark, step), x=-6, y=y + 4, text_anchor="end"))
    count = len(ordered)
    outline = [f"M0 {coordinate(BASE)}"]
    ends = [*(np.flatnonzero(np.diff(ordered)) + 1).tolist(), count]
    for place, end in zip([0, *ends], ends, strict=False):
        level = coordinate(height(float(ordered[place])))
        outline.append(f"L{coordinate(1000 * place / count)} {level}H{coordinate(1000 * end / count)}")
    outline.append(f"V{coordinate(BASE)}z")
    plot = element(
        "svg",
        element("path", d="".join(outline), class_=css),
        viewBox=f"0 0 1000 {HEIGHT:.0f}",
        preserveAspectRatio="none",
        width="100%",
        height=HEIGHT,
    )
    mean = float(ordered.mean())
    return picture(
        joined(grid),
        plot,
        element("line", x1=0, x2="100%", y1=height(mean), y2=height(mean), class_="mean"),
        element("text", f"mean {number(mean)} {unit}", x="100%", y=height(mean) - 5, text_anchor="end", class_="halo"),
        element("line", x1=0, x2="100%", y1=BASE, y2=BASE, class_="axis"),
        element("text", "1", x=0, y=BASE + 15),
        element("text", "arcs, most loaded first", x="50%", y=BASE + 15, text_anchor="middle"),
        element("text", f"{count:,}", x="100%", y=BASE + 15, text_anchor="end"),
        label=label,
        class_="chart",
        height=int(HEIGHT),
    )
