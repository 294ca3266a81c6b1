"""Which trees a collective takes: how many of a root, up and down."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import gcd, lcm

from solvers.collective.allreduce import allreduce_rate
from solvers.collective.forest import TreePacking, best_scale, fixed_scale, forest, scaled
from solvers.collective.max_flow import FlowNetwork
from solvers.collective.ratio import ratio_cut
from solvers.collective.schedules import backward, of_forest, of_two_forests
from solvers.collective.unequal_roots import rooted_trees
from solvers.stop import Stop
from topoopt.core.collective import CollectiveOp, CollectiveProblem, CollectiveSchedule
from topoopt.core.rated_network import RatedNetwork

MOST_TREES = 32
"""Trees of a root that are packed where no number is asked for; more make files and schedules of no use."""

FEWER_TREES = (1, 2)
"""Trees of a root that are tried besides: they lose some rate, and are flatter."""

MOST_RANKS_TRIED = 128
"""Ranks up to which several numbers of trees are tried."""


def tree_schedules(problem: CollectiveProblem, stop: Stop) -> Callable[[int], CollectiveSchedule]:
    """What makes the schedule from a number of pieces."""
    network, wanted = problem.network, problem.collective
    reverse = network.transposed()
    if wanted in (CollectiveOp.BROADCAST, CollectiveOp.REDUCE):
        root = int(network.ranks[problem.root])
        own = rooted_forest(network if wanted is CollectiveOp.BROADCAST else reverse, root, problem.trees_per_root)
        return lambda pieces: (
            of_forest(own, pieces) if wanted is CollectiveOp.BROADCAST else backward(of_forest(own, pieces))
        )
    if wanted is CollectiveOp.ALLREDUCE and not network.is_switch.any() and problem.trees_per_root is None:
        cut = ratio_cut(network)
        equal = Fraction(len(network.ranks)) / (2 * cut.ratio)
        rate = allreduce_rate(network, cut, stop)
        if rate.units > float(equal) * (1 + 1e-9):
            trees = rooted_trees(network, rate)
            if trees is not None and trees.units > equal:
                return lambda pieces: of_two_forests(trees.reductions, trees.broadcasts, pieces)
    if wanted is CollectiveOp.ALLGATHER:
        down = gather_forest(network, problem.trees_per_root)
        return lambda pieces: of_forest(down, pieces)
    if wanted is CollectiveOp.REDUCE_SCATTER:
        up = gather_forest(reverse, problem.trees_per_root)
        return lambda pieces: backward(of_forest(up, pieces))
    summed, copied = both_forests(network, problem.trees_per_root)
    return lambda pieces: of_two_forests(summed, copied, pieces)


def both_forests(network: RatedNetwork, trees_per_root: int | None) -> tuple[TreePacking, TreePacking]:
    """As many trees up (on the transposed network) as down, of the best rate both where they are not too many."""
    reverse = network.transposed()
    scales = [best_scale(own, ratio_cut(own).ratio) for own in (reverse, network)]
    count = lcm(*(best for best, _ in scales))
    if trees_per_root is not None or count > MOST_TREES:
        up = gather_forest(reverse, trees_per_root)
        return up, gather_forest(network, next(iter(up.trees.values())))
    roots = dict.fromkeys(network.ranks.tolist(), count)
    up, down = (
        forest(own, scaled(own, per_tree * best / count), roots)
        for own, (best, per_tree) in zip((reverse, network), scales, strict=True)
    )
    return up, down


def gather_forest(network: RatedNetwork, trees_per_root: int | None) -> TreePacking:
    """Equally many trees from every rank."""
    if trees_per_root is None:
        best, per_tree = best_scale(network, ratio_cut(network).ratio)
        if best > MOST_TREES:
            best, per_tree = _best_below(network)
    else:
        best, per_tree = trees_per_root, fixed_scale(network, dict.fromkeys(network.ranks.tolist(), trees_per_root))
    return forest(network, scaled(network, per_tree), dict.fromkeys(network.ranks.tolist(), best))


def _best_below(network: RatedNetwork) -> tuple[int, Fraction]:
    """The number of trees, few of them, that reaches most."""
    ranks = network.ranks.tolist()
    tried = [(count, fixed_scale(network, dict.fromkeys(ranks, count))) for count in (1, 2, 3, 4, 6, 8)]
    return max(tried, key=lambda one: (one[0] * one[1], -one[0]))


def rooted_forest(network: RatedNetwork, root: int, trees: int | None) -> TreePacking:
    """Trees from one root: as many as the least flow from it to another rank, in its largest whole parts."""
    flow = FlowNetwork(network.nodes, network.arcs[:, 0], network.arcs[:, 1], network.units)
    least = min(flow.value(root, rank) for rank in network.ranks.tolist() if rank != root)
    if least == 0:
        raise ValueError(f"{network.names[root]} does not reach every rank")
    shared = gcd(least, *network.units.tolist())
    roots = {rank: (trees or least // shared) * (rank == root) for rank in network.ranks.tolist()}
    per_tree = Fraction(shared) if trees is None else fixed_scale(network, roots)
    return forest(network, scaled(network, per_tree), roots)
