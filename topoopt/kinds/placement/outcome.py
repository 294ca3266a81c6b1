"""What every method for placement problems gives."""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.core.arrays import Floats, Int32s
from topoopt.core.placement_solution import LinkShare, TensorTransfer
from topoopt.core.proofs import Bound
from topoopt.core.verdict import StopReason


@dataclass(frozen=True, eq=False)
class PlacementOutcome:
    """A placement, as a method hands it over; what it costs is recomputed by whoever uses it.

    Attributes:
        device: int32[operators].
        bounds: on the objective of the original graph, from below; verified and claimed ones.
        stopped_by: why the method ended.
        method: name of the method that ran (never `auto`).
        stage: int32[operators], where stages have an order.
        start_ms, end_ms, transfers, link_shares: objective latency; see `PlacementSolution`.
        notes: for people.
    """

    device: Int32s
    bounds: tuple[Bound, ...]
    stopped_by: StopReason
    method: str
    stage: Int32s | None = None
    start_ms: Floats | None = None
    end_ms: Floats | None = None
    transfers: tuple[TensorTransfer, ...] = ()
    link_shares: tuple[LinkShare, ...] = ()
    notes: tuple[str, ...] = ()
