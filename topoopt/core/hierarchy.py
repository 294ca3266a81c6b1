"""Hierarchical networks: NPUs on a grid of dimensions, each built of one kind of block; bandwidth is to be chosen.

Bandwidth is in GB/s (10^9 bytes/s) per NPU and dimension, cost in US dollars. The model is LIBRA's (Won et al.): ring,
direct and halving-doubling collectives move the same bytes on their blocks, so a block matters for the price only.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum

from topoopt.core.hierarchy_workload import HierarchicalWorkload
from topoopt.core.search_settings import SearchSettings
from topoopt.core.shown import Shown
from topoopt.core.stated import Stated


class Block(StrEnum):
    """What joins the NPUs of one dimension."""

    RING = "ring"
    FULLY_CONNECTED = "fully-connected"
    SWITCH = "switch"


class HierarchicalObjective(StrEnum):
    """What is to be least: iteration time, time x cost (the reciprocal of performance per cost), or cost."""

    TIME = "time"
    TIME_TIMES_COST = "time-times-cost"
    COST = "cost"


class Fleet(StrEnum):
    """What time means for several workloads: the weighted sum, or the largest weighted one."""

    WEIGHTED_SUM = "weighted-sum"
    WORST_CASE = "worst-case"

    def of(self, weighted: Collection[float]) -> float:
        """Time of the fleet, from the weighted times of its workloads."""
        return max(weighted) if self is Fleet.WORST_CASE else sum(weighted)


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
    """A shape with all that is asked of its bandwidths.

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
        """N, product of the sizes."""
        return math.prod(dimension.size for dimension in self.dimensions)

    @property
    def priced(self) -> bool:
        """Whether every dimension has a price."""
        return all(dimension.usd_per_gbytes_per_s is not None for dimension in self.dimensions)


@dataclass(frozen=True, repr=False)
class Design(Shown):
    """One network shape with one parallelization of every workload; only its bandwidths are open."""

    name: str
    network: HierarchicalNetwork
    workloads: tuple[HierarchicalWorkload, ...]


@dataclass(frozen=True, repr=False)
class HierarchicalProblem(Stated):
    """Kind `hierarchical-bandwidth`: the design, and the bandwidth of its every dimension, that are best.

    Attributes:
        name: of the instance.
        designs: what there is to choose from; one where shape and strategies are given.
        objective: what is to be least.
        fleet: how the times of several workloads count.
        cost_cap_usd: most the network may cost; for the objective `time` and `time-times-cost`.
        time_limit_ns: longest time (as `fleet` counts it); for the objective `cost`, which needs it.
        pareto_points: points of the front of time and cost to find as well.
    """

    name: str
    designs: tuple[Design, ...]
    objective: HierarchicalObjective = HierarchicalObjective.TIME
    fleet: Fleet = Fleet.WEIGHTED_SUM
    cost_cap_usd: float | None = None
    time_limit_ns: float | None = None
    pareto_points: int = 0
    search: SearchSettings = field(default_factory=SearchSettings)
    sha256: str = ""
    notes: tuple[str, ...] = ()

    kind = "hierarchical-bandwidth"
