"""Execution traces to workloads of the kind `hierarchical-bandwidth`: collectives by the dimensions their groups span.

Rank r has coordinate r // (n_1 ... n_{i-1}) modulo n_i in dimension i. A group is a communicator when it is a product
of coordinates. Equal (communicator, collective) pairs add up, since their times do (sizes are homogeneous); of groups
side by side the busiest rank counts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.errors import InputError, Problem
from topoopt.formats.chakra.content import CommType
from topoopt.formats.chakra.trace_content import TraceContent

Coordinates = Ints
Spans = tuple[int, ...]
"""Ranks of a group in each dimension."""

COLLECTIVES = {
    CommType.ALL_REDUCE: ("all-reduce", 1.0),
    CommType.ALL_GATHER: ("all-gather", 1.0),
    CommType.REDUCE_SCATTER: ("reduce-scatter", 1.0),
    CommType.REDUCE_SCATTER_BLOCK: ("reduce-scatter", 1.0),
    CommType.ALL_TO_ALL: ("all-to-all", 1.0),
    CommType.BROADCAST: ("all-reduce", 0.5),  # a chain sends the buffer once, an all-reduce nearly twice
}


def coordinates(ranks: int, dims: tuple[int, ...]) -> Coordinates:
    """int64[n, D], coordinates of every rank, dimension 1 fastest."""
    places = np.unravel_index(np.arange(ranks), dims, order="F")
    return np.column_stack(places).astype(np.int64)


def spans_of(members: tuple[int, ...], places: Coordinates, dims: tuple[int, ...]) -> Spans | None:
    """Ranks of a group in each dimension, None if the group is no product of coordinates that divide the sizes."""
    own = places[list(members)]
    spans = tuple(len(np.unique(column)) for column in own.T)
    whole = math.prod(spans) == len(members)
    return spans if whole and all(size % span == 0 for span, size in zip(spans, dims, strict=True)) else None


def name_of_spans(spans: Spans) -> str:
    """Name of a communicator: `16x1x1`."""
    return "x".join(str(span) for span in spans)


def message_spans(source: int, target: int, places: Coordinates, dims: tuple[int, ...]) -> Spans:
    """Dimensions a message between two ranks passes, with their whole size."""
    differ = places[source] != places[target]
    return tuple(size if passes else 1 for size, passes in zip(dims, differ, strict=True))


def layers_workload(
    content: TraceContent, dims: tuple[int, ...], compute_ns: float
) -> tuple[dict[str, Any], list[str]]:
    """A workload without overlap (all compute, then every collective), as it stands in an instance, and notes.

    Raises:
        InputError: groups that are no product of coordinates.
    """
    places = coordinates(content.ranks, dims)
    volume: dict[tuple[Spans, str], Any] = defaultdict(lambda: np.zeros(content.ranks))
    notes, problems = ["without overlap: all compute of the busiest rank, then every collective"], []
    for use in content.uses:
        if use.collective is CommType.BARRIER or not use.size_bytes or len(use.members) == 1:
            continue
        spans = spans_of(use.members, places, dims)
        name, factor = COLLECTIVES[use.collective]
        if spans is None:
            shown = str(use.members[:12])[:-1] + (", ...)" if len(use.members) > 12 else ")")
            allowed = "groups that are products of coordinates; other sizes or another order of the dimensions"
            problems.append(
                Problem("a group that does not fit the dimensions", path="dims", value=shown, allowed=allowed)
            )
            continue
        volume[spans, name][list(use.members)] += factor * use.size_bytes * np.array(use.calls)
    if problems:
        raise InputError(
            [*problems[:20], *([Problem(f"{len(problems) - 20} further groups")] if len(problems) > 20 else [])]
        )
    if any(use.collective is CommType.BROADCAST for use in content.uses):
        notes.append("a broadcast counts as an all-reduce of half its bytes")
    for source, target in np.argwhere(content.sent_bytes > 0).tolist():
        spans = message_spans(source, target, places, dims)
        volume[spans, "point-to-point"][source] += content.sent_bytes[source, target]
    if content.sent_bytes.any():
        notes.append("messages between two ranks pass every dimension in which the ranks differ")
    if any(len(use.members) == 1 for use in content.uses):
        notes.append("collectives of a single rank are left out")
    collectives = [
        {"collective": name, "bytes": float(amounts.max()), "communicator": name_of_spans(spans)}
        for (spans, name), amounts in sorted(volume.items(), key=lambda item: item[0])
    ]
    layer = {"name": "iteration", "forward": {"compute_ns": compute_ns, "collectives": collectives}}
    workload = {
        "name": content.name[:200] or "trace",
        "communicators": {name_of_spans(spans): list(spans) for spans, _ in sorted(volume)},
        "layers": [layer],
    }
    return workload, notes


def hierarchical_document(
    name: str, dimensions: list[dict[str, Any]], total_gbytes_per_s: float, workload: dict[str, Any]
) -> dict[str, Any]:
    """Instance of kind `hierarchical-bandwidth` for one workload."""
    return {
        "schema_version": 1,
        "kind": "hierarchical-bandwidth",
        "name": name,
        "network": {"dimensions": dimensions, "total_gbytes_per_s": total_gbytes_per_s},
        "workloads": [workload],
    }
