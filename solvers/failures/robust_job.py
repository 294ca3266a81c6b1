"""A job's topology whose worst single link failure is best, for the strategy the search has found.

The portfolio's topologies for the strategy's demand stand beside the one found; on small clusters link ends of the best
are exchanged as well. Each is realised and simulated, then every link of it fails, the busiest first, until one failure
is as bad as the best design's worst.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from solvers.failures.damage import PlanTraffic
from solvers.failures.job import JobEvaluator
from solvers.failures.listing import single_links
from solvers.failures.ring_repairs import Repaired
from solvers.job.loop import LoopResult
from solvers.job.realise import Realisation, demand_routed, realise
from solvers.network.constructions import candidate_topologies
from solvers.network.search.links import LinkTable, arcs_of, table_of, table_of_arcs, topology_of
from solvers.stop import Stop
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InfeasibleError
from topoopt.core.failures import FailureOutcome
from topoopt.core.job import ConvergencePoint
from topoopt.core.plan import Plan
from topoopt.core.routing import Demand
from topoopt.core.search_settings import RobustGoal
from topoopt.core.topology import Topology
from topoopt.core.workload import TaskGraph, Workload
from topoopt.simulate.lower import build_task_graph, demand_of

EXCHANGE_SERVERS = 16
EXCHANGES = 60
"""Random exchanges of two links' ends tried on the best design, up to so many servers."""


@dataclass(frozen=True, eq=False)
class RobustJobDesign:
    """A plan with its time, and with what its worst single link failure does."""

    topology: Topology
    plan: Repaired
    nominal_ms: float
    worst: FailureOutcome | None

    @property
    def worst_ms(self) -> float:
        """After the worst failure; infinite where traffic is cut off."""
        return float("inf") if self.worst is None or self.worst.value is None else self.worst.value


