"""What every method of bandwidth allocation hands over."""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.core.allocation_solution import PriceCertificate
from topoopt.core.arrays import Floats
from topoopt.core.verdict import StopReason


@dataclass(frozen=True, eq=False)
class AllocationResult:
    """Rates, with the proof of as many of them as time allowed.

    Attributes:
        route_gbps: float64[K], rate of every route.
        certificates: why no transfer can have more, in the order in which transfers reached their rates; together they
            cover all transfers when the method converged.
        stopped_by: why it ended.
        method: name of what ran.
        rounds: levels at which something was full.
    """

    route_gbps: Floats
    certificates: tuple[PriceCertificate, ...]
    stopped_by: StopReason
    method: str
    rounds: int
