"""A plan to train a language model: strategies, the networks that they run on, and what proves that none is faster.

A plan holds decisions alone: strategies, links, rings, routes, places of ranks, ports and circuits. Rates, seconds and
bytes follow from a plan and its problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le, Len

from topoopt.core.arrays import Int32s
from topoopt.core.collective import CollectiveSchedule, Sends, VectorBlocks
from topoopt.core.data import STRICT
from topoopt.core.group_schedule import GroupSchedule
from topoopt.core.llm_training import StepBreakdown, TrainingMemory
from topoopt.core.parallelism import MAX_GPUS, ParallelStrategy
from topoopt.core.pod_circuits import PodDecisions
from topoopt.core.proofs import Argument
from topoopt.core.result import Certificate
from topoopt.core.shown import Shown
from topoopt.core.switching import StagePorts

MAX_LINKS = 4_000_000
MAX_RANKED = 1001
MAX_FABRICS = 100
MAX_BLOCKS = 2_000_000
MAX_SENDS = 4_000_000
MAX_UNITS = 1 << 60
MAX_PIECES = 4096
MAX_NODE = 1 << 20

Node = Annotated[int, Ge(0), Le(MAX_NODE)]
Index = Annotated[int, Ge(0), Le(MAX_SENDS)]
Link = tuple[Node, Node, Annotated[int, Ge(1), Le(MAX_GPUS)]]
"""Tail, head, parallel links."""

IDEAL_SWITCH = "ideal-switch"
"""Every dimension has the whole rate of the interfaces to itself: no network of the same interfaces is faster."""


DIRECT_FABRICS = (
    "direct-connect", "torus-3d", "torus-2d", "hypercube", "generalized-kautz", "random-regular", "expander",
)  # fmt: skip
"""Networks whose servers are joined to each other, and pass on what others send."""

REGIONAL = "regional-circuits"

PHOTONIC_RAILS = "photonic-rails"
"""One optical circuit switch a rail, whose circuits are set anew inside a step."""

POD_CIRCUITS = "pod-circuits"
"""Pods of GPUs joined by optical circuits that stay for a whole iteration, chosen by what it needs when."""

SWITCHED_FABRICS = (IDEAL_SWITCH, "rail-fat-tree", "rail-only", "fat-tree", REGIONAL)
"""Networks whose servers all reach each other over switches."""


class TrafficFamily(StrEnum):
    """Traffic between servers, by the groups of ranks that exchange it."""

    TENSOR = "tensor"
    CONTEXT = "context"
    EXPERT = "expert"  # tokens to experts and back
    PIPELINE = "pipeline"
    DATA = "data"  # gradients and weights of all but experts
    EXPERT_DATA = "expert-data"  # of experts, among their replicas


RING_FAMILIES = (TrafficFamily.TENSOR, TrafficFamily.CONTEXT, TrafficFamily.DATA, TrafficFamily.EXPERT_DATA)
"""Families whose groups pass bytes round; in the others servers send to each other."""

ALLREDUCE_FAMILIES = (TrafficFamily.TENSOR, TrafficFamily.DATA, TrafficFamily.EXPERT_DATA)
"""Of them those that reduce, and may do so on schedules."""


@dataclass(frozen=True)
class DimensionRings:
    """Rings of the groups of a family.

    Attributes
    ----------
    dimension : one of `RING_FAMILIES`.
    orders : for each group of servers, for each of its rings, which carry equal shares, its servers in their order.
    """

    __pydantic_config__ = STRICT

    dimension: TrafficFamily
    orders: Annotated[
        tuple[Annotated[tuple[Annotated[tuple[Node, ...], Len(0, MAX_GPUS)], ...], Len(0, MAX_GPUS)], ...],
        Len(0, MAX_GPUS),
    ]


@dataclass(frozen=True, eq=False, repr=False)
class GroupReduction(Shown):
    """How a group of servers reduces: blocks of its vector, and the messages that carry them."""

    __pydantic_config__ = STRICT

    members: Annotated[tuple[Node, ...], Len(1, MAX_GPUS)]
    """servers of the group, ascending"""
    method: Annotated[str, Len(1, 100)]
    """that made the schedule"""
    pieces: Annotated[int, Ge(1), Le(MAX_PIECES)]
    """of every block, each a step behind the one before"""
    blocks: Annotated[
        tuple[tuple[Annotated[int, Ge(1), Le(MAX_UNITS)], Node, Annotated[int, Ge(-1), Le(MAX_NODE)]], ...],
        Len(1, MAX_BLOCKS),
    ]
    """units, owner, and target or -1"""
    routes: Annotated[tuple[Annotated[tuple[Node, ...], Len(2, 1024)], ...], Len(0, MAX_SENDS)]
    """nodes of the paths of messages"""
    sends: Annotated[tuple[tuple[Index, Index, Index, Annotated[int, Ge(0), Le(1)]], ...], Len(0, MAX_SENDS)]
    """step, block, route, and 1 where the receiver adds"""

    @classmethod
    def of(cls, schedule: GroupSchedule) -> GroupReduction:
        """Return the decisions of a schedule for payloads of any size."""
        blocks, sends = schedule.schedule.blocks, schedule.schedule.sends
        columns = (sends.step, sends.block, sends.route, sends.reduce.astype(np.int64))
        return cls(
            members=schedule.members,
            method=schedule.method,
            pieces=schedule.pieces,
            blocks=tuple(zip(blocks.units.tolist(), blocks.owner.tolist(), blocks.target.tolist(), strict=True)),
            routes=tuple(tuple(map(int, path)) for path in schedule.schedule.routes),
            sends=tuple(zip(*(column.tolist() for column in columns), strict=True)),
        )

    @cached_property
    def schedule(self) -> GroupSchedule:
        """The same as arrays.

        Raises
        ------
        IndexError
            A message has a route that does not exist.
        """
        table = np.array(self.blocks, dtype=np.int64).reshape(-1, 3)
        step, block, route, adds = np.array(self.sends, dtype=np.int64).reshape(-1, 4).T
        endpoints: Int32s = np.array([(path[0], path[-1]) for path in self.routes], dtype=np.int32).reshape(-1, 2)
        narrow = (block.astype(np.int32), endpoints[route, 0], endpoints[route, 1], step.astype(np.int32))
        return GroupSchedule(
            self.members,
            0,
            None,
            self.method,
            self.pieces,
            CollectiveSchedule(
                VectorBlocks(table[:, 0], table[:, 1].astype(np.int32), table[:, 2].astype(np.int32)),
                Sends(*narrow, adds > 0, route.astype(np.int32)),
                self.routes,
            ),
        )


@dataclass(frozen=True)
class FamilyReductions:
    """What the groups of a family reduce on in place of rings.

    Attributes
    ----------
    dimension : one of `ALLREDUCE_FAMILIES`.
    groups : one for each group of servers; all start together and take their steps in lockstep.
    """

    __pydantic_config__ = STRICT

    dimension: TrafficFamily
    groups: Annotated[tuple[GroupReduction, ...], Len(1, 10_000)]

    @property
    def schedules(self) -> tuple[GroupSchedule, ...]:
        """Of each group."""
        return tuple(group.schedule for group in self.groups)


@dataclass(frozen=True)
class ServerRoute:
    """A path from one server to another that are not joined, or not by all that they send.

    Attributes
    ----------
    path : nodes, both ends included.
    share : part of what the first sends to the last that takes this path; the shares of a pair sum to 1.
    """

    __pydantic_config__ = STRICT

    path: Annotated[tuple[Node, ...], Len(2, 1 << 12)]
    share: Annotated[float, Ge(0), Le(1)] = 1.0


@dataclass(frozen=True)
class DimensionLoad:
    """What a family asks of the network in an iteration, and what it gets.

    Attributes:
        dimension: the family.
        bytes_sent: by the server that sends most, over its interfaces.
        seconds: that its transfers take alone, hidden or not.
        exposed_s: what the iteration would gain if they took no time.
        gbytes_per_s: 10^9 bytes a second that each GPU sends when all groups of the family do, and none of others.
        shared_gbytes_per_s: the same beside the families that send at the same time.
        hops: of its longest route.
        method: what it reduces on, where rounds are counted; empty: on rings as if these took no time of their own.
        rounds: of one AllReduce then.
    """

    dimension: TrafficFamily
    bytes_sent: float
    seconds: float
    exposed_s: float
    gbytes_per_s: float = 0.0
    shared_gbytes_per_s: float = 0.0
    hops: int = 1
    method: str = ""
    rounds: int = 0


@dataclass(frozen=True, order=True)
class StrategyShape:
    """How GPUs are divided: GPUs = tensor x context x pipeline x data; expert x expert_tensor divides a stage's."""

    tensor: int
    context: int
    pipeline: int
    data: int
    expert: int = 1
    expert_tensor: int = 1

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in vars(self).items())


