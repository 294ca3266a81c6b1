"""Trees for AllGather that reach the best rate of any network, switches included (ForestColl, arXiv 2402.06787)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import gcd

import numpy as np

from solvers.collective.max_flow import FlowNetwork, TreesDoNotFitError
from solvers.collective.packing import TreeBatch, pack_trees
from solvers.collective.splitting import DirectNetwork, Path, take, without_switches
from topoopt.core.arrays import Ints
from topoopt.core.rated_network import RatedNetwork


@dataclass(frozen=True)
class RoutedArc:
    """An arc of a tree through the switches.

    Attributes:
        tail, head: ranks.
        paths: nodes from tail to head, and how many of the trees go that way.
    """

    tail: int
    head: int
    paths: tuple[tuple[Path, int], ...]


@dataclass(frozen=True)
class RoutedTrees:
    """Equal trees from one root."""

    root: int
    count: int
    height: int
    arcs: tuple[RoutedArc, ...]


@dataclass(frozen=True)
class TreePacking:
    """Trees that reach all ranks.

    Attributes:
        trees: from every rank, 0 or more.
        batches: of equal trees.
    """

    trees: dict[int, int]
    batches: tuple[RoutedTrees, ...]

    @property
    def height(self) -> int:
        """Of the highest tree."""
        return max((batch.height for batch in self.batches), default=0)


def best_scale(network: RatedNetwork, ratio: Fraction) -> tuple[int, Fraction]:
    """Trees per root, and units of a network that stand for one tree, that reach a ratio exactly."""
    shared = gcd(ratio.denominator, *network.units.tolist())
    return ratio.denominator // shared, Fraction(shared, ratio.numerator)


def fixed_scale(network: RatedNetwork, trees: Mapping[int, int]) -> Fraction:
    """Least units of the network per tree for which so many trees from every rank fit, each link rounded down.

    Candidates are the rates of links over whole numbers of trees; bisection over them, a flow from a super source to
    every rank being the test.
    """
    units, most = np.unique(network.units), sum(trees.values())
    counts = np.arange(1, most + 1)
    candidates = sorted({Fraction(int(rate), int(count)) for rate in units for count in counts}, reverse=True)
    low, high = 0, len(candidates) - 1
    while low < high:
        middle = (low + high) // 2
        if carries(network, scaled(network, candidates[middle]), trees):
            high = middle
        else:
            low = middle + 1
    if not carries(network, scaled(network, candidates[low]), trees):
        raise TreesDoNotFitError(f"{most} trees do not fit")
    return candidates[low]


def scaled(network: RatedNetwork, per_tree: Fraction) -> Ints:
    """int64[m], trees that each arc can hold."""
    return network.units * per_tree.denominator // per_tree.numerator


def carries(network: RatedNetwork, capacity: Ints, trees: Mapping[int, int]) -> bool:
    """Whether so many trees from every rank fit into whole capacities, int64[m]."""
    ranks, source = network.ranks, network.nodes
    tails = np.concatenate((network.arcs[:, 0], np.full(len(ranks), source))).astype(np.int32)
    heads = np.concatenate((network.arcs[:, 1], ranks)).astype(np.int32)
    sent = np.array([trees[rank] for rank in ranks.tolist()], dtype=np.int64)
    flow = FlowNetwork(source + 1, tails, heads, np.concatenate((capacity, sent)))
    return all(flow.value(source, int(rank)) >= int(sent.sum()) for rank in ranks)


def forest(network: RatedNetwork, capacity: Ints, trees: Mapping[int, int]) -> TreePacking:
    """Pack so many trees from every rank into whole capacities, int64[m].

    Raises:
        TreesDoNotFitError: also for switches whose links in and out differ.
    """
    units = {(tail, head): own for (tail, head), own in zip(network.arcs.tolist(), capacity.tolist(), strict=True)}
    direct = without_switches(network.nodes, np.flatnonzero(network.is_switch), units, trees)
    batches = pack_trees(network.nodes, direct.capacity, trees)
    return TreePacking(dict(trees), tuple(routed(direct, batch) for batch in batches))


def routed(direct: DirectNetwork, batch: TreeBatch) -> RoutedTrees:
    """Give every arc of a batch its paths, which are used up."""
    arcs = tuple(RoutedArc(tail, head, tuple(take(direct.paths[tail, head], batch.count))) for tail, head in batch.arcs)
    return RoutedTrees(batch.root, batch.count, batch.height, arcs)
