"""The servers on a circle and the links between them, coloured by how full they are."""

from __future__ import annotations

from markupsafe import Markup

from topoopt.core.allocation_solution import AllocationSolution
from topoopt.drawing.format import number, percent
from topoopt.drawing.layout import SIZE, Layout, bent, layout_of
from topoopt.drawing.svg import element
from topoopt.drawing.topology_picture import chord, on_circle, position
from topoopt.drawing.utilisation import use_class

LEAN = 0.06
"""Sideways bend of a drawn arc, as a part of its length, so that the two directions of a pair lie apart."""

BENT = 64
"""Larger networks are drawn without arrows."""


def _bent(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x1, y1), (x2, y2) = start, end
    x, y = (x1 + x2) / 2 + (y2 - y1) * 2 * LEAN, (y1 + y2) / 2 - (x2 - x1) * 2 * LEAN
    # two halves of a curve with a corner in the middle, where the arrow goes
    mx, my = (x1 + x2) / 4 + x / 2, (y1 + y2) / 4 + y / 2
    return (
        f"M{x1:.1f} {y1:.1f}Q{(x1 + x) / 2:.1f} {(y1 + y) / 2:.1f} {mx:.1f} {my:.1f}"
        f"Q{(x + x2) / 2:.1f} {(y + y2) / 2:.1f} {x2:.1f} {y2:.1f}"
    )


def _course(
    start: tuple[float, float], end: tuple[float, float], layout: Layout | None, n: int, *, directed: bool
) -> str:
    if directed:
        return _bent(start, end)
    return chord(start, end, SIZE / 2, n) if layout is None else bent(start, end, layout.places)


def link_picture(solution: AllocationSolution) -> Markup:
    """One line an arc; the fullest ones on top."""
    topology, use = solution.topology, solution.utilisation
    n = topology.servers
    width = 2.6 if n <= 32 else 1.4 if n <= 64 else 0.9 if n <= 256 else 0.5
    directed = n <= BENT
    layout = layout_of(topology)
    drawn = []
    for arc in sorted(range(len(topology.arcs)), key=lambda a: (use_class(float(use[a])), a)):
        tail, head = (int(end) for end in topology.arcs[arc])
        ends = position(tail, n), position(head, n)
        if layout is not None:
            ends = layout.places[tail], layout.ends[head]
        tip = (
            f"{tail} → {head}: {number(float(solution.link_gbps[arc]))} of "
            f"{number(float(solution.capacity_gbps[arc]))} Gbit/s, {percent(float(use[arc]))}"
        )
        drawn.append(
            element(
                "path",
                element("title", tip),
                class_=f"lk {use_class(float(use[arc]))}",
                d=_course(*ends, layout, n, directed=directed),
                marker_mid="url(#arrow)" if directed else None,
            )
        )
    label = f"Links of {n} servers by utilisation"
    return on_circle(drawn, n, width, label, directed=directed, css="topology use-colours", layout=layout)