class ShapeVerdict(StrEnum):
    """Why no strategy of a shape is faster than the best one."""

    SEARCHED = "searched"  # each of its strategies that fit has a slower bound, or its passes were followed
    BOUND = "bound"  # none can be faster than a bound that is slower
    MEMORY = "memory"  # none fits
    LEFT = "left"  # nothing says so: a limit came


@dataclass(frozen=True)
class ShapeOutcome:
    """A line of the certificate.

    Attributes:
        shape: of strategies.
        verdict: why none of them is faster.
        bound_s: none of its strategies is faster than this, whatever memory they take.
        records: strategies of the shape; 0 where they were not gone through.
        fitting: of them that fit.
        least_bytes: memory of its smallest strategy; None: not known.
    """

    shape: StrategyShape
    verdict: ShapeVerdict
    bound_s: float
    records: int = 0
    fitting: int = 0
    least_bytes: float | None = None

    def __str__(self) -> str:
        least = "" if self.least_bytes is None else f", the smallest {self.least_bytes!r} bytes"
        return f"{self.verdict}, {self.records} strategies, {self.fitting} fit, bound {self.bound_s!r} s{least}"


@dataclass(frozen=True)
class RankedStrategy:
    """A strategy, its time, and its memory on the fullest GPU."""

    strategy: ParallelStrategy
    iteration_time_s: float
    memory_bytes: float


