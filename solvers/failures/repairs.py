"""A plan with a failure is repaired at once: routes around dead arcs, and AllReduce rings by several strategies.

Broken rings in another order: a lost step is undone by turning a part of the ring round (two-opt).

A ring ... u v ... x y ... that lost u -> v becomes ... u x ... v y ..., the part from v to x run backwards, where the
links u -> x and v -> y and all steps of the part, reversed, survive. With x -> y lost as well nothing of the ring is
left on dead links, so that an exchange of link ends (give up x - y, set u - x and v - y) makes it whole.

Repairs of broken AllReduce rings, each a strategy of its own (TopoOpt, NSDI'23, section 5).

`detour`     every broken step takes the least-loaded shortest surviving path; on a circulant that is the coin change
             that avoids the dead arc (13 = 1 + 13 - 1).
`lend`       as the paper: broken steps go over links that carry no AllReduce as far as they can, and these links are
             lent to the ring: model-parallel traffic leaves them where another way exists.
`re-split`   broken rings are dropped, their share goes to the surviving rings of the group by linear program.
`spread`     the same program; further alternatives are every broken ring on several arc-disjoint detours, and in
             other orders that avoid the dead arc (`reorder`).

Model-parallel traffic over dead arcs takes least-loaded shortest surviving paths in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from formulations.mixtures import PathSplit, path_split_arrays, shares_of
from solvers.backends import BACKENDS, SolverLimits
from solvers.failures.worst import Surviving
from topoopt.core.arrays import Bools, Floats, Ints, offsets
from topoopt.core.topology import Topology
from topoopt.core.workload import Demand, GroupRings, PathTable, Ring
from topoopt.native import routing

TRACE = 1e-6
"""Bytes of a demand without traffic, against the largest one: it is spread, too, but never decides."""


ArcPaths = tuple[Ints, Ints]
"""Paths as arcs, offsets first: path k is arc[ptr[k]:ptr[k + 1]]."""


def least_loaded(surviving: Surviving, source: Ints, target: Ints, amount: Floats, load: Floats) -> ArcPaths | None:
    """Shortest surviving paths, heaviest demand first, each the least loaded given `load`, which grows by them.

    None if some demand has no path.
    """
    count = len(source)
    hops = np.array([surviving.graph(t).hops_to[t, s] for s, t in zip(source.tolist(), target.tolist(), strict=True)])
    if count and hops.min() < 0:
        return None
    ptr = offsets(hops)
    arcs = np.empty(int(ptr[-1]), dtype=np.int64)
    heavy = np.maximum(amount, TRACE * max(float(amount.max(initial=0.0)), 1e-300))
    special = np.isin(target, surviving.relays)
    order = np.argsort(-heavy, kind="stable").astype(np.int64)
    rounds = [order[~special[order]], *(order[target[order] == relay] for relay in surviving.relays)]
    for chosen in rounds:
        if len(chosen) == 0:
            continue
        graph = surviving.graph(int(target[chosen[0]]))
        routing.route_demands(
            chosen, source, target, heavy, graph.first, graph.head, graph.hops_to, graph.inverse_capacity, load, ptr,
            arcs, False,
        )  # fmt: skip
    return ptr, arcs


def without_paths(routes: PathTable, dead: Ints, paths: ArcPaths, heads: Ints) -> PathTable:
    """The table with paths `dead` (ascending) replaced by `paths`, one each."""
    if len(dead) == 0:
        return routes
    length = np.diff(routes.path_ptr)
    length[dead] = np.diff(paths[0]) + 1
    path_ptr = offsets(length)
    node = np.empty(int(path_ptr[-1]), dtype=np.int32)
    stays = np.ones(len(length), dtype=bool)
    stays[dead] = False
    old = np.repeat(stays, np.diff(routes.path_ptr))
    new = np.repeat(stays, length)
    node[new] = routes.node[old]
    first = path_ptr[dead]
    node[first] = routes.node[routes.path_ptr[dead]]
    inner = ~new
    inner[first] = False
    node[inner] = heads[paths[1]]
    return replace(routes, path_ptr=path_ptr, node=node)


def without_pairs(routes: PathTable, gone: Bools) -> PathTable:
    """The table without some of its pairs (bool[m])."""
    if not gone.any():
        return routes
    per_pair = np.diff(routes.pair_ptr)
    stays_path = np.repeat(~gone, per_pair)
    length = np.diff(routes.path_ptr)
    return PathTable(
        nodes_total=routes.nodes_total,
        source=routes.source[~gone],
        target=routes.target[~gone],
        pair_ptr=offsets(per_pair[~gone]),
        share=routes.share[stays_path],
        path_ptr=offsets(length[stays_path]),
        node=routes.node[np.repeat(stays_path, length)],
    )


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
        return route_hops(self.topology, self.routes, self.demand)

    @cached_property
    def ring_hops(self) -> RingSteps:
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


def disjoint_detours(surviving: Surviving, source: int, target: int) -> list[tuple[int, ...]]:
    """Shortest surviving path, then the shortest without its arcs, and so on: at most one per interface.

    Parallel links count as one arc. Empty if no path is left.
    """
    graph = surviving.graph(target)
    ptr, head = graph.first, graph.head
    used = np.zeros(len(head), dtype=bool)
    detours: list[tuple[int, ...]] = []
    while True:
        via = {source: -1}
        layer = [source]
        while layer and target not in via:
            following = []
            for u in layer:
                for a in range(int(ptr[u]), int(ptr[u + 1])):
                    v = int(head[a])
                    if not used[a] and v not in via:
                        via[v] = a
                        following.append(v)
            layer = following
        if target not in via:
            return detours
        path, v = [target], target
        while v != source:
            used[via[v]] = True
            v = int(graph.tail[via[v]])
            path.append(v)
        detours.append(tuple(reversed(path)))


MOST_ORDERS = 6
"""Orders of a ring that are offered, those over the least loaded links first."""


def other_orders(ring: Ring, lost: Sequence[int], alive: Bools, load: Floats) -> list[Ring]:
    """Rings of the same members without the lost steps, each by one reversal over direct links.

    Args:
        ring: of the plan.
        lost: places of its broken steps; one or two (of more, no single reversal is rid).
        alive: bool[n, n], arcs that survive.
        load: float64[n, n], bytes on them; orders over less loaded links come first.
    """
    size = len(ring.order)
    if not 1 <= len(lost) <= 2 or size < 4:
        return []
    turn = lost[0]
    order = ring.order[turn + 1 :] + ring.order[: turn + 1]  # begins behind the first lost step, ends before it
    paths = ring.paths[turn + 1 :] + ring.paths[: turn + 1]
    backward = np.array([all(alive[b, a] for a, b in pairwise(path)) for path in paths[:-1]])
    whole = offsets(~backward)  # steps before a place that cannot be run backwards
    u, v = order[-1], order[0]
    places = range(1, size - 2) if len(lost) == 1 else [(lost[1] - turn - 1) % size]
    orders: list[tuple[float, int, Ring]] = []
    for j in places:
        if not 1 <= j < size - 1 or whole[j] > 0:
            continue
        x, y = order[j], order[j + 1]
        if not (alive[u, x] and alive[v, y]):
            continue
        turned = tuple(reversed(order[: j + 1]))
        inner = tuple(tuple(reversed(path)) for path in reversed(paths[:j]))
        new = replace(ring, order=(*turned, *order[j + 1 :]), paths=(*inner, (v, y), *paths[j + 1 : -1], (u, x)))
        orders.append((float(max(load[u, x], load[v, y])), j, new))
    orders.sort(key=lambda entry: entry[:2])
    return [candidate for _, _, candidate in orders[:MOST_ORDERS]]


LEAST_SHARE = 0.005
"""Rings of a smaller share are dropped, the others take their place."""

HOP_PRICE = 1e-4
"""Charge per hop against the largest load: of equally good shares those over short rings are taken."""


@dataclass(frozen=True, eq=False)
class Repaired:
    """Routes and rings over what survives."""

    routes: PathTable
    rings: Rings


def _ring_ends(damage: Damage) -> tuple[Ints, Ints, Floats]:
    hops, rings = damage.traffic.ring_hops, damage.traffic.rings
    source, target, amount = [], [], []
    for g, r, at in hops.place[damage.steps].tolist():
        ring = rings[g].rings[r]
        source.append(ring.order[at])
        target.append(ring.order[(at + 1) % len(ring.order)])
        amount.append(float(hops.group_bytes[g]) * ring.share)
    return np.array(source, dtype=np.int64), np.array(target, dtype=np.int64), np.array(amount)


def detoured_rings(damage: Damage) -> Rings | None:
    """Rings with every broken step on its least-loaded shortest surviving path; None if there is none."""
    source, target, amount = _ring_ends(damage)
    paths = least_loaded(damage.surviving, source, target, amount, damage.base_load())
    if paths is None:
        return None
    heads = damage.traffic.topology.arcs[:, 1].astype(np.int64)
    ptr, arc = paths
    routes = [(int(source[k]), *heads[arc[ptr[k] : ptr[k + 1]]].tolist()) for k in range(len(source))]
    return with_steps(damage.traffic.rings, damage.traffic.ring_hops.place[damage.steps], routes)


def detour(damage: Damage) -> Repaired | None:
    """Shortest surviving paths for broken steps and broken routes."""
    rings = detoured_rings(damage)
    return None if rings is None else _finished(damage, rings)


def lend(damage: Damage) -> Repaired | None:
    """Broken steps over links without AllReduce, lent to the ring; None where no such link helps."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    traffic, surviving = damage.traffic, damage.surviving
    n = traffic.topology.servers
    arcs = traffic.topology.arcs
    hops = traffic.ring_hops
    ringed = hops.loads(len(arcs)) > 0
    source, target, _ = _ring_ends(damage)
    ids = traffic.topology.arc_ids()
    lent: set[int] = set()
    paths = []
    for s, t in zip(source.tolist(), target.tolist(), strict=True):
        graph = surviving.graph(t)
        alive = graph.head != graph.tail
        # Fewest arcs with AllReduce first, then fewest hops.
        cost = np.where(ringed, 1.0 + n, 1.0)[alive]
        matrix = csr_array((cost, (graph.tail[alive], graph.head[alive])), shape=(n, n))
        _, before = dijkstra(matrix, indices=s, return_predecessors=True)
        if before[t] < 0:
            return None
        path = [t]
        while path[-1] != s:
            path.append(int(before[path[-1]]))
        path.reverse()
        paths.append(tuple(path))
        lent |= {int(ids[a, b]) for a, b in pairwise(path) if not ringed[ids[a, b]]}
    if not lent:
        return None
    rings = with_steps(traffic.rings, hops.place[damage.steps], paths)
    return _finished(damage, rings, avoid=np.array(sorted(lent), dtype=np.int64))


