"""Which topologies a problem allows, for the search; how near it came where it found none."""

from __future__ import annotations

import numpy as np

from solvers.network.exact.bounds import moore_hops
from solvers.network.exact.space import Space, open_space
from solvers.network.search.links import arcs_of, diameter
from solvers.network.search.repair import bad_links
from topoopt.core.arrays import Bools, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.network import TopologyProblem


class Rules:
    """The constraints of a problem.

    Attributes:
        allowed: bool[n, n], arcs that may be used.
        space: tables of the problem where links of a running network must stay, else None.
        nearest: least diameter met of topologies that break no other rule.
    """

    def __init__(self, problem: TopologyProblem) -> None:
        self.problem = problem
        n = problem.servers
        self.allowed: Bools = ~np.eye(n, dtype=np.bool_)
        for tail, head in problem.forbidden:
            self.allowed[tail, head] = False
        if problem.links is LinkDirection.BIDIRECTIONAL:
            self.allowed &= self.allowed.T  # one fibre pair, both arcs
        self.space: Space | None = open_space(problem) if problem.max_changed is not None else None
        self.nearest = n

    def legal(self, out: Ints) -> bool:
        """Whether a table of heads breaks no rule."""
        problem, arcs = self.problem, arcs_of(out)
        if len(bad_links(arcs, self.allowed, problem.parallel_links)):
            return False
        if self.space is not None:
            counts = np.zeros_like(self.allowed, dtype=np.int64)
            np.add.at(counts, (arcs[:, 0], arcs[:, 1]), 1)
            if self.space.changed(counts) > (problem.max_changed or 0):
                return False
        if problem.max_hops is None:
            return True
        found = diameter(out)
        self.nearest = min(self.nearest, found)
        return found <= problem.max_hops

    def nothing(self) -> str:
        """What to say when no topology met satisfies the constraints."""
        problem = self.problem
        if problem.max_hops is None:
            return "no topology was found that satisfies the constraints (not proven that there is none)"
        known = f", the smallest limit known to be feasible {self.nearest}" if self.nearest < problem.servers else ""
        return (
            f"no topology within {problem.max_hops} hops was found (not proven that there is none); the Moore bound is "
            f"{moore_hops(problem.servers, problem.degree, problem.links)} hops{known}"
        )
