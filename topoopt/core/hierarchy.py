"""Hierarchical networks: bandwidth is chosen for each dimension of a grid of NPUs, for workloads of collectives.

Times are nanoseconds and sizes bytes, so that bytes / (GB/s) is nanoseconds (1 GB/s = 10^9 bytes/s).

Bandwidth is in GB/s (10^9 bytes/s) per NPU and dimension, cost in US dollars. The model is LIBRA's (Won et al.): ring,
direct and halving-doubling collectives move the same bytes on their blocks, so a block matters for the price only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Literal, Protocol

import numpy as np
from annotated_types import Ge, Le, Len, Lt

from topoopt.core.data import STRICT, Shown
from topoopt.core.proofs import Argument
from topoopt.core.result import Certificate, ProblemBase, SearchSettings


class Collective(StrEnum):
    """What is communicated. Sizes: the buffer every rank holds; of an all-gather the shard a rank starts with."""

    ALL_REDUCE = "all-reduce"
    ALL_GATHER = "all-gather"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_TO_ALL = "all-to-all"
    POINT_TO_POINT = "point-to-point"  # to the next rank of the communicator: each dimension it spans passes the whole


Loop = Literal["no-overlap", "dp-overlap", "dag"]
"""How compute and communication of an iteration follow each other.

- `no-overlap`: all phases of all layers one after the other.
- `dp-overlap`: the weight gradient of a layer, computed and communicated, runs beside the communication of its
  input gradient: sum fwd (compute + comm) + sum (ig compute + max(ig comm, wg compute + wg comm)).
