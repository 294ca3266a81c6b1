"""Topologies for uniform demand: the least theta of all graphs that a race of groups ends with, each routed exactly.

Fewest hops is not least load, so that several graphs of nearly as few hops are routed. Where no group suits the number
of servers, some of a larger graph are removed, the ends that become free are joined, and annealing of single links goes
on at low temperature (order adjustment; Kitasuka, Matsuzaki and Iida, IEICE E101-D, 2018).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from solvers.network.annealing import anneal, hops_of, table_of, table_of_arcs, topology_of
from solvers.network.flows import RoutingResult
from solvers.network.lifts import Lift, competitors, race
from solvers.network.polish import default_evaluations, polish
from solvers.network.routing import route
from solvers.network.search import POLISH_SERVERS, OnIncumbent, Routed, TopologySearchResult
from solvers.network.seeds import kautz_seed
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, LimitError
from topoopt.core.network import TopologyProblem
from topoopt.core.proofs import StopReason
from topoopt.core.topology import Symmetry, Topology

Entry = tuple[str, Topology, Symmetry | None, float]
"""Name, links, the group that keeps them, and what the sum of distances proves of theta."""

CLOSE = 1.01
"""A race ends early where theta is so near the bound over all topologies; of few servers where it is there."""

WITHIN = 1.005
"""Graphs are routed whose hops are so near the fewest."""

ACCURACY = 1e-6

MAX_CELLS = 1 << 24
"""Servers times arcs up to which links are routed that no group keeps: as many entries fit in a solution file."""

FEW_GROUPS = 6
"""With fewer groups than this, graphs with more servers are tried as well."""

MANY = 1024
"""Servers above which one race is made: listing the groups takes seconds."""

LARGE = 512
"""Servers from which on a race has more work, for annealings of more orbits."""

LARGER = 16
"""Servers that are removed at most."""

REPAIRS = 400
"""Proposals of the repair after servers were removed, a server."""

MILD = 3e-5
"""Temperature of the repair at its start, against the hop total."""


def is_uniform(demand: Floats) -> bool:
    """Whether every server sends the same to every other."""
    unit = float(demand[0, 1]) if len(demand) > 1 else 0.0
    return unit > 0 and int(np.count_nonzero(demand == unit)) == demand.size - len(demand) and not np.diag(demand).any()


def work_s(n: int, d: int, links: LinkDirection) -> tuple[float, ...]:
    """Processor seconds of a first race, and of another where that is not close to the bound; many servers have one."""
    if n > MANY:
        return (15.0,)
    size = (n * d) ** 2 / 800.0
    if links is LinkDirection.UNIDIRECTIONAL:
        full = min(90.0 if d <= 4 else 45.0, size)
        return min(4.0, full / 4.0), full
    full = min(70.0 if d <= 4 else 42.0 if n < LARGE else 54.0, size)
    return min(6.5, full / 4.0), full


def search_uniform(
    problem: TopologyProblem,
    *,
    seed: int = 0,
    scale: float = 1.0,
    bound: float = 0.0,
    stop: Stop | None = None,
    on_incumbent: OnIncumbent | None = None,
    start: Routed | None = None,
) -> TopologySearchResult:
    """Search for the topology of least theta for uniform demand, without constraints.

    Args:
        problem: its servers, degree, links and demand.
        seed: of the search; the same seed gives the same topology unless a limit cuts it short.
        scale: factor on the default work.
        bound: on theta over all topologies.
        stop: deadline and interrupt.
        on_incumbent: called whenever there is something better.
        start: a topology with its routing that the result is no worse than.

    Raises:
        InfeasibleError: so many links connect no graph. LimitError: the limit came before there was one.
    """
    return _Search(problem, seed, scale, bound, stop or Stop(), on_incumbent, start).run()


class _Search:
    def __init__(
        self,
        problem: TopologyProblem,
        seed: int,
        scale: float,
        bound: float,
        stop: Stop,
        on_incumbent: OnIncumbent | None,
        start: Routed | None,
    ) -> None:
        self.problem, self.seed, self.scale, self.bound = problem, seed, scale, bound
        self.stop, self.on_incumbent = stop, on_incumbent
        self.n, self.d, self.links = problem.servers, problem.degree, problem.links
        self.unit = float(problem.demand[0, 1])
        self.best = self.start = start
        self.steps: list[tuple[str, float, float]] = []

    def run(self) -> TopologySearchResult:
        for number, work in enumerate(work_s(self.n, self.d, self.links)):
            if self.best and (self._late or self._close):
                break
            lifts: list[Lift] = []
            for lifts in race(self.n, self.d, self.links, self.scale * work, 2 * self.seed + number, self.stop):
                if self.best is None or self.best is self.start:
                    self._offer(self._entries(lifts[:1]))
            self._offer(self._entries(lifts))
            if number == 0:
                self._offer(self._kautz())
                self._offer(self._trimmed(self.scale * work))
            self._offer(self._polished())
        if self.best is None:
            raise LimitError("no topology was found that joins all servers (not proven that there is none)")
        return self._result(*self.best)

    def _result(self, topology: Topology, routing: RoutingResult) -> TopologySearchResult:
        closed = routing.theta <= self.bound * (1.0 + ACCURACY)
        stopped = StopReason.GAP if closed else self.stop.reason() or StopReason.BUDGET
        return TopologySearchResult(topology, routing, tuple(self.steps), 0, stopped)

    def _offer(self, entries: Iterator[Entry]) -> None:
        """Route graphs, fewest hops first, as long as their hops allow less than the least theta."""
        least = np.inf
        for name, topology, symmetry, limit in entries:
            least = min(least, limit)
            if limit > WITHIN * least or (self.best and (limit >= self.best[1].theta or self._late)):
                continue
            if symmetry is None and self.n * len(topology.arcs) > MAX_CELLS:
                continue
            stop = self.stop if self.best else replace(self.stop, deadline=None)
            accuracy = ACCURACY if symmetry is not None or self.n <= 128 else 1e-4
            routing = route(topology, self.problem.demand, accuracy=accuracy, symmetry=symmetry, stop=stop)
            self.steps.append((name, limit, routing.theta))
            if self.best is None or routing.theta < self.best[1].theta:
                self.best = topology, routing
                if self.on_incumbent is not None:
                    self.on_incumbent(partial(self._result, *self.best))

    @property
    def _close(self) -> bool:
        factor = CLOSE if self.n > POLISH_SERVERS else 1.0 + ACCURACY
        return self.best is not None and self.best[1].theta <= factor * self.bound

    @property
    def _late(self) -> bool:
        return self.stop.reason() is not None

    def _entries(self, lifts: list[Lift]) -> Iterator[Entry]:
        for lift in lifts:
            least = self.unit * (self.n - 1) * lift.mean_hops / self.d
            if np.isinf(least) or (self.best is not None and least >= self.best[1].theta):
                continue
            name = lift.group.name
            topology = topology_of(lift.heads, self.links, f"{lift.orbits} orbits of servers under {name}")
            symmetry = Symmetry.of(topology.arcs, self.n, lift.generators) if lift.group.order > 1 else None
            links = int(topology.multiplicity.sum())
            yield f"orbits of {name}", topology, symmetry, least * self.n * self.d / links

    def _kautz(self) -> Iterator[Entry]:
        """The generalized Kautz graph, as it is known to be good."""
        if self.links is LinkDirection.UNIDIRECTIONAL and self.n * self.n * self.d <= MAX_CELLS:
            try:
                topology = kautz_seed(self.n, self.d, self.links, self.problem.demand, np.random.default_rng(self.seed))
            except InfeasibleError:
                return
            yield "kautz", topology, None, hops_of(table_of(topology).out, self.problem.demand) / (self.n * self.d)

    def _polished(self) -> Iterator[Entry]:
        """The best of few servers, whose theta is above what its hops allow, after exchanges on theta."""
        if self.best is None or self.n > POLISH_SERVERS or self._late or self._close:
            return
        demand, allowed = self.problem.demand, ~np.eye(self.n, dtype=np.bool_)
        evaluations = int(self.scale * default_evaluations(self.n))
        heads, _, _ = polish(
            table_of(self.best[0]), demand, allowed, evaluations=evaluations, parallel=True, goal=self.bound,
            seed=self.seed, stop=self.stop,
        )  # fmt: skip
        topology = topology_of(heads, self.links, f"{self.best[0].origin}, polished")
        yield "polished", topology, None, hops_of(heads, demand) / (self.n * self.d)

    def _trimmed(self, work: float) -> Iterator[Entry]:
        """The best graph of a few more servers without these."""
        n, d = self.n, self.d
        if len(competitors(n, d)) >= FEW_GROUPS or n * n * d > MAX_CELLS or self._late:
            return
        host = max(range(n + 1, n + LARGER + 1), key=lambda size: (len(competitors(size, d)) >= 4 * FEW_GROUPS, -size))
        *_, lifts = race(host, d, self.links, work, self.seed, self.stop)
        rng = np.random.default_rng(self.seed)
        for lift in lifts[:2]:
            table = table_of_arcs(n, d, self.links, removed(lift.heads, n, self.links, rng))
            allowed, demand = ~np.eye(n, dtype=np.bool_), self.problem.demand
            heads = anneal(table, demand, allowed, REPAIRS * n, hot=MILD, seed=self.seed, stop=self.stop)
            origin = f"{host} servers in orbits under {lift.group.name}, without {host - n}, annealed on hops"
            yield f"{host} servers", topology_of(heads, self.links, origin), None, hops_of(heads, demand) / (n * d)


def removed(heads: Ints, n: int, links: LinkDirection, rng: np.random.Generator) -> Ints:
    """int64[m, 2]: unit arcs between the first n servers, and between the ends that became free when others went.

    Args:
        heads: int64[more than n, d], where the ports of each server lead; a dark port to its own server.
        n: servers that stay.
        links: one-way, or both ways.
        rng: which free ends are joined.
    """
    tail = np.repeat(np.arange(len(heads)), heads.shape[1])
    head = heads.ravel()
    stays = (tail < n) & (head < n) & (tail != head)
    arcs = np.column_stack((tail, head))[stays]
    out, into = tail[(tail < n) & (head >= n)], head[(tail >= n) & (head < n)]
    if links is LinkDirection.UNIDIRECTIONAL:
        new = _apart(rng.permutation(out), rng.permutation(into))
        return np.vstack((arcs, new))
    ends = rng.permutation(out)
    new = _apart(ends[: len(ends) // 2], ends[len(ends) // 2 : len(ends) // 2 * 2])
    return np.vstack((arcs, new, new[:, ::-1]))


def _apart(tail: Ints, head: Ints) -> Ints:
    """int64[k, 2]: pairs of different servers, the heads turned by as few places as possible; others are left out."""
    best = max(range(len(head)), key=lambda turn: int((tail != np.roll(head, turn)).sum()), default=0)
    pairs = np.column_stack((tail, np.roll(head, best)))
    return np.asarray(pairs[pairs[:, 0] != pairs[:, 1]])
