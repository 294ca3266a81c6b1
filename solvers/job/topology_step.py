"""The topology half of the alternating loop: candidate topologies for the demand of a strategy, realised and simulated.

Nothing is believed of a candidate but its simulated iteration time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from solvers.job.annealed_topologies import annealed_topologies
from solvers.job.collective_graphs import CollectiveGraphs
from solvers.job.grouped_topologies import grouped_topologies
from solvers.job.loop import Candidate, LoopSettings
from solvers.job.realise import (
    LP_SERVERS,
    Realisation,
    demand_routed,
    mix_realised,
    pairs_routed,
    realise,
    too_long,
    with_schedules,
    without_idle_routes,
)
from solvers.job.scheduled import JobSchedules, allreduce_sizes
from solvers.job.sizes import ALL_PAIRS_SERVERS, effort_for
from solvers.network.constructions import candidate_topologies
from solvers.stop import Stop
from topoopt.core.cluster import Cluster, LinkSharing
from topoopt.core.collective import GroupSchedule
from topoopt.core.graphs import strongly_connected
from topoopt.core.routing import Demand
from topoopt.core.search_settings import AllReduceChoice
from topoopt.core.topology import Topology
from topoopt.core.workload import Strategy, TaskGraph, Workload
from topoopt.simulate.demand import demand_of
from topoopt.simulate.lower import build_task_graph
from topoopt.simulate.time_models.arrival import rounds_within
from topoopt.simulate.time_models.evaluate import simulate

if TYPE_CHECKING:
    from solvers.job.program_topologies import TopologyQuestion


class TopologyStep:
    """Finds topologies for strategies of one job."""

    def __init__(self, cluster: Cluster, workload: Workload, settings: LoopSettings, *, seed: int, stop: Stop) -> None:
        self.cluster, self.workload, self.settings = cluster, workload, settings
        self.seed, self.stop = seed, stop
        self.effort = effort_for(cluster.servers)
        self._questions: dict[bytes, TopologyQuestion] = {}
        self._schedules = JobSchedules(cluster, settings.allreduce, stop)
        self._graphs = CollectiveGraphs(cluster, stop, seed=seed)
        self._times: dict[tuple[Strategy, str, bytes], float] = {}

    def portfolio(
        self, origin: str, strategy: Strategy, *, limit: int, at_most_ms: float = math.inf
    ) -> list[Candidate]:
        """The portfolio's topologies for a strategy's demand, best first: ranked by `hop`, the best by `rounds`.

        On rings, those worse than the best before them, or than `at_most_ms`, are told by an infinite time.

        Where AllReduces run on schedules, also those of the others, and of Cayley digraphs, whose score by steps,
        bandwidth factor and all-to-all is best.
        """
        graph = self.graph(strategy)
        demand = demand_of(graph)
        limit = limit if self.settings.search_topology else 1
        groups, pairs = [group.members for group in demand.allreduce], pairs_routed(demand)
        ranked: list[tuple[float, int, Realisation]] = []
        grouped: set[int] = set()
        for topology, in_groups in self._topologies(demand, limit):
            if ranked and too_long(topology, pairs):
                continue
            realisation = realise(self.cluster, topology, groups, pairs=pairs)
            time_ms = self._time_ms(graph, strategy, realisation, "hop") if limit > 1 else 0.0
            if in_groups:
                grouped.add(len(ranked))
            ranked.append((time_ms, len(ranked), realisation))
            if self.stop.reason() is not None:
                break
        ranked.sort(key=lambda entry: entry[:2])
        most = self.effort.by_rounds
        if self.cluster.link_sharing is LinkSharing.TRANSFERS_FIRST:
            ranked = with_one_of(grouped, ranked, most)
        realised = [each for _, _, each in ranked[:most]]
        if limit > 1 and self.settings.allreduce is not AllReduceChoice.RINGS and self.stop.reason() is None:
            others = [each.topology for _, _, each in ranked[most:]]
            made = self._graphs.best(others, graph, demand)
            realised += [realise(self.cluster, one, groups, pairs=pairs) for one in made]
        if self.settings.allreduce is AllReduceChoice.RINGS:
            candidates = []
            for each in realised:
                time_ms = self._time_ms(graph, strategy, each, "rounds", at_most_ms)
                at_most_ms = min(at_most_ms, time_ms)
                candidates.append(Candidate(origin, strategy, each, time_ms))
        else:
            candidates = [self.timed(graph, Candidate(origin, strategy, each, np.inf)) for each in realised]
        return sorted(candidates, key=lambda candidate: candidate.iteration_time_ms)

    def _topologies(self, demand: Demand, limit: int) -> Iterator[tuple[Topology, bool]]:
        """Each, and whether its links are in groups."""
        cluster, count = self.cluster, self.effort.annealed if limit > 1 else 0
        for topology in candidate_topologies(cluster, demand, limit=limit, seed=self.seed):
            yield topology, False
        for topology in grouped_topologies(cluster, demand, count=min(1, count), seed=self.seed, stop=self.stop):
            yield topology, True
        for topology in annealed_topologies(cluster, demand, count=count, seed=self.seed, stop=self.stop):
            yield topology, False

    def _time_ms(
        self, graph: TaskGraph, strategy: Strategy, realisation: Realisation, model: str, at_most_ms: float = math.inf
    ) -> float:
        """Iteration time on a topology as the portfolio realises it, which is the same whenever it comes up again; by
        `rounds` infinite where it exceeds `at_most_ms`."""
        topology = realisation.topology
        key = strategy, model, topology.arcs.tobytes() + topology.multiplicity.tobytes()
        if key in self._times:
            return self._times[key]
        if model != "rounds":
            time_ms = simulate(graph, realisation.network, model).iteration_time_ms
        else:
            time_ms = rounds_within(graph, realisation.network, at_most_ms)
        if time_ms < math.inf:
            self._times[key] = time_ms
        return time_ms

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
        others = self.portfolio(
            candidate.origin,
            candidate.strategy,
            limit=self.settings.topologies,
            at_most_ms=candidate.iteration_time_ms,
        )
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
            if not strongly_connected(topology.servers, topology.arcs):
                continue  # servers without traffic may have no links
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

    def shortened(self, candidate: Candidate) -> Candidate:
        """The candidate, on large clusters without routes that its strategy does not use."""
        if self.cluster.servers <= ALL_PAIRS_SERVERS or candidate.realisation.tailored:
            return candidate
        demand = demand_of(self.graph(candidate.strategy))
        return replace(candidate, realisation=without_idle_routes(self.cluster, candidate.realisation, demand))

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


Ranked = tuple[float, int, Realisation]


def with_one_of(grouped: set[int], ranked: list[Ranked], most: int) -> list[Ranked]:
    """The same with the best of those in groups last of the first `most`, where none is among them.

    Where transfers go first, `hop` has links that AllReduces share with them too fast: circulants, whose links they all
    share, come out up to a tenth too early (DLRM on 128 servers), links across groups do not.
    """
    if most < 2 or not grouped or any(place in grouped for _, place, _ in ranked[:most]):
        return ranked
    best = next(entry for entry in ranked if entry[1] in grouped)
    return [*ranked[: most - 1], best, *(entry for entry in ranked[most - 1 :] if entry is not best)]
