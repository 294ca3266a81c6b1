"""Network problems without a job: a demand is routed, or the topology is designed as well; trees prove bounds.

Demand is float64[n, n] in units of the capacity of one link; theta is the largest link utilisation of a routing (to be
minimised), lambda = 1/theta the largest common factor by which all demand can be scaled (concurrent flow). Of several
demands, float64[k, n, n], one is there at a time, and the largest theta of all counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Literal, NamedTuple, TypeVar

import numpy as np
from annotated_types import Ge, Le, Len, Lt
from numpy.typing import NDArray

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.data import MAX_LINKS, MAX_SERVERS, PRINTABLE, STRICT, Grid, Pattern, Server, Shown, Sparse
from topoopt.core.errors import InputError, Problem
from topoopt.core.proofs import Argument
from topoopt.core.result import Certificate, ProblemBase, RobustSearchSettings, SearchSettings
from topoopt.core.topology import Symmetry, Topology, translations

MAX_DEMANDS = 1000
"""Matrices of one problem."""

MAX_CELLS = 1 << 27
"""Entries of all flows of a plan, those that are 0 included (1 GiB)."""

MAX_GENERATORS = 16
"""Permutations that generate a group: each doubles it at least, and no group has more elements than servers."""

Theta = Annotated[float, Ge(0), Le(1e30)]


RoutingMode = Literal["common", "adapted"]
"""Who knows which of several demands is there: `common`: nobody, one routing for all; `adapted`: the routing."""


class WithDemand(ProblemBase):
    """What problems of both kinds have: one demand matrix, or several."""

    demand: Floats
    routing: RoutingMode

    @property
    def common(self) -> bool:
        """Whether one routing serves all of several demands."""
        return self.several and self.routing == "common"

    @cached_property
    def pairs(self) -> Ints:
        """int64[P, 2], the ordered pairs with demand in some matrix, sorted."""
        return np.argwhere(self.demands.max(axis=0) > 0)

    @property
    def demands(self) -> Floats:
        """float64[k, n, n], a set of one where there is one matrix."""
        return self.demand[None] if self.demand.ndim == 2 else self.demand

    @property
    def several(self) -> bool:
        """Whether the demand is a set of matrices, the worst of which counts."""
        return self.demand.ndim == 3


@dataclass(frozen=True, eq=False, repr=False)
class RoutingProblem(WithDemand):
    """Kind `routing`: splittable routing of least theta on a fixed topology.

    Attributes:
        name: of the instance.
        topology: arcs with multiplicities; an arc's capacity is its multiplicity.
        demand: float64[n, n] or float64[k, n, n], zero diagonals, not negative.
        max_hops: longest path allowed; None for any.
        link_gbps: rate of one link; None where the instance gives none. Demand is in units of a link all the same.
        hop_price: time of one hop in the unit of theta. The objective is theta + hop_price * mean hops of the demand
            (`completion-time`); 0: theta alone (`throughput`).
        routing: of several demands.
        step_ms: time each of several demands stands for; theta times this is the time its traffic takes. None: unknown.
    """

    name: str
    topology: Topology
    demand: Floats
    max_hops: int | None = None
    hop_price: float = 0.0
    search: SearchSettings = field(default_factory=SearchSettings)
    sha256: str = ""
    notes: tuple[str, ...] = ()
    link_gbps: float | None = None
    routing: RoutingMode = "common"
    step_ms: float | None = None

    kind = "routing"

    @property
    def rules(self) -> tuple[str, ...]:
        """Names of the constraints and prices that are set; several demands take none."""
        given = {"max_hops": self.max_hops is not None, "hop_price": self.hop_price > 0}
        return tuple(name for name, here in given.items() if here)


@dataclass(frozen=True, eq=False, repr=False)
class TopologyProblem(WithDemand):
    """Kind `topology`: links and routing of least theta.

    Attributes:
        name: of the instance.
        servers, degree, links: n, d, and whether links are fibre pairs or single fibres.
        demand: float64[n, n] or float64[k, n, n], zero diagonals, not negative.
        max_hops: every ordered pair must be within so many hops; None for no such limit.
        forbidden: arcs (tail, head) that may not be used.
        kept: arcs, repeated for parallel links, of the network as it stands; empty for a new one.
        max_changed: most links of `kept` that may be given up; None for any number.
        parallel_links: whether more than one link may join a pair.
        link_gbps: rate of one link; None where the instance gives none.
        routing, step_ms: as of kind `routing`.
    """

    name: str
    servers: int
    degree: int
    links: LinkDirection
    demand: Floats
    max_hops: int | None = None
    forbidden: tuple[tuple[int, int], ...] = ()
    kept: tuple[tuple[int, int], ...] = ()
    max_changed: int | None = None
    parallel_links: bool = True
    search: RobustSearchSettings = field(default_factory=RobustSearchSettings)
    sha256: str = ""
    notes: tuple[str, ...] = ()
    link_gbps: float | None = None
    routing: RoutingMode = "common"
    step_ms: float | None = None

    kind = "topology"

    @property
    def single_links(self) -> bool:
        """Whether a server has one fibre pair, and so one peer."""
        return self.degree == 1 and self.links is LinkDirection.BIDIRECTIONAL and self.servers > 2

    @property
    def rules(self) -> tuple[str, ...]:
        """Names of the constraints that are set; several demands take none."""
        given = {
            "max_hops": self.max_hops is not None,
            "forbidden": self.forbidden,
            "kept": self.kept,
            "parallel_links": not self.parallel_links,
            "search.robust": self.search.robust is not None,
        }
        return tuple(name for name, here in given.items() if here)


NetworkProblem = RoutingProblem | TopologyProblem
EitherProblem = TypeVar("EitherProblem", RoutingProblem, TopologyProblem)


def single(problem: EitherProblem, matrix: int) -> EitherProblem:
    """The problem of one of several demands alone."""
    return replace(problem, demand=problem.demands[matrix])


@dataclass(frozen=True, eq=False, repr=False)
class SourceFlow(Shown):
    """A splittable routing, aggregated by source; in one of two forms, which its methods give alike.

    Attributes:
        flow: float64[n, m]; flow[s, a] is what source s sends over arc a (arcs of the topology, in order). Or
            float64[k, m], rows of the first server of each orbit alone, under a group of permutations that keep the
            arcs: an element that takes the first server to s takes what it sends, arc by arc, to what s sends.
        by_hop: float64[h, n, m], the same split by place on the way, so that sum over h is `flow`: by_hop[k, s, a] goes
            over arc a as hop k + 1 at the latest. Shows that all paths have at most h hops; None where hops are free.
        dims: of the box of servers whose translations are the group, each dimension a ring.
        generators: int32[g, n], permutations that generate another group. None, and no dims, where a flow is one row:
            the ring of all servers.
    """

    __pydantic_config__ = STRICT

    flow: Annotated[Floats, Sparse(2)]
    """what each source sends over each arc; or rows of the first server of each orbit, which stand for all"""
    by_hop: Annotated[Floats, Sparse(3)] | None = None
    """under a hop limit: what goes over hop 1, 2, ... of its way, as a flow each"""
    dims: Annotated[tuple[Annotated[int, Ge(1), Le(MAX_SERVERS)], ...], Len(0, 16)] = ()
    """sizes of the box in which servers see others, where a flow is one row; none: the ring of all servers"""
    generators: (
        Annotated[Int32s, Grid(Annotated[int, Ge(0), Lt(MAX_SERVERS)], np.int32, MAX_GENERATORS, MAX_SERVERS)] | None
    ) = None
    """where a flow has rows of first servers of orbits: permutations of the servers that generate the group"""

    @property
    def by_orbits(self) -> bool:
        """Whether rows of some sources stand for all; no network has one server only."""
        return len(self.flow) == 1 or self.generators is not None

    def rows(self, topology: Topology) -> Iterator[Floats]:
        """float64[m] of every source."""
        return self._symmetry(topology).rows(self.flow) if self.by_orbits else iter(self.flow)

    def load(self, topology: Topology) -> Floats:
        """float64[m]: what all sources send over each arc."""
        return self._symmetry(topology).load(self.flow) if self.by_orbits else np.asarray(self.flow.sum(axis=0))

    def _symmetry(self, topology: Topology) -> Symmetry:
        n, given = topology.servers, self.generators
        moves = translations(self.dims or (n,)) if given is None else given
        whole = moves.shape[1:] == (n,) and (np.sort(moves, axis=1) == np.arange(n)).all()
        symmetry = Symmetry.of(topology.arcs, n, moves) if whole else None
        if symmetry is None or len(symmetry.sources) != len(self.flow):
            raise InputError([Problem("these rows stand for no others: the servers differ in their arcs", path="flow")])
        return symmetry

    def staying(self, topology: Topology) -> Floats:
        """float64[n, n]: what of each source's flow (row) stays at each server, the demand served; diagonal 0."""
        tails, heads = topology.arcs[:, 0], topology.arcs[:, 1]
        stays = np.empty((topology.servers, topology.servers))
        for source, row in enumerate(self.rows(topology)):
            stays[source] = np.bincount(heads, row, topology.servers) - np.bincount(tails, row, topology.servers)
        np.fill_diagonal(stays, 0.0)
        return stays


