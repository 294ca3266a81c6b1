"""A plan: everything needed to patch the switches, set the routes and launch the job. Kind `co-optimisation`: a
training job on a cluster, its plan, and what follows from the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge, Gt, Le, Len, Lt, MultipleOf

from topoopt.core.arrays import Floats
from topoopt.core.cluster import Cluster, LinkDirection, LinkSharing
from topoopt.core.collective import CollectiveSchedule, GroupSchedule
from topoopt.core.data import (
    MAX_SERVERS,
    STRICT,
    Gbps,
    Label,
    Meaning,
    Pattern,
    Server,
    Shorthand,
    Shown,
    Stored,
    omitting,
)
from topoopt.core.errors import InputError, Problem
from topoopt.core.network import LinkTree
from topoopt.core.price_book import PriceBook
from topoopt.core.proofs import Argument
from topoopt.core.result import Certificate, JobSearchSettings, ProblemBase
from topoopt.core.topology import Topology
from topoopt.core.workload import (
    GroupRings,
    PathTable,
    Placement,
    Ring,
    Strategy,
    StrategyCertificate,
    StrategyCut,
    Workload,
)

MAX_DEGREE = 64
MAX_OPERATORS = 20_000
MAX_SPLITS = 10_000
MAX_ROUTES = MAX_SERVERS * MAX_SERVERS
MAX_RINGS = 1000
MAX_GROUPS = 100_000
MAX_SCHEDULES = 10_000
MAX_PIECES = 4096
MAX_STEPS = (1 << 16) - 1
"""Steps of a schedule that are simulated."""
MAX_BLOCKS = 2_000_000
MAX_SENDS = 4_000_000
MAX_UNITS = 1 << 40
MAX_PAYLOAD = 1 << 60

Origin = Annotated[str, Len(0, 20_000), Pattern(r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$")]
Share = Annotated[float, Gt(0), Le(1 + 1e-9)]
Path = Annotated[tuple[Server, ...], Len(2, MAX_SERVERS)]

PlacementRow = tuple[Annotated[int, Ge(0), Le(MAX_SPLITS)], Server]
"""Split and offset of an operator."""

StrategyRows = Annotated[tuple[PlacementRow, ...], Len(0, MAX_OPERATORS)]

RouteRows = Annotated[tuple[tuple[Share, Path], ...], Len(0, MAX_ROUTES)]
"""Share of the traffic of a pair, and servers from its source to its target; pairs ascend."""

RingRow = tuple[Share, Annotated[tuple[Annotated[tuple[Server, ...], Len(1, MAX_SERVERS)], ...], Len(1, MAX_SERVERS)]]
"""Share of the payload; for each member, in the order of the ring, itself and the servers that pass on to the next."""

RingRows = Annotated[tuple[Annotated[tuple[RingRow, ...], Len(1, MAX_RINGS)], ...], Len(0, MAX_GROUPS)]
"""Rings of each group."""


@dataclass(frozen=True)
class SwitchRows:
    """A topology in a file: what each optical switch joins."""

    __pydantic_config__ = STRICT

    links: LinkDirection
    """whether a link takes an interface at both ends, or its two fibres are patched apart"""
    origin: Origin
    """how the topology was made, for people"""
    switches: Annotated[
        tuple[Annotated[tuple[Annotated[int, Ge(-1), Lt(MAX_SERVERS)], ...], Len(2, MAX_SERVERS)], ...],
        Len(1, MAX_DEGREE),
    ]
    """a row a switch: the server that each server sends to, -1 for none"""

    @classmethod
    def of(cls, topology: Topology) -> SwitchRows:
        """Return the settings of a topology, all of whose links are on switches."""
        return cls(topology.links, topology.origin, tuple(map(tuple, topology.switches.tolist())))

    def topology(self) -> Topology:
        """Return the topology, its arcs those of the switches.

        Raises:
            ValueError: rows of different lengths, a server that does not exist, no link at all.
        """
        n = len(self.switches[0])
        if any(len(row) != n for row in self.switches):
            raise ValueError("the switches have different numbers of servers")
        switches = np.array(self.switches, dtype=np.int32)
        if switches.max() >= n:
            raise ValueError(f"a switch joins server {switches.max()}, there are servers 0 to {n - 1}")
        row, tail = np.nonzero(switches >= 0)
        arcs = np.column_stack((tail, switches[row, tail])).astype(np.int64)
        if not len(arcs):
            raise ValueError("the switches join no servers")
        made = Topology.of_arcs(n, arcs, degree=len(switches), links=self.links, origin=self.origin)
        return replace(made, switches=switches)


@dataclass(frozen=True)
class ScheduleRows:
    """A schedule of AllReduces in a file."""

    __pydantic_config__ = STRICT

    members: Annotated[tuple[Server, ...], Len(0, MAX_SERVERS)]
    """servers of the group"""
    from_bytes: Annotated[int, Ge(0), Le(MAX_PAYLOAD)]
    """least payload that runs on it"""
    below_bytes: Annotated[int, Ge(1), Le(MAX_PAYLOAD)] | None
    """larger payloads do not; null: any payload does"""
    method: Label
    """what made it"""
    pieces: Annotated[int, Ge(1), Le(MAX_PIECES)]
    """of every block, each a step behind the one before"""
    blocks: Annotated[
        tuple[tuple[Annotated[int, Ge(1), Le(MAX_UNITS)], Server, Annotated[int, Ge(-1), Lt(MAX_SERVERS)]], ...],
        Len(1, MAX_BLOCKS),
    ]
    """units, owner, and target or -1"""
    routes: Annotated[tuple[Annotated[tuple[Server, ...], Len(2, 1024)], ...], Len(0, MAX_SENDS)]
    """servers that messages pass"""
    sends: Annotated[
        tuple[
            tuple[
                Annotated[int, Ge(0), Lt(MAX_SENDS)],
                Annotated[int, Ge(0), Lt(MAX_BLOCKS)],
                Annotated[int, Ge(0), Lt(MAX_SENDS)],
                Annotated[int, Ge(0), Le(1)],
            ],
            ...,
        ],
        Len(0, MAX_SENDS),
    ]
    """step, block, route, and 1 where the receiver adds"""

    @classmethod
    def of(cls, schedule: GroupSchedule) -> ScheduleRows:
        """Return the rows of a schedule."""
        blocks, sends = schedule.schedule.rows()
        head = (schedule.members, schedule.from_bytes, schedule.below_bytes, schedule.method, schedule.pieces)
        return cls(*head, blocks, schedule.schedule.routes, sends)

    def schedule(self) -> GroupSchedule:
        """Return the schedule.

        Raises:
            ValueError: a block or route that does not exist, steps out of order, too many steps or units.
        """
        step, block, route, _ = np.array(self.sends, dtype=np.int64).reshape(-1, 4).T
        if max(block.max(initial=-1) - len(self.blocks), route.max(initial=-1) - len(self.routes)) >= 0:
            raise ValueError("a message of a block or on a route that does not exist")
        if (np.diff(step) < 0).any() or step.max(initial=0) + self.pieces > MAX_STEPS:
            raise ValueError(f"messages out of the order of their steps, or more than {MAX_STEPS} steps")
        if sum(units for units, _, _ in self.blocks) > MAX_PAYLOAD:
            raise ValueError("blocks of more units than can be counted")
        schedule = CollectiveSchedule.of_rows(self.blocks, self.routes, self.sends)
        return GroupSchedule(self.members, self.from_bytes, self.below_bytes, self.method, self.pieces, schedule)


def _strategy_rows(strategy: Strategy) -> list[tuple[int, int]]:
    return [(placement.split, placement.offset) for placement in strategy.placements]


def _strategy(rows: Sequence[tuple[int, int]]) -> Strategy:
    return Strategy(tuple(Placement(split, offset) for split, offset in rows))


def _route_rows(routes: PathTable) -> list[tuple[float, list[int]]]:
    node, first = routes.node.tolist(), routes.path_ptr.tolist()
    return [(share, node[first[p] : first[p + 1]]) for p, share in enumerate(routes.share.tolist())]


def _routes(rows: Sequence[tuple[float, tuple[int, ...]]]) -> PathTable:
    """Return the table of paths; paths of a pair follow each other, and the pairs ascend."""
    endpoints = np.array([(path[0], path[-1]) for _, path in rows], dtype=np.int32).reshape(-1, 2)
    key = endpoints[:, 0].astype(np.int64) * MAX_SERVERS + endpoints[:, 1]
    if (np.diff(key) < 0).any():
        raise ValueError("the pairs of the routes do not ascend")
    first = np.flatnonzero(np.diff(key, prepend=-1))
    node = np.array([server for _, path in rows for server in path], dtype=np.int32)
    return PathTable(
        nodes_total=int(node.max(initial=0)) + 1,
        source=endpoints[first, 0],
        target=endpoints[first, 1],
        pair_ptr=np.append(first, len(rows)).astype(np.int64),
        share=np.array([share for share, _ in rows], dtype=np.float64),
        path_ptr=np.array([0, *accumulate([len(path) for _, path in rows])], dtype=np.int64),
        node=node,
    )


def _ring_rows(groups: Sequence[GroupRings]) -> list[list[tuple[float, list[tuple[int, ...]]]]]:
    return [[(ring.share, [path[:-1] for path in ring.paths]) for ring in group.rings] for group in groups]


def _rings(groups: Sequence[Sequence[tuple[float, tuple[tuple[int, ...], ...]]]]) -> tuple[GroupRings, ...]:
    made = []
    for group in groups:
        rings = []
        for share, hops in group:
            order = tuple(path[0] for path in hops)
            following = (*order[1:], order[0])
            rings.append(Ring(order, share, tuple((*path, to) for path, to in zip(hops, following, strict=True))))
        made.append(GroupRings(tuple(sorted(rings[0].order)), tuple(rings)))
    return tuple(made)


StoredStrategy = Annotated[Strategy, Stored(StrategyRows, _strategy_rows, _strategy)]
StoredTopology = Annotated[Topology, Stored(SwitchRows, SwitchRows.of, SwitchRows.topology)]
StoredRoutes = Annotated[PathTable, Stored(RouteRows, _route_rows, _routes)]
StoredRings = Annotated[tuple[GroupRings, ...], Stored(RingRows, _ring_rows, _rings)]
StoredSchedule = Annotated[GroupSchedule, Stored(ScheduleRows, ScheduleRows.of, ScheduleRows.schedule)]


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Shown):
    """Strategy, topology, routes of every pair with model-parallel demand, and what AllReduces run on."""

    __pydantic_config__ = STRICT

    strategy: StoredStrategy
    """split and offset of every operator, in the order of the workload"""
    topology: StoredTopology
    """links of the servers"""
    routes: StoredRoutes
    """of every pair with model-parallel demand"""
    rings: StoredRings
    """of every group with an AllReduce that no schedule covers"""
    schedules: Annotated[tuple[StoredSchedule, ...], Len(0, MAX_SCHEDULES)] = ()
    """what runs otherwise, by group and size of the payload"""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Add the rules on several fields to the schema of the fields."""
        return {
            "type": "function-after",
            "function": {"type": "no-info", "function": _on_its_servers},
            "schema": handler(source),
        }

    def require_rings(self, what: str) -> None:
        """Refuse a plan with AllReduces that are not on rings, for what knows rings only.

        Raises:
            InputError: the message says what, and what to ask for instead.
        """
        if self.schedules:
            methods = ", ".join(sorted({schedule.method for schedule in self.schedules}))
            text, allowed = f"{what}: AllReduces on rings only", "a plan found with search.allreduce: rings"
            raise InputError([Problem(text, path="plan.schedules", value=methods, allowed=allowed)])


