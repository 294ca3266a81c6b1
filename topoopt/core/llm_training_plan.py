"""A plan to train a language model: a strategy, the network it runs on, and what proves that none is faster."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from topoopt.core.parallelism import ParallelDimension, ParallelStrategy

IDEAL_SWITCH = "ideal-switch"
"""Every dimension has the whole rate of the interfaces to itself: no network of the same interfaces is faster."""


@dataclass(frozen=True)
class DimensionRings:
    """Rings that a dimension whose collectives run on rings (data, context) uses on a direct-connect network.

    Attributes:
        dimension: data (dense weights), expert (replicas of experts) or context.
        orders: for each group, for each of its rings, its servers in the order of the ring.
    """

    dimension: ParallelDimension
    orders: tuple[tuple[tuple[int, ...], ...], ...]


@dataclass(frozen=True)
class DimensionLoad:
    """What a dimension asks of the network in an iteration.

    Attributes:
        dimension: of the strategy.
        bytes_sent: by the server that sends most, over its interfaces.
        seconds: that its transfers take alone, hidden or not.
        exposed_s: of them that the iteration waits for.
    """

    dimension: ParallelDimension
    bytes_sent: float
    seconds: float
    exposed_s: float


@dataclass(frozen=True)
class TrainingNetwork:
    """The network of a plan.

    Attributes:
        fabric: name in the table of fabrics.
        links: of direct connect, (tail, head, parallel links) of servers, both ways for a bidirectional link.
        places: server at each coordinate of the strategy, in its rank order; empty: the servers in order.
        degree_split: interfaces of a server that are given to a dimension.
        rings: of the dimensions that run on rings.
        loads: what each dimension asks of it.
    """

    fabric: str = IDEAL_SWITCH
    links: tuple[tuple[int, int, int], ...] = ()
    places: tuple[int, ...] = ()
    degree_split: tuple[tuple[ParallelDimension, int], ...] = ()
    rings: tuple[DimensionRings, ...] = ()
    loads: tuple[DimensionLoad, ...] = ()


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


class ShapeVerdict(StrEnum):
    """Why no strategy of a shape is faster than the best one."""

    SEARCHED = "searched"  # all its strategies were evaluated
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
        best_s: the fastest of those; None: there is none, or it was not searched.
        least_bytes: memory of its smallest strategy; None: not known.
    """

    shape: StrategyShape
    verdict: ShapeVerdict
    bound_s: float
    records: int = 0
    fitting: int = 0
    best_s: float | None = None
    least_bytes: float | None = None


@dataclass(frozen=True)
class RankedStrategy:
    """A strategy, its time, and its memory on the fullest GPU."""

    strategy: ParallelStrategy
    iteration_time_s: float
    memory_bytes: float


@dataclass(frozen=True)
class FabricOutcome:
    """What the instance comes to on one of its fabrics; the strategy is searched anew on each.

    Attributes:
        plan: the best found, with its network.
        iteration_time_s: of an iteration.
        memory_bytes: of the fullest GPU.
        bound_s: no strategy is faster on this fabric; of an ideal switch where nothing tighter is known.
        note: what the figures leave out, for people.
    """

    plan: TrainingPlan
    iteration_time_s: float
    memory_bytes: float
    bound_s: float
    note: str = ""
