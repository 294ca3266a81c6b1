"""FlatBuffers tables read as columns: one numpy array per field, every offset checked before it is followed.

A FlatBuffer is a tree of tables joined by relative offsets. Task graphs hold tens of thousands of small tables, so a
vector of tables is decoded a field at a time (all rows at once) instead of a table at a time. All reads go through
`Buffer.numbers`, which refuses positions outside the file. Vectors of an honest file do not overlap, so their total
size is bounded by that of the file; a file whose vectors claim more is refused before memory is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from topoopt.core.arrays import Bools, Ints

Positions = Ints

MOST_BEYOND = 16
"""Fields of a table that are looked for beyond those that are known."""

MAX_ROWS = 1 << 22
"""Most tables in one vector (the largest released graph has 2 ** 15)."""

MAX_ELEMENTS = 1 << 24
"""Most elements of one vector field, summed over its rows."""


class MalformedBufferError(Exception):
    """The bytes are not a FlatBuffer of the expected shape."""


class Buffer:
    """The bytes of one file, and how many bytes of vectors it may still claim."""

    def __init__(self, data: bytes) -> None:
        self.bytes = np.frombuffer(data, dtype=np.uint8)
        self._vector_bytes_left = len(data)

    def numbers(self, at: Positions, dtype: DTypeLike) -> NDArray[Any]:
        """Little-endian numbers of type `dtype` at the given positions.

        Raises:
            MalformedBufferError: one of them is not inside the file.
        """
        kind = np.dtype(dtype).newbyteorder("<")
        if len(at) and (at.min() < 0 or at.max() > len(self.bytes) - kind.itemsize):
            raise MalformedBufferError("an offset points outside the file")
        raw = np.empty((len(at), kind.itemsize), dtype=np.uint8)
        for byte in range(kind.itemsize):
            raw[:, byte] = self.bytes[at + byte]
        return raw.view(kind).reshape(len(at)).astype(np.dtype(dtype))

    def integers(self, at: Positions, dtype: DTypeLike) -> Positions:
        """As `numbers`, of an integer type of at most 32 bits, widened to int64."""
        return self.numbers(at, dtype).astype(np.int64)

    def claim(self, count: int) -> None:
        """Account for `count` bytes of vectors.

        Raises:
            MalformedBufferError: the vectors read so far are larger than the file, so they overlap.
        """
        self._vector_bytes_left -= count
        if self._vector_bytes_left < 0:
            raise MalformedBufferError("the vectors claim more bytes than the file has")


def ranges(start: Positions, length: Positions, step: int) -> Positions:
    """Concatenated start[i], start[i] + step, ... of `length[i]` terms each."""
    first = np.cumsum(length) - length
    within = np.arange(int(length.sum()), dtype=np.int64) - np.repeat(first, length)
    return np.repeat(start, length) + step * within


@dataclass(frozen=True, eq=False)
class BufferTables:
    """Rows of tables of one kind at byte positions `at` (int64[N])."""

    buffer: Buffer
    at: Positions

    def _field(self, slot: int) -> tuple[Bools, Positions]:
        """Which rows have the field, and where it is in those rows."""
        vtable = self.at - self.buffer.integers(self.at, np.int32)
        size = self.buffer.integers(vtable, np.uint16)
        entry = 4 + 2 * slot
        known = size >= entry + 2
        offset = np.zeros(len(self.at), dtype=np.int64)
        offset[known] = self.buffer.integers(vtable[known] + entry, np.uint16)
        present = offset > 0
        return present, (self.at + offset)[present]

    def beyond(self, slots: int) -> list[int]:
        """Fields that some row has after the first `slots`; of far more than are looked at the last alone."""
        vtable = self.at - self.buffer.integers(self.at, np.int32)
        there = (int(self.buffer.integers(vtable, np.uint16).max(initial=4)) - 4) // 2
        looked = min(there, slots + MOST_BEYOND)
        found = [slot for slot in range(slots, looked) if self._field(slot)[0].any()]
        return [*found, there - 1] if there > looked else found

    def scalar(self, slot: int, dtype: DTypeLike) -> NDArray[Any]:
        """The field as an array of N numbers, 0 where absent."""
        present, where = self._field(slot)
        out = np.zeros(len(self.at), dtype=dtype)
        out[present] = self.buffer.numbers(where, dtype)
        return out

    def _vectors(self, slot: int, width: int) -> tuple[Positions, Positions]:
        """Position of the first element and number of elements of a vector field, 0 elements where absent."""
        present, where = self._field(slot)
        vector = where + self.buffer.integers(where, np.uint32)
        start = np.zeros(len(self.at), dtype=np.int64)
        length = np.zeros(len(self.at), dtype=np.int64)
        start[present] = vector + 4
        length[present] = self.buffer.integers(vector, np.uint32)
        if (start + length * width > len(self.buffer.bytes)).any():
            raise MalformedBufferError("a vector ends outside the file")
        if length.sum() > MAX_ELEMENTS:
            raise MalformedBufferError(f"more than {MAX_ELEMENTS} elements in one kind of vector")
        self.buffer.claim(int(length.sum()) * width)
        return start, length

    def vector(self, slot: int, dtype: DTypeLike) -> tuple[Positions, NDArray[Any]]:
        """A vector-of-numbers field: int64[N] lengths and the concatenated numbers."""
        width = np.dtype(dtype).itemsize
        start, length = self._vectors(slot, width)
        return length, self.buffer.numbers(ranges(start, length, width), dtype)

    def tables(self, slot: int) -> tuple[Positions, BufferTables]:
        """A vector-of-tables field: int64[N] lengths and the concatenated rows."""
        start, length = self._vectors(slot, 4)
        if length.sum() > MAX_ROWS:
            raise MalformedBufferError(f"more than {MAX_ROWS} rows in one kind of table")
        where = ranges(start, length, 4)
        return length, BufferTables(self.buffer, where + self.buffer.integers(where, np.uint32))

    def texts(self, slot: int) -> tuple[str, ...]:
        """A string field, empty where absent; bytes that are not UTF-8 are replaced."""
        start, length = self._vectors(slot, 1)
        return tuple(
            self.buffer.bytes[a : a + k].tobytes().decode("utf-8", errors="replace")
            for a, k in zip(start.tolist(), length.tolist(), strict=True)
        )


def root_table(data: bytes) -> BufferTables:
    """The root table of a file, as one row."""
    buffer = Buffer(data)
    zero = np.zeros(1, dtype=np.int64)
    return BufferTables(buffer, buffer.integers(zero, np.uint32))