class RobustDesign:
    """Designs for one strategy.

    Args:
        result: of the search without failures.
        goal: how much worse than it a design may be without failure.
        topologies: of the portfolio.
    """

    def __init__(
        self,
        cluster: Cluster,
        workload: Workload,
        result: LoopResult,
        goal: RobustGoal,
        *,
        topologies: int,
        seed: int,
        stop: Stop,
    ) -> None:
        self.cluster, self.result, self.stop = cluster, result, stop
        self.topologies, self.seed = topologies, seed
        self.graph: TaskGraph = build_task_graph(cluster, workload, result.plan.strategy)
        self.demand: Demand = demand_of(self.graph)
        within = goal.within_percent
        self.limit_ms = float("inf") if within is None else result.iteration_time_ms * (1 + within / 100)

    def run(self) -> LoopResult:
        """The result with the best design in it, and notes on what robustness costs."""
        plan = self.result.plan
        first = self._judged(plan.topology, Repaired(plan.routes, plan.rings), float("inf"))
        assert first is not None
        best = first
        for design in self._candidates():
            best = self._better(best, design)
            if self.stop.reason() is not None:
                break
        if self.cluster.servers <= EXCHANGE_SERVERS:
            best = self._exchanged(best)
        points, faster = self.result.convergence, best.nominal_ms < self.result.iteration_time_ms
        found = ConvergencePoint(self.result.proposals, "robust design", best.nominal_ms)
        return replace(
            self.result,
            plan=Plan(plan.strategy, best.topology, best.plan.routes, best.plan.rings),
            iteration_time_ms=best.nominal_ms,
            convergence=(*points, found) if faster else points,
            notes=(*self.result.notes, *self._notes(first, best)),
            stopped_by=self.stop.reason() or self.result.stopped_by,
        )

    def _candidates(self) -> Iterator[Topology]:
        yield from candidate_topologies(self.cluster, self.demand, limit=self.topologies, seed=self.seed)

    def _better(self, best: RobustJobDesign, topology: Topology) -> RobustJobDesign:
        """The best, or the topology with its best routes if that stands its failures better."""
        groups = [group.members for group in self.demand.allreduce]
        base = realise(self.cluster, topology, groups, seed=self.seed)
        made = min((self._timed(each) for each in self._routed(base)), key=lambda entry: entry[0])
        if made[0] > self.limit_ms or made[0] >= best.worst_ms:
            return best
        plan = Repaired(made[1].routes, made[1].rings)
        other = self._judged(topology, plan, best.worst_ms)
        return best if other is None or other.worst_ms >= best.worst_ms else other

    def _routed(self, base: Realisation) -> Iterator[Realisation]:
        yield base
        yield from demand_routed(self.cluster, base, self.demand.model_parallel_bytes, seed=self.seed)

    def _timed(self, made: Realisation) -> tuple[float, Realisation]:
        return self._evaluator(made.topology, Repaired(made.routes, made.rings)).nominal, made

    def _evaluator(self, topology: Topology, plan: Repaired) -> JobEvaluator:
        return JobEvaluator(self.cluster, PlanTraffic(topology, plan.routes, plan.rings, self.demand), self.graph)

    def _judged(self, topology: Topology, plan: Repaired, beat: float) -> RobustJobDesign | None:
        """The design with its worst failure; None as soon as one failure is no better than `beat`.

        A design that a failure cuts traffic of off is given back with that failure.
        """
        evaluator = self._evaluator(topology, plan)
        loads = evaluator.traffic.loads / np.maximum(topology.multiplicity, 1)
        ids = topology.arc_ids()
        worst: FailureOutcome | None = None
        for failure in sorted(single_links(topology), key=lambda each: -loads[ids[each.links[0]]]):
            outcome = evaluator.outcome(failure)
            if outcome.value is None:
                return RobustJobDesign(topology, plan, evaluator.nominal, outcome)
            if outcome.value >= beat:
                return None
            if worst is None or outcome.value > (worst.value or 0.0):
                worst = outcome
        return RobustJobDesign(topology, plan, evaluator.nominal, worst)

    def _exchanged(self, best: RobustJobDesign) -> RobustJobDesign:
        """Random exchanges of link ends, kept where they help."""
        rng = np.random.default_rng(self.seed)
        for _ in range(EXCHANGES):
            if self.stop.reason() is not None:
                break
            table = exchanged(table_of(best.topology), rng)
            if table is None:
                continue
            origin = f"{best.topology.origin.removesuffix(', exchanged')}, exchanged"
            try:
                topology = topology_of(table.out, self.cluster.links, origin)
                best = self._better(best, topology)
            except InfeasibleError:
                continue
        return best

    def _notes(self, first: RobustJobDesign, best: RobustJobDesign) -> tuple[str, ...]:
        def text(design: RobustJobDesign) -> str:
            if design.worst is None or design.worst.value is None:
                return f"{design.nominal_ms:.6g} ms, and some traffic cut off by one failed link"
            return (
                f"{design.nominal_ms:.6g} ms, {design.worst.value:.6g} ms after the worst single link failure "
                f"({design.worst.failure.label}, {design.worst.repair})"
            )

        price = best.nominal_ms / first.nominal_ms - 1 if first.nominal_ms > 0 else 0.0
        return (
            f"robust design: {text(best)}; without robustness {text(first)}; price of robustness {price:+.2%}",
            "not proven to be the most robust: the strategy is that of the search without failures, topologies are the "
            f"portfolio's and, up to {EXCHANGE_SERVERS} servers, exchanges of link ends",
        )


def exchanged(table: LinkTable, rng: np.random.Generator) -> LinkTable | None:
    """Two random links with their ends exchanged; None where that would join a server to itself."""
    arcs = arcs_of(table.out)
    if table.paired:
        arcs = arcs[arcs[:, 0] < arcs[:, 1]]
    if len(arcs) < 2:
        return None
    one, two = (int(k) for k in rng.choice(len(arcs), 2, replace=False))
    new = arcs.copy()
    if table.paired and rng.random() < 0.5:
        new[two] = new[two, ::-1]
    new[one, 1], new[two, 1] = new[two, 1], new[one, 1]
    if (new[:, 0] == new[:, 1]).any():
        return None
    n, degree = table.out.shape
    return table_of_arcs(n, degree, table.links, np.vstack((new, new[:, ::-1])) if table.paired else new)
