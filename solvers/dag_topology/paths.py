"""Longest paths as functions of circuits: no plan is done before any mean of the lengths of some paths.

A path is a chain of groups of steps, all of a group before all of the next; a group is one step, or several transfers
of one direction of a pair, which takes the time of their volumes together. Its length is a constant, of its tasks, and
volumes over circuits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.dag_topology_solution import StepPath
from topoopt.native import placement
from topoopt.simulate.dag.shared_circuits import StepGraph, in_order

SOURCE, SINK = -1, -2

MOST_STEPS = 20_000
"""Steps above which transfers are not grouped: what is before what takes a bit for each two steps."""


@dataclass(frozen=True, eq=False)
class PathGraph:
    """Steps, and behind them a node for each transfer that continues a run: it ends no sooner than the run so far.

    Attributes:
        first, successor, order: as of a `StepGraph`, of all nodes.
        fixed: float64[nodes], durations.
        moved: float64[nodes], the time of the volume over one circuit.
        pair: int64[nodes], -1 for tasks.
        transfer: int64[nodes], the transfer of a node of a run; -1 for steps.
    """

    first: Ints
    successor: Ints
    order: Ints
    fixed: Floats
    moved: Floats
    pair: Ints
    transfer: Ints

    @staticmethod
    def of(problem: DagTopologyProblem, graph: StepGraph) -> PathGraph:
        """Of a problem."""
        steps, transfers = len(graph.waits), len(graph.volume)
        runs = _runs(problem, graph) if steps <= MOST_STEPS else []
        edges = [(before, step) for step, each in enumerate(problem.after) for before in each]
        own: list[int] = []
        for run in runs:
            for k, (gate, transfer, user) in enumerate(run):
                node = steps + len(own)
                own.append(transfer)
                edges += [(gate, node)] if gate >= 0 else []
                edges += [(node - 1, node)] if k else []
                edges += [(node, user)] if user >= 0 else []
        nodes = steps + len(own)
        tail, head = (np.array([edge[k] for edge in edges], dtype=np.int64) for k in range(2))
        by_tail = np.argsort(tail, kind="stable")
        first = np.concatenate(([0], np.cumsum(np.bincount(tail, minlength=nodes)))).astype(np.int64)
        successor = head[by_tail]
        grouped = np.array(own, dtype=np.int64)
        pair = np.full(nodes, -1, dtype=np.int64)
        pair[:transfers], pair[steps:] = graph.channel // 2, graph.channel[grouped] // 2
        moved = np.zeros(nodes)
        moved[:transfers], moved[steps:] = graph.volume / problem.rate, graph.volume[grouped] / problem.rate
        fixed = np.zeros(nodes)
        fixed[:steps] = graph.duration
        of_run = np.full(nodes, -1, dtype=np.int64)
        of_run[steps:] = grouped
        order = in_order(first, successor, np.bincount(head, minlength=nodes).astype(np.int64))
        return PathGraph(first, successor, order, fixed, moved, pair, of_run)

    @cached_property
    def _steps(self) -> placement.Steps:
        return placement.Steps(self.first, self.successor, self.order)

    def longest(self, slowness: Floats) -> tuple[float, StepPath]:
        """The longest path.

        Args:
            slowness: float64[pairs], one over circuits.
        """
        length = self.fixed + self.moved * np.append(slowness, 0.0)[self.pair]
        end, nodes = self._steps.longest_path(length)
        path: list[tuple[int, ...]] = []
        before = -1
        for node in nodes.tolist():
            transfer = int(self.transfer[node])
            if transfer >= 0 and before == node - 1 and self.transfer[before] >= 0:
                path[-1] = (*path[-1], transfer)
            else:
                path.append((node,) if transfer < 0 else (transfer,))
            before = node
        return end, tuple(path)


Run = list[tuple[int, int, int]]
"""(what it waits for, transfer, what waits for it) of transfers of a channel; the first and the last may be none."""


def _runs(problem: DagTopologyProblem, graph: StepGraph) -> list[Run]:
    """Transfers of a channel, each begun and needed no sooner than the one before: k..l take their volumes together,
    between what k waits for and what waits for l."""
    after, order = problem.after, problem.order
    earlier = [0] * len(after)
    for step in order:
        for before in after[step]:
            earlier[step] |= earlier[before] | 1 << before
    place = {step: k for k, step in enumerate(order)}

    def precedes(one: int, other: int) -> bool:
        if one < 0 or other < 0:
            return one in (other, SOURCE) or other == SINK
        return one == other or bool(earlier[other] >> one & 1)

    found: list[Run] = []
    by_channel: dict[int, list[int]] = {}
    for transfer in sorted(range(len(graph.volume)), key=place.__getitem__):
        by_channel.setdefault(int(graph.channel[transfer]), []).append(transfer)
    for transfers in by_channel.values():
        run: Run = []
        for transfer in transfers:
            users = graph.successor[graph.first[transfer] : graph.first[transfer + 1]].tolist() or [SINK]
            ends = run[-1] if run else (SOURCE, transfer, SOURCE)
            gate = next((one for one in after[transfer] or (SOURCE,) if precedes(ends[0], one)), None)
            user = next((one for one in users if ends[2] == SOURCE or precedes(ends[2], one)), None)
            if gate is None or user is None:
                found.append(run)
                run, gate, user = [], (after[transfer] or (SOURCE,))[0], users[0]
            run.append((gate, transfer, user))
        found.append(run)
    return [run for run in found if len(run) > 1]
