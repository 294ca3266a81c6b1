"""Multipliers of the two-layer bound, searched in pieces between which it can be stopped.

Any values of them prove something by the formula, so nothing here needs to be trusted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.native import flows

_PIECE = 1 << 26
"""Entries gone through between two looks at the clock."""


def default_iterations(n: int) -> int:
    """Where more hardly helps ."""
    return 800 if n <= 32 else 2000 if n <= 64 else 4000


@dataclass(frozen=True, eq=False)
class TwoLayerDuals:
    """What the search found.

    Attributes:
        weight: float64[n, n], w.
        first_link: float32[n, n, n], u.
        ends: float64[2, n], multipliers of (1) and (2).
        iterations: that were made.
    """

    weight: Floats
    first_link: NDArray[np.float32]
    ends: Floats
    iterations: int


def two_layer_multipliers(d: int, demand: Floats, iterations: int, *, stop: Stop | None = None) -> TwoLayerDuals:
    """Multipliers after so many iterations.

    Args:
        d: degree.
        demand: float64[n, n], zero diagonal.
        iterations: most of them.
        stop: looked at between pieces; None: go to the end.
    """
    n = len(demand)
    mean = float(demand.sum()) / (n * (n - 1)) or 1.0
    search = flows.TwoLayerSearch(d, (demand / mean).astype(np.float32, order="C"))
    done, piece = 0, max(1, _PIECE // n**3)
    while done < iterations and (stop is None or stop.reason() is None):
        count = min(piece, iterations - done)
        search.run(count)
        done += count
    weight, first_link, ends = search.multipliers()
    first_link *= np.float32(mean)
    return TwoLayerDuals(
        weight.astype(np.float64) * mean, first_link.reshape(n, n, n), ends.astype(np.float64) * mean, done
    )
