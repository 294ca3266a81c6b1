"""Maximum flows in integers on one network, many times: from one node to each, with the capacities of a round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Bools, Int32s, Ints


class TreesDoNotFitError(Exception):
    """Whole capacities that do not carry so many trees, or not through their switches."""


@dataclass(frozen=True)
class MinimumCut:
    """Value of a maximum flow, and the nodes on the side of its source."""

    value: int
    side: Bools


class FlowNetwork:
    """A network whose flows are asked for again and again.

    Args:
        nodes: number of nodes.
        tails, heads: int32[m].
        capacities: int64[m], changed by `set_capacities`.
    """

    def __init__(self, nodes: int, tails: Int32s, heads: Int32s, capacities: Ints) -> None:
        from ortools.graph.python import max_flow

        self.nodes = nodes
        self.solver = max_flow.SimpleMaxFlow()
        self.arcs = self.solver.add_arcs_with_capacity(tails, heads, capacities)

    def set_capacities(self, capacities: Ints) -> None:
        """New capacities of all arcs, int64[m]."""
        self.solver.set_arcs_capacity(self.arcs, capacities)

    def value(self, source: int, sink: int) -> int:
        """The maximum flow between two nodes."""
        status = self.solver.solve(source, sink)
        if status != self.solver.OPTIMAL:
            raise OverflowError(f"maximum flow {source} -> {sink}: {status}")
        return int(self.solver.optimal_flow())

    def cut(self, source: int, sink: int) -> MinimumCut:
        """The same with the smallest set of nodes around the source that cuts it."""
        value = self.value(source, sink)
        side = np.zeros(self.nodes, dtype=np.bool_)
        side[self.solver.get_source_side_min_cut()] = True
        return MinimumCut(value, side)

    def cut_around_sink(self, source: int, sink: int) -> MinimumCut:
        """The same with the smallest set of nodes around the sink; `side` is still that of the source."""
        value = self.value(source, sink)
        side = np.ones(self.nodes, dtype=np.bool_)
        side[self.solver.get_sink_side_min_cut()] = False
        return MinimumCut(value, side)

    def flows(self) -> Ints:
        """int64[m], of the last question."""
        return np.asarray(self.solver.flows(self.arcs), dtype=np.int64)
