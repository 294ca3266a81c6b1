"""How much waiting jobs that are placed together can be worth at most, by counting servers; found anew by the checker.

An interface whose arcs join all ranks keeps them under one switch of its plane, whichever plane that is. When every job
has m such interfaces, and any m planes cut the servers into the same pieces, no job leaves a piece: each piece is a
knapsack. Else all free servers are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from topoopt.core.arrays import Bools, Int32s, Ints
from topoopt.core.cluster import OpticalLayer, ShardShape

MOST_SETS = 5000
"""Sets of planes compared; with more of them the servers count as one piece."""


def placing_bound(layer: OpticalLayer, free: Bools, shapes: Sequence[ShardShape], worth: Sequence[float]) -> float:
    """No shards side by side on free servers are worth more.

    Args:
        layer: the switches.
        free: bool[n].
        shapes: of the jobs.
        worth: of placing each.
    """
    whole = min((_joining_all(shape.arcs) for shape in shapes), default=0)
    pieces = _pieces(layer.switch_of, whole)
    rooms = np.bincount(pieces[free], minlength=1).tolist()
    jobs = [(shape.servers, gain) for shape, gain in zip(shapes, worth, strict=True)]
    values = {room: _most(jobs, room) for room in set(rooms)}
    return float(sum(values[room] for room in rooms))


def _joining_all(arcs: Int32s) -> int:
    """Interfaces along whose arcs every rank reaches every other, directions left aside."""
    count = 0
    for row in arcs.tolist():
        near: list[list[int]] = [[] for _ in row]
        for rank, target in enumerate(row):
            if target >= 0:
                near[rank].append(target)
                near[target].append(rank)
        seen, todo = {0}, [0]
        while todo:
            for rank in near[todo.pop()]:
                if rank not in seen:
                    seen.add(rank)
                    todo.append(rank)
        count += len(seen) == len(row) > 1
    return count


def _pieces(switch_of: Int32s, whole: int) -> Ints:
    """int64[n]: pieces that any `whole` planes cut the servers into; all 0 if they cut them differently."""
    one = np.zeros(switch_of.shape[1], dtype=np.int64)
    first: Ints | None = None
    for number, planes in enumerate(combinations(range(len(switch_of)), whole) if whole else ()):
        names: dict[tuple[int, ...], int] = {}
        columns = map(tuple, switch_of[list(planes)].T.tolist())
        piece = np.array([names.setdefault(column, len(names)) for column in columns], dtype=np.int64)
        if number >= MOST_SETS or (first is not None and (piece != first).any()):
            return one
        first = piece
    return one if first is None else first


def _most(jobs: Sequence[tuple[int, float]], room: int) -> float:
    """Largest worth of jobs that together take no more than so many servers."""
    best = {0: 0.0}
    for servers, gain in jobs:
        for taken, value in list(best.items()):
            more = taken + servers
            if more <= room and best.get(more, -1.0) < value + gain:
                best[more] = value + gain
    return max(best.values())
