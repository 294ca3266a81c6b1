"""Parquet files, most of them such as no writer makes: what they claim is not what is in them.

Names and numbers of fields: parquet.thrift of apache/parquet-format; encoding: Thrift's compact protocol.
"""

from __future__ import annotations

import io
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

MIB = 1 << 20

INT32, INT64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
"""Types of the compact protocol; and of Parquet: 5 is a double, 6 is Zstandard."""


def varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def zigzag(value: int) -> bytes:
    """A signed number."""
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def struct_of(*fields: tuple[int, int, bytes]) -> bytes:
    """Number, type and content of each field, ascending."""
    out, last = bytearray(), 0
    for number, kind, content in fields:
        out += bytes([(number - last) << 4 | kind]) + content
        last = number
    return bytes(out) + b"\0"


def number(place: int, value: int, kind: int = INT32) -> tuple[int, int, bytes]:
    """A field that is an integer."""
    return place, kind, zigzag(value)


def text(place: int, value: bytes) -> tuple[int, int, bytes]:
    """A field that is a name."""
    return place, BINARY, varint(len(value)) + value


def listed(place: int, kind: int, *items: bytes) -> tuple[int, int, bytes]:
    """A field that is a list of up to 14 items."""
    return place, LIST, bytes([len(items) << 4 | kind]) + b"".join(items)


def zeros(mebibytes: int) -> bytes:
    """So many zeros, packed by Zstandard."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        for _ in range(mebibytes):
            stream.write(bytes(MIB))
    return bytes(sink.getvalue().to_pybytes())


def table(mebibytes: int, claimed_bytes: int, histogram: tuple[int, ...] = ()) -> bytes:
    """Two rows and two columns of doubles, all 0.

    Args:
        mebibytes: what the one page of each column unpacks to.
        claimed_bytes: what each column claims to unpack to.
        histogram: of definition levels, if any; there is one level.
    """
    data = zeros(mebibytes)
    values = struct_of(number(1, 2), number(2, 0), number(3, 3), number(4, 3))
    page = struct_of(number(1, 0), number(2, mebibytes * MIB), number(3, len(data)), (5, STRUCT, values)) + data
    out, chunks = bytearray(b"PAR1"), []
    for name in (b"a", b"b"):
        begin = len(out)
        out += page
        statistics = struct_of(listed(3, INT64, *map(zigzag, histogram)))
        meta = struct_of(
            number(1, 5), listed(2, INT32, zigzag(0)), listed(3, BINARY, varint(len(name)) + name), number(4, 6),
            number(5, 2, INT64), number(6, claimed_bytes, INT64), number(7, len(page), INT64), number(9, begin, INT64),
            *([(16, STRUCT, statistics)] if histogram else []),
        )  # fmt: skip
        chunks.append(struct_of(number(2, begin, INT64), (3, STRUCT, meta)))
    schema = [struct_of(text(4, b"schema"), number(5, 2))]
    schema += [struct_of(number(1, 5), number(3, 0), text(4, name)) for name in (b"a", b"b")]
    group = struct_of(listed(1, STRUCT, *chunks), number(2, 2 * claimed_bytes, INT64), number(3, 2, INT64))
    foot = struct_of(number(1, 1), listed(2, STRUCT, *schema), number(3, 2, INT64), listed(4, STRUCT, group))
    return bytes(out) + foot + struct.pack("<I", len(foot)) + b"PAR1"


def packed_matrix(matrix: np.ndarray, compression: str) -> bytes:
    """A sound file, by pyarrow."""
    stream = io.BytesIO()
    table = pa.table({f"c{k}": column for k, column in enumerate(matrix.T)})
    pq.write_table(table, stream, compression=compression)
    return stream.getvalue()
