"""Bandwidths that keep a time limit, or the proof that there are none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from formulations.hierarchy.hierarchical_program import BandwidthProgram
from solvers.hierarchy.cuts import Optimum, minimise
from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.errors import InfeasibleError, LimitError


def within_limit(plain: BandwidthProgram, start: Floats, stop: Stop) -> Floats:
    """float64[D]: bandwidths that keep the time limit, from bandwidths that satisfy the rest.

    Raises:
        InfeasibleError: none do. LimitError: not found in time.
    """
    limit = plain.time_limit_ns or np.inf
    if plain.time_of(start) <= limit:
        return start
    fastest = minimise(replace(plain, time_limit_ns=None), start, stop, enough=limit, hopeless=limit)
    if fastest.objective <= limit:
        return fastest.bandwidth
    if fastest.bound > limit:
        raise TooSlowError(limit, fastest)
    raise LimitError(f"no bandwidths that keep the time limit {limit:.9g} ns were found")


class TooSlowError(InfeasibleError):
    """The time limit is below the least possible time, which `fastest` proves."""

    def __init__(self, limit: float, fastest: Optimum) -> None:
        super().__init__(f"time limit {limit:.9g} ns: no bandwidths take less than {fastest.bound:.9g} ns")
        self.fastest = fastest
