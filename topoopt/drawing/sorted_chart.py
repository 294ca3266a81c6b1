"""Values of many arcs, sorted, as bars side by side."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from markupsafe import Markup

from topoopt.core.arrays import Floats
from topoopt.drawing.format import number
from topoopt.drawing.svg import coordinate, element, joined, picture, tick_text, ticks

HEIGHT = 190.0
BASE = 164.0
TOP = 12.0


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
        return BASE - (BASE - TOP) * value / top_value

    grid = []
    step = marks[1] - marks[0]
    for mark in marks:
        y = height(mark)
        grid.append(element("line", x1=0, x2="100%", y1=y, y2=y, class_="gridline"))
        grid.append(element("text", tick_text(mark, step), x=-6, y=y + 4, text_anchor="end"))
    count = len(ordered)
    outlines: dict[str, list[str]] = {}
    ends = [*(np.flatnonzero(np.diff(ordered)) + 1).tolist(), count]
    for place, end in zip([0, *ends], ends, strict=False):
        level, left = coordinate(height(float(ordered[place]))), coordinate(1000 * place / count)
        outline = outlines.setdefault(css(float(ordered[place]) * scale), [f"M{left} {coordinate(BASE)}"])
        outline.append(f"L{left} {level}H{coordinate(1000 * end / count)}")
    plot = element(
        "svg",
        *(
            element("path", d="".join([*parts, f"V{coordinate(BASE)}z"]), class_=f"area {name}")
            for name, parts in outlines.items()
        ),
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
        element("text", of, x="50%", y=BASE + 15, text_anchor="middle"),
        element("text", f"{count:,}", x="100%", y=BASE + 15, text_anchor="end"),
        label=label,
        class_="chart",
        height=int(HEIGHT),
    )
