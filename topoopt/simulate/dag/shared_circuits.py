"""When the steps of a graph begin and end, transfers of one direction of a pair sharing its circuits equally."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.native import flows


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
        pairs: number of pairs of pods.
    """

    first: Ints
    successor: Ints
    waits: Ints
    duration: Floats
    volume: Floats
    channel: Ints
    order: Ints
    pairs: int

    @cached_property
    def shared(self) -> flows.SharedCircuits:
        """What tells when its steps begin and end."""
        return flows.SharedCircuits(
            self.first, self.successor, self.waits, self.duration, self.volume, self.channel, self.pairs
        )

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
        order = in_order(first, successor, waits)
        return StepGraph(first, successor, waits, duration, problem.volume, channel, order, len(problem.pairs))


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
    return graph.shared.follow(circuits, rate)


def makespan(graph: StepGraph, circuits: Ints, rate: float) -> float:
    """When the last step ends."""
    return graph.shared.makespan(circuits, rate)
