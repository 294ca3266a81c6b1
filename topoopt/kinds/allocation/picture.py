"""The servers on a circle and the links between them, coloured by how full they are."""

from __future__ import annotations

import math

from markupsafe import Markup

from topoopt.core.allocation_solution import AllocationSolution
from topoopt.drawing.format import number, percent
from topoopt.drawing.svg import element, joined, picture
from topoopt.drawing.topology_picture import RADIUS, SIZE, chord, label_step, use_class

LEAN = 0.06
"""Sideways bend of a drawn arc, as a part of its length, so that the two directions of a pair lie apart."""

BENT = 64
"""Larger networks are drawn without arrows."""


def _position(server: int, n: int, radius: float) -> tuple[float, float]:
    angle = 2 * math.pi * server / n - math.pi / 2
    return SIZE / 2 + radius * math.cos(angle), SIZE / 2 + radius * math.sin(angle)


def _bent(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x1, y1), (x2, y2) = start, end
    x, y = (x1 + x2) / 2 + (y2 - y1) * 2 * LEAN, (y1 + y2) / 2 - (x2 - x1) * 2 * LEAN
    # two halves of a curve with a corner in the middle, where the arrow goes
    mx, my = (x1 + x2) / 4 + x / 2, (y1 + y2) / 4 + y / 2
    return (
        f"M{x1:.1f} {y1:.1f}Q{(x1 + x) / 2:.1f} {(y1 + y) / 2:.1f} {mx:.1f} {my:.1f}"
        f"Q{(x + x2) / 2:.1f} {(y + y2) / 2:.1f} {x2:.1f} {y2:.1f}"
    )


def link_picture(solution: AllocationSolution) -> Markup:
    """One line an arc; the fullest ones on top."""
    topology, use = solution.topology, solution.utilisation
    n = topology.servers
    width = 2.6 if n <= 32 else 1.4 if n <= 64 else 0.9 if n <= 256 else 0.5
    dot = 11.0 if n <= 20 else 6.0 if n <= 64 else 3.0 if n <= 256 else 1.5
    directed = n <= BENT
    drawn = []
    for arc in sorted(range(len(topology.arcs)), key=lambda a: (use_class(float(use[a])), a)):
        tail, head = (int(end) for end in topology.arcs[arc])
        ends = _position(tail, n, RADIUS), _position(head, n, RADIUS)
        tip = (
            f"{tail} → {head}: {number(float(solution.link_gbps[arc]))} of "
            f"{number(float(solution.capacity_gbps[arc]))} Gbit/s, {percent(float(use[arc]))}"
        )
        drawn.append(
            element(
                "path",
                element("title", tip),
                class_=f"lk {use_class(float(use[arc]))}",
                d=_bent(*ends) if directed else chord(*ends, SIZE / 2, n),
                marker_mid="url(#arrow)" if directed else None,
            )
        )
    nodes, labels = [], []
    for server in range(n):
        x, y = _position(server, n, RADIUS)
        nodes.append(element("circle", element("title", f"server {server}"), cx=x, cy=y, r=dot))
        if server % label_step(n) == 0:
            x, y = _position(server, n, RADIUS if dot > 10 else RADIUS + 18 + dot / 2)
            labels.append(element("text", str(server), x=x, y=y, class_="in" if dot > 10 else None))
    marker = element("marker", element("path", d="M0 0L6 3L0 6z"), id="arrow", viewBox="0 0 6 6", refX=3, refY=3,
                     markerWidth=5, markerHeight=5, markerUnits="strokeWidth", orient="auto")  # fmt: skip
    return picture(
        element("defs", marker) if directed else Markup(""),
        element("g", joined(drawn), class_="links", stroke_width=width),
        element("g", joined(nodes), class_="nodes"),
        element("g", joined(labels), class_="labels"),
        label=f"Links of {n} servers by utilisation",
        viewBox=f"0 0 {SIZE:.0f} {SIZE:.0f}",
        class_="topology use-colours" if n > 8 else "topology use-colours small",
    )
