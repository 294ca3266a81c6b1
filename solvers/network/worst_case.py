"""One routing, and links where they are free, make the largest theta over several demands least.

One routing for a set of demand matrices: the program of `formulations.flow_routing`, matrix by matrix.

Few matrices decide: the program is solved for those that were worst so far, and grows by those its routing serves
worse, until there is none. Its optimum for the few is a bound for all.

A topology whose worst theta over a set of demand matrices is small: portfolio of searches, then exchange of links.

Single matrices, their mean and their envelope (entry by entry the largest) each get the topology search of kind
`topology`; what comes out is judged by the worst theta with routing adapted to each matrix, and the best is improved by
swapping the ends of two links. Matrices are routed in the order of how bad they were, so that most swaps are given up
after one of them. A routing in common costs much more to find, so the caller asks for it on the few best topologies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from formulations.flow_routing import CommonRoutingProgram, common_routing_arrays, prices_of, split_of
from solvers.backends.backend import Options, SolverLimits
from solvers.backends.table import solve_guarded, solver_named
from solvers.network.annealing import arcs_of, table_of, topology_of
from solvers.network.assembly import topology_plan
from solvers.network.polish import SearchBudget
from solvers.network.routing import WORST, route
from solvers.network.search import search_topology
from solvers.network.seeds import SEEDS
from solvers.stop import Stop, first_part
from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem
from topoopt.core.network import (
    NetworkProblem,
    RoutingPlan,
    RoutingProblem,
    TopologyProblem,
    price_certificate,
)
from topoopt.core.proofs import Argument, Bound, StopReason
from topoopt.core.result import SearchResult
from topoopt.core.topology import Topology

MOST_COLUMNS = 400_000
"""Pairs times arcs of the largest program."""

SAME = 1e-7
"""A matrix this little worse than the program's theta does not enter."""

TOGETHER = 4
"""Matrices that enter at once."""

ROUNDING = 1e-9

_SIMPLEX = 4_000
"""Columns up to which the simplex method is the quicker one."""

_GUARDED = 20_000
"""Columns from which on a program runs in a process that can be stopped; fewer take a second or so."""

_TIGHT: Options = {
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
    "ipm_optimality_tolerance": 1e-9,
}


@dataclass(frozen=True, eq=False)
class CommonRouting:
    """One routing for several demands, and prices that prove how good it can be.

    Attributes:
        pairs: int64[P, 2], ordered pairs with demand in some matrix, sorted.
        amounts: float64[k, P], their demand in each.
        split: float64[P, m], part of each pair's traffic over each arc.
        prices: float64[k, m], not negative.
    """

    pairs: Ints
    amounts: Floats
    split: Floats
    prices: Floats


def route_in_common(topology: Topology, demands: Floats, *, stop: Stop | None = None) -> CommonRouting:
    """The common routing of least worst theta (conserving exactly), and the prices of the last program.

    Of the routings with that worst theta, one of least mean theta where the program for it is not too large.

    Raises:
        InputError: too many pairs and arcs.
        LimitError: the time was up before the first program was solved.
    """
    result = _Common(topology, demands, stop or Stop()).run()
    if result is None:
        raise LimitError("the time was up before a common routing was found")
    return result


