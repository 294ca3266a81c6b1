"""Chakra execution traces (mlcommons/chakra 1.0.0) are streams of protobuf messages, one file a rank."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, BinaryIO

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from topoopt.core.arrays import GIB, Floats, Ints
from topoopt.core.errors import InputError, Problem
from topoopt.files.issues import value_text
from topoopt.files.reader_fields import FieldTable, named
from topoopt.files.untrusted import opened, refusal

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


def trace_bytes(nodes: Iterable[Any]) -> bytes:
    return b"".join((frame(Metadata(version=VERSION)), *(frame(node) for node in nodes)))


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


COMMON_FIELDS: FieldTable = {
    "GlobalMetadata.version": ("noted", "of the schema"),
    "Node.id": ("used", "what dependencies refer to"),
    "Node.name": ("noted", "for people"),
    "Node.type": ("used", "what the node is; MEM_LOAD and MEM_STORE are counted in a note, their time is not"),
    "Node.ctrl_deps": ("used", "order; on a node that is not there noted"),
    "Node.data_deps": ("used", "order; on a node that is not there refused"),
    "Node.start_time_micros": ("noted", "when the node was recorded"),
    "Node.inputs.shapes": ("noted", "tensors"),
    "Node.inputs.types": ("noted", "tensors"),
    "Node.outputs": ("noted", "tensors"),
    "Node.attr.doc": ("noted", "for people"),
    "Node.attr.comm_priority": ("noted", "collectives here have none"),
    "Node.attr.tensor_size": ("noted", "bytes in memory"),
    **{
        f"Node.attr.{name}": ("noted", "of the recorded run")
        for name in ("fw_parent", "fw_tid", "op_schema", "rf_id", "scope", "seq_id", "tid")
    },
}
FIELDS: FieldTable = {
    **COMMON_FIELDS,
    "GlobalMetadata.attr": ("noted", "of the recording"),
    "Node.duration_micros": ("used", "time of COMP nodes, of those of the host only named; of others noted"),
    "Node.inputs.values": ("used", "process groups of METADATA nodes; of others noted"),
    "Node.attr.is_cpu_op": ("used", "the node runs on the host: it takes no time, and sends nothing"),
    "Node.attr.num_ops": ("used", "operations of COMP nodes without a time; of others noted"),
    "Node.attr.comm_size": ("used", "bytes"),
    "Node.attr.comm_type": ("used", "which collective; of others noted"),
    "Node.attr.pg_name": ("used", "process group of a collective; of others noted"),
    "Node.attr.involved_dim": ("used", "dimensions that a collective involves; of others noted"),
    "Node.attr.comm_dst": ("used", "receiver of COMM_SEND nodes; of others noted"),
    "Node.attr.comm_src": ("used", "sender of COMM_RECV nodes; of others noted"),
    "Node.attr.comm_tag": ("noted", "messages are added up by their ends"),
    "any other": ("noted", "attributes and fields of other versions of the schema"),
}
"""Of traces of a job."""

COLLECTIVE_FIELDS: FieldTable = {
    **COMMON_FIELDS,
    "GlobalMetadata.attr.collective": ("used", "which collective, unless --collective says it"),
    "GlobalMetadata.attr.vector_chunks": ("used", "chunks of the vector; without it bytes alone are known"),
    "GlobalMetadata.attr.vector_bytes": ("used", "size that the schedule is for"),
    "GlobalMetadata.attr.scratch_chunks": ("used", "chunks of the scratch of the rank"),
    "Node.duration_micros": ("noted", "schedules have no times of their own"),
    "Node.inputs.values": ("noted", "tensors"),
    "Node.attr.is_cpu_op": ("noted", "sends and receives count wherever they run"),
    "Node.attr.num_ops": ("noted", "schedules have no times of their own"),
    "Node.attr.comm_size": ("used", "bytes"),
    "Node.attr.comm_dst": ("used", "receiver of COMM_SEND nodes; of others noted"),
    "Node.attr.comm_src": ("used", "sender of COMM_RECV nodes; of others noted"),
    "Node.attr.comm_tag": ("used", "which send meets which receive"),
    "Node.attr.comm_type": ("noted", "left over from the converter"),
    "Node.attr.chunk_first": ("used", "chunk that a message begins with"),
    "Node.attr.chunk_count": ("used", "its chunks"),
    "Node.attr.chunk_buffer": ("used", "their buffer"),
    "Node.attr.chunk_added": ("used", "node that brought what is added"),
    "any other": ("noted", "attributes and fields of other versions of the schema"),
}
"""Of traces of a custom collective."""

_COMM = frozenset({NodeType.COMM_SEND, NodeType.COMM_RECV, NodeType.COMM_COLL})
_READ_OF = {
    "Node.duration_micros": {NodeType.COMP},
    "Node.inputs.values": {NodeType.METADATA},
    "Node.attr.num_ops": {NodeType.COMP},
    "Node.attr.comm_size": _COMM,
    "Node.attr.comm_tag": _COMM,
    "Node.attr.comm_type": {NodeType.COMM_COLL},
    "Node.attr.pg_name": {NodeType.COMM_COLL},
    "Node.attr.involved_dim": {NodeType.COMM_COLL},
    "Node.attr.comm_dst": {NodeType.COMM_SEND},
    "Node.attr.comm_src": {NodeType.COMM_RECV},
}
"""Fields that nodes of some types alone are asked for."""

_PLAIN = ("name", "start_time_micros", "duration_micros")
MOST_ALIKE = 10_000
_MEMORY = tuple(map(int, (NodeType.MEM_LOAD, NodeType.MEM_STORE)))


class LeftOver:
    """What was met and not used, node by node; memory grows with the forward dependencies alone."""

    def __init__(self, file: Path, table: FieldTable) -> None:
        self.file, self.table = str(file), table
        self.fields: Counter[str] = Counter()
        self.memory: Counter[str] = Counter()
        self.memory_us = 0
        self._alike: Counter[tuple[int | str, ...]] = Counter()
        """Type and fields of nodes, which are few."""
        self._seen: dict[int, int] = {}
        """Ids as bits of words, since most traces number their nodes one after the other."""
        self._awaited: dict[int, tuple[int, bool, int]] = {}
        """Id that has not come -> who waits for it first, whether for data, how many do."""

    def metadata(self, message: Any) -> None:
        self._unknown(message, "GlobalMetadata")
        if message.version:
            self.fields["GlobalMetadata.version"] += 1
        for attribute in message.attr:
            field = f"GlobalMetadata.attr.{attribute.name}"
            if self.table.get("GlobalMetadata.attr", self.table.get(field, ("",)))[0] != "used":
                self.fields[field] += 1

    def node(self, node: Any) -> None:
        """One more node: its fields, and what it waits for.

        Raises:
            InputError: an attribute that is given twice.
        """
        self.fields_of(node)
        self._dependencies(node)

    def fields_of(self, node: Any) -> None:
        """Fields of one more node.

        Raises:
            InputError: an attribute that is given twice.
        """
        self._unknown(node, "Node")
        kind = node.type
        names = [
            f"Node.attr.{attribute.name}" if not attribute.doc else self._with_doc(attribute) for attribute in node.attr
        ]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(
                [Problem("an attribute given twice", self.file, None, f"node {node.id}", value_text(twice))]
            )
        names += [f"Node.{name}" for name in _PLAIN if getattr(node, name)]
        if node.HasField("inputs"):
            names += [f"Node.inputs.{field.name}" for field, _ in node.inputs.ListFields()]
        if node.HasField("outputs"):
            names.append("Node.outputs")
        if kind in _MEMORY:
            self.memory[NodeType(kind).name] += 1
            self.memory_us += node.duration_micros
        self._alike[kind, *names] += 1
        if len(self._alike) > MOST_ALIKE:
            self._count()

    def _with_doc(self, attribute: Any) -> str:
        self.fields["Node.attr.doc"] += 1
        return f"Node.attr.{attribute.name}"

    def _count(self) -> None:
        for (kind, *paths), count in self._alike.items():
            for path in map(str, paths):
                if self.table.get(path, ("noted",))[0] != "used":
                    self.fields[path] += count
                elif path in _READ_OF and kind not in _READ_OF[path]:
                    self.fields[f"{path} of {NodeType(int(kind)).name}"] += count
        self._alike.clear()

    def _unknown(self, message: Any, name: str) -> None:
        data = message.SerializeToString()
        message.DiscardUnknownFields()
        if message.ByteSize() == len(data):
            return
        whole = type(message)()
        whole.ParseFromString(data)
        for entry in UnknownFieldSet(whole):
            self.fields[f"{name}, field {entry.field_number}"] += 1
        for field, value in whole.ListFields():
            if field.message_type is not None:
                for inner in value if hasattr(value, "add") else [value]:
                    self._unknown(inner, f"{name}.{field.name}")

    def _dependencies(self, node: Any) -> None:
        number, seen = node.id, self._seen
        seen[number >> 6] = seen.get(number >> 6, 0) | 1 << (number & 63)
        self._awaited.pop(number, None)
        for data, deps in ((True, node.data_deps), (False, node.ctrl_deps)):
            for dependency in deps:
                if not seen.get(dependency >> 6, 0) >> (dependency & 63) & 1:
                    first, of_data, count = self._awaited.get(dependency, (number, False, 0))
                    self._awaited[dependency] = (number if data and not of_data else first, data or of_data, count + 1)

    def missing(self) -> str | None:
        """A note of control dependencies on nodes that are not in the trace.

        Raises:
            InputError: data dependencies on such nodes.
        """
        data = [(first, key) for key, (first, of_data, _) in self._awaited.items() if of_data]
        if data:
            text = f"{len(data)} nodes that others wait for are not in the trace" if len(data) > 1 else (
                "a node that another waits for is not in the trace"
            )  # fmt: skip
            first, key = data[0]
            raise InputError(
                [Problem(text, self.file, None, f"node {first}", f"node {key}", "data_deps of nodes in it")]
            )
        if not self._awaited:
            return None
        key, (first, _, _) = next(iter(self._awaited.items()))
        count = sum(waiting for _, _, waiting in self._awaited.values())
        return (
            f"{self.file}: {count} control dependencies on nodes that are not in the trace are taken as met, the first "
            f"of node {first} on node {key}"
        )

    def add(self, other: LeftOver) -> None:
        other._count()
        self.fields.update(other.fields)
        self.memory.update(other.memory)
        self.memory_us += other.memory_us

    def notes(self) -> tuple[str, ...]:
        self._count()
        listed, unknown = [], []
        for path, count in self.fields.items():
            row = self.table.get(path.partition(" of ")[0]) or self.table.get(path.rpartition(".")[0])
            if row is None:
                unknown.append(
                    f"{value_text(path)} ({count} times)" if not path.isprintable() else f"{path} ({count} times)"
                )
            else:
                means = "" if row[0] == "used" else f"{row[1]}, "
                listed.append(f"{path} ({means}{count} times)")
        notes = (*named("not used", listed), *named("not used, and not known to this reader", unknown))
        if self.memory:
            counted = ", ".join(f"{count} {name}" for name, count in self.memory.items())
            notes = (*notes, f"{counted} nodes ({self.memory_us / 1000:.6g} ms): their time is not counted")
        return notes


TRACE = "a Chakra execution trace (length-delimited protobuf: metadata, then nodes)"
SUFFIX = ".et"
MAX_FILE_BYTES = 16 * GIB
_TYPES = frozenset(int(kind) for kind in NodeType if kind is not NodeType.INVALID)


def _bad(message: str, file: str, *, value: object = None, allowed: str | None = TRACE) -> InputError:
    return refusal(message, file, value=value, allowed=allowed)


def _length(stream: BinaryIO, file: str, count: int) -> int | None:
    number = 0
    for index in range(MAX_LENGTH_BYTES):
        byte = stream.read(1)
        if not byte:
            if index == 0:
                return None
            raise _bad(f"the file ends inside the length of message {count}: it is truncated", file)
        number |= (byte[0] & 0x7F) << (7 * index)
        if byte[0] < 0x80:
            if number > MAX_MESSAGE_BYTES:
                break
            return number
    allowed = f"at most {MAX_MESSAGE_BYTES} bytes; {TRACE}"
    raise _bad(f"message {count} claims an impossible length", file, allowed=allowed)


def _messages(stream: BinaryIO, file: str) -> Iterator[bytes]:
    count = 0
    while (length := _length(stream, file, count)) is not None:
        data = stream.read(length)
        if len(data) < length:
            raise _bad(f"the file ends inside message {count}: it is truncated", file)
        yield data
        count += 1


def read_trace(path: str | os.PathLike[str]) -> Iterator[Any]:
    """The metadata of one rank's trace, then its nodes, as protobuf messages of `topoopt.formats.chakra`.

    Memory does not grow with the file.

    Raises:
        InputError: while iterating: no such file, empty, truncated, or something else than a Chakra trace.
    """
    file = os.fspath(path)
    with opened(file, MAX_FILE_BYTES, TRACE) as stream:
        if os.fstat(stream.fileno()).st_size == 0:
            raise _bad("the file is empty", file)
        for count, data in enumerate(_messages(stream, file)):
            message = Node() if count else Metadata()
            try:
                message.ParseFromString(data)
            except DecodeError:
                raise _bad(f"message {count} is not a {'node' if count else 'metadata message'}", file) from None
            if count == 0 and data and not (message.version or message.attr):
                raise _bad("the file does not begin with trace metadata", file)
            if count and message.type not in _TYPES:
                allowed = ", ".join(f"{kind.value} {kind.name}" for kind in NodeType if kind.value in _TYPES)
                raise _bad(f"node {message.id} has no known type", file, value=message.type, allowed=allowed)
            yield message


def _is_rank(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


def trace_files(path: str | os.PathLike[str]) -> dict[int, Path]:
    """The file of every rank: PATH is a folder, a prefix of `PREFIX.RANK.et`, or one file (alone, whatever its rank).

    Raises:
        InputError: none there, several traces in a folder, ranks missing.
    """
    given = Path(os.fspath(path))
    try:
        return _trace_files(given)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _bad(f"cannot be read: {reason}", str(given), allowed=None) from None


def _trace_files(given: Path) -> dict[int, Path]:
    if given.suffix == SUFFIX and given.exists():
        number = given.stem.rpartition(".")[2]
        return {int(number) if _is_rank(number) else 0: given}
    folder, prefix = (given, None) if given.is_dir() else (given.parent, given.name)
    by_name: dict[str, dict[int, Path]] = {}
    for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
        stem, _, rank = entry.name.removesuffix(SUFFIX).rpartition(".")
        if entry.suffix == SUFFIX and _is_rank(rank) and prefix in (None, stem):
            ranks = by_name.setdefault(stem, {})
            if int(rank) in ranks:
                raise _bad("two files of one rank", str(entry), value=int(rank), allowed=None)
            ranks[int(rank)] = entry
    if given.suffix == ".json" and given.is_file():
        raise _bad("a trace of Chakra in JSON is not read", str(given), allowed="its form in protobuf (.et)")
    if not by_name:
        allowed = "a folder of PREFIX.RANK.et files, such a PREFIX, or one .et file"
        raise _bad("no execution traces here" if folder.is_dir() else "no such folder", str(given), allowed=allowed)
    if len(by_name) > 1:
        allowed = "one of: " + ", ".join(str(folder / stem) for stem in sorted(by_name)[:20])
        raise _bad("traces of several workloads in this folder", str(given), value=len(by_name), allowed=allowed)
    ranks = next(iter(by_name.values()))
    missing = sorted(set(range(max(ranks) + 1)) - set(ranks)) if max(ranks) < 1 << 20 else [0]
    if missing:
        listed = ", ".join(str(rank) for rank in missing[:20])
        raise _bad("traces of some ranks are missing", str(given), value=listed, allowed="ranks 0 to n-1, each once")
    return dict(sorted(ranks.items()))
