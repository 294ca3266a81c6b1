"""Cayley digraphs with a demand that their translations keep: one source and one length a generator stand for all.

The groups looked for are boxes of rings (tori of any dimension), then semidirect products of two cyclic ones, with
elements numbered as in `topoopt.core.graphs` and `topoopt.core.graphs`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.network.routing.class_mixture import equal_classes, mixed_walks
from solvers.network.routing.network import RoutingNetwork
from solvers.network.routing.proof import RoutingProof
from topoopt.core.arrays import Floats, Ints
from topoopt.core.graphs import RingBox, SemidirectGroup, boxes_of, semidirect_groups
from topoopt.core.process import end_if_left

_EXACT = 1e-8


class Translations(NamedTuple):
    """A group that keeps links and demand; int64[m] class of each arc, and float64[d] capacity of an arc of each."""

    group: RingBox | SemidirectGroup
    kind: Ints
    width: Floats


def translations_of(network: RoutingNetwork) -> Translations | None:
    """The first group found whose translations x -> g x keep links, capacities and, to the last bit, demand."""
    n = network.servers
    if (np.diff(network.first) != network.first[1]).any():
        return None
    for box in boxes_of(n, network.tail, network.head):
        found = _translations(network, box)
        if found is not None:
            return found
    base = network.head[: network.first[1]]
    for group in semidirect_groups(n):
        # the neighbours of 0 tell those of all others: most groups fail at the first of these
        if any(not _moves(network, group, x, base) for x in base.tolist()):
            continue
        found = _translations(network, group)
        if found is not None:
            return found
    return None


def box_of(network: RoutingNetwork) -> RingBox | None:
    """The box whose translations keep links and demand, if one does."""
    found = translations_of(network)
    return found.group if found is not None and isinstance(found.group, RingBox) else None


def _translations(network: RoutingNetwork, group: RingBox | SemidirectGroup) -> Translations | None:
    """Those of a group, if they keep capacities and demand."""
    label = group.products(group.inverses(network.tail), network.head)
    classes = equal_classes(network.servers, label, network.capacity)
    if classes is None or not _keeps(group, network.demand):
        return None
    return Translations(group, np.searchsorted(classes[0], label), classes[1])


def _moves(network: RoutingNetwork, group: SemidirectGroup, x: int, base: Ints) -> bool:
    moved = np.sort(group.products(np.array(x), base))
    return np.array_equal(moved, network.head[network.first[x] : network.first[x + 1]])


def _keeps(group: RingBox | SemidirectGroup, demand: Floats) -> bool:
    everyone = np.arange(len(demand))
    return all(
        np.array_equal(demand[x, group.products(np.array(x), everyone)], demand[0]) for x in range(1, len(demand))
    )


def by_translation(proof: RoutingProof) -> int:
    """Column generation over loads of generators, then the flow of source 0 moved to all; returns the columns."""
    net = proof.network
    found = translations_of(net)
    assert found is not None
    group, kind, width = found
    start = proof.router.copy(1)

    def flow_of(lengths: Floats) -> Floats:
        # what ties take depends on earlier calls, but the same lengths have to give the same flow: hence a copy
        flow: Floats = start.copy(1).tree_flows(lengths[kind])[0]
        return flow

    def walk(lengths: Floats) -> tuple[float, Floats]:
        load: Floats = np.bincount(kind, flow_of(lengths), len(width)).astype(np.float64)
        return float(load @ lengths), load

    mixture = mixed_walks(walk, net.servers, width, min(proof.accuracy, _EXACT), proof.time_left_s)
    proof.offer_lengths(mixture.lengths[kind])
    parts = zip(mixture.share.tolist(), mixture.routing_lengths, strict=True)
    row: Floats = np.sum([share * flow_of(lengths) for share, lengths in parts], axis=0)
    if isinstance(group, RingBox):  # the row stands for all
        proof.offer_rough_flow(row[None], mixture.lengths[kind])
        return mixture.routings

    by_class, flow = np.empty((len(width), net.servers)), np.empty((net.servers, len(row)))
    by_class[kind, net.tail] = row
    everyone = np.arange(net.servers)
    for source, back in enumerate(group.inverses(everyone)):
        end_if_left()
        flow[source] = by_class[kind, group.products(back, everyone)[net.tail]]
    proof.offer_rough_flow(flow, mixture.lengths[kind])
    return mixture.routings