- `dag`: tasks with predecessors; the iteration is the longest path."""


@dataclass(frozen=True)
class Communicator:
    """Groups of ranks that communicate with each other.

    Attributes:
        name: of the parallelism, for people.
        ranks: ranks of a group in each dimension; 1 where the groups do not extend.
    """

    name: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class CollectiveCall(Shown):
    """One collective.

    Attributes:
        collective: what is done.
        size_bytes: see `Collective`.
        communicator: position in the communicators of the workload.
    """

    collective: Collective
    size_bytes: float
    communicator: int


@dataclass(frozen=True, repr=False)
class LayerPhase(Shown):
    """Compute, then collectives one after the other."""

    compute_ns: float = 0.0
    communications: tuple[CollectiveCall, ...] = ()


@dataclass(frozen=True, repr=False)
class Layer(Shown):
    """A layer with its three phases; `repeat` stands for so many equal layers."""

    name: str
    forward: LayerPhase = LayerPhase()
    input_gradient: LayerPhase = LayerPhase()
    weight_gradient: LayerPhase = LayerPhase()
    repeat: int = 1


@dataclass(frozen=True)
class Task:
    """A node of a dependency graph; `after` are positions of tasks before it, all smaller than its own."""

    name: str
    phase: LayerPhase
    after: tuple[int, ...] = ()


@dataclass(frozen=True, repr=False)
class HierarchicalWorkload(Shown):
    """One training job.

    Attributes:
        name: of the job.
        loop: see `Loop`; `dag` uses `tasks`, the others `layers`.
        communicators: groups its collectives run in.
        layers, tasks: what an iteration consists of.
        weight: of its iteration time in the objective.
        strategy: degrees of parallelism it was made with, by name; empty if it was given layer by layer.
    """

    name: str
    loop: Loop
    communicators: tuple[Communicator, ...]
    layers: tuple[Layer, ...] = ()
    tasks: tuple[Task, ...] = ()
    weight: float = 1.0
    strategy: tuple[tuple[str, int], ...] = ()


MAX_DIMENSIONS = 12
MAX_DESIGNS = 20_000
"""Shapes times strategies of one instance."""

MAX_POINTS = 1000

COLLECTIVES = tuple(Collective)
"""By the numbers that certificates have for them."""

Amount = Annotated[float, Ge(0), Le(1e30)]
Bandwidths = Annotated[tuple[Amount, ...], Len(1, MAX_DIMENSIONS)]


class Block(StrEnum):
    """What joins the NPUs of one dimension."""

    RING = "ring"
    FULLY_CONNECTED = "fully-connected"
    SWITCH = "switch"


HierarchicalObjective = Literal["time", "time-times-cost", "cost"]
"""What is to be least: iteration time, time x cost (the reciprocal of performance per cost), or cost."""


Fleet = Literal["weighted-sum", "worst-case"]
"""What time means for several workloads: the weighted sum, or the largest weighted one."""


def fleet_time(fleet: Fleet, weighted: Collection[float]) -> float:
    """Time of the fleet, from the weighted times of its workloads."""
    return max(weighted) if fleet == "worst-case" else sum(weighted)


@dataclass(frozen=True)
class Dimension:
    """One dimension; the first one is innermost.

    Attributes:
        name: unique in the network.
        block: what joins the NPUs.
        size: NPUs along it, at least 2.
        tier: name of its prices; empty without.
        usd_per_gbytes_per_s: price of 1 GB/s of one NPU (link, and switch and NIC where the block has them); None:
            unknown.
        min_gbytes_per_s, max_gbytes_per_s: bounds on its bandwidth.
        speeds_gbytes_per_s: the speeds there are, ascending, the bounds the first and the last of them; empty: any.
    """

    name: str
    block: Block
    size: int
    tier: str = ""
    usd_per_gbytes_per_s: float | None = None
    min_gbytes_per_s: float = 0.0
    max_gbytes_per_s: float = math.inf
    speeds_gbytes_per_s: tuple[float, ...] = ()


@dataclass(frozen=True)
class LinearConstraint:
    """at_least <= sum_i coefficients[i] * bandwidth[i] <= at_most, in GB/s per NPU; endless sides are infinite."""

    name: str
    coefficients: tuple[float, ...]
    at_least: float = -math.inf
    at_most: float = math.inf


@dataclass(frozen=True, repr=False)
class HierarchicalNetwork(Shown):
    """A shape with all constraints on its bandwidths.

    Attributes:
        name: of the shape.
        dimensions: innermost first.
        constraints: every linear constraint, the one on the total among them.
        total_gbytes_per_s: the bandwidth of an NPU in all dimensions together, which the equal split divides; None: not
            given.
        fixed_cost_usd: of the network whatever its bandwidths.
    """

    name: str
    dimensions: tuple[Dimension, ...]
    constraints: tuple[LinearConstraint, ...] = ()
    total_gbytes_per_s: float | None = None
    fixed_cost_usd: float = 0.0

    @property
    def npus(self) -> int:
        return math.prod(dimension.size for dimension in self.dimensions)

    @property
    def priced(self) -> bool:
        return all(dimension.usd_per_gbytes_per_s is not None for dimension in self.dimensions)


@dataclass(frozen=True, repr=False)
class Design(Shown):
    """One network shape with one parallelization of every workload; only its bandwidths are open."""

    name: str
    network: HierarchicalNetwork
    workloads: tuple[HierarchicalWorkload, ...]


@dataclass(frozen=True, repr=False)
class HierarchicalProblem(ProblemBase):
    """Kind `hierarchical-bandwidth`: the design, and the bandwidth of its every dimension, that are best.

    Attributes:
        name: of the instance.
        designs: what there is to choose from; one where shape and strategies are given.
        objective: what is to be least.
        fleet: how the times of several workloads count.
        cost_cap_usd: most the network may cost; for the objective `time` and `time-times-cost`.
        time_limit_ns: longest time (as `fleet` counts it); for the objective `cost`, which needs it.
        pareto_points: points of the front of time and cost that are sought as well.
    """

    name: str
    designs: tuple[Design, ...]
    objective: HierarchicalObjective = "time"
    fleet: Fleet = "weighted-sum"
    cost_cap_usd: float | None = None
    time_limit_ns: float | None = None
    pareto_points: int = 0
    search: SearchSettings = field(default_factory=SearchSettings)
    sha256: str = ""
    notes: tuple[str, ...] = ()

    kind = "hierarchical-bandwidth"


@dataclass(frozen=True, repr=False)
class FrontPoint(Shown):
    """A network that keeps a time limit, on the front of time and cost."""

    __pydantic_config__ = STRICT

    limit_ns: Amount
    """the time limit"""
    bandwidth_gbytes_per_s: Bandwidths
    """per NPU and dimension, innermost first"""


@dataclass(frozen=True, repr=False)
class HierarchicalPlan(Shown):
    """The decisions: a design, its bandwidths, and the networks of the front of time and cost."""

    __pydantic_config__ = STRICT

    design: Annotated[int, Ge(0), Lt(MAX_DESIGNS)]
    """index of the design"""
    bandwidth_gbytes_per_s: Bandwidths
    """per NPU and dimension, innermost first"""
    front: Annotated[tuple[FrontPoint, ...], Len(0, MAX_POINTS)] = ()
    """of this design, by time limit; the cheapest network for each"""


@dataclass(frozen=True)
class PathWeight:
    """A path through one iteration of a job, and its weight in a proof.

    Attributes:
        job: index of the workload.
        weight: not negative; of the objective per ns of this path.
        steps: loop `dag`: indices of the tasks on it, in order; `dp-overlap`: indices of the layers where it takes the
            weight gradient; `no-overlap`: empty.
    """

    job: int
    weight: float
    steps: tuple[int, ...] = ()


@dataclass(frozen=True)
class GroupShare:
    """Weighted bytes of a job's collectives of one kind on one communicator, split over the dimensions."""

    job: int
    communicator: int
    collective: Collective
    bytes_by_dimension: tuple[float, ...]


