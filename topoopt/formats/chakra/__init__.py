"""Chakra execution traces (mlcommons/chakra 1.0.0) are streams of protobuf messages, one file a rank."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from topoopt.core.arrays import Floats, Ints

PACKAGE = "topoopt.chakra"
MAX_MESSAGE_BYTES = 1 << 26
"""A node is a few hundred bytes; a longer claim than this is a damaged file."""

MAX_LENGTH_BYTES = 10
"""Bytes of the longest varint of 64 bits."""

_Field = descriptor_pb2.FieldDescriptorProto
_OPTIONAL, _REPEATED = _Field.LABEL_OPTIONAL, _Field.LABEL_REPEATED

KINDS_OF_VALUE = (
    ("double", _Field.TYPE_DOUBLE, 3),
    ("float", _Field.TYPE_FLOAT, 5),
    ("int32", _Field.TYPE_INT32, 7),
    ("int64", _Field.TYPE_INT64, 9),
    ("uint32", _Field.TYPE_UINT32, 11),
    ("uint64", _Field.TYPE_UINT64, 13),
    ("sint32", _Field.TYPE_SINT32, 15),
    ("sint64", _Field.TYPE_SINT64, 17),
    ("fixed32", _Field.TYPE_FIXED32, 19),
    ("fixed64", _Field.TYPE_FIXED64, 21),
    ("sfixed32", _Field.TYPE_SFIXED32, 23),
    ("sfixed64", _Field.TYPE_SFIXED64, 25),
    ("bool", _Field.TYPE_BOOL, 27),
    ("string", _Field.TYPE_STRING, 29),
    ("bytes", _Field.TYPE_BYTES, 31),
)
"""Name, protobuf type and number of every kind of attribute value; the list of the kind has the next number."""


class NodeType(IntEnum):
    """What a node is."""

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7


class CommType(IntEnum):
    """Collective of a COMM_COLL node."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


def _message(file: Any, name: str, fields: Iterable[tuple[str, int, int, int, str]]) -> Any:
    message = file.message_type.add(name=name)
    for field, number, kind, label, of in fields:
        added = message.field.add(name=field, number=number, type=kind, label=label)
        if of:
            added.type_name = f".{PACKAGE}.{of}"
    return message


def _describe() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="topoopt/chakra.proto", package=PACKAGE, syntax="proto3")
    text, whole, nested = _Field.TYPE_STRING, _Field.TYPE_UINT64, _Field.TYPE_MESSAGE
    attribute = _message(file, "Attribute", (("name", 1, text, _OPTIONAL, ""), ("doc", 2, text, _OPTIONAL, "")))
    attribute.oneof_decl.add(name="value")
    for name, kind, number in KINDS_OF_VALUE:
        _message(file, f"{name.capitalize()}List", (("values", 1, kind, _REPEATED, ""),))
        attribute.field.add(name=f"{name}_val", number=number, type=kind, label=_OPTIONAL, oneof_index=0)
        attribute.field.add(
            name=f"{name}_list",
            number=number + 1,
            type=nested,
            label=_OPTIONAL,
            oneof_index=0,
            type_name=f".{PACKAGE}.{name.capitalize()}List",
        )
    _message(file, "Metadata", (("version", 1, text, _OPTIONAL, ""), ("attr", 2, nested, _REPEATED, "Attribute")))
    _message(
        file, "Values", tuple((key, k, text, _OPTIONAL, "") for k, key in enumerate(("values", "shapes", "types"), 1))
    )
    _message(
        file,
        "Node",
        (
            ("id", 1, whole, _OPTIONAL, ""),
            ("name", 2, text, _OPTIONAL, ""),
            ("type", 3, _Field.TYPE_INT32, _OPTIONAL, ""),
            ("ctrl_deps", 4, whole, _REPEATED, ""),
            ("data_deps", 5, whole, _REPEATED, ""),
            ("start_time_micros", 6, whole, _OPTIONAL, ""),
            ("duration_micros", 7, whole, _OPTIONAL, ""),
            ("inputs", 8, nested, _OPTIONAL, "Values"),
            ("outputs", 9, nested, _OPTIONAL, "Values"),
            ("attr", 10, nested, _REPEATED, "Attribute"),
        ),
    )
    return file


_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_describe())


def _type(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


Metadata: Any = _type("Metadata")
"""{version, attr}"""

Node: Any = _type("Node")
"""{id, name, type, ctrl_deps, data_deps, start_time_micros, duration_micros, inputs, outputs, attr}; attributes have
`name` and one of `<kind>_val` and `<kind>_list`."""


def varint(number: int) -> bytes:
    """A length as protobuf writes it: seven bits a byte, lowest first, the top bit set on all but the last."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def frame(message: Any) -> bytes:
    """A message with its length before it."""
    data: bytes = message.SerializeToString(deterministic=True)
    return varint(len(data)) + data


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
    made = node(number, name, NodeType.COMM_COLL, after)
    made.attr.add(name="comm_type", int64_val=kind)
    made.attr.add(name="comm_size", int64_val=size_bytes)
    if group is not None:
        made.attr.add(name="pg_name", string_val=group)
    return made


def message_node(number: int, sends: bool, peer: int, tag: int, size_bytes: int, after: Iterable[int] = ()) -> Any:
    word, key = ("send to", "comm_dst") if sends else ("receive from", "comm_src")
    made = node(number, f"{word} {peer}", NodeType.COMM_SEND if sends else NodeType.COMM_RECV, after)
    made.attr.add(name="comm_size", int64_val=size_bytes)
    made.attr.add(name=key, int32_val=peer)
    made.attr.add(name="comm_tag", int32_val=tag)
    return made


def trace_bytes(nodes: Iterable[Any], version: str = VERSION) -> bytes:
    return b"".join((frame(Metadata(version=version)), *(frame(node) for node in nodes)))


@dataclass(frozen=True)
class CollectiveUse:
    """Equal calls of one collective.

    Attributes:
        collective: which.
        members: ranks of the group, ascending.
        size_bytes: buffer of every rank; of an all-gather the shard a rank starts with.
        calls: how often each member takes part, in the order of `members`.
        involved_dims: dimensions of the network it runs in, as the trace says; empty: all.
    """

    collective: CommType
    members: tuple[int, ...]
    size_bytes: int
    calls: tuple[int, ...]
    involved_dims: tuple[bool, ...] = ()


@dataclass(frozen=True, eq=False)
class TraceContent:
    """All ranks together.

    Attributes:
        name: common part of the file names.
        ranks: n.
        nodes: of all files.
        uses: ordered by collective, members, size.
        sent_bytes: int64[n, n], bytes of point-to-point sends.
        compute_us: int64[n], time of the compute nodes of every rank.
        operations: float64[n], operations of compute nodes that state no time.
        notes: what was assumed, for people.
    """

    name: str
    ranks: int
    nodes: int
    uses: tuple[CollectiveUse, ...]
    sent_bytes: Ints
    compute_us: Ints
    operations: Floats
    notes: tuple[str, ...] = ()

    def comparable(self) -> tuple[object, ...]:
        """Everything but name and notes, as plain data that `==` compares."""
        return (
            self.ranks,
            self.nodes,
            self.uses,
            self.sent_bytes.tolist(),
            self.compute_us.tolist(),
            self.operations.tolist(),
        )
