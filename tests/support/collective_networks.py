"""Networks that collectives are tried on, written out by hand from their definitions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from topoopt.core.rated_network import PRESETS, RatedNetwork

Rated = tuple[int, int, float]


def network(nodes: int, links: Iterable[Rated], switches: Sequence[int] = ()) -> RatedNetwork:
    """A network of one-way links."""
    rated = [(tail, head, Fraction(str(rate))) for tail, head, rate in links]
    return RatedNetwork.of_links([node in switches for node in range(nodes)], rated)


def two_way(nodes: int, pairs: Iterable[Rated], switches: Sequence[int] = ()) -> RatedNetwork:
    """A network whose links lead both ways."""
    listed = list(pairs)
    return network(nodes, [*listed, *((head, tail, rate) for tail, head, rate in listed)], switches)


def circulant(n: int, offsets: Sequence[int], *, one_way: bool = False) -> RatedNetwork:
    """Rank i to i + o, and back unless one way."""
    signs = (1,) if one_way else (1, -1)
    return network(n, [(i, (i + s * o) % n, 1) for i in range(n) for o in offsets for s in signs])


def torus(*sizes: int) -> RatedNetwork:
    """A grid with wrap-around links, unit rates; sizes of 3 or more."""
    ranks = {place: k for k, place in enumerate(itertools.product(*(range(size) for size in sizes)))}
    links = []
    for place, rank in ranks.items():
        for axis, size in enumerate(sizes):
            for step in (1, -1):
                other = list(place)
                other[axis] = (other[axis] + step) % size
                links.append((rank, ranks[tuple(other)], 1))
    return network(len(ranks), links)


def mesh(rows: int, columns: int, rate: float = 1) -> RatedNetwork:
    """A grid without wrap-around links."""
    across = [(columns * i + j, columns * i + j + 1, rate) for i in range(rows) for j in range(columns - 1)]
    down = [(columns * i + j, columns * (i + 1) + j, rate) for i in range(rows - 1) for j in range(columns)]
    return two_way(rows * columns, [*across, *down])


def kautz(d: int, n: int) -> RatedNetwork:
    """Generalised Kautz digraph x -> -d x - a mod n, a = 1..d (Imase and Itoh), self-loops dropped."""
    return network(n, [(x, (-d * x - a) % n, 1) for x in range(n) for a in range(1, d + 1)])


def de_bruijn(d: int, n: int) -> RatedNetwork:
    """Generalised de Bruijn digraph x -> d x + a mod n, a = 0..d-1, self-loops dropped."""
    return network(n, [(x, (d * x + a) % n, 1) for x in range(n) for a in range(d)])


def petersen() -> RatedNetwork:
    """Outer pentagon, inner pentagram, spokes."""
    outer = [(i, (i + 1) % 5, 1) for i in range(5)]
    inner = [(5 + i, 5 + (i + 2) % 5, 1) for i in range(5)]
    return two_way(10, [*outer, *inner, *((i, 5 + i, 1) for i in range(5))])


def hypercube(dimension: int) -> RatedNetwork:
    """Ranks whose numbers differ in one bit are linked."""
    n = 1 << dimension
    return network(n, [(i, i ^ (1 << bit), 1) for i in range(n) for bit in range(dimension)])


def bipartite(side: int) -> RatedNetwork:
    """K_{side, side}."""
    return two_way(2 * side, [(i, side + j, 1) for i in range(side) for j in range(side)])


def star_switch(hosts: int) -> RatedNetwork:
    """Hosts at one switch."""
    return two_way(hosts + 1, [(i, hosts, 1) for i in range(hosts)], [hosts])


def two_boxes() -> RatedNetwork:
    """Two boxes of 4 hosts: 100 to the switch of the box, 10 to the switch of the network."""
    inside = [(i, 8 + i // 4, 100) for i in range(8)]
    return two_way(11, [*inside, *((i, 10, 10) for i in range(8))], [8, 9, 10])


def machine(name: str, boxes: int = 1) -> RatedNetwork:
    """A preset."""
    return PRESETS[name][0](boxes)


def random_network(rng: np.random.Generator, *, switches: bool, most_ranks: int = 7) -> RatedNetwork:
    """A small strongly connected network, of up to three switches; links in and out of them carry the same."""
    ranks, extra = int(rng.integers(2, most_ranks + 1)), int(rng.integers(1, 4)) if switches else 0
    n = ranks + extra
    links = []
    for _ in range(int(rng.integers(1, 4))):
        order, rate = rng.permutation(n), int(rng.integers(1, 6))
        links += [(int(tail), int(head), rate) for tail, head in itertools.pairwise([*order, order[0]])]
    for _ in range(int(rng.integers(0, 2 * n))):
        tail, head = (int(end) for end in rng.choice(ranks, 2, replace=False))
        links.append((tail, head, int(rng.integers(1, 6))))
    return network(n, links, range(ranks, n))
