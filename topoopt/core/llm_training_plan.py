"""A plan to train a language model holds strategies, networks, circuits between pods, and proofs that no plan is
faster.

A plan holds decisions alone: strategies, links, rings, routes, places of ranks, ports and circuits. Rates, seconds and
bytes follow from a plan and its problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Literal, get_args

import numpy as np
from annotated_types import Ge, Le, Len
from numpy.typing import NDArray

from topoopt.core.collective import CollectiveSchedule, GroupSchedule
from topoopt.core.dag_topology import CircuitProof, PathMean, Split, StepPath
from topoopt.core.data import STRICT, Shown
from topoopt.core.llm_training import PodSettings, StepBreakdown, TrainingMemory
from topoopt.core.parallelism import MAX_GPUS, ParallelStrategy
from topoopt.core.proofs import Argument
from topoopt.core.result import Certificate, SearchResult
from topoopt.core.switching import StagePorts

MAX_PODS = 1024
MAX_PORTS = 4096
MAX_PAIRS = MAX_PODS * (MAX_PODS - 1) // 2
MAX_STRATEGIES = 1000
MAX_CANDIDATES = 5 * MAX_STRATEGIES + 1

Counts = Annotated[tuple[Annotated[int, Ge(1), Le(MAX_PORTS)], ...], Len(0, MAX_PAIRS)]
"""Circuits of each pair of pods that something is sent between, in ascending order of the pairs."""


PodVerdict = Literal["searched", "slower", "crowded", "left"]
"""What is known of a strategy in pods.

