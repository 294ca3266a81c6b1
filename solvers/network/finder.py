"""TopologyFinder (Algorithm 1, TopoOpt, NSDI'23) builds rings and matchings; a portfolio of candidates extends it.

The portfolio of topologies that the alternating loop tries for a demand, the most promising first.

Sources: TopologyFinder with every degree split and selection; circulants of every distance set when they are few, else
those that fit the AllReduce groups and random ones. Each circulant is ranked by an estimate of the time its links are
busy; those that differ only by multiplication of all distances by a unit of Z_n are one topology when the demand is
unchanged by that relabelling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement
from math import comb, gcd

import numpy as np

from solvers.network.assembly import (
    ArcList,
    assemble,
    best_permutation,
    fill_free,
    link_arcs,
    match_demand,
    ring_arcs,
    share_rings,
    split_degree,
    traffic_by_size,
)
from solvers.network.distances import (
    Selection,
    check_connectable,
    coins_of,
    generates,
    hop_table,
    interfaces_of,
    select_distances,
    select_offsets,
)
from solvers.network.routes import (
    distances_text,
)
from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.errors import InputError, Problem
from topoopt.core.process import end_if_left
from topoopt.core.topology import Topology
from topoopt.core.workload import Demand


@dataclass(frozen=True)
class FinderSettings:
    """Choices of the finder.

    Attributes:
        selection: how ring distances are picked.
        model_parallel_degree: interfaces for matchings; None: from the traffic.
        subgroup_rings: rings of their own for AllReduce groups smaller than the cluster.
        seed: of the distance search (`best`).
    """

    selection: Selection = Selection.FLEXNET
    model_parallel_degree: int | None = None
    subgroup_rings: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.model_parallel_degree is not None and self.model_parallel_degree < 0:
            value = str(self.model_parallel_degree)
            raise InputError([Problem("negative", path="model_parallel_degree", value=value, allowed=">= 0 or none")])


def find_topology(cluster: Cluster, demand: Demand, settings: FinderSettings | None = None) -> Topology:
    """A connected topology of the cluster's degree for this demand.

    Every interface is used, except one of the whole cluster when servers x degree is odd and links are bidirectional
    (and one per server when there is a single server).

    Raises:
        InputError: demand of another number of servers, or servers or degree below 1.
        InfeasibleError: one bidirectional interface cannot connect more than two servers.
    """
    settings = settings or FinderSettings()
    n, degree, links = cluster.servers, cluster.degree, cluster.links
    check_connectable(n, degree, links)
    if demand.servers != n:
        raise InputError([Problem("demand is for another cluster", value=f"{demand.servers} servers", allowed=str(n))])
    if n == 1:
        return assemble(1, degree, links, [], "one server")
    rings, _ = split_degree(n, degree, links, demand, settings.model_parallel_degree)
    distances = ring_distances(n, rings, links, demand, settings)
    return build_topology(cluster, demand, distances, f"totient {settings.selection} {distances_text(distances)}")


def build_topology(cluster: Cluster, demand: Demand, distances: Sequence[int], origin: str) -> Topology:
    """Rings of these distances, and matchings for the model-parallel demand on all interfaces they leave.

    Raises:
        InputError: the rings take more interfaces than there are.
        InfeasibleError: not connected.
    """
    n, degree, links = cluster.servers, cluster.degree, cluster.links
    parts: list[ArcList] = [ring_arcs(n, p, links) for p in distances]
    left = degree - sum(interfaces_of(n, p, links) for p in distances)
    if left > 0:
        weights = demand.model_parallel_bytes
        origin += f" + {left} matching{'s' if left > 1 else ''}"
        parts += _permutations(weights, left) if links is LinkDirection.UNIDIRECTIONAL else [_matchings(weights, left)]
    return assemble(n, degree, links, parts, origin)


def ring_distances(
    n: int, interfaces: int, links: LinkDirection, demand: Demand, settings: FinderSettings
) -> tuple[int, ...]:
    """Distances of the rings on `interfaces` interfaces per server, largest groups first."""
    traffic = traffic_by_size(n, demand) if settings.subgroup_rings else {}
    chosen: list[int] = []
    for size, count in sorted(share_rings(n, interfaces, links, traffic).items(), reverse=True):
        chosen += select_distances(n, size, count, links, settings.selection, fixed=chosen, seed=settings.seed)
    if links is LinkDirection.BIDIRECTIONAL and n % 2 == 0 and float(demand.model_parallel_bytes.sum()) <= 0:
        # Nothing to match for: an odd interface makes the antipodal links, which keep the graph a circulant.
        spare = interfaces - sum(interfaces_of(n, p, links) for p in chosen)
        chosen += [n // 2] * spare
    return tuple(chosen)


def _matchings(weights: Floats, rounds: int) -> ArcList:
    free = np.full(len(weights), rounds, dtype=np.int64)
    chosen = match_demand(weights, free, rounds)
    return link_arcs(fill_free(weights, free, chosen))


def _permutations(demand: Floats, rounds: int) -> list[ArcList]:
    weights = np.array(demand, dtype=np.float64)
    n = len(weights)
    links = np.zeros((n, n), dtype=np.int64)
    tails = np.arange(n, dtype=np.int64)
    parts = []
    for _ in range(rounds):
        end_if_left()
        heads = best_permutation(weights)
        links[tails, heads] += 1
        weights[tails, heads] *= links[tails, heads] / (links[tails, heads] + 1.0)
        parts.append(np.column_stack((tails, heads)))
    return parts


class BusyEstimate:
    """Mean time, ms, that a link is busy with a demand on ring distances when all is spread evenly.

    Model-parallel bytes count their hops. AllReduce bytes count the hops of the shortest ring of their group; and a
    one-hop ring whose links inside the group are few counts as if only those (and two-hop detours) worked. The demand
    is added up by displacement once, so that each set of distances costs O(n) and not O(n^2).
    """

    def __init__(self, cluster: Cluster, demand: Demand) -> None:
        n = cluster.servers
        self.cluster = cluster
        self._wire = traffic_by_size(n, demand)
        self._sent = by_displacement(demand.model_parallel_bytes)
        self._units = {
            size: np.flatnonzero(np.gcd(np.arange(size), size) == 1) * (n // size) for size in self._wire if size > 1
        }

    def __call__(self, distances: Sequence[int]) -> float:
        """Of one set of ring distances."""
        end_if_left()
        n, links = self.cluster.servers, self.cluster.links
        hops = hop_table(n, coins_of(n, distances, links))
        byte_hops = float((self._sent * hops).sum())
        used = sum(interfaces_of(n, p, links) for p in distances)
        for size, wire in self._wire.items():
            step = n // size
            fewest = int(hops[self._units[size] % n].min()) if size > 1 else 1
            if fewest == 1:
                inside = sum(interfaces_of(n, p, links) for p in distances if p % step == 0)
                # Water filling between `inside` one-hop interfaces and detours of two hops on the others.
                byte_hops += wire * used / (inside + (used - inside) / 2)
            else:
                byte_hops += wire * fewest
        return byte_hops / (n * max(used, 1) * self.cluster.link_bytes_per_ms)


def by_displacement(amount: Floats) -> Floats:
    """float64[n]: sum over i of amount[i, i + j mod n], entry j."""
    n = len(amount)
    out = np.zeros(n)
    for i in np.flatnonzero(amount.any(axis=1)).tolist():
        out[: n - i] += amount[i, i:]
        out[n - i :] += amount[i, :i]
    return out


def invariant_units(n: int, demand: Demand) -> tuple[int, ...]:
    """Units u of Z_n such that renaming server i to u i mod n leaves the demand as it is (1 always does).

    Every unit does when there is no model-parallel traffic and AllReduce groups of one size carry equal payloads. They
    are a group under multiplication: what leaves the demand as it is, does so in products, and what does not, does not
    in products with what does. So few of the units are held against the demand.
    """
    payload: dict[frozenset[int], float] = {}
    for group in demand.allreduce:
        key = frozenset(group.members)
        payload[key] = payload.get(key, 0.0) + group.payload_bytes
    transfers = demand.model_parallel_bytes
    busy = np.flatnonzero(transfers.any(axis=1)).tolist()
    units, refuted = {1 % n}, set[int]()
    for u in range(1, n):
        end_if_left()
        if gcd(u, n) != 1 or u in units or u in refuted:
            continue
        image = u * np.arange(n) % n
        # Row by row: most units that do not fit differ in the first.
        fits = all(np.array_equal(transfers[image[i], image], transfers[i]) for i in busy) and all(
            payload.get(frozenset(image[list(key)].tolist())) == value for key, value in payload.items()
        )
        if fits:
            units = _generated(n, units, u)
            refuted = {x * y % n for x in refuted for y in units}
        else:
            refuted |= {u * y % n for y in units}
    return tuple(sorted(units)) if n > 1 else (1,)


def _generated(n: int, group: set[int], u: int) -> set[int]:
    """The group of units of Z_n made by a group and one unit more."""
    power, out = u, set(group)
    while power not in group:
        out |= {power * x % n for x in group}
        power = power * u % n
    return out


FEW_SETS = 400


def candidate_topologies(cluster: Cluster, demand: Demand, *, limit: int, seed: int = 0) -> list[Topology]:
    """At most `limit` different connected topologies; the first is TopologyFinder's own for this demand.

    Raises:
        InputError, InfeasibleError: as `find_topology`.
    """
    n, degree, links = cluster.servers, cluster.degree, cluster.links
    check_connectable(n, degree, links)
    candidates = [find_topology(cluster, demand, FinderSettings(seed=seed))]
    if limit <= 1 or n == 1:
        return candidates[:1]
    seen = {_key(candidates[0])}
    units = np.array(invariant_units(n, demand), dtype=np.int64)
    sets: dict[tuple[int, ...], tuple[int, ...]] = {}
    for distances in _distance_sets(n, degree, links, demand, seed):
        end_if_left()
        sets.setdefault(_canonical(n, links, distances, units), distances)
    estimate = BusyEstimate(cluster, demand)
    ranked = sorted((estimate(distances), distances) for distances in sets.values())
    mixed = _finder_variants(cluster, demand, seed)
    circulants = (
        build_topology(cluster, demand, distances, f"circulant {distances_text(distances)}") for _, distances in ranked
    )
    # Three circulants, then one of the finder's variants, until both are used up.
    for topology in _interleaved(circulants, mixed, 3):
        if len(candidates) >= limit:
            break
        key = _key(topology)
        if key not in seen:
            seen.add(key)
            candidates.append(topology)
    return candidates


def _interleaved(many: Iterator[Topology], few: Iterator[Topology], ratio: int) -> Iterator[Topology]:
    missing = object()
    done_many = done_few = False
    while not (done_many and done_few):
        for _ in range(ratio):
            item = next(many, missing)
            if isinstance(item, Topology):
                yield item
            else:
                done_many = True
                break
        item = next(few, missing)
        if isinstance(item, Topology):
            yield item
        else:
            done_few = True


def _finder_variants(cluster: Cluster, demand: Demand, seed: int) -> Iterator[Topology]:
    """TopologyFinder over degree splits, the paper's first, with each selection, with subgroup rings or without."""
    default = split_degree(cluster.servers, cluster.degree, cluster.links, demand)[1]
    busy = float(demand.model_parallel_bytes.sum()) > 0
    most = cluster.degree if busy else 0
    for matchings in sorted(range(most + 1), key=lambda value: (abs(value - default), value)):
        for selection in Selection:
            end_if_left()
            for subgroup_rings in (True, False):
                settings = FinderSettings(selection, matchings, subgroup_rings, seed)
                yield find_topology(cluster, demand, settings)


