"""How bytes travel: AllReduce rings and schedules, and routes of model-parallel traffic."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass

import numpy as np

from topoopt.core.group_schedule import BREADTH_FIRST, FEWEST_STEPS, TREES, GroupSchedule
from topoopt.core.job_solution import JobSolution
from topoopt.core.routing import GroupRings, Ring
from topoopt.drawing.format import byte_size, counted, number, percent, server_set

LISTED_JUMPS = 4


def _jump(step: int, n: int) -> str:
    step %= n
    return f"+{step}" if 2 * step <= n else f"−{n - step}"


def ring_text(ring: Ring, n: int) -> str:
    """Offsets between neighbours of a ring, and the hops that realise them: `+5`, `+6 (+1 +5)`."""
    k = len(ring.order)
    steps = Counter(_jump(ring.order[(i + 1) % k] - ring.order[i], n) for i in range(k))
    listed = ", ".join(
        text if len(steps) == 1 else f"{text} ×{count}" for text, count in steps.most_common(LISTED_JUMPS)
    )
    if len(steps) > LISTED_JUMPS:
        listed += ", …"
    patterns = {tuple(_jump(b - a, n) for a, b in itertools.pairwise(path)) for path in ring.paths}
    hops = [len(path) - 1 for path in ring.paths]
    if max(hops, default=0) <= 1:
        return listed
    if len(patterns) == 1:
        return f"{listed} ({' '.join(next(iter(patterns)))})"
    return f"{listed} ({number(sum(hops) / len(hops))} hops on average)"


@dataclass(frozen=True)
class GroupScheduleRow:
    """A schedule: its group, the payloads it is for, how it was made, and its steps."""

    size: int
    members: str
    payloads: str
    method: str
    steps: int


METHOD_NAMES = {TREES: "trees", BREADTH_FIRST: "breadth-first broadcast", FEWEST_STEPS: "whole shards in fewest steps"}


def schedule_rows(solution: JobSolution) -> tuple[GroupScheduleRow, ...]:
    """One row for each schedule, as in the plan."""

    def payloads(one: GroupSchedule) -> str:
        if one.below_bytes is None:
            return f"from {byte_size(one.from_bytes)}" if one.from_bytes else "all"
        return f"{byte_size(one.from_bytes)} to below {byte_size(one.below_bytes)}"

    def method(one: GroupSchedule) -> str:
        name = METHOD_NAMES.get(one.method, one.method)
        return name if one.pieces == 1 else f"{name}, {counted(one.pieces, 'piece')} a block"

    n = solution.cluster.servers
    return tuple(
        GroupScheduleRow(len(one.members), server_set(one.members, n), payloads(one), method(one), one.steps)
        for one in solution.plan.schedules
    )


@dataclass(frozen=True)
class RingRow:
    """AllReduce groups of equal size whose rings look the same."""

    groups: str
    size: int
    members: str
    payload: str
    rings: tuple[str, ...]


def ring_rows(solution: JobSolution) -> tuple[RingRow, ...]:
    """Rows by group size, largest first."""
    n = solution.cluster.servers
    payload: dict[tuple[int, ...], float] = {}
    for wanted in solution.demand.allreduce:
        payload[wanted.members] = payload.get(wanted.members, 0.0) + wanted.payload_bytes
    alike: dict[tuple[int, tuple[str, ...]], list[GroupRings]] = {}
    for group in solution.plan.rings:
        texts = tuple(f"{ring_text(ring, n)}, carries {percent(ring.share)}" for ring in group.rings)
        alike.setdefault((len(group.members), texts), []).append(group)
    rows = []
    for (size, texts), groups in sorted(alike.items(), key=lambda item: (-item[0][0], item[1][0].members)):
        sizes = [payload.get(group.members, 0.0) for group in groups]
        each = " each" if len(groups) > 1 else ""
        amount = byte_size(max(sizes))
        if min(sizes) < max(sizes):
            amount = f"{byte_size(min(sizes))} to {amount}"
        rows.append(
            RingRow(
                groups=counted(len(groups), "group"),
                size=size,
                members=server_set(groups[0].members, n) + (f", and {len(groups) - 1} more" if len(groups) > 1 else ""),
                payload=amount + each,
                rings=texts,
            )
        )
    return tuple(rows)


@dataclass(frozen=True)
class PathLengthRow:
    """Model-parallel traffic by path length."""

    hops: int
    paths: int
    size: str
    share: str
    width: str


@dataclass(frozen=True)
class RoutesTable:
    """Summary of the routes of model-parallel traffic."""

    pairs: int
    text: str
    rows: tuple[PathLengthRow, ...]


def route_summary(solution: JobSolution) -> RoutesTable:
    """Pairs, splits, and bytes by number of hops."""
    table = solution.plan.routes
    pairs, paths = len(table.source), len(table.share)
    if not pairs:
        return RoutesTable(0, "No routes: there is no model-parallel traffic.", ())
    per_pair = np.diff(table.pair_ptr)
    hops = np.diff(table.path_ptr) - 1
    demand = solution.demand.model_parallel_bytes[table.source, table.target]
    carried = np.repeat(demand, per_pair) * table.share
    total = float(carried.sum())
    split = int(np.count_nonzero(per_pair > 1))
    mean = float((carried * hops).sum() / total) if total > 0 else float(hops.mean())
    text = (
        f"{counted(pairs, 'ordered pair')} over {counted(paths, 'path')}; {counted(split, 'pair')} split over several. "
    )
    text += f"A byte takes {number(mean)} hops on average, at most {int(hops.max())}."
    count, volume = np.bincount(hops), np.bincount(hops, weights=carried)
    largest = float(volume.max())
    rows = tuple(
        PathLengthRow(
            hops=hop,
            paths=int(count[hop]),
            size=byte_size(float(volume[hop])),
            share=percent(float(volume[hop]) / total if total > 0 else 0.0),
            width=f"{100 * float(volume[hop]) / largest:.2f}%" if largest > 0 else "0%",
        )
        for hop in range(len(count))
        if count[hop]
    )
    return RoutesTable(pairs, text, rows)
