"""What more capacity would gain: a proven best case from the dual prices, checked by routing again.

For lengths l of a topology X with distances W and tot = sum D W, every topology X' has 1/theta(X') <= sum_ab W_ab X'_ab
/ tot (`topoopt.verify.network.topology_bounds.dual_cuts` has the proof). So one more link u -> v leaves theta at least
tot / (sum W X + W_uv): a prediction that errs on the hopeful side only. Candidates are routed again in that order; each
answer brings lengths, hence a prediction, of its own, so that often a few of them prove the best position of all.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from solvers.stop import Stop
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import CheckError
from topoopt.core.network import RoutingProblem
from topoopt.core.network_solution import NetworkSolution
from topoopt.core.topology import Topology
from topoopt.core.verdict import StopReason
from topoopt.kinds.explanation import options_within
from topoopt.kinds.network.explain_bottleneck import Bottleneck, length_bound
from topoopt.kinds.pipeline import solve

SAME = 1e-6
"""Relative difference of theta that counts as none."""


@dataclass
class ExplainEffort:
    """How much may be routed again.

    Attributes:
        stop: of all of it.
        checks: candidates for one more link to route again at most.
        late: whether that cut anything off.
    """

    stop: Stop = field(default_factory=Stop)
    checks: int = 8
    late: bool = field(default=False, init=False)

    def left_s(self) -> float | None:
        """Seconds left, None without a limit; notes when there are none."""
        left = 0.0 if self.stop.reason() is not None else self.stop.remaining_s()
        self.late = self.late or left == 0.0
        return left


@dataclass(frozen=True)
class Gain:
    """One change and what it does to theta.

    Attributes:
        pairs: (tail, head) of the arcs that get more.
        added: capacity that each gets, in units of a link.
        predicted: theta is proven not to fall below this.
        theta, bound: of the changed network, routed again and checked; None if not routed.
        lengths: of its arcs, that prove `bound`; None if not routed.
    """

    pairs: tuple[tuple[int, int], ...]
    added: Fraction
    predicted: float
    theta: float | None = None
    bound: float | None = None
    lengths: Floats | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class LinkGains:
    """Positions for one more link, best first, and whether the first is proven to be the best of all positions."""

    gains: tuple[Gain, ...]
    candidates: int
    best_proven: bool


def routed_again(problem: RoutingProblem, effort: ExplainEffort) -> NetworkSolution | None:
    """The problem solved anew and checked; None when the time is up.

    Raises:
        CheckError: the checker rejects the answer.
    """
    left = effort.left_s()
    if left == 0.0:
        return None
    found: NetworkSolution = solve(problem, options_within(effort.stop, "auto"))
    if not found.check.ok:
        raise CheckError("the checker rejects a routing of the changed network: " + "; ".join(found.check.violations))
    if found.stopped_by is StopReason.TIME:
        effort.late = True
    return found


def best_links(
    problem: RoutingProblem, bottleneck: Bottleneck, effort: ExplainEffort, allowed: Bools, shown: int = 5
) -> LinkGains:
    """Where one more link gains most; a link between a pair adds both arcs where links are fibre pairs.

    Args:
        allowed: bool[n, n], pairs that may have one.
        shown: at most so many in the answer.
    """
    topology = problem.topology
    both = topology.links is LinkDirection.BIDIRECTIONAL
    tails, heads = np.nonzero(np.triu(allowed | allowed.T) if both else allowed)
    if not len(tails):
        return LinkGains((), 0, True)
    predicted = _predicted(topology, topology, problem.demand, bottleneck.distance, tails, heads, both)
    floor = predicted.copy()
    checked: dict[int, NetworkSolution] = {}
    best = np.inf
    proven = False
    while True:
        open_floor = np.where(np.isin(np.arange(len(tails)), list(checked)), np.inf, floor)
        place = int(np.argmin(open_floor))
        if open_floor[place] >= best * (1 - SAME):
            proven = True
            break
        if len(checked) >= effort.checks:
            break
        changed = with_more(topology, _pairs(tails, heads, place, both), Fraction(1))
        found = routed_again(replace(problem, topology=changed), effort)
        if found is None:
            break
        checked[place] = found
        best = min(best, found.theta)
        _, distance = length_bound(changed, problem.demand, found.certificate.lengths)
        floor = np.maximum(floor, _predicted(topology, changed, problem.demand, distance, tails, heads, both))
    order = sorted(checked, key=lambda place: (checked[place].theta, place))
    order += [place for place in np.argsort(floor, kind="stable").tolist() if place not in checked]
    gains = []
    for place in order[:shown]:
        found = checked.get(place)
        theta, bound = (None, None) if found is None else (found.theta, found.network.routing_bound)
        pairs = _pairs(tails, heads, place, both)
        gains.append(Gain(pairs, Fraction(1), float(predicted[place]), theta, bound))
    return LinkGains(tuple(gains), len(tails), proven)


def _pairs(tails: Ints, heads: Ints, place: int, both: bool) -> tuple[tuple[int, int], ...]:
    tail, head = int(tails[place]), int(heads[place])
    return ((tail, head), (head, tail)) if both else ((tail, head),)


def _predicted(
    base: Topology, priced: Topology, demand: Floats, distance: Floats, tails: Ints, heads: Ints, both: bool
) -> Floats:
    """Floor under theta of `base` with one more link at each place, by the distances of lengths on `priced`."""
    asked = demand > 0
    # No demand is farther than this, so an arc of this length shortens no distance of a demand.
    capped = np.minimum(distance, float(distance[asked].max()))
    total = float((demand[asked] * distance[asked]).sum())
    room = float((capped[base.arcs[:, 0], base.arcs[:, 1]] * base.capacity).sum())
    extra = capped[tails, heads] + (capped[heads, tails] if both else 0.0)
    return np.asarray(total / np.maximum(room + extra, 1e-300), dtype=np.float64)


def with_more(topology: Topology, pairs: tuple[tuple[int, int], ...], added: Fraction) -> Topology:
    """The topology with more capacity from tail to head of each pair, in units of 1 / denominator of `added`.

    Arcs that are new are put in their place; demand must be scaled by the same denominator. Switches are left dark.
    """
    links = {(int(i), int(j)): float(c) for (i, j), c in zip(topology.arcs, topology.capacity, strict=True)}
    scaled = {arc: capacity * added.denominator for arc, capacity in links.items()}
    for pair in pairs:
        scaled[pair] = scaled.get(pair, 0.0) + added.numerator
    order = sorted(scaled)
    capacity = np.array([scaled[arc] for arc in order])
    rated = topology.rates is not None
    return replace(
        topology,
        arcs=np.array(order, dtype=np.int32),
        multiplicity=np.ones(len(order), dtype=np.int32) if rated else capacity.astype(np.int32),
        rates=capacity if rated else None,
        switches=np.full_like(topology.switches, -1),
        offsets=(),
        origin="changed",
    )


def more_capacity(
    problem: RoutingProblem, bottleneck: Bottleneck, arcs: tuple[int, ...], added: Fraction, effort: ExplainEffort
) -> Gain:
    """What more capacity on each of these arcs of the topology gains."""
    topology = problem.topology
    pairs = tuple((int(topology.arcs[a, 0]), int(topology.arcs[a, 1])) for a in arcs)
    # With the same lengths the price of all capacity grows from 1 by what is added.
    predicted = bottleneck.bound / (1.0 + float(added) * float(bottleneck.lengths[list(arcs)].sum()))
    changed = replace(
        problem, topology=with_more(topology, pairs, added), demand=problem.demand * float(added.denominator)
    )
    found = routed_again(changed, effort)
    if found is None:
        return Gain(pairs, added, predicted)
    return Gain(pairs, added, predicted, found.theta, found.network.routing_bound, found.certificate.lengths)
