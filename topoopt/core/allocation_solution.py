"""The solution of an allocation problem: rates, what every server sends where, and the proof that the rates are right.

Every figure is recomputed from the rates, none is a solver's claim. Wall-clock times are kept out, so that the same
seed gives the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.columns import Columns, links_of
from topoopt.core.shown import Shown
from topoopt.core.solution import SolutionHead
from topoopt.core.topology import Topology

DUST = 1e-9
"""Part of the largest rate below which a difference of rates is rounding."""

ROUNDING = 1e-12
"""Relative difference of two figures that is none."""


@dataclass(frozen=True, eq=False, repr=False)
class PriceCertificate(Shown):
    """Proof that some transfers can gain only at the cost of transfers that have no more (linear-programming duality).

    With p_k the price of route k (sum of price times fraction over what it uses) and p_t the least of the routes of
    transfer t, any allocation x obeys  sum_t y_t x_t <= sum_r price_r capacity_r + sum_t max(0, y_t - p_t) max_t.
    Where the rates reach this bound, a transfer with y_t > 0 grows only if another one with y > 0 falls.

    Attributes:
        transfers: int64, the transfers it is about (indices); all have y > 0.
        shared, price: int64 and float64, what is shared and has a price above 0 (numbering of `AllocationProblem`).
        valued, multiplier: int64 and float64, the transfers with y > 0 and their y.
    """

    transfers: Ints
    shared: Ints
    price: Floats
    valued: Ints
    multiplier: Floats


@dataclass(frozen=True, repr=False)
class TransferRate(Shown):
    """What a transfer gets.

    Attributes:
        name, source, destination: of the transfer.
        route_gbps: over each of its routes.
        completion_time_s: its size over its rate; None without a size.
        limited_by: full links and limits that keep it from more, for people.
    """

    name: str
    source: int
    destination: int
    route_gbps: tuple[float, ...]
    completion_time_s: float | None
    limited_by: tuple[str, ...]

    @property
    def rate_gbps(self) -> float:
        """Over all its routes."""
        return float(sum(self.route_gbps))


@dataclass(frozen=True, repr=False)
class DestinationRate(Shown):
    """What one server sends towards one destination: the rate to configure there.

    Attributes:
        server, destination: where, and for whom.
        next_hops: (neighbour, Gbit/s) by neighbour: its own traffic, and that of others that passes through.
    """

    server: int
    destination: int
    next_hops: tuple[tuple[int, float], ...]

    @property
    def rate_gbps(self) -> float:
        """All traffic towards the destination."""
        return float(sum(rate for _, rate in self.next_hops))


@dataclass(frozen=True, eq=False, repr=False)
class AllocationSolution(SolutionHead):
    """Result of `topoopt solve` on an instance of kind `allocation`.

    Attributes, besides those of `SolutionHead`:
        status, stopped_by: what is known, and why it stopped; optimal: all rates are proven, not only the objective.
        goal, surplus: of the instance.
        objective: its first figure: the smallest rate (over weight, or above the guarantee), a total, or a time.
        bound: largest value any allocation can have; for a completion time the smallest.
        topology, capacity_gbps: of the instance.
        transfers: what each one gets, in the order of the instance.
        servers: what every server sends towards each destination, sorted.
        certificates: proofs of the rates; empty where every transfer has one route, which needs none.
    """

    goal: str
    surplus: str
    topology: Topology
    capacity_gbps: Floats
    transfers: tuple[TransferRate, ...]
    servers: tuple[DestinationRate, ...]
    certificates: tuple[PriceCertificate, ...]

    kind: str = field(default="allocation", init=False)

    def columns(self) -> dict[str, Columns]:
        """As of all solutions; `links` with rate, capacity and utilisation; `transfers`, `servers` with their rates."""
        more = {"rate_gbps": self.link_gbps, "capacity_gbps": self.capacity_gbps, "utilisation": self.utilisation}
        tables = super().columns()
        for name, rows in (("transfers", self.transfers), ("servers", self.servers)):
            tables[name] = {**tables[name], "rate_gbps": [row.rate_gbps for row in rows]}
        return {**tables, "links": {**links_of(self.topology), **more}}

    @property
    def rates_gbps(self) -> Floats:
        """float64[T], rate of every transfer."""
        return np.array([transfer.rate_gbps for transfer in self.transfers])

    @cached_property
    def link_gbps(self) -> Floats:
        """float64[m], rate on every arc: of all destinations."""
        n, arcs = self.topology.servers, self.topology.arcs
        hops = [(row.server * n + hop, rate) for row in self.servers for hop, rate in row.next_hops]
        link, rates = np.array([link for link, _ in hops], dtype=np.int64), np.array([rate for _, rate in hops])
        load = np.asarray(np.bincount(link, weights=rates, minlength=n * n), dtype=np.float64)
        of_arcs: Floats = load[arcs[:, 0].astype(np.int64) * n + arcs[:, 1]]
        return of_arcs

    @property
    def own_gbps(self) -> dict[tuple[int, int], float]:
        """Traffic of a server itself, by server and destination; what else it sends there passes through."""
        own: dict[tuple[int, int], float] = {}
        for transfer in self.transfers:
            pair = (transfer.source, transfer.destination)
            own[pair] = own.get(pair, 0.0) + transfer.rate_gbps
        return own

    @property
    def completion_time_s(self) -> float | None:
        """When the last transfer ends at these rates; None if some have no size."""
        times = [transfer.completion_time_s for transfer in self.transfers]
        known = [time for time in times if time is not None]
        return max(known) if len(known) == len(times) else None

    @property
    def utilisation(self) -> Floats:
        """float64[m], rate over capacity of every arc."""
        return self.link_gbps / self.capacity_gbps

    @property
    def gap(self) -> float:
        """Distance of objective and bound, relative to the larger; 0 if it is rounding of the rates."""
        value, bound = self.objective.value, self.bound.value
        larger = max(abs(value), abs(bound))
        small = DUST * float(self.rates_gbps.max(initial=0.0)) if self.objective.unit == "Gbit/s" else 0.0
        return 0.0 if abs(value - bound) <= max(small, ROUNDING * larger) else super().gap
