"""Rings of a family that has no links of its own, over those on which the same servers exchange tokens.

A group that is made of whole groups of an exchange goes round inside each of them by one of the steps that its links
make, and crosses to the next one where it stands: over the link of replicas of the same experts, if these have any. As
many rings as there are such steps share the bytes, each over links that no other uses inside the groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.simulate.llm_training.network.groups import BlockGroups


def borrowed_rings(
    groups: BlockGroups,
    exchange: BlockGroups,
    steps: Sequence[int],
    replicas: Sequence[Ints],
    servers: int,
    *,
    both: bool,
) -> Ints | None:
    """int64[G, R, k]: orders of R rings of each group; None: the groups are not made of those of the exchange.

    Args:
        exchange: groups whose servers m are joined by steps round them: place q to q + step, modulo m.
        steps: of which those that are coprime to m go through all servers.
        replicas: int64[G, R, k] each, rings of the families whose links lead from one exchange to another.
        servers: n.
        both: links lead both ways.
    """
    m = exchange.blocks.shape[1]
    round_all = sorted({min(step, m - step) if both else step for step in steps if gcd(step, m) == 1})
    if not round_all:
        return None
    owner = np.full(servers, -1, dtype=np.int64)
    owner[exchange.blocks] = np.arange(len(exchange.blocks))[:, None]
    ring_of = {server: ring for orders in replicas for ring in orders[:, 0].tolist() for server in ring}
    found = []
    for row in groups.blocks:
        own = np.unique(owner[row])
        if own[0] < 0 or len(own) * m != len(row):
            return None
        sequence = _sequence(own, owner, ring_of.get(int(exchange.blocks[own[0], 0]), ()))
        turn = np.arange(len(own))[:, None]
        rings = []
        for ring, step in enumerate(round_all):
            # There and back by turns: two exchanges end where they begin, so that the last one ends beside the first.
            round_it = np.where(turn % 2 == 0, np.arange(m), -1 - np.arange(m)) if both else np.arange(m) - turn
            rings.append(exchange.blocks[sequence[:, None], (2 * ring + step * round_it) % m].ravel())
        found.append(rings)
    return np.array(found, dtype=np.int64)


def _sequence(own: Ints, owner: Ints, ring: Sequence[int]) -> Ints:
    """The exchanges of a group as a ring of replicas goes through them, or in their order."""
    along = owner[list(ring)]
    return along if len(along) == len(own) and (np.sort(along) == own).all() else own
