"""A plan to train a language model: a strategy, the network it runs on, and what proves that none is faster."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from topoopt.core.group_schedule import GroupSchedule
from topoopt.core.llm_training import StepBreakdown, TrainingMemory
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.pod_circuits import PodPlan
from topoopt.core.switched_step import RailPlan

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

    Attributes:
        dimension: one of `RING_FAMILIES`.
        orders: for each group of servers, for each of its rings, which carry equal shares, its servers in their order.
    """

    dimension: TrafficFamily
    orders: tuple[tuple[tuple[int, ...], ...], ...]


@dataclass(frozen=True)
class DimensionSchedules:
    """What the groups of a family reduce on in place of rings.

    Attributes:
        dimension: one of `ALLREDUCE_FAMILIES`.
        schedules: one for each group of servers, all begin together and take a step after the other in step.
    """

    dimension: TrafficFamily
    schedules: tuple[GroupSchedule, ...]


@dataclass(frozen=True)
class ServerRoute:
    """A way from one server to another that are not joined, or not by all that they send.

    Attributes:
        path: nodes, both ends included.
        share: part of what the first sends to the last that goes this way; the shares of a pair sum to 1.
    """

    path: tuple[int, ...]
    share: float = 1.0


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


@dataclass(frozen=True)
class TrainingNetwork:
    """The network of a plan.

    Attributes:
        fabric: name in the table of fabrics.
        links: (tail, head, parallel links), both ways for a bidirectional link; nodes from the number of servers on
            are switches.
        places: server of each block of `gpus_per_server` ranks that follow each other; empty: the servers in order.
        degree_split: interfaces of a server that are given to a family; empty: all serve all.
        rings: of the families that pass bytes round.
        schedules: of those families that reduce otherwise; they have rings only where links were laid along them.
        loads: what each family asks of it.
        link_gbps: rate of one link, each direction.
        routes: of pairs of servers that send; those that are not here use the link between them.
        token_routes: of tokens to experts and back, where circuits are theirs alone; empty: as all others.
    """

    fabric: str = IDEAL_SWITCH
    links: tuple[tuple[int, int, int], ...] = ()
    places: tuple[int, ...] = ()
    degree_split: tuple[tuple[TrafficFamily, int], ...] = ()
    rings: tuple[DimensionRings, ...] = ()
    loads: tuple[DimensionLoad, ...] = ()
    link_gbps: float = 0.0
    routes: tuple[ServerRoute, ...] = ()
    schedules: tuple[DimensionSchedules, ...] = ()
    token_routes: tuple[ServerRoute, ...] = ()


@dataclass(frozen=True)
class TrainingPlan:
    """A strategy with the network it runs on."""

    strategy: ParallelStrategy
    network: TrainingNetwork = field(default_factory=TrainingNetwork)


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


@dataclass(frozen=True)
class FabricOutcome:
    """What the instance comes to on one of its fabrics; the strategy is searched anew on each.

    Attributes:
        plan: the best found, with its network.
        breakdown: of the time of an iteration, by the time model at the rates that the network gives.
        memory: of the fullest GPU.
        note: what the figures leave out, for people.
        tried: strategies for which a network was made; 0: on an ideal switch.
        next: the fastest others of them, ranks in their order; empty on an ideal switch and on rails.
        rails: what circuits set anew make of it; `breakdown` is then of the same strategy on an ideal switch.
        pods: what circuits between pods make of it; `breakdown` as with rails.
    """

    plan: TrainingPlan
    breakdown: StepBreakdown
    memory: TrainingMemory
    note: str = ""
    tried: int = 0
    next: tuple[StrategyFigures, ...] = ()
    rails: RailPlan | None = None
    pods: PodPlan | None = None

    @property
    def fabric(self) -> str:
        """Its name."""
        return self.plan.network.fabric

    @property
    def iteration_time_s(self) -> float:
        """Seconds, which fabrics are compared by."""
        if self.pods is not None:
            return self.pods.makespan_s
        return self.breakdown.total if self.rails is None else self.rails.step_s
