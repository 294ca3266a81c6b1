"""The alternating loop has two halves: strategy search on a topology, and candidate topologies for the demand of a
strategy.

Nothing is believed of a candidate but its simulated iteration time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from solvers.job.annealing import AnnealSettings, anneal, graph_shape, memory_capacity, overflow_bytes
from solvers.job.candidate_topologies import (
    CollectiveGraphs,
    JobSchedules,
    allreduce_sizes,
    annealed_topologies,
    grouped_topologies,
    in_blocks,
    product_topologies,
)
from solvers.job.realise import (
    LP_SERVERS,
    Realisation,
    demand_routed,
    extends,
    mix_realised,
    pairs_routed,
    realise,
    split_routed,
    too_long,
    with_rings_for,
    with_schedules,
    without_idle_routes,
)
from solvers.job.starts import ALL_PAIRS_SERVERS, ROUTED_SERVERS, Start, effort_for
from solvers.network.finder import candidate_topologies
from solvers.stop import Stop
from topoopt.core.cluster import Cluster, LinkSharing
from topoopt.core.collective import GroupSchedule
from topoopt.core.job import ConvergencePoint, JointBound, Plan
from topoopt.core.result import AllReduceChoice, SearchResult
from topoopt.core.topology import Topology, strongly_connected
from topoopt.core.workload import Demand, Strategy, TaskGraph, Workload, strided_groups
from topoopt.simulate.network import build_task_graph, demand_of, network_arrays, workload_arrays
from topoopt.simulate.time_models.evaluate import rounds_within, simulate

if TYPE_CHECKING:
    from solvers.job.program_topologies import TopologyQuestion


Progress = Callable[[str, int, float], None]
"""Called with (phase, proposals made since the last call, best iteration time so far in ms)."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A strategy simulated on a realised topology by `rounds`."""

    origin: str
    strategy: Strategy
    realisation: Realisation
    iteration_time_ms: float


@dataclass(frozen=True)
class LoopSettings:
    """Shares of the work.

    Attributes:
        budget: strategy proposals in all.
        topologies: candidate topologies looked at per strategy.
        beam: (start, topology) pairs that are annealed.
        search_strategy, search_topology: switch one half of the loop off.
        programs: names of PROGRAMS (`solvers.job.program_topologies`) that add topologies and ring mixes, after
            the loop, which is the same with them as without, so that they can only gain.
        finalists: candidates they are asked about, the best of the loop first.
        allreduce: what AllReduces run on; strategies are searched on rings whatever it is, and what is kept of them is
            simulated on this.
    """

    budget: int
    topologies: int
    beam: int = 3
    search_strategy: bool = True
    search_topology: bool = True
    programs: tuple[str, ...] = ()
    finalists: int = 1
    allreduce: AllReduceChoice = AllReduceChoice.RINGS


@dataclass(frozen=True, eq=False, kw_only=True)
class LoopResult(SearchResult[Plan]):
    """The best plan of a search, with the way there.

    Attributes:
        iteration_time_ms: of the plan.
        initial_ms: of the first one, data parallel on TotientPerms; None: it does not fit the memory.
        convergence: how it went.
        proposals: strategies proposed in all.
        joint: what method `joint` proves.
    """

    iteration_time_ms: float
    initial_ms: float | None
    convergence: tuple[ConvergencePoint, ...]
    proposals: int
    joint: JointBound | None = None


OnIncumbent = Callable[[Callable[[], LoopResult]], None]
"""Called whenever there is a better plan, with what would be returned if the search had to be left now."""