@dataclass(frozen=True, eq=False, repr=False)
class LengthCertificate(Shown):
    """Proof of theta >= sum_ij D_ij dist_l(i, j) / sum_a capacity_a l_a (linear-programming duality).

    With a hop limit, dist is over paths within it; with a price of hops, every arc is longer by
    hop_price / |D| * sum_a capacity_a l_a, and theta + hop_price * mean hops is bounded.

    Attributes:
        lengths: float64[m], not negative, one per arc of the topology.
    """

    lengths: Floats

    def certificate(self, flow: SourceFlow | None = None) -> Certificate:
        """As a file holds it; the group of the flow, where it has one, saves the checker time."""
        group = {}
        if flow is not None and flow.dims:
            group["box"] = np.array(flow.dims, dtype=np.int64)
        elif flow is not None and flow.generators is not None:
            group["generators"] = flow.generators.astype(np.int64).ravel()
        return Certificate(Argument.ARC_LENGTHS, {"lengths": self.lengths, **group})


def price_certificate(prices: Floats) -> Certificate:
    """Proof of a bound on any routing common to several demands.

    For prices w[k, a] >= 0 with C = sum_ka capacity_a w[k, a] > 0, any common routing has theta >= (1/C) sum_p dist_p,
    where dist_p is the shortest way of pair p by the lengths sum_k D[k, p] w[k, a] of the arcs: C theta is at least the
    priced load, and what a pair pays of it is a mean over its ways.

    Args:
        prices: float64[k, m], not negative.
    """
    return Certificate(Argument.ARC_PRICES, {"prices": prices.ravel()})