class _Common:
    def __init__(self, topology: Topology, demands: Floats, stop: Stop) -> None:
        self.topology, self.demands, self.stop = topology, demands, stop
        arcs = topology.arcs.astype(np.int64)
        capacity = topology.capacity
        self.scale = float(demands.max())
        self.data = CommonRoutingProgram(arcs[:, 0].copy(), arcs[:, 1].copy(), capacity, demands / self.scale)
        self.pairs = self.data.pairs
        self.amounts = demands[:, self.pairs[:, 0], self.pairs[:, 1]]
        if len(self.pairs) * len(arcs) > MOST_COLUMNS:
            text = f"too large for one routing in common: {len(self.pairs)} pairs times {len(arcs)} arcs"
            raise InputError([Problem(text, path="routing", value="common", allowed="adapted")])

    def run(self) -> CommonRouting | None:
        chosen = sorted(np.argsort(-self.amounts.sum(axis=1), kind="stable")[:TOGETHER].tolist())
        split, worst = None, np.inf
        prices = np.zeros((len(self.demands), len(self.topology.arcs)))
        while True:
            solution = self._solved(chosen, None)
            if solution is None:
                break
            theta = self._theta(solution[0])
            if theta.max() < worst:
                split, worst = solution[0], float(theta.max())
            prices[:] = 0.0
            prices[chosen] = solution[1]
            incumbent = float(theta[chosen].max())
            worse = [k for k in np.argsort(-theta, kind="stable").tolist() if theta[k] > incumbent * (1 + SAME)]
            if not worse:
                break
            chosen = sorted({*chosen, *worse[:TOGETHER]})
        if split is None:
            return None
        return CommonRouting(self.pairs, self.amounts, self._evened(split, worst), prices)

    def _evened(self, split: Floats, worst: float) -> Floats:
        """A routing no worse in the worst case, and better on the mean if there is one."""
        entries = len(self.demands) * split.size
        if len(self.demands) == 1 or entries > 2_000_000:  # matrices times pairs times arcs
            return split
        solution = self._solved(list(range(len(self.demands))), worst / self.scale)
        if solution is None:
            return split
        old, new = self._theta(split), self._theta(solution[0])
        return solution[0] if new.max() <= worst * (1 + ROUNDING) and new.sum() < old.sum() else split

    def _theta(self, split: Floats) -> Floats:
        return np.asarray((self.amounts @ split / self.data.capacity).max(axis=1))

    def _solved(self, chosen: list[int], cap: float | None) -> tuple[Floats, Floats] | None:
        """Exactly conserving parts of all pairs, float64[P, m], and prices, float64[chosen, m]; None: out of time.

        Pairs without demand in the chosen matrices get a shortest way.
        """
        if self.stop.reason() is not None:
            return None
        part = replace(self.data, demands=self.data.demands[chosen], cap=cap)
        program = common_routing_arrays(part)
        limits = SolverLimits(time_s=self.stop.remaining_s())
        name = "highs-simplex" if program.columns < _SIMPLEX else "highs-ipx"
        options: Options = _TIGHT if name == "highs-simplex" else {**_TIGHT, "run_crossover": "off"}
        if program.columns < _GUARDED:
            answer = solver_named(name)(program, limits, options)
        else:
            answer = solve_guarded(name, program, limits, options, stop=self.stop)
        if answer.raw_x is None or answer.row_dual is None:
            return None
        rough = np.zeros((len(self.pairs), len(part.tail)))
        row_of = {(int(s), int(t)): row for row, (s, t) in enumerate(self.pairs)}
        rough[[row_of[int(s), int(t)] for s, t in part.pairs]] = split_of(part, answer.raw_x)
        rows = zip(rough, self.pairs.tolist(), strict=True)
        split = np.array([_mended(self.topology, row, s, t) for row, (s, t) in rows])
        return split.reshape(rough.shape), prices_of(part, answer.row_dual)


def _mended(topology: Topology, rough: Floats, source: int, target: int) -> Floats:
    """Parts that conserve exactly: the widest ways of the rough ones, scaled to 1; a shortest way if there is none."""
    import networkx as nx

    left = rough.copy()
    split = np.zeros(len(rough))
    total = 0.0
    while total < 1.0 - 1e-9:
        path = _widest(topology, left, source, target)
        if path is None:
            break
        width = min(float(left[path].min()), 1.0 - total)
        left[path] -= width
        split[path] += width
        total += width
    if total < 0.5:
        graph = nx.DiGraph([(int(i), int(j)) for i, j in topology.arcs])
        nodes = nx.shortest_path(graph, source, target)
        split[:] = 0.0
        ids = topology.arc_ids()
        split[[int(ids[i, j]) for i, j in pairwise(nodes)]] = 1.0
        return split
    return np.asarray(split / total)


def _widest(topology: Topology, left: Floats, source: int, target: int) -> list[int] | None:
    """Arcs of the way whose narrowest part is widest; None if nothing above dust leads there."""
    width = np.zeros(topology.servers)
    width[source] = np.inf
    over = np.full(topology.servers, -1, dtype=np.int64)
    used = np.flatnonzero(left > 1e-8)
    open_servers = {source}
    done: set[int] = set()
    while open_servers:
        at = max(open_servers, key=lambda v: (width[v], -v))
        open_servers.remove(at)
        done.add(at)
        if at == target:
            path = []
            while at != source:
                path.append(int(over[at]))
                at = int(topology.arcs[over[at], 0])
            return path[::-1]
        for a in used[topology.arcs[used, 0] == at].tolist():
            head = int(topology.arcs[a, 1])
            wide = min(width[at], left[a])
            if head not in done and wide > width[head]:
                width[head], over[head] = wide, a
                open_servers.add(head)
    return None


Demands = Floats

ACCURACY = 1e-4
"""Gap of the routings that judge a topology."""

SINGLE = 3
"""Matrices, the heaviest, that get a search of their own."""


