"""When the steps of a graph begin and end, transfers of one direction of a pair sharing its circuits equally.

Every channel (a pair in one direction) keeps how much each transfer on it has got since it began to carry, its level: a
transfer that starts at level L is done at level L + volume, whoever else comes and goes. So a change costs a look at
those under way on that channel, and nothing else moves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.simulate.engine.queue import pop, push
from topoopt.simulate.jit import kernel


@dataclass(frozen=True, eq=False)
class StepGraph:
    """The steps of a problem as arrays; transfers come first.

    Attributes:
        first: int64[n + 1]: successors of step i are successor[first[i]:first[i + 1]].
        successor: int64[edges].
        waits: int64[n], predecessors of each step.
        duration: float64[n], of tasks; 0 for transfers.
        volume: float64[transfers].
        channel: int64[transfers]: twice the place of its pair, plus 1 from the larger pod to the smaller.
        order: int64[n], the steps, each after all it waits for.
    """

    first: Ints
    successor: Ints
    waits: Ints
    duration: Floats
    volume: Floats
    channel: Ints
    order: Ints

    @staticmethod
    def of(problem: DagTopologyProblem) -> StepGraph:
        """Of a problem without circles."""
        after = problem.after
        n = len(after)
        heads = np.repeat(np.arange(n), [len(each) for each in after])
        tails = np.array([before for each in after for before in each], dtype=np.int64)
        by_tail = np.argsort(tails, kind="stable")
        first = np.concatenate(([0], np.cumsum(np.bincount(tails, minlength=n)))).astype(np.int64)
        successor = heads[by_tail].astype(np.int64)
        waits = np.bincount(heads, minlength=n).astype(np.int64)
        backwards = np.array([m.source > m.target for m in problem.transfers], dtype=np.int64)
        duration = np.array([0.0] * len(problem.transfers) + [task.duration for task in problem.tasks])
        channel = 2 * problem.pair_of + backwards
        return StepGraph(first, successor, waits, duration, problem.volume, channel, in_order(first, successor, waits))


def in_order(first: Ints, successor: Ints, waits: Ints) -> Ints:
    """int64[nodes]: nodes of a graph, each behind all that it waits for.

    Args:
        first, successor: of each node, CSR, those that wait for it.
        waits: how many nodes each one waits for.
    """
    left = waits.tolist()
    found = [step for step, count in enumerate(left) if not count]
    for step in found:
        for later in successor[first[step] : first[step + 1]].tolist():
            left[later] -= 1
            if not left[later]:
                found.append(later)
    return np.array(found, dtype=np.int64)


def followed(graph: StepGraph, circuits: Ints, rate: float) -> tuple[Floats, Floats]:
    """(start, end), float64[n] each, of the steps, all begun as early as they can.

    Args:
        circuits: int64[pairs], at least 1 for each.
        rate: volume a circuit carries in a unit of time.
    """
    carried = np.repeat(circuits * rate, 2)
    return _followed(graph.first, graph.successor, graph.waits, graph.duration, graph.volume, graph.channel, carried)


def makespan(graph: StepGraph, circuits: Ints, rate: float) -> float:
    """When the last step ends."""
    return float(followed(graph, circuits, rate)[1].max())


@kernel
def _followed(
    first: Ints, successor: Ints, waits: Ints, duration: Floats, volume: Floats, channel: Ints, rate: Floats
) -> tuple[Floats, Floats]:  # pragma: no cover - compiled
    n, transfers, channels = len(waits), len(volume), len(rate)
    left = waits.copy()
    start, end = np.zeros(n), np.zeros(n)
    time, code = np.empty(n + 2 * transfers + 1), np.empty(n + 2 * transfers + 1, dtype=np.int64)
    level, changed, due = np.zeros(channels), np.zeros(channels), np.full(channels, np.inf)
    under_way = np.zeros(channels, dtype=np.int64)
    done_at = np.zeros(transfers)
    offset = np.zeros(channels + 1, dtype=np.int64)
    for m in range(transfers):
        offset[channel[m] + 1] += 1
    for c in range(channels):
        offset[c + 1] += offset[c]
    member = np.empty(transfers, dtype=np.int64)
    ready, count, waiting = np.empty(n, dtype=np.int64), 0, 0
    for step in range(n):
        if left[step] == 0:
            ready[waiting] = step
            waiting += 1
    now = 0.0
    while True:
        while waiting > 0:
            waiting -= 1
            step = ready[waiting]
            start[step] = now
            if step >= transfers:
                count = push(time, code, count, now + duration[step], step)
                continue
            c = channel[step]
            if under_way[c] > 0:
                level[c] += (now - changed[c]) * rate[c] / under_way[c]
            changed[c] = now
            done_at[step] = level[c] + volume[step]
            member[offset[c] + under_way[c]] = step
            under_way[c] += 1
            least = np.inf
            for k in range(offset[c], offset[c] + under_way[c]):
                least = min(least, done_at[member[k]])
            due[c] = now + max(least - level[c], 0.0) * under_way[c] / rate[c]
            count = push(time, code, count, due[c], n + c)
        if count == 0:
            return start, end
        at, what = time[0], code[0]
        count = pop(time, code, count)
        if what < n:
            now = at
            end[what] = now
            for k in range(first[what], first[what + 1]):
                left[successor[k]] -= 1
                if left[successor[k]] == 0:
                    ready[waiting] = successor[k]
                    waiting += 1
            continue
        c = what - n
        if under_way[c] == 0 or at != due[c]:
            continue  # something has begun or ended there since
        now = at
        least = np.inf
        for k in range(offset[c], offset[c] + under_way[c]):
            least = min(least, done_at[member[k]])
        level[c], changed[c] = least, now
        k = offset[c]
        while k < offset[c] + under_way[c]:
            step = member[k]
            if done_at[step] > least:
                k += 1
                continue
            under_way[c] -= 1
            member[k] = member[offset[c] + under_way[c]]
            end[step] = now
            for j in range(first[step], first[step + 1]):
                left[successor[j]] -= 1
                if left[successor[j]] == 0:
                    ready[waiting] = successor[j]
                    waiting += 1
        due[c] = np.inf
        if under_way[c] > 0:
            least = np.inf
            for k in range(offset[c], offset[c] + under_way[c]):
                least = min(least, done_at[member[k]])
            due[c] = now + max(least - level[c], 0.0) * under_way[c] / rate[c]
            count = push(time, code, count, due[c], n + c)
