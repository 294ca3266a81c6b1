"""What every exact method takes and gives."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Protocol

from solvers.stop import Stop
from topoopt.core.network import EnumerationProof, LengthCertificate, SourceFlow, TopologyProblem
from topoopt.core.topology import Topology
from topoopt.core.verdict import Status, StopReason

OPTIMALITY = 1e-6
"""Relative gap between the checked theta and the bound below which a result is called optimal."""


@dataclass(frozen=True)
class ExactLimits:
    """How long a method may work.

    Attributes:
        time_s: wall-clock seconds; None: no limit but that of `stop`.
        seed: of the local search that gives a first network, and of the solver.
        incumbent: a network already known; methods never return a worse one.
        stop: a deadline and an interrupt shared with others.
    """

    time_s: float | None = None
    seed: int = 0
    incumbent: Topology | None = None
    stop: Stop = field(default_factory=Stop)

    def started(self) -> Stop:
        """`stop`, its deadline no later than `time_s` from this call."""
        if self.time_s is None:
            return self.stop
        deadline = time.monotonic() + self.time_s
        return replace(self.stop, deadline=min(deadline, self.stop.deadline or deadline))


@dataclass(frozen=True, eq=False)
class TopologyResult:
    """A topology with its routing, and what is proven about every allowed topology.

    Attributes:
        topology: the best found.
        theta: largest link utilisation of `flow`, recomputed from topology, demand and flow.
        bound: lower bound on theta over all topologies the problem allows.
        proved_by: the argument behind `bound`, for people; it says when a solver's word is part of it.
        flow: the routing.
        certificate: arc lengths that prove how low theta can be on this topology.
        routing_bound: what they prove.
        status: OPTIMAL when theta equals the bound up to `OPTIMALITY`.
        stopped_by: why the method ended.
        method: name in the table.
        restriction: the family searched, when it is not all topologies; empty otherwise.
        restricted_bound: lower bound on theta within that family; equals `bound` without one.
        work: topologies routed, or programs solved.
        enumeration: what a bound by enumeration rests on, for demand 1; None for others, and where there is too much.
    """

    topology: Topology
    theta: float
    bound: float
    proved_by: str
    flow: SourceFlow
    certificate: LengthCertificate
    routing_bound: float
    status: Status
    stopped_by: StopReason
    method: str
    restriction: str = ""
    restricted_bound: float = 0.0
    work: int = 0
    enumeration: EnumerationProof | None = None

    @property
    def throughput(self) -> float:
        """lambda = 1 / theta; infinite without demand."""
        return 1.0 / self.theta if self.theta > 0 else float("inf")

    @property
    def gap(self) -> float:
        """(theta - bound) / theta."""
        return max(0.0, (self.theta - self.bound) / self.theta) if self.theta > 0 else 0.0


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
