"""Splittable routing of a demand on a fixed topology, with a proof of how good it is.

Every method leaves theta (of a flow that conserves exactly) and a bound (of link lengths) in a `RoutingProof`; neither
is taken from a solver's tolerances.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from solvers.network.flows import RoutingNetwork, RoutingProof, RoutingResult, network_of
from solvers.stop import Stop
from topoopt import native
from topoopt.core.arrays import Floats
from topoopt.core.data import called_later
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.topology import Symmetry, Topology

Method = Callable[[RoutingProof], int]

LINEAR, SOFTMIN, ORBITS = "solvers.network.linear", "solvers.network.softmin", "solvers.network.orbits"

ROUTING_METHODS: dict[str, Method] = {
    "simplex": called_later(LINEAR, "simplex"),
    "ipx": called_later(LINEAR, "ipx"),
    "pdlp": called_later(LINEAR, "first_order"),
    "frank-wolfe": called_later(LINEAR, "frank_wolfe"),
    "softmin": called_later(SOFTMIN, "softmin"),
    "orbits": called_later(ORBITS, "by_orbits"),
}

WORST = "worst-demand"
"""Method for several demands, of `solvers.network.worst_case`."""

symmetry_of: Callable[..., Symmetry | None] = called_later(ORBITS, "symmetry_of")
one_row: Callable[[Topology, Floats], bool] = called_later(ORBITS, "one_row")

CONSTRAINED = ("simplex", "ipx", "pdlp")
"""Methods that know limits and prices of hops."""


_PROGRAM = 300_000
"""Sources times arcs up to which a solver takes the linear program in seconds to minutes."""

_SMALL = 5_000
"""The same up to which the simplex method takes no time."""

_FINE = 1e-4
"""Accuracy below which interior points are faster than PDLP."""


def automatic(network: RoutingNetwork, accuracy: float, max_hops: int | None = None, hop_price: float = 0.0) -> str:
    """Name of the method for a problem: by structure first, then by size and by the accuracy asked for.

    Figures behind the limits (one core): simplex takes seconds from n = 64 (d = 4), IPX half a minute and 270 MB at
    n = 256; softmin proves 0.1 % in about a second there, where PDLP takes ten times as long.
    """
    columns = network.columns * (1 if max_hops is None else max_hops)
    if max_hops is not None or hop_price:
        return "simplex" if columns <= _SMALL else "ipx" if columns <= _PROGRAM and accuracy < _FINE else "pdlp"
    if symmetry_of(network, ring=columns <= _SMALL) is not None:
        return "orbits"
    return "simplex" if columns <= _SMALL else "softmin"


def refusal(network: RoutingNetwork, method: str, max_hops: int | None, hop_price: float) -> Problem | None:
    """Why a method does not cover a problem, or None."""
    if (max_hops is not None or hop_price) and method not in ("auto", *CONSTRAINED):
        text, allowed = "this method knows no limit or price of hops", ", ".join(("auto", *CONSTRAINED))
        return Problem(text, path="method", value=method, allowed=allowed)
    if method == "orbits" and symmetry_of(network) is None:
        text = "this method needs links and demand that a group keeps: a circulant, a torus, or another Cayley digraph"
        return Problem(text, path="method", value=method, allowed="another method")
    return None


def route(
    topology: Topology,
    demand: Floats,
    *,
    method: str = "auto",
    accuracy: float = 1e-6,
    time_limit_s: float | None = None,
    max_hops: int | None = None,
    hop_price: float = 0.0,
    symmetry: Symmetry | None = None,
    stop: Stop | None = None,
    on_incumbent: Callable[[Callable[[], RoutingResult]], None] | None = None,
) -> RoutingResult:
    """Route `demand` (float64[n, n], in units of a link's capacity) so that the largest link utilisation is least.

    Args:
        topology: arcs and multiplicities are used.
        demand: zero diagonal, not negative.
        method: a name in ROUTING_METHODS, or `auto`; only those of CONSTRAINED take limits or prices of hops.
        accuracy: relative gap (objective - bound) / objective at which to stop.
        time_limit_s: after which the best known is returned; a method always ends its first step.
        max_hops: longest path allowed; the flow then comes with its split by hops. None, or n - 1 and more: any.
        hop_price: time of one hop in the unit of theta; theta + hop_price * mean hops of the demand is made least.
        symmetry: a group that keeps topology and demand, whose orbits begin with the servers 0 to k - 1; then the
            method is `orbits`. None: it is looked for where a method needs it.
        stop: deadline and interrupt shared with others; the earlier deadline holds.
        on_incumbent: called when there is a first flow, with what makes the result of the best one known.

    Raises:
        InputError: bad topology, demand, method, limit or price of hops.
        InfeasibleError: demand between servers that no path joins, or none within `max_hops`.
    """
    problems = []
    if method != "auto" and method not in ROUTING_METHODS:
        allowed = ", ".join(("auto", *ROUTING_METHODS))
        problems.append(Problem("unknown routing method", path="method", value=method, allowed=allowed))
    if max_hops is not None and max_hops < 1:
        problems.append(Problem("a path has a hop at least", path="max_hops", value=str(max_hops), allowed=">= 1"))
    if not 0.0 <= hop_price < float("inf"):
        problems.append(Problem("bad price of a hop", path="hop_price", value=str(hop_price), allowed=">= 0"))
    if problems:
        raise InputError(problems)
    network = network_of(topology, demand)
    if max_hops is not None:
        _refuse_far(network, max_hops)
        max_hops = None if max_hops >= network.servers - 1 else max_hops
    if symmetry is not None:
        name = "orbits"
    else:
        name = automatic(network, accuracy, max_hops, hop_price) if method == "auto" else method
        refused = refusal(network, method, max_hops, hop_price)
        if refused is not None:
            raise InputError([refused])
        symmetry = symmetry_of(network) if name == "orbits" else None
    ends = (stop or Stop()).within(time_limit_s)
    proof = RoutingProof(network, accuracy, ends, max_hops, hop_price, symmetry)
    if on_incumbent is not None:
        proof.offered = lambda: on_incumbent(lambda: proof.result(name, 0))
    name, work = _by_auto(proof, name) if method == "auto" else (name, ROUTING_METHODS[name](proof))
    return proof.result(name, work)


def _by_auto(proof: RoutingProof, name: str) -> tuple[str, int]:
    """A method, and the linear program where `softmin` ends without a proof; the last one's name, and its work."""
    work = ROUTING_METHODS[name](proof)
    if name != "softmin" or proof.proven or proof.late or proof.network.columns > _PROGRAM:
        return name, work
    name = "ipx" if proof.accuracy < _FINE else "pdlp"
    return name, ROUTING_METHODS[name](proof)


def _refuse_far(network: RoutingNetwork, max_hops: int) -> None:
    """Raise InfeasibleError for demand between servers farther apart than `max_hops`."""
    hops = native.graph.hop_distances(network.first, network.head, network.servers)
    far = np.argwhere((hops > max_hops) & (network.demand > 0))
    if len(far):
        pairs = ", ".join(f"{i} -> {j} ({hops[i, j]} hops)" for i, j in far[:5])
        more = f" and {len(far) - 5} more" if len(far) > 5 else ""
        needed = int(hops[network.demand > 0].max())
        raise InfeasibleError(
            f"demand between servers that no path of at most {max_hops} hops joins: {pairs}{more}; "
            f"the smallest limit that works is {needed} hops"
        )