@dataclass(frozen=True)
class StrategyFigures:
    """A strategy with what an iteration of it takes, and the memory of its fullest GPU."""

    strategy: ParallelStrategy
    breakdown: StepBreakdown
    memory: TrainingMemory

    @property
    def iteration_time_s(self) -> float:
        """Seconds."""
        return self.breakdown.total


@dataclass(frozen=True, eq=False, repr=False)
class NetworkPlan(Shown):
    """The decisions about a network; an ideal switch, rails and circuits between pods have none but its name."""

    __pydantic_config__ = STRICT

    fabric: Annotated[str, Len(1, 100)] = IDEAL_SWITCH
    """name in the table of fabrics"""
    form: Annotated[str, Len(0, 200)] = ""
    """of a torus: its sides, and whether it is twisted"""
    links: Annotated[tuple[Link, ...], Len(0, MAX_LINKS)] = ()
    """both ways for a bidirectional link; nodes from the number of servers on are switches"""
    places: Annotated[tuple[Node, ...], Len(0, MAX_GPUS)] = ()
    """server of each block of `gpus_per_server` consecutive ranks; empty: the servers in order"""
    degree_split: Annotated[tuple[tuple[TrafficFamily, Node], ...], Len(0, 10)] = ()
    """interfaces of a server that are given to a family; empty: all serve all"""
    rings: Annotated[tuple[DimensionRings, ...], Len(0, 10)] = ()
    """of the families that pass bytes round"""
    link_gbps: Annotated[float, Ge(0), Le(1e30)] = 0.0
    """rate of one link, each direction"""
    routes: Annotated[tuple[ServerRoute, ...], Len(0, MAX_LINKS)] = ()
    """of pairs of servers that send; a pair without a route uses the link between the two"""
    schedules: Annotated[tuple[FamilyReductions, ...], Len(0, 10)] = ()
    """of families that reduce otherwise than on rings; they have rings only where links follow these"""
    token_routes: Annotated[tuple[ServerRoute, ...], Len(0, MAX_LINKS)] = ()
    """of tokens to experts and back, on `regional-circuits` alone; a pair without a route uses its circuit"""


@dataclass(frozen=True, eq=False, repr=False)
class FabricPlan(Shown):
    """What is decided for one of the fabrics of the instance."""

    __pydantic_config__ = STRICT

    strategy: ParallelStrategy
    network: NetworkPlan = field(default_factory=NetworkPlan)
    next: Annotated[tuple[ParallelStrategy, ...], Len(0, MAX_RANKED)] = ()
    """the fastest others on this fabric, ranks in their order; empty on an ideal switch, rails and pods"""
    ports: Annotated[tuple[StagePorts, ...], Len(0, MAX_GPUS)] = ()
    """on rails: what the ports of each stage serve"""
    pods: PodDecisions | None = None
    """in pods: the circuits between them"""

    @property
    def fabric(self) -> str:
        """Its name."""
        return self.network.fabric


