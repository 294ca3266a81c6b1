"""What limits the rate of a collective: the cut, the multipliers or the lengths that prove it."""

from __future__ import annotations

import numpy as np

from solvers.collective.all_to_all import all_to_all_bound, all_to_all_rate, straight_allreduce_lengths
from solvers.collective.allreduce import allreduce_rate
from solvers.collective.max_flow import FlowNetwork
from solvers.collective.ratio import ratio_cut
from solvers.stop import Stop
from topoopt.core.arrays import Bools, Ints
from topoopt.core.collective import CollectiveOp, CollectiveProblem
from topoopt.core.collective_solution import CollectiveProof
from topoopt.core.rated_network import RatedNetwork


def limiting(problem: CollectiveProblem, stop: Stop) -> CollectiveProof:
    """The proof for a problem; weaker where it is stopped.

    Raises:
        LimitError: stopped before anything about an All-to-All was proven.
    """
    network, wanted = problem.network, problem.collective
    if wanted is CollectiveOp.ALL_TO_ALL or not (problem.relaying or problem.multicast):
        return CollectiveProof(lengths=pair_lengths(problem, stop))
    if wanted in (CollectiveOp.BROADCAST, CollectiveOp.REDUCE):
        forward = network if wanted is CollectiveOp.BROADCAST else network.transposed()
        return CollectiveProof(_nodes(root_cut(forward, int(network.ranks[problem.root]))))
    if wanted is CollectiveOp.ALLREDUCE and problem.multicast:
        return CollectiveProof(_nodes(least_cut(network)))
    if wanted is CollectiveOp.REDUCE_SCATTER:
        return CollectiveProof(_nodes(ratio_cut(network.transposed()).side))
    cut = ratio_cut(network)
    if wanted is CollectiveOp.ALLGATHER:
        return CollectiveProof(_nodes(cut.side))
    return CollectiveProof(_nodes(cut.side), allreduce_rate(network, cut, stop).proof)


def pair_lengths(problem: CollectiveProblem, stop: Stop) -> Ints:
    """int64[m], lengths of links for what ranks send each other, or one of them all."""
    network, wanted = problem.network, problem.collective
    single = wanted in (CollectiveOp.BROADCAST, CollectiveOp.REDUCE)
    root = int(network.ranks[problem.root]) if single else None
    if wanted is CollectiveOp.ALLREDUCE:
        return straight_allreduce_lengths(network, stop)
    if problem.relaying and not single:
        return all_to_all_bound(network, stop).lengths
    if wanted is not CollectiveOp.REDUCE:
        return all_to_all_rate(network, stop, relaying=problem.relaying, source=root).lengths
    turned = np.lexsort((network.arcs[:, 0], network.arcs[:, 1]))
    lengths = np.empty(len(turned), dtype=np.int64)
    lengths[turned] = all_to_all_rate(network.transposed(), stop, relaying=problem.relaying, source=root).lengths
    return lengths


def root_cut(network: RatedNetwork, root: int) -> Bools:
    """The set around a root that least leaves."""
    flow = FlowNetwork(network.nodes, network.arcs[:, 0], network.arcs[:, 1], network.units)
    others = [rank for rank in network.ranks.tolist() if rank != root]
    return flow.cut(root, min(others, key=lambda rank: flow.value(root, rank))).side


def least_cut(network: RatedNetwork) -> Bools:
    """The set with ranks inside and outside that least leaves, or enters (then its complement)."""
    root = int(network.ranks[0])
    forward = root_cut(network, root)
    backward = ~root_cut(network.transposed(), root)
    return min(forward, backward, key=lambda side: _leaving(network, side))


def _leaving(network: RatedNetwork, side: Bools) -> int:
    return int(network.units[side[network.arcs[:, 0]] & ~side[network.arcs[:, 1]]].sum())


def _nodes(side: Bools) -> tuple[int, ...]:
    return tuple(np.flatnonzero(side).tolist())
