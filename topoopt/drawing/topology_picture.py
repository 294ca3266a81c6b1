"""The servers on a circle and the links between them, by ring distance and by utilisation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from topoopt.core.arrays import Floats
from topoopt.core.cluster import LinkDirection
from topoopt.core.routing import GroupRings
from topoopt.core.topology import Topology
from topoopt.drawing.layout import SIZE, Layout, bent, layout_of
from topoopt.drawing.svg import element, joined, picture
from topoopt.drawing.utilisation import use_class

RADIUS = 262.0
STRAIGHT = 32
"""Bigger clusters get curved chords."""
SINK = 0.65
"""How the depth of a curved chord grows with the angle between its ends."""
LABELS = 32
"""About so many servers are labelled."""
RING_COLOURS = 8


@dataclass(frozen=True)
class DrawnLink:
    """A drawn link: a fibre pair (arc both ways) or a single arc."""

    tail: int
    head: int
    distance: int
    arcs: tuple[int, ...]
    family: str


@dataclass(frozen=True)
class LegendEntry:
    """An entry of the legend."""

    css: str
    name: str
    links: int


def _distance(topology: Topology, tail: int, head: int) -> int:
    step = (head - tail) % topology.servers
    return step if topology.links is LinkDirection.UNIDIRECTIONAL else min(step, topology.servers - step)


def find_links(topology: Topology, rings: tuple[GroupRings, ...] = ()) -> tuple[DrawnLink, ...]:
    """All links with their families; `rings` are those of the AllReduce groups.

    A distance present at every server is a ring family `ring-p`. Other links are `group` where they join neighbours
    in the ring of a part of the servers, else `matching`.
    """
    n = topology.servers
    steps = Counter((int(head) - int(tail)) % n for tail, head in topology.arcs)
    full = {step for step, count in steps.items() if count == n}
    ids = topology.arc_ids()
    ringed = {
        int(ids[path[0], path[1]])
        for group in rings
        if len(group.members) < n
        for ring in group.rings
        for path in ring.paths
        if len(path) == 2
    }
    links = []
    for arc, (tail, head) in enumerate(topology.arcs.tolist()):
        back = int(ids[head, tail])
        if topology.links is LinkDirection.BIDIRECTIONAL and 0 <= back < arc:
            continue
        arcs = (arc,) if topology.links is LinkDirection.UNIDIRECTIONAL or back < 0 else (arc, back)
        distance = _distance(topology, tail, head)
        if (head - tail) % n in full or (len(arcs) == 2 and (tail - head) % n in full):
            family = f"ring-{distance}"
        else:
            family = "group" if any(index in ringed for index in arcs) else "matching"
        links.append(DrawnLink(tail, head, distance, arcs, family))
    return tuple(links)


def families(topology: Topology, links: tuple[DrawnLink, ...], rest: str = "matchings") -> tuple[LegendEntry, ...]:
    """Legend of the link families: ring distances ascending, then sub-group rings, then all others, named `rest`."""
    multiplicity = topology.multiplicity
    count: Counter[str] = Counter()
    for link in links:
        count[link.family] += int(multiplicity[list(link.arcs)].max())
    rings = sorted(int(name.removeprefix("ring-")) for name in count if name.startswith("ring-"))
    sign = "+" if topology.links is LinkDirection.UNIDIRECTIONAL else "±"
    found = [
        LegendEntry(f"k{place % RING_COLOURS}", f"ring distance {sign}{p}", count[f"ring-{p}"])
        for place, p in enumerate(rings)
    ]
    if count["group"]:
        found.append(LegendEntry("kg", "rings of server groups", count["group"]))
    if count["matching"]:
        found.append(LegendEntry("km", rest, count["matching"]))
    return tuple(found)


def label_step(n: int) -> int:
    """Every so many servers one label: 1, 2, 4, 8, ..."""
    step = 1
    while n / step > LABELS:
        step *= 2
    return step


def position(server: int, n: int, radius: float = RADIUS) -> tuple[float, float]:
    """Where a server stands on the circle, first on top and then clockwise."""
    angle = 2 * math.pi * server / n - math.pi / 2
    return SIZE / 2 + radius * math.cos(angle), SIZE / 2 + radius * math.sin(angle)


def _tip(topology: Topology, link: DrawnLink, arc_text: Callable[[int], str]) -> str:
    two_way = len(link.arcs) == 2
    parallel = int(topology.multiplicity[list(link.arcs)].max())
    lines = [f"{link.tail} {'↔' if two_way else '→'} {link.head}, distance {link.distance}"]
    if parallel > 1:
        lines[0] += f", {parallel} parallel links"
    for arc in link.arcs:
        tail, head = topology.arcs[arc]
        lines.append(f"{tail}→{head}: {arc_text(arc)}")
    return "\n".join(lines)


def topology_svg(
    topology: Topology,
    links: tuple[DrawnLink, ...],
    busy: Floats,
    arc_text: Callable[[int], str],
    classes: Callable[[float], str] = use_class,
) -> Markup:
    """The drawing; CSS decides whether family or utilisation colours the links.

    Args:
        topology: what is drawn.
        links: of `find_links`, or those of them to draw.
        busy: float64[m], utilisation of each arc, 0 to 1.
        arc_text: what a tool tip says about an arc.
        classes: colour class of a figure of `busy`.
    """
    n = topology.servers
    names = sorted({link.family for link in links if link.family.startswith("ring-")}, key=lambda text: int(text[5:]))
    colour = {name: f"k{place % RING_COLOURS}" for place, name in enumerate(names)} | {"group": "kg", "matching": "km"}
    width = 2.2 if n <= 32 else 1.4 if n <= 64 else 0.9 if n <= 256 else 0.5
    directed = topology.links is LinkDirection.UNIDIRECTIONAL and n <= 64
    layout = layout_of(topology)
    drawn = []
    # The busy ones on top, and among equals the short ones, which long ones would hide.
    order = sorted(links, key=lambda item: (classes(float(busy[list(item.arcs)].max())), -item.distance))
    for link in order:
        parallel = int(topology.multiplicity[list(link.arcs)].max())
        used = float(busy[list(link.arcs)].max())
        drawn.append(
            element(
                "path",
                element("title", _tip(topology, link, arc_text)),
                class_=f"lk {colour[link.family]} {classes(used)}",
                d=_course(link, layout, n, directed=directed),
                stroke_width=None if parallel == 1 else width * (1 + 0.9 * (parallel - 1)),
                marker_mid="url(#arrow)" if directed else None,
                data_a=link.tail,
                data_b=link.head,
            )
        )
    label = f"Topology of {n} servers" + (f", {layout.name}" if layout is not None else "")
    return on_circle(drawn, n, width, label, directed=directed, selectable=True, layout=layout)


def _course(link: DrawnLink, layout: Layout | None, n: int, *, directed: bool) -> str:
    """Path data of a link, by the layout, else as a chord of the circle."""
    if layout is None:
        start, end = position(link.tail, n), position(link.head, n)
        return _lean(*start, *end) if directed else chord(start, end, SIZE / 2, n)
    start, end = layout.places[link.tail], layout.ends[link.head]
    if directed and not layout.columns:
        return _lean(*start, *end)
    if layout.columns:
        (x1, y1), (x2, y2) = start, end
        return f"M{x1:.1f} {y1:.1f}L{(x1 + x2) / 2:.1f} {(y1 + y2) / 2:.1f}L{x2:.1f} {y2:.1f}"
    return bent(start, end, layout.places)


def on_circle(
    links: Sequence[Markup],
    n: int,
    width: float,
    label: str,
    *,
    directed: bool,
    selectable: bool = False,
    css: str = "topology",
    layout: Layout | None = None,
) -> Markup:
    """Links drawn between n servers, on a circle unless there is a layout.

    Args:
        links: paths, the lowest first.
        n: servers.
        width: of a link.
        label: what is drawn, in words.
        directed: whether paths have arrows in their middle.
        selectable: whether a server can be picked to show its links alone.
        css: classes of the picture.
        layout: where the servers stand.
    """
    dot = 11.0 if n <= 20 else 6.0 if n <= 64 else 3.0 if n <= 256 else 1.5
    nodes, labels = [], []
    for server in range(n):
        title, picked = element("title", f"server {server}"), server if selectable else None
        if layout is None:
            spots = [(position(server, n), position(server, n, RADIUS if dot > 10 else RADIUS + 18 + dot / 2))]
        else:
            both = dict.fromkeys((layout.places[server], layout.ends[server]))
            spots = [(spot, spot if dot > 10 else layout.label(spot, 9 + dot)) for spot in both]
        for (x, y), (label_x, label_y) in spots:
            nodes.append(element("circle", title, cx=x, cy=y, r=dot, data_s=picked))
            if server % label_step(n) == 0:
                text = element("text", str(server), x=label_x, y=label_y, class_="in" if dot > 10 else None)
                labels.append(text)
    marker = element("marker", element("path", d="M0 0L6 3L0 6z"), id="arrow", viewBox="0 0 6 6", refX=3, refY=3,
                     markerWidth=5, markerHeight=5, markerUnits="strokeWidth", orient="auto")  # fmt: skip
    return picture(
        element("defs", marker) if directed else Markup(""),
        element("g", joined(links), class_="links", stroke_width=width),
        element("g", joined(nodes), class_="nodes"),
        element("g", joined(labels), class_="labels"),
        label=label,
        viewBox=f"0 0 {SIZE:.0f} {SIZE:.0f}",
        class_=css if n > 8 else f"{css} small",
    )


def chord(start: tuple[float, float], end: tuple[float, float], centre: float, n: int) -> str:
    """Path data of a chord of a circle around (centre, centre).

    On a crowded circle the chord sinks towards the middle, the farther its ends the deeper: straight chords of
    different distances would all hug the rim.
    """
    (x1, y1), (x2, y2) = start, end
    if n <= STRAIGHT:
        return f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"
    middle = ((x1 + x2) / 2 - centre, (y1 + y2) / 2 - centre)
    radius = math.hypot(x1 - centre, y1 - centre)
    depth = math.hypot(*middle) / radius
    turn = math.acos(min(1.0, depth)) / (math.pi / 2)
    pull = radius * (1 - turn**SINK) / max(math.hypot(*middle), 1e-9)
    x, y = centre + middle[0] * pull, centre + middle[1] * pull
    return f"M{x1:.1f} {y1:.1f}Q{x:.1f} {y:.1f} {x2:.1f} {y2:.1f}"


def _lean(x1: float, y1: float, x2: float, y2: float) -> str:
    # A directed chord leans to its left, so that the two directions of a pair do not cover each other.
    mx, my = (x1 + x2) / 2 + (y2 - y1) * 0.06, (y1 + y2) / 2 - (x2 - x1) * 0.06
    return f"M{x1:.1f} {y1:.1f}L{mx:.1f} {my:.1f}L{x2:.1f} {y2:.1f}"


def dark_ports(topology: Topology) -> int:
    """Interfaces that send to nobody."""
    return int(np.count_nonzero(topology.switches < 0))
