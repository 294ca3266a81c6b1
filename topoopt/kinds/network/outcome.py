"""What every method for network problems takes and gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from solvers.stop import Stop
from topoopt.core.network import (
    EnumerationProof,
    LengthCertificate,
    RoutingProblem,
    SourceFlow,
    TopologyProblem,
    TwoLayerMultipliers,
)
from topoopt.core.network_solution import Robustness
from topoopt.core.solution import Bound
from topoopt.core.topology import Topology
from topoopt.core.verdict import StopReason

NetworkProblem = RoutingProblem | TopologyProblem

Kind = TypeVar("Kind", RoutingProblem, TopologyProblem)


@dataclass(frozen=True)
class Effort:
    """How hard to work.

    Attributes:
        seed: of every random choice.
        stop: a deadline, and the interrupt by Ctrl-C; every method looks at both.
    """

    seed: int = 0
    stop: Stop = field(default_factory=Stop)


@dataclass(frozen=True, eq=False)
class Outcome:
    """A topology with a routing, as a method hands it over; its theta is recomputed by whoever uses it.

    Attributes:
        topology: given, or found.
        flow: the routing.
        certificate: arc lengths that prove `routing_bound` for this topology.
        routing_bound: lower bound on theta of this topology.
        bound: lower bound on theta of the problem.
        stopped_by: why the method ended.
        method: name of the method that ran (never `auto`).
        notes: for people.
        enumeration: what a bound by enumeration rests on.
        robustness: of a robust design.
        multipliers: that `bound` was evaluated with, so that the checker need not search them again.
    """

    topology: Topology
    flow: SourceFlow
    certificate: LengthCertificate
    routing_bound: float
    bound: Bound
    stopped_by: StopReason
    method: str
    notes: tuple[str, ...] = ()
    enumeration: EnumerationProof | None = None
    robustness: Robustness | None = None
    multipliers: TwoLayerMultipliers | None = None


@dataclass(frozen=True)
class Method(Generic[Kind]):
    """A line of a table of methods.

    `run` raises InputError for a problem outside what the method covers, InfeasibleError, and LimitError when the limit
    comes before anything is found.
    """

    summary: str
    run: Callable[[Kind, Effort], Outcome]