def _on_its_servers(plan: Plan) -> Plan:
    """Return a plan from a file with its routes on the servers of the topology."""
    n = plan.topology.servers
    listed = {
        "an operator": max((placement.offset for placement in plan.strategy.placements), default=0),
        "a route": plan.routes.nodes_total - 1,
        "a ring": max((max(path) for group in plan.rings for ring in group.rings for path in ring.paths), default=0),
        "a schedule": max((_highest(schedule) for schedule in plan.schedules), default=0),
    }
    for what, server in listed.items():
        if server >= n:
            raise ValueError(f"{what} on server {server}, the topology has servers 0 to {n - 1}")
    return replace(plan, routes=replace(plan.routes, nodes_total=n))


def _highest(schedule: GroupSchedule) -> int:
    blocks = schedule.schedule.blocks
    named = [max(schedule.members, default=0), *(max(route) for route in schedule.schedule.routes)]
    return max(*named, int(blocks.owner.max(initial=0)), int(blocks.target.max(initial=0)))


@dataclass(frozen=True)
class Breakdown:
    """Iteration time along its critical path: the four terms sum to the iteration time.

    Attributes:
        compute_ms: operators on the critical path.
        model_parallel_ms: waiting for model-parallel transfers.
        allreduce_ms: waiting for AllReduces, inside servers and over the network.
        idle_ms: anything else (0 up to rounding).
    """

    compute_ms: float
    model_parallel_ms: float
    allreduce_ms: float
    idle_ms: float

    @classmethod
    def along(cls, path: Sequence[Span], total_ms: float) -> Self:
        """Of an iteration of this length, ms, with this critical path."""
        spent = dict.fromkeys(("forward", "backward", "transfer", "allreduce"), 0.0)
        for step in path:
            spent[step.kind] += step.end_ms - step.start_ms
        compute_ms = spent["forward"] + spent["backward"]
        idle_ms = total_ms - compute_ms - spent["transfer"] - spent["allreduce"]
        return cls(compute_ms, spent["transfer"], spent["allreduce"], idle_ms)

    @property
    def exposed_communication_ms(self) -> float:
        return self.model_parallel_ms + self.allreduce_ms