def bandwidth_certificate(
    design: int,
    paths: Sequence[PathWeight],
    shares: Sequence[GroupShare],
    prices: Mapping[int, float],
    *,
    cutoff: float | None = None,
    too_slow: bool = False,
    point: int | None = None,
) -> Certificate:
    """Return the proof of a lower bound by weak duality: any such numbers prove a bound, good numbers a good one.

    The time of a job is at least that of each of its paths, a collective takes at least any weighted mean of its times
    in the dimensions. What remains is separable in the bandwidths but for the linear rows, which are priced.

    Args:
        design: index of the design that the bound is of.
        paths, shares: weights of paths, and shares of the bytes on these paths.
        prices: of the linear rows, by index; a price above 0 pushes the row up. The rows are the constraints of the
            network, then the cost cap. For time x cost they are homogeneous: of each row `at least` and `at most` (one
            row where both are equal), then of each dimension its least and its most, then the normalisation of the
            cost.
        cutoff: least cost that is of no interest: the bound is of what is cheaper. None: no cutoff.
        too_slow: whether the bound is on the time, to show that no bandwidths keep the time limit.
        point: index of the point of the front whose cost the bound is on; None: the objective.
    """
    arrays = {
        "design": np.array([design], dtype=np.int64),
        "point": np.array([] if point is None else [point], dtype=np.int64),
        "too_slow": np.array([too_slow], dtype=np.int64),
        "cutoff": np.array([] if cutoff is None else [cutoff], dtype=np.float64),
        "path_job": np.array([path.job for path in paths], dtype=np.int64),
        "path_weight": np.array([path.weight for path in paths], dtype=np.float64),
        "path_length": np.array([len(path.steps) for path in paths], dtype=np.int64),
        "path_steps": np.array([step for path in paths for step in path.steps], dtype=np.int64),
        "share_job": np.array([share.job for share in shares], dtype=np.int64),
        "share_communicator": np.array([share.communicator for share in shares], dtype=np.int64),
        "share_collective": np.array([COLLECTIVES.index(share.collective) for share in shares], dtype=np.int64),
        "share_bytes": np.array([size for share in shares for size in share.bytes_by_dimension], dtype=np.float64),
        "priced_row": np.array([*prices], dtype=np.int64),
        "price": np.array([*prices.values()], dtype=np.float64),
    }
    return Certificate(Argument.BANDWIDTH_PRICES, arrays)


@dataclass(frozen=True)
class ComputeStep:
    """Computing.

    Attributes:
        name: for people.
        time_us: whole microseconds.
        after: places of the steps of the rank that it waits for.
    """

    name: str
    time_us: int
    after: tuple[int, ...]


@dataclass(frozen=True)
class CollectiveStep:
    """A collective.

    Attributes:
        name: for people.
        collective: which.
        group: its number.
        size_bytes: what every rank holds; of an all-gather what it begins with.
        after: places of the steps of the rank that it waits for.
    """

    name: str
    collective: Collective
    group: int
    size_bytes: int
    after: tuple[int, ...]


@dataclass(frozen=True)
class MessageStep:
    """One end of a message.

    Attributes:
        sends: whether the rank sends it, or receives.
        peer: the other rank.
        tag: tells messages between the same ranks apart.
        size_bytes: of it.
        after: places of the steps of the rank that it waits for.
    """

    sends: bool
    peer: int
    tag: int
    size_bytes: int
    after: tuple[int, ...]


RankStep = ComputeStep | CollectiveStep | MessageStep


@dataclass(frozen=True)
class RankTotals:
    """What one rank does, added up.

    Attributes:
        rank: its number.
        steps: how many.
        calls: how often it takes part in a collective, by the number of its group and bytes.
        sent, received: bytes by peer.
        compute_us: of all computing.
    """

    rank: int
    steps: int
    calls: Counter[tuple[Collective, int, int]]
    sent: Counter[int]
    received: Counter[int]
    compute_us: int


class RankProgram(Protocol):
    """One iteration of all ranks; what one of them does is made when it is asked for."""

    @property
    def groups(self) -> Mapping[int, Sequence[int]]:
        """Ranks of the groups that the steps and totals made so far name, by number."""

    def totals(self, rank: int) -> RankTotals:
        """Of a rank, counted without its steps."""

    def steps(self, rank: int) -> list[RankStep]:
        """Of a rank, in an order in which it can take them."""
