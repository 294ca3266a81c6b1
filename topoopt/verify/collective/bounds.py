"""Bounds on the rates of collectives, evaluated in rationals from the sets of nodes that come with them."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction

from topoopt.core.allreduce_bound import AllReduceProof, WeightedSet
from topoopt.core.collective import CollectiveOp
from topoopt.core.rated_network import RatedNetwork

Number = int | float


class ProofError(ValueError):
    """Sets or multipliers that prove nothing."""


def units_out(network: RatedNetwork, inside: Collection[int]) -> int:
    """Units of the links that leave a set."""
    return sum(
        int(units)
        for (tail, head), units in zip(network.arcs.tolist(), network.units.tolist(), strict=True)
        if tail in inside and head not in inside
    )


def ranks_in(network: RatedNetwork, nodes: Iterable[int]) -> set[int]:
    """The ranks of a set of nodes.

    Raises:
        ProofError: a node that does not exist.
    """
    given = set(nodes)
    if not given <= set(range(network.nodes)):
        raise ProofError("a set with nodes that do not exist")
    return {node for node in given if not network.is_switch[node]}


def allgather_ratio(network: RatedNetwork, nodes: Iterable[int]) -> Fraction:
    """Ranks in a set over the units out of it: an AllGather of M bytes takes (M/N) times this at least.

    Raises:
        ProofError: all ranks are inside, or none.
    """
    inside = set(nodes)
    ranks = ranks_in(network, inside)
    if not 0 < len(ranks) < len(network.ranks):
        raise ProofError("a cut has some ranks inside and some outside")
    out = units_out(network, inside)
    if out == 0:
        raise ProofError("nothing leaves the set")
    return Fraction(len(ranks), out)


def whole_vector_units(network: RatedNetwork, nodes: Iterable[int]) -> int:
    """Units out of a set with ranks inside and outside: the vector of an AllReduce leaves it once at least.

    What ranks outside end with holds what is inside; even where switches copy no set of bytes says it in less.

    Raises:
        ProofError: all ranks are inside, or none.
    """
    inside = set(nodes)
    if not 0 < len(ranks_in(network, inside)) < len(network.ranks):
        raise ProofError("a cut has some ranks inside and some outside")
    out = units_out(network, inside)
    if out == 0:
        raise ProofError("nothing leaves the set")
    return out


def allreduce_units(network: RatedNetwork, proof: AllReduceProof) -> Fraction:
    """Upper bound on the rate X of AllReduce, in units, that the multipliers prove (M bytes take M / X at least).

    Raises:
        ProofError: weights that are not above 0, sets with all ranks, potentials at ranks, ranks in no set.
    """
    cover = dict.fromkeys(network.ranks.tolist(), Fraction(0))
    broadcast = _prices(network, proof.broadcast, proof.broadcast_potential, cover, leaving=True)
    reduced = _prices(network, proof.reduce, proof.reduce_potential, cover, leaving=False)
    least = min(cover.values())
    if least <= 0:
        raise ProofError("a rank is in no set")
    prices = [max(one, other, Fraction(0)) for one, other in zip(broadcast, reduced, strict=True)]
    return sum((int(units) * price for units, price in zip(network.units, prices, strict=True)), Fraction(0)) / least


def _prices(
    network: RatedNetwork,
    sets: Sequence[WeightedSet],
    potential: Sequence[Fraction],
    cover: dict[int, Fraction],
    *,
    leaving: bool,
) -> list[Fraction]:
    """What one unit on each arc is worth; the weights of sets are added to `cover`."""
    if len(potential) != network.nodes or any(potential[rank] != 0 for rank in network.ranks):
        raise ProofError("one potential a node is due, 0 at ranks")
    arcs = network.arcs.tolist()
    prices = [potential[tail] - potential[head] for tail, head in arcs]
    for one in sets:
        inside, ranks = set(one.nodes), ranks_in(network, one.nodes)
        if one.weight <= 0 or len(ranks) == len(cover):
            raise ProofError("a set with all ranks, or of no weight")
        for rank in ranks:
            cover[rank] += one.weight
        for place, (tail, head) in enumerate(arcs):
            if (tail in inside and head not in inside) if leaving else (tail not in inside and head in inside):
                prices[place] += one.weight
    return prices


def all_to_all_units(network: RatedNetwork, lengths: Sequence[int], *, relaying: bool) -> Fraction:
    """Upper bound on the rate of every ordered pair, in units, that lengths of links prove.

    What all pairs send at rate lambda takes lambda times the sum of their distances, of the sum of units times lengths.

    Raises:
        ProofError: negative lengths, another number of them than links, no distance at all.
    """
    if len(lengths) != len(network.arcs) or min(lengths, default=0) < 0:
        raise ProofError("one length a link is due, none below 0")
    room = sum(int(units) * int(length) for units, length in zip(network.units, lengths, strict=True))
    way = sum(sum(distances(network, rank, lengths, relaying=relaying).values()) for rank in network.ranks.tolist())
    if way <= 0:
        raise ProofError("no ranks are apart by these lengths")
    return Fraction(room) / Fraction(way)


def straight_units(network: RatedNetwork, lengths: Sequence[int], collective: CollectiveOp, root: int) -> Fraction:
    """Upper bound on the rate of the vector, in units, where ranks do not relay, that lengths of links prove.

    Every rank sends each other one its shard (AllGather; a ReduceScatter the same backward), the root its vector to all
    (broadcast; a reduction backward). In an AllReduce all send what is rooted at a rank there and get it back: of all
    ranks the one for which that is shortest counts.

    Raises:
        ProofError: as `all_to_all_units`.
    """
    if collective in (CollectiveOp.ALLGATHER, CollectiveOp.REDUCE_SCATTER):
        return all_to_all_units(network, lengths, relaying=False) * len(network.ranks)
    if len(lengths) != len(network.arcs) or min(lengths, default=0) < 0:
        raise ProofError("one length a link is due, none below 0")
    room = sum(int(units) * int(length) for units, length in zip(network.units, lengths, strict=True))
    backward, turned = transposed_with(network, lengths)

    def back(rank: int) -> Number:
        return sum(distances(network, rank, lengths, relaying=False).values())

    def there(rank: int) -> Number:
        return sum(distances(backward, rank, turned, relaying=False).values())

    if collective is CollectiveOp.ALLREDUCE:
        way = min(there(rank) + back(rank) for rank in network.ranks.tolist())
    else:
        way = back(root) if collective is CollectiveOp.BROADCAST else there(root)
    if way <= 0:
        raise ProofError("no ranks are apart by these lengths")
    return Fraction(room) / Fraction(way)


def transposed_with(network: RatedNetwork, lengths: Sequence[Number]) -> tuple[RatedNetwork, list[Number]]:
    """Every link turned round, and their lengths in the order they have then."""
    turned = network.transposed()
    length = {(head, tail): own for (tail, head), own in zip(network.arcs.tolist(), lengths, strict=True)}
    return turned, [length[tail, head] for tail, head in turned.arcs.tolist()]


def distances(
    network: RatedNetwork, source: int, lengths: Sequence[Number], *, relaying: bool = True
) -> dict[int, Number]:
    """Shortest distance from a rank to every other one (Dijkstra, in the numbers of the lengths).

    Args:
        relaying: whether ways may lead through other ranks.

    Raises:
        ProofError: a rank out of reach.
    """
    out: dict[int, list[tuple[int, Number]]] = {}
    for (tail, head), length in zip(network.arcs.tolist(), lengths, strict=True):
        out.setdefault(tail, []).append((head, length))
    found: dict[int, Number] = {}
    heap: list[tuple[Number, int]] = [(0, source)]
    while heap:
        far, node = heapq.heappop(heap)
        if node in found:
            continue
        found[node] = far
        if relaying or node == source or network.is_switch[node]:
            for head, length in out.get(node, ()):
                if head not in found:
                    heapq.heappush(heap, (far + length, head))
    others = {int(rank): found[rank] for rank in network.ranks.tolist() if rank in found and rank != source}
    if len(others) < len(network.ranks) - 1:
        raise ProofError("a rank out of reach")
    return others
