"""What every exact method takes and gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from solvers.stop import Stop
from topoopt.core.network import TopologyPlan, TopologyProblem
from topoopt.core.proofs import Bound
from topoopt.core.result import SearchResult
from topoopt.core.topology import Topology

OPTIMALITY = 1e-6
"""Relative gap between the checked theta and the bound below which a result is called optimal."""


@dataclass(frozen=True)
class ExactLimits:
    """How long a method may work.

    Attributes:
        seed: of the local search that gives a first network, and of the solver.
        incumbent: a network already known; methods never return a worse one.
        stop: a deadline and an interrupt shared with others.
        keep: is told of a network that may be returned if the method is left before its end.
    """

    seed: int = 0
    incumbent: Topology | None = None
    stop: Stop = field(default_factory=Stop)
    keep: Callable[[SearchResult[TopologyPlan]], None] = lambda result: None


@dataclass(frozen=True, eq=False, kw_only=True)
class TopologyResult(SearchResult[TopologyPlan]):
    """A topology with its routing, and what is proven about every allowed topology.

    Attributes, besides those of `SearchResult`:
        theta: largest link utilisation of the routing, recomputed from topology, demand and flow.
        restricted_bound: lower bound on theta within the family searched, where that is not all topologies (then a note
            names it); equals the bound otherwise.
        work: topologies routed, or programs solved.
    """

    theta: float
    restricted_bound: float
    work: int

    @property
    def bound(self) -> Bound:
        """The tightest of the bounds, whoever says so."""
        return max(self.bounds, key=lambda bound: bound.value)

    @property
    def optimal(self) -> bool:
        """Whether theta equals the bound up to `OPTIMALITY`."""
        return self.theta - self.bound.value <= OPTIMALITY * self.theta


class ExactMethod(Protocol):
    """A method of the table."""

    def __call__(self, problem: TopologyProblem, limits: ExactLimits) -> TopologyResult:
        """Solve.

        Raises:
            InputError: bad problem, or one outside what the method covers.
            InfeasibleError: no topology satisfies the constraints.
            LimitError: the limit came before any topology was found.
        """
        ...
