"""Networks by the names of TE-CCL, nodes numbered as there, so that its schedules are about them; roles set right.

There NDv2 of two chassis has node 0 as a switch though none is, AMD of several has switch numbers off by one and GPU
rates at the first leaf, and Mesh joins the ends of rows; here GPUs are ranks, leaves are switches, rows end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from topoopt.core.rated_network import MI250

NDV2 = (
    (0, 1, 2), (0, 2, 1), (0, 3, 1), (0, 4, 2), (1, 2, 1), (1, 3, 2), (1, 5, 1), (2, 3, 2), (2, 6, 2), (3, 7, 1),
    (4, 5, 2), (4, 6, 1), (4, 7, 1), (5, 6, 1), (5, 7, 2), (6, 7, 2),
)  # fmt: skip
"""NVLinks (25 GB/s) of a chassis and of its DGX1 in the numbering of TE-CCL, not that of a DGX-1: ends, number."""

Row = tuple[int, int, float]


@dataclass(frozen=True)
class PeerMachine:
    """Links (tail, head, GB/s), number of nodes, which are switches, and the least latency of a link, us."""

    links: tuple[Row, ...]
    nodes: int
    switches: tuple[int, ...]
    latency_us: float


def _both(rows: list[Row]) -> list[Row]:
    return rows + [(head, tail, rate) for tail, head, rate in rows]


def _ndv2(chassis: int, side: int) -> PeerMachine:
    """Two chassis: links 0 -> 9 and 8 -> 1; more: a switch 0 that GPU 0 of each sends to and GPU 1 receives from."""
    first = 0 if chassis <= 2 else 1
    inside = [
        (first + 8 * box + one, first + 8 * box + other, 25.0 * count)
        for box in range(chassis)
        for one, other, count in NDV2
    ]
    rows = _both(inside)
    if chassis == 2:
        rows += [(0, 9, 12.5), (8, 1, 12.5)]
    elif chassis > 2:
        rows += [row for box in range(chassis) for row in ((8 * box + 1, 0, 12.5), (0, 8 * box + 2, 12.5))]
    return PeerMachine(tuple(rows), 8 * chassis + first, (0,) if first else (), 0.7)


def _dgx1(chassis: int, side: int) -> PeerMachine:
    """One box whatever is asked for, with the same NVLinks as a chassis of NDv2."""
    return PeerMachine(tuple(_both([(one, other, 25.0 * count) for one, other, count in NDV2])), 8, (), 0.0)


def _dgx2(chassis: int, side: int) -> PeerMachine:
    """Two chassis whatever is asked for: NVSwitches 0 and 17, odd GPUs to even ones of the other."""
    rows = _both([(17 * box + 1 + gpu, 17 * box, 125.0) for box in range(2) for gpu in range(16)])
    rows += [(17 * box + 2 + 2 * k, 17 * (1 - box) + 1 + 2 * k, 12.5) for box in range(2) for k in range(8)]
    return PeerMachine(tuple(rows), 34, (0, 17), 0.35)


def _amd(chassis: int, side: int) -> PeerMachine:
    """Sixteen dies a chassis; several: a leaf switch for every two, all at a spine, which is node 0."""
    if chassis == 1:
        return PeerMachine(tuple(_both([(one, other, 50.0 * count) for one, other, count in MI250])), 16, (), 0.0)
    rows: list[Row] = []
    leaves = []
    for box in range(chassis):
        first = 1 + 24 * box
        rows += [(first + one, first + other, 50.0 * count) for one, other, count in MI250]
        for pair in range(8):
            leaf = first + 16 + pair
            leaves.append(leaf)
            rows += [(first + 2 * pair, leaf, 25.0), (first + 2 * pair + 1, leaf, 25.0), (leaf, 0, 25.0)]
    return PeerMachine(tuple(_both(rows)), 1 + 24 * chassis, (0, *leaves), 0.0)


def _mesh(chassis: int, side: int) -> PeerMachine:
    """A square without links across the ends of rows."""
    across = [(side * i + j, side * i + j + 1, 100.0) for i in range(side) for j in range(side - 1)]
    down = [(side * i + j, side * (i + 1) + j, 100.0) for i in range(side - 1) for j in range(side)]
    return PeerMachine(tuple(_both([*across, *down])), side * side, (), 0.0)


MACHINES: Mapping[str, Callable[[int, int], PeerMachine]] = {
    "DGX1": _dgx1,
    "NDv2": _ndv2,
    "DGX2": _dgx2,
    "AMD": _amd,
    "Mesh": _mesh,
}
"""Name -> network of so many chassis; of a mesh, nodes a side."""

FIXED_CHASSIS: Mapping[str, int] = {"DGX1": 1, "DGX2": 2, "Mesh": 1}
"""Those that are of so many chassis whatever is asked for."""
