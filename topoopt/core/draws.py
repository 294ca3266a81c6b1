"""Random draws that a checker makes again: SplitMix64, the same numbers with every version of every library."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Floats, Ints

STEP = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


class Draws:
    """A stream that goes on with every number taken (Steele et al., OOPSLA'14), as in the native module."""

    def __init__(self, *seeds: int) -> None:
        """Args:
        seeds: one is the state of the generator; several are mixed into one.
        """
        self._state = seeds[0] & _MASK
        for seed in seeds[1:]:
            self._state = int(_mixed(np.array([self._state + STEP & _MASK], dtype=np.uint64))[0]) ^ (seed & _MASK)

    def uniform(self, count: int) -> Floats:
        """float64[count] in [0, 1)."""
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(STEP)
        states = steps + np.uint64(self._state)
        self._state = (self._state + count * STEP) & _MASK
        return (_mixed(states) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, limit: int, count: int) -> Ints:
        """int64[count] in [0, limit)."""
        return np.minimum((self.uniform(count) * limit).astype(np.int64), limit - 1)

    def permutation(self, count: int) -> Ints:
        """int64[count]: the numbers below `count` in random order."""
        order: Ints = np.argsort(self.uniform(count), kind="stable")
        return order

    def weighted(self, weights: Floats, count: int) -> Ints:
        """int64[count]: indices of weights, each as likely as its weight says."""
        ends = np.cumsum(weights)
        index: Ints = np.searchsorted(ends, self.uniform(count) * ends[-1], side="right")
        return np.minimum(index, len(weights) - 1)

    def exponential(self, count: int) -> Floats:
        """float64[count] of mean 1."""
        return np.array([-math.log(1.0 - number) for number in self.uniform(count).tolist()])


def _mixed(states: NDArray[np.uint64]) -> NDArray[np.uint64]:
    states = (states ^ (states >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    states = (states ^ (states >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return states ^ (states >> np.uint64(31))
