"""Regional circuits: some interfaces of a server on the optical switch of its region, the others on a network above.

A region is the servers that exchange tokens. Only these tokens use circuits; all else, and tokens of pairs without
one, go over the switch of the others (Liao et al., MixNet, SIGCOMM 2025, arXiv:2501.03905). Circuits are those that
carry a uniform exchange first; three networks: pairs use circuits alone, or the other interfaces as well, or servers
forward what pairs without a circuit send each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, islice, product

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from solvers.regional_circuits.matching import matched
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import Problem
from topoopt.core.llm_training import GpuCluster
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.regional_circuits import RegionalCircuitsProblem
from topoopt.core.routing import PathTable
from topoopt.simulate.llm_training.network.graphs import star
from topoopt.simulate.llm_training.network.groups import FamilyGroups
from topoopt.simulate.llm_training.network.links import LinkGraph, Rails, exchange_flows
from topoopt.simulate.llm_training.network.routing import path_table
from topoopt.simulate.regional.transfer_time import RegionTraffic

MOST_REGION = 128
"""Servers of a region; larger ones get no circuits."""

MOST_GRAPHS = 2000
"""Circulant graphs of circuits that are tried for a region."""

Path = tuple[int, ...]
"""Servers of a region, -1 for the switch of the other interfaces."""


@dataclass(frozen=True)
class Region:
    """Circuits of a region, its servers numbered from 0.

    Attributes:
        circuits: of pairs, the smaller number first.
        ways: of (source, target): paths with their shares.
    """

    circuits: Mapping[tuple[int, int], int]
    ways: Mapping[tuple[int, int], tuple[tuple[Path, float], ...]]


def regional_problems(cluster: GpuCluster) -> list[Problem]:
    """Interfaces on both networks."""
    if 0 < cluster.optical_interfaces < cluster.degree:
        return []
    allowed = f"cluster.optical_interfaces of 1 to {cluster.degree - 1}" if cluster.degree > 1 else "degree above 1"
    return [Problem("no interfaces on an optical switch", value=str(cluster.optical_interfaces), allowed=allowed)]


def regional_networks(cluster: GpuCluster, groups: FamilyGroups) -> Iterator[tuple[LinkGraph, PathTable]]:
    """Links with circuits, and routes of tokens."""
    classes = groups.collectives.get(F.EXPERT, ())
    n = cluster.servers
    demand = np.zeros((n, n))
    if classes:
        flows = exchange_flows(classes, np.arange(n))
        np.add.at(demand, (flows.source, flows.target), flows.amount)
    _, place = connected_components(csr_array(demand), directed=False)
    regions = [np.flatnonzero(place == one) for one in np.unique(place)]
    chosen = [one for one in regions if 1 < len(one) <= MOST_REGION]
    for plan in (_alone, _split, _forwarded) if chosen else (_alone,):
        found = [plan((demand[np.ix_(one, one)] / demand.max()).tobytes(), len(one), cluster.optical_interfaces,
                      cluster.degree - cluster.optical_interfaces) for one in chosen]  # fmt: skip
        made = [(servers, region) for servers, region in zip(chosen, found, strict=True) if region is not None]
        if len(made) == len(chosen):
            yield _graph(cluster, made), _routes(n, demand, made)


@lru_cache(maxsize=256)
def _alone(demand: bytes, servers: int, optical: int, other: int) -> Region:
    """Circuits alone for the pairs that have some."""
    return _matched(demand, servers, optical, other, split=False)


@lru_cache(maxsize=256)
def _split(demand: bytes, servers: int, optical: int, other: int) -> Region:
    """The other interfaces too, where circuits take longer."""
    return _matched(demand, servers, optical, other, split=True)


def _matched(demand: bytes, servers: int, optical: int, other: int, *, split: bool) -> Region:
    matrix = np.frombuffer(demand).reshape(servers, servers)
    ports = (optical,) * servers
    problem = RegionalCircuitsProblem("region", servers, ports, 1.0, float(other), matrix[None], split)
    traffic = RegionTraffic.of(problem, matrix)
    best, _ = matched(traffic, Stop(), programs=False)
    circuits, ways = {}, {}
    for (i, j), count, larger in zip(problem.pairs, best.circuits.tolist(), traffic.larger.tolist(), strict=True):
        part = 0.0 if not count else min(1.0, count * best.seconds / larger) if split else 1.0
        if count:
            circuits[i, j] = count
        for one, two in ((i, j), (j, i)):
            ways[one, two] = tuple(way for way in (((one, two), part), ((one, -1, two), 1.0 - part)) if way[1] > 0)
    return Region(circuits, ways)


@lru_cache(maxsize=256)
def _forwarded(demand: bytes, servers: int, optical: int, other: int) -> Region | None:
    """A circulant graph of circuits; pairs without one by a third server, as far as the other interfaces are full.

    None: every pair has a circuit, or pairs do not send equally much.
    """
    matrix = np.frombuffer(demand).reshape(servers, servers)
    if optical >= servers - 1 or optical < 2 or np.ptp(matrix[~np.eye(servers, dtype=bool)]) > 0:
        return None
    steps = combinations(range(1, (servers + 1) // 2), optical // 2)
    graphs = (tuple(sign * step for step in chosen for sign in (1, -1)) for chosen in islice(steps, MOST_GRAPHS))
    _, above, offsets = min(_forwarding(servers, own, other) for own in graphs)
    circuits = {(i, (i + d) % servers): 1 for i in range(servers) for d in offsets if i < (i + d) % servers}
    ways: dict[tuple[int, int], tuple[tuple[Path, float], ...]] = {}
    for i, d in product(range(servers), range(1, servers)):
        j = (i + d) % servers
        via = [(i + step) % servers for step in offsets if (d - step) % servers in {one % servers for one in offsets}]
        if d in {step % servers for step in offsets}:
            ways[i, j] = (((i, j), 1.0),)
        elif not via:
            ways[i, j] = (((i, -1, j), 1.0),)
        else:
            ways[i, j] = (((i, -1, j), above), *(((i, k, j), (1.0 - above) / len(via)) for k in via))
    return Region(circuits, ways)


def _forwarding(servers: int, offsets: tuple[int, ...], other: int) -> tuple[float, float, tuple[int, ...]]:
    """(time of one unit between all pairs, part of pairs without circuit that takes the switch, the offsets)."""
    load = {step % servers: 0.0 for step in offsets}
    apart = forwarded = 0
    for d in range(1, servers):
        via = [step % servers for step in offsets if (d - step) % servers in load]
        if d not in load:
            apart, forwarded = apart + (not via), forwarded + bool(via)
            for step in via:
                load[step] += 1.0 / len(via)
                load[(d - step) % servers] += 1.0 / len(via)
    most = max(load.values())
    if not forwarded:
        return max(1.0, apart / other), 0.0, offsets
    above = min(1.0, max(0.0, (1.0 + most - apart / other) / (forwarded / other + most)))
    return max(1.0 + (1.0 - above) * most, (apart + above * forwarded) / other), above, offsets


def _graph(cluster: GpuCluster, regions: Sequence[tuple[Ints, Region]]) -> LinkGraph:
    """The other interfaces on node n, and circuits both ways."""
    hub = star(cluster, Rails.NONE)
    rows = [(servers[i], servers[j], count) for servers, one in regions for (i, j), count in one.circuits.items()]
    pairs = np.array(sorted(rows), dtype=np.int64).reshape(-1, 3)
    electrical = np.full(len(hub.tail), cluster.degree - cluster.optical_interfaces)
    return LinkGraph(
        servers=hub.servers,
        nodes=hub.nodes,
        tail=np.concatenate([hub.tail, pairs[:, 0], pairs[:, 1]]),
        head=np.concatenate([hub.head, pairs[:, 1], pairs[:, 0]]),
        parallel=np.concatenate([electrical, pairs[:, 2], pairs[:, 2]]),
        link_gbps=cluster.link_gbps,
    )


def _routes(n: int, demand: Floats, regions: Sequence[tuple[Ints, Region]]) -> PathTable:
    """Of tokens; over node n where a region has no circuits."""
    source, target = (side.astype(np.int64) for side in np.nonzero(demand))
    ways: dict[tuple[int, int], tuple[tuple[Path, float], ...]] = {}
    for servers, region in regions:
        named = {-1: n} | dict(enumerate(servers.tolist()))
        for (i, j), own in region.ways.items():
            ways[named[i], named[j]] = tuple((tuple(named[node] for node in path), share) for path, share in own)
    pair, rows, shares = [], [], []
    for place, ends in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        for path, share in ways.get(ends, (((ends[0], n, ends[1]), 1.0),)):
            pair.append(place)
            rows.append([*path, -1][:3])
            shares.append(share)
    padded = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return path_table(n + 1, source, target, [(np.array(pair, dtype=np.int64), padded, np.array(shares))])
