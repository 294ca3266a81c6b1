"""Schedules for a problem, by family; reductions on the transposed network, turned round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from solvers.collective.all_to_all import all_to_all_rate
from solvers.collective.breadth_first import step_loads
from solvers.collective.breadth_first_schedule import breadth_first_schedule
from solvers.collective.combined import gathered
from solvers.collective.direct import fewest_steps, natural_rings, ring_gather
from solvers.collective.path_flows import path_schedule
from solvers.collective.time_expanded import MOST_COLUMNS, columns, stepped_schedule
from solvers.collective.timing import pipelined_us, step_loads_us
from solvers.collective.tree_plans import FEWER_TREES, MOST_RANKS_TRIED, divided_best, tree_schedules
from solvers.stop import Stop
from topoopt.core.collective import CollectiveObjective, CollectiveOp, CollectiveProblem, CollectiveSchedule
from topoopt.core.errors import InfeasibleError
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.verdict import StopReason


@dataclass(frozen=True, eq=False)
class PlannedSchedule:
    """A schedule, and why its making ended."""

    schedule: CollectiveSchedule
    stopped_by: StopReason = StopReason.CONVERGED


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


def by_shortest(problem: CollectiveProblem, stop: Stop) -> PlannedSchedule | None:
    """Whole shards in as few steps as any schedule needs; in one where switches join all ranks."""
    if problem.collective is CollectiveOp.ALL_TO_ALL:
        return None
    root = int(problem.network.ranks[problem.root]) if problem.collective in SINGLE_ROOT else None
    gather = replace(problem, collective=SINGLE_ROOT.get(problem.collective, problem.collective))
    schedule = gathered(gather, lambda network: fewest_steps(network, root))
    return None if schedule is None else PlannedSchedule(schedule)


def by_trees(problem: CollectiveProblem, stop: Stop) -> PlannedSchedule | None:
    """Trees that reach the best rate, or as near as the number of trees asked for allows, in pieces."""
    if problem.collective is CollectiveOp.ALL_TO_ALL:
        return None
    counts = [problem.trees_per_root]
    if counts == [None] and problem.objective is not CollectiveObjective.THROUGHPUT:
        counts += FEWER_TREES if len(problem.network.ranks) <= MOST_RANKS_TRIED else ()
    best: tuple[tuple[bool, float], int, Callable[[int], CollectiveSchedule]] | None = None
    for count in counts:
        if best is not None and stop.reason() is not None:
            break
        schedule_of = tree_schedules(replace(problem, trees_per_root=count), stop)
        whole = schedule_of(1)
        pieces, value = divided_best(problem, whole)
        own = (problem.steps is not None and whole.steps > problem.steps, value)
        if best is None or own < best[0]:
            best = own, pieces, schedule_of
    assert best is not None
    return PlannedSchedule(best[2](best[1]))


def by_paths(problem: CollectiveProblem, stop: Stop) -> PlannedSchedule | None:
    """An All-to-All over the paths of the best rate, in pieces."""
    if problem.collective is not CollectiveOp.ALL_TO_ALL:
        return None
    rate = all_to_all_rate(problem.network, stop, relaying=problem.relaying)
    if rate.units <= 0:
        raise InfeasibleError("some ranks reach each other only through others, which do not relay")
    pieces, _ = divided_best(problem, path_schedule(problem.network, rate, 1))
    return PlannedSchedule(path_schedule(problem.network, rate, pieces), rate.stopped_by)


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


GATHERS = frozenset({CollectiveOp.ALLGATHER, CollectiveOp.REDUCE_SCATTER, CollectiveOp.ALLREDUCE})
SINGLE_ROOT = {CollectiveOp.BROADCAST: CollectiveOp.ALLGATHER, CollectiveOp.REDUCE: CollectiveOp.REDUCE_SCATTER}
