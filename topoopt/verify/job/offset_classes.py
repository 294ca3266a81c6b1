"""What an operator may choose where servers are told apart by their number modulo G, and least traffic class by class.

An operator in P parts at offset o stands on the servers o + i n/P. With G dividing n and g = gcd(n/P, G), these are
servers of the classes p = o (mod g) modulo G, P g / G of them in each. So a state is a split and the residue o mod g,
and the busiest server of a class p carries P g / n parts of such an operator at least in the mean over the n/G servers
of the class. With G = 1 a state is a split.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import Cluster
from topoopt.core.workload import Operator, OperatorInput, Split, Workload
from topoopt.verify.job.choices import Choices
from topoopt.verify.job.traffic import channels_read, overlap, slices
from topoopt.verify.job.wire import least_byte_hops


@dataclass(frozen=True, eq=False)
class States:
    """What one operator may choose.

    Attributes:
        split: int64[states], the usable split.
        residue: int64[states], its offset modulo `period`.
        period: int64[states], gcd of its stride and the number of classes.
        parts: int64[states], parts of the split.
    """

    split: Ints
    residue: Ints
    period: Ints
    parts: Ints

    def on_a_server(self, servers: int, of_class: int | None) -> Floats:
        """float64[states]: parts on a server, in the mean over a class, or over all where it is None."""
        if of_class is None:
            return self.parts / servers
        mean: Floats = (of_class % self.period == self.residue) * (self.parts * self.period / servers)
        return mean


def states_of(cluster: Cluster, workload: Workload, choices: tuple[Choices, ...], classes: int) -> tuple[States, ...]:
    """Usable splits with every class of offset that they may have."""
    return tuple(
        _states(cluster.servers, operator, choice.splits, classes)
        for operator, choice in zip(workload.operators, choices, strict=True)
    )


def _states(servers: int, operator: Operator, splits: tuple[Split, ...], classes: int) -> States:
    rows = []
    for index, split in enumerate(splits):
        parts = split.sample_ways * split.channel_ways * split.reduce_ways
        period = math.gcd(servers // parts, classes)
        residues = range(period) if operator.pinned_offset is None else (operator.pinned_offset % period,)
        rows += [(index, residue, period, parts) for residue in residues]
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return States(table[:, 0], table[:, 1], table[:, 2], table[:, 3])


@dataclass(frozen=True, eq=False)
class ClassTraffic:
    """Least traffic between a producer and a consumer, float64[states of producer, states of consumer] each, bytes.

    Attributes:
        byte_hops: bytes times links crossed.
        received: what any part of the consumer has from other servers.
        sent: what any part of the producer sends to other servers.
        out: of each class, what its servers send together.
        into: of each class, what its servers receive together.
    """

    byte_hops: Floats
    received: Floats
    sent: Floats
    out: tuple[Floats, ...]
    into: tuple[Floats, ...]


def class_traffic(
    cluster: Cluster, workload: Workload, choices: tuple[Choices, ...], states: tuple[States, ...], classes: int
) -> dict[tuple[int, int], ClassTraffic]:
    """Of every pair of operators joined by input edges: each figure least over the offsets of the two states.

    Several edges between the same two add up.
    """
    known: dict[object, Floats] = {}
    found: dict[tuple[int, int], Floats] = {}
    for v, consumer in enumerate(workload.operators):
        for edge in consumer.inputs:
            u, producer = edge.producer, workload.operators[edge.producer]
            ways = tuple(tuple(_ways(split) for split in choices[o].splits) for o in (u, v))
            pins = (producer.pinned_offset, consumer.pinned_offset)
            shape = (producer.output_elements, producer.element_bytes, edge.fraction, consumer.mixes_channels)
            key = (shape, ways, pins)
            if key not in known:
                pair = _Pair(cluster, workload, (u, v), edge, classes)
                known[key] = pair.table((choices[u], choices[v]), (states[u], states[v]))
            found[u, v] = found[u, v] + known[key] if (u, v) in found else known[key]
    return {
        pair: ClassTraffic(
            table[..., 0],
            table[..., 1],
            table[..., 2],
            tuple(table[..., 3 + p] for p in range(classes)),
            tuple(table[..., 3 + classes + p] for p in range(classes)),
        )
        for pair, table in found.items()
    }


def _ways(split: Split) -> tuple[int, int, int]:
    return split.sample_ways, split.channel_ways, split.reduce_ways


class _Pair:
    """One edge: its transfers for every two offsets, which matter by their difference and the class of the first."""

    def __init__(
        self, cluster: Cluster, workload: Workload, pair: tuple[int, int], edge: OperatorInput, classes: int
    ) -> None:
        self.cluster, self.workload, self.edge, self.classes = cluster, workload, edge, classes
        self.producer, self.consumer = (workload.operators[o] for o in pair)

    def table(self, choices: tuple[Choices, Choices], states: tuple[States, States]) -> Floats:
        """float64[states of producer, states of consumer, 3 + 2 classes]."""
        first, second = states
        table = np.full((len(first.split), len(second.split), 3 + 2 * self.classes), np.inf)
        for s, one in enumerate(choices[0].splits):
            for t, other in enumerate(choices[1].splits):
                sizes = self._sizes(one, other)
                o, p = self._offsets(sizes)
                figures = self._figures(sizes, o, p)
                for a in np.flatnonzero(first.split == s):
                    of_first = o % first.period[a] == first.residue[a]
                    for b in np.flatnonzero(second.split == t):
                        both = of_first & (p % second.period[b] == second.residue[b])
                        table[a, b] = figures[both].min(axis=0, initial=np.inf)
        return table

    def _offsets(self, sizes: Floats) -> tuple[Ints, Ints]:
        """int64[pairs] each: offsets of the two, a pair for each difference and class of the first."""
        pins = (self.producer.pinned_offset, self.consumer.pinned_offset)
        own = [
            np.arange(self.cluster.servers // parts) if pin is None else np.array([pin])
            for parts, pin in zip(sizes.shape, pins, strict=True)
        ]
        o, p = (each.ravel() for each in np.meshgrid(*own, indexing="ij"))
        _, kept = np.unique((p - o) * self.classes + o % self.classes, return_index=True)
        return o[kept], p[kept]

    def _sizes(self, one: Split, other: Split) -> Floats:
        """float64[parts of producer, parts of consumer], bytes of each transfer, rounded down where edges are parts."""
        samples = self.workload.samples
        rows = overlap(slices(samples, one.sample_ways), slices(samples, other.sample_ways))
        columns = channels_read(
            self.producer.output_elements,
            self.consumer.mixes_channels,
            (other.channel_ways, other.reduce_ways),
            (one.channel_ways, one.reduce_ways),
        ).T
        sizes: Floats = np.kron(rows, columns).astype(np.float64) * float(self.producer.element_bytes)
        if self.edge.fraction != 1.0:
            sizes = np.floor(sizes * self.edge.fraction * (1 - 1e-12))  # never above the exact size rounded down
        return sizes

    def _figures(self, sizes: Floats, o: Ints, p: Ints) -> Floats:
        """float64[pairs, 3 + 2 classes] of pairs of offsets."""
        n = self.cluster.servers
        source, target = (
            at[:, None] + n // parts * np.arange(parts) for at, parts in zip((o, p), sizes.shape, strict=True)
        )
        moved = np.where(source[:, :, None] == target[:, None, :], 0.0, sizes)
        sent, received = moved.sum(axis=2), moved.sum(axis=1)
        by_class = [
            np.where(servers % self.classes == each, amount, 0.0).sum(axis=1)
            for servers, amount in ((source, sent), (target, received))
            for each in range(self.classes)
        ]
        hops = least_byte_hops(moved, self.cluster)
        return np.stack((hops, received.min(axis=1), sent.min(axis=1), *by_class), axis=1)
