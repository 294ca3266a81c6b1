"""Networks are drawn by their nodes, links, circuits and optical switches; their distances stand beside."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.topology import RingBox, Symmetry, Topology, boxes_of, kautz_arcs, reachable_from, translations
from topoopt.core.workload import GroupRings
from topoopt.page.charts import LINEAR, element, intensity_plot, joined, picture, use_class
from topoopt.page.text import counted, percent

SIZE = 620.0
"""Width and height of the picture."""
EDGE = 40.0
MOST_DRAWN = 64
"""Nodes of a drawing with links; of more there is the adjacency matrix."""
SLANT = (0.34, -0.22)
"""Where the next layer of a third axis stands, in steps of the first two."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Layout:
    """Places of the servers.

    Attributes:
        name: of the family, for people.
        places: of each server, within a square of `SIZE`.
        ends: of a graph drawn as two columns the places where its links end; the same as `places` for others.
    """

    name: str
    places: tuple[Point, ...]
    ends: tuple[Point, ...]

    @property
    def columns(self) -> bool:
        """Whether links end in a column of their own."""
        return self.places != self.ends

    def label(self, spot: Point, away: float) -> Point:
        """Where the name of a server goes that does not fit into its dot: above it, of columns beside them."""
        x, y = spot
        if not self.columns:
            return x, y - away
        return (x - away if x < SIZE / 2 else x + away), y


def layout_of(topology: Topology) -> Layout | None:
    """How a topology is drawn; None: on a circle."""
    n = topology.servers
    if not 4 <= n <= MOST_DRAWN:
        return None
    links = {(int(tail), int(head)) for tail, head in topology.arcs}
    own = {head for tail, head in links if tail == 0}
    for dims in _shapes(n):
        for wrapped, name in ((True, "torus"), (False, "grid")):
            if _first_row(dims, wrapped=wrapped) == own and links == _lattice_links(dims, wrapped=wrapped):
                cube = wrapped and set(dims) == {2}
                text = f"hypercube of {len(dims)} dimensions" if cube else f"{name} {' × '.join(map(str, dims))}"
                places = _fitted(_lattice_places(dims))
                return Layout(text, places, places)
    degree = topology.degree
    if 2 <= degree < n and any(
        links == {(int(tail), int(head)) for tail, head in kautz_arcs(n, degree, joined=joined)}
        for joined in (True, False)
    ):
        return Layout(f"generalized Kautz graph of degree {degree}", _column(n, EDGE), _column(n, SIZE - EDGE))
    return None


def _shapes(n: int) -> Iterator[tuple[int, ...]]:
    """Lengths of two axes or more whose product is n, few axes first."""
    return (dims for dims in sorted(_factored(n), key=len) if len(dims) > 1)


