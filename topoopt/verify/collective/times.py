"""How long schedules take: step by step, without barriers, and what the fullest link needs for its bytes."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.collective import CollectiveOp, CollectiveProblem, CollectiveSchedule
from topoopt.core.leaving import end_if_left
from topoopt.verify.collective.execute import StepTraffic


def us_per_unit(problem: CollectiveProblem, schedule: CollectiveSchedule) -> Floats:
    """float64[m], us of a unit of the blocks on each arc; in an All-to-All every rank has a vector of its own."""
    vectors = len(problem.network.ranks) if problem.collective is CollectiveOp.ALL_TO_ALL else 1
    moved = vectors * problem.vector_bytes / schedule.blocks.total
    return np.asarray(moved / (problem.network.gbytes_per_s * 1e3), dtype=np.float64)


def step_time_us(problem: CollectiveProblem, schedule: CollectiveSchedule, traffic: StepTraffic) -> float:
    """All steps one after the other: of each the slowest message's latency and the bytes of its fullest link."""
    fullest = (traffic.units * us_per_unit(problem, schedule)).max(axis=1, initial=0.0)
    return float((fullest + traffic.latency_us + problem.message_us).sum())


def busy_us(problem: CollectiveProblem, schedule: CollectiveSchedule, traffic: StepTraffic) -> float:
    """Bytes of all steps over the rate, of the link where that is most."""
    return float((traffic.units.sum(axis=0) * us_per_unit(problem, schedule)).max(initial=0.0))


def makespan_us(problem: CollectiveProblem, schedule: CollectiveSchedule, arcs: list[Ints]) -> float:
    """When the last message arrives without barriers.

    Messages take their turn on every link in the order of the schedule. One leaves when its block is there: what an
    owner sends, and what is summed, when all has come that is added there; any other copy when the first copy has come.
    Switches pass on while they receive; latencies are added at the end. Where they copy, what a rank sends several
    others in a step passes a link of their ways once.
    """
    sends, owner = schedule.sends, schedule.blocks.owner.tolist()
    lasts = us_per_unit(problem, schedule).tolist()
    units = schedule.blocks.units.tolist()
    ways = [own.tolist() for own in arcs]
    slow = [problem.message_us + float(problem.network.latency_us[own].sum()) for own in arcs]
    free = [0.0] * len(lasts)
    summed: dict[tuple[int, int], float] = {}
    copied: dict[tuple[int, int], float] = {}
    end = 0.0
    passed: dict[tuple[int, int, int, int], tuple[float, float]] = {}
    rows = (sends.block, sends.tail, sends.head, sends.reduce, sends.route, sends.step)
    for block, tail, head, adds, route, step in zip(*(row.tolist() for row in rows), strict=True):
        end_if_left()
        known = summed if adds or tail == owner[block] else copied
        leave = known.get((block, tail), 0.0)
        sent = leave
        for arc in ways[route]:
            same = (step, block, tail, arc)
            if problem.multicast and same in passed:
                leave, last = passed[same]
            else:
                leave = max(leave, free[arc])
                last = free[arc] = leave + units[block] * lasts[arc]
                if problem.multicast:
                    passed[same] = leave, last
            sent = max(sent, last)
        arrival = sent + slow[route]
        end = max(end, arrival)
        there = (block, head)
        if adds:
            summed[there] = max(summed.get(there, 0.0), arrival)
        else:
            copied[there] = min(copied.get(there, arrival), arrival)
    return end
