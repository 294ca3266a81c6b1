"""The linear program at a node of the tree over the links, loaded once and solved again from the last basis."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from formulations.job.allreduce_mix import RingGroup
from formulations.job.allreduce_topology import AllReduceTopology, build_arrays
from formulations.network.joint_topology import JointTopology
from solvers.backends.highs import load
from solvers.network.exact.routed import distances
from solvers.network.exact.tree_nodes import LinkChoices, Node
from topoopt.core.arrays import Floats


class LinkRelaxation:
    """The program of links and routing in which some servers have their links and all others may have fractions.

    Args:
        choices: whose demand is carried.
        groups: AllReduce groups of volume 1 by place in the order, with all their orders; what they send, and another
            demand, is said by `carry`.
    """

    def __init__(self, choices: LinkChoices, groups: tuple[RingGroup, ...] = ()) -> None:
        import highspy

        self._choices = choices
        self._scale = float(choices.demand.sum()) / choices.n
        data = JointTopology(
            servers=choices.n,
            degree=choices.degree,
            bidirectional=choices.both,
            demand=choices.demand / self._scale,
            allowed=choices.allowed,
            most_links=choices.space.most_links,
            senders=tuple(range(choices.n)) if groups else (),
        )
        program = replace(build_arrays(AllReduceTopology(data, groups)), integer=None)
        assert program.row_names is not None
        rows = {name: row for row, name in enumerate(program.row_names)}
        self._deliver = {(s, v): rows[f"deliver_{s}_{v}"] for s in data.sources for v in range(choices.n) if v != s}
        self._mix = [rows[f"mix_{g}"] for g in range(len(groups))]
        self._arcs = np.array(data.arcs, dtype=np.int64).reshape(-1, 2)
        self._capacity = [rows[f"capacity_{i}_{j}"] for i, j in data.arcs]
        self._interfaces = [rows[f"{'out' if choices.both else 'in'}_degree_{i}"] for i in range(choices.n)]
        self._columns = np.arange(1, 1 + len(data.arcs), dtype=np.int32)
        self._solver = highspy.Highs()
        for option, value in {"output_flag": False, "threads": 1, "presolve": "off", "solver": "simplex"}.items():
            self._solver.setOptionValue(option, value)
        load(self._solver, program)

    def carry(self, demand: Floats, volumes: Floats) -> None:
        """Another demand, float64[n, n], and what a member of each group sends, float64[groups], in units of a link."""
        self._scale = float(demand.sum() + volumes.sum()) / self._choices.n
        for pair, row in self._deliver.items():
            self._solver.changeCoeff(row, 0, -float(demand[pair]) / self._scale)
        for row, volume in zip(self._mix, volumes.tolist(), strict=True):
            self._solver.changeCoeff(row, 0, -volume / self._scale)

    def solve(self, node: Node) -> tuple[float, Floats, Floats]:
        """Least theta at a node (0 if the solver fails), with lengths float64[n, n] and prices float64[n]."""
        import highspy

        n, (tails, heads) = self._choices.n, self._arcs.T
        open_arcs = self._choices.undecided(node.chosen)[tails, heads]
        links = node.links[tails, heads].astype(np.float64)
        upper = np.where(open_arcs, float(self._choices.space.most_links), links)
        self._solver.changeColsBounds(len(self._columns), self._columns, np.where(open_arcs, 0.0, links), upper)
        self._solver.run()
        lengths, prices = np.zeros((n, n)), np.zeros(n)
        solution = self._solver.getSolution()
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal or not solution.dual_valid:
            return 0.0, lengths, prices
        dual = np.array(solution.row_dual)
        # A pair that may have no link may be as far apart as all lengths together.
        full = np.where(self._choices.allowed, 0.0, np.inf)
        full[tails, heads] = np.maximum(-dual[self._capacity], 0.0)
        far = distances(full)
        lengths = np.where(np.isfinite(far), far, 1.0 + float(far[np.isfinite(far)].sum()))
        prices = np.maximum(-dual[self._interfaces], 0.0)
        throughput = -float(self._solver.getInfo().objective_function_value)
        return self._scale / throughput if throughput > 1e-12 else inf, lengths, prices
