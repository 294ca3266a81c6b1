"""The solution of a network problem: links, a splittable routing, and the proof of how good it can be.

Every figure is recomputed from topology, demand and flow, none is a solver's claim. Wall-clock times are kept out, so
that the same seed gives the same bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.block_tree import BlockTree
from topoopt.core.columns import Columns, links_of
from topoopt.core.errors import InputError, Problem
from topoopt.core.link_tree import LinkTree
from topoopt.core.network import (
    AdaptedRouting,
    CommonRouting,
    EnumerationProof,
    LayerPrices,
    LengthCertificate,
    RelayPrices,
    RoutingMode,
    SourceFlow,
    TwoLayerMultipliers,
)
from topoopt.core.proofs import Bound
from topoopt.core.relay_cases import RelayCases
from topoopt.core.shown import Shown
from topoopt.core.solution import SolutionHead
from topoopt.core.topology import Topology
from topoopt.core.verdict import StopReason


@dataclass(frozen=True, eq=False, repr=False)
class LinkFailure(Shown):
    """All demand routed while one link is dark.

    Attributes:
        link: tail and head; of a fibre pair the smaller server first.
        flow: float64[n, m], what each source sends over each arc of the topology; one link less carries it.
    """

    link: tuple[int, int]
    flow: Floats


@dataclass(frozen=True, eq=False, repr=False)
class Robustness(Shown):
    """How a topology stands the failure of any single link, and what that costs.

    Attributes:
        worst_theta: after the worst failure, all demand routed anew.
        worst_link: tail and head of that link.
        bound: lower bound on `worst_theta` over every topology allowed, derived again by the checker.
        claimed_bound: a larger one that is not; None where there is none.
        within_percent: how much larger theta without failure could be than `nominal_theta`; None: any.
        nominal_theta: least theta without failure known over all topologies.
        nominal_worst_theta: what the topology of `nominal_theta` has after its worst failure; None: demand is cut off.
        failures: of every link, sorted, a routing whose theta is no more than `worst_theta`; empty where they are many.
        lengths: float64[m], prove that no routing after the failure of `worst_link` is better; None beside no failures.
    """

    worst_theta: float
    worst_link: tuple[int, int]
    bound: Bound
    within_percent: float | None
    nominal_theta: float
    nominal_worst_theta: float | None
    claimed_bound: Bound | None = None
    failures: tuple[LinkFailure, ...] = ()
    lengths: Floats | None = None


@dataclass(frozen=True, eq=False, repr=False)
class RoutedNetwork(Shown):
    """A topology with its routing, and what is proven of the two.

    Attributes:
        topology: given, or found.
        routing: for each demand, or common to several.
        routing_bound: lower bound on the objective on this topology, proven by what stands in `routing`.
        enumeration: what a bound by enumeration rests on; None for all other bounds.
        tree: what a bound by branch and bound rests on; None for all other bounds.
        blocks: the same, with the links around every server.
        layer_prices: what a layered Moore bound rests on; None for all other bounds.
        relay_prices: what a bound by relay blocks rests on; None for all other bounds.
        relay_cases: the same, case by case.
        robustness: of method `robust`; None for others.
    """

    topology: Topology
    routing: AdaptedRouting | CommonRouting
    routing_bound: float
    enumeration: EnumerationProof | None = None
    tree: LinkTree | None = None
    blocks: BlockTree | None = None
    layer_prices: LayerPrices | None = None
    relay_prices: RelayPrices | None = None
    relay_cases: RelayCases | None = None
    robustness: Robustness | None = None

    @property
    def utilisation(self) -> Floats:
        """float64[k, m]: load over capacity of each arc under each demand."""
        routing = self.routing
        if isinstance(routing, CommonRouting):
            return np.asarray(routing.amounts @ routing.split / self.topology.capacity)
        return np.array([each.load(self.topology) for each in routing.flows]) / self.topology.capacity

    @property
    def thetas(self) -> tuple[float, ...]:
        """Largest link utilisation of each demand."""
        return tuple(self.utilisation.max(axis=1).tolist())

    @property
    def lengths(self) -> Floats:
        """float64[m]: of the arcs, in the proof of `routing_bound`: of the worst demand, or prices summed over all."""
        routing = self.routing
        if isinstance(routing, CommonRouting):
            return np.asarray(routing.prices.sum(axis=0))
        return routing.certificates[int(np.argmax(self.utilisation.max(axis=1)))].lengths

    @property
    def flows(self) -> tuple[SourceFlow, ...]:
        """One for each demand."""
        routing = self.routing
        if isinstance(routing, AdaptedRouting):
            return routing.flows
        return tuple(routing.flow(k, self.topology.servers) for k in range(len(routing.amounts)))


@dataclass(frozen=True, eq=False, repr=False)
class FoundNetwork(Shown):
    """What a method hands over; objective and figures are recomputed by whoever uses it.

    Attributes:
        network: links, routing and their proof.
        bounds: on the objective of the problem, one at least; verified and claimed ones.
        stopped_by: why the method ended.
        method: name of the method that ran (never `auto`).
        notes: for people.
        multipliers: what a two-layer bound was evaluated with.
    """

    network: RoutedNetwork
    bounds: tuple[Bound, ...]
    stopped_by: StopReason
    method: str
    notes: tuple[str, ...] = ()
    multipliers: TwoLayerMultipliers | None = None

    @property
    def bound(self) -> Bound:
        """The tightest of the bounds, whoever says so."""
        return max(self.bounds, key=lambda bound: bound.value)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class NetworkSolution(SolutionHead):
    """Result of `topoopt solve` on an instance of kind `routing` or `topology`.

    Attributes, besides those of `SolutionHead`:
        objective: theta, the largest link utilisation of the routing (demand is in units of the capacity of one link),
            the largest of all where there are several demands; or the completion time, theta + hop price * mean hops of
            the demand.
        bound: lower bound on the objective: of this topology (kind `routing`) or of all allowed
            ones (kind `topology`).
        network: links, routing and their proof.
        link_gbps: rate of one link, Gbit/s; None where the instance gives none.
    """

    network: RoutedNetwork
    link_gbps: float | None = None

    @property
    def topology(self) -> Topology:
        """Given, or found."""
        return self.network.topology

    def columns(self) -> dict[str, Columns]:
        """As of all solutions; `links` with dual price and with load and utilisation under the worst demand for each,
        the `flow` of each demand and source, and `demands` with theta.
        """
        network, arcs = self.network, links_of(self.topology)
        use = network.utilisation.max(axis=0)
        links = {**arcs, "load": use * arcs["links"], "utilisation": use, "length": network.lengths}
        sent = []  # by demand and source: arcs in use
        for k, each in enumerate(network.flows):
            for s, row in enumerate(each.rows(self.topology)):
                on = np.flatnonzero(row)
                sent.append((np.full(len(on), k), np.full(len(on), s), on, row[on]))
        demands, sources, used, amounts = map(np.concatenate, zip(*sent, strict=True))
        flow = {"demand": demands, "source": sources, "tail": arcs["tail"][used], "head": arcs["head"][used]}
        flow["amount"] = amounts
        thetas = {"demand": np.arange(len(self.thetas)), "theta": np.array(self.thetas)}
        return {**super().columns(), "links": links, "flow": flow, "demands": thetas}

    @cached_property
    def thetas(self) -> tuple[float, ...]:
        """Largest link utilisation of each demand."""
        return self.network.thetas

    @property
    def theta(self) -> float:
        """Largest link utilisation, of the worst demand."""
        return max(self.thetas)

    @property
    def throughput(self) -> float:
        """lambda = 1 / theta: all demand can be scaled by so much; infinite where nothing is carried."""
        return 1.0 / self.theta if self.theta > 0 else math.inf

    @property
    def mode(self) -> RoutingMode:
        """Whether the routing is common to all demands."""
        common = isinstance(self.network.routing, CommonRouting)
        return RoutingMode.COMMON if common else RoutingMode.ADAPTED

    @property
    def flow(self) -> SourceFlow:
        """The routing of the one demand; raises InputError where there are several."""
        return self.one_demand().flows[0]

    @property
    def certificate(self) -> LengthCertificate:
        """Lengths that prove `routing_bound` for the one demand; raises InputError where there are several."""
        return self.one_demand().certificates[0]

    def one_demand(self) -> AdaptedRouting:
        """The routing where there is one demand.

        Raises:
            InputError: there are several.
        """
        routing = self.network.routing
        if isinstance(routing, AdaptedRouting) and len(routing.flows) == 1:
            return routing
        text = "this takes the solution of one demand"
        raise InputError([Problem(text, path="solution", value=f"{len(self.thetas)} demands", allowed="1")])