@dataclass(frozen=True, eq=False, repr=False)
class RobustDesign(Shown):
    """How a topology stands the failure of any single link.

    The worst theta follows from the routings after each failure; where these are too many, it is stated.
    """

    __pydantic_config__ = STRICT

    nominal_theta: Theta
    """least theta without failure that the search reached over all topologies"""
    nominal_worst_theta: Theta | None = None
    """what the topology of that theta has after its worst failure; null: demand is cut off"""
    failures: Annotated[tuple[Annotated[Floats, Sparse(2)], ...], Len(0, MAX_LINKS)] = ()
    """while each link is dark, links in ascending order, what each source sends over each arc"""
    worst_theta: Theta | None = None
    """after the worst failure; only where `failures` are left out"""
    worst_link: tuple[Server, Server] | None = None
    """tail and head of the link that fails worst; only where `failures` are left out"""
    enumerated_theta: Theta | None = None
    """where all topologies were tried: what none of them is below after its worst failure"""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RoutingPlan(Shown):
    """The decisions of kind `routing`: a flow for each demand, or one split of the pairs for all demands."""

    __pydantic_config__ = STRICT

    flows: Annotated[tuple[SourceFlow, ...], Len(0, MAX_DEMANDS)] = ()
    """one for each demand; none beside a split"""
    split: Annotated[Floats, Sparse(2)] | None = None
    """of a routing common to several demands: part of the traffic of each pair over each arc; pairs with demand in some
    matrix, in order"""

    def __post_init__(self) -> None:
        """Refuse tables that together are larger than a file may make them."""
        tables = [table for routing in self.flows for table in (routing.flow, routing.by_hop) if table is not None]
        cells = sum(table.size for table in tables)
        if cells + (0 if self.split is None else self.split.size) > MAX_CELLS:
            raise ValueError(f"more than {MAX_CELLS} entries of flows, those that are 0 included")

    def flow_of(self, problem: NetworkProblem, matrix: int, arcs: int) -> SourceFlow:
        """The flow of one of the demands over so many arcs."""
        if self.split is None:
            return self.flows[matrix]
        flow = np.zeros((problem.demands.shape[1], arcs))
        amounts = problem.demands[matrix][tuple(problem.pairs.T)]
        np.add.at(flow, problem.pairs[:, 0], amounts[:, None] * self.split)
        return SourceFlow(flow)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TopologyPlan(RoutingPlan):
    """The decisions of kind `topology`: circuits of the optical switches, and a routing over the links they make."""

    circuits: Annotated[Int32s, Grid(Annotated[int, Ge(-1), Lt(MAX_SERVERS)], np.int32, MAX_SERVERS, MAX_SERVERS)]
    """a row for each optical switch: the server that each server sends to; -1: dark"""
    origin: Annotated[str, Len(0, 2000), Pattern(PRINTABLE)] = ""
    """how the links were made, for people"""
    robust: RobustDesign | None = None
    """of method robust"""

    @cached_property
    def topology(self) -> Topology:
        """The links; without the problem, they are bidirectional if as many lead back as forth.

        Raises:
            ValueError: a circuit to a server that does not exist.
        """
        degree, servers = self.circuits.shape
        if degree == 0 or (self.circuits >= servers).any():
            raise ValueError("circuits to servers that do not exist")
        switch, tail = np.nonzero(self.circuits >= 0)
        units = np.column_stack((tail, self.circuits[switch, tail])).astype(np.int64)
        topology = Topology.of_arcs(servers, units, degree=degree, origin=self.origin)
        return replace(topology, switches=self.circuits)


