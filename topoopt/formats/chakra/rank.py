"""One rank's execution trace, added up while it streams past."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from topoopt.core.errors import InputError, Problem
from topoopt.files.faults import value_text
from topoopt.formats.chakra.content import CommType, NodeType
from topoopt.formats.chakra.fields import FIELDS, LeftOver
from topoopt.formats.chakra.stream import read_trace

MAX_BYTES = 1 << 53
"""Largest size of one message; larger ones are not exact as floats."""

SHOWN = 20

Call = tuple[CommType, str | None, tuple[bool, ...], int]
"""Collective, name of the process group, involved dimensions (empty: not said), bytes."""


@dataclass
class RankTrace:
    """What one rank does.

    Attributes:
        rank: its number.
        nodes: in the file.
        calls: how often it takes part in equal collectives.
        sent, received: bytes by peer.
        compute_us: time of compute nodes that are no host operators.
        host_us: time of compute nodes that are host operators.
        operations: of compute nodes without a time.
        groups: process groups it names itself; empty ranks mean all.
        unsized: communication nodes without a size.
        launches: communication nodes of the host that state one.
        left_over: what is not used.
    """

    rank: int
    left_over: LeftOver
    nodes: int = 0
    calls: Counter[Call] = field(default_factory=Counter)
    sent: Counter[int] = field(default_factory=Counter)
    received: Counter[int] = field(default_factory=Counter)
    compute_us: int = 0
    host_us: int = 0
    operations: float = 0.0
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    unsized: int = 0
    launches: int = 0


def attributes(node: Any) -> dict[str, Any]:
    """Attributes of a node by name; lists as lists, None where a value is missing."""
    found: dict[str, Any] = {}
    for attribute in node.attr:
        kind = attribute.WhichOneof("value")
        value: Any = getattr(attribute, kind) if kind else None
        found[attribute.name] = list(value.values) if kind and kind.endswith("_list") else value
    return found


def host_operator(node: Any) -> bool:
    """Whether a node runs on the host and only launches work."""
    return any(attribute.name == "is_cpu_op" and _truth(attribute) for attribute in node.attr)


def _truth(attribute: Any) -> bool:
    kind = attribute.WhichOneof("value")
    return bool(kind) and not kind.endswith("_list") and bool(getattr(attribute, kind))


def operations_of(node: Any) -> float:
    """Operations a compute node states, 0 if none."""
    value = attributes(node).get("num_ops")
    return float(value) if isinstance(value, int | float) and 0 < value < float("inf") else 0.0


def process_groups(node: Any) -> dict[str, tuple[int, ...]]:
    """Process groups that a PyTorch metadata node states as JSON inside its inputs; none if there are none."""
    text = node.inputs.values
    if "pg_name" not in text:
        return {}
    begin = re.search(r"\[\s*\{", text)
    end = text.find("]", text.rfind("}"))
    if begin is None or end < begin.start():
        return {}
    listed = text[begin.start() : end + 1]
    for candidate in (listed, listed.replace('\\"', '"')):
        try:
            entries = json.loads(candidate)
            return {str(entry["pg_name"]): _ranks(entry.get("ranks", [])) for entry in entries if "pg_name" in entry}
        except (ValueError, TypeError, AttributeError, RecursionError):
            continue
    return {}


def _ranks(listed: object) -> tuple[int, ...]:
    """Ranks of a group, ascending; a list of whole numbers, or a mapping from them."""
    if not isinstance(listed, Sequence | Mapping) or isinstance(listed, str):
        raise TypeError("not a list of ranks")
    return tuple(sorted({int(rank) for rank in listed}))


class _Faults:
    """What is wrong with the nodes of one file."""

    def __init__(self, file: FilePath) -> None:
        self.file, self.count, self.problems = file, 0, list[Problem]()

    def add(self, node: Any, message: str, value: object, allowed: str) -> None:
        self.count += 1
        if self.count <= SHOWN:
            where = f"node {node.id}"
            self.problems.append(Problem(message, str(self.file), None, where, value_text(value), allowed))

    def refuse(self) -> None:
        if self.count > SHOWN:
            self.problems.append(Problem(f"{self.count - SHOWN} further nodes are wrong", str(self.file)))
        if self.problems:
            raise InputError(self.problems)


def _whole(node: Any, found: Mapping[str, Any], key: str, most: int, faults: _Faults) -> int | None:
    """A whole number 0..most, None with a fault if it is none."""
    value = found.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most:
        return value
    faults.add(node, f"{key} is not usable", value, f"a whole number 0 to {most}")
    return None


def _communication(node: Any, trace: RankTrace, ranks: int, faults: _Faults) -> None:
    found = attributes(node)
    if found.get("is_cpu_op"):
        trace.launches += bool(found.get("comm_size"))
        return
    if found.get("comm_size") is None:
        trace.unsized += node.type != NodeType.COMM_COLL or found.get("comm_type") != CommType.BARRIER
        return
    size = _whole(node, found, "comm_size", MAX_BYTES, faults)
    if node.type == NodeType.COMM_COLL:
        kind = _whole(node, found, "comm_type", max(CommType), faults)
        group = found.get("pg_name")
        involved = found.get("involved_dim") or []
        if size is not None and kind is not None:
            dims = tuple(bool(value) for value in involved) if isinstance(involved, list) else ()
            trace.calls[CommType(kind), None if group is None else str(group), dims, size] += 1
        return
    sends = node.type == NodeType.COMM_SEND
    peer = _whole(node, found, "comm_dst" if sends else "comm_src", ranks - 1, faults)
    if peer == trace.rank:
        faults.add(node, "a message of a rank to itself", peer, "another rank")
    elif size is not None and peer is not None:
        (trace.sent if sends else trace.received)[peer] += size


def read_rank(file: FilePath, rank: int, ranks: int) -> RankTrace:
    """Add up one file.

    Args:
        file: trace of the rank.
        rank: its number.
        ranks: n, for the range of peers.

    Raises:
        InputError: not a readable trace, and every node whose numbers cannot be used.
    """
    left_over = LeftOver(file, FIELDS)
    trace, faults = RankTrace(rank, left_over), _Faults(file)
    nodes = read_trace(file)
    left_over.metadata(next(nodes))
    for node in nodes:
        trace.nodes += 1
        left_over.node(node)
        kind = node.type
        if kind == NodeType.COMP:
            if host_operator(node):
                trace.host_us += node.duration_micros
            elif node.duration_micros:
                trace.compute_us += node.duration_micros
            else:
                trace.operations += operations_of(node)
        elif kind in (NodeType.COMM_COLL, NodeType.COMM_SEND, NodeType.COMM_RECV):
            _communication(node, trace, ranks, faults)
        elif kind == NodeType.METADATA:
            trace.groups.update(process_groups(node))
    if trace.compute_us >= 1 << 53:
        raise InputError([Problem("the compute times add up to more than 2^53 us", file=str(file))])
    faults.refuse()
    return trace
