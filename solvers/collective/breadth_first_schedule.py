"""The sends of a balanced breadth-first broadcast: which part of every shard comes over which link."""

from __future__ import annotations

from fractions import Fraction
from math import lcm

import numpy as np

from solvers.collective.breadth_first import StepLoads, in_links
from solvers.collective.max_flow import FlowNetwork
from solvers.collective.schedules import of_columns
from topoopt.core.arrays import Bools, Ints
from topoopt.core.collective import CollectiveSchedule, VectorBlocks
from topoopt.core.rated_network import RatedNetwork

MOST_PARTS = 1 << 16
"""Parts of a shard up to which loads are met exactly; above, links take up to a part more."""


def breadth_first_schedule(network: RatedNetwork, found: StepLoads) -> CollectiveSchedule:
    """An AllGather of `found.steps` steps with these loads.

    Shards are cut where some rank takes them in parts, so that every block goes over one link into every rank.
    """
    parts = lcm(*(load.denominator for load in found.loads))
    parts = parts if parts <= MOST_PARTS else MOST_PARTS
    into = in_links(network)
    taken: list[tuple[int, int, int, int, int]] = []  # rank, shard, link, begin, end: what a rank receives
    for rank in range(network.nodes):
        neighbours, units = into[rank]
        near = found.distance[:, neighbours] + 1 == found.distance[:, rank, None]
        for step, load in enumerate(found.loads, start=1):
            shards = np.flatnonzero(found.distance[:, rank] == step)
            if len(shards):
                taken += [(rank, *part) for part in balanced_parts(shards, near[shards], units, load, parts)]
    to, shard, link, begin, end = np.array(taken, dtype=np.int64).reshape(-1, 5).T
    # Places where a shard is divided, those of all shards in a row; each but the last one of a shard begins a block.
    n, ends = network.nodes, np.arange(network.nodes)[:, None] * (parts + 1) + (0, parts)
    cuts = np.unique(np.concatenate((shard * (parts + 1) + begin, shard * (parts + 1) + end, ends.ravel())))
    inner = cuts % (parts + 1) < parts
    owner = cuts[inner] // (parts + 1)
    low = np.searchsorted(cuts, shard * (parts + 1) + begin) - shard
    count = np.searchsorted(cuts, shard * (parts + 1) + end) - shard - low
    tail = np.concatenate([neighbours for neighbours, _ in into])
    tail = tail[np.cumsum([0, *(len(neighbours) for neighbours, _ in into[:-1])])[to] + link]
    of_block = np.repeat(np.arange(len(to)), count)
    block = low[of_block] + np.arange(len(of_block)) - np.repeat(np.cumsum(count) - count, count)
    arcs = network.arcs.astype(np.int64)
    route = np.searchsorted(arcs[:, 0] * n + arcs[:, 1], tail * n + to)
    when = found.distance[shard, to] - 1
    columns = (block, *(one[of_block] for one in (tail, to, when, route, np.zeros_like(to))))
    blocks = VectorBlocks(np.diff(cuts)[inner[:-1]], owner.astype(np.int32), np.full(len(owner), -1, dtype=np.int32))
    return of_columns(blocks, columns, tuple((tail, head) for tail, head in network.arcs.tolist()))


def balanced_parts(
    shards: Ints, near: Bools, units: Ints, load: Fraction, parts: int
) -> list[tuple[int, int, int, int]]:
    """How shards of so many parts come over the links into a rank, none above its rate times the load.

    Args:
        shards: int64[c], numbers of the shards.
        near: bool[c, k], which links may bring them.
        units: int64[k], rates.
        load: shards per unit.
        parts: of each shard.

    Returns:
        Rows (shard, link, begin, end), in parts.
    """
    if (near.sum(axis=1) == 1).all():
        return [(int(shard), int(np.argmax(row)), 0, parts) for shard, row in zip(shards, near, strict=True)]
    count, k = near.shape
    source, sink = count + k, count + k + 1
    shard, link = np.nonzero(near)
    room = np.array([-(-int(rate) * load.numerator * parts // load.denominator) for rate in units], dtype=np.int64)
    tails = np.concatenate((np.full(count, source), shard, count + np.arange(k))).astype(np.int32)
    heads = np.concatenate((np.arange(count), count + link, np.full(k, sink))).astype(np.int32)
    capacity = np.concatenate((np.full(count, parts), np.full(len(shard), parts), room))
    network = FlowNetwork(sink + 1, tails, heads, capacity)
    if network.value(source, sink) < count * parts:
        raise AssertionError("a load below what Hall's theorem allows")
    flows = network.flows()[count : count + len(shard)]
    rows, at = [], np.zeros(count, dtype=np.int64)
    for place, way, amount in zip(shard.tolist(), link.tolist(), flows.tolist(), strict=True):
        if amount:
            begin = int(at[place])
            rows.append((int(shards[place]), way, begin, begin + amount))
            at[place] += amount
    return rows
