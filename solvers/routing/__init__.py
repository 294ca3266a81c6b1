"""Splittable routing of a demand on a fixed topology, with a proof of how good it is.

Every method leaves theta (of a flow that conserves exactly) and a bound (of link lengths) in a `Proof`; neither is
taken from a solver's tolerances.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from solvers.routing.circulant import CirculantResult, circulant_classes, route_circulant, shift_invariant
from solvers.routing.column_generation import by_paths, by_trees
from solvers.routing.frank_wolfe import frank_wolfe
from solvers.routing.linear import first_order, ipx, simplex
from solvers.routing.network import Network, network_of
from solvers.routing.proof import Proof
from solvers.routing.result import RoutingResult
from solvers.routing.rotation import by_rotation, rotates
from topoopt.core.errors import InputError, Problem
from topoopt.core.topology import Topology

Method = Callable[[Proof], int]

ROUTING_METHODS: dict[str, Method] = {
    "simplex": simplex,
    "ipx": ipx,
    "pdlp": first_order,
    "frank-wolfe": frank_wolfe,
    "circulant": by_rotation,
    "column-generation": by_trees,
    "path-generation": by_paths,
}


def automatic(network: Network, accuracy: float) -> str:
    """Name of the method for a problem: by structure first, then by size and by the accuracy asked for.

    Figures behind the limits (one core): simplex takes seconds from n = 64 (d = 4), IPX half a minute and 270 MB at
    n = 256; PDLP is the quickest to 0.5 % at n = 128. Beyond, only the sweeps of Frank-Wolfe end within minutes, at
    gaps of about 1 %, in a tenth of the memory; ask for `pdlp` by name where hours are no matter.
    """
    columns = network.servers * len(network.head)
    if rotates(network):
        return "circulant"
    if columns <= 5_000:
        return "simplex"
    if columns <= 300_000:
        return "ipx" if accuracy < 1e-4 else "pdlp"
    return "frank-wolfe"


def route(
    topology: Topology,
    demand: NDArray[np.float64],
    *,
    method: str = "auto",
    accuracy: float = 1e-6,
    time_limit_s: float | None = None,
) -> RoutingResult:
    """Route `demand` (float64[n, n], in units of a link's capacity) so that the largest link utilisation is least.

    Args:
        topology: arcs and multiplicities are used.
        demand: zero diagonal, not negative.
        method: a name in ROUTING_METHODS, or `auto`.
        accuracy: relative gap (theta - bound) / theta at which to stop.
        time_limit_s: after which the best known is returned; a method always ends its first step.

    Raises:
        InputError: bad topology, demand or method.
        InfeasibleError: demand between servers that no path joins.
    """
    if method != "auto" and method not in ROUTING_METHODS:
        allowed = ", ".join(("auto", *ROUTING_METHODS))
        raise InputError([Problem("unknown routing method", path="method", value=method, allowed=allowed)])
    network = network_of(topology, demand)
    name = automatic(network, accuracy) if method == "auto" else method
    if name == "circulant" and not rotates(network):
        text = "this method needs a circulant topology and a demand that depends on the displacement alone"
        raise InputError([Problem(text, path="method", value=name, allowed="another method")])
    deadline = None if time_limit_s is None else time.monotonic() + time_limit_s
    proof = Proof(network, accuracy, deadline)
    work = ROUTING_METHODS[name](proof)
    return proof.result(name, work)


__all__ = [
    "ROUTING_METHODS",
    "CirculantResult",
    "RoutingResult",
    "automatic",
    "circulant_classes",
    "route",
    "route_circulant",
    "shift_invariant",
]
