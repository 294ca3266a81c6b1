"""Least largest utilisation by its dual in lengths of links: soft shortest paths, L-BFGS, mixtures of what was seen.

With lengths l, sum c l = C fixed, sum D dist_l / C bounds theta (weak duality): only m numbers are unknown. Soft minima
make distances smooth, and their slope is a routing, so that one pass over all sources gives bound, loads and slope. No
flow is kept: a mixture of routings has the mixture of their loads, and a flow is built again from its lengths.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from solvers.network.routing.frank_wolfe import Potential
from solvers.network.routing.mixing import Mixtures, Routing
from solvers.network.routing.near_paths import NearPaths
from solvers.network.routing.proof import RoutingProof
from solvers.network.routing.quasi_newton import Curvature
from topoopt.core.arrays import Floats
from topoopt.core.errors import LimitError

_SLICE = 20_000_000
"""Arcs times sources between looks at the clock: about a tenth of a second."""

_SOFTNESS = 0.02
"""Of the mean distance, at the start; where it is much more, the set of paths jumps."""

_FINEST = 1e-7
_BARRIER = 0.1
"""Of the softness: price of a length near 0, without which links that are not full would not come back."""

_LOWEST = 30.0
"""Logarithm of the largest ratio of lengths, before `_FLOOR` of their mean is added to all."""

_FLOOR = 1e-6
_TRIALS = 6
_ROUND = 20
"""Passes between mixtures."""

_STAGE = 40
"""Passes at one softness, at most."""

_WIDTH = 4.0
"""Lateness of a path, in units of the softness, up to which it counts as nearly shortest."""

_ENTRIES, _ENTRY = 12_000, 2_000
"""Size of a program over nearly shortest paths, at most; an entry takes it as long as so many arcs take a pass."""

_FEW_PAIRS, _FEW_ENTRIES = 6, 60_000
"""Pairs with demand, per server, up to which it may be larger: entries that share no arc with many others are quick."""

_SLOW, _PATIENCE = 0.8, 4
"""A gap that shrinks to no less than this in so many rounds is left to another method."""

_MOST = 3_000
_SWEEPS = 200
_FEW = (4, 8, 12, 16, 24, 32, 48)
"""Routings in a mixture that is built, each one more pass: the least that do, of one that is not cheap."""

_CHEAP = 20_000_000
"""Sources times arcs, over all passes, up to which a flow is built of the whole mixture."""

_HUGE = 30_000_000
"""Sources times arcs from which on a pass takes seconds: the search ends in time for one, and offers nothing before."""


class _Point(NamedTuple):
    """Logarithms of lengths, value and slope there; `hard` is sum D d.

    `excess`: of the mean utilisation, at the lengths of the bound, above the bound; 0 where all take shortest paths.
    `priced`: of the largest above the mean that the barrier allows where value is least.
    """

    y: Floats
    hard: float
    value: float
    slope: Floats
    imbalance: float
    excess: float
    priced: float


class _Search:
    """Best bound and best mixture so far, of demand scaled to sum 1."""

    def __init__(self, proof: RoutingProof) -> None:
        self.proof, net = proof, proof.network
        self.total = float(net.demand.sum())
        self.capacity = float(net.capacity.sum())
        self.share = net.capacity / self.capacity
        self.passes = 0
        self.huge = net.columns > _HUGE
        self.pass_s = 0.0
        self.softness, self.barrier = 0.0, np.inf
        self.bound, self.lengths = 0.0, np.ones(len(net.head))
        self.mixtures = Mixtures()
        few = np.count_nonzero(net.demand) <= _FEW_PAIRS * net.servers
        self.entries = _FEW_ENTRIES if few else _ENTRIES
        self.narrowed, self.tried = np.inf, 0

    @property
    def gap(self) -> float:
        """Relative."""
        return 1.0 - self.bound / self.mixtures.theta

    @property
    def done(self) -> bool:
        """Proven, but for what sums lose."""
        return self.gap <= 0.98 * self.proof.accuracy

    def run(self) -> None:
        """Stages of ever less softness, until done, slow or late (LimitError)."""
        relative = _SOFTNESS
        self._soften(relative, self._pass(np.ones(len(self.share)), 1.0)[0])
        x, known = self._at(np.zeros(len(self.share))), Curvature()
        stalls, mixed, stage, gaps = 0, self.passes, self.passes, [np.inf] * _PATIENCE
        while not self.done and self.passes < _MOST:
            imbalance = x.imbalance
            if self.passes - mixed >= _ROUND:
                mixture = self.mixtures.mix(self.bound, self.proof.time_left_s)
                imbalance = min(imbalance, mixture - x.excess - self.bound)
                mixed = self.passes
                gaps.append(self.gap)
                if self.done or self._narrow() or gaps[-1] > _SLOW * gaps[-1 - _PATIENCE]:
                    break
            level = imbalance < 0.5 * x.excess + 1.5 * x.priced
            if level and x.priced > x.excess:  # the barrier is what holds it; paths stay as they are
                self.barrier /= 4
                x = self._at(x.y)
            elif stalls >= 3 or self.passes - stage >= _STAGE or level:
                if relative < _FINEST:
                    break
                relative, before = relative / 2, self.softness
                self._soften(relative, x.hard)
                known.scale(before / self.softness)
                stalls, stage = 0, self.passes
                x = self._at(x.y)
            elif not 0.67 <= self.softness / (relative * x.hard) <= 1.5:
                self._soften(relative, x.hard)
                known.forget()
                x = self._at(x.y)
            found = self._step(x, known.direction(x.slope, 2.5 * relative * len(x.y)))
            if found is None:
                known.forget()
                stalls += 1
            else:
                known.add(found.y - x.y, found.slope - x.slope)
                x = found

    def give(self) -> None:
        """Offer the best lengths, and the flow of the best mixture."""
        net = self.proof.network
        self.proof.offer_lengths(self.lengths)
        flow = np.zeros((net.servers, len(net.head)))
        mixed = self.mixtures.mixed
        if len(mixed) * net.columns > _CHEAP:
            enough = max(self.mixtures.theta, self.bound / (1.0 - 0.99 * self.proof.accuracy))
            mixed = self.mixtures.thin((1, *_FEW) if self.huge and self._late() else _FEW, enough, self._late)
        for part, routing in mixed:
            self._pass(routing.lengths, routing.softness, part * self.total, flow)
        self.proof.offer_flow(flow)

    def _soften(self, relative: float, hard: float) -> None:
        self.softness = relative * hard
        self.barrier = min(self.barrier, _BARRIER * relative)

    def _pass(
        self, lengths: Floats, softness: float, amount: float = 1.0, flow: Floats | None = None
    ) -> tuple[float, float, Floats]:
        """sum D d, sum D phi and loads, float64[m], of `amount` in all, added to a flow if there is one.

        LimitError when the time is up, unless there is a flow.
        """
        net, began = self.proof.network, time.monotonic()
        n, m = net.servers, len(net.head)
        load, hard, soft = np.zeros(m), 0.0, 0.0
        step = max(1, _SLICE // (m + n))
        for begin in range(0, n, step):
            if flow is None and (self.mixtures.mixed or self.huge) and self._late():
                raise LimitError("the time was up within a pass")
            d, phi, of_these = self.proof.router.soft_loads(
                lengths, softness, amount, self.total, begin, min(n, begin + step), flow
            )
            hard, soft, load = hard + d, soft + phi, load + of_these
        self.passes += 1
        self.pass_s = time.monotonic() - began
        return hard, soft, load

    def _late(self) -> bool:
        """Whether the time is up, or there is just enough left to build what was found."""
        left = self.proof.time_left_s
        return self.proof.late or (self.huge and left is not None and left < 3.0 * self.pass_s)

    def _at(self, y: Floats) -> _Point:
        """-log(sum D phi / C) - barrier * sum p log l with p = c / C, and its slope by y; l ~ exp(y)."""
        c, total = self.proof.network.capacity, self.capacity
        y = np.maximum(y - y.max(), -_LOWEST)
        grown = np.exp(y)
        lengths = grown + _FLOOR * grown.mean()
        scale = total / float(c @ lengths)
        lengths, grown = lengths * scale, grown * scale
        hard, soft, load = self._pass(lengths, self.softness)
        use = load / c
        routing = Routing(lengths, self.softness, use, float(use.max()))
        self.mixtures.add(routing)
        if hard / total > self.bound:
            self.bound, self.lengths = hard / total, lengths
        mean = float(lengths @ load) / total
        priced = float(self.lengths @ load) / total
        allowed = self.barrier * self.mixtures.theta * (1.0 - 1.0 / lengths.max())
        state = routing.theta - priced, priced - self.bound, allowed
        if soft <= 0.0:  # lengths so unlike that the softness is more than most distances
            return _Point(y, hard, np.inf, np.zeros_like(y), *state)
        # the softness stays when lengths are scaled, so scaling costs their mean utilisation, not soft / C
        slope = -grown * (load - mean * c) / soft
        slope -= self.barrier * (grown / lengths) * (self.share - lengths * self.share)
        value = -np.log(soft / total) - self.barrier * float(self.share @ np.log(lengths))
        return _Point(y, hard, value, slope, *state)

    def _step(self, x: _Point, direction: Floats) -> _Point | None:
        """A point far enough below, or any when done; None: there is none along this direction."""
        along = float(direction @ x.slope)
        if along >= 0.0:
            return None
        t = min(1.0, 1.0 / float(np.abs(direction).max()))
        for _ in range(_TRIALS):
            found = self._at(x.y + t * direction)
            if self.done or found.value <= x.value + 1e-4 * t * along + 1e-12:
                return found
            rise = float(found.slope @ direction)
            t *= min(max(along / (along - rise), 0.1), 0.5) if rise > 0 else 0.5
        return None

    def _narrow(self) -> bool:
        """Whether paths that are nearly shortest now gave a proof.

        Tried where they are few enough, once for a softness, and where passes made so far, times how much the gap has
        still to shrink, would take longer.
        """
        proof = self.proof
        shrink = self.gap / max(proof.accuracy, _FINEST)
        most = int(min(self.entries, self.passes * proof.network.columns * shrink / _ENTRY - self.tried))
        if self.huge or most <= 0 or self.softness > 0.6 * self.narrowed:
            return False
        near = NearPaths(proof, _WIDTH * self.softness, self.entries)
        entries = near.widen(self.lengths, near.width)
        if entries > most:
            return False
        self.narrowed, self.tried = self.softness, self.tried + entries
        proof.offer_lengths(self.lengths)
        near.improve(self.lengths)
        if proof.bound > self.bound * self.total:
            capacity = proof.network.capacity
            self.bound = proof.bound / self.total
            self.lengths = proof.lengths * (self.capacity / float(capacity @ proof.lengths))
        return proof.proven


def softmin(proof: RoutingProof) -> int:
    """Passes over all sources until proven, late or slow, then sweeps of Frank-Wolfe; returns how many passes.

    Raises:
        LimitError: the time for a huge network was up before anything was found.
    """
    search = _Search(proof)
    if not search.huge:
        proof.offer_shortest()
        if proof.proven or proof.late:
            return 1
    with suppress(LimitError):
        search.run()
    if not search.mixtures.mixed:
        raise LimitError("the time was up before a routing was found")
    if not proof.proven:
        search.give()
    if not (proof.proven or proof.late) and proof.flow is not None:
        Potential(proof, proof.flow.copy()).improve(_SWEEPS)
    return search.passes
