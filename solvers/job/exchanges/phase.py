"""The last phase of the loop: links exchanged by simulated time, then the strategy once more on what came of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solvers.job.exchanges.circuits import circuit_links, wanted_circuits
from solvers.job.exchanges.ring_search import rings_anew
from solvers.job.exchanges.search import Exchanged, LinkExchange
from solvers.job.exchanges.wiring import wiring_of
from solvers.job.loop import Candidate
from solvers.job.mixed_rings import mixed_routes
from solvers.job.realise import Realisation, realise, with_rings
from solvers.job.search_steps import SearchSteps
from solvers.network.constructions import balanced_routes
from solvers.network.constructions.assemble import switched
from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.demand import Demand
from topoopt.core.exchange_gain import EXCHANGE, EXCHANGE_STRATEGY
from topoopt.core.search_settings import AllReduceChoice
from topoopt.core.topology import Topology
from topoopt.simulate.demand import demand_of
from topoopt.simulate.fabrics.direct_connect import direct_connect_network
from topoopt.simulate.time_models.evaluate import breakdown, simulate

WORTH = 1e-3
"""Relative gain of exchanges from which on the strategy is searched once more."""

EXPOSED = 2e-3
"""Part of the critical path that waits for links, below which none is exchanged."""

STREAM = 400
"""Of random numbers, first of this phase."""


UNJOINED = (
    "circuits of the job's graph could not be completed to links that join all servers; exchanges began without them"
)


def exchange_links(steps: SearchSteps, reached: Candidate, left: int) -> tuple[Candidate, tuple[str, ...]]:
    """The best of what was reached and what exchanges find, and notes on them.

    Args:
        steps: of the job; its settings say how many exchanges are made, and whether half of them begin with circuits.
        reached: plan on rings.
        left: proposals of strategies that may be made afterwards.
    """
    settings = steps.settings
    if not settings.exchanges or settings.allreduce is not AllReduceChoice.RINGS or steps.stop.reason() is not None:
        return reached, ()
    phase = _Phase(steps, reached)
    if not phase.traffic:
        return reached, ("no links were exchanged: nothing goes from a server to another",)
    if phase.exposed < EXPOSED:
        return reached, (f"no links were exchanged: {100 * phase.exposed:.2g} % of the critical path waits for links",)
    best = phase.exchanged(settings.exchanges)
    steps.note(EXCHANGE, best)
    gain = reached.iteration_time_ms - best.iteration_time_ms
    if settings.search_strategy and left > 0 and gain > WORTH * reached.iteration_time_ms:
        again = steps.annealed(best, left, STREAM + 2, EXCHANGE_STRATEGY, start=0.003, by_rounds=True)
        best = _better(best, again, steps.topology.best_routes(again))
        steps.note(EXCHANGE_STRATEGY, best)
    before, after = (f"{each.iteration_time_ms:.6g}" for each in (reached, best))
    return best, (f"exchanges of links: {phase.made} simulated, {before} ms before, {after} ms after", *phase.notes)


def _better(*candidates: Candidate) -> Candidate:
    return min(candidates, key=lambda each: each.iteration_time_ms)


class _Phase:
    """Exchanges for the strategy of one candidate."""

    def __init__(self, steps: SearchSteps, reached: Candidate) -> None:
        self.steps, self.reached = steps, reached
        self.cluster, self.stop, self.dag = steps.cluster, steps.stop, steps.settings.from_circuits
        self.graph = steps.topology.graph(reached.strategy)
        self.demand = demand_of(self.graph)
        self.traffic = bool(self.demand.model_parallel_bytes.any()) or self.demand.allreduce_wire_bytes > 0
        self.simulation = simulate(self.graph, reached.realisation.network)
        self.made = 0
        self.notes: tuple[str, ...] = ()

    @property
    def exposed(self) -> float:
        """Part of the iteration in which its critical path waits for transfers and AllReduces."""
        parts = breakdown(self.graph, self.simulation)
        total_ms = self.simulation.iteration_time_ms
        return parts.exposed_communication_ms / total_ms if total_ms > 0 else 0.0

    def exchanged(self, exchanges: int) -> Candidate:
        """The best of the candidate and of what so many exchanges find."""
        best = self.reached
        circuits = wanted_circuits(self.cluster, self.graph, self.simulation.start_ms, self.stop) if self.dag else None
        if circuits is not None:
            topology = circuit_links(self.cluster, circuits, ring_traffic(self.demand))
            if topology is None:
                self.notes = (UNJOINED,)
            else:
                best = _better(best, self._searched(self._on(topology), circuits, exchanges // 2, STREAM))
        found = self._searched(best, None, exchanges - self.made, STREAM + 1)
        return _better(best, found, self.steps.topology.best_routes(found))

    def _on(self, topology: Topology) -> Candidate:
        """The strategy on a topology, with the better of rings as every topology gets and as exchanges find them."""
        groups = [group.members for group in self.demand.allreduce]
        made = realise(self.cluster, topology, groups, seed=self.steps.seed)
        first = wiring_of(topology, made.routes, made.rings, self.demand)
        paired = self.cluster.links is LinkDirection.BIDIRECTIONAL
        ringed = rings_anew(first, paired=paired, seed=self.steps.seed)
        return _better(self._timed(made), self._timed(with_rings(self.cluster, made, ringed.rings)))

    def _timed(self, made: Realisation) -> Candidate:
        time_ms = simulate(self.graph, made.network).iteration_time_ms
        return replace(self.reached, realisation=made, iteration_time_ms=time_ms)

    def _searched(self, start: Candidate, circuits: Ints | None, exchanges: int, stream: int) -> Candidate:
        """A candidate after so many exchanges of its links."""
        own, seed = start.realisation, self.steps.seed * 1_000_003 + stream
        first = wiring_of(own.topology, own.routes, own.rings, self.demand)
        search = LinkExchange(self.cluster, self.graph, seed=seed, stop=self.stop, circuits=circuits)
        result = search.run(first, exchanges, lambda time_ms: self.steps.step(EXCHANGE, 0, time_ms))
        self.made += result.proposals
        return self._timed(self._realised(own, result)) if result.gained else start

    def _realised(self, before: Realisation, result: Exchanged) -> Realisation:
        """The links given to switches, with routes of all pairs."""
        cluster, wiring = self.cluster, result.wiring
        units = np.repeat(wiring.arcs, wiring.counts[wiring.arcs[:, 0], wiring.arcs[:, 1]], axis=0)
        origin = f"{before.topology.origin.removesuffix(EXCHANGED)}{EXCHANGED}"
        topology = switched(
            Topology.of_arcs(cluster.servers, units, degree=cluster.degree, links=cluster.links, origin=origin)
        )
        own = {pair: list(paths) for pair, paths in wiring.routes.items()}
        routes = mixed_routes(balanced_routes(topology, seed=self.steps.seed), own)
        network = direct_connect_network(cluster, topology, routes, wiring.rings)
        return Realisation(topology, routes, wiring.rings, network, tailored=True)


EXCHANGED = ", links exchanged by simulated time"


def ring_traffic(demand: Demand) -> Floats:
    """float64[n, n]: bytes of transfers, and of AllReduces on the ring of their members in order."""
    total = demand.model_parallel_bytes.copy()
    for group in demand.allreduce:
        for here, there in zip(group.members, (*group.members[1:], group.members[0]), strict=True):
            total[here, there] += group.wire_bytes_per_member
    return total
