"""Least network traffic between two operators for every pair of their splits, wherever they are placed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.leaving import end_if_left
from topoopt.core.workload import Operator, Split, Workload
from topoopt.verify.job.choices import Choices
from topoopt.verify.job.traffic import channels_read, meetings, slices


def nearest_hops(cluster: Cluster) -> Ints:
    """int64[n - 1], ascending: least hops to the nearest, second nearest, ... other server on any topology.

    Proof: at most d servers are one hop away; those at h + 1 hops are next to those at h hops, each of which has at
    most d interfaces, one of them facing back where links are fibre pairs.
    """
    n, degree = cluster.servers, cluster.degree
    onward = degree - 1 if cluster.links is LinkDirection.BIDIRECTIONAL else degree
    hops: list[int] = []
    layer, distance = degree, 1
    while len(hops) < n - 1:
        hops.extend([distance] * min(layer, n - 1 - len(hops)))
        # Where links cannot lead on, the remaining servers cannot be reached: one hop more is still a lower bound.
        layer, distance = layer * onward or n, distance + 1
    return np.array(hops, dtype=np.int64)


def least_byte_hops(matrices: Floats, cluster: Cluster) -> Floats:
    """float64[...]: least sum of bytes times hops of demands float64[..., senders, receivers]: the larger of the sums
    over senders and over receivers."""
    hops = nearest_hops(cluster)
    sums = []
    for rows in (matrices, np.swapaxes(matrices, -1, -2)):
        largest_first = -np.sort(-rows, axis=-1)[..., : len(hops)]
        sums.append((largest_first * hops[: largest_first.shape[-1]]).sum(axis=(-2, -1)))
    least: Floats = np.maximum(*sums)
    return least


@dataclass(frozen=True, eq=False)
class Between:
    """Traffic between a producer and a consumer.

    Attributes:
        producer, consumer: operator indices, producer first.
        byte_hops: float64[splits of producer, splits of consumer], least bytes times links crossed, forward; as much
            again flows backward.
        received: same shape, least bytes any part of the consumer has from other servers (and returns backward).
        sent: same shape, least bytes any part of the producer sends to other servers (and has back backward).
    """

    producer: int
    consumer: int
    byte_hops: Floats
    received: Floats
    sent: Floats


def between_all(cluster: Cluster, workload: Workload, choices: tuple[Choices, ...]) -> tuple[Between, ...]:
    """One entry per pair of operators joined by input edges, in order of consumer and producer.

    Several edges between the same two add up: each counts its largest transfer as the local one, so that the sum is no
    more than what the parts exchange.
    """
    hops = np.concatenate(([0], nearest_hops(cluster))).astype(np.float64)
    known: dict[tuple[object, ...], Floats] = {}
    found: dict[tuple[int, int], Floats] = {}
    for v, consumer in enumerate(workload.operators):
        for edge in consumer.inputs:
            u, producer = edge.producer, workload.operators[edge.producer]
            size = producer.element_bytes * edge.fraction
            ways = tuple(tuple(_ways(split) for split in choices[o].splits) for o in (u, v))
            key = (producer.output_elements, size, consumer.mixes_channels, ways)
            if key not in known:
                known[key] = np.array(
                    [
                        [
                            _least(workload, producer, consumer, (first, second), edge.fraction, hops)
                            for second in choices[v].splits
                        ]
                        for first in choices[u].splits
                    ],
                    dtype=np.float64,
                )
            found[u, v] = found[u, v] + known[key] if (u, v) in found else known[key]
    in_order = sorted(found.items(), key=lambda item: item[0][::-1])
    return tuple(Between(u, v, cost[..., 0], cost[..., 1], cost[..., 2]) for (u, v), cost in in_order)


def _ways(split: Split) -> tuple[int, int, int]:
    return split.sample_ways, split.channel_ways, split.reduce_ways


def _least(
    workload: Workload,
    producer: Operator,
    consumer: Operator,
    splits: tuple[Split, Split],
    fraction: float,
    hops: Floats,
) -> tuple[float, float, float]:
    """Least forward bytes times hops; least bytes received by a consumer part; least sent by a producer part.

    Proof: the producer parts a consumer part reads stand on different servers, at most one of them on its own (0
    hops), the others no nearer than `nearest_hops`; the sum is least with the largest on the nearest (rearrangement
    inequality). The same holds for the consumer parts that read a producer part. Both sums bound the total. A part has
    all but its largest transfer from (or to) other servers at least.
    """
    first, second = splits
    into, out_of, rows = meetings(
        slices(workload.samples, second.sample_ways), slices(workload.samples, first.sample_ways)
    )
    columns = channels_read(
        producer.output_elements,
        consumer.mixes_channels,
        (second.channel_ways, second.reduce_ways),
        (first.channel_ways, first.reduce_ways),
    )
    sums, moved = [], []
    for row, parts, read in ((into, second.sample_ways, columns), (out_of, first.sample_ways, columns.T)):
        least = np.inf
        patterns_a, times_a = _patterns(row, rows, parts)
        block, other = np.nonzero(read)
        patterns_b, times_b = _patterns(block, read[block, other], len(read))
        total = 0.0
        for x, often_x in zip(patterns_a, times_a, strict=True):
            end_if_left()
            for y, often_y in zip(patterns_b, times_b, strict=True):
                size = np.outer(x[x > 0], y[y > 0]).ravel() * float(producer.element_bytes)
                if fraction != 1.0:
                    size = np.floor(size * fraction * (1 - 1e-12))  # never above the exact size rounded down
                largest_first = -np.sort(-size)
                total += float(often_x * often_y) * float(largest_first @ hops[: len(size)])
                least = min(least, float(largest_first[1:].sum()))
        sums.append(total)
        moved.append(least)
    return max(sums), moved[0], moved[1]


def _patterns(row: Ints, common: Ints, rows: int) -> tuple[Ints, Ints]:
    """Of a table of so many rows, what stands in them, by row: each sorted with the largest first, each distinct one
    once and how often it comes."""
    count = np.bincount(row, minlength=rows)
    met = np.zeros((rows, max(1, int(count.max(initial=0)))), dtype=np.int64)
    met[row, np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)] = common
    found, times = np.unique(-np.sort(-met, axis=1), axis=0, return_counts=True)
    return found, times
