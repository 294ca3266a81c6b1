"""A plan with a failure: what of its traffic is broken, and what the rest puts on the links."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from solvers.failures.reroute import least_loaded, without_pairs, without_paths
from solvers.failures.surviving import Surviving
from solvers.failures.traffic import RingSteps, RouteHops, ring_hops, route_hops
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.routing import Demand, GroupRings, PathTable, Ring
from topoopt.core.topology import Topology

Rings = tuple[GroupRings, ...]


@dataclass(frozen=True, eq=False)
class PlanTraffic:
    """A plan's network and traffic, indexed once for all failures.

    Attributes:
        topology, routes, rings: of the plan.
        demand: of the job.
    """

    topology: Topology
    routes: PathTable
    rings: Rings
    demand: Demand

    @cached_property
    def route_hops(self) -> RouteHops:
        """Hops of all routes."""
        return route_hops(self.topology, self.routes, self.demand)

    @cached_property
    def ring_hops(self) -> RingSteps:
        """Hops of all rings."""
        return ring_hops(self.topology, self.rings, self.demand)

    @cached_property
    def loads(self) -> Floats:
        """float64[m]: bytes on each arc."""
        arcs = len(self.topology.arcs)
        return self.route_hops.loads(arcs) + self.ring_hops.loads(arcs)


@dataclass(frozen=True, eq=False)
class Damage:
    """What a failure breaks.

    Attributes:
        traffic: of the whole plan.
        surviving: the network after the failure.
        paths: int64[...], broken paths of the table of routes, ascending.
        steps: int64[...], broken ring steps, ascending.
        weakened: groups of which a ring is broken, or has fewer parallel links than before.
    """

    traffic: PlanTraffic
    surviving: Surviving
    paths: Ints
    steps: Ints
    weakened: tuple[int, ...]

    @property
    def none(self) -> bool:
        """Whether nothing the plan uses is broken or slower."""
        if len(self.paths) or len(self.steps):
            return False
        slower = self.surviving.left < self.traffic.topology.multiplicity
        return not (self.traffic.loads[slower] > 0).any()

    @cached_property
    def broken_rings(self) -> frozenset[tuple[int, int]]:
        """(group, ring) of every broken ring."""
        return frozenset((int(g), int(r)) for g, r, _ in self.traffic.ring_hops.place[self.steps])

    def base_load(self) -> Floats:
        """float64[m]: bytes of all that is not broken."""
        routes, rings = self.traffic.route_hops, self.traffic.ring_hops
        arcs = len(self.traffic.topology.arcs)
        whole_paths = np.ones(len(routes.path_bytes), dtype=bool)
        whole_paths[self.paths] = False
        whole_steps = np.ones(len(rings.place), dtype=bool)
        whole_steps[self.steps] = False
        return routes.loads(arcs, whole_paths) + rings.loads(arcs, whole_steps[rings.step])

    def ring_load(self, rings: Rings) -> Floats:
        """float64[m]: bytes of other rings."""
        return ring_hops(self.traffic.topology, rings, self.traffic.demand).loads(len(self.traffic.topology.arcs))

    def rerouted(self, rings: Rings, *, avoid: Ints | None = None) -> PathTable | None:
        """Routes with every broken path on a least-loaded shortest surviving one, beside these rings.

        Pairs without traffic that no path joins are left out.

        Args:
            rings: repaired.
            avoid: arcs that model-parallel traffic leaves where it can.

        Returns:
            None if some traffic has no path.
        """
        traffic = self.traffic
        hops, table = traffic.route_hops, traffic.routes
        moved = self.paths
        surviving = self.surviving
        if avoid is not None and len(avoid):
            clear = surviving.without(avoid)
            marked = np.zeros(len(traffic.topology.arcs), dtype=bool)
            marked[avoid] = True
            over = np.unique(hops.path[marked[hops.arc]])
            pair = hops.pair_of_path[over]
            free = clear.hops()[table.source[pair], table.target[pair]] >= 0
            moved = np.union1d(moved, over[free])
        if len(moved) == 0:
            return table
        pair = hops.pair_of_path[moved]
        source, target = table.source[pair].astype(np.int64), table.target[pair].astype(np.int64)
        joined = surviving.hops()[source, target] >= 0
        amount = hops.path_bytes[moved]
        if (amount[~joined] > 0).any():
            return None
        gone = np.zeros(len(table.source), dtype=bool)
        gone[pair[~joined]] = True
        moved, source, target, amount = moved[joined], source[joined], target[joined], amount[joined]
        stays = np.ones(len(hops.path_bytes), dtype=bool)
        stays[moved] = False
        load = hops.loads(len(traffic.topology.arcs), stays) + self.ring_load(rings)
        heads = traffic.topology.arcs[:, 1].astype(np.int64)
        if avoid is None or not len(avoid):
            paths = least_loaded(surviving, source, target, amount, load)
            return None if paths is None else without_pairs(without_paths(table, moved, paths, heads), gone)
        free = clear.hops()[source, target] >= 0
        for part, network in ((free, clear), (~free, surviving)):
            paths = least_loaded(network, source[part], target[part], amount[part], load)
            if paths is None:
                return None
            table = without_paths(table, moved[part], paths, heads)
        return without_pairs(table, gone)


def damage_of(traffic: PlanTraffic, surviving: Surviving) -> Damage:
    """What of a plan is broken in a damaged network."""
    dead = surviving.left == 0
    routes, rings = traffic.route_hops, traffic.ring_hops
    closed = np.isin(traffic.topology.arcs[:, 1], surviving.relays)

    def broken(arc: Ints, last: Bools) -> Bools:
        return np.asarray(dead[arc] | (closed[arc] & ~last), dtype=np.bool_)

    lost = broken(rings.arc, rings.last)
    slower = surviving.left[rings.arc] < traffic.topology.multiplicity[rings.arc]
    weakened = np.unique(rings.place[rings.step[lost | slower], 0])
    return Damage(
        traffic=traffic,
        surviving=surviving,
        paths=np.unique(routes.path[broken(routes.arc, routes.last)]),
        steps=np.unique(rings.step[lost]),
        weakened=tuple(int(g) for g in weakened if rings.group_bytes[g] > 0),
    )


def with_steps(rings: Rings, places: Ints, paths: Iterable[tuple[int, ...]]) -> Rings:
    """The rings with other paths for steps (group, ring, position)."""
    changed: dict[int, dict[int, list[tuple[int, ...]]]] = {}
    for (group, ring, at), path in zip(places.tolist(), paths, strict=True):
        own = changed.setdefault(group, {}).setdefault(ring, list(rings[group].rings[ring].paths))
        own[at] = path
    out = list(rings)
    for group, by_ring in changed.items():
        kept: list[Ring] = list(rings[group].rings)
        for ring, own in by_ring.items():
            kept[ring] = replace(kept[ring], paths=tuple(own))
        out[group] = replace(rings[group], rings=tuple(kept))
    return tuple(out)