def _factored(n: int) -> Iterator[tuple[int, ...]]:
    yield (n,)
    for first in range(2, n // 2 + 1):
        if n % first == 0:
            yield from ((first, *rest) for rest in _factored(n // first))


def _numbers(dims: Sequence[int]) -> list[tuple[int, ...]]:
    """Coordinates of every server, the last axis the fastest."""
    return list(itertools.product(*(range(length) for length in dims)))


def _first_row(dims: Sequence[int], *, wrapped: bool) -> set[int]:
    """Neighbours of server 0: told at once, before all links are."""
    strides = [math.prod(dims[axis + 1 :]) for axis in range(len(dims))]
    firsts = {stride for stride, length in zip(strides, dims, strict=True) if length > 1}
    if wrapped:
        firsts |= {(length - 1) * stride for stride, length in zip(strides, dims, strict=True)}
    return firsts


def _lattice_links(dims: Sequence[int], *, wrapped: bool) -> set[tuple[int, int]]:
    """Links between neighbours on every axis; on an axis of two the way round is the same link."""
    points = _numbers(dims)
    number = {point: index for index, point in enumerate(points)}
    links = set()
    for point in points:
        for axis, length in enumerate(dims):
            step = point[axis] + 1
            if step == length and not wrapped:
                continue
            other = (*point[:axis], step % length, *point[axis + 1 :])
            links |= {(number[point], number[other]), (number[other], number[point])}
    return links


def _lattice_places(dims: Sequence[int]) -> list[Point]:
    """Axes in turn to the right, down, and slanted; a fourth and fifth begin again, farther apart."""
    steps: list[Point] = []
    right, down = 1.0, 1.0
    for index, length in enumerate(reversed(dims)):
        if index % 3 == 0:
            steps.append((right, 0.0))
            right *= length + 0.6
        elif index % 3 == 1:
            steps.append((0.0, down))
            down *= length + 0.6
        else:
            steps.append((SLANT[0] * right / (length + 0.6), SLANT[1] * down / (length + 0.6)))
    steps.reverse()
    return [
        (
            sum(k * step[0] for k, step in zip(point, steps, strict=True)),
            sum(k * step[1] for k, step in zip(point, steps, strict=True)),
        )
        for point in _numbers(dims)
    ]


def _fitted(points: Sequence[Point]) -> tuple[Point, ...]:
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    top, bottom = min(y for _, y in points), max(y for _, y in points)
    scale = (SIZE - 2 * EDGE) / max(right - left, bottom - top)
    across, down = (SIZE - scale * (right - left)) / 2, (SIZE - scale * (bottom - top)) / 2
    return tuple((across + scale * (x - left), down + scale * (y - top)) for x, y in points)


def _column(n: int, x: float) -> tuple[Point, ...]:
    return tuple((x, EDGE + (SIZE - 2 * EDGE) * row / (n - 1)) for row in range(n))


def bent(start: Point, end: Point, places: Sequence[Point]) -> str:
    """Path data of a link, straight to a neighbour, bent where others stand on its way."""
    (x1, y1), (x2, y2) = start, end
    long = math.hypot(x2 - x1, y2 - y1)
    crossing = any(_between(start, end, point) for point in places)
    if not crossing or long == 0:
        return f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"
    side = min(0.22 * long, 46.0)
    mx, my = (x1 + x2) / 2 + (y2 - y1) / long * side, (y1 + y2) / 2 - (x2 - x1) / long * side
    return f"M{x1:.1f} {y1:.1f}Q{mx:.1f} {my:.1f} {x2:.1f} {y2:.1f}"


def _between(start: Point, end: Point, point: Point) -> bool:
    """Whether a place is on the line from start to end, within some points, but at neither."""
    (x1, y1), (x2, y2), (x, y) = start, end, point
    length = math.hypot(x2 - x1, y2 - y1)
    along = ((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / length if length else 0.0
    across = abs((x - x1) * (y2 - y1) - (y - y1) * (x2 - x1)) / length if length else 0.0
    return 1.0 < along < length - 1.0 and across < 4.0


def fewest_hops(topology: Topology) -> Ints:
    """int64[n, n]: hops from i to j over the arcs, -1 where there is no path."""
    n = topology.servers
    box = box_of(topology)
    if box is not None:
        seen, everyone = reachable_from(n, topology.arcs)[1], np.arange(n)
        return np.array([seen[box.products(everyone, back)] for back in box.inverses(everyone)])
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    arcs = topology.arcs
    linked = csr_array((np.ones(len(arcs), dtype=np.int8), (arcs[:, 0], arcs[:, 1])), shape=(n, n))
    hops = shortest_path(linked, method="D", unweighted=True)
    return np.where(np.isinf(hops), -1, hops).astype(np.int64)


def box_of(topology: Topology) -> RingBox | None:
    """Where every server has the same arcs as server 0, seen from its place in it: what one reaches says it of all."""
    n, arcs = topology.servers, topology.arcs
    if Symmetry.of(arcs, n, translations((n,))) is not None:
        return RingBox((n,))
    tail, head = arcs[np.lexsort((arcs[:, 1], arcs[:, 0]))].astype(np.int64).T
    return next(boxes_of(n, tail, head), None)


def diameter_and_mean_hops(topology: Topology) -> tuple[int, float] | tuple[None, None]:
    """Largest and mean distance over all ordered pairs of distinct servers; None where some cannot reach another."""
    n = topology.servers
    if n < 2:
        return 0, 0.0
    alike = box_of(topology) is not None
    hops = reachable_from(n, topology.arcs)[1][None] if alike else fewest_hops(topology)
    return (None, None) if (hops < 0).any() else (int(hops.max()), float(hops.sum() / (len(hops) * (n - 1))))


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


def families(topology: Topology, links: tuple[DrawnLink, ...], rest: str = "matchings") -> list[tuple[str, str, int]]:
    """Colour class, name and number of links of every family.

    Ring distances ascend, then come sub-group rings, then all others, named `rest`.
    """
    multiplicity = topology.multiplicity
    count: Counter[str] = Counter()
    for link in links:
        count[link.family] += int(multiplicity[list(link.arcs)].max())
    rings = sorted(int(name.removeprefix("ring-")) for name in count if name.startswith("ring-"))
    sign = "+" if topology.links is LinkDirection.UNIDIRECTIONAL else "±"
    listed = [
        (f"k{index % RING_COLOURS}", f"ring distance {sign}{p}", count[f"ring-{p}"]) for index, p in enumerate(rings)
    ]
    if count["group"]:
        listed.append(("kg", "rings of server groups", count["group"]))
    if count["matching"]:
        listed.append(("km", rest, count["matching"]))
    return listed


def label_step(n: int) -> int:
    return 1 if n <= LABELS else 2


def position(server: int, n: int, radius: float = RADIUS) -> tuple[float, float]:
    """Where a server stands on the circle, first on top and then clockwise."""
    angle = 2 * math.pi * server / n - math.pi / 2
    return SIZE / 2 + radius * math.cos(angle), SIZE / 2 + radius * math.sin(angle)


def _tip(topology: Topology, link: DrawnLink, name: str, arc_text: Callable[[int], str]) -> str:
    bidirectional = len(link.arcs) == 2
    parallel = int(topology.multiplicity[list(link.arcs)].max())
    lines = [f"{link.tail} {'↔' if bidirectional else '→'} {link.head}{name and f', {name}'}"]
    if parallel > 1:
        lines[0] += f", {parallel} parallel links"
    for arc in link.arcs:
        tail, head = topology.arcs[arc]
        lines.append(f"{tail}→{head}: {arc_text(arc)}")
    return "\n".join(lines)


def adjacency_plot(
    nodes: int,
    arcs: Ints | Int32s,
    values: Floats | Ints | Int32s,
    title: str,
    unit: str = "links",
    text_of: Callable[[float], str] = "{:g}".format,
    order: Sequence[int] = (),
) -> Markup:
    """Draw the links of many nodes as a matrix; an arc with the value 0 is still seen.

    Args:
        nodes, arcs: n, and int[m, 2].
        values: of each arc, in `unit`, written by `text_of`.
        order: of the nodes, group by group; by number without it.
    """
    matrix = np.zeros((nodes, nodes))
    np.add.at(matrix, (arcs[:, 0], arcs[:, 1]), np.maximum(values, 1e-12))
    if not matrix.any():
        return Markup("")
    if order:
        matrix = matrix[np.ix_(order, order)]
    return intensity_plot(matrix, title, unit, text_of, LINEAR)


def topology_svg(
    topology: Topology,
    links: tuple[DrawnLink, ...],
    busy: Floats,
    arc_text: Callable[[int], str],
    classes: Callable[[float], str] = use_class,
    unit: str = "in use",
    named: Callable[[DrawnLink], tuple[str, str]] | None = None,
    layout: Layout | None = None,
    by_use: bool = False,
) -> Markup:
    """The drawing, or the matrix of `busy` where servers are many; CSS decides what colours the links.

    Args:
        topology: what is drawn.
        links: of `find_links`, or those of them to draw.
        busy: float64[m], utilisation of each arc, 0 to 1.
        arc_text: what a tool tip says about an arc.
        classes: colour class of a figure of `busy`.
        unit: what `busy` is a part of, for the matrix.
        named: name and colour class of a link, where not by its distance and family.
        layout: where the servers stand, where that does not follow from the links.
        by_use: whether `busy` colours the links in any page.
    """
    n = topology.servers
    if n > MOST_DRAWN:
        shown = np.array(sorted(arc for link in links for arc in link.arcs), dtype=np.int64)
        return adjacency_plot(n, topology.arcs[shown], busy[shown], "Links between servers", unit, percent)
    names = sorted({link.family for link in links if link.family.startswith("ring-")}, key=lambda text: int(text[5:]))
    colour = {name: f"k{index % RING_COLOURS}" for index, name in enumerate(names)} | {"group": "kg", "matching": "km"}
    width = 2.2 if n <= 32 else 1.4
    directed = all(len(link.arcs) == 1 for link in links)
    layout = layout or layout_of(topology)
    drawn = []
    # The busy ones on top, and among equals the short ones, which long ones would hide.
    order = sorted(links, key=lambda item: (classes(float(busy[list(item.arcs)].max())), -item.distance))
    for link in order:
        parallel = int(topology.multiplicity[list(link.arcs)].max())
        used = float(busy[list(link.arcs)].max())
        name, css = (f"distance {link.distance}", colour[link.family]) if named is None else named(link)
        drawn.append(
            element(
                "path",
                element("title", _tip(topology, link, name, arc_text)),
                class_=f"lk {css} {classes(used)}",
                d=_course(link, layout, n, directed=directed),
                stroke_width=None if parallel == 1 else width * (1 + 0.9 * (parallel - 1)),
                marker_mid="url(#arrow)" if directed else None,
                data_a=link.tail,
                data_b=link.head,
            )
        )
    label = f"Topology of {n} servers" + (f", {layout.name}" if layout is not None else "")
    css = "topology use-colours" if by_use else "topology"
    return on_circle(drawn, n, width, label, directed=directed, css=css, layout=layout)


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
    links: Sequence[Markup], n: int, width: float, label: str, *, directed: bool, css: str, layout: Layout | None
) -> Markup:
    """Links drawn between n servers, the lowest first, on a circle unless there is a layout."""
    dot = 11.0 if n <= 20 else 6.0
    nodes, labels = [], []
    for server in range(n):
        title = element("title", f"server {server}")
        if layout is None:
            spots = [(position(server, n), position(server, n, RADIUS if dot > 10 else RADIUS + 18 + dot / 2))]
        else:
            both = dict.fromkeys((layout.places[server], layout.ends[server]))
            spots = [(spot, spot if dot > 10 else layout.label(spot, 9 + dot)) for spot in both]
        for (x, y), (label_x, label_y) in spots:
            nodes.append(element("circle", title, cx=x, cy=y, r=dot, data_s=server))
            if server % label_step(n) == 0:
                labels.append(element("text", str(server), x=label_x, y=label_y, class_="in" if dot > 10 else None))
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


MOST_LINES = 8
"""More circuits of one pair are drawn as so many lines."""


DrawnCircuits = tuple[int, int, int, float, str]
"""Circuits of a pair: its nodes, how many, the part of the time in use, and what is shown when pointed at."""


def circle_of_circuits(circuits: Sequence[DrawnCircuits], tips: Sequence[str], label: str) -> Markup:
    """The picture, or the matrix of their counts where nodes are many.

    Args:
        tips: of each node.
        label: for those who cannot see it.
    """
    drawn, nodes, labels, n = [], [], [], len(tips)
    if n > MOST_DRAWN:
        pairs = [pair for first, second, *_ in circuits for pair in ((first, second), (second, first))]
        counts = np.repeat([row[2] for row in circuits], 2)
        return adjacency_plot(n, np.array(pairs, dtype=np.int64).reshape(-1, 2), counts, label, "circuits")
    apart = 5.0 if n <= 16 else 3.0
    for first, second, count, share, text in circuits:
        (x1, y1), (x2, y2) = position(first, n), position(second, n)
        long = math.hypot(x2 - x1, y2 - y1) or 1.0
        lines = min(count, MOST_LINES)
        for k in range(lines):
            by = apart * (k - (lines - 1) / 2)
            dx, dy = -(y2 - y1) / long * by, (x2 - x1) / long * by
            path = f"M{x1 + dx:.1f} {y1 + dy:.1f}L{x2 + dx:.1f} {y2 + dy:.1f}"
            drawn.append(element("path", element("title", text), class_=f"lk {use_class(share)}", d=path))
    dot = 16.0 if n <= 16 else 8.0
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


PICTURE = 132.0


def describe_permutation(row: Int32s) -> str:
    """In words: a shift, a matching, or its cycles; with the dark ports."""
    n = len(row)
    lit = np.flatnonzero(row >= 0)
    dark = n - len(lit)
    tail = f", {counted(dark, 'dark port')}" if dark else ""
    if not len(lit):
        return "all ports dark"
    steps = {int(row[i] - i) % n for i in lit}
    if len(steps) == 1:
        step = steps.pop()
        sign = f"+{step}" if 2 * step <= n else f"−{n - step}"
        return f"server i → i {sign[0]} {sign[1:]} (mod {n}){tail}"
    if all(row[row[i]] == i for i in lit):
        return f"matching of {counted(len(lit) // 2, 'pair')}{tail}"
    return f"permutation, {counted(_cycles(row), 'cycle')}{tail}"


def _cycles(row: Int32s) -> int:
    seen = np.zeros(len(row), dtype=bool)
    count = 0
    for start in range(len(row)):
        if seen[start] or row[start] < 0:
            continue
        count += 1
        node = start
        while node >= 0 and not seen[node]:
            seen[node] = True
            node = int(row[node])
    return count


def _switch_picture(row: Int32s, index: int) -> Markup:
    n = len(row)
    angle = 2 * math.pi * np.arange(n) / n - math.pi / 2
    x, y = PICTURE / 2 + 58 * np.cos(angle), PICTURE / 2 + 58 * np.sin(angle)
    chords = "".join(
        chord((float(x[i]), float(y[i])), (float(x[j]), float(y[j])), PICTURE / 2, n)
        for i, j in enumerate(row)
        if j >= 0
    )
    width = 1.6 if n <= 32 else 0.8 if n <= 128 else 0.5
    return picture(
        element("circle", cx=PICTURE / 2, cy=PICTURE / 2, r=58.0, class_="rim"),
        element("path", d=chords, class_=f"lk k{index % 8}", stroke_width=width),
        label=f"Permutation of switch {index}",
        viewBox=f"0 0 {PICTURE:.0f} {PICTURE:.0f}",
        class_="switch",
    )


def switch_rows(topology: Topology) -> list[tuple[int, str, Markup, str, str]]:
    """All optical switches in interface order: number, what the permutation is, picture, pairs, and list to copy."""
    return [
        (
            index,
            describe_permutation(row),
            _switch_picture(row, index),
            "  ".join(f"{i}→{j}" if j >= 0 else f"{i}→dark" for i, j in enumerate(row.tolist())),
            json.dumps(row.tolist(), separators=(",", ":")),
        )
        for index, row in enumerate(topology.switches)
    ]
