"""The best of the bounds that need no solver."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topoopt.core.solution import Bound
from topoopt.verify.network.topology_bounds.cuts import node_cut_bound
from topoopt.verify.network.topology_bounds.layered import layered_bound
from topoopt.verify.network.topology_bounds.two_layer import two_layer_bound

TWO_LAYER_SERVERS = 160
"""Above this the n^3 arrays of the two-layer bound are too large."""


def topology_bounds(
    n: int, d: int, demand: NDArray[np.float64], *, two_layer_iterations: int | None = None
) -> tuple[Bound, ...]:
    """Node cut, layered and (where it fits) two-layer bounds on theta over every topology of degree d.

    Args:
        two_layer_iterations: see `two_layer_bound`; 0 leaves that bound out.

    Raises:
        InputError: bad demand, n below 2, or d below 1.
    """
    found = [
        Bound(node_cut_bound(n, d, demand)[0], "node cut"),
        Bound(layered_bound(n, d, demand)[0], "layered Moore distances"),
    ]
    if n <= TWO_LAYER_SERVERS and two_layer_iterations != 0:
        value = two_layer_bound(n, d, demand, iterations=two_layer_iterations)[0]
        found.append(Bound(value, "two-layer distances"))
    return tuple(found)


def best_topology_bound(
    n: int, d: int, demand: NDArray[np.float64], *, two_layer_iterations: int | None = None
) -> Bound:
    """The largest of `topology_bounds`."""
    return max(topology_bounds(n, d, demand, two_layer_iterations=two_layer_iterations), key=lambda bound: bound.value)