@dataclass(frozen=True, eq=False, repr=False)
class LlmTrainingPlan(Shown):
    """The decisions of kind `llm-training`."""

    __pydantic_config__ = STRICT

    ranked: Annotated[tuple[ParallelStrategy, ...], Len(1, MAX_RANKED)]
    """the fastest strategies on an ideal switch, the best first"""
    fabrics: Annotated[tuple[FabricPlan, ...], Len(1, MAX_FABRICS)]
    """in the order of the instance; the first is planned for"""

    @property
    def strategy(self) -> ParallelStrategy:
        """On the first fabric."""
        return self.fabrics[0].strategy

    @property
    def network(self) -> NetworkPlan:
        """Of the first fabric."""
        return self.fabrics[0].network

    def on(self, fabric: str | None) -> FabricPlan:
        """Return the plan for a fabric; None: the first.

        Raises
        ------
        KeyError
            There is none.
        """
        return self.fabrics[0] if fabric is None else {plan.fabric: plan for plan in self.fabrics}[fabric]


VERDICTS = tuple(ShapeVerdict)
UNKNOWN = -1.0
"""Least bytes of a shape whose strategies were not gone through."""


def shapes_certificate(outcomes: Sequence[ShapeOutcome], bounds_s: Iterable[float]) -> Certificate:
    """Return why no strategy is faster on an ideal switch, which no fabric betters.

    Parameters
    ----------
    outcomes : of each division of the GPUs.
    bounds_s : of each fabric after the first: no strategy is faster on any network of it.
    """
    shapes = [list(vars(outcome.shape).values()) for outcome in outcomes]
    least = [UNKNOWN if outcome.least_bytes is None else outcome.least_bytes for outcome in outcomes]
    arrays = {
        "shapes": np.array(shapes, dtype=np.int64).ravel(),
        "verdicts": np.array([VERDICTS.index(outcome.verdict) for outcome in outcomes], dtype=np.int64),
        "bounds_s": np.array([outcome.bound_s for outcome in outcomes], dtype=np.float64),
        "records": np.array([outcome.records for outcome in outcomes], dtype=np.int64),
        "fitting": np.array([outcome.fitting for outcome in outcomes], dtype=np.int64),
        "least_bytes": np.array(least, dtype=np.float64),
        "fabric_bounds_s": np.array(list(bounds_s), dtype=np.float64),
    }
    return Certificate(Argument.ALL_SHAPES, arrays)


def shape_outcomes(certificates: Sequence[Certificate]) -> tuple[ShapeOutcome, ...]:
    """Return the lines of the certificate of shapes, which comes first.

    Raises
    ------
    ValueError
        There is none, or its arrays do not fit together.
    """
    certificate = shapes_of(certificates)
    names = ("verdicts", "bounds_s", "records", "fitting", "least_bytes")
    columns = [certificate[name].tolist() for name in names]
    shapes = certificate["shapes"].reshape(-1, len(fields(StrategyShape))).tolist()
    return tuple(
        ShapeOutcome(
            StrategyShape(*shape), _verdict(verdict), bound_s, records, fitting, None if least == UNKNOWN else least
        )
        for shape, verdict, bound_s, records, fitting, least in zip(shapes, *columns, strict=True)
    )


def _verdict(number: int) -> ShapeVerdict:
    if not 0 <= number < len(VERDICTS):
        raise ValueError(f"no verdict has the number {number}")
    return VERDICTS[number]


def shapes_of(certificates: Sequence[Certificate]) -> Certificate:
    """Return the certificate of shapes.

    Raises
    ------
    ValueError
        There is none.
    """
    if not certificates or certificates[0].argument is not Argument.ALL_SHAPES:
        raise ValueError("no certificate of shapes")
    return certificates[0]


def rails_certificate(bounds_s: Iterable[float]) -> Certificate:
    """Return bounds of the fastest strategies on an ideal switch: no plan of ports has a faster step."""
    return Certificate(Argument.ALL_SHAPES, {"rail_bounds_s": np.array(list(bounds_s), dtype=np.float64)})


def rail_bounds_s(certificates: Sequence[Certificate]) -> tuple[float, ...]:
    """Return the bounds of strategies on rails.

    Raises
    ------
    ValueError
        There are none.
    """
    for certificate in certificates:
        if "rail_bounds_s" in certificate.arrays:
            return tuple(float(bound) for bound in certificate["rail_bounds_s"])
    raise ValueError("no certificate of rails")