@dataclass(frozen=True)
class Span:
    """A bar of the timeline, or a step of the critical path.

    `lane` is the server of a compute span, the sender of a transfer, -1 for an AllReduce; `kind` is `forward`,
    `backward`, `transfer` or `allreduce`.
    """

    lane: int
    kind: str
    label: str
    start_ms: float
    end_ms: float


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Shown):
    """Outcome of simulating one iteration of a plan.

    Attributes:
        time_model: name of the time model.
        link_bytes: float64[m], bytes carried by each arc of the topology, in its arc order.
        timeline: compute, transfers and AllReduces, in the order of their starts; where there are very many, those of
            a server that follow each other are one.
        timeline_servers_left_out: that the timeline has no room for, none of them on the critical path.
        critical_path: first to last.
    """

    time_model: str
    link_bytes: Floats
    timeline: tuple[Span, ...]
    timeline_servers_left_out: int
    critical_path: tuple[Span, ...]

    @property
    def iteration_time_ms(self) -> float:
        return self.critical_path[-1].end_ms if self.critical_path else 0.0


@dataclass(frozen=True, repr=False)
class FabricGraph(Shown):
    """Direct links of a fabric, and the rings of AllReduces on it.

    Attributes:
        links: (tail, head, parallel links), every direction of its own.
        rings: orders of all groups, one or more each, of equal shares of the payload; the path of a pair is drawn with
            the seed.
    """

    links: tuple[tuple[int, int, int], ...]
    rings: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, repr=False)
