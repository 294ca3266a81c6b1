"""What hierarchical bandwidths must satisfy, and how much rounding is forgiven."""

from __future__ import annotations

import math
from collections.abc import Sequence

from topoopt.core.hierarchy import HierarchicalNetwork
from topoopt.core.verdict import Tolerance

RELATIVE = Tolerance.ROUNDING.relative
"""Rounding forgiven in figures and constraints."""


def differs_by(stated: float, expected: float, relative: float = RELATIVE) -> bool:
    """Whether two numbers differ by more than rounding; NaN always does."""
    return not abs(stated - expected) <= relative * max(abs(expected), abs(stated))


def broken_laws(network: HierarchicalNetwork, bandwidth: Sequence[float]) -> list[str]:
    """Bounds, speeds and linear constraints that bandwidths break."""
    found = []
    for one, value in zip(network.dimensions, bandwidth, strict=True):
        slack = RELATIVE * max(1.0, abs(value))
        if not one.min_gbytes_per_s - slack <= value <= one.max_gbytes_per_s + slack or not math.isfinite(value):
            found.append(f"{one.name} has {value!r} GB/s, not {one.min_gbytes_per_s!r} to {one.max_gbytes_per_s!r}")
        elif one.speeds_gbytes_per_s and value not in one.speeds_gbytes_per_s:
            found.append(f"{one.name} has {value!r} GB/s, which is none of its speeds")
    for row in network.constraints:
        terms = [c * value for c, value in zip(row.coefficients, bandwidth, strict=True)]
        total, size = sum(terms), max(1.0, *map(abs, terms))
        if not row.at_least - RELATIVE * size <= total <= row.at_most + RELATIVE * size:
            found.append(f"constraint {row.name}: {total!r} is not between {row.at_least!r} and {row.at_most!r}")
    return found
