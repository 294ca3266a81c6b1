"""Rings found anew for groups that an exchange of links left with hops over several links."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solvers.job.exchanges.repair import Missing, find_missing, paths_again
from solvers.job.exchanges.wiring import Path, Wiring
from solvers.job.ring_pricing import EXACT_SIZE, short_ring
from solvers.network.constructions.cycles import hamiltonian_cycles
from topoopt.core.routing import GroupRings, Ring

Order = tuple[int, ...]


def rings_anew(wiring: Wiring, *, paired: bool, seed: int) -> Wiring:
    """The same with other rings for the groups whose rings go over several links from a member to the next.

    A group of all servers gets Hamiltonian cycles over all links, both ways round, where these are fibre pairs and
    there are such cycles; a group of a few servers its shortest ring.

    Args:
        wiring: links, and rings that may be better on them.
        paired: links are fibre pairs.
        seed: of the search of cycles.
    """
    groups = list(wiring.rings)
    for g, group in enumerate(wiring.rings):
        orders = [] if _direct(group) else _orders(wiring, group, paired, seed)
        if orders:
            groups[g] = _on_orders(wiring, group, orders)
    same = all(one is other for one, other in zip(groups, wiring.rings, strict=True))
    return wiring if same else replace(wiring, rings=tuple(groups))


def _direct(group: GroupRings) -> bool:
    return all(len(path) == 2 for ring in group.rings for path in ring.paths)


def _hops(group: GroupRings) -> float:
    """Mean hops from a member to the next."""
    return float(np.mean([len(path) - 1 for ring in group.rings for path in ring.paths]))


def _orders(wiring: Wiring, group: GroupRings, paired: bool, seed: int) -> list[Order]:
    """Orders that are shorter than the rings of the group; none where none are known."""
    members = sorted(group.members)
    if paired and len(members) == len(wiring.counts):
        known = dict.fromkeys(_forth(ring.order) for ring in group.rings)
        cycles = hamiltonian_cycles(wiring.counts, known, seed=seed)
        if cycles is not None:
            return [order for cycle in cycles for order in (cycle, cycle[::-1])]
    if len(members) > EXACT_SIZE:
        return []
    between = wiring.graph.hops_to[np.ix_(members, members)].T.astype(np.float64)
    length, order = short_ring(between)
    if length / len(members) >= _hops(group):
        return []
    found = tuple(members[place] for place in order.tolist())
    return [found, found[::-1]] if paired and len(members) > 2 else [found]


def _forth(order: Order) -> Order:
    """The same ring from server 0 on, the way round that visits the smaller neighbour of it first."""
    at = order.index(min(order))
    turned = (*order[at:], *order[:at])
    return turned if turned[1] <= turned[-1] else (turned[0], *turned[:0:-1])


def _on_orders(wiring: Wiring, group: GroupRings, orders: list[Order]) -> GroupRings:
    load, missing = np.zeros(wiring.counts.shape), Missing()
    share, amount = 1.0 / len(orders), wiring.wire_bytes[group.members] / len(orders)
    found: list[tuple[Order, list[Path]]] = []
    for order in orders:
        ring = Ring(order, share, ())
        found.append((order, paths_again(ring, order, wiring, amount, load, missing)))
    find_missing(wiring, load, missing)
    return GroupRings(group.members, tuple(Ring(order, share, tuple(paths)) for order, paths in found))
