"""Topologies whose worst single failure is best, of a network with a demand or of a job.

Failures of a network with a demand: theta of what survives, by routing all demand anew, with a proven bound.

Demand from and to failed servers goes with them. On a circulant with shift-invariant demand a failure and its
rotations are alike, and one of them is solved.

Topologies that stand the failure of any single link best: exact for few servers, else by exchanges of link ends.

The value of a network X is theta of the worst X - f, f a link of X, its demand routed anew. A cut Y from prices
(`solvers.network.local.price_cut`) has lambda(X') <= sum Y X' for every X', so

    lambda(X - f) <= sum Y X - Y_f,    lambda of the worst <= sum Y X - max_{f in X} Y_f,

which rules out most networks without any routing; of a network not ruled out, the failures with the least bound are
routed first, and the rest only while it may still be the best. One more link never makes the worst failure worse (its
own failure leaves the network as it was), so that exhaustive enumeration looks at networks without room for any.

A job's topology whose worst single link failure is best, for the strategy the search has found.

The portfolio's topologies for the strategy's demand stand beside the one found; on small clusters link ends of the best
are exchanged as well. Each is realised and simulated, then every link of it fails, the busiest first, until one failure
is as bad as the best design's worst.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from solvers.failures.job import JobEvaluator
from solvers.failures.repairs import PlanTraffic, Repaired
from solvers.failures.worst import FailureEvaluator, Repair, after, reach, single_links
from solvers.job.loop import LoopResult
from solvers.job.realise import Realisation, demand_routed, realise
from solvers.network.annealing import LinkTable, arcs_of, table_of, table_of_arcs, topology_of
from solvers.network.enumeration import maximal_networks
from solvers.network.finder import candidate_topologies
from solvers.network.flows import RoutingResult
from solvers.network.local import Moves, neighbours, price_cut
from solvers.network.routing import route
from solvers.network.space import Counts, Space, relaxed_theta, shift_invariant
from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.errors import InfeasibleError
from topoopt.core.job import ConvergencePoint, Plan
from topoopt.core.outcomes import Failure, FailureOutcome, LinkEnds
from topoopt.core.result import RobustGoal
from topoopt.core.topology import Topology
from topoopt.core.workload import Demand, TaskGraph, Workload
from topoopt.simulate.network import build_task_graph, demand_of

FINE_COLUMNS = 70_000
FINE, COARSE = 1e-6, 1e-2
"""Relative gap to prove of each failure, up to and above so many columns (sources x arcs) of the linear program."""

ROUTED = "routed anew"
IMPOSSIBLE = "impossible"


class NetworkEvaluator(FailureEvaluator[tuple[Topology, RoutingResult]]):
    """Evaluates failures of one topology for one demand.

    Args:
        topology, demand: as of `solvers.network.routing.route`.
        nominal: theta without failure; None: routed here.
        stop: looked at by the routing.
        alike: let one of several failures that are rotations of each other stand for all.
    """

    def __init__(
        self,
        topology: Topology,
        demand: Floats,
        nominal: float | None = None,
        stop: Stop | None = None,
        *,
        alike: bool = True,
    ) -> None:
        super().__init__(topology)
        self.demand, self.stop = demand, stop
        self.accuracy = FINE if topology.servers * len(topology.arcs) <= FINE_COLUMNS else COARSE
        self.nominal = route(topology, demand, accuracy=self.accuracy, stop=stop).theta if nominal is None else nominal
        self._alike = alike and bool(topology.offsets) and shift_invariant(demand)

    def _representative(self, failure: Failure) -> Failure:
        if not self._alike or failure.planes:
            return failure
        n = self.topology.servers
        paired = self.topology.links is LinkDirection.BIDIRECTIONAL

        def turned(by: int) -> Failure:
            links = [((a + by) % n, (b + by) % n) for a, b in failure.links]
            ends = [(min(link), max(link)) if paired else link for link in links]
            return Failure(tuple(sorted(ends)), tuple(sorted((s + by) % n for s in failure.servers)))

        return min(turned(by) for by in range(n))

    def _repaired(self, failure: Failure) -> Repair[tuple[Topology, RoutingResult]]:
        surviving = after(self.topology, failure)
        disconnected, diameter, mean_hops = reach(surviving, failure.servers)
        left = surviving.left > 0
        topology = replace(
            self.topology,
            arcs=self.topology.arcs[left],
            multiplicity=surviving.left[left],
            offsets=self.topology.offsets
            if left.all() and (surviving.left == self.topology.multiplicity).all()
            else (),
            switches=np.full_like(self.topology.switches, -1),
        )
        demand = self.demand.copy()
        demand[list(failure.servers), :] = 0.0
        demand[:, list(failure.servers)] = 0.0
        outcome = FailureOutcome(
            failure=failure,
            disconnected_pairs=disconnected,
            diameter=diameter,
            mean_hops=mean_hops,
            broken_rings=0,
            rings=0,
            rerouted_pairs=0,
            value=0.0,
            repair=ROUTED,
        )
        if not demand.any():
            return outcome, None
        try:
            routing = route(topology, demand, accuracy=self.accuracy, stop=self.stop)
        except InfeasibleError:
            nothing = replace(outcome, value=None, repair=IMPOSSIBLE, trials=((ROUTED, None),))
            return nothing, None
        solved = replace(outcome, value=routing.theta, bound=routing.bound, trials=((ROUTED, routing.theta),))
        return solved, (topology, routing)


SLACK = 1e-7
"""Relative: linear programs are solved to about this much."""


@dataclass(frozen=True, eq=False)
class WorstTheta:
    """A network with its theta without failure, and with the worst single link failure."""

    counts: Counts
    nominal: float
    worst: float
    link: LinkEnds


@dataclass(eq=False)
class RobustSearch:
    """Values of networks, cheapest proofs first.

    Attributes:
        space: what is allowed.
        nominal_limit: largest theta without failure allowed.
        cuts: learned so far.
        programs: linear programs solved.
    """

    space: Space
    nominal_limit: float = np.inf
    cuts: list[Floats] = field(default_factory=list)
    programs: int = 0

    def links(self, counts: Counts) -> list[LinkEnds]:
        """Pairs with links; of fibre pairs the smaller server first."""
        upper = np.triu(counts) if self.space.bidirectional else counts
        return [(int(i), int(j)) for i, j in np.argwhere(upper > 0)]

    def without(self, counts: Counts, link: LinkEnds) -> Counts:
        """The network without one link of a pair."""
        left = counts.copy()
        left[link] -= 1
        if self.space.bidirectional:
            left[link[::-1]] -= 1
        return left

    def moves(self, networks: Counts) -> Moves:
        """Networks by what the cuts allow at their worst link failure; those that break the nominal limit are left."""
        return Moves(networks, self.cuts, self._limits)

    def _limits(self, table: Floats, cut: Floats) -> Floats:
        """float64[k]: bounds by a cut on the worst lambda; -inf where theta without failure is too large."""
        whole = table @ cut.ravel()
        price = (cut + cut.T if self.space.bidirectional else cut).ravel()
        dearest = np.max(np.where(table > 0, price, 0.0), axis=1)
        return np.where(whole < (1 - SLACK) / self.nominal_limit, -np.inf, whole - dearest)

    def value(self, counts: Counts, beat: float) -> WorstTheta | None:
        """The value of a network; None if it is not below `beat`, breaks the nominal limit, or cuts demand off."""
        nominal = self._theta(counts)
        if nominal is None or nominal > self.nominal_limit * (1 + SLACK) or nominal >= beat:
            return None
        links = self.links(counts)
        suspects = sorted(links, key=lambda link: self._limit(self.without(counts, link)))
        worst, where = nominal, suspects[0]
        for link in suspects:
            theta = self._theta(self.without(counts, link))
            if theta is None or theta >= beat:
                return None
            if theta > worst:
                worst, where = theta, link
        return WorstTheta(counts, nominal, worst, where)

    def _limit(self, counts: Counts) -> float:
        return min((float((counts * cut).sum()) for cut in self.cuts[-40:]), default=np.inf)

    def _theta(self, counts: Counts) -> float | None:
        relaxed = relaxed_theta(self.space.demand, counts)
        self.programs += 1
        if relaxed is None:
            return None
        cut = price_cut(self.space.demand, counts, relaxed[2])
        if cut is not None:
            self.cuts.append(cut)
        return relaxed[0]


def exhaustive(search: RobustSearch, incumbent: WorstTheta | None, stop: Stop) -> tuple[WorstTheta | None, bool]:
    """The best of all networks, and whether none was left out (for at most five servers).

    Raises:
        InputError: too many networks.
    """
    best = incumbent
    moves = search.moves(maximal_networks(search.space))
    while True:
        counts = moves.next_above(0.0 if best is None else (1 + SLACK) / best.worst)
        if counts is None:
            return best, True
        if stop.reason() is not None:
            return best, False
        if search.space.fits(counts):
            best = search.value(counts, np.inf if best is None else best.worst) or best


def exchanged(
    search: RobustSearch, starts: list[Counts], goal: float, stop: Stop, *, programs: int
) -> WorstTheta | None:
    """Exchanges of link ends from every start, first improvement by the most promising bound; None if all fail.

    Args:
        goal: a proven bound on the worst theta; the search ends when it is reached.
        programs: linear programs at most; each start gets its part.
    """
    best: WorstTheta | None = None
    for rank, start in enumerate(starts):
        current: WorstTheta | None = None
        moves = search.moves(start[None])
        last = search.programs + (programs - search.programs) // (len(starts) - rank)
        while search.programs < last and (best is None or stop.reason() is None):
            counts = moves.next_above(0.0 if current is None else (1 + SLACK) / current.worst)
            if counts is None:
                break
            if not search.space.fits(counts):
                continue
            better = search.value(counts, np.inf if current is None else current.worst * (1 - SLACK))
            if better is None:
                continue
            current = better
            if best is None or current.worst < best.worst:
                best = current
            if best.worst <= goal * (1 + SLACK):
                return best
            moves = search.moves(np.array(neighbours(search.space, current.counts)).reshape(-1, *start.shape))
    return best


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
        point = ConvergencePoint(self.result.proposals, "robust design", best.nominal_ms)
        return replace(
            self.result,
            plan=Plan(plan.strategy, best.topology, best.plan.routes, best.plan.rings),
            iteration_time_ms=best.nominal_ms,
            convergence=(*points, point) if faster else points,
            notes=(*self.result.notes, *self._notes(first, best)),
            stopped_by=self.stop.reason() or self.result.stopped_by,
        )

    def _candidates(self) -> Iterator[Topology]:
        yield from candidate_topologies(self.cluster, self.demand, limit=self.topologies, seed=self.seed)

    def _better(self, best: RobustJobDesign, topology: Topology) -> RobustJobDesign:
        """The best, or the topology with its best routes if that stands its failures better."""
        base = realise(self.cluster, topology, [group.members for group in self.demand.allreduce], seed=self.seed)
        made = min((self._timed(candidate) for candidate in self._routed(base)), key=lambda entry: entry[0])
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
        for failure in sorted(single_links(topology), key=lambda removal: -loads[ids[removal.links[0]]]):
            outcome = evaluator.outcome(failure)
            if outcome.value is None:
                return RobustJobDesign(topology, plan, evaluator.nominal, outcome)
            if outcome.value >= beat:
                return None
            if worst is None or outcome.value > (worst.value or 0.0):
                worst = outcome
        return RobustJobDesign(topology, plan, evaluator.nominal, worst)

    def _exchanged(self, best: RobustJobDesign) -> RobustJobDesign:
        rng = np.random.default_rng(self.seed)
        for _ in range(EXCHANGES):
            if self.stop.reason() is not None:
                break
            table = random_exchange(table_of(best.topology), rng)
            if table is None:
                continue
            origin = f"{best.topology.origin.removesuffix(', exchanged')}, exchanged"
            try:
                best = self._better(best, topology_of(table.out, self.cluster.links, origin))
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


def random_exchange(table: LinkTable, rng: np.random.Generator) -> LinkTable | None:
    """Two random links with their ends exchanged; None where that would join a server to itself."""
    arcs = arcs_of(table.out)
    if table.paired:
        arcs = arcs[arcs[:, 0] < arcs[:, 1]]
    if len(arcs) < 2:
        return None
    first, two = (int(k) for k in rng.choice(len(arcs), 2, replace=False))
    new = arcs.copy()
    if table.paired and rng.random() < 0.5:
        new[two] = new[two, ::-1]
    new[first, 1], new[two, 1] = new[two, 1], new[first, 1]
    if (new[:, 0] == new[:, 1]).any():
        return None
    n, degree = table.out.shape
    return table_of_arcs(n, degree, table.links, np.vstack((new, new[:, ::-1])) if table.paired else new)
