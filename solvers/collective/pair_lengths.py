"""Lengths of links that bound an All-to-All of many ranks, by smoothed shortest distances, and a rate that is reached.

lambda <= sum of units times lengths / sum of distances over ordered pairs, whatever the lengths (linear programming
duality); the least such bound is the optimum. The sum of distances has corners wherever two paths are equally long.
Smoothed by inverse temperature beta it has none (free energy distance of randomised shortest paths: Kivimaki, Shimbo,
Saerens, Physica A 393, 2014): with W = P exp(-beta length), P = 1/2 of 1 / links out of the tail, and Z = (I - W)^-1,

    distance(s, t) = -(log Z[s,t] - log Z[t,t]) / beta

and its derivative by the length of a link is how often random walks from s to t, which prefer short ways, take it: a
flow from s to t. So one inverse and a few products of matrices tell the bound, its slope, and the load of every link
by flows of all pairs, whose fullest link is a rate that is reached. Descent (L-BFGS) makes the bound least at one beta
after another, twice the one before; since lengths differ from the best ones by about as much as 1 / beta, those of two
betas are extrapolated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.rated_network import RatedNetwork

CLOSE = 1e-6
"""Part between bound and rate at which there is nothing more to do."""

FIRST_BETA = 6.0
"""First inverse temperature, in logarithms of the most links of a node over the mean distance."""

LARGEST_EXPONENT = 600.0
"""Largest product of beta and a distance: entries of Z stay above the least float64."""

STAY = 0.5
"""Part of the walks that go on after each link, so that they end where all lengths are 0."""

MOST_STEPS = 200
"""Of the descent at one beta."""


@dataclass(frozen=True, eq=False)
class PairLengths:
    """What descent finds.

    Attributes:
        bound: lambda is at most that, in units of the network.
        reached: rate of every ordered pair that flows found on the way reach, in units of the network.
        lengths: float64[m], that prove the bound.
    """

    bound: float
    reached: float
    lengths: Floats


def descended_lengths(network: RatedNetwork, stop: Stop) -> PairLengths:
    """Lengths of links that bound the rate of an All-to-All closely; those found so far where it is stopped."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):  # threads of matrix products only wait for each other on a busy machine
        return _descended(_Descent(network), stop)


def _descended(descent: _Descent, stop: Stop) -> PairLengths:
    beta, earlier = descent.first_beta(), None
    while True:
        descent.least_at(beta, stop)
        now = descent.lengths()
        descent.offer(now)
        if earlier is not None:
            descent.offer(np.maximum(2 * now - earlier, 0.0))
        found = descent.best
        if stop.reason() is not None or found.bound <= found.reached * (1 + CLOSE):
            return found
        earlier, beta = now, 2 * beta
        if beta * descent.farthest(now) > LARGEST_EXPONENT:
            return found


class _Descent:
    """Parts of the bound that the links have, and the best of what they led to; capacities are parts of the largest."""

    def __init__(self, network: RatedNetwork) -> None:
        self.network, self.unit = network, float(network.units.max())
        self.capacity = network.units / self.unit
        self.tails, self.heads = network.arcs.T
        ranks, n = network.ranks, network.nodes
        self.pairs = np.zeros((n, n), dtype=np.bool_)
        self.pairs[np.ix_(ranks, ranks)] = True
        np.fill_diagonal(self.pairs, val=False)
        self.sources = self.pairs.sum(axis=0).astype(np.float64)
        self.most_out = int(np.bincount(self.tails).max())
        self.chance = STAY / np.bincount(self.tails, minlength=n)[self.tails]
        self.parts = np.full(len(self.capacity), 1.0 / len(self.capacity))
        self.best = PairLengths(np.inf, 0.0, self.lengths())
        self.offer(self.best.lengths)

    def lengths(self) -> Floats:
        """float64[m], such that capacities times lengths sum to 1."""
        return np.asarray(self.parts / self.parts.sum() / self.capacity, dtype=np.float64)

    def distances(self, lengths: Floats) -> Floats:
        """float64[pairs], of ordered pairs of ranks."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import dijkstra

        links = csr_array((lengths, (self.tails, self.heads)), shape=self.pairs.shape)
        return np.asarray(dijkstra(links, indices=self.network.ranks)[self.pairs[self.network.ranks]])

    def farthest(self, lengths: Floats) -> float:
        """Largest distance."""
        return float(self.distances(lengths).max())

    def first_beta(self) -> float:
        """So small that all short ways count."""
        return float(FIRST_BETA * np.log(self.most_out + 1) / self.distances(self.lengths()).mean())

    def offer(self, lengths: Floats) -> None:
        """Keep lengths if they prove more than those before."""
        bound = float(self.capacity @ lengths / self.distances(lengths).sum()) * self.unit
        if bound < self.best.bound:
            self.best = PairLengths(bound, self.best.reached, lengths)

    def least_at(self, beta: float, stop: Stop) -> None:
        """Descend until the smoothed bound is least."""
        from scipy.optimize import minimize

        def look(_: Any) -> None:
            if stop.reason() is not None:
                raise StopIteration

        options = {"maxiter": MOST_STEPS, "maxcor": 30, "gtol": 1e-11, "ftol": 1e-15}
        found = minimize(
            self._smoothed, self.parts * len(self.parts), (beta,), "L-BFGS-B", jac=True, callback=look,
            bounds=[(0.0, None)] * len(self.parts), options=options,
        )  # fmt: skip
        self.parts = found.x / found.x.sum()

    def _smoothed(self, parts: Floats, beta: float) -> tuple[float, Floats]:
        """Minus the logarithm of the smoothed sum of distances, and its slope by the parts."""
        self.parts = parts
        whole = parts.sum()
        if whole <= 0:
            return np.inf, np.zeros(len(parts))
        length = self.lengths()
        weight = self.chance * np.exp(-beta * length)
        walks = np.zeros(self.pairs.shape)
        walks[self.tails, self.heads] = weight
        visits = np.linalg.inv(np.eye(len(walks)) - walks)
        if visits[self.pairs].min() < 1e-300:
            return np.inf, np.zeros(len(length))
        own = np.diag(visits).copy()
        total = (self.sources @ np.log(own) - np.log(visits[self.pairs]).sum()) / beta
        over = np.where(self.pairs, 1.0 / np.where(self.pairs, visits, 1.0), 0.0)
        passes = visits.T @ (over @ visits.T) - visits.T @ ((self.sources / own)[:, None] * visits.T)
        load = passes[self.tails, self.heads] * weight
        reached = float(self.unit / (load / self.capacity).max())
        if reached > self.best.reached:
            self.best = PairLengths(self.best.bound, reached, self.best.lengths)
        slope = -load / self.capacity / total
        return -float(np.log(total)), (slope - slope @ parts / whole) / whole
