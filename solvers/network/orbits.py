"""Demand that a group of permutations keeps is routed exactly by one source of each orbit and one load a class of arcs.

The groups looked for are the ring of all servers, boxes of rings (tori of any dimension), then semidirect products of
two cyclic groups, with elements numbered as in `topoopt.core.topology`. A search that imposes a group hands it over.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from formulations.flow_routing import OrbitFlow, orbit_flow_arrays
from solvers.network.flows import RoutingNetwork, RoutingProof, network_of
from solvers.network.linear import TIGHT, solved
from solvers.network.symmetric import mixed_walks
from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.topology import Symmetry, Topology, boxes_of, semidirect_groups, translations

Generators = tuple[tuple[int, ...], Int32s]
"""Sizes of a box of servers, none for another group, and int32[g, n], permutations."""

SLACKS = (0, 1, None)
"""Hops that a link may be off the shortest paths of a source, in turn until the bound is reached; None: any link."""

FEW_CLASSES = 8
"""Up to here mixtures of shortest paths converge in some dozens of walks."""

_EXACT = 1e-8

_SIMPLEX = 20_000
"""Columns up to which the simplex method takes a second."""


def symmetry_of(network: RoutingNetwork, *, ring: bool = False) -> Symmetry | None:
    """The first group found that keeps links, capacities and, to the last bit, demand; server 0 stands for all then.

    Args:
        network: of any links.
        ring: whether to look no further than the ring of all servers.
    """
    n = network.servers
    if len(network.head) % n or (np.diff(network.first) != network.first[1]).any():
        return None
    for dims, moves in islice(_candidates(network), 1 if ring else None):
        if all(_keeps_first(network, move) for move in moves):  # most groups fail here
            symmetry = Symmetry.of(np.column_stack((network.tail, network.head)), n, moves, dims)
            if symmetry is not None and fits(network, symmetry):
                return symmetry
    return None


def _keeps_first(network: RoutingNetwork, move: Int32s) -> bool:
    """Whether the links of server 0, moved, are those of the server that it is moved to."""
    there = int(move[0])
    moved = np.sort(move[network.head[: network.first[1]]])
    return np.array_equal(moved, network.head[network.first[there] : network.first[there + 1]])


def _candidates(network: RoutingNetwork) -> Iterator[Generators]:
    n = network.servers
    yield (n,), translations((n,))
    for box in boxes_of(n, network.tail, network.head):
        yield box.dims, translations(box.dims)
    everyone = np.arange(n)
    for group in semidirect_groups(n):
        steps = {group.order % n, 1}
        yield (), np.array([group.products(np.array(step), everyone) for step in sorted(steps)], dtype=np.int32)


def fits(network: RoutingNetwork, symmetry: Symmetry) -> bool:
    """Whether a group that keeps the links keeps capacities and demand as well."""
    width = network.capacity[symmetry.arc]
    return bool((width == width[:, :1]).all()) and symmetry.keeps(network.demand)


def one_row(topology: Topology, demand: Floats) -> bool:
    """Whether a routing without limits has one row that stands for all, however many servers there are."""
    return symmetry_of(network_of(topology, demand)) is not None


def source_hops(network: RoutingNetwork, sources: Ints) -> Ints:
    """int64[k, n]: hops from some servers, -1 where there is no path."""
    hops = np.full((len(sources), network.servers), -1)
    order = np.argsort(network.tail, kind="stable")
    for row, source in zip(hops, sources.tolist(), strict=True):
        front, count = np.array([source]), 0
        while front.size:
            row[front] = count
            arcs = np.concatenate([order[network.first[v] : network.first[v + 1]] for v in front.tolist()])
            front, count = np.unique(network.head[arcs]), count + 1
            front = front[row[front] < 0]
    return hops


def _mixed(proof: RoutingProof, group: Symmetry) -> int:
    width = proof.network.capacity[group.arc[:, 0]]
    start = proof.router.copy(len(group.sources))

    def flow_of(lengths: Floats) -> Floats:
        # what ties take depends on earlier calls, but the same lengths have to give the same flow: hence a copy
        return start.copy(len(group.sources)).tree_flows(lengths[group.label])

    def walk(lengths: Floats) -> tuple[float, Floats]:
        load = np.bincount(group.label, flow_of(lengths).sum(axis=0), len(width)).astype(np.float64)
        return float(load @ lengths), load

    mixture = mixed_walks(walk, proof.network.servers, width, min(proof.accuracy, _EXACT), proof.stop.remaining_s())
    proof.offer_lengths(mixture.lengths[group.label])
    terms = zip(mixture.share.tolist(), mixture.routing_lengths, strict=True)
    proof.offer_rough_flow(np.sum([share * flow_of(lengths) for share, lengths in terms], axis=0), proof.lengths)
    return mixture.routings


def by_orbits(proof: RoutingProof) -> int:
    """The linear program of one source an orbit, over links near shortest paths first; returns the programs solved.

    Large networks of few classes of links take the mixtures of `solvers.network.symmetric`, whose columns are returned.
    """
    network, group = proof.network, proof.symmetry
    assert group is not None
    sources = group.sources
    proof.offer_rough_flow(np.zeros((len(sources), len(network.head))), np.ones(len(network.head)))
    if proof.proven or proof.late:
        return 0
    if len(sources) * len(network.head) > _SIMPLEX // 2 and len(group.arc) <= FEW_CLASSES:
        return _mixed(proof, group)
    hops = source_hops(network, sources)
    near, far = hops[:, network.tail], hops[:, network.head]
    outward = (near >= 0) & (network.head != sources[:, None])
    sent = network.demand[sources]
    mean = float(sent.sum()) / sent.size
    work = 0
    for slack in SLACKS:
        if proof.proven or proof.late:
            break
        usable = outward if slack is None else outward & (near + 1 <= far + slack)
        data = OrbitFlow(network.tail, network.head, network.capacity, group.label, sources, sent / mean, usable)
        arrays = orbit_flow_arrays(data)
        small = arrays.columns <= _SIMPLEX
        answer = solved(proof, "highs-simplex" if small else "highs-ipx", arrays, {**TIGHT, "run_crossover": "off"})
        work += 1
        if answer.row_dual is not None:
            lengths = np.maximum(-answer.row_dual[-len(group.arc) :], 0.0)
            proof.offer_lengths(lengths[group.label])
        if answer.raw_x is not None:
            flow = np.zeros(usable.shape)
            flow[usable] = np.maximum(answer.raw_x[:-1], 0.0) * mean
            proof.offer_rough_flow(flow, proof.lengths)
    return work
