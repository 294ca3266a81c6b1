"""Networks made smaller without loss: switches with the same neighbours are merged, and symmetries join what is alike.

Two switches with the same neighbours, at rates in one proportion, are one switch of the sum: any flow of the merged
network is divided in that proportion, and no link gets more of its rate than the merged link has of its own.

Any group of automorphisms that is listed element by element serves: averaging a solution over the group loads all
links of an orbit alike, so a program over orbits of links loses nothing. Ranks are coloured by refinement first;
numbers count within a colour. A shift (stride, length) adds one to the digit (number // stride) % length. The shift is
extended to the switches by refinement again, and is kept only if it is checked to be an automorphism. Where numbers say
nothing, ranks are numbered by the blocks that they form. A symmetry that stays hidden costs time, never truth.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Bools, Ints
from topoopt.core.collective import SwitchGroup
from topoopt.core.rated_network import RatedNetwork

MOST_ELEMENTS = 4096
"""Elements of a group that are listed."""

MOST_TRIALS = 400
MOST_CHOICES = 256
"""Shifts of one length that are tried, over all colours together."""

Hashes = NDArray[np.uint64]

_ODD = np.uint64(0x9E3779B97F4A7C15)
_MARK = np.uint64(0x5DEECE66D)


@dataclass(frozen=True, eq=False)
class MergedNetwork:
    """A network whose twin switches are merged.

    Attributes:
        network: the merged one.
        source: the one that it was made of, with V nodes.
        numbers: int64[V'], the node of `source` that each node is; V + k where it is the k-th group.
        groups: switches of `source` and their weights, of every node that stands for several.
    """

    network: RatedNetwork
    source: RatedNetwork
    numbers: Ints
    groups: tuple[SwitchGroup, ...] = ()

    @cached_property
    def index(self) -> Ints:
        """int64[V], the merged node of every node of `source`."""
        index = np.full(self.source.nodes, -1, dtype=np.int64)
        for node, number in enumerate(self.numbers.tolist()):
            if number < self.source.nodes:
                index[number] = node
            else:
                index[[switch for switch, _ in self.groups[number - self.source.nodes]]] = node
        return index

    @cached_property
    def arc_index(self) -> Ints:
        """int64[m], the merged arc of every arc of `source`."""
        return self.network.arc_positions(self.index[self.source.arcs])

    def transposed(self) -> MergedNetwork:
        """Return the same merger of the transposed network."""
        return MergedNetwork(self.network.transposed(), self.source.transposed(), self.numbers, self.groups)

    def lifted(self, permutation: Ints) -> Ints:
        """int64[V], a symmetry of the merged network as one of `source`: switches of a group in order of weights."""
        result = np.arange(self.source.nodes)
        image = self.numbers[permutation]
        for number, target in zip(self.numbers.tolist(), image.tolist(), strict=True):
            if number < self.source.nodes:
                result[number] = target
                continue
            pairs = [sorted(self.groups[own - self.source.nodes], key=lambda item: item[1]) for own in (number, target)]
            result[[switch for switch, _ in pairs[0]]] = [switch for switch, _ in pairs[1]]
        return result


def unmerged(network: RatedNetwork) -> MergedNetwork:
    """Return the network as it is."""
    return MergedNetwork(network, network, np.arange(network.nodes))


_Side = tuple[tuple[int, int, float], ...]
"""Neighbours of a switch, rates of their links over the greatest common divisor, and latencies."""


def merge_twins(network: RatedNetwork) -> MergedNetwork:
    """Merge switches with the same neighbours at rates in one proportion, until there are none."""
    rates = {
        (tail, head): (units, latency)
        for (tail, head), units, latency in zip(
            network.arcs.tolist(), network.units.tolist(), network.latency_us.tolist(), strict=True
        )
    }
    weights = {switch: [(switch, 1)] for switch in np.flatnonzero(network.is_switch).tolist()}
    while (twins := _twins(weights, rates)) is not None:
        same, into, out = twins
        keep, total = same[0][0], sum(scale for _, scale in same)
        shared = int(np.lcm.reduce([sum(weight for _, weight in weights[switch]) for switch, _ in same]))
        merged = []
        for switch, scale in same:
            inner = weights.pop(switch)
            factor = scale * (shared // sum(weight for _, weight in inner))
            merged += [(node, weight * factor) for node, weight in inner]
            for node, _, _ in into:
                del rates[node, switch]
            for node, _, _ in out:
                del rates[switch, node]
        weights[keep] = merged
        rates |= {(node, keep): (units * total, latency) for node, units, latency in into}
        rates |= {(keep, node): (units * total, latency) for node, units, latency in out}
    kept = sorted({*weights, *network.ranks.tolist()})
    if len(kept) == network.nodes:
        return unmerged(network)
    number = {node: position for position, node in enumerate(kept)}
    numbers = np.array(kept, dtype=np.int64)
    groups: list[SwitchGroup] = []
    for switch, parts in sorted(weights.items()):
        if len(parts) > 1:
            numbers[number[switch]] = network.nodes + len(groups)
            divisor = int(np.gcd.reduce([weight for _, weight in parts]))
            groups.append(tuple((node, weight // divisor) for node, weight in sorted(parts)))
    rows = sorted((number[tail], number[head], *rate) for (tail, head), rate in rates.items())
    merged_network = RatedNetwork(
        network.is_switch[kept],
        np.array([row[:2] for row in rows], dtype=np.int32).reshape(-1, 2),
        np.array([row[2] for row in rows], dtype=np.int64),
        network.unit_gbytes_per_s,
        np.array([row[3] for row in rows]),
        tuple(network.names[node] for node in kept),
        network.origin,
    )
    return MergedNetwork(merged_network, network, numbers, tuple(groups))


def _twins(
    weights: dict[int, list[tuple[int, int]]], rates: dict[tuple[int, int], tuple[int, float]]
) -> tuple[list[tuple[int, int]], _Side, _Side] | None:
    """Switches alike with the factors of their rates, and their links of factor 1; None if there are none."""
    sides: dict[int, tuple[list[tuple[int, int, float]], list[tuple[int, int, float]]]] = {s: ([], []) for s in weights}
    for (tail, head), (units, latency) in rates.items():
        if head in sides:
            sides[head][0].append((tail, units, latency))
        if tail in sides:
            sides[tail][1].append((head, units, latency))
    groups: dict[tuple[_Side, ...], list[tuple[int, int]]] = {}
    for switch in sorted(weights):
        values = [units for side in sides[switch] for _, units, _ in side]
        if values:
            scale = int(np.gcd.reduce(values))
            key = tuple(
                tuple(sorted((node, units // scale, latency) for node, units, latency in side))
                for side in sides[switch]
            )
            groups.setdefault(key, []).append((switch, scale))
    return next(((same, *key) for key, same in groups.items() if len(same) > 1), None)  # type: ignore[return-value]


# Symmetries.


@dataclass(frozen=True, eq=False)
class _Graph:
    """What automorphisms must keep: arcs with labels, and a first colour of each node."""

    nodes: int
    tail: Ints
    head: Ints
    label: Hashes
    colour: Hashes

    def keeps(self, permutation: Ints) -> bool:
        if not (self.colour[permutation] == self.colour).all():
            return False
        before = self.tail * self.nodes + self.head
        after = permutation[self.tail] * self.nodes + permutation[self.head]
        first, second = np.argsort(before), np.argsort(after)
        same_arcs = (before[first] == after[second]).all()
        return bool(same_arcs and (self.label[first] == self.label[second]).all())


def _mixed(values: Hashes) -> Hashes:
    values = (values ^ (values >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(29))


def _refined(graph: _Graph, colour: Hashes, rounds: int = 0) -> Hashes:
    """Colours that tell apart what neighbours tell apart; without a number of rounds until they stay."""
    count = 0
    for _ in range(rounds or graph.nodes):
        new = _mixed(colour + _ODD)
        np.add.at(new, graph.tail, _mixed(colour[graph.head] ^ graph.label))
        np.add.at(new, graph.head, _mixed((colour[graph.tail] ^ graph.label) * _ODD))
        colour = _mixed(new)
        classes = len(np.unique(colour))
        if classes == count and not rounds:
            break
        count = classes
    return colour


def _extended(graph: _Graph, ranks: Ints, images: Ints) -> Ints | None:
    """int64[V], an automorphism that takes ranks to images; None where refinement finds none."""
    first = np.zeros(graph.nodes, dtype=np.uint64)
    second = first.copy()
    first[ranks] = np.arange(1, len(ranks) + 1, dtype=np.uint64) * _ODD
    second[images] = first[ranks]
    mark = 1 << 40
    while True:
        first, second = _refined(graph, first, 6), _refined(graph, second, 6)
        order, target = np.argsort(first, kind="stable"), np.argsort(second, kind="stable")
        if not (first[order] == second[target]).all():
            return None
        equal = np.flatnonzero(first[order][1:] == first[order][:-1])
        if not len(equal):
            permutation = np.empty(graph.nodes, dtype=np.int64)
            permutation[order] = target
            return permutation if graph.keeps(permutation) else None
        node = order[equal[0]]
        cell = target[second[target] == first[node]]
        image = node if node in cell else cell[0]
        first[node] ^= np.uint64(mark)
        second[image] ^= np.uint64(mark)
        mark += 1


def orbits(size: int, permutations: Sequence[Ints]) -> Ints:
    """int64[size], the number of the orbit of each item."""
    label = np.arange(size)
    while True:
        before = label.copy()
        for permutation in permutations:
            least = np.minimum(label, label[permutation])
            label = least.copy()
            np.minimum.at(label, permutation, least)
        label = label[label]
        if (label == before).all():
            numbers: Ints = np.unique(label, return_inverse=True)[1]
            return numbers


def _closure(nodes: int, generators: Sequence[Ints]) -> Ints | None:
    """int64[elements, V], all elements of a group; None if they are too many."""
    identity = np.arange(nodes)
    elements = {identity.tobytes(): identity}
    frontier = [identity]
    while frontier:
        following = []
        for element, generator in itertools.product(frontier, generators):
            product = generator[element]
            if elements.setdefault(product.tobytes(), product) is product:
                following.append(product)
                if len(elements) > MOST_ELEMENTS:
                    return None
        frontier = following
    return np.array(list(elements.values()))


@dataclass(frozen=True, eq=False)
class Symmetry:
    """A group of automorphisms of a network, and its orbits.

    Attributes:
        network: V nodes, m arcs.
        members: tuple of int64, ranks of every process group.
        vectors: how large the vector of each is, as a multiple.
        generators: permutations of the nodes.
        elements: int64[elements, V], the whole group, the identity first.
    """

    network: RatedNetwork
    members: tuple[Ints, ...]
    vectors: tuple[int, ...]
    generators: tuple[Ints, ...] = ()
    elements: Ints = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))

    @cached_property
    def node_orbit(self) -> Ints:
        """int64[V], orbit of every node."""
        return orbits(self.network.nodes, self.generators)

    @cached_property
    def arc_orbit(self) -> Ints:
        """int64[m], orbit of every arc."""
        arcs = self.network.arcs
        moved = [self.network.arc_positions(generator[arcs]) for generator in self.generators]
        return orbits(len(arcs), moved)

    @cached_property
    def arc_count(self) -> Ints:
        """int64[orbits], arcs of every orbit."""
        return np.bincount(self.arc_orbit)

    @cached_property
    def rank_orbits(self) -> list[tuple[int, int]]:
        """A rank of every orbit of members, and how many there are in it."""
        ranks = np.concatenate(self.members)
        _, first, counts = np.unique(self.node_orbit[ranks], return_index=True, return_counts=True)
        return [(int(ranks[index]), int(count)) for index, count in zip(first, counts, strict=True)]

    @cached_property
    def parts(self) -> Ints:
        """int64[V], least whole numbers in proportion to what a rank sends in an AllGather, or each other rank gets."""
        scale = int(np.lcm.reduce([len(own) for own in self.members]))
        parts = np.zeros(self.network.nodes, dtype=np.int64)
        for own, vector in zip(self.members, self.vectors, strict=True):
            parts[own] = vector * scale // len(own)
        return np.asarray(parts // np.gcd.reduce(parts), dtype=np.int64)


def no_symmetry(network: RatedNetwork, members: tuple[Ints, ...], vectors: tuple[int, ...]) -> Symmetry:
    """Return the group of the identity alone."""
    return Symmetry(network, members, vectors, (), np.arange(network.nodes)[None])


def symmetry_of(network: RatedNetwork, members: tuple[Ints, ...], vectors: tuple[int, ...] = (1,)) -> Symmetry:
    """Return a small group that moves much: shifts of the numbers of ranks, or of numbers made from blocks.

    Args:
        network: whose rates count.
        members: ranks of every process group, which the group keeps as sets.
        vectors: multiples that the vectors of the process groups are, which it keeps too.
    """
    plain = no_symmetry(network, members, vectors)
    graph, ranks = _graph(plain), np.concatenate(members)
    colour = _refined(graph, graph.colour)
    classes = [ranks[colour[ranks] == own] for own in dict.fromkeys(colour[ranks].tolist())]
    best = _shifts(graph, plain, classes)
    if len(best.rank_orbits) > len(classes):
        ordered = [_by_blocks(graph, colour, own) for own in classes]
        if any((a != b).any() for a, b in zip(classes, ordered, strict=True)):
            other = _shifts(graph, plain, ordered)
            if len(other.arc_count) < len(best.arc_count):
                return other
    return best


def _graph(plain: Symmetry) -> _Graph:
    """The network; where there are several process groups, with a node more for each, joined to its members."""
    network, members = plain.network, plain.members
    colour = np.zeros(network.nodes, dtype=np.uint64)
    colour[np.concatenate(members)] = _ODD
    tail, head = network.arcs.T.astype(np.int64)
    label = _mixed(network.units.astype(np.uint64) * _ODD) ^ network.latency_us.view(np.uint64)
    if len(members) > 1:
        hubs = np.repeat(network.nodes + np.arange(len(members)), [len(own) for own in members])
        tail, head = np.concatenate((tail, np.concatenate(members))), np.concatenate((head, hubs))
        label = np.concatenate((label, np.full(len(hubs), _MARK)))
        colour = np.concatenate((colour, _MARK * np.array(plain.vectors, dtype=np.uint64)))
    return _Graph(len(colour), tail, head, label, colour)


def _by_blocks(graph: _Graph, colour: Hashes, own: Ints) -> Ints:
    """Ranks in the order of the blocks that they form: servers, rails, leaves, pods.

    What a rank sees of another is the colour of that rank when the first is marked. Where being seen in one or two
    certain colours divides the ranks into sets of equal size, these are blocks.
    """
    views: dict[int, Hashes] = {}

    def seen_from(rank: int) -> Hashes:
        if rank not in views:
            marked = colour.copy()
            marked[rank] ^= _MARK
            views[rank] = _refined(graph, marked, 8)
        return views[rank]

    kinds, sizes = np.unique(seen_from(int(own[0]))[own[1:]], return_counts=True)
    if len(kinds) > 12:
        return own
    systems = []
    for count in (1, 2):
        for picked in itertools.combinations(range(len(kinds)), count):
            size = 1 + int(sizes[list(picked)].sum())
            if size == len(own) or len(own) % size:
                continue
            kept = kinds[list(picked)]
            number = _blocks(
                graph.nodes, own, size, partial(lambda rank, kept: np.isin(seen_from(rank), kept), kept=kept)
            )
            if number is not None:
                systems.append((size, number))
    systems.sort(key=lambda system: system[0])
    return own[np.lexsort([own, *(number for _, number in systems)])]


def _blocks(nodes: int, own: Ints, size: int, sees: Callable[[int], Bools]) -> Ints | None:
    """int64[k], the block of every rank; None where they do not divide the ranks."""
    number = np.full(nodes, -1)
    for count, rank in enumerate(own.tolist()):
        if number[rank] >= 0:
            continue
        block = np.append(own[sees(rank)[own] & (own != rank)], rank)
        if len(block) != size or (number[block] >= 0).any():
            return None
        number[block] = count
    return number[own]


def _shift(count: int, stride: int, length: int) -> Ints:
    numbers = np.arange(count)
    digit = numbers // stride % length
    return numbers + ((digit + 1) % length - digit) * stride


def _trials(classes: list[Ints]) -> Iterator[tuple[int, ...]]:
    """Strides of the shift of every colour (0: it stays) and the length, long shifts of many colours first."""
    lengths = {k for own in classes for k in range(2, len(own) + 1) if len(own) % k == 0}
    for length in sorted(lengths, reverse=True):
        choices = []
        for own in classes:
            strides = [s for s in range(1, len(own) // length + 1) if len(own) % (s * length) == 0]
            choices.append([*strides, 0] if len(own) > 1 else [0])
        chosen = itertools.islice(itertools.product(*choices), MOST_CHOICES)
        for strides_of in sorted(chosen, key=lambda row: sum(stride == 0 for stride in row)):
            if any(strides_of):
                yield length, *strides_of


def _shifts(graph: _Graph, plain: Symmetry, classes: list[Ints]) -> Symmetry:
    best, ranks, nodes = plain, np.concatenate(classes), plain.network.nodes
    for length, *strides in itertools.islice(_trials(classes), MOST_TRIALS):
        images = np.concatenate(
            [
                own[_shift(len(own), stride, length)] if stride else own
                for own, stride in zip(classes, strides, strict=True)
            ]
        )
        extended = _extended(graph, ranks, images)
        if extended is None:
            continue
        permutation = extended[:nodes]
        generators = (*best.generators, permutation)
        inside = (best.node_orbit[permutation] == best.node_orbit).all() and (permutation[ranks] != ranks).any()
        if inside and orbits(nodes, generators).max() == best.node_orbit.max():
            continue
        elements = _closure(nodes, generators)
        if elements is not None:
            wider = replace(plain, generators=generators, elements=elements)
            if len(wider.arc_count) < len(best.arc_count):
                best = wider
    return best
