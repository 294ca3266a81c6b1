"""Local search on links: exchanges of link ends, kept where the simulated iteration of the plan falls.

The strategy is kept, rings and routes are mended (`repair`). First no exchange may make the iteration longer; then one
may, a little beyond the best so far, and less and less (record-to-record travel; Dueck 1993). The best is returned, so
that the search can only gain. Work is limited in proposals, so that a seed gives the same links everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from solvers.job.exchanges.moves import Proposer
from solvers.job.exchanges.repair import rewired
from solvers.job.exchanges.ring_search import rings_anew
from solvers.job.exchanges.wants import Wants, wants_of
from solvers.job.exchanges.wiring import Wiring
from solvers.stop import Stop
from topoopt.core.arrays import Ints
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.taskgraph import TaskGraph
from topoopt.core.topology import Topology
from topoopt.simulate.fabrics.direct_connect import direct_connect_network
from topoopt.simulate.lower import graph_arrays
from topoopt.simulate.network import Network, network_arrays
from topoopt.simulate.time_models.arrival import iteration_time
from topoopt.simulate.time_models.evaluate import simulate

DESCENT = 0.5
"""Part of the proposals in which nothing slower is accepted."""

DEVIATION = 0.02
"""Part by which an exchange may be above the best after that; it falls to zero."""

CLOSE = 1.015
"""Exchanges whose time by `hop` is within this factor of what is asked for are simulated by `rounds`, too."""

GAIN = 1e-9
"""Relative gain that is one."""

BATCH = 10
"""Proposals between two words on the best so far."""


@dataclass(frozen=True, eq=False)
class Exchanged:
    """What a search ends with.

    Attributes:
        wiring: the best one, of this iteration time by `rounds`.
        proposals: made.
        gained: how many of them were the best when they were made.
    """

    wiring: Wiring
    iteration_time_ms: float
    proposals: int
    gained: int


@dataclass(frozen=True, eq=False)
class _State:
    wiring: Wiring
    time_ms: float
    hop_ms: float
    wants: Wants
    tried: set[tuple[object, ...]]


class LinkExchange:
    """Exchanges for one strategy of a job."""

    def __init__(
        self, cluster: Cluster, graph: TaskGraph, *, seed: int, stop: Stop, circuits: Ints | None = None
    ) -> None:
        """Prepare a strategy.

        Args:
            cluster: of the job.
            graph: one iteration with the strategy.
            seed: of the draws.
            stop: looked at before every proposal.
            circuits: int64[n, n], wanted by the program of kind `dag-topology`; None: not known.
        """
        self.cluster, self.graph, self.circuits, self.seed = cluster, graph, circuits, seed
        self.stop, self.paired = stop, cluster.links is LinkDirection.BIDIRECTIONAL
        self.proposer = Proposer(cluster.degree, cluster.links, np.random.default_rng(seed))

    def run(self, start: Wiring, proposals: int, better: Callable[[float], None]) -> Exchanged:
        """Exchange links, beginning with those of `start`.

        Args:
            start: connected.
            proposals: at most.
            better: told of the best time so far, ms, now and then.
        """
        best = here = self._state(start, self.time_ms(start))
        made = gained = 0
        while made < proposals and self.stop.reason() is None:
            if made % BATCH == 0:
                better(best.time_ms)
            walked = made - DESCENT * proposals
            left = 1.0 - walked / ((1.0 - DESCENT) * proposals)
            limit = best.time_ms * (1.0 + DEVIATION * left) if walked >= 0 else here.time_ms
            made += 1
            found = self._proposed(here, limit)
            if found is None:
                continue
            here = found
            if here.time_ms < best.time_ms * (1.0 - GAIN):
                best = here
                gained += 1
        better(best.time_ms)
        return Exchanged(best.wiring, best.time_ms, made, gained)

    def time_ms(self, wiring: Wiring, limit: float = np.inf, *, rounds: bool = True) -> float:
        """Iteration time by `rounds` or `hop`; infinity once it is sure to be above the limit."""
        network = self.network(wiring)
        return float(iteration_time(graph_arrays(self.graph, network), network_arrays(network), rounds, limit))

    def _proposed(self, here: _State, limit: float) -> _State | None:
        """An exchange that ends within the limit; by `hop` first, which is faster."""
        exchange = self.proposer.propose(here.wiring.counts, here.wants, here.tried)
        mended = None if exchange is None else rewired(here.wiring, exchange)
        if mended is None:
            return None
        quick_ms, chosen = here.hop_ms * limit / here.time_ms * CLOSE, None
        anew = rings_anew(mended, paired=self.paired, seed=self.seed)
        for wiring in (mended,) if anew is mended else (anew, mended):
            hop_ms = self.time_ms(wiring, quick_ms, rounds=False)
            if hop_ms < quick_ms or (hop_ms == quick_ms and chosen is None):
                quick_ms, chosen = hop_ms, wiring
        if chosen is None:
            return None
        time_ms = self.time_ms(chosen, limit)
        return self._state(chosen, time_ms) if time_ms <= limit else None

    def _state(self, wiring: Wiring, time_ms: float) -> _State:
        return _State(wiring, time_ms, self.time_ms(wiring, rounds=False), self._wants(wiring), set())

    def _wants(self, wiring: Wiring) -> Wants:
        simulation = simulate(self.graph, self.network(wiring))
        return wants_of(self.graph, simulation, wiring, paired=self.paired, circuits=self.circuits)

    def network(self, wiring: Wiring) -> Network:
        cluster, arcs = self.cluster, wiring.arcs
        topology = Topology(
            servers=cluster.servers,
            degree=cluster.degree,
            links=cluster.links,
            arcs=arcs.astype(np.int32),
            multiplicity=wiring.counts[arcs[:, 0], arcs[:, 1]].astype(np.int32),
            switches=np.zeros((0, cluster.servers), dtype=np.int32),
        )
        return direct_connect_network(cluster, topology, wiring.path_table(), wiring.rings)