@dataclass
class LoopLog:
    progress: Progress | None
    proposals: int = 0
    turns: int = 0
    best_ms: float = float("inf")
    shown_ms: float = float("inf")
    points: list[ConvergencePoint] = field(default_factory=list)

    def step(self, phase: str, proposals: int, best_ms: float) -> None:
        """Note proposals made in a phase and a time reached, and show them."""
        self.note(phase, proposals, best_ms)
        self.show(phase, proposals, best_ms)

    def note(self, phase: str, proposals: int, best_ms: float) -> None:
        """Note what was made in a phase, whenever it is the turn of that."""
        self.proposals += proposals
        if best_ms < self.best_ms:
            self.best_ms = best_ms
            self.points.append(ConvergencePoint(self.proposals, phase, best_ms))

    def show(self, phase: str, proposals: int, best_ms: float) -> None:
        """Show it as it is made, maybe by several at once."""
        self.shown_ms = min(self.shown_ms, best_ms)
        if self.progress is not None:
            self.progress(phase, proposals, self.shown_ms)


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
        realised = [option for _, _, option in ranked[:most]]
        if limit > 1 and self.settings.allreduce is not AllReduceChoice.RINGS and self.stop.reason() is None:
            others = [option.topology for _, _, option in ranked[most:]]
            made = self._graphs.best(others, graph, demand)
            realised += [realise(self.cluster, cayley, groups, pairs=pairs) for cayley in made]
        if self.settings.allreduce is AllReduceChoice.RINGS:
            candidates = []
            for option in self._routed(realised, demand) if limit > 1 else realised:
                time_ms = self._time_ms(graph, strategy, option, "rounds", at_most_ms)
                at_most_ms = min(at_most_ms, time_ms)
                candidates.append(Candidate(origin, strategy, option, time_ms))
        else:
            candidates = [self.timed(graph, Candidate(origin, strategy, option, np.inf)) for option in realised]
        return sorted(candidates, key=lambda candidate: candidate.iteration_time_ms)

    def _routed(self, realised: list[Realisation], demand: Demand) -> Iterator[Realisation]:
        """These, and where that pays each with routes split for the demand as well."""
        traffic, n = demand.model_parallel_bytes, self.cluster.servers
        pays = traffic.any() if n in ROUTED_SERVERS else n < ROUTED_SERVERS.start and in_blocks(demand)
        for option in realised:
            yield option
            if pays:
                yield split_routed(self.cluster, option, traffic, seed=self.seed)

    def _topologies(self, demand: Demand, limit: int) -> Iterator[tuple[Topology, bool]]:
        """Each, and whether its links are in groups."""
        cluster, count = self.cluster, self.effort.annealed if limit > 1 else 0
        for topology in candidate_topologies(cluster, demand, limit=limit, seed=self.seed):
            yield topology, False
        for topology in grouped_topologies(cluster, demand, count=min(1, count), seed=self.seed, stop=self.stop):
            yield topology, True
        if cluster.servers < ROUTED_SERVERS.stop and limit > 1:
            for topology in product_topologies(cluster, demand):
                yield topology, True
        for topology in annealed_topologies(cluster, demand, count=count, seed=self.seed, stop=self.stop):
            yield topology, False

    def _time_ms(
        self, graph: TaskGraph, strategy: Strategy, realisation: Realisation, model: str, at_most_ms: float = math.inf
    ) -> float:
        """Iteration time on a topology as the portfolio realises it, which is the same whenever it comes up again; by
        `rounds` infinite where it exceeds `at_most_ms`."""
        topology = realisation.topology
        key = strategy, f"{model} {realisation.tailored}", topology.arcs.tobytes() + topology.multiplicity.tobytes()
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
        for schedule in best.realisation.schedules if with_rings else ():
            rest = tuple(other for other in best.realisation.schedules if other is not schedule)
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
        return min([candidate, *others], key=lambda entry: entry.iteration_time_ms)

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
        return build_task_graph(self.cluster, self.workload, strategy)

    def _question(self, demand: Demand) -> TopologyQuestion:
        from solvers.job.program_topologies import TopologyQuestion

        payloads = [(group.members, group.payload_bytes) for group in demand.allreduce]
        key = demand.model_parallel_bytes.tobytes() + repr(payloads).encode()
        return self._questions.setdefault(key, TopologyQuestion(self.cluster, demand, self.seed, self.stop))

    def _mixed(self, base: Realisation, question: TopologyQuestion) -> Iterator[Realisation]:
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
    if most < 2 or not grouped or any(index in grouped for _, index, _ in ranked[:most]):
        return ranked
    best = next(entry for entry in ranked if entry[1] in grouped)
    return [*ranked[: most - 1], best, *(entry for entry in ranked[most - 1 :] if entry is not best)]


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

    def explored(self, candidate: Candidate, proposals: int, stream: int, temperatures: tuple[float, ...]) -> Candidate:
        """The first turns of a pair of start and topology, each of so many proposals, with its own random numbers."""
        for turn, start in enumerate(temperatures):
            candidate = self.retopologised(self.annealed(candidate, proposals, stream + turn, "explore", start=start))
        return candidate

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
        realisation, on_rings = candidate.realisation, self.settings.allreduce is AllReduceChoice.RINGS
        if realisation.schedules:
            realisation = with_schedules(self.cluster, realisation, ())
        if realisation.partial or len(realisation.rings) != len(self.groups):
            realisation = self._full(realisation)
            on_rings = on_rings and extends(realisation, candidate.realisation)
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
            start_ms=candidate.iteration_time_ms if on_rings else None,
        )
        annealed = Candidate(candidate.origin, result.strategy, realisation, result.iteration_time_ms)
        if self.settings.allreduce is not AllReduceChoice.RINGS:
            annealed = self.topology.timed(self.topology.graph(annealed.strategy), annealed)
        self.note(phase, annealed)
        return self.topology.shortened(annealed)

    def annealable(self, candidate: Candidate) -> bool:
        """Whether strategies can be searched on its topology: a proposal may send from any server to any other."""
        return not too_long(candidate.realisation.topology, None)

    def note(self, phase: str, candidate: Candidate) -> None:
        """Offer a candidate, and tell of its time if it is a plan."""
        self.offer(candidate, phase)
        if self.overflow(candidate.strategy) == 0:
            self.step(phase, 0, candidate.iteration_time_ms)

    def _full(self, realisation: Realisation) -> Realisation:
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