class Baseline(Shown):
    """The same job on another fabric.

    Attributes:
        fabric: its name among the baselines of the instance.
        iteration_time_ms: by `rounds`.
        description: the fabric in words.
        strategy: that takes this time.
    """

    fabric: str
    iteration_time_ms: float
    description: str
    strategy: Strategy


@dataclass(frozen=True)
class ConvergencePoint:
    """Best iteration time known after so many simulated proposals, and the phase that found it."""

    proposals: int
    phase: str
    best_ms: float


@dataclass(frozen=True)
class SearchLog:
    """What a search notes on its way; the page of the same run draws it, and no file holds it.

    Attributes:
        initial_ms: iteration time of data parallelism on TotientPerms, before any search; None: it does not fit the
            memory, and is no plan.
        points: progress of the search.
    """

    initial_ms: float | None
    points: tuple[ConvergencePoint, ...]


@dataclass(frozen=True, repr=False)
class OperatorChoice(Shown):
    """What the strategy does with one operator.

    `memory_bytes` is that of one part, over all GPUs of its server.
    """

    name: str
    kind: str
    split: str
    servers: tuple[int, ...]
    forward_ms: float
    backward_ms: float
    weight_bytes: int
    memory_bytes: int


@dataclass(frozen=True, eq=False, repr=False)
class JointBound(Shown):
    """What no plan of a tiny job beats in the bulk-synchronous model (compute, then communication), with its proof.

    Attributes:
        bound_ms: C + theta of every plan is at least that.
        tree: what proves it.
    """

    bound_ms: float
    tree: LinkTree


