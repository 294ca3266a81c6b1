"""The best rate of All-to-All on any network, and lengths of links that prove it in integers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.collective.all_to_all_rate import build
from solvers.backends import SOLVERS, SolverLimits
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import LimitError
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.verdict import StopReason

LONGEST = 1 << 24
"""Integer that stands for the longest link of a proof."""


@dataclass(frozen=True, eq=False)
class AllToAllRate:
    """What linear programming finds.

    Attributes:
        units: lambda, rate of every ordered pair, in units of the network.
        flow: float64[N, m], units that each rank (row) has on each arc.
        lengths: int64[m], of links: lambda <= sum of units times lengths / sum of distances over ordered pairs.
        stopped_by: CONVERGED where the program was solved.
    """

    units: float
    flow: Floats
    lengths: Ints
    stopped_by: StopReason


def all_to_all_rate(network: RatedNetwork, stop: Stop, *, relaying: bool = True) -> AllToAllRate:
    """Solve the program.

    Raises:
        LimitError: stopped before a rate was found.
    """
    unit = float(network.units.max())
    program = build(network, network.units / unit, relaying=relaying)
    result = SOLVERS["highs"](program.arrays, SolverLimits(time_s=stop.remaining_s(), feasibility=1e-9))
    if result.raw_x is None or result.row_dual is None:
        raise LimitError("no rate of All-to-All was found in time")
    m = len(network.arcs)
    used = program.flow >= 0
    flow = np.where(used, result.raw_x[np.where(used, program.flow, 0)], 0.0).clip(min=0.0)
    lengths = np.maximum(-result.row_dual[:m], 0.0)
    longest = float(lengths.max())
    whole = np.round(lengths / longest * LONGEST).astype(np.int64) if longest > 0 else np.ones(m, dtype=np.int64)
    return AllToAllRate(float(result.raw_x[-1]) * unit, flow * unit, whole, result.stopped_by)
