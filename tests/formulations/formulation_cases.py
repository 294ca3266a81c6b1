"""Tiny data of every formulation, for the golden rows and for the two builders of each."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from formulations import (
    circulant_flow,
    concurrent_flow,
    concurrent_flow_hops,
    hop_lp,
    hop_lp_pyomo,
    joint_topology_pyomo,
    path_split,
)
from formulations.arrays import LpArrays, with_names
from formulations.concurrent_flow import ConcurrentFlow
from formulations.hop_lp import HopLp
from formulations.joint_topology import JointTopology, Symmetry
from formulations.joint_topology_arrays import build_arrays as joint_arrays
from formulations.path_split import PathSplit


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


def _flow() -> LpArrays:
    return with_names(concurrent_flow.build_arrays(RING), *concurrent_flow.names_of(RING))


def _hops() -> LpArrays:
    return with_names(concurrent_flow_hops.build_arrays(RING, 2), *concurrent_flow_hops.names_of(RING, 2))


def _split() -> LpArrays:
    return with_names(path_split.build_arrays(SPLIT), *path_split.names_of(SPLIT))


def _circulant() -> LpArrays:
    return with_names(circulant_flow.build_arrays(LOAD, CAPACITY), *circulant_flow.names_of(CLASSES, 2))


def _hop_lp() -> LpArrays:
    return with_names(hop_lp.build_arrays(HOP), *hop_lp.names_of(HOP))


PROGRAMS: dict[str, tuple[Callable[[], LpArrays], Callable[[], Any]]] = {
    "concurrent_flow": (_flow, lambda: concurrent_flow.build_pyomo(RING)),
    "concurrent_flow_hops": (_hops, lambda: concurrent_flow_hops.build_pyomo(RING, 2)),
    "path_split": (_split, lambda: path_split.build_pyomo(SPLIT)),
    "circulant_flow": (_circulant, lambda: circulant_flow.build_pyomo(LOAD, CAPACITY, CLASSES)),
    "hop_lp": (_hop_lp, lambda: hop_lp_pyomo.build_pyomo(HOP)),
    **{
        f"joint_topology{option}": (
            lambda data=data: joint_arrays(data),
            lambda data=data: joint_topology_pyomo.build_pyomo(data),
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
