"""Seconds that all-to-all traffic takes over the circuits of a region and the electrical interfaces beside them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.regional_circuits import RegionalCircuitsProblem


@dataclass(frozen=True, eq=False)
class RegionTraffic:
    """What the pairs of a region send in a step, or in several steps together.

    Attributes
    ----------
    problem : of the region.
    ends : int64[P, 2], servers of its pairs.
    out, back : float64[P], bytes from the first server of a pair to the second, and back.
    """

    problem: RegionalCircuitsProblem
    ends: Ints
    out: Floats
    back: Floats

    @staticmethod
    def of(problem: RegionalCircuitsProblem, demand: Floats) -> RegionTraffic:
        """Return the traffic of a demand, float64[n, n] bytes."""
        ends = np.array(problem.pairs, dtype=np.int64).reshape(-1, 2)
        return RegionTraffic(problem, ends, demand[ends[:, 0], ends[:, 1]], demand[ends[:, 1], ends[:, 0]])

    @property
    def larger(self) -> Floats:
        """float64[P], the larger amount of both directions."""
        return np.maximum(self.out, self.back)

    def by_server(self, out: Floats, back: Floats) -> Floats:
        """Return float64[2 n], the bytes that leave each server, then those that reach it."""
        n = self.problem.servers
        first, second = self.ends[:, 0], self.ends[:, 1]
        leaving = np.bincount(first, out, n) + np.bincount(second, back, n)
        reaching = np.bincount(second, out, n) + np.bincount(first, back, n)
        return np.concatenate((leaving, reaching))

    def seconds(self, circuits: Ints) -> float:
        """Return the seconds with so many circuits of each pair, int64[P].

        A pair with circuits uses these alone. If the region splits, the electrical interfaces carry what circuits
        cannot in the same time. Newton's method gives the least time; it is exact, as loads are linear between
        finitely many times.
        """
        rate, electrical = self.problem.circuit_rate, self.problem.electrical_rate
        if not self.problem.split:
            none = circuits == 0
            wired = float(self.by_server(self.out * none, self.back * none).max(initial=0.0)) / electrical
            served = self.larger[~none] / (rate * circuits[~none])
            return max(wired, float(served.max(initial=0.0)))
        time = 0.0
        while True:
            carried = rate * circuits * time
            out, back = self.out > carried, self.back > carried
            left = self.by_server(np.where(out, self.out, 0.0), np.where(back, self.back, 0.0))
            served = np.asarray(rate * circuits, dtype=np.float64)
            shared = self.by_server(np.where(out, served, 0.0), np.where(back, served, 0.0))
            later = float((left / (electrical + shared)).max(initial=0.0))
            if later <= time * (1.0 + 1e-15):
                return max(later, time)
            time = later

    def switch_s(self) -> float:
        """Return the least seconds if all interfaces of a server led into one electrical switch."""
        problem = self.problem
        rate = problem.electrical_rate + problem.circuit_rate * np.tile(np.array(problem.ports), 2)
        return float((self.by_server(self.out, self.back) / rate).max(initial=0.0))
