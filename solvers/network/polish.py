"""Exact polish: swaps on theta itself, screened by dual cuts that hold for every topology. How hard a topology search
works, in counts rather than seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from solvers.network.annealing import LinkTable
from solvers.stop import Stop
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.native import search

SWEEPS = 1600
"""Most gradient sweeps of one evaluation; the bound is then within about 1e-5 of theta."""

POOL = 80
GAIN = 2e-5
"""Least relative gain in theta that counts."""

SWEEP_WORK = 3_500_000_000
"""Most work of a polish in link-source pairs swept: about ten seconds, whatever the evaluations turn out to cost.
More in proportion where more evaluations than the default are asked for."""

FAR = 3
"""Every so many local optima the search goes on from a random topology."""

_KICKS = 3
_TRUST = 2e-3


@dataclass(eq=False)
class _Point:
    """A topology, its theta as far as the gradient found it, and where to start the next evaluation."""

    out: Ints
    theta: float
    flow: Floats
    potential: Floats
    length: Floats


@dataclass(eq=False)
class _Polish:
    table: LinkTable
    demand: Floats
    allowed: Bools
    parallel: bool
    scale: float
    cuts: list[Floats] = field(default_factory=list)
    evaluations: int = 0
    sweeps: int = 0

    def price(self, out: Ints, start: _Point | None, target: float) -> _Point:
        """Evaluate until theta >= target is proven, or to the end; the lengths become a cut."""
        n, d = out.shape
        if start is None:
            point = _Point(out, np.inf, np.zeros((n * d, n)), np.zeros((n, n)), np.full(n * d, 1.0 / (n * d)))
        else:
            point = _Point(out, np.inf, start.flow.copy(), start.potential.copy(), start.length.copy())
            moved = np.flatnonzero((out != start.out).ravel())
            distance = search.link_distances(start.out, start.length)
            point.flow[moved] = 0.0
            point.length[moved] = distance[moved // d, out.ravel()[moved]]
        bound, estimate, used, best_length = search.price_links(
            out, self.demand, target / self.scale, SWEEPS, 0.2, point.flow, point.potential, point.length
        )
        self.evaluations += 1
        self.sweeps += used
        self._add_cut(out, best_length)
        proven = bound * self.scale
        if proven >= target:
            point.theta = proven
        else:  # not trusted while the two ends are apart
            point.theta = max(proven, estimate * self.scale) if abs(estimate - bound) < _TRUST * bound else np.inf
        return point

    def _add_cut(self, out: Ints, length: Floats) -> None:
        distance = search.link_distances(out, length)
        total = float((self.demand * np.where(self.demand > 0, distance, 0.0)).sum()) * self.scale
        if np.isfinite(total) and total > 0 and np.isfinite(distance).all():
            self.cuts.append(distance / total)
            del self.cuts[:-POOL]

    def swap_bounds(self, out: Ints, cut: Floats) -> Floats:
        """float64[m, m]: what the cut allows lambda to be after exchanging the heads of two links."""
        n, d = out.shape
        tails, heads = np.repeat(np.arange(n), d), out.ravel()
        value = cut + cut.T if self.table.paired else cut
        cross = value[np.ix_(tails, heads)]
        own = value[tails, heads]
        now = float(cut[tails, heads].sum())
        return np.asarray(now + cross + cross.T - own[:, None] - own[None, :], dtype=np.float64)

    def screened(self, out: Ints) -> Floats:
        """float64[m, m]: least bound over all cuts; -inf where the swap is not allowed, or stands twice."""
        least = np.full((out.size, out.size), np.inf)
        for cut in self.cuts:
            np.minimum(least, self.swap_bounds(out, cut), out=least)
        least[~self.legal(out)] = -np.inf
        return least

    def legal(self, out: Ints) -> Bools:
        """bool[m, m]: which two links may exchange heads, each exchange once."""
        n, d = out.shape
        tails, heads = np.repeat(np.arange(n), d), out.ravel()
        fits = self.allowed[np.ix_(tails, heads)]
        if not self.parallel:
            joined = np.zeros((n, n), dtype=np.bool_)
            joined[tails, heads] = True
            fits = fits & ~joined[np.ix_(tails, heads)]
        fits = fits & fits.T & (tails[:, None] != tails[None, :]) & (heads[:, None] != heads[None, :])
        if self.table.paired:
            lit = tails != heads
            fits = (
                fits
                & lit[:, None]
                & lit[None, :]
                & self.allowed[np.ix_(heads, tails)]
                & self.allowed[np.ix_(heads, tails)].T
            )
        return np.asarray(fits & (np.arange(n * d)[:, None] < np.arange(n * d)[None, :]), dtype=np.bool_)

    def swapped(self, out: Ints, first: int, second: int) -> Ints:
        """Heads after exchanging the ends of two links (numbers into the flat table)."""
        d = out.shape[1]
        new = out.copy()
        i, j, k, l = first // d, out.flat[first], second // d, out.flat[second]  # noqa: E741
        new.flat[first], new.flat[second] = l, j
        if self.table.paired:
            # the opposite arcs, found after the first two moved: j -> i becomes j -> k, l -> k becomes l -> i
            new[j, int(np.flatnonzero(new[j] == i)[0])] = k
            new[l, int(np.flatnonzero(new[l] == k)[0])] = i
        return new


def polish(
    table: LinkTable,
    demand: Floats,
    allowed: Bools,
    *,
    evaluations: int,
    parallel: bool = True,
    goal: float = 0.0,
    seed: int = 0,
    stop: Stop | None = None,
) -> tuple[Ints, int, Floats]:
    """Improve theta by swaps until the evaluations are used up; local optima are left by random swaps.

    Args:
        goal: a proven lower bound on theta; reaching it ends the search.

    Returns:
        int64[n, d], heads of the best topology; topologies priced; float64[c, n, n], the last cuts, each with
        lambda(X) <= sum cut_ab X_ab for every topology X.
    """
    n = len(demand)
    demand = np.ascontiguousarray(demand)
    rng = np.random.default_rng(seed)
    hops = float(demand.sum()) / table.out.size
    longer = max(1.0, evaluations / default_evaluations(n))
    sweeps = int(SWEEP_WORK * longer) // (n * table.out.size)
    work = _Polish(table, demand / (2.0 * hops), allowed, parallel, 2.0 * hops)
    current = work.price(table.out, None, np.inf)
    work.scale, work.demand = current.theta, demand / current.theta  # theta near 1 suits the gradient's steps
    current = work.price(table.out, None, np.inf)
    best = current
    optima = 0
    bounds = work.screened(current.out)
    while work.evaluations < evaluations and work.sweeps < sweeps and (stop is None or stop.reason() is None):
        if best.theta <= goal * (1.0 + GAIN):
            break
        target = current.theta * (1.0 - GAIN)
        index = int(bounds.argmax())
        if bounds.flat[index] * target <= 1.0:
            optima += 1
            current = _kicked(work, best, rng, far=optima % FAR == 0)
            bounds = work.screened(current.out)
            continue
        first, second = divmod(index, bounds.shape[1])
        bounds[first, second] = -np.inf
        trial = work.price(work.swapped(current.out, first, second), current, target)
        if trial.theta < target:
            current = trial
            bounds = work.screened(current.out)
            if current.theta < best.theta * (1.0 - GAIN):
                best = current
        elif work.cuts:
            np.minimum(bounds, work.swap_bounds(current.out, work.cuts[-1]), out=bounds)
    return best.out, work.evaluations, np.array(work.cuts).reshape(-1, n, n)


def _kicked(work: _Polish, best: _Point, rng: np.random.Generator, *, far: bool) -> _Point:
    """A few random allowed swaps away from the best topology, or as many as there are links, evaluated."""
    for _ in range(100):
        out = best.out
        for _ in range(best.out.size if far else int(rng.integers(_KICKS, 2 * _KICKS))):
            legal = np.flatnonzero(work.legal(out))
            if len(legal) == 0:
                break
            first, second = divmod(int(rng.choice(legal)), out.size)
            out = work.swapped(out, first, second)
        point = work.price(out, best, np.inf)
        if np.isfinite(point.theta):
            return point
    return best


@dataclass(frozen=True)
class SearchBudget:
    """How hard to search.

    Attributes:
        proposals: swaps the annealing proposes; None: by size, seconds of work.
        evaluations: topologies the polish prices; None: by size, seconds of work. More of them may take as much longer.
        accuracy: relative gap between theta and its bound in the last routing.
        circulants_only: end with the best seed that looks the same from every server, as routes of others are too many.
    """

    proposals: int | None = None
    evaluations: int | None = None
    accuracy: float = 1e-4
    circulants_only: bool = False


def default_proposals(n: int) -> int:
    """Annealing of two seconds up to 32 servers, a quarter of a minute up to 64, half a minute up to 128."""
    if n <= 32:
        return 400_000 if n <= 8 else 1_000_000 if n <= 16 else 4_000_000
    return 36_000_000 if n <= 64 else 20_000_000 if n <= 128 else 5_000_000


def default_evaluations(n: int) -> int:
    """Evaluations of a polish that takes about ten seconds."""
    return 8_000 if n <= 8 else 12_000 if n <= 20 else 8_000 if n <= 40 else 1_500 if n <= 80 else 200


def budget_of(n: int, proposals: int | None, accuracy: float, *, circulants_only: bool = False) -> SearchBudget:
    """So many proposals, and a polish that is harder or easier than the default as the annealing is."""
    evaluations = None if proposals is None else proposals * default_evaluations(n) // default_proposals(n)
    return SearchBudget(proposals, evaluations, accuracy, circulants_only)
