"""A routing problem in arrays for the kernels, and the refusal of bad ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt import native
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.topology import Topology


@dataclass(frozen=True, eq=False)
class RoutingNetwork:
    """Arcs sorted by tail, capacities and demand.

    Attributes:
        servers: n.
        tail, head: int64[m].
        first: int64[n+1]; arcs of tail v are first[v]..first[v+1].
        capacity: float64[m], parallel links of each arc.
        demand: float64[n, n], as given.
    """

    servers: int
    tail: Ints
    head: Ints
    first: Ints
    capacity: Floats
    demand: Floats

    @property
    def columns(self) -> int:
        """Sources times arcs."""
        return self.servers * len(self.head)


def network_of(topology: Topology, demand: Floats) -> RoutingNetwork:
    """Arrays of a routing problem.

    Raises:
        InputError: the demand has the wrong shape, is negative, not finite, of a server to itself, or zero altogether;
            an arc names an unknown server, joins a server to itself, is repeated, or has no link.
        InfeasibleError: demand between servers that no path joins.
    """
    problems = [*_topology_problems(topology), *_demand_problems(topology.servers, demand)]
    if problems:
        raise InputError(problems)
    n = topology.servers
    arcs = topology.arcs.astype(np.int64)
    if len(arcs) and (np.diff(arcs[:, 0] * n + arcs[:, 1]) <= 0).any():
        raise InputError([Problem("arcs must be sorted and distinct", path="topology.arcs")])
    network = RoutingNetwork(
        servers=n,
        tail=np.ascontiguousarray(arcs[:, 0]),
        head=np.ascontiguousarray(arcs[:, 1]),
        first=np.searchsorted(arcs[:, 0], np.arange(n + 1)).astype(np.int64),
        capacity=np.ascontiguousarray(topology.capacity, dtype=np.float64),
        demand=np.ascontiguousarray(demand, dtype=np.float64),
    )
    _refuse_unreachable(network)
    return network


def _topology_problems(topology: Topology) -> list[Problem]:
    n, arcs = topology.servers, topology.arcs
    if n < 2:
        return [Problem("a network needs two servers at least", path="topology.servers", value=str(n), allowed=">= 2")]
    problems = []
    for index in np.flatnonzero(((arcs < 0) | (arcs >= n)).any(axis=1)):
        text = f"{arcs[index, 0]} -> {arcs[index, 1]}"
        problems.append(
            Problem("link names an unknown server", path=f"topology.arcs[{index}]", value=text, allowed=f"0..{n - 1}")
        )
    for index in np.flatnonzero(arcs[:, 0] == arcs[:, 1]):
        text = f"{arcs[index, 0]} -> {arcs[index, 1]}"
        problems.append(Problem("link joins a server to itself", path=f"topology.arcs[{index}]", value=text))
    for index in np.flatnonzero(topology.multiplicity < 1):
        where, value = f"topology.multiplicity[{index}]", str(topology.multiplicity[index])
        problems.append(Problem("an arc needs a link at least", path=where, value=value, allowed=">= 1"))
    return problems


def _demand_problems(n: int, demand: Floats) -> list[Problem]:
    if demand.shape != (n, n):
        return [Problem("demand has the wrong shape", path="demand", value=str(demand.shape), allowed=f"({n}, {n})")]
    problems = []
    faults = (
        ("demand is not a finite number", ~np.isfinite(demand)),
        ("demand is negative", np.isfinite(demand) & (demand < 0)),
        ("a server has demand to itself", np.diag(np.nan_to_num(np.diag(demand)) > 0)),
    )
    for message, wrong in faults:
        where = np.argwhere(wrong)
        if len(where):
            i, j = (int(v) for v in where[0])
            more = f" (and {len(where) - 1} more)" if len(where) > 1 else ""
            problems.append(Problem(message + more, path=f"demand[{i}, {j}]", value=str(demand[i, j]), allowed=">= 0"))
    if not problems and not demand.any():
        problems.append(Problem("there is no demand at all", path="demand", allowed="one entry above 0"))
    return problems


def _refuse_unreachable(network: RoutingNetwork) -> None:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    n = network.servers
    graph = csr_array((np.ones(len(network.head)), network.head, network.first), shape=(n, n))
    if connected_components(graph, directed=True, connection="strong")[0] == 1:
        return
    far = native.graph.hop_distances(network.first, network.head, n) < 0
    cut = np.argwhere(far & (network.demand > 0))
    if len(cut):
        pairs = ", ".join(f"{i} -> {j}" for i, j in cut[:5])
        more = f" and {len(cut) - 5} more" if len(cut) > 5 else ""
        raise InfeasibleError(f"no path joins servers that have demand: {pairs}{more}")
