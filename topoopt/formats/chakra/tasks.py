"""A job as the dependency graph of one of its ranks, for the kind `hierarchical-bandwidth`."""

from __future__ import annotations

import os
from pathlib import Path as FilePath
from typing import Any

from topoopt.core.errors import InputError, Problem
from topoopt.formats.chakra.content import NodeType
from topoopt.formats.chakra.graph import Spans, task_documents
from topoopt.formats.chakra.groups import Resolver, read_comm_groups
from topoopt.formats.chakra.hierarchy import coordinates, message_spans, name_of_spans, spans_of
from topoopt.formats.chakra.rank import read_rank
from topoopt.formats.chakra.stream import trace_files


def tasks_workload(
    path: str | os.PathLike[str],
    name: str,
    dims: tuple[int, ...],
    ranks: int,
    *,
    comm_groups: FilePath | None = None,
    peak_tflops: float | None = None,
    control: bool = True,
) -> tuple[dict[str, Any], list[str]]:
    """The workload of the first rank as it stands in an instance, and what was assumed.

    Raises:
        InputError: everything wrong with the trace, groups that are no product of coordinates.
    """
    rank, file = next(iter(trace_files(path).items()))
    trace = read_rank(file, rank, ranks)
    resolver = Resolver(ranks, {} if comm_groups is None else read_comm_groups(comm_groups, ranks), dims)
    places = coordinates(ranks, dims)

    def spans_of_node(node: Any, found: dict[str, Any]) -> Spans | None:
        if node.type == NodeType.COMM_SEND:
            return message_spans(rank, found["comm_dst"], places, dims)
        group, involved = found.get("pg_name"), tuple(bool(one) for one in found.get("involved_dim") or ())
        members = resolver.members(trace, None if group is None else str(group), involved, str(file))
        if resolver.problems:
            raise InputError(resolver.problems)
        spans = spans_of(members, places, dims) if len(members) > 1 else None
        if spans is None and len(members) > 1:
            allowed = "groups that are products of coordinates; other sizes or another order of the dimensions"
            shown = f"{members[:8]} of {len(members)}"
            raise InputError(
                [
                    Problem(
                        "a group that does not fit the dimensions", str(file), None, f"node {node.id}", shown, allowed
                    )
                ]
            )
        return spans

    tasks, used = task_documents(file, spans_of_node, peak_tflops=peak_tflops, control=control)
    notes = [f"the graph is that of rank {rank}; waiting for other ranks is not in it", *resolver.notes()]
    notes.append("the rank computes one node at a time, in topological order")
    if trace.host_us:
        notes.append(f"host operators ({trace.host_us / 1000:.6g} ms) take no time in the graph")
    workload = {
        "name": name[:200] or "trace",
        "communicators": {name_of_spans(spans): list(spans) for spans in sorted(used)},
        "tasks": tasks,
    }
    return workload, notes
