"""Tiny data of every formulation, for the golden rows and for the two builders of each."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from formulations import bandwidth_allocation, circuit_matching, dag_topology, flow_routing, joint_topology, mixtures
from formulations.bandwidth_allocation import BandwidthAllocation
from formulations.circuit_matching import CircuitMatching
from formulations.dag_topology import DagTopologyProgram
from formulations.flow_routing import CommonRoutingProgram, ConcurrentFlow
from formulations.joint_topology import HopLp, JointTopology, Symmetry
from formulations.joint_topology import joint_topology_arrays as joint_arrays
from formulations.mixtures import AllReduceMix, AllReduceTopology, PathSplit, RingGroup
from formulations.programs import LpArrays, with_names
from formulations.stage_order import Net, StageOrder
from formulations.stage_order import build_arrays as stage_arrays
from tests.support import pyomo_networks, pyomo_placements
from tests.support.collective_programs import COLLECTIVE
from tests.support.placed_programs_cases import PLACED


def matrix(n: int, entries: dict[tuple[int, int], float]) -> np.ndarray:
    """float64[n, n] with these entries."""
    table = np.zeros((n, n))
    for where, value in entries.items():
        table[where] = value
    return table


RING = ConcurrentFlow(
    np.array([0, 1, 2]), np.array([1, 2, 0]), np.array([1.0, 2.0, 1.0]), matrix(3, {(0, 2): 3.0, (1, 0): 1.0})
)
"""0 -> 1 => 2 -> 0, the middle arc of two links; 0 sends 3 to 2, and 1 sends 1 to 0."""

TWO_MATRICES = CommonRoutingProgram(
    RING.tail, RING.head, RING.capacity, np.array([RING.demand, matrix(3, {(0, 2): 1.0})])
)
"""The ring; 0 sends 3 to 2 and 1 sends 1 to 0, or 0 sends 1 to 2 and nothing else."""

CAPPED = replace(TWO_MATRICES, cap=4.0)
"""The same with a theta of at most 4 for each matrix."""

SPLIT = PathSplit(
    demand=np.array([0, 0, 1]),
    resource=np.array([0, 1, 0]),
    alternative=np.array([0, 1, 2]),
    use=np.array([2.0, 3.0, 1.0]),
    resources=2,
    family=np.array([0, 1]),
    family_weight=(1.0, 2.0),
    price=np.array([0.5, 0.0, 0.25]),
)
"""Two ways for demand 0 (2 on resource 0, or 3 on resource 1), one for demand 1 (1 on resource 0); two families."""

RATES = BandwidthAllocation(
    owner=np.array([0, 0, 1]),
    shared=np.array([0, 1, 0]),
    route=np.array([0, 1, 2]),
    use=np.array([1.0, 0.5, 1.0]),
    capacity=np.array([10.0, 4.0]),
    floor=np.array([1.0, 0.0]),
    ceiling=np.array([np.inf, 3.0]),
    gain=np.array([2.0, 1.0]),
    value=np.array([0.0, 0.5]),
)
"""Transfer 0 over link 0, or half of it over link 1; transfer 1 over link 0, at most 3; 0 has 1 guaranteed."""

LOAD, CAPACITY, CLASSES = np.array([[3.0, 1.0], [2.0, 4.0]]), np.array([1.0, 2.0]), [1, 2]
"""Two routings over classes 1 and 2, the latter of two links."""

HOP = HopLp(3, 2, np.ones((3, 3)) - np.eye(3) + matrix(3, {(0, 1): 2.0}), 0.5)
"""A unit everywhere, 3 from 0 to 1; L = 1/2, so L D = 3/2 there (c1 = 1, c2 = 1/2) and 1/2 elsewhere (c2 = 0)."""


def joint(n: int = 3, **options: Any) -> JointTopology:
    """Two interfaces, directed links; 0 sends 2 to 1 and 1 to 2: one source."""
    values: dict[str, Any] = {
        "servers": n,
        "degree": 2,
        "bidirectional": False,
        "demand": matrix(n, {(0, 1): 2.0, (0, 2): 1.0}),
        "allowed": ~np.eye(n, dtype=bool),
        "most_links": 2,
        "upper": 4.0,
    }
    return JointTopology(**{**values, **options})


KEPT = joint(kept=np.array([[0, 2, 0], [0, 0, 1], [0, 0, 0]]), max_changed=1)
CUTS = joint(distance=np.array([4.0, 0.0, 0.0]), total_distance=5.0)


BOTH_WAYS = ((0, 1, 2), (0, 2, 1))
MIX = AllReduceMix(
    RING.tail,
    RING.head,
    RING.capacity,
    RING.demand,
    (RingGroup((0, 1, 2), 2.0, BOTH_WAYS), RingGroup((0, 2), 3.0, ((0, 2),))),
)
"""The ring with an AllReduce of all (2 from each to the next, either way round) and one of 0 and 2 (3 each way)."""

MIXED_LINKS = AllReduceTopology(
    joint(senders=(0, 1, 2)), (RingGroup((0, 1, 2), 2.0, BOTH_WAYS), RingGroup((0, 1, 2), 3.0, ()))
)
"""Every server sends: an AllReduce of all with both orders (2 each), and one with orders relaxed (3 each)."""


INF = float("inf")


def stages(**options: Any) -> StageOrder:
    """Block 0 feeds block 1 (0.5 ms) on two devices with 5 bytes; the blocks hold 4 and 3, take 2 + 1 and 3 + 2 ms."""
    values: dict[str, Any] = {
        "time": np.array([[[2.0], [3.0]], [[1.0], [2.0]]]),
        "memory": np.array([4.0, 3.0]),
        "order": np.array([[0, 1]]),
        "nets": (Net(0, (1,), 500, 0),),
        "net_ms": np.array([[0.5]]),
        "slot_of_stage": (0, 1),
        "group_of_slot": (0, 0),
        "group_count": (2,),
        "group_memory": (5.0,),
        "group_host": (False,),
    }
    return StageOrder(**{**values, **options})


POOL = stages(
    time=np.array([[[2.0, 4.0], [3.0, INF]], [[1.0, 0.0], [2.0, 0.0]]]),
    group_of_slot=None,
    net_ms=np.array([[0.5, 0.5]]),
    group_count=(1, 1),
    group_memory=(5.0, INF),
    group_host=(False, True),
)
"""The same with a CPU for one of the devices: block 0 takes 4 ms there, block 1 cannot run."""


def _flow() -> LpArrays:
    return with_names(flow_routing.concurrent_flow_arrays(RING), *flow_routing.concurrent_flow_names(RING))


def _hops() -> LpArrays:
    return with_names(
        flow_routing.concurrent_flow_hops_arrays(RING, 2),
        *flow_routing.concurrent_flow_hops_names(RING, 2),
    )


def _split() -> LpArrays:
    return with_names(mixtures.path_split_arrays(SPLIT), *mixtures.path_split_names(SPLIT))


def _circulant() -> LpArrays:
    return with_names(mixtures.circulant_flow_arrays(LOAD, CAPACITY), *mixtures.circulant_flow_names(CLASSES, 2))


def _hop_lp() -> LpArrays:
    return with_names(joint_topology.hop_lp_arrays(HOP), *joint_topology.hop_lp_names(HOP))


CIRCUITS = DagTopologyProgram(
    channels=((0, 1), (0, 2)),
    volume=(4.0, 2.0),
    release=(2.0, 0.0),
    tail=(2.0, 0.0),
    delay={(0, 1): 1.0},
    rate=2.0,
    ports=(3, 2, 2),
    horizon=20.0,
    compute=5.0,
    intervals=2,
)
"""Two transfers from pod 0, the second 1 after the first; up to two circuits a pair, two intervals."""

MATCHING = CircuitMatching(
    demand={(0, 1): 6.0, (1, 0): 2.0, (0, 2): 1.0, (2, 1): 3.0},
    ports=(2, 1, 2),
    circuit=1.0,
    electrical=2.0,
    split=False,
)
"""Three servers, of which the second has one port."""

PROGRAMS: dict[str, tuple[Callable[[], LpArrays], Callable[[], Any]]] = {
    **PLACED,
    **COLLECTIVE,
    "circuit_matching": (
        lambda: circuit_matching.build_arrays(MATCHING),
        lambda: pyomo_networks.circuit_matching_pyomo(MATCHING),
    ),
    "circuit_matching/split": (
        lambda: circuit_matching.build_arrays(replace(MATCHING, split=True)),
        lambda: pyomo_networks.circuit_matching_pyomo(replace(MATCHING, split=True)),
    ),
    "dag_topology": (
        lambda: dag_topology.build_arrays(CIRCUITS),
        lambda: pyomo_placements.dag_topology_pyomo(CIRCUITS),
    ),
    "concurrent_flow": (_flow, lambda: flow_routing.concurrent_flow_pyomo(RING)),
    "concurrent_flow_hops": (_hops, lambda: pyomo_networks.concurrent_flow_hops_pyomo(RING, 2)),
    "path_split": (_split, lambda: pyomo_networks.path_split_pyomo(SPLIT)),
    "common_routing": (
        lambda: with_names(
            flow_routing.common_routing_arrays(TWO_MATRICES), *flow_routing.common_routing_names(TWO_MATRICES)
        ),
        lambda: pyomo_networks.common_routing_pyomo(TWO_MATRICES),
    ),
    "common_routing/cap": (
        lambda: with_names(flow_routing.common_routing_arrays(CAPPED), *flow_routing.common_routing_names(CAPPED)),
        lambda: pyomo_networks.common_routing_pyomo(CAPPED),
    ),
    "bandwidth_allocation": (
        lambda: bandwidth_allocation.build_arrays(RATES),
        lambda: pyomo_networks.bandwidth_allocation_pyomo(RATES),
    ),
    "circulant_flow": (_circulant, lambda: pyomo_networks.circulant_flow_pyomo(LOAD, CAPACITY, CLASSES)),
    "allreduce_mix": (
        lambda: mixtures.allreduce_mix_arrays(MIX),
        lambda: pyomo_networks.allreduce_mix_pyomo(MIX),
    ),
    "allreduce_topology": (
        lambda: mixtures.allreduce_topology_arrays(MIXED_LINKS),
        lambda: pyomo_networks.allreduce_topology_pyomo(MIXED_LINKS),
    ),
    "hop_lp": (_hop_lp, lambda: pyomo_networks.hop_lp_pyomo(HOP)),
    **{
        f"joint_topology{option}": (
            lambda data=data: joint_arrays(data),
            lambda data=data: joint_topology.joint_topology_pyomo(data),
        )
        for option, data in {
            "": joint(),
            "/pairs": joint(bidirectional=True),
            "/kept": KEPT,
            "/hops": joint(max_hops=2),
            "/cuts": CUTS,
            "/bfs": joint(symmetry=Symmetry(bfs=True)),
            "/bfs-4": joint(4, symmetry=Symmetry(bfs=True)),
            "/classes": joint(symmetry=Symmetry(orders=((0, (1, 2)),))),
        }.items()
    },
    **{
        f"stage_order{option}": (
            lambda data=data: stage_arrays(data),
            lambda data=data: pyomo_placements.stage_order_pyomo(data),
        )
        for option, data in {
            "": POOL,
            "/gpipe": stages(gpipe=True),
            "/overlapped": stages(overlapped=True),
            "/interleaved": stages(slot_of_stage=(0, 1, 0, 1)),
            "/free": stages(slot_of_stage=None, order=np.empty((0, 2), dtype=np.int64)),
            "/whole": stages(whole=True, nets=(Net(1, (0,), 2000, 1),), net_ms=np.array([[2.0]]), upper=9.0, lower=3.0),
        }.items()
    },
}
"""Array builder (named) and Pyomo builder of the same data, by formulation and option."""


def rows_of(text: str, family: str) -> list[str]:
    """The rows of a family in LP text, each on one line."""
    _, body = text.split("Subject To\n")
    rows: list[str] = []
    for line in re.split(r"^(?:Bounds|End)$", body, flags=re.MULTILINE)[0].splitlines():
        if ":" in line:
            rows.append(line.strip())
        else:
            rows[-1] += " " + line.strip()
    wanted = re.compile(rf"_?{family}(_\d+)*(\.low|\.high)?:")
    return [row for row in rows if wanted.match(row)]
