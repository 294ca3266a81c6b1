"""The alternating loop of TopoOpt (NSDI'23, section 4) searches a strategy on a fixed topology, then a topology for
that strategy, until neither improves.

    starts -> best (start, topology) pairs -> [ anneal strategy | topology fixed
                                                topology, routes, rings | strategy fixed ] ... -> plan

Proposals are scored by `hop`; whatever is kept is scored by `rounds`. The returned strategy, topology and routes are
always the ones that were simulated together. Parts of the search that do not depend on each other run one after the
other, or in processes at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from solvers.job.annealing import promising
from solvers.job.candidate_topologies import allreduce_sizes
from solvers.job.loop import (
    Candidate,
    LoopLog,
    LoopResult,
    LoopSettings,
    OnIncumbent,
    Progress,
    SearchSteps,
    TopologyStep,
)
from solvers.job.realise import MOST_HOPS, pairs_routed, realise, routes_of_pairs
from solvers.job.starts import ANNEALED_SERVERS, Start, data_parallel, starting_strategies
from solvers.processes import Crew, Gather, in_order, processes
from solvers.stop import Stop
from topoopt.core.arrays import GIB
from topoopt.core.cluster import Cluster
from topoopt.core.collective import schedule_for
from topoopt.core.errors import InfeasibleError, LimitError
from topoopt.core.job import ConvergencePoint, Plan
from topoopt.core.proofs import StopReason
from topoopt.core.result import AllReduceChoice
from topoopt.core.topology import Topology
from topoopt.core.workload import Strategy, Workload
from topoopt.simulate.network import demand_of


def distinct_strategies(reached: Candidate, others: Iterable[Candidate]) -> list[Candidate]:
    """One candidate for each strategy: what was reached, then the others, fast ones first."""
    distinct: dict[Strategy, Candidate] = {}
    for candidate in (reached, *sorted(others, key=lambda candidate: candidate.iteration_time_ms)):
        distinct.setdefault(candidate.strategy, candidate)
    return list(distinct.values())


def plan_of(step: TopologyStep, candidate: Candidate) -> Plan:
    """The plan of a candidate: rings and schedules in use, and routes of the pairs with demand, no more."""
    graph, own = step.graph(candidate.strategy), candidate.realisation
    demand = demand_of(graph)
    sizes = allreduce_sizes(graph)

    def on_rings(members: tuple[int, ...]) -> bool:
        return any(schedule_for(own.schedules, members, size) is None for size in sizes[tuple(sorted(members))])

    used = {group.members for group in demand.allreduce if on_rings(group.members)}
    rings = tuple(group for group in own.rings if group.members in used)
    routes = routes_of_pairs(own.routes, demand.model_parallel_bytes > 0)
    return Plan(candidate.strategy, own.topology, routes, rings, own.schedules)


Said = tuple[str, int, float]
"""Phase, proposals made, best time in ms."""


Part = tuple[str, tuple[Any, ...]]
"""Name of a method of `SearchSteps` and its arguments."""

DonePart = tuple[Candidate, tuple[Said, ...]]


def candidates_of(parts: Iterable[Part], steps: SearchSteps, team: Crew | None, log: LoopLog) -> Iterator[Candidate]:
    """What the parts find, in their order; the log is the same with a team as without.

    Without one, a part is asked for once what those before it found has been taken.
    """
    if team is None:
        for part in parts:
            yield getattr(steps, part[0])(*part[1])
        return
    for candidate, said in in_order(team(parts, log.show)):
        for entry in said:
            log.note(*entry)
        yield candidate


def part_work(
    stop: Stop, cluster: Cluster, workload: Workload, settings: LoopSettings, seed: int
) -> Callable[[Part, Progress], DonePart]:
    """What does parts in a process of its own, and keeps what each reports."""
    reported: list[Said] = []
    listeners: list[Progress] = []

    def step(phase: str, proposals: int, best_ms: float) -> None:
        reported.append((phase, proposals, best_ms))
        for listener in listeners:
            listener(phase, proposals, best_ms)

    steps = SearchSteps(
        cluster, workload, settings, seed=seed, stop=stop, step=step, offer=lambda candidate, phase: None
    )

    def work(part: Part, tell: Progress) -> DonePart:
        reported.clear()
        listeners[:] = [tell]
        return getattr(steps, part[0])(*part[1]), tuple(reported)

    return work


PATIENCE = 3
"""Turns without improvement after which the loop has converged."""

TEMPERATURES = (0.008, 0.03, 0.1)
"""Starting temperature of the strategy search of a turn, by the number of turns without improvement before it."""

AGAIN, SHORT_TEMPERATURES = 8, (0.02, 0.008, 0.008)
"""Short searches from a rough start, and the temperature that each turn of one starts from."""

SCHEDULED = 4
"""Strategies, the best of the loop first, that topologies for schedules are looked for."""


class Alternation:
    """One run of the loop; `run` is the figure of the paper, the other methods are its boxes."""

    def __init__(
        self,
        cluster: Cluster,
        workload: Workload,
        settings: LoopSettings,
        *,
        seed: int,
        stop: Stop,
        progress: Progress | None = None,
        on_incumbent: OnIncumbent | None = None,
        jobs: int = 1,
        crew: Gather | None = None,
    ) -> None:
        self.cluster, self.workload, self.settings = cluster, workload, settings
        self.seed, self.stop = seed, stop
        self.log = LoopLog(progress)
        # The loop on rings first where the best is asked for: what schedules gain comes on top of what rings reach.
        by_size = settings.allreduce is AllReduceChoice.BEST
        turning = replace(settings, allreduce=AllReduceChoice.RINGS) if by_size else settings
        self.steps = SearchSteps(
            cluster, workload, turning, seed=seed, stop=stop, step=self.log.step, offer=self._offer
        )
        self.topology = self.steps.topology
        self.jobs, self.crew = jobs, crew
        self.scheduled = TopologyStep(cluster, workload, settings, seed=seed, stop=stop) if by_size else None
        self.on_incumbent = on_incumbent
        self.incumbent: Candidate | None = None
        self.initial_ms: float | None = None
        self.notes: tuple[str, ...] = ()
        self.rough: set[str] = set()

    def run(self) -> LoopResult:
        """Alternate until converged, out of budget, or stopped.

        Raises:
            InfeasibleError: no strategy found fits the memory of the servers.
            LimitError: nor was there time to look for more.
        """
        with self._team() as team:
            pool, plain = self._first_pairs(team)
            explored = self._explored(pool, team) if self.settings.search_strategy else []
        finalists = [*pool, *explored]
        best = self._best(*finalists)
        if explored and not all(self.steps.annealable(candidate) for candidate in (*pool, best)):
            self.notes += (
                f"strategies are searched on no topology with more than {MOST_HOPS:,} hops between its servers",
            )
        spent = StopReason.CONVERGED
        if explored:
            share = self.settings.budget // 10
            stale = 0
            while stale < PATIENCE and self.stop.reason() is None:
                turn = self.log.turns
                if share == 0 or self.log.proposals + share > self.settings.budget * 7 // 8:
                    spent = StopReason.BUDGET
                    break
                self.log.turns += 1
                temperature = TEMPERATURES[min(stale, len(TEMPERATURES) - 1)]
                improved = self.steps.retopologised(
                    self.steps.annealed(best, share, 100 + turn, "alternate", start=temperature)
                )
                gain = best.iteration_time_ms - improved.iteration_time_ms
                stale = 0 if gain > 5e-4 * best.iteration_time_ms else stale + 1  # less is no gain
                best = self._best(best, improved)
            polished = self.steps.annealed(best, self.settings.budget // 8, 200, "polish", start=0.003, by_rounds=True)
            best = self._best(best, polished)
        improved = self._program_steps(best, finalists)
        # Routes help either: what the programs found must not stand in the way of a better plan without them.
        # So do those of plain data parallelism, which otherwise could end ahead of a plan that beat it before.
        distinct = list({id(candidate): candidate for candidate in (best, improved, *plain)}.values())
        best = self._best(*(self.topology.best_routes(candidate) for candidate in distinct))
        self._require_memory(best)
        self.log.step("routes", 0, best.iteration_time_ms)
        best = self._schedule_steps(best, finalists)
        return self._result(best, self.stop.reason() or spent)

    @contextmanager
    def _team(self) -> Iterator[Crew | None]:
        arguments = (self.cluster, self.workload, self.steps.settings, self.seed)
        if self.crew is not None or self.jobs > 1:
            with (self.crew or processes(self.jobs))(part_work, arguments, self.stop) as crew:
                yield crew
        else:
            yield None

    def _explored(self, pool: list[Candidate], team: Crew | None) -> list[Candidate]:
        """Every pair after its first turn, with half of the proposals in all; none where the time is up, or where there
        are too many servers: a proposal may send from any to any other."""
        if self.cluster.servers > ANNEALED_SERVERS:
            self.notes = (*self.notes, f"above {ANNEALED_SERVERS} servers strategies are chosen among starts alone")
            return []
        if self.stop.reason() is not None:
            return []
        rough, half = [pair for pair in pool if pair.origin in self.rough], self.settings.budget // 2
        proposals = half // len(pool) if not rough else half // 2 // len(pool)
        parts: list[Part] = [
            ("explored", (candidate, proposals, index, (0.02,))) for index, candidate in enumerate(pool)
        ]
        for pair in rough:  # short searches differ by far more than long ones gain
            short = half // len(rough) // (AGAIN * len(SHORT_TEMPERATURES))
            parts += [("explored", (pair, short, 1000 + 10 * again, SHORT_TEMPERATURES)) for again in range(AGAIN)]
        explored = []
        for candidate in candidates_of(parts, self.steps, team, self.log):
            explored.append(candidate)
            self._offer(candidate, "topology")
        return explored

    def _result(self, best: Candidate, stopped_by: StopReason) -> LoopResult:
        return LoopResult(
            plan=plan_of(self.topology, best),
            method="alternating",
            iteration_time_ms=best.iteration_time_ms,
            initial_ms=self.initial_ms,
            convergence=tuple(self.log.points),
            stopped_by=stopped_by,
            proposals=self.log.proposals,
            notes=(f"start: {best.origin}", *self.notes),
        )

    def _offer(self, candidate: Candidate, phase: str) -> None:
        fits = self.on_incumbent is not None and self.steps.overflow(candidate.strategy) == 0
        if not fits or (self.incumbent is not None and self.incumbent.iteration_time_ms <= candidate.iteration_time_ms):
            return
        self.incumbent = candidate
        proposals = self.log.proposals

        def result_now() -> LoopResult:
            result = self._result(candidate, self.stop.reason() or StopReason.TIME)
            # The log may be ahead of what was offered, and be behind it by a moment: it ends with the plan.
            points = [point for point in result.convergence if point.best_ms > candidate.iteration_time_ms]
            points = [point for point in points if point.proposals <= proposals]
            points.append(ConvergencePoint(proposals, phase, candidate.iteration_time_ms))
            return replace(result, convergence=tuple(points))

        if self.on_incumbent is not None:
            self.on_incumbent(result_now)

    def _first_pairs(self, team: Crew | None) -> tuple[list[Candidate], list[Candidate]]:
        n = self.cluster.servers
        first = Start("data parallel", data_parallel(n, self.workload))
        initial = self.topology.portfolio(first.name, first.strategy, limit=1)[0]
        if self.steps.overflow(initial.strategy) == 0:
            self.initial_ms = initial.iteration_time_ms
        else:
            self.notes = (self._left_for_memory(initial.strategy),)
        self._offer(initial, "start")
        self.log.step("start", 0, initial.iteration_time_ms if self.steps.overflow(initial.strategy) == 0 else np.inf)
        starts: list[Start] = list(starting_strategies(self.cluster, self.workload))  # solves a program: not before
        feasible = [start for start in starts if self.steps.overflow(start.strategy) == 0]
        if not self.settings.search_strategy:
            starts, feasible = starts[:1], [start for start in starts[:1] if start in feasible]
        chosen = feasible or sorted(starts, key=lambda start: self.steps.overflow(start.strategy))[:1]
        chosen = promising(self.cluster, self.workload, chosen)
        pool: list[Candidate] = []

        def parts() -> Iterator[Part]:
            for start in chosen:  # what is worse than a full pool will not stay in it
                full = len(pool) == self.settings.beam and not start.rough
                worst_ms = pool[-1].iteration_time_ms if full else math.inf
                yield "on_topologies", (start, self.settings.topologies, worst_ms)

        self.rough = {start.name for start in chosen if start.rough}
        plain: list[Candidate] = []
        beside: list[Candidate] = []
        for candidate in candidates_of(parts(), self.steps, team, self.log):
            # Sorted at once: on large clusters the networks of all starts would fill the memory.
            pool = sorted([*pool, candidate], key=lambda entry: entry.iteration_time_ms)[: self.settings.beam]
            if candidate.origin == first.name and feasible:
                plain.append(candidate)
            if candidate.origin in self.rough:
                beside.append(candidate)
            self._offer(candidate, "start")
            if self.steps.overflow(candidate.strategy) == 0:
                self.log.step("start", 0, candidate.iteration_time_ms)
            if self.stop.reason() is not None:
                break
        return [*pool, *(entry for entry in beside if entry not in pool)], plain

    def _left_for_memory(self, strategy: Strategy) -> str:
        needed = max(strategy.server_memory_bytes(self.workload, self.cluster.servers)) / self.cluster.gpus_per_server
        there = (self.cluster.gpu_memory_bytes or 0) / GIB
        return (
            f"data parallelism is no plan here: it needs {needed / GIB:.1f} GiB of a GPU, {there:g} GiB are there; "
            "nothing is compared with it"
        )

    def _program_steps(self, reached: Candidate, others: list[Candidate]) -> Candidate:
        """Topologies of the mathematical programs for the best candidates; strategy and programs in turn while the time
        falls and proposals are left."""
        best = reached
        if not self.settings.programs:
            return best
        for candidate in distinct_strategies(reached, others)[: self.settings.finalists]:
            best = self._best(best, self.topology.by_programs(candidate))
        gain = best.iteration_time_ms < reached.iteration_time_ms
        while gain and self.settings.search_strategy and self.stop.reason() is None:
            self.steps.note("programs", best)
            left = min(self.settings.budget - self.log.proposals, self.settings.budget // 16)
            if left <= 0:
                break
            self.log.turns += 1
            annealed = self.steps.annealed(best, left, 300 + self.log.turns, "polish", start=0.003, by_rounds=True)
            improved = self._best(best, self.topology.by_programs(annealed))
            gain = improved.iteration_time_ms < best.iteration_time_ms
            best = improved
        return best

    def _schedule_steps(self, reached: Candidate, others: list[Candidate]) -> Candidate:
        """Schedules instead of rings where the time falls, on the topology reached and on those found for schedules."""
        best, step = reached, self.scheduled
        for candidate in distinct_strategies(reached, others)[:SCHEDULED] if step else ():
            if step is None or self.stop.reason() is not None:
                return best
            own = step.timed(step.graph(candidate.strategy), candidate)
            best = self._best(best, own, step.best_routes(step.improved(own)))
            self.steps.note("schedules", best)
        return best

    def _best(self, *candidates: Candidate) -> Candidate:
        """The fastest of those that fit the memory best: a faster one that does not fit is no plan."""
        return min(candidates, key=lambda pair: (self.steps.overflow(pair.strategy), pair.iteration_time_ms))

    def _require_memory(self, candidate: Candidate) -> None:
        if self.steps.overflow(candidate.strategy) > 0:
            error = InfeasibleError if self.stop.reason() is None else LimitError
            raise error(
                "no strategy found fits the memory of the servers: the best one overflows by "
                f"{self.steps.overflow(candidate.strategy) / GIB:.1f} GiB in all; raise cluster.gpu_memory_gib, "
                "use more servers, or offer splits that take less memory"
            )


def plan_on(
    cluster: Cluster,
    workload: Workload,
    topology: Topology,
    strategy: Strategy,
    *,
    programs: tuple[str, ...] = (),
    allreduce: AllReduceChoice = AllReduceChoice.RINGS,
    seed: int = 0,
    stop: Stop,
) -> LoopResult:
    """The plan of a strategy on a connected topology: rings of its groups, routes balanced for its demand.

    Args:
        cluster, workload: of the job.
        topology, strategy: given; neither is changed.
        allreduce: what AllReduces run on.
        programs: whose ring mixes are tried as well (`solvers.job.program_topologies`).
        seed: of tie-breaks.
        stop: looked at before the programs.
    """
    settings = LoopSettings(0, 1, search_strategy=False, search_topology=False, programs=programs, allreduce=allreduce)
    step = TopologyStep(cluster, workload, settings, seed=seed, stop=stop)
    graph = step.graph(strategy)
    demand = demand_of(graph)
    groups = [group.members for group in demand.allreduce]
    plain = realise(cluster, topology, groups, seed=seed, pairs=pairs_routed(demand))
    first = step.timed(graph, Candidate("given", strategy, plain, np.inf))
    best = step.best_routes(first)
    return LoopResult(
        plan=plan_of(step, best),
        method="given",
        iteration_time_ms=best.iteration_time_ms,
        initial_ms=first.iteration_time_ms,
        convergence=(ConvergencePoint(0, "routes", best.iteration_time_ms),),
        stopped_by=stop.reason() or StopReason.CONVERGED,
        proposals=0,
        notes=("strategy and topology were given, rings and routes made for them",),
    )
