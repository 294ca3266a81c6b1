"""The portfolio of topologies that the alternating loop tries for a demand, the most promising first.

Sources: TopologyFinder with every degree split and selection; circulants of every distance set when they are few, else
those that fit the AllReduce groups and random ones. Each circulant is ranked by an estimate of the time its links are
busy; those that differ only by multiplication of all distances by a unit of Z_n are one topology when the demand is
unchanged by that relabelling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, combinations_with_replacement
from math import comb, gcd

import numpy as np

from solvers.network.constructions.circulant import distances_text
from solvers.network.constructions.degree_split import split_degree, traffic_by_size
from solvers.network.constructions.estimate import BusyEstimate, invariant_units
from solvers.network.constructions.finder import FinderSettings, build_topology, find_topology
from solvers.network.constructions.selection import Selection
from solvers.network.constructions.totient_perms import check_connectable, generates, select_offsets
from topoopt.core.arrays import Ints
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.process import end_if_left
from topoopt.core.routing import Demand
from topoopt.core.topology import Topology

FEW_SETS = 400
RANDOM_SETS = 200


def candidate_topologies(cluster: Cluster, demand: Demand, *, limit: int, seed: int = 0) -> list[Topology]:
    """At most `limit` different connected topologies; the first is TopologyFinder's own for this demand.

    Raises:
        InputError, InfeasibleError: as `find_topology`.
    """
    n, degree, links = cluster.servers, cluster.degree, cluster.links
    check_connectable(n, degree, links)
    found = [find_topology(cluster, demand, FinderSettings(seed=seed))]
    if limit <= 1 or n == 1:
        return found[:1]
    seen = {_key(found[0])}
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
        if len(found) >= limit:
            break
        key = _key(topology)
        if key not in seen:
            seen.add(key)
            found.append(topology)
    return found


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
    default = split_degree(cluster.servers, cluster.degree, cluster.links, demand).matchings
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
    for _ in range(RANDOM_SETS):
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
