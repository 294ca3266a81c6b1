"""Networks with switches and links of unequal rates, on which collectives run; presets are machines that are sold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from topoopt.core.arrays import Bools, Floats, Int32s, Ints
from topoopt.core.data import Displayed

MOST_UNITS = 1 << 40
"""Largest rate of a link in units, so that sums over a network stay far within 64 bits."""


@dataclass(frozen=True, eq=False, repr=False)
class RatedNetwork(Displayed):
    """A directed network of compute nodes and switches.

    Attributes:
        is_switch: bool[V]; the others are compute nodes, ranks 0 to N-1 in their order.
        arcs: int32[m, 2], rows (tail, head), sorted, distinct, no loops.
        units: int64[m], rate of each arc in `unit_gbytes_per_s`; at least 1.
        unit_gbytes_per_s: what one unit is, GB/s (1e9 bytes a second).
        latency_us: float64[m], time a message takes besides its bytes.
        names: of all nodes.
        origin: how it was made, for people.
    """

    is_switch: Bools
    arcs: Int32s
    units: Ints
    unit_gbytes_per_s: Fraction
    latency_us: Floats
    names: tuple[str, ...]
    origin: str = ""

    @classmethod
    def of_links(
        cls,
        is_switch: Sequence[bool] | Bools,
        links: Sequence[tuple[int, int, Fraction]],
        *,
        latency_us: float = 0.0,
        names: Sequence[str] = (),
        origin: str = "",
    ) -> RatedNetwork:
        """Network of links (tail, head, GB/s); parallel ones add up, loops are dropped.

        Raises:
            ValueError: a rate that is not above 0, or rates so unlike that no common unit counts them.
        """
        summed: dict[tuple[int, int], Fraction] = {}
        for tail, head, rate in links:
            if rate <= 0:
                raise ValueError(f"link {tail} -> {head} has the rate {rate}")
            if tail != head:
                summed[tail, head] = summed.get((tail, head), Fraction(0)) + rate
        ordered = sorted(summed)
        unit = common_unit([summed[arc] for arc in ordered])
        units = [int(summed[arc] / unit) for arc in ordered]
        if max(units, default=1) > MOST_UNITS:
            raise ValueError(f"rates from {min(summed.values())} to {max(summed.values())} GB/s have no common unit")
        switch = np.asarray(is_switch, dtype=np.bool_)
        return cls(
            is_switch=switch,
            arcs=np.array(ordered, dtype=np.int32).reshape(-1, 2),
            units=np.array(units, dtype=np.int64),
            unit_gbytes_per_s=unit,
            latency_us=np.full(len(ordered), latency_us),
            names=tuple(names) or tuple(str(node) for node in range(len(switch))),
            origin=origin,
        )

    @property
    def nodes(self) -> int:
        """Number of nodes V: compute nodes and switches together."""
        return len(self.is_switch)

    @property
    def ranks(self) -> Ints:
        """int64[N], the nodes that compute."""
        return np.flatnonzero(~self.is_switch)

    @property
    def gbytes_per_s(self) -> Floats:
        """float64[m], rate of each arc."""
        return np.asarray(self.units * float(self.unit_gbytes_per_s), dtype=np.float64)

    def arc_positions(self, ends: Ints) -> Ints:
        """int64[k], indices of the arcs with these tails and heads, int64[k, 2]; all of them must exist."""
        codes = self.arcs[:, 0].astype(np.int64) * self.nodes + self.arcs[:, 1]
        positions: Ints = np.searchsorted(codes, ends[:, 0].astype(np.int64) * self.nodes + ends[:, 1])
        return positions

    def unreachable(self) -> tuple[int, int] | None:
        """Two ranks without a way from the first to the second; None where all reach all."""
        start = int(self.ranks[0])
        for ends, backward in ((self.arcs, False), (self.arcs[:, ::-1], True)):
            seen = np.zeros(self.nodes, dtype=np.bool_)
            seen[start] = True
            while True:
                grown = seen.copy()
                grown[ends[seen[ends[:, 0]], 1]] = True
                if np.array_equal(grown, seen):
                    break
                seen = grown
            missing = np.flatnonzero(~seen & ~self.is_switch)
            if len(missing):
                return (int(missing[0]), start) if backward else (start, int(missing[0]))
        return None

    def with_members(self, members: Ints | Sequence[int]) -> RatedNetwork:
        """The same network with some ranks; all other nodes only forward."""
        is_switch = np.ones(self.nodes, dtype=np.bool_)
        is_switch[np.asarray(members, dtype=np.int64)] = False
        return replace(self, is_switch=is_switch)

    def transposed(self) -> RatedNetwork:
        """The same network with every arc reversed."""
        turned = self.arcs[:, ::-1]
        order = np.lexsort((turned[:, 1], turned[:, 0]))
        return RatedNetwork(
            self.is_switch,
            np.ascontiguousarray(turned[order]),
            self.units[order],
            self.unit_gbytes_per_s,
            self.latency_us[order],
            self.names,
            self.origin,
        )


def common_unit(rates: Sequence[Fraction]) -> Fraction:
    """Largest number of which all rates are whole multiples; 1 without rates."""
    if not rates:
        return Fraction(1)
    below = math.lcm(*(rate.denominator for rate in rates))
    return Fraction(math.gcd(*(int(rate * below) for rate in rates)), below)


Link = tuple[int, int, Fraction]


NVLINK2 = Fraction(25)
"""GB/s of one NVLink of the second generation, each way."""

DGX1 = (
    (0, 1, 1), (0, 2, 1), (0, 3, 2), (0, 4, 2), (1, 2, 2), (1, 3, 1), (1, 5, 2), (2, 3, 2), (2, 6, 1), (3, 7, 1),
    (4, 5, 1), (4, 6, 1), (4, 7, 2), (5, 6, 2), (5, 7, 1), (6, 7, 2),
)  # fmt: skip
"""NVLinks between the eight V100 of a DGX-1 and of an Azure NDv2: ends, number."""

MI250 = (
    (0, 1, 4), (2, 3, 4), (4, 5, 4), (6, 7, 4), (8, 9, 4), (10, 11, 4), (12, 13, 4), (14, 15, 4),
    (0, 4, 2), (3, 7, 2), (8, 12, 2), (11, 15, 2),
    (0, 8, 1), (1, 5, 1), (1, 9, 1), (1, 10, 1), (2, 6, 1), (2, 9, 1), (2, 10, 1), (3, 11, 1),
    (4, 6, 1), (5, 6, 1), (5, 7, 1), (9, 13, 1), (10, 14, 1), (12, 14, 1), (13, 14, 1), (13, 15, 1),
)  # fmt: skip
"""Infinity Fabric links (50 GB/s) between the sixteen dies of eight MI250 (topology file of ForestColl)."""


def _inside(box: int, size: int, links: tuple[tuple[int, int, int], ...], rate: Fraction) -> list[Link]:
    ends = [(size * box + tail, size * box + other, count * rate) for tail, other, count in links]
    return [*ends, *((other, tail, both) for tail, other, both in ends)]


def _to_switch(switch: int, members: range, rate: Fraction) -> list[Link]:
    return [link for member in members for link in ((member, switch, rate), (switch, member, rate))]


def _network(name: str, ranks: int, switches: int, links: list[Link]) -> RatedNetwork:
    names = [f"gpu{rank}" for rank in range(ranks)] + [f"switch{index}" for index in range(switches)]
    is_switch = (False,) * ranks + (True,) * switches
    return RatedNetwork.of_links(is_switch, links, latency_us=0.0, names=names, origin=name)


def _dgx1(boxes: int) -> RatedNetwork:
    return _network("dgx-1", 8, 0, _inside(0, 8, DGX1, NVLINK2))


def _ndv2(boxes: int) -> RatedNetwork:
    """Boxes like a DGX-1: GPU 0 of each sends to the network at 12.5 GB/s, GPU 1 receives."""
    links = [link for box in range(boxes) for link in _inside(box, 8, DGX1, NVLINK2)]
    if boxes == 1:
        return _network("ndv2", 8, 0, links)
    rate, switch = Fraction(25, 2), 8 * boxes
    links += [link for box in range(boxes) for link in ((8 * box, switch, rate), (switch, 8 * box + 1, rate))]
    return _network(f"ndv2 x{boxes}", 8 * boxes, 1, links)


def _a100(boxes: int) -> RatedNetwork:
    """Eight GPUs at an NVSwitch (300 GB/s each), each with a port of 25 GB/s to the network."""
    links = [
        link for box in range(boxes) for link in _to_switch(8 * boxes + box, range(8 * box, 8 * box + 8), Fraction(300))
    ]
    if boxes > 1:
        links += _to_switch(9 * boxes, range(8 * boxes), Fraction(25))
    return _network(f"dgx-a100 x{boxes}", 8 * boxes, boxes + (boxes > 1), links)


def _dgx2(boxes: int) -> RatedNetwork:
    """Sixteen V100 at an NVSwitch (125 GB/s each); between two boxes eight links of 12.5 GB/s each way, odd to even."""
    links = [
        link
        for box in range(boxes)
        for link in _to_switch(16 * boxes + box, range(16 * box, 16 * box + 16), Fraction(125))
    ]
    if boxes == 2:
        for pair in range(8):
            links.append((2 * pair + 1, 16 + 2 * pair, Fraction(25, 2)))
            links.append((16 + 2 * pair + 1, 2 * pair, Fraction(25, 2)))
    return _network(f"dgx2 x{boxes}", 16 * boxes, boxes, links)


def _mi250(boxes: int) -> RatedNetwork:
    """Sixteen dies a box, each with 16 GB/s to the network."""
    links = [link for box in range(boxes) for link in _inside(box, 16, MI250, Fraction(50))]
    if boxes > 1:
        links += _to_switch(16 * boxes, range(16 * boxes), Fraction(16))
    return _network(f"mi250 x{boxes}", 16 * boxes, int(boxes > 1), links)


PRESETS: Mapping[str, tuple[Callable[[int], RatedNetwork], int]] = {
    "dgx-1": (_dgx1, 1),
    "ndv2": (_ndv2, 512),
    "dgx-a100": (_a100, 512),
    "dgx2": (_dgx2, 2),
    "mi250": (_mi250, 256),
}
"""How a machine of so many boxes is built, and how many it has at most."""