`searched`: its circuits were, to the end or as far as limits allowed; `slower`: no circuits make it faster than the
plan; `crowded`: a pod exchanges with more others than it has ports; `left`: nothing but the bound that all
strategies have.
"""


@dataclass(frozen=True, repr=False)
class PodCircuits(Shown):
    """Circuits between pods.

    Attributes:
        settings: of the instance.
        pods: n; pod = stage x pods of a stage + index.
        links: pod, pod with a larger number, circuits; ascending.
    """

    settings: PodSettings
    pods: int
    links: tuple[tuple[int, int, int], ...]

    @property
    def ports_used(self) -> tuple[int, ...]:
        used = [0] * self.pods
        for tail, head, count in self.links:
            used[tail] += count
            used[head] += count
        return tuple(used)

    @property
    def ports_saved(self) -> tuple[int, ...]:
        """Of each pod, those that no circuit ends at."""
        return tuple(self.settings.ports - used for used in self.ports_used)


@dataclass(frozen=True)
class PodCandidate:
    """A strategy that was considered in pods."""

    __pydantic_config__ = STRICT

    strategy: ParallelStrategy
    """with the layers of its chunks"""
    circuits: Counts = ()
    """with which an iteration is fastest; empty: none were searched"""


@dataclass(frozen=True, eq=False, repr=False)
class PodDecisions(Shown):
    """Circuits between pods, for the strategy of a plan and for the others that were considered."""

    __pydantic_config__ = STRICT

    circuits: Counts
    """of the plan, within the slack of the instance"""
    candidates: Annotated[tuple[PodCandidate, ...], Len(1, MAX_CANDIDATES)]
    """by the bound that all strategies have, the least first; the strategy of the plan is among them"""


@dataclass(frozen=True, eq=False, repr=False)
class PodClaims(Shown):
    """What certificates claim of strategies in pods.

    Attributes:
        verdicts, bounds_s: of each candidate; of a slower one the time over the fastest circuits of the plan, of one
            left the bound that all strategies have, of a crowded one 0.
        rest_s: no strategy that is no candidate is faster; None: there is none.
        circuits_bound: no fewer circuits do an iteration of the plan within the slack.
        proofs: by candidate; that of the strategy of the plan has a tree of circuits, too.
    """

    verdicts: tuple[PodVerdict, ...]
    bounds_s: tuple[float, ...]
    rest_s: float | None
    circuits_bound: int
    proofs: dict[int, CircuitProof]

    def candidates_bound_s(self, makespan_s: float) -> float:
        """No candidate is faster, over any circuits."""
        rows = zip(self.verdicts, self.bounds_s, strict=True)
        return min([makespan_s, *(bound for verdict, bound in rows if verdict != "crowded")])

    def bound_s(self, makespan_s: float) -> float:
        """No strategy of the space is faster, over any circuits."""
        least = self.candidates_bound_s(makespan_s)
        return least if self.rest_s is None else min(least, self.rest_s)


POD_VERDICTS: tuple[PodVerdict, ...] = get_args(PodVerdict)


def pods_certificates(claims: PodClaims) -> tuple[Certificate, ...]:
    """Return what is claimed of all candidates, then a proof of each that has one."""
    arrays: dict[str, NDArray[Any]] = {
        "pod_verdicts": np.array([POD_VERDICTS.index(verdict) for verdict in claims.verdicts], dtype=np.int64),
        "pod_bounds_s": np.array(claims.bounds_s, dtype=np.float64),
        "rest_s": np.array([] if claims.rest_s is None else [claims.rest_s], dtype=np.float64),
        "circuits_bound": np.array([claims.circuits_bound], dtype=np.int64),
    }
    proofs = [_proof_certificate(candidate, proof) for candidate, proof in claims.proofs.items()]
    return (Certificate(Argument.POD_CIRCUITS, arrays), *proofs)


def pod_claims(certificates: Sequence[Certificate]) -> PodClaims:
    """Return what is claimed of strategies in pods.

    Raises:
        ValueError: there is no such certificate, or its arrays do not fit together.
    """
    first = next((c for c in certificates if "pod_verdicts" in c.arrays), None)
    if first is None:
        raise ValueError("no certificate of circuits between pods")
    numbers, rest = first["pod_verdicts"].tolist(), first["rest_s"].tolist()
    if not all(number in range(len(POD_VERDICTS)) for number in numbers) or len(first["circuits_bound"]) != 1:
        raise ValueError("verdicts of pods that do not exist, or more than one bound on circuits")
    count = int(first["circuits_bound"][0])
    proofs = {int(c["candidate"][0]): _proof(c, count) for c in certificates if "candidate" in c.arrays}
    if len(numbers) != len(first["pod_bounds_s"]) or len(rest) > 1 or not all(k in range(len(numbers)) for k in proofs):
        raise ValueError("as many verdicts as bounds, one bound of the rest at most, proofs of candidates alone")
    return PodClaims(
        tuple(POD_VERDICTS[int(number)] for number in numbers),
        tuple(float(bound) for bound in first["pod_bounds_s"]),
        float(rest[0]) if rest else None,
        count,
        proofs,
    )


def _proof_certificate(candidate: int, proof: CircuitProof) -> Certificate:
    groups = [group for path in proof.paths for group in path]
    weights = [row for mean in proof.means for row in mean.weights]
    arrays: dict[str, NDArray[Any]] = {
        "candidate": np.array([candidate], dtype=np.int64),
        "makespan_tree": np.array(proof.makespan_tree, dtype=np.int64).ravel(),
        "circuits_tree": np.array(proof.circuits_tree, dtype=np.int64).ravel(),
        "steps": np.array([step for group in groups for step in group], dtype=np.int64),
        "group_sizes": np.array([len(group) for group in groups], dtype=np.int64),
        "path_sizes": np.array([len(path) for path in proof.paths], dtype=np.int64),
        "weight_paths": np.array([path for path, _ in weights], dtype=np.int64),
        "weights": np.array([weight for _, weight in weights], dtype=np.float64),
        "mean_sizes": np.array([len(mean.weights) for mean in proof.means], dtype=np.int64),
        "prices": np.array([price for mean in proof.means for price in mean.prices], dtype=np.float64),
    }
    return Certificate(Argument.POD_CIRCUITS, arrays)


def _proof(certificate: Certificate, circuits_bound: int) -> CircuitProof:
    def tree(name: str) -> tuple[Split, ...]:
        return tuple((int(pair), int(count)) for pair, count in certificate[name].reshape(-1, 2))

    def cut(items: list[Any], name: str) -> list[list[Any]]:
        sizes = certificate[name].tolist()
        if any(size < 0 or size != int(size) for size in sizes) or sum(sizes) != len(items):
            raise ValueError(f"{name} do not sum to the number of what they divide")
        bounds = [0, *np.cumsum(sizes, dtype=np.int64).tolist()]
        return [items[low:high] for low, high in pairwise(bounds)]

    groups = [tuple(map(int, group)) for group in cut(certificate["steps"].tolist(), "group_sizes")]
    paths: tuple[StepPath, ...] = tuple(tuple(path) for path in cut(groups, "path_sizes"))
    rows = list(zip(map(int, certificate["weight_paths"]), map(float, certificate["weights"]), strict=True))
    weights, prices = cut(rows, "mean_sizes"), [float(price) for price in certificate["prices"]]
    pods, rest = divmod(len(prices), len(weights)) if weights else (0, len(prices))
    if rest:
        raise ValueError("prices of as many pods for each mean")
    means = tuple(PathMean(tuple(row), tuple(prices[k * pods : (k + 1) * pods])) for k, row in enumerate(weights))
    return CircuitProof(tree("makespan_tree"), circuits_bound, tree("circuits_tree"), paths, means)


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

    Attributes:
        dimension: one of `RING_FAMILIES`.
        orders: for each group of servers, for each of its rings, which carry equal shares, its servers in their order.
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
        blocks, sends = schedule.schedule.rows()
        routes = tuple(tuple(map(int, path)) for path in schedule.schedule.routes)
        return cls(schedule.members, schedule.method, schedule.pieces, blocks, routes, sends)

    @cached_property
    def schedule(self) -> GroupSchedule:
        """The same as arrays.

        Raises:
            IndexError: a message has a route that does not exist.
        """
        schedule = CollectiveSchedule.of_rows(self.blocks, self.routes, self.sends)
        return GroupSchedule(self.members, 0, None, self.method, self.pieces, schedule)


@dataclass(frozen=True)
class FamilyReductions:
    """What the groups of a family reduce on in place of rings.

    Attributes:
        dimension: one of `ALLREDUCE_FAMILIES`.
        groups: one for each group of servers; all start together and take their steps in lockstep.
    """

    __pydantic_config__ = STRICT

    dimension: TrafficFamily
    groups: Annotated[tuple[GroupReduction, ...], Len(1, 10_000)]

    @property
    def schedules(self) -> tuple[GroupSchedule, ...]:
        return tuple(group.schedule for group in self.groups)


@dataclass(frozen=True)
class ServerRoute:
    """A path from one server to another that are not joined, or not by all that they send.

    Attributes:
        path: nodes, both ends included.
        share: part of what the first sends to the last that takes this path; the shares of a pair sum to 1.
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
        bound_s: none of its strategies is faster than this, whatever memory they take; 0 of a line that was read.
        records: strategies of the shape; 0 where they were not gone through.
        fitting: of them that fit.
        least_bytes: memory of its smallest strategy; None: not known.
    """

    shape: StrategyShape
    verdict: ShapeVerdict
    bound_s: float = 0.0
    records: int = 0
    fitting: int = 0
    least_bytes: float | None = None

    def __str__(self) -> str:
        least = "" if self.least_bytes is None else f", the smallest {self.least_bytes!r} bytes"
        return f"{self.verdict}, {self.records} strategies, {self.fitting} fit{least}"


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
        return self.network.fabric


PlannedFabric = tuple[SearchResult[FabricPlan], float]
"""The plan that a search reached on a fabric, and seconds of its iteration."""


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
        return self.fabrics[0].strategy

    @property
    def network(self) -> NetworkPlan:
        return self.fabrics[0].network

    def on(self, fabric: str | None) -> FabricPlan:
        """Return the plan for a fabric; None: the first.

        Raises:
            KeyError: there is none.
        """
        return self.fabrics[0] if fabric is None else {plan.fabric: plan for plan in self.fabrics}[fabric]


VERDICTS = tuple(ShapeVerdict)
UNKNOWN = -1.0
"""Least bytes of a shape whose strategies were not gone through."""


def shapes_certificate(outcomes: Sequence[ShapeOutcome], bounds_s: Iterable[float]) -> Certificate:
    """Return why no strategy is faster on an ideal switch, which no fabric betters.

    Args:
        outcomes: of each division of the GPUs.
        bounds_s: of each fabric after the first: no strategy is faster on any network of it.
    """
    shapes = [list(vars(outcome.shape).values()) for outcome in outcomes]
    least = [UNKNOWN if outcome.least_bytes is None else outcome.least_bytes for outcome in outcomes]
    arrays = {
        "shapes": np.array(shapes, dtype=np.int64).ravel(),
        "verdicts": np.array([VERDICTS.index(outcome.verdict) for outcome in outcomes], dtype=np.int64),
        "records": np.array([outcome.records for outcome in outcomes], dtype=np.int64),
        "fitting": np.array([outcome.fitting for outcome in outcomes], dtype=np.int64),
        "least_bytes": np.array(least, dtype=np.float64),
        "fabric_bounds_s": np.array(list(bounds_s), dtype=np.float64),
    }
    return Certificate(Argument.ALL_SHAPES, arrays)


def shape_outcomes(certificates: Sequence[Certificate]) -> tuple[ShapeOutcome, ...]:
    """Return the lines of the certificate of shapes, which comes first.

    Raises:
        ValueError: there is none, or its arrays do not fit together.
    """
    certificate = shapes_of(certificates)
    names = ("verdicts", "records", "fitting", "least_bytes")
    columns = [certificate[name].tolist() for name in names]
    for number in columns[0]:
        if not 0 <= number < len(VERDICTS):
            raise ValueError(f"no verdict has the number {number}")
    shapes = certificate["shapes"].reshape(-1, len(fields(StrategyShape))).tolist()
    return tuple(
        ShapeOutcome(
            StrategyShape(*shape),
            VERDICTS[verdict],
            records=records,
            fitting=fitting,
            least_bytes=None if least == UNKNOWN else least,
        )
        for shape, verdict, records, fitting, least in zip(shapes, *columns, strict=True)
    )


def shapes_of(certificates: Sequence[Certificate]) -> Certificate:
    """Return the certificate of shapes.

    Raises:
        ValueError: there is none.
    """
    if not certificates or certificates[0].argument is not Argument.ALL_SHAPES:
        raise ValueError("no certificate of shapes")
    return certificates[0]


def rails_certificate(bounds_s: Iterable[float]) -> Certificate:
    """Return bounds of the fastest strategies on an ideal switch: no plan of ports has a faster step."""
    return Certificate(Argument.ALL_SHAPES, {"rail_bounds_s": np.array(list(bounds_s), dtype=np.float64)})


def rail_bounds_s(certificates: Sequence[Certificate]) -> tuple[float, ...]:
    """Return the bounds of strategies on rails.

    Raises:
        ValueError: there are none.
    """
    for certificate in certificates:
        if "rail_bounds_s" in certificate.arrays:
            return tuple(float(bound) for bound in certificate["rail_bounds_s"])
    raise ValueError("no certificate of rails")
