"""Column generation over ring orders finds their shares and all routing on a fixed topology, with a proof.

    few orders -> linear program -> shares, flow, link lengths -> shortest ring of every group under them -> ...

Shortest rings are exact by dynamic programming over subsets up to `EXACT_SIZE` members; beyond, nearest neighbour and
given orders are improved by moving segments (which needs no symmetry of the distances).

Nothing is taken from the solver on trust: shares are normalised, the flow is rebuilt so that it delivers demand and
ring steps exactly, theta is its largest load, and the bound is the weak duality of `allreduce_mix`, with the shortest
ring replaced by the assignment bound where it is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import gcd

import numpy as np

from formulations.mixtures import (
    AllReduceMix,
    Order,
    RingGroup,
    allreduce_mix_arrays,
    allreduce_mix_flow,
    lengths_of,
    ring_shares_of,
    total_demand,
)
from solvers.backends import SOLVERS
from solvers.network.flows import RoutingProof, network_of
from solvers.network.space import distances
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InputError, LimitError, Problem
from topoopt.core.network import LengthCertificate, SourceFlow
from topoopt.core.proofs import Status, StopReason
from topoopt.core.topology import Topology
from topoopt.core.workload import Demand
from topoopt.native import jobs

OPTIMALITY = 1e-6
Shares = tuple[tuple[Order, float], ...]


@dataclass(frozen=True, eq=False)
class RingMix:
    """Rings and routing of all traffic.

    Attributes:
        topology: given.
        rings: (order, share) of every group of the demand, shares above 0 that sum to 1.
        flow: bytes by source and arc, model-parallel traffic and ring steps together.
        theta: ms the busiest link carries traffic, recomputed from `flow`.
        bound: lower bound on theta over all ring orders and routings on this topology, from `certificate`.
        certificate: arc lengths.
        status: OPTIMAL when theta meets the bound to `OPTIMALITY`.
        stopped_by: GAP when the accuracy asked for is proven, BUDGET, TIME or INTERRUPTED before; CONVERGED when no
            cheaper order was found and the rest of the gap is that of the assignment bound.
        rounds: linear programs solved.
    """

    topology: Topology
    rings: tuple[Shares, ...]
    flow: SourceFlow
    theta: float
    bound: float
    certificate: LengthCertificate
    status: Status
    stopped_by: StopReason
    rounds: int

    @property
    def gap(self) -> float:
        """(theta - bound) / theta."""
        return max(0.0, (self.theta - self.bound) / self.theta) if self.theta > 0 else 0.0


EXACT_SIZE = 12
ARITHMETIC_ORDERS = 8

Distances = Floats


def short_ring(distance: Distances, starts: Sequence[Ints] = ()) -> tuple[float, Ints]:
    """Length and order (positions 0..k-1, 0 first) of a ring; the shortest one up to `EXACT_SIZE` members.

    Args:
        distance: float64[k, k], from member to member, finite off the diagonal.
        starts: orders to begin with; used beyond `EXACT_SIZE`.
    """
    size = len(distance)
    if size <= EXACT_SIZE:
        order = jobs.exact_ring(distance)
        return ring_length(distance, order), order
    best: tuple[float, Ints] | None = None
    for start in (*starts, *(nearest_neighbour(distance, first) for first in range(0, size, max(1, size // 8)))):
        order = jobs.move_segments(distance, np.array(start, dtype=np.int64))
        length = ring_length(distance, order)
        if best is None or length < best[0]:
            best = (length, order)
    assert best is not None
    return best[0], np.roll(best[1], -int(np.flatnonzero(best[1] == 0)[0]))


def ring_length(distance: Distances, order: Ints) -> float:
    return float(distance[order, np.roll(order, -1)].sum())


def arithmetic_orders(size: int) -> list[tuple[int, ...]]:
    """0, q, 2 q, ... mod size for the first few q coprime to it and their reversals (TotientPerms)."""
    units = [q for q in range(1, size) if gcd(q, size) == 1]
    chosen = sorted({*units[:ARITHMETIC_ORDERS], *units[-ARITHMETIC_ORDERS:]})
    return [tuple(q * i % size for i in range(size)) for q in chosen]


def nearest_neighbour(distance: Distances, first: int) -> Ints:
    """Order that always goes on to the nearest member left."""
    left = np.ones(len(distance), dtype=np.bool_)
    order = [first]
    left[first] = False
    while left.any():
        order.append(int(np.argmin(np.where(left, distance[order[-1]], np.inf))))
        left[order[-1]] = False
    return np.array(order, dtype=np.int64)


ALL_ORDERS_SIZE = 4
"""Groups of up to so many members start with every order."""


def ring_groups(
    demand: Demand, scale: float, warm_start: Sequence[Sequence[Order]] | None = None
) -> tuple[RingGroup, ...]:
    """Groups of a demand with volumes divided by `scale` and orders to begin with: all of small groups, else coprime
    steps and those `warm_start`."""
    groups = []
    for number, group in enumerate(demand.allreduce):
        orders = [normal(order) for order in (warm_start[number] if warm_start is not None else ())]
        members = sorted(group.members)
        if len(members) <= ALL_ORDERS_SIZE:
            orders += every_order(members)
        else:
            orders += [normal([members[i] for i in order]) for order in arithmetic_orders(len(members))]
        volume = group.wire_bytes_per_member / scale
        groups.append(RingGroup(tuple(group.members), volume, tuple(dict.fromkeys(orders))))
    return tuple(groups)


def every_order(members: Sequence[int]) -> list[Order]:
    """All cyclic orders of a group, each once: (k - 1)! of them."""
    first, *rest = sorted(members)
    return [(first, *order) for order in permutations(rest)]


def normal(order: Sequence[int]) -> Order:
    """The rotation that begins with the smallest member."""
    at = list(order).index(min(order))
    return (*order[at:], *order[:at])


def check_groups(servers: int, demand: Demand, warm_start: Sequence[Sequence[Order]] | None) -> None:
    """Raise InputError, with all problems, for a demand of another size, bad groups, or orders that are none."""
    n = servers
    problems = []
    if demand.servers != n:
        problems.append(Problem("demand is for another cluster", value=f"{demand.servers} servers", allowed=str(n)))
    for number, group in enumerate(demand.allreduce):
        where, members = f"allreduce[{number}]", group.members
        if len(set(members)) < max(len(members), 2) or not all(0 <= server < n for server in members):
            problems.append(Problem("not two or more different servers", path=where, value=str(members)))
        if not (np.isfinite(group.payload_bytes) and group.payload_bytes >= 0):
            problems.append(Problem("payload must be finite and not negative", path=where))
        if warm_start is not None and any(sorted(order) != sorted(members) for order in warm_start[number]):
            problems.append(Problem("an order does not visit every member once", path=where))
    if problems:
        raise InputError(problems)


SMOOTHING = 0.5
"""Weight of the best lengths so far in the second pricing."""


def mix_rings(
    topology: Topology,
    demand: Demand,
    *,
    link_bytes_per_ms: float = 1.0,
    rounds: int = 200,
    accuracy: float = OPTIMALITY,
    hop_price: float = 0.0,
    warm_start: Sequence[Sequence[Order]] | None = None,
    stop: Stop | None = None,
) -> RingMix:
    """Ring orders, shares and routing of least theta.

    Args:
        topology: connected where there is traffic.
        demand: model-parallel bytes and AllReduce groups.
        link_bytes_per_ms: rate of one link.
        rounds: linear programs solved at most.
        accuracy: relative gap at which to stop.
        hop_price: charge on hops in the last program, so that of equally loaded routings a short one is taken.
        warm_start: orders of every group to begin with, beside TotientPerms.
        stop: looked at between programs; one program is always solved.

    Raises:
        InputError: bad topology or demand, no traffic at all, groups that are none.
        InfeasibleError: traffic between servers that no path joins.
        LimitError: the linear program was not solved.
    """
    mix = _Mix(topology, demand, link_bytes_per_ms, warm_start, stop or Stop())
    return mix.run(rounds, accuracy, hop_price)


class _Mix:
    def __init__(
        self,
        topology: Topology,
        demand: Demand,
        link_bytes_per_ms: float,
        warm_start: Sequence[Sequence[Order]] | None,
        stop: Stop,
    ) -> None:
        check_groups(topology.servers, demand, warm_start)
        self.topology, self.demand, self.stop = topology, demand, stop
        self.rate = link_bytes_per_ms
        n = topology.servers
        wire = sum(len(group.members) * group.wire_bytes_per_member for group in demand.allreduce)
        # mean demand 1 suits the absolute tolerances of solvers
        self.scale = (float(demand.model_parallel_bytes.sum()) + wire) / (n * (n - 1))
        if not self.scale > 0:
            raise InputError([Problem("there is no traffic at all", path="demand")])
        groups = ring_groups(demand, self.scale, warm_start)
        self.data = AllReduceMix(
            tail=topology.arcs[:, 0].astype(np.int64),
            head=topology.arcs[:, 1].astype(np.int64),
            capacity=topology.multiplicity.astype(np.float64),
            demand=demand.model_parallel_bytes / self.scale,
            groups=groups,
        )
        network_of(topology, total_demand(self.data, [_even(group) for group in groups]))  # refuses what has no path
        self.bound, self.lengths = 0.0, np.ones(len(topology.arcs))
        self.theta = np.inf
        self.best: tuple[tuple[Shares, ...], Floats] | None = None
        self.rounds = 0

    def run(self, rounds: int, accuracy: float, hop_price: float) -> RingMix:
        reason = StopReason.BUDGET
        while self.rounds < rounds:
            added = self._round()
            if self.theta - self.bound <= accuracy * self.theta:
                reason = StopReason.GAP
            elif not added:
                reason = StopReason.CONVERGED
            else:
                reason = self.stop.reason() or StopReason.BUDGET
                if reason is StopReason.BUDGET:
                    continue
            break
        if hop_price > 0:
            self._shorten(hop_price)
        return self._result(reason)

    def _round(self) -> bool:
        """One linear program; whether it was given new orders.

        Orders are priced at its lengths and at their mean with the best ones so far, which jump about less (Wentges
        smoothing); any order that prices out at its own lengths is new to it, and any lengths give a bound.
        """
        x, row_dual = self._solved(self.data)
        self.rounds += 1
        lengths = lengths_of(self.data, row_dual)
        self._offer(x, lengths)
        price_of = row_dual[len(row_dual) - len(self.data.groups) :]
        best = self.lengths / float(self.lengths @ self.data.capacity)
        first = self.data
        far = self._distances(lengths)
        for tried in (lengths, SMOOTHING * best + (1.0 - SMOOTHING) * lengths):
            priced = self._priced(tried)
            groups = []
            for group, order, price in zip(self.data.groups, priced, price_of.tolist(), strict=True):
                length = sum(float(far[step]) for step in group.steps(order))
                pays = group.volume * length < price - 1e-9 * max(1.0, abs(price))
                new = pays and order not in group.orders
                groups.append(replace(group, orders=(*group.orders, order)) if new else group)
            self.data = replace(self.data, groups=tuple(groups))
        return any(len(new.orders) > len(old.orders) for new, old in zip(self.data.groups, first.groups, strict=True))

    def _priced(self, lengths: Floats) -> list[Order]:
        far = self._distances(lengths)
        total = float((self.data.demand * np.where(self.data.demand > 0, far, 0.0)).sum())
        orders = []
        for group in self.data.groups:
            members = np.array(sorted(group.members))
            between = far[np.ix_(members, members)]
            starts = [np.searchsorted(members, order) for order in group.orders[-8:]]
            length, order = short_ring(between, starts)
            total += group.volume * (length if len(members) <= EXACT_SIZE else _assignment(between))
            orders.append(tuple(members[order].tolist()))
        capacity = float(lengths @ self.data.capacity)
        if capacity > 0 and total / capacity > self.bound:
            self.bound, self.lengths = total / capacity, lengths
        return orders

    def _shorten(self, hop_price: float) -> None:
        """The last program again with a charge on hops: kept when it costs next to nothing in theta."""
        held = self.theta, self.best
        self.theta = np.inf
        x, row_dual = self._solved(replace(self.data, hop_price=hop_price))
        self._offer(x, lengths_of(self.data, row_dual))
        if self.theta > held[0] * (1.0 + 2.0 * hop_price):
            self.theta, self.best = held

    def _solved(self, data: AllReduceMix) -> tuple[Floats, Floats]:
        result = SOLVERS["highs"](allreduce_mix_arrays(data))
        x = result.x if result.x is not None else result.raw_x
        if x is None or result.row_dual is None:
            raise LimitError(f"the mix of rings was not solved: {result.message}")
        return x, result.row_dual

    def _offer(self, x: Floats, lengths: Floats) -> None:
        """Shares and exact flow of a solution; kept if they are the best."""
        shares = ring_shares_of(self.data, x)
        proof = RoutingProof(network_of(self.topology, total_demand(self.data, shares)), 0.0)
        theta = proof.offer_rough_flow(allreduce_mix_flow(self.data, x), lengths)
        if theta < self.theta and proof.flow is not None:
            rings = tuple(
                tuple((order, part) for order, part in zip(group.orders, share.tolist(), strict=True) if part > 0)
                for group, share in zip(self.data.groups, shares, strict=True)
            )
            self.theta, self.best = theta, (rings, proof.flow)

    def _distances(self, lengths: Floats) -> Floats:
        n = self.topology.servers
        direct = np.full((n, n), np.inf)
        direct[self.data.tail, self.data.head] = lengths
        return distances(direct)

    def _result(self, reason: StopReason) -> RingMix:
        assert self.best is not None
        rings, flow = self.best
        closed = self.theta - self.bound <= OPTIMALITY * self.theta
        unit = self.scale / self.rate
        return RingMix(
            topology=self.topology,
            rings=rings,
            flow=SourceFlow(flow * self.scale),
            theta=self.theta * unit,
            bound=min(self.bound, self.theta) * unit,
            certificate=LengthCertificate(self.lengths),
            status=Status.OPTIMAL if closed else Status.FEASIBLE,
            stopped_by=reason,
            rounds=self.rounds,
        )


def _assignment(distance: Floats) -> float:
    """Lower bound on a ring: every member has one successor, not itself."""
    from scipy.optimize import linear_sum_assignment

    cost = distance.copy()
    np.fill_diagonal(cost, distance.sum() + 1.0)
    rows, columns = linear_sum_assignment(cost)
    return float(cost[rows, columns].sum())


def _even(group: RingGroup) -> Floats:
    return np.full(len(group.orders), 1.0 / len(group.orders))
