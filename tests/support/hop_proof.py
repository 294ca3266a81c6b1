"""The hop-LP solved from one guess to the next: multipliers that prove lambda of every topology small.

The value of the program at a guess L is an upper bound on lambda once it is below L, and the lower the guess, the lower
the value: guesses start at the best bound known and go to the fixed point, the third by extrapolation. What is proven
is decided by the formula of `topoopt.verify.network.bounds.evaluate_hop`, not here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from formulations.joint_topology import HopLp, hop_lp_arrays, multipliers
from solvers.backends.backend import SolverLimits
from solvers.backends.table import solver_named
from solvers.stop import Stop
from topoopt.core.errors import InputError, Problem

HOP_SERVERS = 32
"""Above this the program is too large."""

_STEP = 1e-4
_OVER = 0.03


@dataclass(frozen=True, eq=False)
class HopProof:
    """What the certificate needs.

    Attributes:
        guess: L.
        value: what the solver's prices prove of lambda by the program's arrays.
        multipliers: by family of rows (`formulations.joint_topology.multipliers`).
    """

    guess: float
    value: float
    multipliers: dict[str, NDArray[np.float64]]


def hop_proof(
    n: int,
    d: int,
    demand: NDArray[np.float64],
    start_theta: float,
    *,
    solves: int = 4,
    solver: str = "highs-ipx",
    stop: Stop | None = None,
) -> HopProof | None:
    """Best proof found from a known bound on theta; None when no guess was improved.

    Raises:
        InputError: fewer than three servers, more than HOP_SERVERS, or a start that is not positive.
    """
    if not 3 <= n <= HOP_SERVERS or not start_theta > 0:
        raise InputError([Problem("the hop program takes 3 to 32 servers and a positive start", value=str(n))])
    best: HopProof | None = None
    history: list[tuple[float, float]] = []
    guess = 1.0 / start_theta
    for _ in range(solves):
        data = HopLp(n, d, demand, guess)
        remaining = None if stop is None else stop.remaining_s()
        result = solver_named(solver)(hop_lp_arrays(data), SolverLimits(time_s=remaining))
        if result.row_dual is None or result.bound is None or (stop is not None and stop.reason() is not None):
            break
        value = -result.bound
        if not 0.0 < value < guess:
            break
        if best is None or value < best.value:
            best = HopProof(guess, value, multipliers(data, result.row_dual))
        history.append((guess, value))
        if value > guess * (1.0 - _STEP):
            break
        guess = value
        if len(history) >= 2:
            (before, value_before), (at, value_at) = history[-2:]
            slope = (value_at - value_before) / (at - before)
            if slope < 0.95:
                fixed = value_at - (at - value_at) * slope / (1.0 - slope)
                guess = fixed + _OVER * (value_at - fixed)
    return best
