"""Bounds on an objective, the arguments that they rest on, and the status of a result with its bound.

An argument is verified if the checker derives the bound from it again, from the instance and what stands in the file of
the solution; each kind has a table of those it does (`topoopt/verify/<kind>/arguments.py`). What the checker has no
derivation for rests on the word of whoever ran the search: it is claimed, and proves nothing.

What we know of a result and why the run that made it stopped are two separate things. Whatever holds a value against a
bound, the assembly of a solution, its checker or a comparison of runs, takes its tolerance from the table in this
module.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import Annotated

from annotated_types import Ge, Le

from topoopt.core.errors import CheckError


class Argument(StrEnum):
    """Every argument behind a bound, by its name in files; a reader refuses any other."""

    # routing and topology
    ARC_LENGTHS = "arc-lengths"
    ARC_PRICES = "arc-prices"
    NODE_CUT = "node-cut"
    PEER_CUT = "peer-cut"
    LAYERED_MOORE = "layered-moore"
    TWO_LAYER = "two-layer"
    RELAY_BLOCKS = "relay-blocks"
    RELAY_CASES = "relay-cases"
    LISTED_NETWORKS = "listed-networks"
    LINK_TREE = "link-tree"
    LINK_BLOCKS = "link-blocks"
    FAILED_LINK_CUT = "failed-link-cut"
    FAILED_LINK_HOPS = "failed-link-hops"
    DUAL_CUT = "dual-cut"
    TOPOLOGY_BRANCHING = "topology-branching"
    TOPOLOGY_ENUMERATION = "topology-enumeration"
    OWN_MODEL = "own-model"
    # co-optimisation
    COMPUTE_WORK = "compute-work"
    COMPUTE_CHAIN = "compute-chain"
    WHOLE_OPERATORS = "whole-operators"
    PINNED_OPERATORS = "pinned-operators"
    ALLREDUCE_CHAIN = "allreduce-chain"
    WORK_AND_WIRE = "work-and-wire"
    STRATEGY_PROGRAM = "strategy-program"
    STRATEGIES_IN_TURN = "strategies-in-turn"
    NO_LEGAL_SPLIT = "no-legal-split"
    TOO_LITTLE_MEMORY = "too-little-memory"
    TRAFFIC_CHAIN = "traffic-chain"
    SERVER_COMPUTE = "server-compute"
    BYTES_SENT = "bytes-sent"
    BYTES_RECEIVED = "bytes-received"
    BYTE_HOPS = "byte-hops"
    RING_DISTANCES = "ring-distances"
    RING_BRANCHING = "ring-branching"
    # bandwidth-allocation
    TIGHTEST_LINK = "tightest-link"
    LINK_PRICES = "link-prices"
    # placement
    DEVICE_WORK = "device-work"
    OPERATOR_CHAIN = "operator-chain"
    COLOCATED_GROUP = "colocated-group"
    GROUP_EGRESS = "group-egress"
    GROUP_INGRESS = "group-ingress"
    MEMORY_CUTS = "memory-cuts"
    BLOCK_CUTS = "block-cuts"
    ALL_ASSIGNMENTS = "all-assignments"
    ALL_PIPELINES = "all-pipelines"
    ALL_SCHEDULES = "all-schedules"
    QUEUED_SCHEDULES = "queued-schedules"
    ASSIGNMENTS_LEFT = "assignments-left"
    STAGE_CP_SAT = "stage-cp-sat"
    STAGE_HIGHS = "stage-highs"
    SCHEDULE_CP_SAT = "schedule-cp-sat"
    SCHEDULE_NO_CONTENTION = "schedule-no-contention"
    SCHEDULE_HIGHS = "schedule-highs"
    # hierarchical-bandwidth
    BYTE_SUMS = "byte-sums"
    BANDWIDTH_PRICES = "bandwidth-prices"
    ALL_SPEEDS = "all-speeds"
    SPEED_BRANCHING = "speed-branching"
    # collective
    NETWORK_CUT = "network-cut"
    TREE_LENGTHS = "tree-lengths"
    PAIR_LENGTHS = "pair-lengths"
    RANK_DISTANCES = "rank-distances"
    # shared-cluster
    ALONE = "alone"
    ALONE_AT_ONCE = "alone-at-once"
    REMAINING_TIME = "remaining-time"
    CLASS_BOUNDS = "class-bounds"
    SERVER_COUNTS = "server-counts"
    SERVERS_LEFT = "servers-left"
    REGIONS_LEFT = "regions-left"
    SHARD_BRANCHING = "shard-branching"
    # kinds of other packages
    OF_THE_KIND = "of-the-kind"
    # llm-training
    ALL_SHAPES = "all-shapes"
    POD_CIRCUITS = "pod-circuits"
    # dag-topology
    CIRCUIT_BRANCHING = "circuit-branching"
    # regional-circuits
    CIRCUIT_PRICES = "circuit-prices"
    # parallel-circuits
    LINE_WORK = "line-work"
    SINGLE_LINE = "single-line"
    ASSIGNMENT_PRICES = "assignment-prices"
    CONFIGURATION_TREE = "configuration-tree"


PHRASES: Mapping[Argument, str] = {
    Argument.ARC_LENGTHS: "lengths of the arcs (linear-programming duality)",
    Argument.ARC_PRICES: "prices of the arcs in every matrix (linear-programming duality)",
    Argument.NODE_CUT: "node cut",
    Argument.PEER_CUT: "node cut over the peers allowed",
    Argument.LAYERED_MOORE: "layered Moore distances",
    Argument.TWO_LAYER: "two-layer distances",
    Argument.RELAY_BLOCKS: "links around every relay server (weak duality)",
    Argument.RELAY_CASES: "cases by links between two servers, links around every relay server in each (weak duality)",
    Argument.LISTED_NETWORKS: "link lengths of all networks with few hops",
    Argument.LINK_TREE: "branch and bound over links, link lengths for every leaf",
    Argument.LINK_BLOCKS: "branch and bound over links, links around every server at each node (weak duality)",
    Argument.FAILED_LINK_CUT: "node cut with a link less",
    Argument.FAILED_LINK_HOPS: "layered Moore distances with a link less",
    Argument.DUAL_CUT: "dual cut of this topology",
    Argument.TOPOLOGY_BRANCHING: "branch and bound over links and routing",
    Argument.TOPOLOGY_ENUMERATION: "enumeration of all networks",
    Argument.OWN_MODEL: "a solver, among plans that meet constraints which are not of the instance",
    Argument.COMPUTE_WORK: "compute work",
    Argument.COMPUTE_CHAIN: "compute critical path",
    Argument.WHOLE_OPERATORS: "whole operators on one server",
    Argument.PINNED_OPERATORS: "pinned operators of one server",
    Argument.ALLREDUCE_CHAIN: "critical path with AllReduce",
    Argument.WORK_AND_WIRE: "work and wire bytes",
    Argument.STRATEGY_PROGRAM: "strategy program, multipliers re-evaluated",
    Argument.STRATEGIES_IN_TURN: "every strategy that the laws do not exclude, by its own traffic",
    Argument.NO_LEGAL_SPLIT: "an operator without a legal split",
    Argument.TOO_LITTLE_MEMORY: "more memory needed than there is",
    Argument.TRAFFIC_CHAIN: "critical path with traffic",
    Argument.SERVER_COMPUTE: "compute of one server",
    Argument.BYTES_SENT: "bytes sent by one server",
    Argument.BYTES_RECEIVED: "bytes received by one server",
    Argument.BYTE_HOPS: "bytes times hops over all links",
    Argument.RING_DISTANCES: "distances of bounded degree, and ring steps",
    Argument.RING_BRANCHING: "HiGHS branch and bound over links, ring orders and routing",
    Argument.TIGHTEST_LINK: "one link, limit or server shared by all that use it",
    Argument.LINK_PRICES: "prices of links (linear-programming duality)",
    Argument.DEVICE_WORK: "work of the devices and of the largest co-located group",
    Argument.OPERATOR_CHAIN: "critical path",
    Argument.COLOCATED_GROUP: "one co-located group",
    Argument.GROUP_EGRESS: "egress of one group",
    Argument.GROUP_INGRESS: "ingress of one group",
    Argument.MEMORY_CUTS: "chain and cuts forced by memory",
    Argument.BLOCK_CUTS: "work and the least cut around every block (weak duality)",
    Argument.ALL_ASSIGNMENTS: "all assignments, tried again",
    Argument.ALL_PIPELINES: "all contiguous pipelines, tried again",
    Argument.ALL_SCHEDULES: "all schedules without contention, tried again",
    Argument.QUEUED_SCHEDULES: "all schedules and orders of queued transfers, tried again",
    Argument.ASSIGNMENTS_LEFT: "enumeration of assignments",
    Argument.STAGE_CP_SAT: "CP-SAT, stage-order program",
    Argument.STAGE_HIGHS: "HiGHS, stage-order program",
    Argument.SCHEDULE_CP_SAT: "CP-SAT, all placements and schedules",
    Argument.SCHEDULE_NO_CONTENTION: "CP-SAT, all placements and schedules without contention",
    Argument.SCHEDULE_HIGHS: "HiGHS, joint program of placement, orders and rates",
    Argument.BYTE_SUMS: "sums of bytes (Cauchy-Schwarz)",
    Argument.BANDWIDTH_PRICES: "dual prices, or sums of bytes of a design not opened",
    Argument.ALL_SPEEDS: "all combinations of speeds",
    Argument.SPEED_BRANCHING: "HiGHS branch and bound over the speeds",
    Argument.NETWORK_CUT: "the cut that limits the network",
    Argument.TREE_LENGTHS: "lengths of links and least spanning trees of ranks (linear-programming duality)",
    Argument.PAIR_LENGTHS: "lengths of links and the ways of all pairs (linear-programming duality)",
    Argument.RANK_DISTANCES: "messages between the ranks that are farthest apart",
    Argument.ALONE: "no job is faster than alone",
    Argument.ALONE_AT_ONCE: "no job is shorter than alone and without waiting",
    Argument.REMAINING_TIME: "shortest remaining time first on one machine of all servers",
    Argument.CLASS_BOUNDS: "bounds of the classes",
    Argument.SERVER_COUNTS: "servers counted by the checker (knapsacks)",
    Argument.SERVERS_LEFT: "jobs that fit alone, and free servers counted (a knapsack)",
    Argument.REGIONS_LEFT: "jobs that fit alone, and each region filled as if it had all of them (knapsacks)",
    Argument.SHARD_BRANCHING: "HiGHS branch and bound over the shards",
    Argument.OF_THE_KIND: "an argument of this kind alone",
    Argument.ALL_SHAPES: "bounds of all ways to divide the GPUs, or of all their strategies, those left open followed",
    Argument.POD_CIRCUITS: "bounds of all strategies in pods, branch and bound over the circuits of those left open",
    Argument.CIRCUIT_BRANCHING: "branch and bound over circuits, windows of time and longest paths for every box",
    Argument.CIRCUIT_PRICES: "branch and bound over circuits, prices of ports and interfaces for every box",
    Argument.LINE_WORK: "durations and delays that the busiest servers need",
    Argument.SINGLE_LINE: "all ways to divide one server's demand among the switches",
    Argument.ASSIGNMENT_PRICES: "prices of pairs, the dearest permutation of every duration",
    Argument.CONFIGURATION_TREE: "branch and bound over configurations, multipliers for every leaf",
}
"""The arguments for people."""

CLAIMED: frozenset[Argument] = frozenset(
    {
        Argument.TOPOLOGY_BRANCHING,
        Argument.TOPOLOGY_ENUMERATION,
        Argument.OWN_MODEL,
        Argument.RING_BRANCHING,
        Argument.ASSIGNMENTS_LEFT,
        Argument.STAGE_CP_SAT,
        Argument.STAGE_HIGHS,
        Argument.SCHEDULE_CP_SAT,
        Argument.SCHEDULE_NO_CONTENTION,
        Argument.SCHEDULE_HIGHS,
        Argument.SPEED_BRANCHING,
        Argument.SERVERS_LEFT,
        Argument.REGIONS_LEFT,
        Argument.SHARD_BRANCHING,
    }
)
"""Arguments that no checker makes again. One that gets a certificate and a derivation leaves this set."""


@dataclass(frozen=True)
class Bound:
    """A bound on the objective, from below where less is better.

    Attributes:
        value: in the unit of the objective.
        argument: what it rests on.
        iterations: of the search for the multipliers of `two-layer`; None for all others.
        derived: False where the check left the derivation out.
    """

    value: Annotated[float, Ge(-1e30), Le(1e30)]
    argument: Argument
    iterations: Annotated[int, Ge(1), Le(1_000_000)] | None = None
    derived: bool = True

    @property
    def verified(self) -> bool:
        """Whether the checker derived it again; else it is only claimed."""
        return self.derived and self.argument not in CLAIMED

    @property
    def proved_by(self) -> str:
        """What it rests on, for people."""
        phrase = PHRASES[self.argument]
        return phrase if self.verified else f"claimed by {phrase}; not verified"


class Status(StrEnum):
    """What is proven about the returned plan."""

    OPTIMAL = "optimal"  # checked value equals a proven bound
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


class StopReason(StrEnum):
    """Why the search ended."""

    CONVERGED = "converged"
    BUDGET = "budget"
    TIME = "time"
    MEMORY = "memory"
    GAP = "gap"
    INTERRUPTED = "interrupted"
    ERROR = "error"


class Tolerance(Enum):
    """Every tolerance for figures that should agree: the part of the larger one by which they may differ, and why."""

    ROUNDING = 1e-9, "sums of up to millions of doubles, added in another order"
    TANGENTS = 1.01e-9, "tangents are added down to a gap of 1e-9; what rounding may have added is taken off the bound"
    TIMES_ROUNDED_DOWN = 1e-7, "programs in integers count times rounded down to about 1e-8 of the largest"
    LONG_SUMS = 1e-7, "thousands of times, each the sum of many steps, are added up"
    EVENTS = 1e-6, "simulators add up many small spans of time, and may join events that are almost at once"
    LINEAR_PROGRAM = 1e-6, "solvers of linear programs meet constraints and optimality to about this much"
    FORMULA = (
        1e-5,
        "bounds with multipliers searched anew reach other multipliers on another processor: so much is left",
    )
    TIE = 1e-3, "bandwidths are found to about 1e-4, so that times this close are equal as far as we can tell"

    def __init__(self, relative: float, reason: str) -> None:
        self.relative = relative
        self.reason = reason

    def of(self, *figures: float) -> float:
        """By how much figures of this size may differ; 0 if the largest is not finite."""
        largest = max(map(abs, figures))
        return self.relative * largest if math.isfinite(largest) else 0.0


def meets(value: float, bound: float, tolerance: Tolerance, *, maximise: bool = False, absolute: float = 0.0) -> bool:
    """Whether a value is as good as its bound, so that nothing better exists; figures that are not finite never are.

    Args:
        value, bound: of the objective, in its unit.
        tolerance: how far apart they may be.
        maximise: whether the bound is an upper one.
        absolute: what they may differ besides, in their unit.
    """
    distance = bound - value if maximise else value - bound
    return math.isfinite(distance) and distance <= tolerance.of(value, bound) + absolute


def beats(value: float, bound: float, tolerance: Tolerance, *, maximise: bool = False, absolute: float = 0.0) -> bool:
    """Whether a value is better than its bound, so that one of them is wrong; NaN always is.

    Arguments as of `meets`.
    """
    distance = bound - value if maximise else value - bound
    return not distance >= -(tolerance.of(value, bound) + absolute)


def gap(value: float, bound: float, *, maximise: bool = False) -> float:
    """Part of the larger of the two by which a value may be from the best; 0 at its bound and past it.

    Arguments as of `meets`. NaN where one of them is NaN.
    """
    distance, larger = bound - value if maximise else value - bound, max(abs(value), abs(bound))
    if math.isinf(larger) and not math.isnan(distance):
        return 1.0 if distance > 0 else 0.0
    part = distance / larger if larger > 0 else 0.0
    return 0.0 if part < 0 else part  # not max(), which would make 0 of NaN


def capped(
    bound: float,
    value: float,
    tolerance: Tolerance = Tolerance.ROUNDING,
    *,
    maximise: bool = False,
    absolute: float = 0.0,
) -> float:
    """The bound as it is stated: rounding that carries it past the value that reaches it is taken off.

    Arguments as of `meets`.

    Raises:
        CheckError: the value is better than the bound by more than rounding, or one of them is NaN.
    """
    if beats(value, bound, tolerance, maximise=maximise, absolute=absolute):
        raise CheckError(f"the value {value!r} is better than its bound {bound!r}: one of them is wrong")
    return max(bound, value) if maximise else min(bound, value)


@dataclass(frozen=True)
class Settled:
    """What a checked value and bounds on it amount to.

    Attributes:
        status: `optimal` or `feasible`.
        bound: the tightest that the checker derives again, as it is stated.
        claimed_bound: a tighter one that rests on somebody's word; None where there is none.
    """

    status: Status
    bound: Bound
    claimed_bound: Bound | None = None


def settle(
    value: float,
    bounds: Iterable[Bound],
    tolerance: Tolerance,
    *,
    rounding: Tolerance = Tolerance.ROUNDING,
    maximise: bool = False,
    absolute: float = 0.0,
    conclusive: bool = True,
) -> Settled:
    """What a checked value and bounds on it amount to; only a verified bound makes it optimal.

    A claimed bound that the value contradicts counts for nothing.

    Args:
        value: of the objective, computed from the plan; finite.
        bounds: from below (above if `maximise`), at least one of them verified; infinite where nothing is proven.
        tolerance: gap up to which the value counts as optimal.
        rounding: by how much rounding may carry a bound past the value.
        maximise: whether more is better.
        absolute: what may be rounding besides, in the unit of the objective.
        conclusive: whether a value at its bound says that the plan is optimal; not where it was cut short, or where
            the objective is only the first of several figures.

    Raises:
        CheckError: the value is not finite, or better than a verified bound by more than rounding.
        ValueError: no bound is verified.
    """
    if not math.isfinite(value):
        raise CheckError(f"a plan has the value {value!r}")
    given = list(bounds)
    tightest = min if maximise else max
    proven = tightest((bound for bound in given if bound.verified), key=lambda bound: bound.value)
    limit = capped(proven.value, value, rounding, maximise=maximise, absolute=absolute)
    optimal = conclusive and meets(value, limit, tolerance, maximise=maximise, absolute=absolute)
    claimed = [
        replace(bound, value=capped(bound.value, value, rounding, maximise=maximise, absolute=absolute))
        for bound in given
        if not bound.verified and not beats(value, bound.value, rounding, maximise=maximise, absolute=absolute)
    ]
    best = tightest(claimed, key=lambda bound: bound.value, default=None)
    return Settled(
        Status.OPTIMAL if optimal else Status.FEASIBLE,
        replace(proven, value=limit),
        best if best is not None and beats(limit, best.value, rounding, maximise=maximise) else None,
    )