def network_of(problem: NetworkProblem, plan: RoutingPlan) -> Topology:
    """The links of a plan: given with the problem, or chosen.

    Raises:
        ValueError: circuits that make no links.
    """
    if isinstance(problem, RoutingProblem):
        return problem.topology
    if not isinstance(plan, TopologyPlan):
        raise ValueError("a plan without circuits")
    return replace(plan.topology, links=problem.links)


@dataclass(frozen=True, eq=False)
class LayerPrices:
    """What a layered Moore bound rests on, beside sums of rows and columns; any prices, not negative, prove a bound.

    Attributes:
        alpha, beta: float64[layers, n], prices of rows and columns of the demand, for layers short of all servers.
    """

    alpha: Floats
    beta: Floats

    def certificate(self) -> Certificate:
        """Certificate of this proof as solution files store it."""
        return Certificate(Argument.LAYERED_MOORE, {"alpha": self.alpha.ravel(), "beta": self.beta.ravel()})

    @classmethod
    def of(cls, certificate: Certificate, servers: int) -> LayerPrices:
        """Of a certificate; raises ValueError where arrays are missing or do not fit."""
        return cls(certificate.floats("alpha", -1, servers), certificate.floats("beta", -1, servers))


RELAY_TABLES = ("price", "relief", "shift")


@dataclass(frozen=True, eq=False)
class RelayPrices:
    """What a bound by relay blocks rests on (`topoopt.verify.network.bounds`).

    Attributes:
        theta: what the prices prove of every topology.
        price: float64[n, n], not negative, of a unit of flow over a link i -> j.
        relief: float64[n, n], not negative, what a unit of demand i -> j is excused for going over one link or two.
        shift: float64[n, n], of the worth of a link i -> j from its tail to its head.
        most: float64[n], the most that the links around each server are worth.
    """

    theta: float
    price: Floats
    relief: Floats
    shift: Floats
    most: Floats

    def certificate(self) -> Certificate:
        """Certificate of this proof as solution files store it."""
        return Certificate(Argument.RELAY_BLOCKS, relay_arrays((self,)))


