"""Breadth-first broadcast with balanced links (BFB, arXiv 2202.03356), and the search for Cayley digraphs that suit it.

Breadth-first broadcast with balanced links (BFB, arXiv 2202.03356): fewest steps, and the least load among such.

Every rank v receives the shard of u in step D(u, v), in parts from the neighbours that are one step nearer to u. For
each v and step the parts are balanced over the links into v; by Hall's theorem the least load of the fullest link is
the largest, over sets of links, of the shards that can come over no other links, over the rate of the set.

Search for Cayley digraphs and Haar graphs on which breadth-first broadcasts take few steps and balance.

Haar graphs are drawn: random sets of elements of every group.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from solvers.collective.schedules import of_columns
from solvers.stop import Stop
from topoopt.core.arrays import Bools, Int32s, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.collective import CollectiveSchedule, VectorBlocks
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.topology import SemidirectGroup, haar_arcs, semidirect_groups
from topoopt.native import graph

StepLoads = tuple[tuple[Fraction, ...], Int32s]
"""Of each step the load of the fullest link, shards over units; int32[N, N], hops from row to column."""


class FlowNetwork:
    """A network whose flows are asked for again and again.

    Args:
        nodes: number of nodes.
        tails, heads: int32[m].
        capacities: int64[m], changed by `set_capacities`.
    """

    def __init__(self, nodes: int, tails: Int32s, heads: Int32s, capacities: Ints) -> None:
        from ortools.graph.python import max_flow

        self.nodes = nodes
        self.solver = max_flow.SimpleMaxFlow()
        self.arcs = self.solver.add_arcs_with_capacity(tails, heads, capacities)

    def set_capacities(self, capacities: Ints) -> None:
        """New capacities of all arcs, int64[m]."""
        self.solver.set_arcs_capacity(self.arcs, capacities)

    def value(self, source: int, sink: int) -> int:
        status = self.solver.solve(source, sink)
        if status != self.solver.OPTIMAL:
            raise OverflowError(f"maximum flow {source} -> {sink}: {status}")
        return int(self.solver.optimal_flow())

    def cut(self, source: int, sink: int) -> tuple[int, Bools]:
        """The same with the smallest set of nodes around the source that cuts it, bool[nodes]."""
        value = self.value(source, sink)
        side = np.zeros(self.nodes, dtype=np.bool_)
        side[self.solver.get_source_side_min_cut()] = True
        return value, side

    def flows(self) -> Ints:
        """int64[m], of the last question."""
        return np.asarray(self.solver.flows(self.arcs), dtype=np.int64)


def step_loads(network: RatedNetwork, *, alike: bool = False) -> StepLoads:
    """Loads of all steps.

    Args:
        network: without switches.
        alike: the network looks the same from every rank, so that one is enough.

    Raises:
        ValueError: switches, or ranks that cannot reach each other.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    if network.is_switch.any():
        raise ValueError("breadth-first broadcast needs a network without switches")
    n = network.nodes
    links = csr_array((np.ones(len(network.arcs)), (network.arcs[:, 0], network.arcs[:, 1])), shape=(n, n))
    far = shortest_path(links, unweighted=True)
    if not np.isfinite(far).all():
        raise ValueError("some ranks cannot reach each other")
    distance = far.astype(np.int32)
    steps = int(distance.max())
    into = in_links(network)
    most = [Fraction(0)] * steps
    for rank in range(1 if alike else n):
        neighbours, units = into[rank]
        near = distance[:, neighbours] + 1 == distance[:, rank, None]
        loads = by_sets(near, distance[:, rank], units, steps)
        most = [max(load, before) for load, before in zip(loads, most, strict=True)]
    return tuple(most), distance


def in_links(network: RatedNetwork) -> list[tuple[Ints, Ints]]:
    """Tails and units of the links into every node."""
    order = np.lexsort((network.arcs[:, 0], network.arcs[:, 1]))
    ends = np.searchsorted(network.arcs[order, 1], np.arange(network.nodes + 1))
    return [
        (network.arcs[order[low:high], 0].astype(np.int64), network.units[order[low:high]])
        for low, high in itertools.pairwise(ends)
    ]


