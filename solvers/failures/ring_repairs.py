"""Repairs of broken AllReduce rings, each a strategy of its own (TopoOpt, NSDI'23, section 5).

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

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from formulations.job.path_split import PathSplit, build_arrays, shares_of
from solvers.backends import BACKENDS, SolverLimits
from solvers.failures.damage import Damage, Rings, with_steps
from solvers.failures.detours import disjoint_detours
from solvers.failures.reorder import other_orders
from solvers.failures.reroute import least_loaded
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.routing import PathTable, Ring

LEAST_SHARE = 0.005
"""Rings of a smaller share are dropped, the others take their place."""

HOP_PRICE = 1e-4
"""Charge per hop against the largest load: of equally good shares those over short rings are taken."""


@dataclass(frozen=True, eq=False)
class Repaired:
    """Routes and rings over what survives."""

    routes: PathTable
    rings: Rings


def _ends(damage: Damage) -> tuple[Ints, Ints, Floats]:
    """Sender, receiver and bytes of every broken step."""
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
    source, target, amount = _ends(damage)
    paths = least_loaded(damage.surviving, source, target, amount, damage.base_load())
    if paths is None:
        return None
    heads = damage.traffic.topology.arcs[:, 1].astype(np.int64)
    ways = [paths.nodes(k, int(source[k]), heads) for k in range(len(source))]
    return with_steps(damage.traffic.rings, damage.traffic.ring_hops.place[damage.steps], ways)


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
    source, target, _ = _ends(damage)
    ids = traffic.topology.arc_ids()
    lent: set[int] = set()
    ways = []
    for s, t in zip(source.tolist(), target.tolist(), strict=True):
        graph = surviving.graph(t)
        alive = graph.head != graph.tail
        # Fewest arcs with AllReduce first, then fewest hops.
        cost = np.where(ringed, 1.0 + n, 1.0)[alive]
        matrix = csr_array((cost, (graph.tail[alive], graph.head[alive])), shape=(n, n))
        _, before = dijkstra(matrix, indices=s, return_predecessors=True)
        if before[t] < 0:
            return None
        way = [t]
        while way[-1] != s:
            way.append(int(before[way[-1]]))
        way.reverse()
        ways.append(tuple(way))
        lent |= {int(ids[a, b]) for a, b in pairwise(way) if not ringed[ids[a, b]]}
    if not lent:
        return None
    rings = with_steps(traffic.rings, hops.place[damage.steps], ways)
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
    known: dict[tuple[int, int], list[tuple[int, ...]]] = {}
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
            candidates[g] += _on_detours(damage, ring, places, known)
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
    damage: Damage, ring: Ring, places: list[int], known: dict[tuple[int, int], list[tuple[int, ...]]]
) -> list[Ring]:
    """A broken ring over the first detours of its lost steps, over the second ones, and so on."""
    ways = []
    for at in places:
        ends = ring.order[at], ring.order[(at + 1) % len(ring.order)]
        if ends not in known:
            known[ends] = disjoint_detours(damage.surviving, *ends)
        ways.append(known[ends])
    if not all(ways):
        return []
    found = []
    for k in range(max(len(each) for each in ways)):
        paths = list(ring.paths)
        for at, each in zip(places, ways, strict=True):
            paths[at] = each[k % len(each)]
        found.append(replace(ring, paths=tuple(paths)))
    return found


def _split(damage: Damage, base: Rings, candidates: Mapping[int, list[Ring]]) -> Repaired | None:
    """Shares of the candidates of weakened groups, beside all other traffic, by linear program."""
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
    result = BACKENDS["highs-simplex"](build_arrays(data), SolverLimits())
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
