"""Topology search for a demand: seeds, annealing on hops, polish on theta, and link counts; theta always by routing.

Exact integer link counts for given loads, and their alternation with routing (idea of ATRO, arXiv 2507.13717).

For loads L_ij on logical links, theta is reached exactly when ceil(L_ij / theta) links per pair fit the degrees; the
counts only change at theta = L_ij / k, so a binary search over these values is exact. When every demand goes over its
own direct link (L = D) this is the optimum over all one-hop networks.

Topology search for a demand matrix: seeds, annealing on hops, polish on theta, link counts; theta always by routing.

Work is counted in proposals and evaluations, so a seed gives the same
topology everywhere unless a time limit cuts it short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from solvers.network.annealing import (
    AnnealRuns,
    LinkTable,
    arcs_of,
    bad_links,
    diameter,
    hops_of,
    repaired,
    rewire,
    table_of,
    table_of_arcs,
    topology_of,
)
from solvers.network.annealing import default_proposals as default_rewirings
from solvers.network.assembly import ArcList, assemble
from solvers.network.flows import RoutingResult
from solvers.network.local import filled as filled_local
from solvers.network.local import local_search
from solvers.network.orbits import one_row
from solvers.network.polish import SearchBudget, default_evaluations, default_proposals, polish
from solvers.network.routing import route
from solvers.network.seeds import seed_topologies
from solvers.network.space import Space, as_topology, moore_hops, open_space
from solvers.network.symmetric import circulant_classes
from solvers.stop import Stop
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem
from topoopt.core.network import TopologyProblem
from topoopt.core.proofs import StopReason
from topoopt.core.topology import Topology


@dataclass(frozen=True, eq=False)
class TopologySearchResult:
    """Best topology found.

    Attributes:
        topology, routing: with the checked theta.
        steps: names of the topologies routed, in order, with hop total / number of links, and theta.
        evaluations: topologies priced by the polish.
        stopped_by: GAP when `goal` was reached, BUDGET at the end of the work, TIME or INTERRUPTED before.
    """

    topology: Topology
    routing: RoutingResult
    steps: tuple[tuple[str, float, float], ...]
    evaluations: int
    stopped_by: StopReason


def check_problem(problem: TopologyProblem) -> Floats:
    """The demand as float64[n, n].

    Raises:
        InputError: with everything that is wrong.
    """
    n = problem.servers
    problems = []
    if n < 2:
        problems.append(Problem("a topology needs two servers at least", path="servers", value=str(n), allowed=">= 2"))
    if problem.degree < 1:
        problems.append(Problem("degree is too small", path="degree", value=str(problem.degree), allowed=">= 1"))
    demand = np.array(problem.demand, dtype=np.float64)
    if demand.shape != (n, n):
        problems.append(
            Problem("demand has the wrong shape", path="demand", value=str(demand.shape), allowed=f"({n}, {n})")
        )
    elif not np.isfinite(demand).all() or (demand < 0).any():
        problems.append(Problem("demand must be finite and not negative", path="demand", allowed=">= 0"))
    elif np.diag(demand).any():
        problems.append(Problem("a server has demand to itself", path="demand", allowed="zero diagonal"))
    elif not demand.any():
        problems.append(Problem("there is no demand at all", path="demand", allowed="one entry above 0"))
    for tail, head in problem.kept:
        if not (0 <= tail < n and 0 <= head < n):
            problems.append(Problem("kept link names an unknown server", path="kept", value=f"{tail} -> {head}"))
    if problem.max_hops is not None and problem.max_hops < 1:
        problems.append(Problem("hop limit is too small", path="max_hops", value=str(problem.max_hops), allowed=">= 1"))
    for tail, head in problem.forbidden:
        if not (0 <= tail < n and 0 <= head < n):
            problems.append(
                Problem("forbidden link names an unknown server", path="forbidden", value=f"{tail} -> {head}")
            )
    if problems:
        raise InputError(problems)
    return demand


class Rules:
    """The constraints of a problem.

    Attributes:
        allowed: bool[n, n], arcs that may be used.
        space: tables of the problem where links of a running network must stay, else None.
        nearest: least diameter met of topologies that break no other rule.
    """

    def __init__(self, problem: TopologyProblem) -> None:
        self.problem = problem
        n = problem.servers
        self.allowed: Bools = ~np.eye(n, dtype=np.bool_)
        for tail, head in problem.forbidden:
            self.allowed[tail, head] = False
        if problem.links is LinkDirection.BIDIRECTIONAL:
            self.allowed &= self.allowed.T  # one fibre pair, both arcs
        self.space: Space | None = open_space(problem) if problem.max_changed is not None else None
        self.nearest = n

    def legal(self, out: Ints) -> bool:
        """Whether a table of heads breaks no rule."""
        problem, arcs = self.problem, arcs_of(out)
        if len(bad_links(arcs, self.allowed, problem.parallel_links)):
            return False
        if self.space is not None:
            counts = np.zeros_like(self.allowed, dtype=np.int64)
            np.add.at(counts, (arcs[:, 0], arcs[:, 1]), 1)
            if self.space.changed(counts) > (problem.max_changed or 0):
                return False
        if problem.max_hops is None:
            return True
        hops = diameter(out)
        self.nearest = min(self.nearest, hops)
        return hops <= problem.max_hops

    def nothing(self) -> str:
        """What to say when no topology met satisfies the constraints."""
        problem = self.problem
        if problem.max_hops is None:
            return "no topology was found that satisfies the constraints (not proven that there is none)"
        nearest = f", the smallest limit known to be feasible {self.nearest}" if self.nearest < problem.servers else ""
        return (
            f"no topology within {problem.max_hops} hops was found (not proven that there is none); the Moore bound is "
            f"{moore_hops(problem.servers, problem.degree, problem.links)} hops{nearest}"
        )


_ROUND = 1e-9
"""Loads within this of a whole number of links count as that number."""


def best_link_counts(loads: Floats, degree: int, links: LinkDirection) -> tuple[float, Ints] | None:
    """Least theta and int64[n, n] counts >= loads / theta within the degrees; None if a server has too many pairs.

    Args:
        loads: float64[n, n], not negative, zero diagonal; fibre pairs must carry the larger of both directions.
    """
    if links is LinkDirection.BIDIRECTIONAL:
        loads = np.maximum(loads, loads.T)
    loaded = loads[loads > 0]
    values = np.unique((loaded[:, None] / np.arange(1, degree + 1)).ravel())
    if len(values) == 0:
        return 0.0, np.zeros(loads.shape, dtype=np.int64)

    def counts(theta: float) -> Ints:
        return np.ceil(loads / theta - _ROUND).astype(np.int64)

    def fits(theta: float) -> bool:
        needed = counts(theta)
        return bool(needed.sum(axis=1).max() <= degree and needed.sum(axis=0).max() <= degree)

    if not fits(float(values[-1])):
        return None
    low, high = -1, len(values) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if fits(float(values[middle])):
            high = middle
        else:
            low = middle
    return float(values[high]), counts(float(values[high]))


def filled(counts: Ints, loads: Floats, degree: int, links: LinkDirection) -> ArcList:
    """Unit arcs of the counts, and of as many more links as the free ports allow, the most loaded pairs first."""
    from scipy.optimize import linear_sum_assignment

    n = len(counts)
    counts = counts.copy()
    weight = loads / max(float(loads.max()), 1e-300)
    if links is LinkDirection.BIDIRECTIONAL:
        weight = weight + weight.T
        while True:
            free = degree - counts.sum(axis=1)
            gain = np.where(np.minimum(free[:, None], free[None, :]) > 0, weight + 1.0 / (1.0 + counts), -1.0)
            np.fill_diagonal(gain, -1.0)
            i, j = np.unravel_index(int(gain.argmax()), gain.shape)
            if gain[i, j] < 0:
                break
            counts[i, j] += 1
            counts[j, i] += 1
    else:
        tails = np.repeat(np.arange(n), np.maximum(degree - counts.sum(axis=1), 0))
        heads = np.repeat(np.arange(n), np.maximum(degree - counts.sum(axis=0), 0))
        gain = weight[np.ix_(tails, heads)] + 1.0 / (1.0 + counts[np.ix_(tails, heads)])
        gain[tails[:, None] == heads[None, :]] = -1e6
        for a, b in zip(*linear_sum_assignment(-gain), strict=True):
            if tails[a] != heads[b]:
                counts[tails[a], heads[b]] += 1
    pairs = np.argwhere(counts > 0).astype(np.int64)
    return np.repeat(pairs, counts[pairs[:, 0], pairs[:, 1]], axis=0)


def loads_of(topology: Topology, routing: RoutingResult) -> Floats:
    """float64[n, n]: what a routing puts on each logical link."""
    loads = np.zeros((topology.servers, topology.servers))
    loads[topology.arcs[:, 0], topology.arcs[:, 1]] = routing.flow.load(topology)
    return loads


def one_hop_topology(demand: Floats, degree: int, links: LinkDirection) -> tuple[float, Topology] | None:
    """Best theta when every demand has links of its own, with that topology; None when that does not fit or connect."""
    counts = best_link_counts(demand, degree, links)
    if counts is None:
        return None
    try:
        arcs = filled(counts[1], demand, degree, links)
        return counts[0], assemble(len(demand), degree, links, [arcs], "one link per demand")
    except InfeasibleError:
        return None


def alternate(
    topology: Topology, routing: RoutingResult, demand: Floats, *, rounds: int, accuracy: float
) -> tuple[Topology, RoutingResult]:
    """Link counts and routing in turn while theta falls; never worse than what it is given."""
    for _ in range(rounds):
        loads = loads_of(topology, routing)
        counts = best_link_counts(loads, topology.degree, topology.links)
        if counts is None:
            break
        arcs = filled(counts[1], loads, topology.degree, topology.links)
        try:
            new = assemble(topology.servers, topology.degree, topology.links, [arcs], f"{topology.origin}, recounted")
        except InfeasibleError:
            break
        if np.array_equal(new.arcs, topology.arcs) and np.array_equal(new.multiplicity, topology.multiplicity):
            break
        rerouted = route(new, demand, accuracy=accuracy)
        if rerouted.theta >= routing.theta * (1.0 - 1e-9):
            break
        topology, routing = new, rerouted
    return topology, routing


POLISH_RATIO = 1.03
"""Above this theta / (hop total / links), link balance is worth a polish at any size."""

POLISH_SERVERS = 32
"""Up to here the polish always pays."""

ANNEALS, SEVERAL_SERVERS = 3, 64
"""Annealing runs, up to so many servers: their theta differs more than their hop total."""

EXCHANGE_SERVERS = 10
"""Up to here a few hundred linear programs take seconds."""

LATE_S = 1.0
"""What routing a topology may take once the time is up: what was found last should not go to waste."""


START_ACCURACY = 0.05
"""Gap to which the first topologies are routed: tells them apart in a tenth of a second each at 64 servers."""

Routed = tuple[Topology, RoutingResult]


def constructions(
    problem: TopologyProblem, rules: Rules, seed: int, *, quick_first: bool = False
) -> Iterator[tuple[str, Topology, LinkTable]]:
    """Every seed: its name, and its links with forbidden and parallel ones exchanged; each is made when requested."""
    n, d, links, demand = problem.servers, problem.degree, problem.links, problem.demand
    for name, topology in seed_topologies(n, d, links, demand, seed=seed, quick_first=quick_first):
        table = repaired(table_of(topology), rules.allowed, problem.parallel_links, seed)
        if table is not None:
            yield name, topology, table


def quick_start(
    problem: TopologyProblem, *, seed: int, stop: Stop, on_incumbent: Callable[[Callable[[], Routed]], None]
) -> Routed | None:
    """The best of the cheap constructions, so that a search that a limit ends is no worse than any of them.

    Each gets a first flow; then they are routed within `START_ACCURACY`, that of least hop total first.

    Args:
        stop: what is there then is returned; one construction is always routed.
        on_incumbent: called with what makes the best so far, whenever it gets better.

    Returns:
        None where no construction satisfies the constraints.
    """
    rules = Rules(problem)
    if rules.space is not None:  # links of a running network stay
        return None
    best: Routed | None = None
    candidates: list[tuple[float, int, Topology]] = []

    def offer(topology: Topology, method: str, accuracy: float) -> None:
        nonlocal best

        def take(flow: Callable[[], RoutingResult]) -> None:
            on_incumbent(lambda: (topology, flow()))

        routing = route(
            topology,
            problem.demand,
            method=method,
            accuracy=accuracy,
            stop=stop,
            on_incumbent=take if best is None else None,
        )
        if best is None or routing.theta < best[1].theta:
            best = incumbent = (topology, routing)
            on_incumbent(lambda: incumbent)

    def candidate(topology: Topology) -> None:
        if rules.legal(table_of(topology).out) and (best is None or stop.reason() is None):
            offer(topology, "orbits" if one_row(topology, problem.demand) else "frank-wolfe", 1.0)
            candidates.append((hops_of(table_of(topology).out, problem.demand), len(candidates), topology))

    def refine() -> None:
        """Route the candidate of least hop total well: a first flow says little of theta."""
        if candidates and stop.reason() is None:
            candidates.sort(key=lambda row: row[:2])
            offer(candidates.pop(0)[2], "auto", START_ACCURACY)

    direct = one_hop_topology(problem.demand, problem.degree, problem.links)
    if direct is not None:
        candidate(direct[1])
    for name, topology, table in constructions(problem, rules, seed, quick_first=True):
        if name == "matching":
            refine()
        with suppress(InfeasibleError):
            candidate(topology_of(table.out, problem.links, topology.origin))
        if best is not None and stop.reason() is not None:
            break
    while candidates and stop.reason() is None:
        refine()
    return best


def search_topology(
    problem: TopologyProblem,
    *,
    seed: int = 0,
    budget: SearchBudget | None = None,
    goal: float = 0.0,
    stop: Stop | None = None,
    on_incumbent: OnIncumbent | None = None,
    jobs: int = 1,
    start: Routed | None = None,
) -> TopologySearchResult:
    """Search for the topology of least theta.

    Unidirectional and bidirectional links, forbidden arcs, links to keep (`max_changed`), and problems without parallel
    links are supported; of the topologies met, only those within `max_hops` count.

    Args:
        goal: a proven lower bound on theta over all topologies; the search ends when it is reached.
        on_incumbent: called whenever there is something better, with what would be returned now.
        jobs: processes that share the annealing runs; the result is that of one.
        start: what is returned where a limit ends the search before it has anything better.

    Raises:
        InputError: bad demand or sizes.
        InfeasibleError: no topology satisfies the constraints.
        LimitError: none of those met does, which proves nothing.
    """
    demand = check_problem(problem)
    budget = budget or SearchBudget()
    return _Search(problem, demand, seed, budget, goal, stop or Stop(), on_incumbent, jobs, start).run()


OnIncumbent = Callable[[Callable[[], TopologySearchResult]], None]
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
        on_incumbent: OnIncumbent | None,
        jobs: int,
        start: Routed | None,
    ) -> None:
        self.on_incumbent, self.jobs, self.start = on_incumbent, jobs, start
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
        self.steps: list[tuple[str, float, float]] = []
        self.best: tuple[Topology, RoutingResult] | None = None
        self.priced = 0

    def run(self) -> TopologySearchResult:
        if self.rules.space is not None:
            return self._rewired(self.rules.space)
        problem, n, d = self.problem, self.problem.servers, self.problem.degree
        tables = {}
        if self._done():
            return self._result()
        for name, topology, table in constructions(problem, self.rules, self.seed):
            if self.circulants_only and circulant_classes(topology) is None:
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
        problem = self.problem
        n, d = problem.servers, problem.degree
        assert space.kept is not None
        rng = np.random.default_rng(self.seed)
        standing = np.minimum(space.kept, np.where(space.allowed, space.most_links, 0))
        counts = filled_local(space, standing, rng)
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
        if not self._done() and n <= 24:  # of more servers few exchanges are within the limit
            self._exchange()
        return self._result()

    def _exchange(self) -> None:
        """Exchanges on the true theta, priced by linear programs: few servers, where one of them binds."""
        problem = self.problem if self.problem.max_changed is not None else replace(self.problem, kept=())
        space = open_space(problem)
        result = local_search(space, self.seed, self.stop)
        if result is not None:
            self._offer("exchanged", as_topology(space, result[0], "exchanges of link ends"))

    def _anneal(self, tables: dict[str, LinkTable]) -> None:
        """From the seed of least hop total; with a hop limit again, more and more of the weight on all pairs alike."""
        start = min(tables.values(), key=lambda table: hops_of(table.out, self.demand))
        small = self.problem.servers <= SEVERAL_SERVERS
        runs = ANNEALS if small else 1
        demands = self._weighted(runs)
        given = AnnealRuns(
            self.stop,
            start,
            self.rules.allowed,
            self.proposals // runs,
            3e-4 if small else 1.5e-4,
            self.problem.parallel_links,
        )
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
        if self.best is None or self.problem.servers > 160:  # above here one evaluation takes too long
            return
        table = table_of(self.best[0])
        ratio = self.best[1].theta * self.links_total / hops_of(table.out, self.demand)
        if self.problem.servers > POLISH_SERVERS and ratio < POLISH_RATIO:
            return
        heads, self.priced, _ = polish(
            table,
            self.demand,
            self.rules.allowed,
            evaluations=self.evaluations,
            parallel=self.problem.parallel_links,
            goal=self.goal,
            seed=self.seed,
            stop=self.stop,
        )
        self._offer("polished", self._topology(heads, f"{self.best[0].origin}, polished"))

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
        if topology is None or not self.rules.legal(table_of(topology).out):
            return
        if self.stop.reason() is not None:
            routing = route(topology, self.demand, accuracy=self.rough, time_limit_s=LATE_S)
        else:
            routing = route(
                topology, self.demand, accuracy=self.rough, stop=self.stop, on_incumbent=self._first_flow(topology)
            )
            if self.goal < routing.theta <= self.goal * (1.0 + 2.0 * self.rough):  # it may reach the bound
                routing = route(topology, self.demand, accuracy=1e-7, stop=self.stop)
        self._note(name, topology, routing)

    def _first_flow(self, topology: Topology) -> Callable[[Callable[[], RoutingResult]], None] | None:
        """Takes the flows on the first topology as they get better: routing it may take longer than there is time."""
        on_incumbent, steps = self.on_incumbent, tuple(self.steps)
        if on_incumbent is None or self.best is not None or self.start is not None:
            return None

        def take(best: Callable[[], RoutingResult]) -> None:
            on_incumbent(
                lambda: TopologySearchResult(topology, best(), steps, 0, self.stop.reason() or StopReason.TIME)
            )

        return take

    def _note(self, name: str, topology: Topology, routing: RoutingResult) -> None:
        load = hops_of(table_of(topology).out, self.demand) / self.links_total
        self.steps.append((name, load, routing.theta))
        if self.best is None or routing.theta < self.best[1].theta:
            self.best = (topology, routing)
            if self.on_incumbent is not None and (self.start is None or routing.theta < self.start[1].theta):
                steps = tuple(self.steps)
                self.on_incumbent(
                    lambda: TopologySearchResult(
                        topology, routing, steps, self.priced, self.stop.reason() or StopReason.TIME
                    )
                )

    def _done(self) -> bool:
        if self.stop.reason() is not None:
            return self.best is not None or self.start is not None
        return self.best is not None and self.best[1].theta <= self.goal * (1.0 + 1e-6)

    def _result(self) -> TopologySearchResult:
        start = None if self.stop.reason() is None else self.start
        if start is not None and (self.best is None or start[1].theta < self.best[1].theta):
            self.best = start
        if self.best is None:
            raise LimitError(self.rules.nothing())
        reached = self.best[1].theta <= self.goal * (1.0 + 1e-6)
        stopped = StopReason.GAP if reached else self.stop.reason() or StopReason.BUDGET
        return TopologySearchResult(*self.best, tuple(self.steps), self.priced, stopped)
