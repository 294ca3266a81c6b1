"""Where a routing is short of capacity, read from the lengths that prove its bound (linear-programming duality).

For lengths l >= 0 of the arcs, theta >= sum_ij D_ij dist_l(i, j) / sum_a c_a l_a. Arcs of length 0 could have any
capacity without lowering that bound, so the arcs of positive length are the bottleneck. Often they are those that leave
a set S of servers; then the bound says no more than D(S, rest) / c(S, rest), which anyone can add up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.network.exact.routed import distances
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.topology import Topology

RELATIVE = 1e-6
"""Part of the bound that a simpler explanation may lose."""

KEEP = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 0.0)


@dataclass(frozen=True)
class ServerCut:
    """Servers whose demand to all others must cross the links that leave them.

    Attributes:
        senders: S, ascending.
        demand, capacity: of all pairs, and of all links, from S to the rest, in units of a link.
        arcs: positions of those links in the topology.
    """

    senders: tuple[int, ...]
    demand: float
    capacity: float
    arcs: tuple[int, ...]

    @property
    def theta(self) -> float:
        """Least utilisation that the cut allows."""
        return self.demand / self.capacity


@dataclass(frozen=True, eq=False)
class Bottleneck:
    """What limits a routing.

    Attributes:
        bound: what `lengths` prove of theta.
        lengths: float64[m], sum of capacity times length 1; dust removed, the bound recomputed.
        arcs: positions of the arcs of positive length, dearest first.
        distance: float64[n, n] by these lengths; infinite where there is no path.
        cuts: sets of servers whose cut alone proves the bound, among those looked at, closest to `arcs` first.
        hop_total: sum of demand times hops, if it alone proves the bound (all links alike); else None.
    """

    bound: float
    lengths: Floats
    arcs: tuple[int, ...]
    distance: Floats
    cuts: tuple[ServerCut, ...]
    hop_total: float | None


def find_bottleneck(topology: Topology, demand: Floats, lengths: Floats) -> Bottleneck:
    """Read lengths that prove something (not all 0); `demand` is float64[n, n] in units of a link's capacity."""
    bound, clean, distance = _cleaned(topology, demand, lengths)
    order = np.argsort(-clean, kind="stable")
    arcs = tuple(int(a) for a in order[: int((clean > 0).sum())])
    hops_bound, _ = length_bound(topology, demand, np.ones(len(clean)))
    flat = hops_bound >= bound * (1 - RELATIVE)
    return Bottleneck(
        bound=bound,
        lengths=clean,
        arcs=arcs,
        distance=distance,
        cuts=_cuts(topology, demand, np.array(arcs), bound),
        hop_total=hops_bound * float(topology.capacity.sum()) if flat else None,
    )


def length_bound(topology: Topology, demand: Floats, lengths: Floats) -> tuple[float, Floats]:
    """What lengths (not all 0) prove of theta, and the distances float64[n, n] they give."""
    table = np.full((topology.servers, topology.servers), np.inf)
    table[topology.arcs[:, 0], topology.arcs[:, 1]] = lengths
    distance = distances(table)
    asked = demand > 0
    return float((demand[asked] * distance[asked]).sum() / (topology.capacity @ lengths)), distance


def _cleaned(topology: Topology, demand: Floats, lengths: Floats) -> tuple[float, Floats, Floats]:
    """The lengths without those that matter least, as long as the bound stays, scaled to a total price of 1."""
    full, _ = length_bound(topology, demand, lengths)
    for keep in KEEP:
        kept = np.where(lengths >= keep * lengths.max(), lengths, 0.0)
        bound, _ = length_bound(topology, demand, kept)
        if bound >= full * (1 - RELATIVE):
            break
    scaled = kept / float(topology.capacity @ kept)
    bound, distance = length_bound(topology, demand, scaled)
    return bound, scaled, distance


def _cuts(topology: Topology, demand: Floats, arcs: Ints, bound: float) -> tuple[ServerCut, ...]:
    candidates = [cut for senders in _likely_sets(topology, arcs) if (cut := _cut_of(topology, demand, senders))]
    proving = [cut for cut in candidates if cut.theta >= bound * (1 - RELATIVE)]
    priced = set(arcs.tolist())
    return tuple(sorted(proving, key=lambda cut: (len(set(cut.arcs) ^ priced), len(cut.senders), cut.senders)))


def averaged(topology: Topology, one: Floats, other: Floats) -> Floats:
    """Lengths half-way between two, each scaled to a total price of 1; distances are concave in the lengths.

    So if both prove a bound, their average does, with the arcs of both.
    """
    return (one / float(topology.capacity @ one) + other / float(topology.capacity @ other)) / 2


def _cut_of(topology: Topology, demand: Floats, senders: Bools) -> ServerCut | None:
    leaving = np.flatnonzero(senders[topology.arcs[:, 0]] & ~senders[topology.arcs[:, 1]])
    if not len(leaving):
        return None
    return ServerCut(
        senders=tuple(int(v) for v in np.flatnonzero(senders)),
        demand=float(demand[np.ix_(senders, ~senders)].sum()),
        capacity=float(topology.capacity[leaving].sum()),
        arcs=tuple(int(a) for a in leaving),
    )


def _likely_sets(topology: Topology, arcs: Ints) -> list[Bools]:
    """bool[n] sets: what the tails of the priced arcs reach over free ones, what free links join, single servers."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, connected_components

    n = topology.servers
    free = np.ones(len(topology.arcs), dtype=np.bool_)
    free[arcs] = False
    tail, head = topology.arcs[free, 0], topology.arcs[free, 1]
    graph = csr_array((np.ones(len(tail)), (tail, head)), shape=(n, n))
    reached = np.zeros(n, dtype=np.bool_)
    for start in np.unique(topology.arcs[arcs, 0]).tolist():
        if not reached[start]:
            reached[breadth_first_order(graph, start, return_predecessors=False)] = True
    sets = [reached]
    for connection in ("strong", "weak"):
        groups, label = connected_components(graph, directed=True, connection=connection)
        sets += [label == group for group in range(groups)]
    sets += list(np.eye(n, dtype=np.bool_))
    unique = {chosen.tobytes(): chosen for one in sets for chosen in (one, ~one)}
    return [chosen for chosen in unique.values() if 0 < int(chosen.sum()) < n]