def search_budget(servers: int) -> SearchBudget:
    """Of each search for one matrix: a second or two at 16 servers."""
    return SearchBudget(proposals=8_000 * servers, evaluations=60 * servers, accuracy=1e-3)


Judged = tuple[float, Topology, tuple[int, ...]]
"""Worst theta (routing adapted) of a topology, the topology, and the order in which to look at the matrices."""


def worst_topologies(problem: TopologyProblem, *, seed: int, goal: float, keep: int, stop: Stop) -> tuple[Judged, ...]:
    """The best topologies met, best first, `keep` at most; with `keep` 1 the search ends at `goal`, a proven bound.

    Raises:
        InfeasibleError: no topology of the degree joins all servers.
        LimitError: the time was up before any was found.
    """
    demands = problem.demands
    pool: list[Judged] = []

    def add(topology: Topology) -> None:
        if any(_same(topology, member[1]) for member in pool):
            return
        entry = _judged(topology, demands, pool[0][2] if pool else None, pool[-1][0] if len(pool) >= keep else None)
        if entry is not None:
            pool.append(entry)
            pool.sort(key=lambda member: member[0])
            del pool[keep:]

    def enough() -> bool:
        reached = keep == 1 and bool(pool) and pool[0][0] <= goal * (1 + ACCURACY)
        return reached or (bool(pool) and stop.reason() is not None)

    for topology in _candidates(problem, seed, stop):
        add(topology)
        if enough():
            break
    if not pool:
        raise LimitError("the time was up before a topology was found")
    dice = np.random.default_rng([seed, 1])
    for _ in range(100 if problem.servers <= 16 else 40 if problem.servers <= 32 else 0):
        if enough():
            break
        changed = _exchanged(pool[0][1], dice)
        if changed is not None:
            add(changed)
    return tuple(pool)


def _same(first: Topology, other: Topology) -> bool:
    return np.array_equal(first.arcs, other.arcs) and np.array_equal(first.multiplicity, other.multiplicity)


def _candidates(problem: TopologyProblem, seed: int, stop: Stop) -> Sequence[Topology]:
    servers, degree, links, demands = problem.servers, problem.degree, problem.links, problem.demands
    heaviest = np.argsort(-demands.sum(axis=(1, 2)), kind="stable")[:SINGLE]
    mixed = [demands.mean(axis=0), demands.max(axis=0)]
    candidates = []
    for name, seeded in SEEDS.items():
        try:
            candidates.append(seeded(servers, degree, links, mixed[0], np.random.default_rng([seed, len(name)])))
        except (InfeasibleError, InputError):  # this family has no topology of the degree
            continue
    matrices = mixed if len(demands) > 1 else []
    for matrix in [*matrices, *demands[heaviest]]:
        if stop.reason() is not None:
            break
        try:
            part = stop if stop.deadline is None else first_part(stop, 0.3, np.inf)
            candidates.append(
                search_topology(
                    replace(problem, demand=matrix), seed=seed, budget=search_budget(servers), stop=part
                ).topology
            )
        except LimitError:
            continue
    if not candidates:
        raise InfeasibleError(f"no topology of degree {degree} joins {servers} servers, or none was found in time")
    return candidates


def _judged(topology: Topology, demands: Demands, order: tuple[int, ...] | None, limit: float | None) -> Judged | None:
    """The topology with its worst theta; None if that is proven not to be below `limit`, or a demand has no way."""
    order = tuple(range(len(demands))) if order is None else order
    theta = dict.fromkeys(order, 0.0)
    for k in order:
        try:
            routing = route(topology, demands[k], accuracy=ACCURACY)
        except InfeasibleError:
            return None
        theta[k] = routing.theta
        if limit is not None and routing.bound >= limit * (1 - 1e-9):
            return None
    worst = max(theta.values())
    if limit is not None and worst >= limit * (1 - 1e-9):
        return None
    return worst, topology, tuple(sorted(order, key=lambda k: (-theta[k], k)))


def _exchanged(topology: Topology, dice: np.random.Generator) -> Topology | None:
    """Two links i -> j and k -> l become i -> l and k -> j (fibre pairs at both ends); None if that makes a loop."""
    table = table_of(topology)
    arcs = arcs_of(table.out)
    both = topology.links is LinkDirection.BIDIRECTIONAL
    rows = arcs[arcs[:, 0] < arcs[:, 1]] if both else arcs
    if len(rows) < 2:
        return None
    first, other = dice.choice(len(rows), size=2, replace=False)
    (i, j), (k, l) = rows[first].tolist(), rows[other].tolist()  # noqa: E741
    if both and dice.random() < 0.5:
        k, l = l, k  # noqa: E741
    if i == l or k == j:
        return None
    kept = np.delete(rows, [first, other], axis=0)
    changed = np.concatenate((kept, [(i, l), (k, j)]))
    if both:
        changed = np.concatenate((changed, changed[:, ::-1]))
    out = np.repeat(np.arange(topology.servers)[:, None], topology.degree, axis=1)
    sent = np.zeros(topology.servers, dtype=np.int64)
    for tail, head in changed.tolist():
        out[tail, sent[tail]] = head
        sent[tail] += 1
    try:
        return topology_of(out, topology.links, "worst-case search")
    except InfeasibleError:  # no longer connected
        return None


