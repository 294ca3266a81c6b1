"""Topology search for a demand matrix: seeds, annealing on hops, polish on theta, link counts; theta always by routing.

Work is counted in proposals and evaluations, so a seed gives the same
topology everywhere unless a time limit cuts it short.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from solvers.network.exact.local import filled, local_search
from solvers.network.exact.space import Space, as_topology, open_space
from solvers.network.routing import circulant_classes, route
from solvers.network.routing.result import RoutingResult
from solvers.network.search.anneal import AnnealPlan, hops_of
from solvers.network.search.anneal_runs import AnnealRuns
from solvers.network.search.budget import SearchBudget, default_evaluations, default_proposals
from solvers.network.search.checks import check_problem
from solvers.network.search.link_counts import alternate, one_hop_topology
from solvers.network.search.links import LinkTable, table_of, table_of_arcs, topology_of
from solvers.network.search.outcome import SearchStep, TopologySearchResult
from solvers.network.search.polish import polish
from solvers.network.search.repair import repaired
from solvers.network.search.rewire import default_proposals as default_rewirings
from solvers.network.search.rewire import rewire
from solvers.network.search.rules import Rules
from solvers.network.search.seeds import seed_topologies
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InfeasibleError, LimitError
from topoopt.core.network import TopologyProblem
from topoopt.core.proofs import StopReason
from topoopt.core.topology import Topology

POLISH_RATIO = 1.03
"""Above this theta / (hop total / links), link balance is worth a polish at any size."""

POLISH_SERVERS = 32
"""Up to here the polish always pays."""

ANNEALS = 3
"""Annealing runs where the polish follows: their theta differs more than their hop total."""

REWIRE_SERVERS = 24
"""Up to here exchanges on the true theta follow where links must stay: few of them are within the limit."""

EXCHANGE_SERVERS = 10
"""Up to here a few hundred linear programs take seconds."""

LATE_S = 1.0
"""What routing a topology may take once the time is up: what was found last should not go to waste."""

POLISH_MOST = 160
"""Above here one evaluation takes too long."""


def search_topology(
    problem: TopologyProblem,
    *,
    seed: int = 0,
    budget: SearchBudget | None = None,
    goal: float = 0.0,
    stop: Stop | None = None,
    keep: Keep | None = None,
    jobs: int = 1,
) -> TopologySearchResult:
    """Search for the topology of least theta.

    Unidirectional and bidirectional links, forbidden arcs, links to keep (`max_changed`), and problems without parallel
    links are supported; of the topologies met, only those within `max_hops` count.

    Args:
        goal: a proven lower bound on theta over all topologies; the search ends when it is reached.
        keep: called whenever there is something better, with what would be returned now.
        jobs: processes that share the annealing runs; the result is that of one.

    Raises:
        InputError: bad demand or sizes.
        InfeasibleError: no topology satisfies the constraints.
        LimitError: none of those met does, which proves nothing.
    """
    demand = check_problem(problem)
    budget = budget or SearchBudget()
    return _Search(problem, demand, seed, budget, goal, stop or Stop(), keep, jobs).run()


Keep = Callable[[Callable[[], TopologySearchResult]], None]
"""Offered what makes the result of the best so far."""


class _Search:
    def __init__(
        self,
        problem: TopologyProblem,
        demand: Floats,
        seed: int,
        budget: SearchBudget,
        goal: float,
        stop: Stop,
        keep: Keep | None,
        jobs: int,
    ) -> None:
        self.keep, self.jobs = keep, jobs
        self.problem, self.demand, self.seed, self.stop = problem, demand, seed, stop
        busiest = max(demand.sum(axis=0).max(), demand.sum(axis=1).max())
        self.goal = max(goal, float(busiest) / problem.degree)  # node cut: no topology does better
        n, d = problem.servers, problem.degree
        self.proposals = default_proposals(n) if budget.proposals is None else budget.proposals
        self.evaluations = default_evaluations(n) if budget.evaluations is None else budget.evaluations
        self.accuracy, self.circulants_only = budget.accuracy, budget.circulants_only
        self.rough = max(budget.accuracy, 1e-3 if n > 64 else 1e-4)
        self.rules = Rules(problem)
        self.links_total = n * d
        self.steps: list[SearchStep] = []
        self.best: tuple[Topology, RoutingResult] | None = None
        self.priced = 0

    def run(self) -> TopologySearchResult:
        if self.rules.space is not None:
            return self._rewired(self.rules.space)
        problem, n, d = self.problem, self.problem.servers, self.problem.degree
        tables = {}
        for name, topology in seed_topologies(n, d, problem.links, self.demand, seed=self.seed):
            table = repaired(table_of(topology), self.rules.allowed, problem.parallel_links, self.seed)
            if table is None or (self.circulants_only and circulant_classes(topology) is None):
                continue
            tables[name] = table
            self._offer(name, self._topology(table.out, topology.origin))
            if self._done():
                return self._result()
        if self.circulants_only:
            return self._result()
        direct = one_hop_topology(self.demand, d, problem.links)
        if direct is not None:
            self._offer("one link per demand", direct[1])
        aside = None
        if not self._done() and n <= EXCHANGE_SERVERS:
            before = self.best
            self._exchange()
            if not self._done():  # the polish does better from where it always started
                aside, self.best = self.best, before
        if not self._done() and tables:
            self._anneal(tables)
        if not self._done():
            self._polish()
        if aside is not None and (self.best is None or aside[1].theta < self.best[1].theta):
            self.best = aside
        if self.best is not None:
            self._recount()
        return self._result()

    def _rewired(self, space: Space) -> TopologySearchResult:
        """The network as it stands, with free interfaces used at random, and what a few changes make of it."""
        problem = self.problem
        n, d = problem.servers, problem.degree
        assert space.kept is not None
        rng = np.random.default_rng(self.seed)
        standing = np.minimum(space.kept, np.where(space.allowed, space.most_links, 0))
        counts = filled(space, standing, rng)
        table = table_of_arcs(n, d, problem.links, np.repeat(np.argwhere(counts), counts[counts > 0], axis=0))
        self._offer("as it stands", self._topology(table.out, "the network as it stands"))
        for run, demand in enumerate(self._weighted(ANNEALS)):
            if self._done():
                break
            out = rewire(
                table,
                demand,
                self.rules.allowed,
                space.kept,
                problem.max_changed or 0,
                proposals=min(self.proposals, default_rewirings(n, d)),
                parallel=problem.parallel_links,
                seed=self.seed * 8 + run,
                stop=self.stop,
            )
            self._offer("rewired", self._topology(out, "the network as it stands, rewired"))
        if not self._done() and n <= REWIRE_SERVERS:
            self._exchange()
        return self._result()

    def _exchange(self) -> None:
        """Exchanges on the true theta, priced by linear programs: few servers, where one of them binds."""
        problem = self.problem if self.problem.max_changed is not None else replace(self.problem, kept=())
        space = open_space(problem)
        found = local_search(space, self.seed, self.stop)
        if found is not None:
            self._offer("exchanged", as_topology(space, found[0], "exchanges of link ends"))

    def _anneal(self, tables: dict[str, LinkTable]) -> None:
        """From the seed of least hop total; with a hop limit again, more and more of the weight on all pairs alike."""
        start = min(tables.values(), key=lambda table: hops_of(table.out, self.demand))
        small = self.problem.servers <= POLISH_SERVERS
        runs = ANNEALS if small else 1
        plan = AnnealPlan(self.proposals // runs, hot=1e-3 if small else 3e-4)
        demands = self._weighted(runs)
        given = AnnealRuns(self.stop, start, self.rules.allowed, plan, self.problem.parallel_links)
        for out in given.in_order(
            [(demand, self.seed * len(demands) + run) for run, demand in enumerate(demands)], self.jobs
        ):
            self._offer("annealed", self._topology(out, "annealed on hops"))
            if self._done():
                break

    def _weighted(self, runs: int) -> list[Floats]:
        """The demand so many times; with a hop limit also with more and more weight on all pairs alike."""
        mean = float(self.demand.mean())
        evenly = [0.0] * runs + ([1.0, 10.0, 100.0] if self.problem.max_hops is not None else [])
        return [self.demand + even * mean * (1.0 - np.eye(len(self.demand))) for even in evenly]

    def _polish(self) -> None:
        if self.best is None or self.problem.servers > POLISH_MOST:
            return
        table = table_of(self.best[0])
        ratio = self.best[1].theta * self.links_total / hops_of(table.out, self.demand)
        if self.problem.servers > POLISH_SERVERS and ratio < POLISH_RATIO:
            return
        result = polish(
            table,
            self.demand,
            self.rules.allowed,
            evaluations=self.evaluations,
            parallel=self.problem.parallel_links,
            goal=self.goal,
            seed=self.seed,
            stop=self.stop,
        )
        self.priced = result.evaluations
        self._offer("polished", self._topology(result.out, f"{self.best[0].origin}, polished"))

    def _recount(self) -> None:
        assert self.best is not None
        topology, routing = self.best
        if self.stop.reason() is not None:
            return
        if routing.gap > self.accuracy:
            routing = route(topology, self.demand, accuracy=self.accuracy, stop=self.stop)
            if routing.theta > self.best[1].theta:
                routing = self.best[1]
            self.best = (topology, routing)
        if not self._done():
            new = alternate(topology, routing, self.demand, rounds=5, accuracy=self.accuracy)
            if new[0] is not topology and self.rules.legal(table_of(new[0]).out):
                self._note("recounted", *new)

    def _topology(self, out: Ints, origin: str) -> Topology | None:
        try:
            return topology_of(out, self.problem.links, origin)
        except InfeasibleError:
            return None

    def _offer(self, name: str, topology: Topology | None) -> None:
        """Route a topology and keep it if it is the best so far and within the rules."""
        if topology is None or not self.rules.legal(table_of(topology).out):
            return
        if self.stop.reason() is not None:
            routing = route(topology, self.demand, accuracy=self.rough, time_limit_s=LATE_S)
        else:
            routing = route(topology, self.demand, accuracy=self.rough, stop=self.stop, keep=self._first_flow(topology))
            if self.goal < routing.theta <= self.goal * (1.0 + 2.0 * self.rough):  # it may reach the bound
                routing = route(topology, self.demand, accuracy=1e-7, stop=self.stop)
        self._note(name, topology, routing)

    def _first_flow(self, topology: Topology) -> Callable[[Callable[[], RoutingResult]], None] | None:
        """Takes the flows on the first topology as they get better: routing it may take longer than there is time."""
        keep, steps = self.keep, tuple(self.steps)
        if keep is None or self.best is not None:
            return None

        def take(best: Callable[[], RoutingResult]) -> None:
            keep(lambda: TopologySearchResult(topology, best(), steps, 0, self.stop.reason() or StopReason.TIME))

        return take

    def _note(self, name: str, topology: Topology, routing: RoutingResult) -> None:
        load = hops_of(table_of(topology).out, self.demand) / self.links_total
        self.steps.append(SearchStep(name, load, routing.theta))
        if self.best is None or routing.theta < self.best[1].theta:
            self.best = (topology, routing)
            if self.keep is not None:
                steps = tuple(self.steps)
                self.keep(
                    lambda: TopologySearchResult(
                        topology, routing, steps, self.priced, self.stop.reason() or StopReason.TIME
                    )
                )

    def _done(self) -> bool:
        if self.stop.reason() is not None:
            return self.best is not None
        return self.best is not None and self.best[1].theta <= self.goal * (1.0 + 1e-6)

    def _result(self) -> TopologySearchResult:
        if self.best is None:
            raise LimitError(self.rules.nothing())
        reached = self.best[1].theta <= self.goal * (1.0 + 1e-6)
        stopped = StopReason.GAP if reached else self.stop.reason() or StopReason.BUDGET
        return TopologySearchResult(*self.best, tuple(self.steps), self.priced, stopped)