def re_split(damage: Damage) -> Repaired | None:
    """The AllReduce of every weakened group over its whole rings, on detours where none is whole."""
    broken = damage.broken_rings
    traffic = damage.traffic
    stranded = [g for g in damage.weakened if all((g, r) in broken for r in range(len(traffic.rings[g].rings)))]
    base = traffic.rings
    if stranded:
        detoured = detoured_rings(damage)
        if detoured is None or len(stranded) == len(damage.weakened):
            return None  # no ring is whole: nothing to split over
        base = detoured
    candidates = {
        g: [ring for r, ring in enumerate(base[g].rings) if g in stranded or (g, r) not in broken]
        for g in damage.weakened
    }
    return _split(damage, base, candidates)


def spread(damage: Damage) -> Repaired | None:
    """The AllReduce of every weakened group over whole rings, and over broken ones on several detours each."""
    traffic = damage.traffic
    steps: dict[tuple[int, int], list[int]] = {}
    for g, r, at in traffic.ring_hops.place[damage.steps].tolist():
        steps.setdefault((g, r), []).append(at)
    cached: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    alive, load = _tables(damage) if steps else (np.zeros((0, 0), dtype=np.bool_), np.zeros((0, 0)))
    candidates: dict[int, list[Ring]] = {}
    for g in damage.weakened:
        candidates[g] = []
        for r, ring in enumerate(traffic.rings[g].rings):
            places = steps.get((g, r))
            if places is None:
                candidates[g].append(ring)
                continue
            candidates[g] += other_orders(ring, places, alive, load)
            candidates[g] += _on_detours(damage, ring, places, cached)
        if not candidates[g]:
            return None
    return _split(damage, traffic.rings, candidates)


