"""Figures that follow from the plan of a network problem; each is computed when it is first read, none is stored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, Problem
from topoopt.core.network import (
    LengthCertificate,
    NetworkProblem,
    RoutingMode,
    RoutingPlan,
    RoutingProblem,
    SourceFlow,
    TopologyPlan,
    TopologyProblem,
    network_of,
)
from topoopt.core.proofs import Argument, Bound, Tolerance, capped, settle
from topoopt.core.result import Certificate, Columns, Objective, links_of
from topoopt.core.topology import Topology
from topoopt.page.networks import fewest_hops
from topoopt.verify.network.bounds import LEFT, failed_link_bound
from topoopt.verify.network.checker import remaining, routing_bound

FULL = 1e-3
"""An arc whose links carry theta to within this part counts as full."""

ROUNDING = 1e-9
"""Part of the demand of a source below which what stays at a server is rounding."""


@dataclass(frozen=True, eq=False)
class RobustFigures:
    """How a topology stands the failure of any single link.

    Attributes:
        worst_theta, worst_link: after the worst failure, and tail and head of that link.
        bound: lower bound on `worst_theta` over every topology allowed; `claimed_bound` is a larger one without a
            proof.
        within_percent: how much larger theta without failure could be than `nominal_theta`; None: any.
        nominal_theta: least theta without failure that the search reached over all topologies.
        nominal_worst_theta: what the topology of `nominal_theta` has after its worst failure; None: demand is cut off.
    """

    worst_theta: float
    worst_link: tuple[int, int]
    bound: Bound
    claimed_bound: Bound | None
    within_percent: float | None
    nominal_theta: float
    nominal_worst_theta: float | None


@dataclass(frozen=True, eq=False)
class NetworkFigures:
    """Loads, distances, implied demand and dual prices of a plan; arrays are by arc (m), demand (k) or server (n).

    Attributes:
        problem, plan: of kind `routing` or `topology`.
        certificates: lengths or prices of the arcs are read from them.
    """

    problem: NetworkProblem
    plan: RoutingPlan
    certificates: tuple[Certificate, ...] = ()

    @cached_property
    def topology(self) -> Topology:
        """The links that the instance gives or the plan chose."""
        return network_of(self.problem, self.plan)

    @cached_property
    def load(self) -> Floats:
        """float64[k, m]: load over capacity of each arc under each demand."""
        if self.plan.split is not None:
            pairs = self.problem.pairs
            amounts = self.problem.demands[:, pairs[:, 0], pairs[:, 1]]
            return np.asarray(amounts @ self.plan.split / self.topology.capacity)
        return np.array([flow.load(self.topology) for flow in self.plan.flows]) / self.topology.capacity

    @cached_property
    def thetas(self) -> tuple[float, ...]:
        """Largest link utilisation of each demand."""
        return tuple(self.load.max(axis=1).tolist())

    @property
    def theta(self) -> float:
        """Largest link utilisation, of the worst demand."""
        return max(self.thetas)

    @property
    def throughput(self) -> float:
        """lambda = 1 / theta: all demand can be scaled by so much; infinite where nothing is carried."""
        return 1.0 / self.theta if self.theta > 0 else math.inf

    @cached_property
    def objective(self) -> Objective:
        """The largest theta, or the completion time."""
        return objective_of(self)

    @cached_property
    def routing_bound(self) -> float:
        """What lengths or prices prove of the objective over these links; 0 without them."""
        if not self.certificates:
            return 0.0
        return capped(routing_bound(self.problem, self.topology, self.certificates), self.objective.value)

    @property
    def mode(self) -> RoutingMode:
        """Whether the routing is common to all demands."""
        return "adapted" if self.plan.split is None else "common"

    @cached_property
    def flows(self) -> tuple[SourceFlow, ...]:
        """The flow that serves each demand, one common or adapted to it."""
        arcs = len(self.topology.arcs)
        return tuple(self.plan.flow_of(self.problem, k, arcs) for k in range(len(self.problem.demands)))

    @property
    def flow(self) -> SourceFlow:
        """The routing of the one demand; raises InputError where there are several."""
        self.one_demand()
        return self.plan.flows[0]

    @property
    def certificate(self) -> LengthCertificate:
        """Lengths for the one demand; raises InputError where there are several."""
        self.one_demand()
        return LengthCertificate(self.lengths)

    def one_demand(self) -> None:
        """Refuse the plan of several demands.

        Raises:
            InputError: there are several.
        """
        if self.plan.split is not None or len(self.plan.flows) != 1:
            text = "this takes the solution of one demand"
            raise InputError([Problem(text, path="solution", value=f"{len(self.thetas)} demands", allowed="1")])

    @cached_property
    def lengths(self) -> Floats:
        """float64[m]: of the arcs, of the worst demand, or prices summed over all demands; 0 without certificates."""
        if self.problem.common:
            proofs = [proof for proof in self.certificates if proof.argument is Argument.ARC_PRICES]
            prices = proofs[0].floats("prices", len(self.problem.demands), -1) if proofs else None
            return np.zeros(len(self.topology.arcs)) if prices is None else np.asarray(prices.sum(axis=0))
        proofs = [
            proof
            for proof in self.certificates
            if proof.argument is Argument.ARC_LENGTHS and "link" not in proof.arrays
        ]
        worst = int(np.argmax(self.load.max(axis=1)))
        return proofs[worst].floats("lengths", -1) if worst < len(proofs) else np.zeros(len(self.topology.arcs))

    @cached_property
    def robustness(self) -> RobustFigures | None:
        """Of method `robust`; None for others."""
        design = self.plan.robust if isinstance(self.plan, TopologyPlan) else None
        problem = self.problem
        if design is None or not isinstance(problem, TopologyProblem):
            return None
        if design.failures:
            worst, link = self._worst_failure(design.failures)
        else:
            worst, link = design.worst_theta or 0.0, design.worst_link or (0, 0)
        bounds = [failed_link_bound(problem.servers, problem.degree, problem.links, problem.demand, left=LEFT)]
        if design.enumerated_theta is not None:
            bounds.append(Bound(design.enumerated_theta, Argument.TOPOLOGY_ENUMERATION))
        verdict = settle(worst, bounds, Tolerance.LINEAR_PROGRAM)
        goal = problem.search.robust
        return RobustFigures(
            worst,
            link,
            verdict.bound,
            verdict.claimed_bound,
            None if goal is None else goal.within_percent,
            design.nominal_theta,
            design.nominal_worst_theta,
        )

    def _worst_failure(self, failures: Sequence[Floats]) -> tuple[float, tuple[int, int]]:
        topology = self.topology
        arcs = topology.arcs
        links = arcs[arcs[:, 0] < arcs[:, 1]] if topology.links is LinkDirection.BIDIRECTIONAL else arcs
        thetas = []
        for link, flow in zip(links.tolist(), failures, strict=True):
            capacity = remaining(topology, link).astype(np.float64)
            lit = capacity > 0
            thetas.append(float((flow[:, lit].sum(axis=0) / capacity[lit]).max()))
        worst = int(np.argmax(thetas))
        tail, head = links[worst].tolist()
        return thetas[worst], (tail, head)

    # What the page shows.

    @cached_property
    def utilisation(self) -> Floats:
        """float64[m]: load over capacity of each arc, under the worst demand for it; the largest is theta."""
        return np.asarray(self.load.max(axis=0))

    @cached_property
    def relative(self) -> Floats:
        """float64[m]: utilisation over the largest, 0 to 1."""
        largest = float(self.utilisation.max(initial=0.0))
        return self.utilisation / largest if largest > 0 else np.zeros_like(self.utilisation)

    @cached_property
    def sent(self) -> float:
        """Part of the demand that fits at once: all of it, or lambda."""
        return min(1.0, _quotient(1.0, float(self.utilisation.max(initial=0.0)))) or 1.0

    @cached_property
    def full(self) -> Bools:
        """bool[m]: arcs that carry as much as the fullest, within `FULL`."""
        return self.relative >= 1.0 - FULL

    @cached_property
    def prices(self) -> Floats:
        """float64[m]: share of each arc in sum_a capacity_a length_a, the weight it has in the proof."""
        weight = self.lengths * self.topology.capacity
        total = float(weight.sum())
        return weight / total if total > 0 else np.zeros_like(weight)

    @cached_property
    def demand(self) -> Floats:
        """float64[n, n], in link capacities; the mean of several demands."""
        return np.asarray(self.problem.demands.mean(axis=0))

    @cached_property
    def worst(self) -> int:
        """Number of the demand with the largest theta."""
        return int(np.argmax(self.thetas))

    @cached_property
    def hops(self) -> Ints:
        """int64[n, n]: fewest hops, -1 where there is no path."""
        return fewest_hops(self.topology)

    @property
    def travelled_hops(self) -> float:
        """Mean hops the demand takes on its routes."""
        sent = np.mean([flow.load(self.topology).sum() for flow in self.flows])
        return _quotient(float(sent), float(self.demand.sum()))

    @property
    def least_hops(self) -> float:
        """Mean hops it would take on shortest paths."""
        return _quotient(float((self.demand * np.maximum(self.hops, 0)).sum()), float(self.demand.sum()))

    @property
    def mean_utilisation(self) -> float:
        """Over all links, parallel ones counted separately."""
        count = self.topology.multiplicity
        return float((self.utilisation * count).sum() / count.sum())

    def columns(self) -> dict[str, Columns]:
        """Tables of links with load, utilisation and dual price, of flows by demand and source, and of demands."""
        arcs = links_of(self.topology)
        links = {
            **arcs,
            "load": self.utilisation * arcs["links"],
            "utilisation": self.utilisation,
            "length": self.lengths,
        }
        sent = []  # by demand and source: arcs in use
        for k, flow in enumerate(self.flows):
            for s, row in enumerate(flow.rows(self.topology)):
                on = np.flatnonzero(row)
                sent.append((np.full(len(on), k), np.full(len(on), s), on, row[on]))
        demands, sources, used, amounts = map(np.concatenate, zip(*sent, strict=True))
        flows = {"demand": demands, "source": sources, "tail": arcs["tail"][used], "head": arcs["head"][used]}
        thetas = {"demand": np.arange(len(self.thetas)), "theta": np.array(self.thetas)}
        return {"links": links, "flow": {**flows, "amount": amounts}, "demands": thetas}


def objective_of(figures: NetworkFigures) -> Objective:
    """theta, the largest of several demands, or the completion time where hops have a price."""
    problem = figures.problem
    if problem.several:
        return Objective("worst-theta", figures.theta, "link capacity")
    if not isinstance(problem, RoutingProblem) or problem.hop_price == 0.0:
        return Objective("theta", figures.thetas[0], "link capacity")
    hops = float(figures.plan.flows[0].load(figures.topology).sum()) / float(problem.demand.sum())
    value = figures.thetas[0] + problem.hop_price * hops
    return Objective("completion-time", value, "time of a unit of demand on a link")


def _quotient(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0 else 0.0


def moore_counts(topology: Topology, farthest: int) -> list[int]:
    """Most servers that can be 1, 2, ..., `farthest` hops from a server of this degree (the Moore tree).

    d (d - 1)^(h - 1) for links that lead both ways, d^h for single fibres, until no server is left.
    """
    remainder, layer, counts = topology.servers - 1, topology.degree, []
    grow = topology.degree - (1 if topology.links is LinkDirection.BIDIRECTIONAL else 0)
    for _ in range(farthest):
        counts.append(min(remainder, layer))
        remainder -= counts[-1]
        layer = min(remainder, layer * grow)
    return counts


def moore_hops(topology: Topology) -> tuple[int, float] | None:
    """Least diameter and mean hops of any network of this size and degree (Moore tree); None if none is connected."""
    n = topology.servers
    counts = moore_counts(topology, n - 1)
    if sum(counts) < n - 1:
        return None
    diameter = next((hop for hop in range(len(counts), 0, -1) if counts[hop - 1] > 0), 0)
    return diameter, sum(hop * count for hop, count in enumerate(counts, start=1)) / (n - 1)
