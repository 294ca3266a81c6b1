"""Communication of a job as Chakra execution traces: one file a server.

Every server computes its operators (forward in order, backward in reverse), then exchanges its model-parallel bytes
and takes part in the AllReduces of its groups.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from topoopt.core.result import Result
from topoopt.formats.chakra import training_write
from topoopt.formats.chakra.content import CommType, NodeType
from topoopt.formats.chakra.nodes import MAX_NODES, collective_node, message_node, node, trace_bytes
from topoopt.formats.chakra.trace_content import CollectiveUse, TraceContent
from topoopt.formats.exporter import (
    NOTES_FILE,
    Export,
    Exporter,
    ExportOptions,
    json_bytes,
    notes_bytes,
    plain_name,
    refuse,
)

LIMITS = (
    "communication follows all compute of a server: solutions do not keep which operator waits for which message",
    "compute times are whole microseconds; the AllReduces of a group are added up",
    "routes, rings and the topology are not part of a trace: export them with --to astrasim or --to graphml",
)


class _Rank:
    """Nodes of one server."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.compute_us = 0

    def compute(self, name: str, time_ms: float) -> None:
        """A compute node after the one before."""
        duration = round(time_ms * 1000.0)
        if duration:
            after = [len(self.nodes) - 1] if self.nodes else []
            self.nodes.append(node(len(self.nodes), name, NodeType.COMP, after, duration))
            self.compute_us += duration


def _computed(solution: Result[Any, Any]) -> list[_Rank]:
    """Compute of every server."""
    operators = solution.figures.operators
    ranks = [_Rank() for _ in range(solution.plan.topology.servers)]
    for choice in operators:
        for server in choice.servers:
            ranks[server].compute(f"{choice.name} forward", choice.forward_ms)
    for choice in reversed(operators):
        for server in choice.servers:
            ranks[server].compute(f"{choice.name} backward", choice.backward_ms)
    return ranks


def build(solution: Result[Any, Any], options: ExportOptions) -> Export:
    """Traces of all servers and the groups of their collectives; of a language model those of ranks.

    Raises:
        InputError: too many messages, or what traces of training cannot say.
    """
    if solution.kind == "llm-training":
        return training_write.build(solution, options)
    n, demand = solution.plan.topology.servers, solution.figures.demand
    sent = np.ceil(demand.model_parallel_bytes).astype(np.int64)
    groups = [one for one in demand.allreduce if one.payload_bytes > 0]
    count = 2 * np.count_nonzero(sent) + sum(len(one.members) for one in groups)
    if count > MAX_NODES:
        raise refuse("too many messages for traces", value=count, allowed=f"at most {MAX_NODES}")
    ranks = _computed(solution)
    computed = [len(rank.nodes) for rank in ranks]

    def after(server: int) -> list[int]:
        return [computed[server] - 1] if computed[server] else []

    for source, target in np.argwhere(sent > 0).tolist():
        size, tag = int(sent[source, target]), source * n + target
        for server, peer, sends in ((source, target, True), (target, source, False)):
            nodes = ranks[server].nodes
            nodes.append(message_node(len(nodes), sends, peer, tag, size, after(server)))
    named: dict[str, list[int]] = {}
    calls: dict[tuple[tuple[int, ...], int], int] = {}
    for one in groups:
        members, size = tuple(sorted(one.members)), math.ceil(one.payload_bytes)
        group = None if len(members) == n else str(len(named) + 1)
        if group is not None:
            named[group] = list(members)
        calls[members, size] = calls.get((members, size), 0) + 1
        for server in members:
            nodes = ranks[server].nodes
            name = f"all-reduce of {len(members)}"
            nodes.append(collective_node(len(nodes), name, CommType.ALL_REDUCE, size, after(server), group))
    if not any(rank.nodes for rank in ranks):
        raise refuse("nothing takes a microsecond or sends anything", allowed="a plan that computes or communicates")
    prefix = plain_name(solution.name)
    traces = [(f"{prefix}.{server}.et", trace_bytes(rank.nodes)) for server, rank in enumerate(ranks)]
    content = TraceContent(
        prefix,
        n,
        sum(len(rank.nodes) for rank in ranks),
        tuple(
            CollectiveUse(CommType.ALL_REDUCE, members, size, (times,) * len(members))
            for (members, size), times in sorted(calls.items())
        ),
        sent,
        np.array([rank.compute_us for rank in ranks], dtype=np.int64),
        np.zeros(n),
    )
    title = f"{n} servers as Chakra execution traces: {prefix}.RANK.et, groups in comm_groups.json"
    files = (*traces, ("comm_groups.json", json_bytes(named)), (NOTES_FILE, notes_bytes(title, LIMITS)))
    return Export(files, content.comparable(), LIMITS)


EXPORTER = Exporter(
    kinds=("co-optimisation", "llm-training"),
    makes="one trace a server, of training a rank (PREFIX.RANK.et; --ranks), and comm_groups.json",
    limits=(*LIMITS, *training_write.LIMITS),
    folder=True,
    build=build,
    told=("llm-training",),
)
