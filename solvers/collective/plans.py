"""Schedules for a problem, by family; reductions on the transposed network, turned round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd

import numpy as np

from solvers.collective.all_to_all import all_to_all_rate
from solvers.collective.allreduce import allreduce_rate
from solvers.collective.breadth_first import step_loads
from solvers.collective.breadth_first_schedule import breadth_first_schedule
from solvers.collective.direct import all_at_once, natural_rings, ring_gather
from solvers.collective.forest import TreePacking, best_scale, fixed_scale, forest, scaled
from solvers.collective.max_flow import FlowNetwork
from solvers.collective.path_flows import path_schedule
from solvers.collective.ratio import ratio_cut
from solvers.collective.schedules import backward, of_forest, of_two_forests, one_after_other
from solvers.collective.time_expanded import MOST_COLUMNS, columns, stepped_schedule
from solvers.collective.timing import MOST_PIECES, best_pieces, pipelined_us, step_loads_us
from solvers.collective.unequal_roots import rooted_trees
from solvers.stop import Stop
from topoopt.core.collective import CollectiveObjective, CollectiveOp, CollectiveProblem, CollectiveSchedule
from topoopt.core.errors import InfeasibleError
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.verdict import StopReason

MOST_TREES = 32
"""Trees of a root that are packed where no number is asked for; more make files and schedules of no use."""

FEW_PIECES = 16
"""Most pieces where latencies do not count."""

MOST_SENDS = 400_000
"""Messages of a schedule that a division into pieces may come to."""


@dataclass(frozen=True, eq=False)
class PlannedSchedule:
    """A schedule, and why its making ended."""

    schedule: CollectiveSchedule
    stopped_by: StopReason = StopReason.CONVERGED


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


def by_breadth(problem: CollectiveProblem, stop: Stop) -> PlannedSchedule | None:
    """Balanced breadth-first broadcasts (fewest steps), on networks without switches."""
    if problem.network.is_switch.any() or problem.collective not in GATHERS:
        return None
    schedule = gathered(problem, lambda network: breadth_first_schedule(network, step_loads(network)))
    return None if schedule is None else PlannedSchedule(schedule)


def by_rings(problem: CollectiveProblem, stop: Stop) -> PlannedSchedule | None:
    """Rings, each with an equal part."""
    if problem.collective not in GATHERS:
        return None
    schedule = gathered(problem, lambda network: ring_gather(network, natural_rings(network)))
    return None if schedule is None else PlannedSchedule(schedule)


def at_once(problem: CollectiveProblem, stop: Stop) -> PlannedSchedule | None:
    """Every rank to every other in one step, where switches join them all."""
    if problem.collective not in GATHERS:
        return None
    schedule = gathered(problem, all_at_once)
    return None if schedule is None else PlannedSchedule(schedule)


def by_trees(problem: CollectiveProblem, stop: Stop) -> PlannedSchedule | None:
    """Trees that reach the best rate, or as near as the number of trees asked for allows, in pieces."""
    if problem.collective is CollectiveOp.ALL_TO_ALL:
        return None
    whole = _trees(problem, stop)
    pieces = _pieces(problem, whole(1))
    return PlannedSchedule(whole(pieces))


def _trees(problem: CollectiveProblem, stop: Stop) -> Callable[[int], CollectiveSchedule]:
    """What makes the schedule from a number of pieces."""
    network, wanted = problem.network, problem.collective
    reverse = network.transposed()
    if wanted in (CollectiveOp.BROADCAST, CollectiveOp.REDUCE):
        root = int(network.ranks[problem.root])
        own = rooted_forest(network if wanted is CollectiveOp.BROADCAST else reverse, root, problem.trees_per_root)
        return lambda pieces: (
            of_forest(own, pieces) if wanted is CollectiveOp.BROADCAST else backward(of_forest(own, pieces))
        )
    if wanted is CollectiveOp.ALLREDUCE and not network.is_switch.any() and problem.trees_per_root is None:
        cut = ratio_cut(network)
        equal = Fraction(len(network.ranks)) / (2 * cut.ratio)
        rate = allreduce_rate(network, cut, stop)
        if rate.units > float(equal) * (1 + 1e-9):
            trees = rooted_trees(network, rate)
            if trees is not None and trees.units > equal:
                return lambda pieces: of_two_forests(trees.reductions, trees.broadcasts, pieces)
    if wanted is CollectiveOp.ALLGATHER:
        down = gather_forest(network, problem.trees_per_root)
        return lambda pieces: of_forest(down, pieces)
    up = gather_forest(reverse, problem.trees_per_root)
    if wanted is CollectiveOp.REDUCE_SCATTER:
        return lambda pieces: backward(of_forest(up, pieces))
    count = next(iter(up.trees.values()))
    both = gather_forest(network, count)
    return lambda pieces: of_two_forests(up, both, pieces)


def gather_forest(network: RatedNetwork, trees_per_root: int | None) -> TreePacking:
    """Equally many trees from every rank."""
    if trees_per_root is None:
        best, per_tree = best_scale(network, ratio_cut(network).ratio)
        if best > MOST_TREES:
            best, per_tree = _best_below(network)
    else:
        best, per_tree = trees_per_root, fixed_scale(network, trees_per_root)
    return forest(network, scaled(network, per_tree), dict.fromkeys(network.ranks.tolist(), best))


def _best_below(network: RatedNetwork) -> tuple[int, Fraction]:
    """The number of trees, few of them, that reaches most."""
    tried = [(count, fixed_scale(network, count)) for count in (1, 2, 3, 4, 6, 8)]
    return max(tried, key=lambda one: (one[0] * one[1], -one[0]))


def rooted_forest(network: RatedNetwork, root: int, trees: int | None) -> TreePacking:
    """Trees from one root: as many as the least flow from it to another rank, in its largest whole parts."""
    flow = FlowNetwork(network.nodes, network.arcs[:, 0], network.arcs[:, 1], network.units)
    least = min(flow.value(root, rank) for rank in network.ranks.tolist() if rank != root)
    if least == 0:
        raise ValueError(f"{network.names[root]} does not reach every rank")
    per_tree = Fraction(gcd(least, *network.units.tolist())) if trees is None else Fraction(least, trees)
    count = int(least / per_tree)
    return forest(network, scaled(network, per_tree), {rank: count * (rank == root) for rank in network.ranks.tolist()})


def by_paths(problem: CollectiveProblem, stop: Stop) -> PlannedSchedule | None:
    """An All-to-All over the paths of the best rate, in pieces."""
    if problem.collective is not CollectiveOp.ALL_TO_ALL:
        return None
    rate = all_to_all_rate(problem.network, stop, relaying=problem.relaying)
    if rate.units <= 0:
        raise InfeasibleError("some ranks reach each other only through others, which do not relay")
    pieces = _pieces(problem, path_schedule(problem.network, rate, 1))
    return PlannedSchedule(path_schedule(problem.network, rate, pieces), rate.stopped_by)


def _pieces(problem: CollectiveProblem, whole: CollectiveSchedule) -> int:
    """Into how many pieces the blocks of a schedule are best divided."""
    most = max(min(MOST_PIECES, MOST_SENDS // max(len(whole.sends), 1)), 1)
    if problem.objective is CollectiveObjective.LATENCY:
        return 1
    if problem.objective is CollectiveObjective.THROUGHPUT:  # the same whatever the pieces
        most = min(most, FEW_PIECES)
    if problem.steps is not None:
        most = min(most, max(problem.steps - whole.steps + 1, 1))
    loads, latency = step_loads_us(problem, whole)
    return best_pieces(lambda pieces: pipelined_us(loads, latency, pieces), most)


def by_program(problem: CollectiveProblem, stop: Stop) -> PlannedSchedule | None:
    """Mixed-integer programs, one a number of steps from the fewest, and of the schedules the best one."""
    network, wanted = problem.network, problem.collective
    if wanted is CollectiveOp.ALL_TO_ALL:
        return None
    root = int(network.ranks[problem.root])
    single = wanted in (CollectiveOp.BROADCAST, CollectiveOp.REDUCE)
    owners = [root] if single else network.ranks.tolist()
    chunks = problem.trees_per_root or 1
    best: tuple[float, PlannedSchedule] | None = None
    for steps in range(1, (problem.steps or network.nodes) + 1):
        if columns(network, len(owners) * chunks, steps) > MOST_COLUMNS or stop.reason() is not None:
            break
        ended: list[StopReason] = []

        def make(own: RatedNetwork, count: int = steps, reasons: list[StopReason] = ended) -> CollectiveSchedule | None:
            found = stepped_schedule(own, sorted(owners * chunks), count, stop, problem.search.seed)
            reasons.append(found.stopped_by)
            return found.schedule

        gather = replace(problem, collective=SINGLE_ROOT.get(wanted, wanted))
        schedule = gathered(gather, make)
        if schedule is None:
            continue
        loads, latency = step_loads_us(problem, schedule)
        time = pipelined_us(loads, latency, 1)
        reason = next((one for one in ended if one is not StopReason.CONVERGED), StopReason.CONVERGED)
        if best is None or time < best[0]:
            best = time, PlannedSchedule(schedule, reason)
        elif steps > best[1].schedule.steps + 1:
            break
        if problem.objective is CollectiveObjective.LATENCY:
            break
    return None if best is None else best[1]


def refined(one: CollectiveSchedule, other: CollectiveSchedule) -> tuple[CollectiveSchedule, CollectiveSchedule]:
    """Both with the blocks that the ends of either make, where the owners stand in the same order."""
    scale = np.lcm(one.blocks.total, other.blocks.total)
    ends = np.union1d(*(np.cumsum(own.blocks.units) * (scale // own.blocks.total) for own in (one, other)))
    return divided(one, ends), divided(other, ends)


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
    parts = replace(
        blocks,
        units=np.diff(ends, prepend=0),
        owner=blocks.owner[inside],
        target=blocks.target[inside],
    )
    return CollectiveSchedule(parts, replace(sends, **fields).sorted(), schedule.routes)


GATHERS = frozenset({CollectiveOp.ALLGATHER, CollectiveOp.REDUCE_SCATTER, CollectiveOp.ALLREDUCE})
SINGLE_ROOT = {CollectiveOp.BROADCAST: CollectiveOp.ALLGATHER, CollectiveOp.REDUCE: CollectiveOp.REDUCE_SCATTER}
