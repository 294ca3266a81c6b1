"""The network on a circle, with the limiting cut coloured."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from topoopt.core.arrays import Floats
from topoopt.core.collective_solution import CollectiveSolution
from topoopt.drawing.format import number, percent
from topoopt.drawing.layout import SIZE
from topoopt.drawing.svg import element, joined, picture
from topoopt.drawing.topology_picture import RADIUS, chord, label_step, position
from topoopt.drawing.utilisation import use_class


def places(solution: CollectiveSolution) -> list[tuple[float, float]]:
    """Where every node stands: ranks on a circle, switches inside it, over the ranks they join."""
    network = solution.network
    ranks = network.ranks
    place = {int(rank): position(k, len(ranks)) for k, rank in enumerate(ranks)}
    for switch in np.flatnonzero(network.is_switch).tolist():
        near = [int(end) for arc in network.arcs.tolist() if switch in arc for end in arc if int(end) in place]
        near = [node for node in near if not network.is_switch[node]]
        x = sum(place[node][0] for node in near) / max(len(near), 1) if near else SIZE / 2
        y = sum(place[node][1] for node in near) / max(len(near), 1) if near else SIZE / 2
        place[switch] = (SIZE / 2 + (x - SIZE / 2) * 0.8, SIZE / 2 + (y - SIZE / 2) * 0.8)
    return [place[node] for node in range(network.nodes)]


def side(x: float) -> str | None:
    """CSS class of a label by its place: texts beside the circle grow away from it."""
    beside = (x - SIZE / 2) / RADIUS
    return None if abs(beside) < 0.2 else "rightward" if beside > 0 else "leftward"


def network_picture(solution: CollectiveSolution, busy: Floats) -> Markup:
    """Links by how long they are in use; nodes inside the limiting cut filled, its links drawn bold."""
    network, where = solution.network, places(solution)
    inside = np.zeros(network.nodes, dtype=np.bool_)
    inside[list(solution.proof.cut)] = True
    tails, heads = network.arcs[:, 0], network.arcs[:, 1]
    crossing = inside[tails] & ~inside[heads]
    if solution.collective.value in ("reduce-scatter", "reduce"):
        crossing = inside[heads] & ~inside[tails]
    n = len(network.ranks)
    width = 2.0 if n <= 32 else 1.2 if n <= 64 else 0.7
    drawn = []
    for arc in sorted(range(len(tails)), key=lambda a: (bool(crossing[a]), float(busy[a]), a)):
        tail, head = int(tails[arc]), int(heads[arc])
        text = (
            f"{network.names[tail]} → {network.names[head]}: {number(float(network.gbytes_per_s[arc]))} GB/s, "
            f"in use {percent(float(busy[arc]))} of the time"
        )
        straight = bool(network.is_switch[tail] or network.is_switch[head])
        (x1, y1), (x2, y2) = where[tail], where[head]
        drawn.append(
            element(
                "path",
                element("title", text),
                class_=f"lk {use_class(float(busy[arc]))}" + (" cut" if crossing[arc] else ""),
                d=f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" if straight else chord((x1, y1), (x2, y2), SIZE / 2, n),
            )
        )
    dot = 10.0 if n <= 20 else 6.0 if n <= 64 else 3.0 if n <= 256 else 1.5
    nodes, labels = [], []
    for node, (x, y) in enumerate(where):
        css = "inside" if inside[node] else None
        title = element("title", network.names[node])
        if network.is_switch[node]:
            nodes.append(element("rect", title, x=x - dot, y=y - dot, width=2 * dot, height=2 * dot, class_=css))
        else:
            nodes.append(element("circle", title, cx=x, cy=y, r=dot, class_=css))
    for k, rank in enumerate(network.ranks.tolist()):
        if k % label_step(n) == 0:
            x, y = position(k, n, RADIUS + 18 + dot / 2)
            labels.append(element("text", network.names[rank][:10], x=x, y=y, class_=side(x)))
    return picture(
        element("g", joined(drawn), class_="links", stroke_width=width),
        element("g", joined(nodes), class_="nodes"),
        element("g", joined(labels), class_="labels"),
        label=f"Network of {n} ranks with the limiting cut",
        viewBox=f"-60 -10 {SIZE + 120:.0f} {SIZE + 20:.0f}",
        class_="topology use-colours",
    )