def _tables(damage: Damage) -> tuple[Bools, Floats]:
    """bool[n, n]: arcs that any path may take; float64[n, n]: bytes on them that are not broken."""
    topology = damage.traffic.topology
    graph = damage.surviving.graph(-1)
    alive = np.zeros((topology.servers, topology.servers), dtype=np.bool_)
    load = np.zeros(alive.shape)
    lit = graph.head != graph.tail
    alive[graph.tail[lit], graph.head[lit]] = True
    load[topology.arcs[:, 0], topology.arcs[:, 1]] = damage.base_load()
    return alive, load


def _on_detours(
    damage: Damage, ring: Ring, places: list[int], cached: dict[tuple[int, int], list[tuple[int, ...]]]
) -> list[Ring]:
    """A broken ring over the first detours of its lost steps, over the second ones, and so on."""
    path_of = []
    for at in places:
        ends = ring.order[at], ring.order[(at + 1) % len(ring.order)]
        if ends not in cached:
            cached[ends] = disjoint_detours(damage.surviving, *ends)
        path_of.append(cached[ends])
    if not all(path_of):
        return []
    steps = []
    for k in range(max(len(path) for path in path_of)):
        paths = list(ring.paths)
        for at, path in zip(places, path_of, strict=True):
            paths[at] = path[k % len(path)]
        steps.append(replace(ring, paths=tuple(paths)))
    return steps


