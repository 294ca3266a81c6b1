"""Where servers stand in a picture: grids, tori, cubes and Kautz graphs as what they are, everything else on a circle.

A family is known by its links, server by server in the order of `topoopt.core`: nothing is read from names.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from topoopt.core.graphs import kautz_arcs
from topoopt.core.topology import Topology

SIZE = 620.0
"""Width and height of the picture."""
EDGE = 40.0
MOST_SERVERS = 1024
"""Of more the dots of a grid would touch; they stand on a circle."""
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
    if not 4 <= n <= MOST_SERVERS:
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
    if 2 <= degree < n and any(links == _kautz_links(n, degree, joined=joined) for joined in (True, False)):
        return Layout(f"generalized Kautz graph of degree {degree}", _column(n, EDGE), _column(n, SIZE - EDGE))
    return None


def _kautz_links(n: int, degree: int, *, joined: bool) -> set[tuple[int, int]]:
    """Those of the rule i -> -(d i + a) modulo n, either way with what would lead a server to itself."""
    return {(int(tail), int(head)) for tail, head in kautz_arcs(n, degree, joined=joined)}


def _shapes(n: int) -> Iterator[tuple[int, ...]]:
    """Lengths of two axes or more whose product is n, few axes first."""
    found = sorted(_factored(n), key=len)
    return (dims for dims in found if len(dims) > 1)


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
    found = {stride for stride, length in zip(strides, dims, strict=True) if length > 1}
    if wrapped:
        found |= {(length - 1) * stride for stride, length in zip(strides, dims, strict=True)}
    return found


def _lattice_links(dims: Sequence[int], *, wrapped: bool) -> set[tuple[int, int]]:
    """Links between neighbours on every axis; on an axis of two the way round is the same link."""
    points = _numbers(dims)
    number = {point: place for place, point in enumerate(points)}
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
    for place, length in enumerate(reversed(dims)):
        if place % 3 == 0:
            steps.append((right, 0.0))
            right *= length + 0.6
        elif place % 3 == 1:
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
    """Scaled to the square, in its middle."""
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    top, bottom = min(y for _, y in points), max(y for _, y in points)
    scale = (SIZE - 2 * EDGE) / max(right - left, bottom - top)
    across, down = (SIZE - scale * (right - left)) / 2, (SIZE - scale * (bottom - top)) / 2
    return tuple((across + scale * (x - left), down + scale * (y - top)) for x, y in points)


def _column(n: int, x: float) -> tuple[Point, ...]:
    return tuple((x, EDGE + (SIZE - 2 * EDGE) * place / (n - 1)) for place in range(n))


def bent(start: Point, end: Point, places: Sequence[Point]) -> str:
    """Path data of a link, straight to a neighbour, bent where others stand on its way."""
    (x1, y1), (x2, y2) = start, end
    long = math.hypot(x2 - x1, y2 - y1)
    on_the_way = any(_between(start, end, place) for place in places)
    if not on_the_way or long == 0:
        return f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"
    side = min(0.22 * long, 46.0)
    mx, my = (x1 + x2) / 2 + (y2 - y1) / long * side, (y1 + y2) / 2 - (x2 - x1) / long * side
    return f"M{x1:.1f} {y1:.1f}Q{mx:.1f} {my:.1f} {x2:.1f} {y2:.1f}"


def _between(start: Point, end: Point, place: Point) -> bool:
    """Whether a place is on the line from start to end, within some points, but at neither."""
    (x1, y1), (x2, y2), (x, y) = start, end, place
    length = math.hypot(x2 - x1, y2 - y1)
    along = ((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / length if length else 0.0
    across = abs((x - x1) * (y2 - y1) - (y - y1) * (x2 - x1)) / length if length else 0.0
    return 1.0 < along < length - 1.0 and across < 4.0
