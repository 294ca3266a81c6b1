"""Random numbers inside kernels: a SplitMix64 state that the caller owns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topoopt.simulate.jit import kernel


@kernel
def uniform(state: NDArray[np.uint64]) -> float:
    """Next number in [0, 1) of a SplitMix64 generator (Steele et al., OOPSLA'14) whose state is state[0]."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def below(state: NDArray[np.uint64], limit: int) -> int:
    """Uniform integer in [0, limit)."""
    return min(int(uniform(state) * limit), limit - 1)
