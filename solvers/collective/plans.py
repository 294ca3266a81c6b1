"""Every family of schedules (breadth-first, trees, rings, paths, small mixed-integer programs) plans a collective
problem.

Messages of ranks to ranks over paths: the flow of every rank taken apart, in whole parts, and sent step by step.

An All-to-All along shortest paths splits its traffic so that the fullest link carries little.

Schedules for a problem, by family: breadth-first, shortest, trees, rings, paths, and small mixed-integer
programs.

Reductions are made on the transposed network and turned round.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd

import numpy as np

from formulations.flow_routing import step_schedule_arrays
from solvers.backends import SOLVERS, SolverLimits
from solvers.collective.best_rates import FAR, best_rate, few_pairs
from solvers.collective.breadth_first import breadth_first_schedule, step_loads
from solvers.collective.limits import AllToAllRate, TreesDoNotFitError, all_to_all_rate, descended_rate, rank_cuts
from solvers.collective.schedules import (
    Row,
    fewest_steps,
    gathered,
    in_pieces,
    natural_rings,
    of_forest,
    of_rows,
    pipelined_us,
    ring_gather,
    step_loads_us,
)
from solvers.collective.trees import Forest, fixed_scale, forest, scaled
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Int32s, Ints, whole_shares
from topoopt.core.collective import (
    CollectiveOp,
    CollectiveProblem,
    CollectiveSchedule,
    Path,
    Sends,
    VectorBlocks,
    lengths_certificate,
)
from topoopt.core.errors import InfeasibleError
from topoopt.core.proofs import StopReason
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.result import Certificate
from topoopt.native import graph

ROUNDS = 40
EAGERNESS = 0.5
"""How far the weight of a link falls with its load, at first."""


def shortest_path_rate(network: RatedNetwork, distance: Int32s, generators: Ints | None = None) -> float:
    """Rate of every ordered pair that shortest paths allow, in units of the network: All-to-All attains it.

    Splits are improved over some rounds: a link that is fuller than the mean gets less weight.

    Args:
        network: without switches.
        distance: int32[n, n], hops from row to column; with `generators` the first row does.
        generators: int64[m], of a Cayley digraph: number of the generator of each arc. All links of a generator carry
            the same then, and one source tells how much.
    """
    n = network.nodes
    into = np.lexsort((network.arcs[:, 0], network.arcs[:, 1]))
    first = np.searchsorted(network.arcs[into, 1], np.arange(n + 1))
    tails = network.arcs[into, 0].astype(np.int64)
    units = network.units[into].astype(np.float64)
    label = np.arange(len(into), dtype=np.int64)
    rows = distance
    if generators is not None:
        label, rows = generators[into], distance[:1]
        units = np.bincount(label, units) / np.bincount(label)
    rows = np.ascontiguousarray(rows, dtype=np.int32)
    order = np.argsort(rows, axis=1, kind="stable")
    weight, best = units.copy(), np.inf
    for attempt in range(ROUNDS):
        use = graph.shortest_path_loads(rows, order, first, tails, label, weight) / units
        best = min(best, float(use.max()))
        mean = float(use.mean())
        if best <= mean * (1 + 1e-9):
            break
        weight = weight * np.exp(-EAGERNESS / (1 + attempt / 8) * (use / mean - 1))
    return 1.0 / best


PARTS = 5040
"""Parts of what a rank sends another, in which its paths share it; most optima are in such parts exactly."""

TOLERANCE = 1e-9
"""Part of the rate below which a flow is rounding."""


def paths_of(network: RatedNetwork, source: int, flow: Floats, rate: float) -> dict[int, list[tuple[Path, float]]]:
    """Paths from a rank to every other, with the rate over each; shortest first. Cycles are left out.

    What comes to a node is divided over the arcs out of it, from the source on, in pieces that have a path each.

    Args:
        flow: float64[m], what the rank sends on each arc.
        rate: due at every other rank.
    """
    least, out = TOLERANCE * rate, dict[int, dict[int, float]]()
    for arc in np.flatnonzero(flow > least).tolist():
        tail, head = network.arcs[arc].tolist()
        out.setdefault(tail, {})[head] = float(flow[arc])
    pieces: dict[int, list[tuple[Path, float]]] = {source: [((source,), math.inf)]}
    paths: dict[int, list[tuple[Path, float]]] = {rank: [] for rank in network.ranks.tolist() if rank != source}
    for node in _without_cycles(out, least):
        own = sorted(pieces.pop(node, ()), key=lambda piece: -len(piece[0]))
        if node in paths:
            paths[node] = _taken(own, rate, least)
        for head, amount in sorted(out.get(node, {}).items(), key=lambda arc: (-arc[1], arc[0])):
            onward = (((*path, head), some) for path, some in _taken(own, amount, least))
            pieces.setdefault(head, []).extend(onward)
    return paths


def _taken(pieces: list[tuple[Path, float]], amount: float, least: float) -> list[tuple[Path, float]]:
    """Take so much from the end of a list."""
    taken = []
    while pieces and amount > least:
        path, some = pieces.pop()
        part = min(some, amount)
        taken.append((path, part))
        amount -= part
        if some - part > least:
            pieces.append((path, some - part))
    return taken


def _without_cycles(out: dict[int, dict[int, float]], least: float) -> list[int]:
    """Take the cycles out of a flow, and return its nodes, tails before heads."""
    ended: dict[int, None] = {}
    for start in sorted(out):
        along = [] if start in ended else [start]
        while along:
            node = along[-1]
            head = next((head for head in out.get(node, ()) if head not in ended), None)
            if head is None:
                ended[along.pop()] = None
            elif head not in along:
                along.append(head)
            else:
                cycle = along[along.index(head) :]
                hops = [*itertools.pairwise(cycle), (node, head)]
                fewest = min(out[tail][end] for tail, end in hops)
                for tail, end in hops:
                    out[tail][end] -= fewest
                    if out[tail][end] <= least:
                        del out[tail][end]
                del along[len(along) - len(cycle) + 1 :]
    return list(ended)[::-1]


def path_schedule(network: RatedNetwork, rate: AllToAllRate) -> CollectiveSchedule:
    """Blocks for every ordered pair; those of a rank to itself stay.

    A path is cut at the ranks on it: what passes through switches alone is one message.
    """
    units: list[int] = []
    owner: list[int] = []
    target: list[int] = []
    rows: list[tuple[int, int, int, int, int]] = []
    routes: dict[Path, int] = {}
    for index, source in enumerate(network.ranks.tolist()):
        paths = paths_of(network, source, rate.flow[index], rate.units)
        for other in network.ranks.tolist():
            weighted = paths.get(other) or [((source,), 1.0)]
            for (path, _), share in zip(weighted, whole_shares((amount for _, amount in weighted), PARTS), strict=True):
                if share == 0:
                    continue
                stops = [index for index, node in enumerate(path) if not network.is_switch[node]]
                messages = [path[begin : end + 1] for begin, end in itertools.pairwise(stops)]
                rows += [
                    (len(units), message[0], message[-1], step, routes.setdefault(message, len(routes)))
                    for step, message in enumerate(messages)
                ]
                units.append(share)
                owner.append(source)
                target.append(other)
    block, tail, head, step, route = np.array(rows, dtype=np.int32).reshape(-1, 5).T
    blocks = VectorBlocks(np.array(units), np.array(owner, dtype=np.int32), np.array(target, dtype=np.int32))
    sends = Sends(block, tail, head, step, np.zeros(len(block), dtype=np.bool_), route)
    return CollectiveSchedule(blocks, sends.sorted(), tuple(routes))


def straight_gather(network: RatedNetwork, rate: AllToAllRate, root: int | None = None) -> CollectiveSchedule:
    """An AllGather in one step in which every rank sends its shard straight to every other; from a root, a broadcast.

    Shards are cut where the paths to some rank share them, so that every block goes one way to each.

    Args:
        rate: of an All-to-All in which ranks do not relay, of the root alone if there is one.
    """
    sources = network.ranks.tolist() if root is None else [root]
    units: list[int] = []
    owner: list[int] = []
    rows: list[Row] = []
    routes: dict[Path, int] = {}
    for index, source in enumerate(sources):
        paths = paths_of(network, source, rate.flow[index], rate.units)
        ends: dict[int, list[tuple[int, Path]]] = {}
        for target, weighted in paths.items():
            shares = np.cumsum(whole_shares((amount for _, amount in weighted), PARTS)).tolist()
            ends[target] = list(zip(shares, (path for path, _ in weighted), strict=True))
        cuts = sorted({end for own in ends.values() for end, _ in own} - {0})
        for low, high in zip([0, *cuts[:-1]], cuts, strict=True):
            for target, own in ends.items():
                path = next(path for end, path in own if low < end)
                rows.append((len(units), source, target, 0, routes.setdefault(path, len(routes)), False))
            units.append(high - low)
            owner.append(source)
    return of_rows(units, owner, rows, tuple(routes))


MOST_RANKS_TRIED = 32
"""Ranks up to which few whole trees are tried beside those of the best rate, as they are less high."""


def tree_schedule(problem: CollectiveProblem, count: int | None) -> CollectiveSchedule:
    """Return the schedule of so many whole trees of every root, or of the root of a broadcast or reduction.

    Raises:
        TreesDoNotFitError: rates rounded down to whole trees do not carry them.
    """
    root = only_root(problem)

    def make(network: RatedNetwork) -> CollectiveSchedule:
        if root is not None:
            return of_forest(rooted_forest(network, root, count))
        assert count is not None
        trees = dict.fromkeys(network.ranks.tolist(), count)
        return of_forest(forest(network, scaled(network, fixed_scale(network, trees)), trees))

    schedule = gathered(single(problem), make)
    assert schedule is not None
    return schedule


def rooted_forest(network: RatedNetwork, root: int, trees: int | None) -> Forest:
    """Trees from one root: as many as the least flow from it to another rank, in its largest whole parts."""
    others = network.ranks[network.ranks != root]
    sent = np.array([int(network.units.sum()) + 1])
    value, _ = rank_cuts(network.nodes, network.arcs, network.units, np.array([root]), sent, others)
    least = int(value.min())
    if least == 0:
        raise ValueError(f"{network.names[root]} does not reach every rank")
    shared = gcd(least, *network.units.tolist())
    roots = {rank: (trees or least // shared) * (rank == root) for rank in network.ranks.tolist()}
    per_tree = Fraction(shared) if trees is None else fixed_scale(network, roots)
    return forest(network, scaled(network, per_tree), roots)


MOST_COLUMNS = 40_000
"""Variables up to which a program is solved."""


def columns(network: RatedNetwork, owners: int, steps: int) -> int:
    return owners * (len(network.arcs) * steps + network.nodes * (steps + 1)) + steps


def stepped_schedule(
    network: RatedNetwork, owners: list[int], steps: int, stop: Stop, seed: int, *, multicast: bool = False
) -> tuple[CollectiveSchedule | None, StopReason]:
    """Solve for so many steps; one chunk an entry of `owners`; with `multicast` switches copy.

    Returns:
        An AllGather or a broadcast, None if none was found; and why the solver stopped: CONVERGED where nothing better
        exists in so many steps and chunks, by its word.
    """
    rate = network.units / float(network.units.max())
    program, sent_columns, _ = step_schedule_arrays(network, np.array(owners), rate, steps, multicast=multicast)
    result = SOLVERS["highs"](program, SolverLimits(time_s=stop.remaining_s(), seed=seed))
    if result.raw_x is None:
        return None, result.stopped_by
    sent = np.round(result.raw_x[sent_columns]).astype(np.int64)
    rows: list[Row] = []
    routes: dict[Path, int] = {}
    for chunk, owner in enumerate(owners):
        there = {owner}
        for step in range(steps):
            new: set[int] = set()
            for path in (copied if multicast else messages)(network, sent[chunk, :, step]):
                if path[-1] not in there | new:
                    new.add(path[-1])
                    rows.append((chunk, path[0], path[-1], step, routes.setdefault(path, len(routes)), False))
            there |= new
    return of_rows([1] * len(owners), owners, rows, tuple(routes)), result.stopped_by


def messages(network: RatedNetwork, copies: Ints) -> list[Path]:
    """The ways of one chunk in one step, through switches: copies in and out of a switch are matched as they come."""
    left: dict[int, list[int]] = {}
    for tail, head in np.repeat(network.arcs, copies, axis=0).tolist():
        left.setdefault(tail, []).append(head)
    paths = []
    for rank in network.ranks.tolist():
        while left.get(rank):
            path = [rank, left[rank].pop()]
            while network.is_switch[path[-1]] and left.get(path[-1]):
                path.append(left[path[-1]].pop())
            if not network.is_switch[path[-1]]:
                paths.append(tuple(path))
    return paths


def copied(network: RatedNetwork, copies: Ints) -> list[Path]:
    """The ways of one chunk in one step where switches copy what comes to all links that it leaves over."""
    out: dict[int, list[int]] = {}
    for tail, head in network.arcs[copies > 0].tolist():
        out.setdefault(tail, []).append(head)
    paths: list[Path] = []
    for rank in network.ranks.tolist():
        frontier: list[Path] = [(rank,)]
        seen = {rank}
        for path in frontier:
            if len(path) > 1 and not network.is_switch[path[-1]]:
                paths.append(path)
                continue
            for head in out.get(path[-1], ()):
                if head not in seen:
                    seen.add(head)
                    frontier.append((*path, head))
    return paths


@dataclass(frozen=True, eq=False)
class PlannedSchedule:
    """A schedule, and why its making ended.

    Attributes:
        schedule: with whole blocks.
        divisible: whether blocks may go in pieces, a step behind each other.
        stopped_by: why its making ended.
        certificates: of what limits any schedule, where its making proves that.
    """

    schedule: CollectiveSchedule
    divisible: bool = False
    stopped_by: StopReason = StopReason.CONVERGED
    certificates: tuple[Certificate, ...] = ()

    def pieces(self, count: int) -> CollectiveSchedule:
        return self.schedule if count == 1 else in_pieces(self.schedule, count)


Plans = Iterator[PlannedSchedule]


def by_breadth(problem: CollectiveProblem, stop: Stop) -> Plans:
    """Balanced breadth-first broadcasts (fewest steps), on networks without switches."""
    if not problem.relaying or problem.network.is_switch.any() or problem.collective not in GATHERS or problem.groups:
        return
    schedule = gathered(problem, lambda network: breadth_first_schedule(network, step_loads(network)))
    if schedule is not None:
        yield PlannedSchedule(schedule)


def by_rings(problem: CollectiveProblem, stop: Stop) -> Plans:
    """Rings, each with an equal part."""
    if not problem.relaying or problem.collective not in GATHERS or problem.groups:
        return
    schedule = gathered(problem, lambda network: ring_gather(network, natural_rings(network)))
    if schedule is not None:
        yield PlannedSchedule(schedule)


def by_shortest(problem: CollectiveProblem, stop: Stop) -> Plans:
    """Whole shards in as few steps as any schedule needs; in one where switches join all ranks."""
    if not problem.relaying or problem.collective is CollectiveOp.ALL_TO_ALL or problem.groups:
        return

    def make(own: RatedNetwork) -> CollectiveSchedule:
        return fewest_steps(own, only_root(problem), multicast=problem.multicast and own is problem.network)

    schedule = gathered(single(problem), make)
    if schedule is not None:
        yield PlannedSchedule(schedule)


def by_trees(problem: CollectiveProblem, stop: Stop, *, divided: bool = True) -> Plans:
    """Trees of the best rate, or as near as the number of trees asked for allows; few whole trees besides.

    Args:
        divided: whether a message may be divided over switches alike.
    """
    if not problem.relaying or problem.collective is CollectiveOp.ALL_TO_ALL:
        return
    counts = [problem.trees_per_root]
    if counts == [None] and problem.collective in GATHERS:
        best = best_rate(problem, stop, divided=divided)
        proof = () if problem.multicast else best.certificates
        with contextlib.suppress(TreesDoNotFitError):
            yield PlannedSchedule(best.schedule(), True, best.stopped_by, proof)
        few = len(problem.network.ranks) <= MOST_RANKS_TRIED and not problem.groups
        counts = [1, 2] if few and problem.objective != "throughput" else []
    for count in counts:
        if stop.reason() is not None and problem.collective in GATHERS and problem.trees_per_root is None:
            return
        with contextlib.suppress(TreesDoNotFitError):
            yield PlannedSchedule(tree_schedule(problem, count), True)


def by_paths(problem: CollectiveProblem, stop: Stop) -> Plans:
    """An All-to-All over the paths of the best rate; where ranks do not relay, anything straight from rank to rank."""
    network, wanted = problem.network, problem.collective
    if problem.relaying and wanted is not CollectiveOp.ALL_TO_ALL:
        return
    if problem.relaying and (problem.groups or few_pairs(problem)):
        best = best_rate(problem, stop)
        yield PlannedSchedule(best.schedule(), True, best.stopped_by, best.certificates)
        return
    if problem.relaying:
        rate, bound = descended_rate(network, stop)
        if rate.units > 0:
            yield PlannedSchedule(
                path_schedule(network, rate), True, rate.stopped_by, (lengths_certificate(rate.lengths),)
            )
        if rate.units < bound * (1 - FAR):
            best = best_rate(problem, stop)
            yield PlannedSchedule(best.schedule(), True, best.stopped_by, best.certificates)
        return
    forward = network.transposed() if wanted is CollectiveOp.REDUCE else network
    rate = all_to_all_rate(forward, stop, relaying=problem.relaying, source=only_root(problem))
    if rate.units <= 0:
        raise InfeasibleError("some ranks reach each other only through others, which do not relay")
    if wanted is CollectiveOp.ALL_TO_ALL:
        yield PlannedSchedule(path_schedule(network, rate), True, rate.stopped_by)
        return

    def make(own: RatedNetwork) -> CollectiveSchedule:
        there = own is network or wanted is CollectiveOp.REDUCE
        return straight_gather(own, rate if there else all_to_all_rate(own, stop, relaying=False), only_root(problem))

    schedule = gathered(single(problem), make)
    if schedule is not None:
        yield PlannedSchedule(schedule, stopped_by=rate.stopped_by)


def by_program(problem: CollectiveProblem, stop: Stop) -> Plans:
    """Mixed-integer programs, one a number of steps from the fewest, until more steps make it no better."""
    network = problem.network
    if not problem.relaying or problem.collective is CollectiveOp.ALL_TO_ALL or problem.groups:
        return
    root = only_root(problem)
    owners = network.ranks.tolist() if root is None else [root]
    chunks = problem.trees_per_root or 1
    best: tuple[float, int] | None = None
    for steps in range(1, (problem.steps or network.nodes) + 1):
        if columns(network, len(owners) * chunks, steps) > MOST_COLUMNS or stop.reason() is not None:
            return
        ended: list[StopReason] = []

        def make(own: RatedNetwork, count: int = steps, reasons: list[StopReason] = ended) -> CollectiveSchedule | None:
            copies = problem.multicast and own is network  # what is summed goes the other way: nothing to copy
            owned, seed = sorted(owners * chunks), problem.search.seed
            stepped, reason = stepped_schedule(own, owned, count, stop, seed, multicast=copies)
            reasons.append(reason)
            return stepped

        schedule = gathered(single(problem), make)
        if schedule is None:
            continue
        time = pipelined_us(*step_loads_us(problem, schedule), 1)
        if best is None or time < best[0]:
            best = time, schedule.steps
        elif steps > best[1] + 1:
            return
        reason = next((other for other in ended if other is not StopReason.CONVERGED), StopReason.CONVERGED)
        yield PlannedSchedule(schedule, stopped_by=reason)
        if problem.objective == "latency":
            return


GATHERS = frozenset({CollectiveOp.ALLGATHER, CollectiveOp.REDUCE_SCATTER, CollectiveOp.ALLREDUCE})
SINGLE_ROOT = {CollectiveOp.BROADCAST: CollectiveOp.ALLGATHER, CollectiveOp.REDUCE: CollectiveOp.REDUCE_SCATTER}


def single(problem: CollectiveProblem) -> CollectiveProblem:
    """The problem with a broadcast or reduction as a gather or scatter of one block."""
    return replace(problem, collective=SINGLE_ROOT.get(problem.collective, problem.collective))


def only_root(problem: CollectiveProblem) -> int | None:
    """The node of the root of a broadcast or reduction."""
    return int(problem.network.ranks[problem.root]) if problem.collective in SINGLE_ROOT else None
