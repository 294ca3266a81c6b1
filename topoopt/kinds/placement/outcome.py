"""What every method for placement problems takes and gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoopt.core.placement import PlacementProblem
from topoopt.core.placement_solution import CompactResult, LinkShare, TensorTransfer
from topoopt.core.solution import Bound
from topoopt.core.verdict import StopReason


@dataclass(frozen=True)
class PlacementEffort:
    """How hard to work.

    Attributes:
        seed: of every random choice.
        time_limit_s: wall-clock seconds; None for the default of the method.
        budget: proposals of the local search in all (moves tried, orders sliced); None: as the limit allows.
    """

    seed: int = 0
    time_limit_s: float | None = None
    budget: int | None = None


@dataclass(frozen=True, eq=False)
class PlacementOutcome:
    """A placement, as a method hands it over; what it costs is recomputed by whoever uses it.

    Attributes:
        device: int32[operators].
        bound: lower bound on the objective of the original graph.
        stopped_by: why the method ended.
        method: name of the method that ran (never `auto`).
        stage: int32[operators], where stages have an order.
        start_ms, end_ms, transfers, rates_gbps, link_shares: objective latency; see `PlacementSolution`.
        compact: of the compacted graph.
        notes: for people.
    """

    device: NDArray[np.int32]
    bound: Bound
    stopped_by: StopReason
    method: str
    stage: NDArray[np.int32] | None = None
    start_ms: NDArray[np.float64] | None = None
    end_ms: NDArray[np.float64] | None = None
    transfers: tuple[TensorTransfer, ...] = ()
    rates_gbps: NDArray[np.float64] | None = None
    link_shares: tuple[LinkShare, ...] = ()
    compact: CompactResult | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlacementMethod:
    """A line of a table of methods.

    `run` raises InputError for a problem outside what the method covers, InfeasibleError, and LimitError when the limit
    comes before anything is found.
    """

    summary: str
    run: Callable[[PlacementProblem, PlacementEffort], PlacementOutcome]