def relay_arrays(prices: Sequence[RelayPrices]) -> dict[str, Floats]:
    """Arrays of a certificate for prices of one case after another."""
    rows = {name: [getattr(case, name).ravel() for case in prices] for name in (*RELAY_TABLES, "most")}
    return {
        "theta": np.array([case.theta for case in prices]),
        **{name: np.concatenate(row) for name, row in rows.items()},
    }


def relay_prices_of(certificate: Certificate, servers: int) -> tuple[RelayPrices, ...]:
    """Prices of the cases of a certificate; raises ValueError where arrays are missing or do not fit."""
    theta = certificate.floats("theta", -1)
    count = len(theta)
    tables = [certificate.floats(name, count, servers, servers) for name in RELAY_TABLES]
    rows = zip(theta.tolist(), *tables, certificate.floats("most", count, servers), strict=True)
    return tuple(RelayPrices(*row) for row in rows)


@dataclass(frozen=True, eq=False, repr=False)
class TwoLayerMultipliers(Shown):
    """What the two-layer bound on theta is evaluated with; any values prove something, good ones prove more.

    They are too large for a file: a check searches for them again.

    Attributes:
        weight: float64[n, n], of each pair of servers.
        first_link: float32[n, n, n], the part of weight[i, j] charged to the first link of i -> k -> j, at [i, k, j].
    """

    weight: Floats
    first_link: NDArray[np.float32]

    def certificate(self) -> Certificate:
        """Certificate of this bound, which solution files never store."""
        return Certificate(Argument.TWO_LAYER, {"weight": self.weight, "first_link": self.first_link})


@dataclass(frozen=True, eq=False, repr=False)
class EnumerationProof(Shown):
    """Networks that a bound by enumeration rests on: all that have few hops, with lengths that bound each from below.

    Attributes:
        heads: int64[k, n, d], heads of every server's links in each network.
        lengths: float64[k, n, d], not negative, of these links.
    """

    heads: Ints
    lengths: Floats

    def certificate(self, theta: float) -> Certificate:
        """As a file holds it; `theta` is what is proven."""
        arrays = {"theta": np.array([theta]), "heads": self.heads.ravel(), "lengths": self.lengths.ravel()}
        return Certificate(Argument.LISTED_NETWORKS, arrays)

    @classmethod
    def of(cls, certificate: Certificate, servers: int, degree: int) -> EnumerationProof:
        """Of a certificate; raises ValueError where arrays are missing or do not fit."""
        shape = (-1, servers, degree)
        return cls(certificate.integers("heads", *shape), certificate.floats("lengths", *shape))


MOST_CASES = 5_000
"""Multipliers that a proof may have; with more a bound is not proven to others."""

LARGEST_MULTIPLIER = 2**40
"""Of a multiplier: sums of them over all links stay far below 2^63."""

MOST_CHOICES = 20_000_000
"""Of the links of a server, times multipliers, summed over servers: numbers that a checker holds at once."""

MOST_WORK = 400_000_000
"""Nodes of the tree times multipliers that a checker looks at: some five seconds."""


@dataclass(frozen=True, eq=False, repr=False)
class LinkTree(Shown):
    """Proof that theta is at least some value on every topology that a problem allows.

    The tree chooses the links of one server after another: all its links out, or, if they are bidirectional, those to
    servers that come later. It needs no list of nodes: a node is a leaf where one of the multipliers says so.

    Attributes:
        order: int64[n], the servers in the order in which their links are chosen.
        multipliers: int64[k, n, n], 0 to `LARGEST`: off the diagonal the length of every ordered pair of servers, on it
            the price of an interface of that server (of one that receives, if links are unidirectional).
    """

    order: Ints
    multipliers: Ints

    def certificate(self, theta: float) -> Certificate:
        """As a file of a network holds it; `theta` is what is proven."""
        arrays = {"theta": np.array([theta]), "order": self.order, "multipliers": self.multipliers.ravel()}
        return Certificate(Argument.LINK_TREE, arrays)

    @classmethod
    def of(cls, certificate: Certificate, servers: int) -> LinkTree:
        """Of a certificate; raises ValueError where arrays are missing or do not fit."""
        return cls(certificate.integers("order", servers), certificate.integers("multipliers", -1, servers, servers))