MAX_FABRICS = 100
Oversubscription = Annotated[float, Ge(1), Le(1000)]


@dataclass(frozen=True)
class FabricChoice:
    """A fabric to compare with, by its name alone or with settings; one that is null is as the fabric has it."""

    __pydantic_config__ = STRICT

    fabric: Label
    """ideal-switch, fat-tree, oversubscribed-fat-tree, torus-2d, hypercube, ..."""
    label: Label | None = None
    """what it is called in results; null: the name of the fabric"""
    nic_gbps: Gbps | None = None
    """rate of the one NIC of a server, Gbit/s"""
    oversubscription: Oversubscription | None = None
    """downlink over uplink bandwidth"""
    layer: Literal["rack", "aggregation"] | None = None
    """switches that are oversubscribed"""
    shape: Annotated[tuple[Annotated[int, Ge(1), Le(MAX_SERVERS)], ...], Len(1, 8)] | None = None
    """servers along each axis of a torus"""
    ecmp: Literal["hashed", "spread", "sprayed"] | None = None
    """equal-cost paths of a pair in a fat-tree: one by chance, one by target, or all alike"""
    radix: Annotated[int, Ge(2), Le(512), MultipleOf(2)] | None = None
    """ports of a switch of a fat-tree; null: the least even number that holds the servers"""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Leave a radix that is not set out of the file."""
        return omitting(handler(source), {"radix": None})

    @property
    def name(self) -> str:
        """What it is called in results."""
        return self.label or self.fabric


DEFAULT_FABRICS = tuple(map(FabricChoice, ("ideal-switch", "fat-tree", "full-fat-tree", "random-regular")))


Fabrics = Annotated[tuple[Annotated[FabricChoice, Shorthand("fabric")], ...], Len(0, MAX_FABRICS)]
_FABRICS = "fabrics the plan is compared with; null: " + ", ".join(choice.name for choice in DEFAULT_FABRICS)


@dataclass(frozen=True)
class BaselineSettings:
    """Fabrics to compare with."""

    __pydantic_config__ = STRICT

    fat_tree_gbps: Gbps | None = None
    """rate of a server on the fat-tree; null: that of equal cost"""
    fat_tree_oversubscription: Oversubscription = 1.0
    fabrics: Annotated[Fabrics | None, Meaning(_FABRICS)] = None

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Add the rule on what is written to the schema of the fields."""
        return omitting(handler(source), {"fabrics": None})

    @property
    def choices(self) -> tuple[FabricChoice, ...]:
        return DEFAULT_FABRICS if self.fabrics is None else self.fabrics


@dataclass(frozen=True, repr=False)
class CoOptimisation(ProblemBase):
    """Kind `co-optimisation`: find strategy, topology and routes of least iteration time.

    `book` has the prices of networks that the run was given; None: those shipped.
    """

    name: str
    cluster: Cluster
    workload: Workload
    search: JobSearchSettings = field(default_factory=JobSearchSettings)
    baselines: BaselineSettings = field(default_factory=BaselineSettings)
    source: str = ""
    sha256: str = ""
    notes: tuple[str, ...] = ()
    book: PriceBook | None = field(default=None, kw_only=True, compare=False, repr=False)

    kind = "co-optimisation"

    @property
    def sharings(self) -> tuple[LinkSharing, ...]:
        """How a plan may have links shared, at least one way."""
        return self.search.link_sharing or (self.cluster.link_sharing,)

    def shared_as(self, sharing: LinkSharing) -> CoOptimisation:
        """The problem of a plan that is made, whose links are shared in this way."""
        return replace(self, cluster=replace(self.cluster, link_sharing=sharing))


