"""Bounds on an objective, and the closed list of arguments that one may rest on.

An argument is verified if the checker derives the bound from it again, from the instance and what stands in the file of
the solution; each kind has a table of those it does (`topoopt/verify/<kind>/arguments.py`). What the checker has no
derivation for rests on the word of whoever ran the search: it is claimed, and proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from annotated_types import Ge, Le


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
    ALL_ASSIGNMENTS = "all-assignments"
    ALL_PIPELINES = "all-pipelines"
    ALL_SCHEDULES = "all-schedules"
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
    ALLREDUCE_ROOTS = "allreduce-roots"
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
    Argument.ALL_ASSIGNMENTS: "all assignments, tried again",
    Argument.ALL_PIPELINES: "all contiguous pipelines, tried again",
    Argument.ALL_SCHEDULES: "all schedules without contention, tried again",
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
    Argument.ALLREDUCE_ROOTS: "sets of nodes that roots must send out of and reduce into (linear-programming duality)",
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