def by_sets(near: np.ndarray, distance: Int32s, units: Ints, steps: int) -> list[Fraction]:
    """Least load of the fullest link into one rank, in every step.

    Args:
        near: bool[N, k], whether the shard of u may come over link k.
        distance: int32[N], the step in which it comes; 0 for the rank itself.
        units: int64[k].
        steps: number of steps.
    """
    k = len(units)
    if k > 12:  # distinct in-neighbours up to which all sets of links are tried
        return [_by_cuts(near[distance == step], units) for step in range(1, steps + 1)]
    masks = near @ (1 << np.arange(k))
    inside = np.zeros((steps + 1, 1 << k), dtype=np.int64)
    np.add.at(inside, (distance, masks), 1)
    rate = np.zeros(1 << k, dtype=np.int64)
    whole = np.arange(1 << k)
    for link in range(k):  # sums over subsets
        has = (whole >> link) & 1 == 1
        inside[:, has] += inside[:, whole[has] ^ (1 << link)]
        rate[has] += units[link]
    loads = []
    for step in range(1, steps + 1):
        # The largest quotient in integers: compared as floats first, then exactly among those that are close.
        share = inside[step, 1:] / rate[1:]
        close = np.flatnonzero(share >= share.max() * (1 - 1e-12)) + 1
        loads.append(max(Fraction(int(inside[step, at]), int(rate[at])) for at in close[:64]))
    return loads


def _by_cuts(near: np.ndarray, units: Ints) -> Fraction:
    """The same for many links: Newton's method on cuts of a flow from shards over links."""
    shards, k = near.shape
    if shards == 0:
        return Fraction(0)
    load = Fraction(shards, int(units[near.any(axis=0)].sum()))
    pattern, counts = np.unique(near, axis=0, return_counts=True)
    groups = len(pattern)
    group, link = np.nonzero(pattern)
    source, sink = groups + k, groups + k + 1
    tails = np.concatenate((np.full(groups, source), group, groups + np.arange(k))).astype(np.int32)
    heads = np.concatenate((np.arange(groups), groups + link, np.full(k, sink))).astype(np.int32)
    flow = FlowNetwork(sink + 1, tails, heads, np.ones(len(tails), dtype=np.int64))
    while True:
        sent = counts * load.denominator
        through = np.full(len(group), int(sent.sum()))
        flow.set_capacities(np.concatenate((sent, through, units * load.numerator)))
        value, side = flow.cut(source, sink)
        if value >= int(sent.sum()):
            return load
        load = Fraction(int(counts[side[:groups]].sum()), int(units[side[groups : groups + k]].sum()))


MOST_PARTS = 1 << 16
"""Parts of a shard up to which loads are met exactly; above, links take up to a part more."""


