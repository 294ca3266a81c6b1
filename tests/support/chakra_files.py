"""Traces written for the tests by a protobuf encoder of their own, and the shared ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.support.paths import SHARED_DATA as SHARED

METADATA = b"\x0a\x050.0.4"
"""GlobalMetadata: field 1, text of five bytes."""

INT32, INT64, UINT64, SINT64, BOOL, TEXT, BOOLS = 7, 9, 13, 17, 27, 29, 28
"""Numbers of the kinds of attribute values."""


def shared(name: str) -> Path:
    """A file or folder of the shared data, or skip."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"shared data absent: {path}")
    return path.resolve()


def varint(number: int) -> bytes:
    """Base 128, lowest digit first."""
    out = []
    while True:
        number, digit = divmod(number, 128)
        out.append(digit + 128 * (number > 0))
        if not number:
            return bytes(out)


def whole(field: int, number: int) -> bytes:
    """A varint field."""
    return varint(8 * field) + varint(number)


def block(field: int, data: bytes) -> bytes:
    """A field of bytes, text or a message."""
    return varint(8 * field + 2) + varint(len(data)) + data


def attribute(name: str, value: object, kind: int) -> bytes:
    """An attribute of a node."""
    named = block(1, name.encode())
    if kind == TEXT:
        return block(10, named + block(kind, str(value).encode()))
    if kind == BOOLS:
        return block(10, named + block(kind, block(1, bytes(value))))  # type: ignore[call-overload]
    number = int(value)  # type: ignore[call-overload]
    if kind == SINT64:
        number = 2 * number if number >= 0 else -2 * number - 1
    return block(10, named + whole(kind, number % 2**64))


KINDS = {
    "comm_dst": INT32,
    "comm_src": INT32,
    "pg_name": TEXT,
    "chunk_buffer": TEXT,
    "involved_dim": BOOLS,
    "is_cpu_op": BOOL,
}


def node(
    number: int, kind: int, *, after: Iterable[int] = (), control: Iterable[int] = (), us: int = 0, **values: object
) -> bytes:
    """A node: attributes by name; `values=` is the text of its inputs; `as_kind` the kind of its integers."""
    inputs, as_kind = values.pop("inputs", None), values.pop("as_kind", INT64)
    data = whole(1, number) if number else b""
    data += block(2, b"x") + whole(3, kind)
    for field, deps in ((4, list(control)), (5, list(after))):
        if deps:
            data += block(field, b"".join(varint(one) for one in deps))
    data += whole(7, us) if us else b""
    data += block(8, block(1, str(inputs).encode())) if inputs is not None else b""
    for name, value in values.items():
        data += attribute(name, value, KINDS.get(name, as_kind))  # type: ignore[arg-type]
    return data


def stream(*messages: bytes, metadata: bytes = METADATA) -> bytes:
    """A file: every message with its length before it."""
    return b"".join(varint(len(one)) + one for one in (metadata, *messages))


def write(folder: Path, ranks: Mapping[int, Iterable[bytes]], prefix: str = "job") -> Path:
    """Traces of a job; the prefix."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, nodes in ranks.items():
        (folder / f"{prefix}.{rank}.et").write_bytes(stream(*nodes))
    return folder / prefix
