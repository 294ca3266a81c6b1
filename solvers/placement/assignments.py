"""All assignments of blocks to devices, cut off by what is known: exact where no two devices or links are alike.

A partial assignment (`partial_assignments`) is dropped if

* its busiest device alone, or work and transfers spread over all devices, are no better than the best known placement;
* a device lacks memory, or cannot run a block;
* no order of the devices (contiguous) or of their stages (interleaved) has every tensor run forwards;
* it uses a device before another one that is as good (not where devices have a fixed order).

The most promising are followed first. What is left when time is over bounds the optimum from below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from solvers.placement.partial_assignments import AssignmentTree, Partial
from solvers.placement.throughput import Positions, Search
from solvers.stop import Stop
from topoopt.core.placement import StageShape
from topoopt.core.verdict import StopReason

if TYPE_CHECKING:
    import networkx as nx

MOST_DEVICES = 8
"""Costs of a net are tabulated for all sets of devices."""

PIECE = 4096
"""Partial assignments extended at once."""

MOST_ROWS = 4_000_000
"""Partial assignments extended at most; 10 blocks on 4 devices have 1.4 million without any cut off."""

ROUNDING = 1e-12
"""What is not better by more than this part of the objective is not better."""


def _positions(tree: AssignmentTree, leaves: Partial, row: int) -> Positions:
    """A complete assignment as stages (slots of free sets) and groups of slots."""
    import networkx as nx

    device, stage = np.empty(tree.graph.size, dtype=np.int64), np.empty(tree.graph.size, dtype=np.int64)
    device[tree.order] = leaves.device[row]
    if tree.settings.stages is StageShape.INTERLEAVED:
        stage[tree.order] = leaves.stage[row]
        return Positions(stage, np.array(tree.group))
    if tree.settings.stages is StageShape.FREE:
        return Positions(device, np.array(tree.group))
    later: nx.DiGraph[int] = nx.DiGraph()
    used = set(device.tolist())
    later.add_nodes_from(range(tree.k))
    later.add_edges_from((d, e) for d in used for e in used if int(leaves.after[row, d]) >> e & 1)
    pipeline = list(nx.lexicographical_topological_sort(later, key=lambda d: (d not in used, d)))
    place = np.argsort(pipeline)
    return Positions(place[device], np.array([tree.group[d] for d in pipeline]))


def enumerate_assignments(search: Search, stop: Stop, most_rows: int = MOST_ROWS) -> tuple[float, StopReason]:
    """Offer the best of all assignments; a lower bound on the objective, and why it ended.

    The bound is the value of the best placement where all were looked at, infinite if there is none.
    """
    if search.graph.devices > MOST_DEVICES:
        return 0.0, StopReason.BUDGET
    tree = AssignmentTree(search.graph, search.settings)
    left, rows = [tree.root()], 0
    while left:
        reason = stop.reason() or (StopReason.BUDGET if rows >= most_rows else None)
        if reason is not None:
            return min([search.value, *(float(part.bound.min()) for part in left)]), reason
        part = left.pop()
        part = part.rows(part.bound < search.value * (1 - ROUNDING))
        rows += len(part.bound)
        part = tree.extended(part, search.value * (1 - ROUNDING))
        if not len(part.bound):
            continue
        if part.device.shape[1] == search.graph.size:
            search.offer(_positions(tree, part, int(np.argmin(part.bound))))
            continue
        part = part.rows(np.argsort(-part.bound, kind="stable"))
        left += [part.rows(slice(i, i + PIECE)) for i in range(0, len(part.bound), PIECE)]
    return search.value, StopReason.CONVERGED