def _distance_sets(n: int, degree: int, links: LinkDirection, demand: Demand, seed: int) -> Iterator[tuple[int, ...]]:
    """Connected multisets of ring distances that use as many interfaces as parity allows."""
    if n == 2:
        yield (1,) * degree
        return
    bidirectional = links is LinkDirection.BIDIRECTIONAL
    for selection in Selection:
        end_if_left()
        yield tuple(sorted(select_offsets(n, degree, links, selection, seed=seed)))
    plain = list(range(1, (n + 1) // 2)) if bidirectional else list(range(1, n))
    count = degree // 2 if bidirectional else degree
    # With bidirectional links the antipodal distance takes one interface: none or two of an even degree, one of an odd.
    antipodal = [degree % 2, degree % 2 + 2] if bidirectional and n % 2 == 0 else [0]
    for extra in antipodal:
        rings = count - extra // 2
        if rings < 1:
            continue
        tail = (n // 2,) * extra
        for chosen in _choices(n, plain, rings, demand, seed):
            if generates(n, (*chosen, *tail)):
                yield (*chosen, *tail)


def _choices(n: int, plain: Sequence[int], rings: int, demand: Demand, seed: int) -> Iterator[tuple[int, ...]]:
    """Sets of `rings` distances: all when few; else built from those that fit the groups, and random ones."""
    if rings > len(plain) or comb(len(plain), rings) <= FEW_SETS:
        if rings <= len(plain):
            yield from combinations(plain, rings)
        if comb(len(plain) + rings - 1, rings) <= FEW_SETS or rings > len(plain):
            yield from _first(combinations_with_replacement(plain, rings), FEW_SETS)
        return
    allowed = set(plain)
    sizes = [size for size, amount in sorted(traffic_by_size(n, demand).items()) if amount > 0 and size < n]
    fitting = [
        n // size * q for size in sizes for q in range(1, size) if gcd(q, size) == 1 and n // size * q in allowed
    ]
    base = [p for p in dict.fromkeys([1, *fitting, *range(1, rings + 1)]) if p in allowed]
    yield from _first(combinations(base, rings), FEW_SETS)
    yield tuple(range(1, rings + 1))
    root = max(2, round(n ** (1.0 / rings)))
    for ratio in (root - 1, root, root + 1):
        powers = tuple(sorted({min(ratio**i, plain[-1]) for i in range(rings)}))
        if len(powers) == rings:
            yield powers
    rng = np.random.default_rng(seed)
    for _ in range(200):
        rest = rng.choice(len(plain) - 1, size=rings - 1, replace=False) + 1
        yield tuple(sorted([plain[0], *(plain[int(i)] for i in rest)]))


def _first(items: Iterator[tuple[int, ...]], limit: int) -> Iterator[tuple[int, ...]]:
    for _, item in zip(range(limit), items, strict=False):
        yield item


def _canonical(n: int, links: LinkDirection, distances: Sequence[int], units: Ints) -> tuple[int, ...]:
    """One name for distance multisets of the same links, and for those that come from them by a unit of Z_n: the least
    in the order of tuples."""
    reduced = units[:, None] * np.array(distances, dtype=np.int64) % n
    if links is LinkDirection.BIDIRECTIONAL:
        reduced = np.minimum(reduced, n - reduced)
    reduced.sort(axis=1)
    least = reduced[np.lexsort(reduced.T[::-1])[0]]
    return tuple(least.tolist())


def _key(topology: Topology) -> bytes:
    return topology.arcs.tobytes() + topology.multiplicity.tobytes()