DEGREE = 2
"""Links out of and into a server."""

MOST_BLOCK_NODES = 40_000
"""Of a proof; with more a bound is not proven to others."""

LARGEST_PRICE = 2**40
"""Of a price, relief or shift, either way."""


@dataclass(frozen=True, eq=False, repr=False)
class BlockTree(Shown):
    """Proof that theta is at least `theta` on every topology of degree 2 with unidirectional links.

    A node is what some servers have as links out. Prices say at every node what the links around each server are worth
    at most (`topoopt.verify.network.trees`), demand in units of its mean. Only their proportions count, so that
    they are whole numbers.

    Attributes:
        theta: what is proven.
        parent: int64[k], of each node, one that stands before it; -1 of the root, which is the first.
        heads: int64[k, 2], where the links of the server lead by which the parent is divided; -1 of the root.
        server: int64[k], by which a node is divided into those that have it as parent; -1 of a node that is closed.
        bar: int64[k], length of links that no network of the node has, whatever their price.
        price, relief: int64[k, n, n], of links and of pairs of servers, not negative.
        shift: int64[k, n, n], of the worth of a link from its tail to its head.
    """

    theta: float
    parent: Ints
    heads: Ints
    server: Ints
    bar: Ints
    price: Ints
    relief: Ints
    shift: Ints

    def certificate(self) -> Certificate:
        """Certificate of this proof as solution files store it."""
        names = ("parent", "heads", "server", "bar", "price", "relief", "shift")
        arrays = {name: getattr(self, name).ravel() for name in names}
        return Certificate(Argument.LINK_BLOCKS, {"theta": np.array([self.theta]), **arrays})

    @classmethod
    def of(cls, certificate: Certificate, servers: int) -> BlockTree:
        """Of a certificate; raises ValueError where arrays are missing or do not fit."""
        parent = certificate.integers("parent", -1)
        count = len(parent)
        tables = (certificate.integers(name, count, servers, servers) for name in ("price", "relief", "shift"))
        return cls(
            certificate.scalar("theta"),
            parent,
            certificate.integers("heads", count, DEGREE),
            certificate.integers("server", count),
            certificate.integers("bar", count),
            *tables,
        )


MOST_RELAY_CASES = 2000
"""Cases in one proof."""


class LinkCounts(NamedTuple):
    """Topologies with so many links between servers.

    Attributes:
        least, most: int64[n, n], links i -> j; no topology has more than its degree.
    """

    least: Ints
    most: Ints

    @classmethod
    def any(cls, n: int, d: int) -> LinkCounts:
        """All topologies of n servers of degree d."""
        return cls(np.zeros((n, n), dtype=np.int64), np.full((n, n), d, dtype=np.int64))

    def split(self, i: int, j: int, count: int) -> tuple[LinkCounts, LinkCounts]:
        """Those with fewer than `count` links i -> j, and the others."""
        fewer, more = self.most.copy(), self.least.copy()
        fewer[i, j] = min(int(fewer[i, j]), count - 1)
        more[i, j] = max(int(more[i, j]), count)
        return LinkCounts(self.least, fewer), LinkCounts(more, self.most)


@dataclass(frozen=True, eq=False, repr=False)
class RelayCases(Shown):
    """A binary tree of cases, every node before those below it.

    Attributes:
        splits: int64[nodes, 3], (i, j, count): first come the topologies with fewer than `count` links i -> j, then
            those with as many or more; (0, 0, 0) where a node is not split but has prices.
        prices: of the nodes that are not split, in this order; each proves its theta of the topologies of its node.
    """

    splits: Ints
    prices: tuple[RelayPrices, ...]

    def certificate(self) -> Certificate:
        """Certificate of this proof as solution files store it."""
        return Certificate(Argument.RELAY_CASES, {"splits": self.splits.ravel(), **relay_arrays(self.prices)})

    @classmethod
    def of(cls, certificate: Certificate, servers: int) -> RelayCases:
        """Of a certificate; raises ValueError where arrays are missing or do not fit."""
        return cls(certificate.integers("splits", -1, 3), relay_prices_of(certificate, servers))
