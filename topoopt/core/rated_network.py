"""Networks with switches and links of unequal rates, on which collectives run; rates are exact."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from topoopt.core.arrays import Bools, Floats, Int32s, Ints
from topoopt.core.shown import Displayed

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
        """V, compute nodes and switches."""
        return len(self.is_switch)

    @property
    def ranks(self) -> Ints:
        """int64[N], the nodes that compute."""
        return np.flatnonzero(~self.is_switch)

    @property
    def gbytes_per_s(self) -> Floats:
        """float64[m], rate of each arc."""
        return np.asarray(self.units * float(self.unit_gbytes_per_s), dtype=np.float64)

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

    def transposed(self) -> RatedNetwork:
        """Every arc turned round."""
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
