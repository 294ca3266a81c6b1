"""When the steps of a job begin and end over given circuits, followed change by change."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from topoopt.core.dag_topology import DagTopologyProblem

ROUNDING = 1e-12
"""Part of the largest volume on a channel that is nothing."""


def follow(problem: DagTopologyProblem, counts: Sequence[int]) -> tuple[list[float], list[float]]:
    """(start, end) of all steps; each begins once what it waits for has ended.

    Transfers of one direction of a pair that are under way together get equal parts of its circuits. Between two
    changes on such a channel what is left of each shrinks evenly; one change is looked at at a time.

    Args:
        counts: circuits of each pair, in ascending order of pairs.
    """
    after, transfers = problem.after, problem.transfers
    waits = [len(each) for each in after]
    later: list[list[int]] = [[] for _ in after]
    for step, each in enumerate(after):
        for before in each:
            later[before].append(step)
    rates = dict(zip(problem.pairs, (count * problem.rate for count in counts), strict=True))
    start, end = [0.0] * len(after), [0.0] * len(after)
    left: dict[tuple[int, int], dict[int, float]] = {}
    since: dict[tuple[int, int], float] = {}
    tasks: list[tuple[float, int]] = []
    ready = [step for step, count in enumerate(waits) if not count]
    now = 0.0

    def catch_up(channel: tuple[int, int]) -> None:
        flows = left.get(channel)
        if flows:
            moved = (now - since[channel]) * rates[min(channel), max(channel)] / len(flows)
            for step in flows:
                flows[step] -= moved
        since[channel] = now

    def next_end(channel: tuple[int, int]) -> float:
        flows = left[channel]
        rate = rates[min(channel), max(channel)]
        return since[channel] + max(min(flows.values()), 0.0) * len(flows) / rate if flows else math.inf

    while True:
        for step in ready:
            start[step] = now
            if step < len(transfers):
                move = transfers[step]
                catch_up((move.source, move.target))
                left.setdefault((move.source, move.target), {})[step] = move.volume
            else:
                heapq.heappush(tasks, (now + problem.tasks[step - len(transfers)].duration, step))
        ready = []
        channel = min((each for each in left if left[each]), key=next_end, default=None)
        over = next_end(channel) if channel is not None else math.inf
        ended: list[int] = []
        if tasks and tasks[0][0] <= over:
            now, step = heapq.heappop(tasks)
            ended = [step]
        elif channel is not None:
            flows = left[channel]
            first = min(flows, key=flows.__getitem__)
            now = over
            catch_up(channel)
            noise = ROUNDING * max(transfers[step].volume for step in flows)
            ended = [step for step, rest in flows.items() if step == first or rest <= noise]
            for step in ended:
                del flows[step]
        else:
            return start, end
        for step in ended:
            end[step] = now
            for one in later[step]:
                waits[one] -= 1
                if not waits[one]:
                    ready.append(one)


def without_transfers(problem: DagTopologyProblem) -> float:
    """When the job is done if transfers take no time: steps settle once all that they wait for have."""
    after, transfers = problem.after, len(problem.transfers)
    later: list[list[int]] = [[] for _ in after]
    for step, each in enumerate(after):
        for before in each:
            later[before].append(step)
    waits = [len(each) for each in after]
    end = [0.0] * len(after)
    ready = [step for step, count in enumerate(waits) if not count]
    while ready:
        step = ready.pop()
        if step >= transfers:
            end[step] += problem.tasks[step - transfers].duration
        for one in later[step]:
            end[one] = max(end[one], end[step])
            waits[one] -= 1
            if not waits[one]:
                ready.append(one)
    return max(end)