def _split(damage: Damage, base: Rings, candidates: Mapping[int, list[Ring]]) -> Repaired | None:
    traffic, surviving = damage.traffic, damage.surviving
    arcs = len(traffic.topology.arcs)
    ids = traffic.topology.arc_ids()
    hops, routes = traffic.ring_hops, traffic.route_hops
    others = ~np.isin(hops.place[:, 0], list(candidates))
    whole = np.ones(len(routes.path_bytes), dtype=bool)
    whole[damage.paths] = False
    fixed = routes.loads(arcs, whole) + hops.loads(arcs, others[hops.step])
    unit = max(float(hops.group_bytes.max(initial=0.0)), float(fixed.max(initial=0.0)), 1e-300)
    alternative, resource, use, demand, price = [], [], [], [], []
    flat: list[tuple[int, Ring]] = []
    for k, (g, rings) in enumerate(candidates.items()):
        for ring in rings:
            crossed = [int(ids[a, b]) for path in ring.paths for a, b in pairwise(path)]
            alternative += [len(flat)] * len(crossed)
            resource += crossed
            use += [float(hops.group_bytes[g]) / unit] * len(crossed)
            price.append(HOP_PRICE * len(crossed) / len(ring.paths))
            demand.append(k)
            flat.append((g, ring))
    busy = np.flatnonzero(fixed > 0)
    alternative += [len(flat)] * len(busy)
    resource += busy.tolist()
    use += (fixed[busy] / unit).tolist()
    left = np.maximum(surviving.left, 1)[resource]
    data = PathSplit(
        demand=np.array([*demand, len(candidates)], dtype=np.int64),
        resource=np.array(resource, dtype=np.int64),
        alternative=np.array(alternative, dtype=np.int64),
        use=np.array(use) / left,
        resources=arcs,
        price=np.array([*price, 0.0]),
    )
    result = BACKENDS["highs-simplex"](path_split_arrays(data), SolverLimits())
    if result.x is None:
        return None
    share = shares_of(data, result.x)[:-1]
    out = list(base)
    for g in candidates:
        own = [(ring, float(s)) for (h, ring), s in zip(flat, share, strict=True) if h == g and s >= LEAST_SHARE]
        total = sum(s for _, s in own)
        out[g] = replace(base[g], rings=tuple(replace(ring, share=s / total) for ring, s in own))
    return _finished(damage, tuple(out))


def _finished(damage: Damage, rings: Rings, avoid: Ints | None = None) -> Repaired | None:
    routes = damage.rerouted(rings, avoid=avoid)
    return None if routes is None else Repaired(routes, rings)


RING_REPAIRS: Mapping[str, Callable[[Damage], Repaired | None]] = {
    "detour": detour,
    "lend": lend,
    "re-split": re_split,
    "spread": spread,
}
"""Strategies for broken rings; each is None where it does not apply or cannot deliver everything."""
