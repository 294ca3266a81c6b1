"""Schedules are built out of trees and rows of sends, and timed on links that stay or are reconfigured.

Schedules out of trees, rows of sends and other schedules.

Reductions are gathers on the transposed network, backward; an AllReduce is both, over blocks that they share. Whole
shards go in the fewest steps, through switches too, or round rings.

How long schedules take, on links that stay and on circuits that are reconfigured between steps.

Least times over circuits are by dynamic programming. After step t on circuits c: f_t(c) = time of t on c +
min(f_{t-1}(c), min f_{t-1} + delay). The break-even delay is the largest of (time without - time of the steps) / (times
set), found by Dinkelbach's iteration.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.collective.trees import Forest
from topoopt.core.arrays import Bools, Floats, Int32s, Ints, offsets, padded
from topoopt.core.collective import (
    CircuitSchedule,
    CollectiveOp,
    CollectiveProblem,
    CollectiveSchedule,
    Path,
    Sends,
    SwitchedCollective,
    SwitchGroup,
    VectorBlocks,
    bytes_per_unit,
)
from topoopt.core.rated_network import RatedNetwork
from topoopt.native import graph

Row = tuple[int, int, int, int, int, bool]
"""Block, tail, head, step, route, whether the head adds it to what it has."""


def backward(schedule: CollectiveSchedule) -> CollectiveSchedule:
    """Every copy turned round in time and direction, to a sum: a gather becomes a reduction to the same owners."""
    sends = schedule.sends
    turned = Sends(
        sends.block, sends.head, sends.tail, schedule.steps - 1 - sends.step, np.ones(len(sends), np.bool_), sends.route
    )
    return CollectiveSchedule(
        schedule.blocks, turned.sorted(), tuple(route[::-1] for route in schedule.routes), schedule.groups
    )


def one_after_other(first: CollectiveSchedule, second: CollectiveSchedule) -> CollectiveSchedule:
    """Two schedules of the same blocks, the second when the first has ended: a reduction and a gather, an AllReduce."""
    routes = {route: index for index, route in enumerate(dict.fromkeys((*first.routes, *second.routes)))}
    columns = []
    for part, later in ((first, 0), (second, first.steps)):
        number = np.array([routes[route] for route in part.routes], dtype=np.int32)
        columns.append(replace(part.sends, step=part.sends.step + np.int32(later), route=number[part.sends.route]))
    joined = (np.concatenate([getattr(column, name) for column in columns]) for name in Sends.__dataclass_fields__)
    return CollectiveSchedule(first.blocks, Sends(*joined).sorted(), tuple(routes), first.groups)


def of_rows(
    units: Iterable[int], owner: Iterable[int], rows: list[Row], routes: tuple[Path, ...]
) -> CollectiveSchedule:
    sizes = np.fromiter(units, dtype=np.int64)
    blocks = VectorBlocks(sizes, np.fromiter(owner, dtype=np.int32), np.full(len(sizes), -1, dtype=np.int32))
    return of_columns(blocks, np.array(rows, dtype=np.int32).reshape(-1, 6).T, routes)


def of_columns(blocks: VectorBlocks, columns: Iterable[Ints | Int32s], routes: tuple[Path, ...]) -> CollectiveSchedule:
    """A schedule of what rows have, in columns."""
    block, tail, head, step, route, adds = (column.astype(np.int32) for column in columns)
    return CollectiveSchedule(blocks, Sends(block, tail, head, step, adds > 0, route).sorted(), routes)


def of_forest(forest: Forest) -> CollectiveSchedule:
    """Copies along trees; trees whose arcs part over several routes are divided as they are."""
    routes: dict[Path, int] = {}
    units: list[int] = []
    owner: list[int] = []
    columns: list[Ints] = []
    for tree in sorted(forest, key=lambda tree: tree.root):
        depth, ends = {tree.root: 0}, {tree.count}
        for tail, head, paths in tree.arcs:
            depth[head] = depth[tail] + 1
            ends |= set(itertools.accumulate(some for _, some in paths))
        high = np.array(sorted(ends), dtype=np.int64)
        rows = np.zeros((len(high), len(tree.arcs), 6), dtype=np.int64)
        rows[:, :, 0] = np.arange(len(units), len(units) + len(high))[:, None]
        for index, (tail, head, paths) in enumerate(tree.arcs):
            numbers = np.array([routes.setdefault(path, len(routes)) for path, _ in paths], dtype=np.int64)
            own = np.searchsorted(np.cumsum([some for _, some in paths]), high)
            rows[:, index, 1:4] = tail, head, depth[tail]
            rows[:, index, 4] = numbers[own]
        units += np.diff(high, prepend=0).tolist()
        owner += [tree.root] * len(high)
        columns.append(rows.reshape(-1, 6))
    blocks = VectorBlocks(
        np.array(units, dtype=np.int64), np.array(owner, dtype=np.int32), np.full(len(units), -1, dtype=np.int32)
    )
    return of_columns(blocks, np.concatenate(columns).T, tuple(routes))


def in_pieces(schedule: CollectiveSchedule, pieces: int) -> CollectiveSchedule:
    """The same with every block in so many pieces, each a step behind the one before."""
    blocks, sends = schedule.blocks, schedule.sends
    behind = np.tile(np.arange(pieces, dtype=np.int32), len(sends))
    columns = {name: np.repeat(getattr(sends, name), pieces) for name in sends.__dataclass_fields__}
    columns |= {"block": columns["block"] * np.int32(pieces) + behind, "step": columns["step"] + behind}
    columns_of_blocks = (np.repeat(blocks.owner, pieces), np.repeat(blocks.target, pieces))
    divided_blocks = VectorBlocks(np.repeat(blocks.units, pieces), *columns_of_blocks)
    return CollectiveSchedule(divided_blocks, Sends(**columns).sorted(), schedule.routes, schedule.groups)


def gathered(
    problem: CollectiveProblem, make: Callable[[RatedNetwork], CollectiveSchedule | None]
) -> CollectiveSchedule | None:
    """The collective from a way to make an AllGather: turned round for a reduction, both for an AllReduce."""
    network, wanted = problem.network, problem.collective
    if wanted is CollectiveOp.ALLGATHER:
        return make(network)
    up = make(network.transposed())
    if up is None or wanted is CollectiveOp.REDUCE_SCATTER:
        return None if up is None else backward(up)
    down = make(network)
    return None if down is None else joined(backward(up), down)


def joined(up: CollectiveSchedule, down: CollectiveSchedule) -> CollectiveSchedule | None:
    """A reduction and a gather of the same blocks; None where they differ."""
    same = np.array_equal(up.blocks.units, down.blocks.units) and np.array_equal(up.blocks.owner, down.blocks.owner)
    return one_after_other(up, down) if same else one_after_other(*refined(up, down))


def refined(first: CollectiveSchedule, second: CollectiveSchedule) -> tuple[CollectiveSchedule, CollectiveSchedule]:
    """Both with the blocks that the ends of either make, where the owners stand in the same order."""
    scale = np.lcm(first.blocks.total, second.blocks.total)
    ends = np.union1d(*(np.cumsum(own.blocks.units) * (scale // own.blocks.total) for own in (first, second)))
    return divided(first, ends), divided(second, ends)


def divided(schedule: CollectiveSchedule, ends: np.ndarray) -> CollectiveSchedule:
    """The same with blocks that end at `ends`, int64, in units of the last of them; blocks must be in vector order."""
    blocks, sends = schedule.blocks, schedule.sends
    old = np.cumsum(blocks.units) * (int(ends[-1]) // blocks.total)
    inside = np.searchsorted(old, ends, side="left")  # the old block of each new one
    first = np.searchsorted(inside, np.arange(len(old)))
    count = np.bincount(inside, minlength=len(old))
    of_send = np.repeat(np.arange(len(sends)), count[sends.block])
    within = np.arange(len(of_send)) - np.repeat(np.cumsum(count[sends.block]) - count[sends.block], count[sends.block])
    fields = {name: getattr(sends, name)[of_send] for name in sends.__dataclass_fields__}
    fields["block"] = (first[sends.block][of_send] + within).astype(np.int32)
    parts = replace(blocks, units=np.diff(ends, prepend=0), owner=blocks.owner[inside], target=blocks.target[inside])
    return CollectiveSchedule(parts, replace(sends, **fields).sorted(), schedule.routes, schedule.groups)


def switched_paths(network: RatedNetwork, source: int) -> dict[int, Path]:
    """Ways of fewest links, and of the fastest ones, from a rank to those it reaches through switches alone."""
    out: dict[int, list[tuple[int, int]]] = {}
    for (tail, head), units in zip(network.arcs.tolist(), network.units.tolist(), strict=True):
        out.setdefault(tail, []).append((-units, head))
    paths: dict[int, Path] = {source: (source,)}
    frontier = [source]
    while frontier:
        following = []
        for node in frontier:
            for _, head in sorted(out.get(node, ())):
                if head not in paths:
                    paths[head] = (*paths[node], head)
                    if network.is_switch[head]:
                        following.append(head)
        frontier = following
    return {node: path for node, path in paths.items() if node != source and not network.is_switch[node]}


def fewest_steps(network: RatedNetwork, root: int | None = None, *, multicast: bool = False) -> CollectiveSchedule:
    """An AllGather of whole shards, or a broadcast from a root, in fewest steps; to pass on over switches is one.

    Of the ranks that have a shard a step before, the one whose links have carried least in the step sends it. With
    `multicast` a link carries what one rank sends several others once.
    """
    ranks = network.ranks.tolist()
    paths = {rank: switched_paths(network, rank) for rank in ranks}
    feeding = {head: [tail for tail in ranks if head in paths[tail]] for head in ranks}
    number = {(tail, head): index for index, (tail, head) in enumerate(network.arcs.tolist())}
    arcs = {path: [number[hop] for hop in itertools.pairwise(path)] for own in paths.values() for path in own.values()}
    distance = {rank: _steps_from(paths, rank) for rank in ranks}
    sources, index = ranks if root is None else [root], {rank: at for at, rank in enumerate(ranks)}
    routes: dict[Path, int] = {}
    rows: list[Row] = []
    load: dict[int, Floats] = {}
    passed: dict[tuple[int, int], set[int]] = {}
    for turn in range(len(ranks)):  # every rank sends its shard on in turn, so that none is always first
        for block, source in enumerate(sources):
            head = ranks[(index[source] + turn) % len(ranks)]
            far = distance[source][head]
            if far == 0:
                continue
            carried = load.setdefault(far - 1, np.zeros(len(network.arcs)))
            near = [paths[tail][head] for tail in feeding[head] if distance[source][tail] == far - 1]

            def fresh(route: Path, shard: int = block) -> list[int]:
                return [arc for arc in arcs[route] if arc not in passed.get((shard, route[0]), ())]

            def fullest(route: Path, before: Floats = carried) -> float:
                own = fresh(route)
                return float(((before[own] + 1) / network.units[own]).max(initial=0.0))

            path = min(near, key=fullest)
            carried[fresh(path)] += 1
            if multicast:
                passed.setdefault((block, path[0]), set()).update(arcs[path])
            rows.append((block, path[0], head, far - 1, routes.setdefault(path, len(routes)), False))
    return of_rows([1] * len(sources), sources, rows, tuple(routes))


def _steps_from(paths: Mapping[int, Mapping[int, Path]], source: int) -> dict[int, int]:
    """Messages that something needs one after the other to get to every rank."""
    steps, frontier = {source: 0}, [source]
    while frontier:
        following = []
        for node in frontier:
            for head in paths[node]:
                if head not in steps:
                    steps[head] = steps[node] + 1
                    following.append(head)
        frontier = following
    return steps


def ring_gather(network: RatedNetwork, rings: Sequence[Sequence[int]]) -> CollectiveSchedule | None:
    """An AllGather round several rings at once, each with an equal part; None where a ring uses what is not there.

    Args:
        rings: of all ranks, in the order of sending.
    """
    ranks = network.ranks.tolist()
    routes: dict[Path, int] = {}
    rounds = [_round(network, ring) for ring in rings]
    rows: list[Row] = []
    owner: list[int] = []
    for rank in ranks:
        for ring, hops in zip(rings, rounds, strict=True):
            if hops is None:
                return None
            block, start = len(owner), list(ring).index(rank)
            owner.append(rank)
            for step in range(len(ring) - 1):
                path = hops[(start + step) % len(ring)]
                rows.append((block, path[0], path[-1], step, routes.setdefault(path, len(routes)), False))
    return of_rows([1] * len(owner), owner, rows, tuple(routes))


def _round(network: RatedNetwork, ring: Sequence[int]) -> list[Path] | None:
    steps = []
    for tail, head in zip(ring, (*ring[1:], ring[0]), strict=True):
        path = switched_paths(network, tail).get(head)
        if path is None:
            return None
        steps.append(path)
    return steps


def natural_rings(network: RatedNetwork) -> list[list[int]]:
    """Rings p, 2p, 3p, ... of all ranks, of steps p without common factor with N, whose links are all there.

    Opposite rings both count; where none are there, the ranks in their order, which switches may join.
    """
    ranks = network.ranks
    n = len(ranks)
    linked: Bools = np.zeros((network.nodes, network.nodes), dtype=np.bool_)
    linked[network.arcs[:, 0], network.arcs[:, 1]] = True
    rings = []
    for offset in range(1, n):
        ring = ranks[np.arange(n) * offset % n]
        if np.gcd(offset, n) == 1 and linked[ring, np.roll(ring, -1)].all():
            rings.append(ring.tolist())
    return rings or [ranks.tolist()]


MAX_PIECES = 4096


def wide_network(network: RatedNetwork, groups: Sequence[SwitchGroup]) -> RatedNetwork:
    """The network with a node more for each group of switches, and links as fast as those of all its switches."""
    if not groups:
        return network
    group = {switch: network.nodes + number for number, own in enumerate(groups) for switch, _ in own}
    units: dict[tuple[int, int], int] = {}
    latency: dict[tuple[int, int], float] = {}
    rows = zip(network.arcs.tolist(), network.units.tolist(), network.latency_us.tolist(), strict=True)
    for (tail, head), rate, slow in rows:
        tails, heads = {tail, group.get(tail, tail)}, {head, group.get(head, head)}
        for arc in itertools.product(tails, heads):
            units[arc] = units.get(arc, 0) + rate
            latency[arc] = max(latency.get(arc, 0.0), slow)
    arcs = sorted(units)
    return replace(
        network,
        is_switch=np.append(network.is_switch, np.ones(len(groups), dtype=np.bool_)),
        arcs=np.array(arcs, dtype=np.int32),
        units=np.array([units[arc] for arc in arcs], dtype=np.int64),
        latency_us=np.array([latency[arc] for arc in arcs]),
        names=network.names + tuple(group_name(network, own) for own in groups),
    )


def group_name(network: RatedNetwork, group: SwitchGroup) -> str:
    """Return what a group of switches is called: its first and last one."""
    return f"{network.names[group[0][0]]}..{network.names[group[-1][0]]}"


def link_loads(network: RatedNetwork, schedule: CollectiveSchedule, load: Floats) -> Floats:
    """float64[m], what every link carries of what the links of the network with its groups carry (`step_loads`)."""
    wide = wide_network(network, schedule.groups)
    index = {(tail, head): arc for arc, (tail, head) in enumerate(wide.arcs.tolist())}
    share = {node: (node, 1.0) for node in range(network.nodes)}
    for number, own in enumerate(schedule.groups):
        total = sum(weight for _, weight in own)
        share |= {switch: (network.nodes + number, weight / total) for switch, weight in own}
    result = np.zeros(len(network.arcs))
    for arc, (tail, head) in enumerate(network.arcs.tolist()):
        for first, second in {((tail, 1.0), (head, 1.0)), ((tail, 1.0), share[head]), (share[tail], (head, 1.0)),
                              (share[tail], share[head])}:  # fmt: skip
            result[arc] += load[index[first[0], second[0]]] * first[1] * second[1]
    return result


def us_of_unit(problem: CollectiveProblem, schedule: CollectiveSchedule) -> Floats:
    """float64[m], us of one unit of the blocks on each arc, of groups of switches too."""
    moved = bytes_per_unit(problem, schedule.blocks.total)
    rates = wide_network(problem.network, schedule.groups).gbytes_per_s
    return np.asarray(moved / (rates * 1e3), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class LinkUses:
    """The links that messages pass, in the network with a node more for each group of switches.

    Attributes:
        network: that network, of m links.
        table: int64[routes, longest], arcs along every route, then -1.
        latency: float64[routes], of a message besides its bytes, us.
    """

    problem: CollectiveProblem
    schedule: CollectiveSchedule
    network: RatedNetwork
    table: Ints
    latency: Floats

    @classmethod
    def of(cls, problem: CollectiveProblem, schedule: CollectiveSchedule) -> LinkUses:
        """Look the links of all routes up."""
        network, nodes = wide_network(problem.network, schedule.groups), padded(schedule.routes)
        inside = nodes[:, 1:] >= 0
        table = np.full(inside.shape, -1, dtype=np.int64)
        table[inside] = network.arc_positions(np.stack((nodes[:, :-1][inside], nodes[:, 1:][inside]), axis=1))
        slow = np.append(network.latency_us, 0.0)[table].sum(axis=1) + problem.message_us
        return cls(problem, schedule, network, table, slow)

    def entries(self) -> tuple[Ints, Ints, Ints]:
        """Links message by message, one entry a link.

        Returns:
            int64[k + 1], entries of message j are start[j] to start[j + 1] - 1; int64[u], the link; int64[u], the first
            entry that stands for the same bytes of the same sender in the same step over the same link, which switches
            copy (where they do not, the entry itself).
        """
        sends, length = self.schedule.sends, (self.table >= 0).sum(axis=1)
        start = offsets(length[sends.route])
        rows = self.table[sends.route]
        arc = rows[rows >= 0]
        if not self.problem.multicast:
            return start, arc, np.arange(len(arc))
        message = np.repeat(np.arange(len(sends)), length[sends.route])
        same = sends.step[message].astype(np.int64) * len(self.schedule.blocks.units) + sends.block[message]
        same = (same * self.network.nodes + sends.tail[message]) * len(self.network.arcs) + arc
        _, first, which = np.unique(same, return_index=True, return_inverse=True)
        return start, arc, first[which]

    def step_loads(self) -> tuple[Floats, Floats]:
        """float64[steps, m], units that each step puts on each arc; float64[steps], latency of each step, us."""
        sends, shape = self.schedule.sends, (self.schedule.steps, len(self.network.arcs))
        latency, units = np.zeros(shape[0]), self.schedule.blocks.units.astype(np.float64)
        np.maximum.at(latency, sends.step, self.latency[sends.route])
        cell, amount = sends.step.astype(np.int64) * shape[1], units[sends.block]
        loads = np.zeros(shape[0] * shape[1])
        if self.problem.multicast:
            start, arc, once = self.entries()
            message = np.repeat(np.arange(len(sends)), np.diff(start))
            counted = once == np.arange(len(once))
            cells = cell[message[counted]] + arc[counted]
            loads += np.bincount(cells, amount[message[counted]], len(loads))
            return loads.reshape(shape), latency
        for column in self.table.T:
            arc = column[sends.route]
            there = arc >= 0
            loads += np.bincount(cell[there] + arc[there], amount[there], len(loads))
        return loads.reshape(shape), latency

    def makespan_us(self) -> float:
        """Time without barriers: a message goes when its block is there and its links are free, in order of steps."""
        sends, blocks, (start, arc, once) = self.schedule.sends, self.schedule.blocks, self.entries()
        return graph.makespan(
            sends.block, sends.tail, sends.head, sends.reduce, blocks.units, blocks.owner, start, arc, once,
            us_of_unit(self.problem, self.schedule), self.latency[sends.route], self.network.nodes,
        )  # fmt: skip


def step_loads_us(problem: CollectiveProblem, schedule: CollectiveSchedule) -> tuple[Floats, Floats]:
    """float64[steps, m], us that the bytes of each step take on each arc; float64[steps], latency of each step."""
    loads, latency = LinkUses.of(problem, schedule).step_loads()
    return loads * us_of_unit(problem, schedule), latency


def pipelined_us(loads: Floats, latency: Floats, pieces: int) -> float:
    """Time of a schedule whose blocks are divided into pieces, each a step behind the one before.

    Args:
        loads, latency: of the steps of the whole blocks (`step_loads_us`).
    """
    return sum(pipelined_parts(loads, latency, pieces))


def pipelined_parts(loads: Floats, latency: Floats, pieces: int) -> tuple[float, float]:
    """What bytes take of that time, and what messages take besides, us."""
    steps = len(loads)
    before = np.concatenate((np.zeros((1, loads.shape[1])), np.cumsum(loads, axis=0)))
    first = np.arange(steps + pieces - 1)
    if pieces > steps:  # the middle ones are alike
        first = np.concatenate((np.arange(steps), np.arange(pieces, steps + pieces - 1)))
    begin, end = np.clip(first - pieces + 1, 0, steps), np.clip(first + 1, 0, steps)
    fullest = (before[end] - before[begin]).max(axis=1, initial=0.0) / pieces
    slowest = np.array([latency[low:high].max(initial=0.0) for low, high in zip(begin, end, strict=True)])
    alike = max(pieces - steps, 0)
    bytes_us = fullest.sum() + alike * before[-1].max(initial=0.0) / pieces
    return float(bytes_us), float(slowest.sum() + alike * latency.max(initial=0.0))


def best_pieces(time_of: Callable[[int], float], most: int = MAX_PIECES) -> int:
    """Number of pieces of least time: powers of two first, then between the neighbours of the best one."""
    tried: dict[int, float] = {}

    def time(pieces: int) -> float:
        if pieces not in tried:
            tried[pieces] = time_of(pieces)
        return tried[pieces]

    best = min((1 << power for power in range(int(math.log2(most)) + 1)), key=time)
    low, high = max(best // 2, 1), min(best * 2, most)
    while high - low > 2:
        lower, upper = low + (high - low) // 3, high - (high - low) // 3
        if time(lower) <= time(upper):
            high = upper
        else:
            low = lower
    return min(range(low, high + 1), key=time)


NEIGHBOURS = 1
"""Circuits before the first step."""

ROUNDS = 100


def steps_of(problem: SwitchedCollective) -> tuple[tuple[int, float], ...]:
    """Distance (negative: partners by exclusive or) and bytes of every step."""
    n, size = problem.ranks, problem.vector_bytes
    if problem.collective == "ring":
        return ((1, size / n / 2.0),) * (2 * (n - 1))
    if problem.collective == "all-to-all":
        return tuple((s, size / n) for s in range(1, n // 2 + 1))
    halves = [(-(1 << k), size / 2 ** (k + 1)) for k in range(n.bit_length() - 1)]
    return (*halves, *reversed(halves))


def hops(distance: int, circuits: int, ranks: int) -> float:
    """Transfers of a step that share the fullest circuit, for circuits of a distance; infinite: they do not reach."""
    if distance < 0:
        if circuits < 0:
            return 1.0 if circuits == distance else math.inf
        half = 2 if -2 * distance == ranks else 1  # to the other side bytes go half by each way
        return -distance / half if circuits == NEIGHBOURS else math.inf
    if circuits < 0:
        return math.inf
    common = math.gcd(circuits, ranks)
    if distance % common:
        return math.inf
    ring = ranks // common
    times = distance // common * pow(circuits // common, -1, ring) % ring if ring > 1 else 0
    return float(min(times, ring - times))


def step_time_s(problem: SwitchedCollective, distance: int, size: float, circuits: int) -> float:
    """Seconds of a step: partners have all ports, others half to either side."""
    lanes = problem.ports if distance < 0 and circuits == distance else problem.ports / 2.0
    if distance > 0 and 2 * distance == problem.ranks:
        size /= 2.0  # both sides are the same rank
    return problem.step_s + size * hops(distance, circuits, problem.ranks) / (lanes * problem.bytes_per_s)


def least_time(problem: SwitchedCollective, delay_s: float) -> CircuitSchedule:
    steps = steps_of(problem)
    states = sorted({NEIGHBOURS, *(distance for distance, _ in steps)}, key=lambda state: (state < 0, abs(state)))
    costs = np.array([[step_time_s(problem, *step, state) for state in states] for step in steps])
    start = states.index(NEIGHBOURS)
    never = float(costs[:, start].sum())
    own = [states.index(distance) for distance, _ in steps]
    sets = sum(a != b for a, b in zip([start, *own], own, strict=False))
    every = float(costs[np.arange(len(steps)), own].sum()) + sets * delay_s
    chosen, time_s = _fastest(costs, start, delay_s)
    circuits = tuple(states[state] for state in chosen)
    return CircuitSchedule(delay_s, steps, circuits, time_s, never, every, _break_even(costs, start, never))


def _fastest(costs: Floats, start: int, delay_s: float) -> tuple[list[int], float]:
    value = np.full(costs.shape[1], delay_s)
    value[start] = 0.0
    came = []
    for row in costs:
        least = int(value.argmin())
        moved = value[least] + delay_s < value
        came.append(np.where(moved, least, np.arange(len(value))))
        value = row + np.where(moved, value[least] + delay_s, value)
    at = int(value.argmin())
    total, chosen = float(value[at]), []
    for back in reversed(came):
        chosen.append(at)
        at = int(back[at])
    return chosen[::-1], total


def _break_even(costs: Floats, start: int, never: float) -> float:
    """The delay up to which setting pays."""
    delay = 0.0
    for _ in range(ROUNDS):
        chosen, _ = _fastest(costs, start, delay)
        sets = sum(a != b for a, b in zip([start, *chosen], chosen, strict=False))
        moving = float(costs[np.arange(len(costs)), chosen].sum())
        if sets == 0 or (never - moving) / sets <= delay * (1 + 1e-12):
            return delay
        delay = (never - moving) / sets
    return delay
