"""The topology half of the alternating loop: candidate topologies for the demand of a strategy, realised and simulated.

Nothing is believed of a candidate but its simulated iteration time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from solvers.job.collective_graphs import CollectiveGraphs
from solvers.job.loop import Candidate, LoopSettings
from solvers.job.realise import LP_SERVERS, Realisation, demand_routed, mix_realised, realise, with_schedules
from solvers.job.scheduled import JobSchedules, allreduce_sizes
from solvers.network.constructions import candidate_topologies
from solvers.stop import Stop
from topoopt.core.cluster import Cluster
from topoopt.core.demand import Demand
from topoopt.core.group_schedule import GroupSchedule
from topoopt.core.search_settings import AllReduceChoice
from topoopt.core.strategy import Strategy
from topoopt.core.taskgraph import TaskGraph
from topoopt.core.workload import Workload
from topoopt.simulate.demand import demand_of
from topoopt.simulate.lower import build_task_graph
from topoopt.simulate.time_models.evaluate import simulate

if TYPE_CHECKING:
    from solvers.job.program_topologies import TopologyQuestion

SIMULATED_BY_ROUNDS = 5
"""Candidates, the best by `hop`, that are simulated by `rounds`."""


class TopologyStep:
    """Finds topologies for strategies of one job."""

    def __init__(self, cluster: Cluster, workload: Workload, settings: LoopSettings, *, seed: int, stop: Stop) -> None:
        self.cluster, self.workload, self.settings = cluster, workload, settings
        self.seed, self.stop = seed, stop
        self._questions: dict[bytes, TopologyQuestion] = {}
        self._schedules = JobSchedules(cluster, settings.allreduce, stop)
        self._graphs = CollectiveGraphs(cluster, stop, seed=seed)

    def portfolio(self, origin: str, strategy: Strategy, *, limit: int) -> list[Candidate]:
        """The portfolio's topologies for a strategy's demand, best first: ranked by `hop`, the best by `rounds`.

        Where AllReduces run on schedules, also those of the others, and of Cayley digraphs, whose score by steps,
        bandwidth factor and all-to-all is best.
        """
        graph = self.graph(strategy)
        demand = demand_of(graph)
        limit = limit if self.settings.search_topology else 1
        groups = [group.members for group in demand.allreduce]
        ranked: list[tuple[float, int, Realisation]] = []
        for topology in candidate_topologies(self.cluster, demand, limit=limit, seed=self.seed):
            realisation = realise(self.cluster, topology, groups)
            time_ms = simulate(graph, realisation.network, "hop").iteration_time_ms if limit > 1 else 0.0
            ranked.append((time_ms, len(ranked), realisation))
            if self.stop.reason() is not None:
                break
        ranked.sort(key=lambda entry: entry[:2])
        realised = [each for _, _, each in ranked[:SIMULATED_BY_ROUNDS]]
        if limit > 1 and self.settings.allreduce is not AllReduceChoice.RINGS and self.stop.reason() is None:
            others = [each.topology for _, _, each in ranked[SIMULATED_BY_ROUNDS:]]
            realised += [realise(self.cluster, one, groups) for one in self._graphs.best(others, graph, demand)]
        candidates = [self.timed(graph, Candidate(origin, strategy, each, np.inf)) for each in realised]
        return sorted(candidates, key=lambda candidate: candidate.iteration_time_ms)

    def timed(self, graph: TaskGraph, candidate: Candidate) -> Candidate:
        """The candidate with its iteration time, AllReduces on what is asked for.

        That is the fastest, simulated, of all proposals of schedules; where the best is asked for, also of rings, and
        of the fastest proposal with one schedule after another left out.
        """
        base, choice = candidate.realisation, self.settings.allreduce
        if choice is AllReduceChoice.RINGS:
            return self._simulated(graph, candidate, base)
        if base.schedules:
            base = with_schedules(self.cluster, base, ())
        sizes = allreduce_sizes(graph)
        if not sizes:
            return self._simulated(graph, candidate, base)
        with_rings = choice is AllReduceChoice.BEST
        best = self._simulated(graph, candidate, base) if with_rings else replace(candidate, iteration_time_ms=np.inf)
        rings = [group for group in base.rings if with_rings and tuple(sorted(group.members)) in sizes]
        for schedules in self._schedules.proposals(base.topology, sizes, rings):
            best = self._better(best, self._simulated(graph, candidate, self._on(base, schedules)))
        for one in best.realisation.schedules if with_rings else ():
            rest = tuple(other for other in best.realisation.schedules if other is not one)
            best = self._better(best, self._simulated(graph, candidate, self._on(base, rest)))
        return best

    def _on(self, base: Realisation, schedules: tuple[GroupSchedule, ...]) -> Realisation:
        return with_schedules(self.cluster, base, schedules) if schedules else base

    def _simulated(self, graph: TaskGraph, candidate: Candidate, realisation: Realisation) -> Candidate:
        time_ms = simulate(graph, realisation.network).iteration_time_ms
        return replace(candidate, realisation=realisation, iteration_time_ms=time_ms)

    def improved(self, candidate: Candidate) -> Candidate:
        """TopologyFinder for the strategy of a candidate: its topology unless another one is better."""
        if not self.settings.search_topology or self.stop.reason() is not None:
            return candidate
        others = self.portfolio(candidate.origin, candidate.strategy, limit=self.settings.topologies)
        return min([candidate, *others], key=lambda each: each.iteration_time_ms)

    def by_programs(self, candidate: Candidate) -> Candidate:
        """Topologies of the mathematical programs, each with its own rings and routes and with mixed ones."""
        settings = self.settings
        if not (settings.search_topology and settings.programs) or self.stop.reason() is not None:
            return candidate
        from solvers.job.program_topologies import program_topologies

        graph = self.graph(candidate.strategy)
        demand = demand_of(graph)
        groups = [group.members for group in demand.allreduce]
        best = candidate
        question = self._question(demand)
        for topology in program_topologies(settings.programs, question, candidate.realisation.topology):
            plain = realise(self.cluster, topology, groups)
            for realisation in (plain, *self._mixed(plain, question)):
                best = self._better(best, self.timed(graph, replace(candidate, realisation=realisation)))
        return best

    def best_routes(self, candidate: Candidate) -> Candidate:
        """Routes balanced for the very demand of the final strategy, and ring mixes, where they are better."""
        graph = self.graph(candidate.strategy)
        demand = demand_of(graph)
        best = candidate
        base = candidate.realisation
        for realisation in demand_routed(self.cluster, base, demand.model_parallel_bytes, seed=self.seed):
            best = self._better(best, self.timed(graph, replace(candidate, realisation=realisation)))
        if self.settings.programs and self.stop.reason() is None:
            for realisation in self._mixed(base, self._question(demand)):
                best = self._better(best, self.timed(graph, replace(candidate, realisation=realisation)))
        return best

    def graph(self, strategy: Strategy) -> TaskGraph:
        """Task graph of one iteration."""
        return build_task_graph(self.cluster, self.workload, strategy)

    def _question(self, demand: Demand) -> TopologyQuestion:
        """The question of a demand, with the ring mixes already known for it."""
        from solvers.job.program_topologies import TopologyQuestion

        payloads = [(group.members, group.payload_bytes) for group in demand.allreduce]
        key = demand.model_parallel_bytes.tobytes() + repr(payloads).encode()
        return self._questions.setdefault(key, TopologyQuestion(self.cluster, demand, self.seed, self.stop))

    def _mixed(self, base: Realisation, question: TopologyQuestion) -> Iterator[Realisation]:
        """The same topology with the rings and routes of the ring mix."""
        mix = question.mix(base.topology) if self.cluster.servers <= LP_SERVERS else None
        if mix is not None:
            yield from mix_realised(self.cluster, base, question.demand, mix)

    def _better(self, best: Candidate, other: Candidate) -> Candidate:
        return best if other.iteration_time_ms >= best.iteration_time_ms else other
