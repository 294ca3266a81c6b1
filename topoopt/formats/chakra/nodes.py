"""Nodes of Chakra execution traces, and files of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from topoopt.formats.chakra.content import CommType, Metadata, Node, NodeType, frame

VERSION = "0.0.4"
MAX_NODES = 2_000_000


def node(number: int, name: str, kind: NodeType, after: Iterable[int] = (), duration_us: int = 0) -> Any:
    """A node that runs on the accelerator; attributes are still to be added."""
    made = Node(id=number, name=name, type=kind, data_deps=list(after), duration_micros=duration_us)
    made.attr.add(name="is_cpu_op", bool_val=False)
    return made


def collective_node(
    number: int, name: str, kind: CommType, size_bytes: int, after: Iterable[int] = (), group: str | None = None
) -> Any:
    """A collective; no group: all ranks."""
    made = node(number, name, NodeType.COMM_COLL, after)
    made.attr.add(name="comm_type", int64_val=kind)
    made.attr.add(name="comm_size", int64_val=size_bytes)
    if group is not None:
        made.attr.add(name="pg_name", string_val=group)
    return made


def message_node(number: int, sends: bool, peer: int, tag: int, size_bytes: int, after: Iterable[int] = ()) -> Any:
    """One end of a message."""
    word, key = ("send to", "comm_dst") if sends else ("receive from", "comm_src")
    made = node(number, f"{word} {peer}", NodeType.COMM_SEND if sends else NodeType.COMM_RECV, after)
    made.attr.add(name="comm_size", int64_val=size_bytes)
    made.attr.add(name=key, int32_val=peer)
    made.attr.add(name="comm_tag", int32_val=tag)
    return made


def trace_bytes(nodes: Iterable[Any], version: str = VERSION) -> bytes:
    """File of one rank."""
    return b"".join((frame(Metadata(version=version)), *(frame(one) for one in nodes)))