"""Of the method."""

POOL = 6
"""Topologies that get a common routing."""

_UNIT = 2.0**-52


def worst_case(problem: NetworkProblem, goal: float, *, seed: int, stop: Stop) -> SearchResult[RoutingPlan]:
    """The topology given, or the best one found, with a routing for each demand or one for all, as the problem says.

    The routing of what was found is finished whatever `stop` says.

    Args:
        goal: a proven bound on the largest theta of every topology.

    Returns:
        A plan whose bound holds for all routings over its links.

    Raises:
        InputError: too large for a common routing.
        InfeasibleError: servers with demand that nothing joins.
        LimitError: the time was up before anything was found.
    """
    common = problem.routing == "common"
    if isinstance(problem, RoutingProblem):
        topologies: Sequence[Topology] = [problem.topology]
    else:
        pool = worst_topologies(problem, seed=seed, goal=goal, keep=POOL if common else 1, stop=stop)
        topologies = [topology for _, topology, _ in pool]
    if not common:
        topology = topologies[0]
        results = [route(topology, demand) for demand in problem.demands]
        routing = RoutingPlan(flows=tuple(result.flow for result in results))
        proofs = tuple(proof for result in results for proof in result.certificates)
        bound = Bound(max(result.bound for result in results), Argument.ARC_LENGTHS)
    else:
        topology, split = _in_common(topologies, problem.demands, stop)
        prices, value = _proven(topology, split, problem.demands)
        routing, proofs = RoutingPlan(split=split.split), (price_certificate(prices),)
        bound = Bound(value, Argument.ARC_PRICES)
    plan = routing if isinstance(problem, RoutingProblem) else topology_plan(topology, routing)
    reason = stop.reason() or StopReason.CONVERGED
    return SearchResult(plan=plan, certificates=proofs, bounds=(bound,), stopped_by=reason, method=WORST)


def _in_common(topologies: Sequence[Topology], demands: Floats, stop: Stop) -> tuple[Topology, CommonRouting]:
    best: tuple[float, Topology, CommonRouting] | None = None
    for topology in topologies:
        if best is not None and stop.reason() is not None:
            break
        # The interrupt without the deadline: a topology without a routing is no answer.
        routing = route_in_common(topology, demands, stop=replace(stop, deadline=None))
        worst = float((routing.amounts @ routing.split / topology.capacity).max())
        if best is None or worst < best[0]:
            best = (worst, topology, routing)
    assert best is not None
    return best[1], best[2]


def _proven(topology: Topology, routing: CommonRouting, demands: Floats) -> tuple[Floats, float]:
    """Prices, and the bound that they prove: those of the common routing, or of a routing for each demand.

    A common routing is one for each demand too. The lengths of the worst demand are prices that are 0 in all others.
    """
    by_prices = price_bound(topology, routing)
    results = [route(topology, demand) for demand in demands]
    worst = max(range(len(results)), key=lambda k: results[k].bound)
    if by_prices >= results[worst].bound:
        return routing.prices, by_prices
    prices = np.zeros_like(routing.prices)
    prices[worst] = results[worst].certificate.lengths
    return prices, results[worst].bound


def price_bound(topology: Topology, routing: CommonRouting) -> float:
    """What the prices of a common routing prove, less a margin for rounding; 0 where they are all 0."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    prices, n = routing.prices, topology.servers
    price = float((prices @ topology.capacity).sum())
    if price <= 0:
        return 0.0
    lengths = routing.amounts.T @ prices
    tails, heads = topology.arcs[:, 0], topology.arcs[:, 1]
    total = 0.0
    for (source, target), row in zip(routing.pairs.tolist(), lengths, strict=True):
        graph = csr_array((row, (tails, heads)), shape=(n, n))
        total += float(dijkstra(graph, indices=source)[target])
    terms = len(prices) + n + len(lengths) + prices.size + 8
    return total / price * (1.0 - 2.0 * terms * _UNIT)
