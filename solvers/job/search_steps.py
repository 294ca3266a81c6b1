"""The two halves of the alternating loop, one turn each: strategy search on a topology, a topology for a strategy."""

from __future__ import annotations

from collections.abc import Callable

from solvers.job.loop import Candidate, LoopSettings, Progress
from solvers.job.realise import Realisation, extends, realise, too_long, with_rings_for, with_schedules
from solvers.job.strategy.anneal import AnnealSettings, anneal, memory_capacity, overflow_bytes
from solvers.job.strategy.graph_shape import graph_shape
from solvers.job.strategy.starts import Start
from solvers.job.topology_step import TopologyStep
from solvers.stop import Stop
from topoopt.core.cluster import Cluster
from topoopt.core.search_settings import AllReduceChoice
from topoopt.core.workload import Strategy, Workload, strided_groups
from topoopt.simulate.network import network_arrays
from topoopt.simulate.workload_arrays import workload_arrays


class SearchSteps:
    """Turns of one job, each a function of its arguments and the seed alone."""

    def __init__(
        self,
        cluster: Cluster,
        workload: Workload,
        settings: LoopSettings,
        *,
        seed: int,
        stop: Stop,
        step: Progress,
        offer: Callable[[Candidate, str], None],
    ) -> None:
        """Prepare a job.

        Args:
            step: told of (phase, proposals made, best time in ms).
            offer: given every candidate whose time is known, and its phase.
        """
        self.cluster, self.workload, self.settings = cluster, workload, settings
        self.seed, self.stop = seed, stop
        self.step, self.offer = step, offer
        self.arrays = workload_arrays(cluster, workload)
        self.shape = graph_shape(workload)
        self.capacity = memory_capacity(cluster)
        self.groups = strided_groups(cluster.servers)
        self.topology = TopologyStep(cluster, workload, settings, seed=seed, stop=stop)

    def overflow(self, strategy: Strategy) -> float:
        """Bytes in all by which servers have too little memory."""
        return overflow_bytes(self.arrays, strategy, self.capacity)

    def on_topologies(self, start: Start, topologies: int, at_most_ms: float) -> Candidate:
        """A start on the best of so many topologies; its time may be infinite where it exceeds `at_most_ms`."""
        return self.topology.portfolio(start.name, start.strategy, limit=topologies, at_most_ms=at_most_ms)[0]

    def explored(self, candidate: Candidate, proposals: int, stream: int, heat: float) -> Candidate:
        """One of the first turns of a pair of start and topology."""
        return self.retopologised(self.annealed(candidate, proposals, stream, "explore", start=heat))

    def retopologised(self, candidate: Candidate) -> Candidate:
        """TopologyFinder for the strategy found: keep the topology unless another is better."""
        best = self.topology.improved(candidate)
        self.note("topology", best)
        return best

    def annealed(
        self,
        candidate: Candidate,
        proposals: int,
        stream: int,
        phase: str,
        *,
        start: float = 0.02,
        by_rounds: bool = False,
    ) -> Candidate:
        """Strategy search with the topology fixed, where it is `annealable`."""
        if not self.annealable(candidate):
            return candidate
        realisation, known = candidate.realisation, self.settings.allreduce is AllReduceChoice.RINGS
        if realisation.schedules:
            realisation = with_schedules(self.cluster, realisation, ())
        if realisation.partial or len(realisation.rings) != len(self.groups):
            realisation = self._full(realisation)
            known = known and extends(realisation, candidate.realisation)
        result = anneal(
            self.arrays,
            network_arrays(realisation.network),
            self.shape,
            candidate.strategy,
            AnnealSettings(proposals, start_temperature=start, scored_by_rounds=by_rounds, batch=self._batch()),
            capacity=self.capacity,
            seed=self.seed * 1_000_003 + stream,
            stop=self.stop,
            progress=lambda made, best_ms: self.step(phase, made, self._shown(best_ms, candidate)),
            start_ms=candidate.iteration_time_ms if known else None,
        )
        found = Candidate(candidate.origin, result.strategy, realisation, result.iteration_time_ms)
        if self.settings.allreduce is not AllReduceChoice.RINGS:
            found = self.topology.timed(self.topology.graph(found.strategy), found)
        self.note(phase, found)
        return self.topology.shortened(found)

    def annealable(self, candidate: Candidate) -> bool:
        """Whether strategies can be searched on its topology: a proposal may send from any server to any other."""
        return not too_long(candidate.realisation.topology, None)

    def note(self, phase: str, candidate: Candidate) -> None:
        """Offer a candidate, and tell of its time if it is a plan."""
        self.offer(candidate, phase)
        if self.overflow(candidate.strategy) == 0:
            self.step(phase, 0, candidate.iteration_time_ms)

    def _full(self, realisation: Realisation) -> Realisation:
        """The same topology and routes with rings for all cosets, as the search needs."""
        if realisation.tailored:
            return with_rings_for(self.cluster, realisation, self.groups, seed=self.seed)
        return realise(self.cluster, realisation.topology, self.groups, seed=self.seed)

    def _shown(self, best_ms: float, candidate: Candidate) -> float:
        # The annealing is on rings: its time is that of a plan only where plans are, too.
        on_rings = self.settings.allreduce is AllReduceChoice.RINGS
        return best_ms if on_rings and self.overflow(candidate.strategy) == 0 else float("inf")

    def _batch(self) -> int:
        """Proposals between two looks at the clock: fewer for larger graphs."""
        return max(5, min(200, 200_000 // (4 * self.arrays.servers * len(self.arrays.split_ptr) + 1)))
