"""Schedules for a problem, by family; reductions on the transposed network, turned round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from solvers.collective.all_to_all import all_to_all_rate
from solvers.collective.breadth_first import step_loads
from solvers.collective.breadth_first_schedule import breadth_first_schedule
from solvers.collective.combined import gathered
from solvers.collective.direct import fewest_steps, natural_rings, ring_gather
from solvers.collective.max_flow import TreesDoNotFitError
from solvers.collective.path_flows import path_schedule, straight_gather
from solvers.collective.time_expanded import MOST_COLUMNS, columns, stepped_schedule
from solvers.collective.timing import pipelined_us, step_loads_us
from solvers.collective.tree_plans import FEWER_TREES, MOST_RANKS_TRIED, tree_schedules
from solvers.stop import Stop
from topoopt.core.collective import CollectiveObjective, CollectiveOp, CollectiveProblem, CollectiveSchedule
from topoopt.core.errors import InfeasibleError
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.verdict import StopReason


@dataclass(frozen=True, eq=False)
class PlannedSchedule:
    """A schedule, and why its making ended.

    Attributes:
        schedule: with whole blocks.
        divide: makes it with every block in so many pieces, a step behind each other; None where it cannot be divided.
        stopped_by: why its making ended.
    """

    schedule: CollectiveSchedule
    divide: Callable[[int], CollectiveSchedule] | None = None
    stopped_by: StopReason = StopReason.CONVERGED

    def pieces(self, count: int) -> CollectiveSchedule:
        """The schedule in so many pieces."""
        return self.schedule if self.divide is None or count == 1 else self.divide(count)


Plans = Iterator[PlannedSchedule]


def by_breadth(problem: CollectiveProblem, stop: Stop) -> Plans:
    """Balanced breadth-first broadcasts (fewest steps), on networks without switches."""
    if not problem.relaying or problem.network.is_switch.any() or problem.collective not in GATHERS:
        return
    schedule = gathered(problem, lambda network: breadth_first_schedule(network, step_loads(network)))
    if schedule is not None:
        yield PlannedSchedule(schedule)


def by_rings(problem: CollectiveProblem, stop: Stop) -> Plans:
    """Rings, each with an equal part."""
    if not problem.relaying or problem.collective not in GATHERS:
        return
    schedule = gathered(problem, lambda network: ring_gather(network, natural_rings(network)))
    if schedule is not None:
        yield PlannedSchedule(schedule)


def by_shortest(problem: CollectiveProblem, stop: Stop) -> Plans:
    """Whole shards in as few steps as any schedule needs; in one where switches join all ranks."""
    if not problem.relaying or problem.collective is CollectiveOp.ALL_TO_ALL:
        return

    def make(own: RatedNetwork) -> CollectiveSchedule:
        return fewest_steps(own, only_root(problem), multicast=problem.multicast and own is problem.network)

    schedule = gathered(single(problem), make)
    if schedule is not None:
        yield PlannedSchedule(schedule)


def by_trees(problem: CollectiveProblem, stop: Stop) -> Plans:
    """Trees that reach the best rate, or as near as the number of trees asked for allows; fewer ones besides."""
    if not problem.relaying or problem.collective is CollectiveOp.ALL_TO_ALL:
        return
    counts = [problem.trees_per_root]
    if counts == [None] and problem.objective is not CollectiveObjective.THROUGHPUT:
        counts += FEWER_TREES if len(problem.network.ranks) <= MOST_RANKS_TRIED else ()
    for place, count in enumerate(counts):
        if place and stop.reason() is not None:
            return
        try:
            divide = tree_schedules(replace(problem, trees_per_root=count), stop)
        except TreesDoNotFitError:  # rates rounded down to whole trees can leave switches out of balance
            continue
        yield PlannedSchedule(divide(1), divide)


def by_paths(problem: CollectiveProblem, stop: Stop) -> Plans:
    """An All-to-All over the paths of the best rate; where ranks do not relay, anything straight from rank to rank."""
    network, wanted = problem.network, problem.collective
    if problem.relaying and wanted is not CollectiveOp.ALL_TO_ALL:
        return
    forward = network.transposed() if wanted is CollectiveOp.REDUCE else network
    rate = all_to_all_rate(forward, stop, relaying=problem.relaying, source=only_root(problem))
    if rate.units <= 0:
        raise InfeasibleError("some ranks reach each other only through others, which do not relay")
    if wanted is CollectiveOp.ALL_TO_ALL:
        divide = partial(path_schedule, network, rate)
        yield PlannedSchedule(divide(1), divide, rate.stopped_by)
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
    if not problem.relaying or problem.collective is CollectiveOp.ALL_TO_ALL:
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
            found = stepped_schedule(own, sorted(owners * chunks), count, stop, problem.search.seed, multicast=copies)
            reasons.append(found.stopped_by)
            return found.schedule

        schedule = gathered(single(problem), make)
        if schedule is None:
            continue
        time = pipelined_us(*step_loads_us(problem, schedule), 1)
        if best is None or time < best[0]:
            best = time, schedule.steps
        elif steps > best[1] + 1:
            return
        reason = next((one for one in ended if one is not StopReason.CONVERGED), StopReason.CONVERGED)
        yield PlannedSchedule(schedule, stopped_by=reason)
        if problem.objective is CollectiveObjective.LATENCY:
            return


GATHERS = frozenset({CollectiveOp.ALLGATHER, CollectiveOp.REDUCE_SCATTER, CollectiveOp.ALLREDUCE})
SINGLE_ROOT = {CollectiveOp.BROADCAST: CollectiveOp.ALLGATHER, CollectiveOp.REDUCE: CollectiveOp.REDUCE_SCATTER}


def single(problem: CollectiveProblem) -> CollectiveProblem:
    """The problem with a broadcast or reduction as a gather or scatter of one block."""
    return replace(problem, collective=SINGLE_ROOT.get(problem.collective, problem.collective))


def only_root(problem: CollectiveProblem) -> int | None:
    """The node of the root of a broadcast or reduction."""
    return int(problem.network.ranks[problem.root]) if problem.collective in SINGLE_ROOT else None
