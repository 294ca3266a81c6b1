"""Seconds that groups and pairs of blocks put on the links, for all servers that they may stand on.

Rings of a group, and exchanges in it, depend on the set of its servers alone, hops between stages on the pair. The load
of a family is the sum over its groups, so a map of blocks to servers is a sum of rows of these tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from solvers.llm_training.network.fabrics import FabricNetwork
from topoopt.core.arrays import Floats, Ints
from topoopt.core.llm_training_plan import RING_FAMILIES
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.routing import PathTable
from topoopt.simulate.llm_training.network.groups import FamilyGroups
from topoopt.simulate.llm_training.network.links import FamilyFlows, RouteLookup


@dataclass(frozen=True, eq=False)
class PlaceTables:
    """What blocks exchange, and what it costs wherever they stand; L links, n servers.

    Attributes:
        families: of the groups; hops between stages are no groups.
        pair: float64[n, n, L], seconds of each link for a byte from one server to the other.
        pair_hops: int64[n, n], of the longest of its routes.
        sets: float64[C, 2^n, L], seconds for a class of groups and a set of servers, one bit each.
        set_hops: int64[C, 2^n].
        members: int64[G, w], blocks of each group, padded with -1 at the end.
        class_of, family_of: int64[G].
        weight: float64[G], groups of ranks on just these blocks.
        source, target, ranks: blocks that pass activations on, and how many ranks do.
    """

    families: tuple[F, ...]
    pair: Floats
    pair_hops: Ints
    sets: Floats
    set_hops: Ints
    members: Ints
    class_of: Ints
    family_of: Ints
    weight: Floats
    source: Ints
    target: Ints
    ranks: Floats

    @property
    def servers(self) -> int:
        """As many as blocks."""
        return len(self.pair)


def place_tables(groups: FamilyGroups, fabric: FabricNetwork, routes: PathTable) -> PlaceTables:
    """Tables of a fabric.

    Args:
        routes: of all pairs of servers.
    """
    graph = fabric.network.graph
    pair, pair_hops = _pairs(RouteLookup(graph, routes), graph.servers, graph.bytes_per_s)
    families = tuple(groups.collectives)
    classes = [(place, one) for place, family in enumerate(families) for one in groups.collectives[family]]
    n, links = graph.servers, pair.shape[2]
    sets = np.zeros((len(classes), 1 << n, links))
    set_hops = np.zeros((len(classes), 1 << n), dtype=np.int64)
    for number, (place, one) in enumerate(classes):
        rings = fabric.rings if families[place] in RING_FAMILIES else None
        for row in combinations(range(n), one.blocks.shape[1]):
            mask = sum(1 << server for server in row)
            begin, end, amount = _edges(np.array(row, dtype=np.int64), rings, one.ranks)
            sets[number, mask] = amount * pair[begin, end].sum(axis=0)
            set_hops[number, mask] = pair_hops[begin, end].max()
    widest = max((one.blocks.shape[1] for _, one in classes), default=1)
    members = [
        np.pad(one.blocks, ((0, 0), (0, widest - one.blocks.shape[1])), constant_values=-1) for _, one in classes
    ]
    counts = [len(one.blocks) for _, one in classes]
    return PlaceTables(
        families=families,
        pair=pair,
        pair_hops=pair_hops,
        sets=sets,
        set_hops=set_hops,
        members=np.concatenate([*members, np.zeros((0, widest), dtype=np.int64)]),
        class_of=np.repeat(np.arange(len(classes)), counts).astype(np.int64),
        family_of=np.repeat(np.array([place for place, _ in classes], dtype=np.int64), counts),
        weight=np.concatenate([*(one.groups for _, one in classes), np.zeros(0)]),
        source=groups.hops.source,
        target=groups.hops.target,
        ranks=groups.hops.ranks,
    )


def _pairs(lookup: RouteLookup, n: int, bytes_per_s: Floats) -> tuple[Floats, Ints]:
    pair, hops = np.zeros((n, n, len(bytes_per_s))), np.zeros((n, n), dtype=np.int64)
    for a in range(n):
        for b in range(n):
            if a != b:
                load, hops[a, b] = lookup.load(FamilyFlows(np.array([a]), np.array([b]), np.ones(1)))
                pair[a, b] = load / bytes_per_s
    return pair, hops


def _edges(row: Ints, rings: Callable[[Ints], Ints] | None, ranks: int) -> tuple[Ints, Ints, float]:
    """Pairs of a set of servers that send, and how much each of them for one group of ranks; no rings: an exchange."""
    k = len(row)
    if rings is None:
        begin, end = np.nonzero(~np.eye(k, dtype=bool))
        return row[begin], row[end], ranks / k / (k - 1)
    own = rings(row[None, :])[0]  # one by one, as every set has rings of its own form
    return own.ravel(), np.roll(own, -1, axis=1).ravel(), 1.0 / len(own)
