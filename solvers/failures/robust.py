"""Topologies that stand the failure of any single link best: exact for few servers, else by exchanges of link ends.

The value of a network X is theta of the worst X - f, f a link of X, its demand routed anew. A cut Y from prices
(`solvers.network.exact.local.price_cut`) has lambda(X') <= sum Y X' for every X', so

    lambda(X - f) <= sum Y X - Y_f,    lambda of the worst <= sum Y X - max_{f in X} Y_f,

which rules out most networks without any routing; of a network not ruled out, the failures with the least bound are
routed first, and the rest only while it may still be the best. One more link never makes the worst failure worse (its
own failure leaves the network as it was), so that exhaustive enumeration looks at networks without room for any.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from solvers.network.exact.all_networks import maximal_networks
from solvers.network.exact.local import neighbours, price_cut
from solvers.network.exact.routed import Counts, relaxed_theta
from solvers.network.exact.space import Space
from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.failures import LinkEnds

SLACK = 1e-7
"""Relative: linear programs are solved to about this much."""


@dataclass(frozen=True, eq=False)
class WorstTheta:
    """A network with its theta without failure, and with the worst single link failure."""

    counts: Counts
    nominal: float
    worst: float
    link: LinkEnds


@dataclass(eq=False)
class RobustSearch:
    """Values of networks, cheapest proofs first.

    Attributes:
        space: what is allowed.
        nominal_limit: largest theta without failure allowed.
        cuts: learned so far.
        programs: linear programs solved.
    """

    space: Space
    nominal_limit: float = np.inf
    cuts: list[Floats] = field(default_factory=list)
    programs: int = 0

    def links(self, counts: Counts) -> list[LinkEnds]:
        """Pairs with links; of fibre pairs the smaller server first."""
        upper = np.triu(counts) if self.space.bidirectional else counts
        return [(int(i), int(j)) for i, j in np.argwhere(upper > 0)]

    def without(self, counts: Counts, link: LinkEnds) -> Counts:
        """The network without one link of a pair."""
        left = counts.copy()
        left[link] -= 1
        if self.space.bidirectional:
            left[link[::-1]] -= 1
        return left

    def limits(self, table: Floats, cut: Floats) -> tuple[Floats, Floats]:
        """float64[k] twice: bounds by a cut on lambda of networks (rows of link counts), whole and at their worst."""
        whole = table @ cut.ravel()
        price = (cut + cut.T if self.space.bidirectional else cut).ravel()
        dearest = np.max(np.where(table > 0, price, 0.0), axis=1)
        return whole, whole - dearest

    def value(self, counts: Counts, beat: float) -> WorstTheta | None:
        """The value of a network; None if it is not below `beat`, breaks the nominal limit, or cuts demand off."""
        nominal = self._theta(counts)
        if nominal is None or nominal > self.nominal_limit * (1 + SLACK) or nominal >= beat:
            return None
        links = self.links(counts)
        suspects = sorted(links, key=lambda link: self._limit(self.without(counts, link)))
        worst, where = nominal, suspects[0]
        for link in suspects:
            theta = self._theta(self.without(counts, link))
            if theta is None or theta >= beat:
                return None
            if theta > worst:
                worst, where = theta, link
        return WorstTheta(counts, nominal, worst, where)

    def _limit(self, counts: Counts) -> float:
        """Least bound on lambda of the cuts known."""
        return min((float((counts * cut).sum()) for cut in self.cuts[-40:]), default=np.inf)

    def _theta(self, counts: Counts) -> float | None:
        relaxed = relaxed_theta(self.space.demand, counts)
        self.programs += 1
        if relaxed is None:
            return None
        cut = price_cut(self.space.demand, counts, relaxed[2])
        if cut is not None:
            self.cuts.append(cut)
        return relaxed[0]


@dataclass(eq=False)
class _Queue:
    """Networks to look at, the most promising first, each once."""

    search: RobustSearch
    networks: Counts
    used: int = 0

    def __post_init__(self) -> None:
        entries = self.search.space.problem.servers**2  # -1 is no size where there are no networks
        self.table = self.networks.reshape(len(self.networks), entries).astype(np.float64)
        self.limit = np.full(len(self.networks), np.inf)
        self.whole = self.limit.copy()

    def next_below(self, theta: float) -> Counts | None:
        """The untried network of the largest bound on the worst lambda, if its worst theta may be below `theta`."""
        for cut in self.search.cuts[self.used :]:
            whole, worst = self.search.limits(self.table, cut)
            np.minimum(self.limit, worst, out=self.limit)
            np.minimum(self.whole, whole, out=self.whole)
        self.used = len(self.search.cuts)
        if not len(self.networks):
            return None
        bad = self.whole < (1 - SLACK) / self.search.nominal_limit
        self.limit[bad] = -np.inf
        k = int(np.argmax(self.limit))
        if self.limit[k] <= (1 + SLACK) / theta:
            return None
        self.limit[k] = -np.inf
        counts: Counts = self.networks[k]
        return counts


def exhaustive(search: RobustSearch, known: WorstTheta | None, stop: Stop) -> tuple[WorstTheta | None, bool]:
    """The best of all networks, and whether none was left out (for at most five servers).

    Raises:
        InputError: too many networks.
    """
    best = known
    queue = _Queue(search, maximal_networks(search.space))
    while True:
        counts = queue.next_below(np.inf if best is None else best.worst)
        if counts is None:
            return best, True
        if stop.reason() is not None:
            return best, False
        if search.space.fits(counts):
            best = search.value(counts, np.inf if best is None else best.worst) or best


def exchanged(
    search: RobustSearch, starts: list[Counts], goal: float, stop: Stop, *, programs: int
) -> WorstTheta | None:
    """Exchanges of link ends from every start, first improvement by the most promising bound; None if all fail.

    Args:
        goal: a proven bound on the worst theta; the search ends when it is reached.
        programs: linear programs at most; each start gets its part.
    """
    best: WorstTheta | None = None
    for place, start in enumerate(starts):
        current: WorstTheta | None = None
        queue = _Queue(search, start[None])
        last = search.programs + (programs - search.programs) // (len(starts) - place)
        while search.programs < last and (best is None or stop.reason() is None):
            counts = queue.next_below(np.inf if current is None else current.worst)
            if counts is None:
                break
            if not search.space.fits(counts):
                continue
            better = search.value(counts, np.inf if current is None else current.worst * (1 - SLACK))
            if better is None:
                continue
            current = better
            if best is None or current.worst < best.worst:
                best = current
            if best.worst <= goal * (1 + SLACK):
                return best
            queue = _Queue(search, np.array(neighbours(search.space, current.counts)).reshape(-1, *start.shape))
    return best
