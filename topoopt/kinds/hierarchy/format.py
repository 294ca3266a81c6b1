"""Times, money and sizes of hierarchical networks as text."""

from __future__ import annotations

import math
from collections.abc import Iterator

from topoopt.core.hierarchy_solution import HierarchicalSolution
from topoopt.drawing.format import byte_size, number, ratio

_TIME_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))
_MONEY_UNITS = ((1e9, "bn"), (1e6, "M"))


def duration(time_ns: float) -> str:
    """Time in the unit that fits: `722.4 ms`."""
    for scale, unit in _TIME_UNITS:
        if abs(time_ns) >= scale:
            return f"{number(time_ns / scale)} {unit}"
    return f"{number(time_ns)} ns"


def money(cost_usd: float) -> str:
    """US dollars: `9.527 M USD`."""
    for scale, unit in _MONEY_UNITS:
        if abs(cost_usd) >= scale:
            return f"{number(cost_usd / scale)} {unit} USD"
    return f"{number(cost_usd)} USD"


def times(value: float) -> str:
    """A factor: `1.07×`."""
    return ratio(value)


def gigabytes(size_bytes: float) -> str:
    """A size in decimal units."""
    return byte_size(size_bytes)


def rate(gbytes_per_s: float) -> str:
    """A bandwidth: `338.5 GB/s`."""
    return f"{number(gbytes_per_s)} GB/s" if math.isfinite(gbytes_per_s) else "any"


def dimension_figures(solution: HierarchicalSolution) -> Iterator[tuple[str, str, int, float, str, float | None]]:
    """Of each dimension: name, block, size, GB/s, what one more GB/s saves alone, ns per GB/s at the margin."""
    # Bandwidths are right to about 1e-4, so what is left of a gain where dimensions tie is rounding.
    least = 1e-6 * solution.time_ns
    alone = [duration(gain) if gain > least else "nothing" for gain in solution.gain_ns]
    marginal = solution.marginal_ns or (None,) * len(solution.dimensions)
    rates = solution.bandwidth_gbytes_per_s
    return zip(solution.dimensions, solution.blocks, solution.sizes, rates, alone, marginal, strict=True)
