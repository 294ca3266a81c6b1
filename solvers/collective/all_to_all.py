"""The best rate of All-to-All on any network, and lengths of links that prove it in integers."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import numpy as np

from formulations.collective.all_to_all_rate import build, build_straight_allreduce
from solvers.backends import SOLVERS, SolverLimits
from solvers.collective.pair_lengths import descended_lengths
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import LimitError
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.verdict import StopReason

LONGEST = 1 << 32
"""Integer that stands for the longest link of a proof."""

MOST_PROGRAM = 4_000
"""Ranks times links up to which linear programming is quick."""


@dataclass(frozen=True, eq=False)
class AllToAllRate:
    """What linear programming finds.

    Attributes:
        units: lambda, rate of every ordered pair, in units of the network.
        flow: float64[sources, m], units that each source (row) has on each arc.
        lengths: int64[m], of links: lambda <= sum of units times lengths / sum of distances over ordered pairs.
        stopped_by: CONVERGED where the program was solved.
    """

    units: float
    flow: Floats
    lengths: Ints
    stopped_by: StopReason


def all_to_all_rate(
    network: RatedNetwork, stop: Stop, *, relaying: bool = True, source: int | None = None
) -> AllToAllRate:
    """Solve the program.

    Args:
        relaying: whether ranks pass on what is not for them.
        source: the only rank that sends; None: all do.

    Raises:
        LimitError: stopped before a rate was found.
    """
    unit = float(network.units.max())
    program = build(network, network.units / unit, relaying=relaying, source=source)
    result = SOLVERS["highs"](program.arrays, SolverLimits(time_s=stop.remaining_s(), feasibility=1e-9))
    if result.raw_x is None or result.row_dual is None:
        raise LimitError("no rate of All-to-All was found in time")
    if result.raw_x[-1] <= 0.0 and result.stopped_by is not StopReason.CONVERGED:  # it stands where it began
        raise LimitError("no rate of All-to-All above 0 was found in time")
    used = program.flow >= 0
    flow = np.where(used, result.raw_x[np.where(used, program.flow, 0)], 0.0).clip(min=0.0)
    lengths = whole_lengths(result.row_dual[: len(network.arcs)])
    return AllToAllRate(float(result.raw_x[-1]) * unit, flow * unit, lengths, result.stopped_by)


@dataclass(frozen=True, eq=False)
class AllToAllBound:
    """What no All-to-All exceeds, and what one reaches.

    Attributes:
        lengths: int64[m], of links, that prove the bound.
        reached: rate of every ordered pair, in units of the network.
    """

    lengths: Ints
    reached: float


def all_to_all_bound(network: RatedNetwork, stop: Stop) -> AllToAllBound:
    """The best bound: by linear programming, of large networks by descent, which comes close; stopped, a weaker one."""
    if len(network.ranks) * len(network.arcs) <= MOST_PROGRAM:
        with contextlib.suppress(LimitError):  # lengths of any descent prove a bound as well
            rate = all_to_all_rate(network, stop)
            return AllToAllBound(rate.lengths, rate.units)
    found = descended_lengths(network, stop)
    return AllToAllBound(whole_lengths(-found.lengths), found.reached)


def straight_allreduce_lengths(network: RatedNetwork, stop: Stop) -> Ints:
    """int64[m], lengths of links that bound an AllReduce in which ranks do not relay.

    Raises:
        LimitError: stopped before they were found.
    """
    program = build_straight_allreduce(network, network.units / float(network.units.max()))
    result = SOLVERS["highs"](program, SolverLimits(time_s=stop.remaining_s(), feasibility=1e-9))
    if result.row_dual is None:
        raise LimitError("no bound of an AllReduce without relays was found in time")
    return whole_lengths(result.row_dual[: len(network.arcs)])


def whole_lengths(dual: Floats) -> Ints:
    """Lengths in whole numbers from the multipliers of the links."""
    lengths = np.maximum(-dual, 0.0)
    longest = float(lengths.max())
    if longest <= 0:
        return np.ones(len(dual), dtype=np.int64)
    return np.asarray(np.round(lengths / longest * LONGEST), dtype=np.int64)
