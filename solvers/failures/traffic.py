"""A plan's traffic by arc: which routes and which ring steps use an arc, and what they put on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.routing import Demand, GroupRings, PathTable
from topoopt.core.topology import Topology


@dataclass(frozen=True, eq=False)
class RouteHops:
    """Every hop of every path of a table.

    Attributes:
        arc: int64[H], arc of each hop, in path order.
        path: int64[H], path of each hop.
        pair_of_path: int64[P].
        path_bytes: float64[P], bytes of the demand on each path.
        last: bool[H], whether the hop ends its path.
    """

    arc: Ints
    path: Ints
    pair_of_path: Ints
    path_bytes: Floats
    last: Bools

    def loads(self, arcs: int, kept: Bools | None = None) -> Floats:
        """float64[arcs]: bytes of the paths, or of those kept."""
        amount = self.path_bytes if kept is None else np.where(kept, self.path_bytes, 0.0)
        return np.bincount(self.arc, weights=amount[self.path], minlength=arcs).astype(np.float64)


def route_hops(topology: Topology, routes: PathTable, demand: Demand) -> RouteHops:
    """Index a table of routes."""
    hops = np.maximum(np.diff(routes.path_ptr) - 1, 0)
    inside = np.ones(max(len(routes.node) - 1, 0), dtype=bool)
    inside[routes.path_ptr[1:-1] - 1] = False
    arc = topology.arc_ids()[routes.node[:-1], routes.node[1:]][inside].astype(np.int64)
    pair_of_path = np.repeat(np.arange(len(routes.source)), np.diff(routes.pair_ptr))
    amount = demand.model_parallel_bytes[routes.source, routes.target][pair_of_path] * routes.share
    path = np.repeat(np.arange(len(hops)), hops)
    return RouteHops(arc, path, pair_of_path, amount, _ends(path))


def _ends(run: Ints) -> Bools:
    """bool[H]: the last of each run of equal numbers."""
    return np.append(np.diff(run) != 0, True)[: len(run)]


@dataclass(frozen=True, eq=False)
class RingSteps:
    """Every hop of every ring. A step is the way from one member to the next, of one hop or more.

    Attributes:
        arc, step: int64[H], arc and step of each hop, in order.
        amount: float64[H], bytes every hop carries.
        last: bool[H], whether the hop ends its step.
        place: int64[S, 3], group, ring and position in the ring's order of each step.
        group_bytes: float64[G], bytes a member sends round all rings of its group.
    """

    arc: Ints
    step: Ints
    amount: Floats
    last: Bools
    place: Ints
    group_bytes: Floats

    def loads(self, arcs: int, kept: Bools | None = None) -> Floats:
        """float64[arcs]: bytes of all hops, or of those kept."""
        amount = self.amount if kept is None else np.where(kept, self.amount, 0.0)
        return np.bincount(self.arc, weights=amount, minlength=arcs).astype(np.float64)


def ring_hops(topology: Topology, rings: tuple[GroupRings, ...], demand: Demand) -> RingSteps:
    """Index the rings of a plan; groups without payload carry nothing."""
    payload = {frozenset(group.members): group.wire_bytes_per_member for group in demand.allreduce}
    group_bytes = np.array([payload.get(frozenset(group.members), 0.0) for group in rings])
    paths = [
        (path, g, r, i, group_bytes[g] * ring.share)
        for g, group in enumerate(rings)
        for r, ring in enumerate(group.rings)
        for i, path in enumerate(ring.paths)
    ]
    hops = np.array([len(path) - 1 for path, *_ in paths], dtype=np.int64)
    tails = np.array([v for path, *_ in paths for v in path[:-1]], dtype=np.int64)
    heads = np.array([v for path, *_ in paths for v in path[1:]], dtype=np.int64)

    step = np.repeat(np.arange(len(paths)), hops)
    return RingSteps(
        arc=topology.arc_ids()[tails, heads].astype(np.int64),
        step=step,
        amount=np.repeat(np.array([row[4] for row in paths], dtype=np.float64), hops),
        last=_ends(step),
        place=np.array([row[1:4] for row in paths], dtype=np.int64).reshape(-1, 3),
        group_bytes=group_bytes,
    )