@dataclass(frozen=True, repr=False)
class ComparedStrategy(Shown):
    """The best strategy that a search has for the job on another fabric."""

    __pydantic_config__ = STRICT

    fabric: Label
    """its name among the baselines of the instance"""
    strategy: StoredStrategy
    """split and offset of every operator, in the order of the workload"""


@dataclass(frozen=True, repr=False)
class OtherFabrics(Shown):
    """The job on other fabrics: what does not follow from the instance. Times are simulated when they are read."""

    __pydantic_config__ = STRICT

    seed: Annotated[int, Ge(0)]
    """of the fabrics that are drawn, and of their paths"""
    book_sha256: Annotated[str, Len(0, 64)]
    """of the price book that rates of equal cost follow from"""
    strategies: Annotated[tuple[ComparedStrategy, ...], Len(0, MAX_FABRICS)]
    """a fabric each, in the order of the instance; fabrics that cannot be built are left out"""


@dataclass(frozen=True, eq=False, repr=False)
class JobPlan(Plan):
    """The decisions of a job: its plan, how links are shared, and the strategies on fabrics it is compared with."""

    __pydantic_config__ = STRICT

    link_sharing: LinkSharing = LinkSharing.FIFO
    """how links are shared by what asks for them at the same time"""
    comparison: OtherFabrics | None = None
    """null: there are no other fabrics"""

    @classmethod
    def of(cls, plan: Plan, link_sharing: LinkSharing, comparison: OtherFabrics | None = None) -> JobPlan:
        """Return the decisions with this plan."""
        return cls(plan.strategy, plan.topology, plan.routes, plan.rings, plan.schedules, link_sharing, comparison)


def strategy_certificate(proof: StrategyCertificate, laws: Sequence[str]) -> Certificate:
    """Return a proof over all strategies as arrays.

    Args:
        proof: tree of cuts and cases.
        laws: names of all laws, in the order of the checker; a weight has the index of its law.

    Returns:
        Vectors by node (`operator`, -1 for a case; `inside`, `outside`), of all cuts one after another (`state`, split
        at
        `state_ptr`), and of all cases (`law` and `weight`, split at `law_ptr`; `memory`; `price`, of the producer and
        then
        of the consumer of every pair of operators). `classes` and `fixed` (-1 for none) have one entry.
    """
    index = {name: number for number, name in enumerate(laws)}
    cuts = [node if isinstance(node, StrategyCut) else None for node in proof.nodes]
    cases = [node for node in proof.nodes if not isinstance(node, StrategyCut)]
    integers = {
        "classes": [proof.classes],
        "fixed": [-1 if proof.fixed is None else proof.fixed],
        "operator": [-1 if cut is None else cut.operator for cut in cuts],
        "inside": [0 if cut is None else cut.inside for cut in cuts],
        "outside": [0 if cut is None else cut.outside for cut in cuts],
        "state_ptr": np.cumsum([0, *(0 if cut is None else len(cut.states) for cut in cuts)]),
        "state": [state for cut in cuts if cut is not None for state in cut.states],
        "law_ptr": np.cumsum([0, *(len(case.laws) for case in cases)]),
        "law": [index[name] for case in cases for name, _ in case.laws],
    }
    numbers = {
        "weight": [weight for case in cases for _, weight in case.laws],
        "memory": [case.memory for case in cases],
        "price": [price for case in cases for pair in case.prices for end in pair for price in end],
    }
    arrays = {name: np.array(values, dtype=np.int64) for name, values in integers.items()}
    arrays |= {name: np.array(values, dtype=np.float64) for name, values in numbers.items()}
    return Certificate(Argument.STRATEGY_PROGRAM, arrays)


def joint_certificate(bound_ms: float, tree: LinkTree) -> Certificate:
    """Return the proof that no plan of a tiny job takes less than `bound_ms` in the bulk-synchronous model."""
    multipliers = tree.multipliers.reshape(-1)
    return Certificate(
        Argument.LINK_TREE, {"bound_ms": np.array([bound_ms]), "order": tree.order, "multipliers": multipliers}
    )
