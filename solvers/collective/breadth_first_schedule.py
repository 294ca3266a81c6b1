"""The sends of a balanced breadth-first broadcast: which part of every shard comes over which link."""

from __future__ import annotations

from fractions import Fraction
from math import lcm

import numpy as np

from solvers.collective.breadth_first import StepLoads, in_links
from solvers.collective.max_flow import FlowNetwork
from solvers.collective.schedules import Row, of_rows
from topoopt.core.arrays import Bools, Ints
from topoopt.core.collective import CollectiveSchedule
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
    # cuts[u]: places where the shard of u is divided; taken[v]: (u, link, begin, end) of what v receives.
    cuts: list[set[int]] = [{0, parts} for _ in range(network.nodes)]
    taken: list[list[tuple[int, int, int, int]]] = []
    for rank in range(network.nodes):
        neighbours, units = into[rank]
        near = found.distance[:, neighbours] + 1 == found.distance[:, rank, None]
        own: list[tuple[int, int, int, int]] = []
        for step, load in enumerate(found.loads, start=1):
            shards = np.flatnonzero(found.distance[:, rank] == step)
            if len(shards):
                own += balanced_parts(shards, near[shards], units, load, parts)
        for shard, _, begin, end in own:
            cuts[shard] |= {begin, end}
        taken.append(own)
    first: list[int] = []
    sizes: list[int] = []
    owner: list[int] = []
    places: list[Ints] = []
    for shard, ends in enumerate(cuts):
        ordered = np.array(sorted(ends))
        first.append(len(sizes))
        places.append(ordered)
        sizes += np.diff(ordered).tolist()
        owner += [shard] * (len(ordered) - 1)
    rows: list[Row] = []
    number = {(int(tail), int(head)): place for place, (tail, head) in enumerate(network.arcs.tolist())}
    for rank, own in enumerate(taken):
        neighbours, _ = into[rank]
        for shard, link, begin, end in own:
            low, high = np.searchsorted(places[shard], (begin, end)).tolist()
            tail = int(neighbours[link])
            step = int(found.distance[shard, rank]) - 1
            route = number[tail, rank]
            rows += [(first[shard] + k, tail, rank, step, route, False) for k in range(low, high)]
    return of_rows(sizes, owner, rows, tuple((tail, head) for tail, head in network.arcs.tolist()))


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