def breadth_first_schedule(network: RatedNetwork, broadcast: StepLoads) -> CollectiveSchedule:
    """An AllGather with a step for each of these loads.

    Shards are cut where some rank takes them in parts, so that every block goes over one link into every rank.
    """
    step_load, distance = broadcast
    parts = lcm(*(load.denominator for load in step_load))
    parts = parts if parts <= MOST_PARTS else MOST_PARTS
    into = in_links(network)
    taken: list[tuple[int, int, int, int, int]] = []  # rank, shard, link, begin, end: what a rank receives
    for rank in range(network.nodes):
        neighbours, units = into[rank]
        near = distance[:, neighbours] + 1 == distance[:, rank, None]
        for step, load in enumerate(step_load, start=1):
            shards = np.flatnonzero(distance[:, rank] == step)
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
    when = distance[shard, to] - 1
    columns = (block, *(column[of_block] for column in (tail, to, when, route, np.zeros_like(to))))
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
    link_capacity = np.array(
        [-(-int(rate) * load.numerator * parts // load.denominator) for rate in units], dtype=np.int64
    )
    tails = np.concatenate((np.full(count, source), shard, count + np.arange(k))).astype(np.int32)
    heads = np.concatenate((np.arange(count), count + link, np.full(k, sink))).astype(np.int32)
    capacity = np.concatenate((np.full(count, parts), np.full(len(shard), parts), link_capacity))
    network = FlowNetwork(sink + 1, tails, heads, capacity)
    if network.value(source, sink) < count * parts:
        raise AssertionError("a load below what Hall's theorem allows")
    flows = network.flows()[count : count + len(shard)]
    rows, at = [], np.zeros(count, dtype=np.int64)
    for shard_index, arc, amount in zip(shard.tolist(), link.tolist(), flows.tolist(), strict=True):
        if amount:
            begin = int(at[shard_index])
            rows.append((int(shards[shard_index]), arc, begin, begin + amount))
            at[shard_index] += amount
    return rows


MOST_DEGREE = 10
"""Generators up to which all sets of them are looked at."""
PATIENCE = 100


@dataclass(frozen=True)
class GroupGraph:
    """A graph whose links generators of a group make, and how near its servers are.

    Attributes:
        group: whose elements are the servers, or those of either side.
        generators: of the links out of each.
        steps: diameter, T_L.
        distances: sum of the distances from a server (of either side) to all others.
        bandwidth: factor T_B of breadth-first broadcasts; 0 where it was not computed.
    """

    group: SemidirectGroup
    generators: tuple[int, ...]
    steps: int
    distances: int
    bandwidth: Fraction = Fraction(0)

    @property
    def rank(self) -> tuple[int, int, int, int, int, tuple[int, ...]]:
        """Order of graphs, the best least."""
        return self.steps, self.distances, self.group.modulus, self.group.order, self.group.twist, self.generators


def search_cayley(
    servers: int, degree: int, links: LinkDirection, stop: Stop, *, visits: int, most_steps: int, seed: int
) -> list[GroupGraph]:
    """The best found of every number of steps.

    All groups Z_m x| Z_k of the size are tried; again and again the half with the larger distances is left out, and the
    others get twice the draws, until one is left. Same arguments, same result, unless stopped.

    Args:
        servers: n; degree: d, at most n - 1 and `MOST_DEGREE`.
        links: fibre pairs need generators with their inverses.
        stop: ends the search early.
        visits: about how many links are followed in all, a measure of work.
        most_steps: diameters looked for.
        seed: of the draws.
    """
    parts = math.lcm(*range(1, degree + 1))
    search = graph.CayleySearch(degree, most_steps, parts, seed)
    owner: dict[int, SemidirectGroup] = {}
    groups = semidirect_groups(servers)
    rounds = max(len(groups) - 1, 0).bit_length() + 1
    # Each draw follows all links of one search, and sums over the sets of generators for a few steps.
    cost = degree * (servers + 2 * 2**degree)
    share = max(visits // (rounds * cost), 1)
    at_once = max(50_000_000 // cost, 1)  # links followed between two looks at the limits
    while True:
        met: list[tuple[int, int]] = []
        for index, group in enumerate(groups):
            least, left = -1, max(share // len(groups), 1)
            sizes = group.modulus, group.order, group.powers, links is LinkDirection.BIDIRECTIONAL
            while left > 0 and stop.reason() is None:
                reached, improved = search.climb(*sizes, min(left, at_once), PATIENCE)
                left -= at_once
                least = reached if least < 0 or 0 <= reached < least else least
                owner |= dict.fromkeys(improved.tolist(), group)
            if least >= 0:
                met.append((least, index))
        if len(groups) == 1 or stop.reason() is not None or not met:
            break
        groups = [groups[index] for _, index in sorted(met)[: (len(met) + 1) // 2]]
    return [
        GroupGraph(
            owner[steps],
            tuple(search.generators[steps].tolist()),
            steps,
            int(search.far[steps]),
            Fraction(degree * int(search.load[steps]), parts * servers),
        )
        for steps in sorted(owner)
    ]


KEPT = 3
"""Graphs that are told, best first."""


def search_haar(servers: int, degree: int, stop: Stop, *, visits: int, seed: int) -> list[GroupGraph]:
    """The best of so many draws; same arguments, same result, unless stopped.

    The group moves each side onto itself, so two searches tell the distances of all.

    Args:
        servers: n, even; degree: d, at most n / 2.
        stop: ends the search early.
        visits: about how many links are followed in all.
        seed: of the draws.
    """
    half = servers // 2
    if servers % 2 or not 1 <= degree <= half:
        return []
    groups = semidirect_groups(half)
    if not groups:
        return []
    draws = min(visits // (2 * servers * degree), 300)
    rng = np.random.default_rng(seed)
    candidates: set[GroupGraph] = set()
    for draw in range(draws):
        if stop.reason() is not None:
            break
        group = groups[draw % len(groups)]
        others = 1 + rng.choice(half - 1, degree - 1, replace=False) if degree > 1 else np.zeros(0, dtype=np.int64)
        made = _measured(group, (0, *sorted(others.tolist())))
        if made is not None:
            candidates.add(made)
    return sorted(candidates, key=lambda candidate: candidate.rank)[:KEPT]


def _measured(group: SemidirectGroup, generators: tuple[int, ...]) -> GroupGraph | None:
    """Diameter and distances; None where it is not connected."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    n = 2 * group.elements
    arcs = haar_arcs(group, generators)
    links = csr_array((np.ones(len(arcs)), (arcs[:, 0], arcs[:, 1])), shape=(n, n))
    far = shortest_path(links, unweighted=True, indices=[0, group.elements])
    if not np.isfinite(far).all():
        return None
    return GroupGraph(group, generators, int(far.max()), int(far.sum()))
