"""Kind `co-optimisation`: a training job on a cluster, its plan, and what follows from the plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge, Le, Len, MultipleOf

from topoopt.core.arrays import Floats
from topoopt.core.cluster import Cluster, LinkSharing
from topoopt.core.data import MAX_SERVERS, STRICT, Gbps, Label, Meaning, Shorthand, Shown, omitting
from topoopt.core.network import LinkTree
from topoopt.core.plan import Plan, StoredStrategy
from topoopt.core.price_book import PriceBook
from topoopt.core.proofs import Argument
from topoopt.core.result import Certificate
from topoopt.core.search_settings import JobSearchSettings, ProblemBase
from topoopt.core.workload import Strategy, StrategyCertificate, StrategyCut, Workload


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

    Parameters
    ----------
    proof : tree of cuts and cases.
    laws : names of all laws, in the order of the checker; a weight has the index of its law.

    Returns
    -------
    Vectors by node (`operator`, -1 for a case; `inside`, `outside`), of all cuts one after another (`state`, split at
    `state_ptr`), and of all cases (`law` and `weight`, split at `law_ptr`; `memory`; `price`, of the producer and then
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
