"""The dual of routing in lengths of links is ascended by L-BFGS over soft shortest paths; mixtures of the routings are
the primal.

Least largest utilisation by its dual in lengths of links: soft shortest paths, L-BFGS, mixtures of what was seen.

With lengths l, sum c l = C fixed, sum D dist_l / C bounds theta (weak duality): only m numbers are unknown. Soft minima
make distances smooth, and their slope is a routing, so that one pass over all sources gives bound, loads and slope. No
flow is kept: a mixture of routings has the mixture of their loads, and a flow is built again from its lengths.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from formulations import mixtures
from solvers.backends.highs import highs_model
from solvers.network.flows import RoutingProof
from solvers.network.linear import NearPaths, frank_wolfe
from topoopt.core.arrays import Floats
from topoopt.core.errors import LimitError


class Curvature:
    """The last steps and how each changed the slope."""

    def __init__(self) -> None:
        self.pairs: list[tuple[Floats, Floats]] = []

    def add(self, step: Floats, change: Floats) -> None:
        """A step and its change of slope, float64[m] each; left out where the function is not convex along it."""
        if step @ change > 1e-10 * np.linalg.norm(step) * np.linalg.norm(change):  # else the pair says nothing
            self.pairs = [*self.pairs[1 - 20 :], (step, change)]

    def scale(self, factor: float) -> None:
        """The function bends so many times as much from now on."""
        self.pairs = [(step, change * factor) for step, change in self.pairs]

    def forget(self) -> None:
        """Nothing is known of the function any more."""
        self.pairs = []

    def direction(self, slope: Floats, first: float) -> Floats:
        """-H slope, float64[m]; `first` stands for H as long as there is no pair."""
        d, parts = -slope, []
        for step, change in reversed(self.pairs):
            part = (step @ d) / (step @ change)
            d = d - part * change
            parts.append(part)
        if self.pairs:
            step, change = self.pairs[-1]
            first = float((step @ change) / (change @ change))
        d = d * first
        for (step, change), part in zip(self.pairs, reversed(parts), strict=True):
            d = d + (part - (change @ d) / (step @ change)) * step
        return np.asarray(d)


_KEPT = 400
"""Routings in a mixture, at most: then those with a part of it stay, and as many of the last as make half of it."""

_STEPS = 100_000
"""Of the simplex method at most: columns that tie may keep it going round."""

_TIGHT = 1e-9


class Routing(NamedTuple):
    """What makes a routing, and its utilisations, float64[m]."""

    lengths: Floats
    softness: float
    utilisation: Floats
    theta: float


class Master:
    """The program of a mixture, which grows. Primal simplex: a new column leaves the last basis feasible."""

    def __init__(self, utilisation: Floats, unit: float) -> None:
        """Start from one routing, float64[m]; `unit` is about the theta to be found."""
        import highspy

        self.use, self.unit = [utilisation], unit
        self.solver = highspy.Highs()
        for name, value in {
            "output_flag": False,
            "threads": 1,
            "presolve": "off",
            "simplex_strategy": 4,  # primal
            "simplex_iteration_limit": _STEPS,
            "primal_feasibility_tolerance": _TIGHT,
            "dual_feasibility_tolerance": _TIGHT,
        }.items():
            self.solver.setOptionValue(name, value)
        self.solver.passModel(highs_model(mixtures.mixture_arrays(utilisation[None] / unit)))

    def add(self, utilisation: Floats) -> None:
        """One more routing, float64[m]."""
        rows = np.arange(len(utilisation) + 1, dtype=np.int32)
        self.solver.addCol(0.0, 0.0, np.inf, len(rows), rows, np.concatenate(([1.0], utilisation / self.unit)))
        self.use.append(utilisation)

    def best(self, time_s: float | None = None) -> tuple[Floats, float]:
        """Parts, float64[K] of sum 1, and the theta of this mixture; infinite where the time was up before any."""
        if time_s is not None:  # the limit counts from the solver's first run
            self.solver.setOptionValue("time_limit", self.solver.getRunTime() + max(time_s, 1e-3))
        self.solver.run()
        solution = self.solver.getSolution()
        part = np.maximum(np.delete(np.array(solution.col_value), 1), 0.0)  # the second column is theta
        whole = float(part.sum())
        if not (solution.value_valid and whole > 0.5):
            return np.zeros(len(self.use)), np.inf
        part /= whole
        return part, float((part @ np.array(self.use)).max())


class Mixtures:
    """Routings seen, and the best mixture of them: its parts, and its theta, infinite before there is any."""

    def __init__(self) -> None:
        self.theta = np.inf
        self.mixed: list[tuple[float, Routing]] = []
        self._seen: list[Routing] = []
        self._master: Master | None = None

    def add(self, routing: Routing) -> None:
        self._seen.append(routing)
        if routing.theta < self.theta:
            self.theta, self.mixed = routing.theta, [(1.0, routing)]

    def mix(self, unit: float, time_s: float | None) -> float:
        """Least theta of a mixture of all that was seen, kept if it is the best so far; `unit` is about that."""
        if self._master is not None and len(self._seen) > _KEPT:
            last = self._seen[-_KEPT // 2 :]
            current = {id(mixed) for mixed in last}
            self._seen = [*(mixed for _, mixed in self.mixed if id(mixed) not in current), *last]
            self._master = None
        if self._master is None:
            self._master = Master(self._seen[0].utilisation, unit)
        for mixed in self._seen[len(self._master.use) :]:
            self._master.add(mixed.utilisation)
        part, theta = self._master.best(time_s)
        if theta < self.theta:
            self.theta, self.mixed = theta, _parts(part, self._seen)
        return theta

    def thin(self, counts: Iterable[int], enough: float, late: Callable[[], bool]) -> list[tuple[float, Routing]]:
        """Few routings in the mixture: as few of the heaviest, of these counts, as give a theta of `enough`.

        Args:
            late: asked after each count: whether there is no time for another.
        """
        whole = sorted(self.mixed, key=lambda addend: -addend[0])
        for count in counts:
            if count >= len(whole):
                break
            few = [routing for _, routing in whole[:count]]
            master = Master(few[0].utilisation, self.theta)
            for addend in few[1:]:
                master.add(addend.utilisation)
            part, theta = master.best()
            if theta <= enough or late():
                return _parts(part, few)
        return whole


def _parts(part: Floats, routings: list[Routing]) -> list[tuple[float, Routing]]:
    return [(p, routing) for p, routing in zip(part.tolist(), routings, strict=True) if p > 0.0]


_FINEST = 1e-7

_FLOOR = 1e-6

_ENTRIES, _ENTRY = 12_000, 2_000
"""Size of a program over nearly shortest paths, at most; an entry takes it as long as so many arcs take a pass."""

_FEW_PAIRS, _FEW_ENTRIES = 6, 60_000
"""Pairs with demand, per server, up to which it may be larger: entries that share no arc with many others are quick."""

_SLOW, _PATIENCE = 0.8, 4
"""A gap that shrinks to no less than this in so many rounds is left to another method."""

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
        return 1.0 - self.bound / self.mixtures.theta

    @property
    def done(self) -> bool:
        """Proven, but for what sums lose."""
        return self.gap <= 0.98 * self.proof.accuracy

    def run(self) -> None:
        """Stages of ever less softness, until done, slow or late (LimitError)."""
        relative = 0.02  # of the mean distance, at the start; where it is much more, the set of paths jumps
        self._soften(relative, self._pass(np.ones(len(self.share)), 1.0)[0])
        x, curvature = self._at(np.zeros(len(self.share))), Curvature()
        stalls, mixed, stage, gaps = 0, self.passes, self.passes, [np.inf] * _PATIENCE
        while not self.done and self.passes < 3_000:
            imbalance = x.imbalance
            if self.passes - mixed >= 20:  # passes between mixtures
                mixture = self.mixtures.mix(self.bound, self.proof.stop.remaining_s())
                imbalance = min(imbalance, mixture - x.excess - self.bound)
                mixed = self.passes
                gaps.append(self.gap)
                if self.done or self._narrow() or gaps[-1] > _SLOW * gaps[-1 - _PATIENCE]:
                    break
            level = imbalance < 0.5 * x.excess + 1.5 * x.priced
            if level and x.priced > x.excess:  # the barrier is what holds it; paths stay as they are
                self.barrier /= 4
                x = self._at(x.y)
            elif stalls >= 3 or self.passes - stage >= 40 or level:  # passes at one softness, at most
                if relative < _FINEST:
                    break
                relative, before = relative / 2, self.softness
                self._soften(relative, x.hard)
                curvature.scale(before / self.softness)
                stalls, stage = 0, self.passes
                x = self._at(x.y)
            elif not 0.67 <= self.softness / (relative * x.hard) <= 1.5:
                self._soften(relative, x.hard)
                curvature.forget()
                x = self._at(x.y)
            step = self._step(x, curvature.direction(x.slope, 2.5 * relative * len(x.y)))
            if step is None:
                curvature.forget()
                stalls += 1
            else:
                curvature.add(step.y - x.y, step.slope - x.slope)
                x = step

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
        self.barrier = min(self.barrier, 0.1 * relative)  # without it links that are not full would not come back

    def _pass(
        self, lengths: Floats, softness: float, amount: float = 1.0, flow: Floats | None = None
    ) -> tuple[float, float, Floats]:
        """sum D d, sum D phi and loads, float64[m], of `amount` in all, added to a flow if there is one.

        LimitError when the time is up, unless there is a flow.
        """
        net, began = self.proof.network, time.monotonic()
        n, m = net.servers, len(net.head)
        load, hard, soft = np.zeros(m), 0.0, 0.0
        step = max(1, 20_000_000 // (m + n))  # arcs times sources between looks at the clock: about a tenth of a second
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
        left = self.proof.stop.remaining_s()
        return self.proof.late or (self.huge and left is not None and left < 3.0 * self.pass_s)

    def _at(self, y: Floats) -> _Point:
        """-log(sum D phi / C) - barrier * sum p log l with p = c / C, and its slope by y; l ~ exp(y)."""
        c, total = self.proof.network.capacity, self.capacity
        y = np.maximum(y - y.max(), -30.0)  # logarithm of the largest ratio of lengths
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
        for _ in range(6):
            point = self._at(x.y + t * direction)
            if self.done or point.value <= x.value + 1e-4 * t * along + 1e-12:
                return point
            rise = float(point.slope @ direction)
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
        near = NearPaths(proof, 4.0 * self.softness, self.entries)  # later paths are not nearly shortest
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
        frank_wolfe(proof, proof.flow.copy(), 200)
    return search.passes
