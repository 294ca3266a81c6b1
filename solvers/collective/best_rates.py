"""The best rates of collectives on a network: schedules that reach them, and certificates of what limits them.

Symmetries make small programs of large networks: columns are generated where links have few orbits. Elsewhere switches
are split off and trees packed, with roots of an AllReduce shared by a program over cuts. A ReduceScatter is the
AllGather of the transposed network, backward.

An AllGather is limited by a cut, unless some switch has more links in than out: then lengths of links prove more.
Lengths limit an AllReduce, an All-to-All, and process groups at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from solvers.collective.columns import Packing, packing
from solvers.collective.images import allreduce_schedule, bundle_schedule, gather_schedule
from solvers.collective.limits import (
    AllReduceRate,
    TreesDoNotFitError,
    all_to_all_bound,
    all_to_all_rate,
    allreduce_rate,
    rank_cuts,
    ratio_cut,
    straight_allreduce_lengths,
    whole_lengths,
)
from solvers.collective.schedules import backward, joined, of_forest
from solvers.collective.symmetry import MergedNetwork, Symmetry, merge_twins, no_symmetry, symmetry_of, unmerged
from solvers.collective.trees import Forest, fine_forest
from solvers.stop import Stop
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.collective import (
    CollectiveOp,
    CollectiveProblem,
    CollectiveSchedule,
    cut_certificate,
    lengths_certificate,
    tree_certificate,
)
from topoopt.core.proofs import StopReason
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.result import Certificate

FEW_ORBITS = 160
"""Orbits of links up to which columns are generated to the end."""

PAIR_ORBITS = 1100
"""Orbits of links up to which columns of an All-to-All are generated, on at most so many ranks:"""

PAIR_RANKS = 64

FAR = 1e-3
"""Part of the bound that columns may miss before switches are split off."""


@dataclass(frozen=True, eq=False)
class BestRate:
    """What a collective reaches at best.

    Attributes:
        units: rate of every root (AllGather, ReduceScatter), of the vector (AllReduce), or of every ordered pair
            (All-to-All), in units of the network; of several process groups, those of the first.
        certificates: of the upper bound.
        schedule: makes the schedule that reaches the rate.
        stopped_by: CONVERGED where the rate is as near to the bound as the method gets.
    """

    units: float
    certificates: tuple[Certificate, ...]
    schedule: Callable[[], CollectiveSchedule]
    stopped_by: StopReason


@dataclass(frozen=True, eq=False)
class _Reduced:
    """A network with twins merged, and its symmetries."""

    merged: MergedNetwork
    symmetry: Symmetry

    @property
    def few_orbits(self) -> bool:
        return len(self.symmetry.arc_count) <= FEW_ORBITS

    def lengths(self, lengths: Floats) -> Ints:
        """int64[m], whole lengths of the links of the network before it was merged."""
        return whole_lengths(-lengths[self.merged.arc_index])

    def permutations(self) -> list[Ints]:
        """Symmetries of the network before it was merged."""
        return [self.merged.lifted(generator) for generator in self.symmetry.generators]

    def side(self, side: Bools) -> list[int]:
        """Nodes of a set, in the network before it was merged."""
        nodes: list[int] = np.flatnonzero(side[self.merged.index]).tolist()
        return nodes


def reduced(problem: CollectiveProblem, network: RatedNetwork, *, divided: bool = True) -> _Reduced:
    """Merge twins, unless switches copy, and look for symmetries.

    Args:
        problem: whose process groups count.
        network: its network, or the transposed one.
        divided: whether a message may be divided over twins.
    """
    merged = merge_twins(network) if divided and not problem.multicast else unmerged(network)
    members = tuple(merged.index[own] for own in problem.members)
    return _Reduced(merged, symmetry_of(merged.network, members, problem.vectors))


def best_rate(problem: CollectiveProblem, stop: Stop, *, divided: bool = True) -> BestRate:
    """Find the best rate of an AllGather, a ReduceScatter, an AllReduce or an All-to-All whose ranks relay.

    Args:
        divided: whether a message of an AllReduce may be divided over nodes alike that pass it on.
    """
    if problem.collective is CollectiveOp.ALL_TO_ALL:
        return _all_to_all(problem, stop)
    if problem.collective is CollectiveOp.ALLREDUCE:
        return _allreduce(problem, stop, divided=divided)
    turned = problem.collective is CollectiveOp.REDUCE_SCATTER
    network = problem.network.transposed() if turned else problem.network
    best = _allgather(problem, network, stop, backward=turned)
    return replace(best, schedule=lambda: backward(best.schedule())) if turned else best


def _allgather(problem: CollectiveProblem, network: RatedNetwork, stop: Stop, *, backward: bool) -> BestRate:
    """Of the network or of the transposed one, whose certificates hold for the network."""
    own = reduced(problem, network)
    merged, symmetry = own.merged, own.symmetry
    if problem.groups:
        packed = packing(symmetry, stop)
        return _of_columns(own, packed, (_proof(own, packed.lengths, network, backward=backward),))
    ratio, side = ratio_cut(merged.network, np.array([root for root, _ in symmetry.rank_orbits]))
    proof: tuple[Certificate, ...] = (cut_certificate(own.side(side)),)
    rate = 1 / float(ratio)
    unbalanced = bool(_imbalance(merged.network).any()) and not problem.multicast
    if own.few_orbits or unbalanced:
        packed = packing(symmetry, stop, bound=rate)
        if packed.bound < rate * (1 - 1e-9):
            rate, proof = packed.bound, (_proof(own, packed.lengths, network, backward=backward), *proof)
        if packed.rate >= rate * (1 - FAR):
            return _of_columns(own, packed, proof)
    try:
        sent = np.full(len(merged.network.ranks), rate)
        flat = problem.objective != "throughput"
        trees = fine_forest(merged.network, merged.network.units.astype(np.float64), sent, flat=flat)
    except TreesDoNotFitError:
        return _of_columns(own, packing(symmetry, stop, bound=rate), proof)
    return BestRate(rate, proof, lambda: _of_forest(merged, trees), StopReason.CONVERGED)


def _imbalance(network: RatedNetwork) -> Floats:
    """float64[V], links out of every switch less those into it."""
    flow = np.bincount(network.arcs[:, 0], network.units, network.nodes)
    flow -= np.bincount(network.arcs[:, 1], network.units, network.nodes)
    return np.where(network.is_switch, flow, 0.0)


def _of_columns(own: _Reduced, packed: Packing, proof: tuple[Certificate, ...]) -> BestRate:
    make = lambda: gather_schedule(own.merged, own.symmetry, packed.down)  # noqa: E731
    return BestRate(packed.rate, proof, make, packed.stopped_by)


def _of_forest(merged: MergedNetwork, trees: Forest) -> CollectiveSchedule:
    """The schedule of trees on a merged network, in numbers of the network that it was made of."""
    schedule = of_forest(trees)
    number, blocks, sends = merged.numbers, schedule.blocks, schedule.sends
    narrow = number.astype(np.int32)
    return CollectiveSchedule(
        replace(blocks, owner=narrow[blocks.owner]),
        replace(sends, tail=narrow[sends.tail], head=narrow[sends.head]),
        tuple(tuple(number[list(route)].tolist()) for route in schedule.routes),
        merged.groups,
    )


def _proof(own: _Reduced, lengths: Floats, network: RatedNetwork, *, backward: bool) -> Certificate:
    """Lengths of links and symmetries of the network; `backward`: of the one of which `network` is the transposed."""
    whole = own.lengths(lengths)
    if backward:
        order = np.lexsort((network.arcs[:, 0], network.arcs[:, 1]))
        whole = whole[order]
    return tree_certificate(whole, own.permutations())


def _all_to_all(problem: CollectiveProblem, stop: Stop) -> BestRate:
    own = reduced(problem, problem.network)
    packed = packing(own.symmetry, stop, all_to_all=True, relaying=problem.relaying)
    proof = (lengths_certificate(own.lengths(packed.lengths)),)
    make = lambda: bundle_schedule(own.merged, own.symmetry, packed.down)  # noqa: E731
    return BestRate(packed.rate, proof, make, packed.stopped_by)


def few_pairs(problem: CollectiveProblem) -> bool:
    """Whether columns of an All-to-All are quick: links of few orbits, or few ranks."""
    orbits = len(reduced(problem, problem.network).symmetry.arc_count)
    return orbits <= FEW_ORBITS or (orbits <= PAIR_ORBITS and len(problem.network.ranks) <= PAIR_RANKS)


def _allreduce(problem: CollectiveProblem, stop: Stop, *, divided: bool = True) -> BestRate:
    own = reduced(problem, problem.network, divided=divided)
    merged, symmetry = own.merged, own.symmetry
    network = merged.network
    cut: Certificate | None = None
    starts: list[Floats] = []
    if not problem.groups:
        _, side = ratio_cut(network, np.array([root for root, _ in symmetry.rank_orbits]))
        cut = cut_certificate(own.side(side))
        starts = [(side[network.arcs[:, 0]] != side[network.arcs[:, 1]]).astype(np.float64)]
    volume = (~network.is_switch[network.arcs]).sum(axis=1).astype(np.float64)
    split = None
    if cut is not None and not own.few_orbits:
        shares = allreduce_rate(network, side, stop)
        split = _split_allreduce(merged, shares, flat=problem.objective != "throughput")
        if split is not None:
            alone = _Reduced(merged, no_symmetry(network, symmetry.members, symmetry.vectors))
            proof = _proof(alone, shares.lengths.astype(np.float64), problem.network, backward=False)
            return BestRate(split[0], (proof, cut), split[1], shares.stopped_by)
    packed = packing(symmetry, stop, unequal=True, starts=[*starts, volume])
    proof = _proof(own, packed.lengths, problem.network, backward=False)
    make = lambda: allreduce_schedule(merged, symmetry, packed)  # noqa: E731
    return BestRate(packed.rate, (proof, *([cut] if cut else [])), make, packed.stopped_by)


def _split_allreduce(
    merged: MergedNetwork, shares: AllReduceRate, *, flat: bool
) -> tuple[float, Callable[[], CollectiveSchedule]] | None:
    """Trees up and down by the shares of the program over cuts, or a ReduceScatter and an AllGather, if better."""
    network, turned = merged.network, merged.network.transposed()
    order, count = np.lexsort((network.arcs[:, 0], network.arcs[:, 1])), len(network.ranks)
    single = [1 / float(ratio_cut(base)[0]) for base in (turned, network)]
    rate = count / (1 / single[0] + 1 / single[1])
    loads = [base.units.astype(np.float64) for base in (turned, network)]
    roots = [np.full(count, own) for own in single]
    if shares.units > rate:
        rate, loads, roots = shares.units, [shares.reduce[order], shares.broadcast], [shares.roots] * 2
    try:
        up, down = (
            fine_forest(base, load, root, flat=flat)
            for base, load, root in zip((turned, network), loads, roots, strict=True)
        )
    except TreesDoNotFitError:
        return None

    def make() -> CollectiveSchedule:
        schedule = joined(backward(_of_forest(merged, up)), _of_forest(merged, down))
        assert schedule is not None
        return schedule

    return rate, make


# Certificates.


def limiting(problem: CollectiveProblem, stop: Stop) -> tuple[Certificate, ...]:
    """Return the certificates of a problem; weaker ones where the search is stopped.

    Raises:
        LimitError: the search was stopped before anything about an All-to-All was proven.
    """
    network, collective = problem.network, problem.collective
    if collective is CollectiveOp.ALL_TO_ALL or not (problem.relaying or problem.multicast):
        return (lengths_certificate(pair_lengths(problem, stop)),)
    if collective in (CollectiveOp.BROADCAST, CollectiveOp.REDUCE):
        forward = network if collective is CollectiveOp.BROADCAST else network.transposed()
        return (_cut(root_cut(forward, int(network.ranks[problem.root]))),)
    if collective is CollectiveOp.ALLREDUCE:
        return (_cut(least_cut(network)),) if problem.multicast else _allreduce(problem, stop).certificates
    turned = collective is CollectiveOp.REDUCE_SCATTER
    forward = network.transposed() if turned else network
    if problem.groups or (_imbalance(network).any() and not problem.multicast):
        return _allgather(problem, forward, stop, backward=turned).certificates
    own = reduced(problem, forward)
    sinks = np.array([root for root, _ in own.symmetry.rank_orbits])
    return (cut_certificate(own.side(ratio_cut(own.merged.network, sinks)[1])),)


def pair_lengths(problem: CollectiveProblem, stop: Stop) -> Ints:
    """int64[m], lengths of links for what ranks send each other, or one of them all."""
    network, collective = problem.network, problem.collective
    single = collective in (CollectiveOp.BROADCAST, CollectiveOp.REDUCE)
    root = int(network.ranks[problem.root]) if single else None
    if collective is CollectiveOp.ALLREDUCE:
        return straight_allreduce_lengths(network, stop)
    if problem.relaying and not single:
        return pair_bound(problem, stop)[0]
    if collective is not CollectiveOp.REDUCE:
        return all_to_all_rate(network, stop, relaying=problem.relaying, source=root).lengths
    turned = np.lexsort((network.arcs[:, 0], network.arcs[:, 1]))
    lengths = np.empty(len(turned), dtype=np.int64)
    lengths[turned] = all_to_all_rate(network.transposed(), stop, relaying=problem.relaying, source=root).lengths
    return lengths


def pair_bound(problem: CollectiveProblem, stop: Stop) -> tuple[Ints, float]:
    """Return int64[m], lengths of links that bound an All-to-All, and a rate of every pair that is reached."""
    if problem.groups or few_pairs(problem):
        best = _all_to_all(problem, stop)
        return best.certificates[0]["lengths"], best.units
    return all_to_all_bound(problem.network, stop)


def root_cut(network: RatedNetwork, root: int) -> Bools:
    """The set around a root that least leaves."""
    others = network.ranks[network.ranks != root]
    sent = np.array([int(network.units.sum()) + 1])
    value, sides = rank_cuts(network.nodes, network.arcs, network.units, np.array([root]), sent, others)
    side: Bools = sides[int(value.argmin())]
    return side


def least_cut(network: RatedNetwork) -> Bools:
    """The set with ranks inside and outside that least leaves, or enters (then its complement)."""
    root = int(network.ranks[0])
    forward = root_cut(network, root)
    backward_cut = ~root_cut(network.transposed(), root)
    return min(forward, backward_cut, key=lambda side: _leaving(network, side))


def _leaving(network: RatedNetwork, side: Bools) -> int:
    return int(network.units[side[network.arcs[:, 0]] & ~side[network.arcs[:, 1]]].sum())


def _cut(side: Bools) -> Certificate:
    return cut_certificate(np.flatnonzero(side).tolist())
