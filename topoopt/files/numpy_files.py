"""Arrays of numbers in the format of NumPy: shape and type are known before memory is taken, nothing is unpickled."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.files.untrusted import parsing, refusal

START_BYTES = 16_384
"""Beginning of a file that holds its header, which NumPy takes up to 10 000 bytes long."""

_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


@dataclass(frozen=True)
class ArrayHeader:
    """What an array file says of itself.

    Attributes:
        shape: of the array, every axis of at least one entry.
        dtype: of its entries, whole numbers or floats.
        by_columns: whether the first axis changes fastest.
        begin: bytes before the entries.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_columns: bool
    begin: int

    @property
    def bytes_in_file(self) -> int:
        """Size of the whole file."""
        return self.begin + math.prod(self.shape) * self.dtype.itemsize

    @property
    def bytes_as_floats(self) -> int:
        """Memory of the array as float64."""
        return math.prod(self.shape) * 8


def array_header(start: bytes, file: str, name: str = "the array") -> ArrayHeader:
    """Header of an array, from the first `START_BYTES` of it.

    Raises:
        InputError: no NPY file of version 1 or 2, not an array of numbers, an axis without entries.
    """
    stream = io.BytesIO(start)
    with parsing(file, "an NPY file"):
        version = np.lib.format.read_magic(stream)
        if version not in _READERS:
            raise ValueError(f"version {version}")
        shape, by_columns, dtype = _READERS[version](stream)
    if dtype.hasobject or dtype.kind not in "iuf":
        raise refusal(f"{name} is not an array of numbers", file, value=str(dtype), allowed="integers or floats")
    if not all(type(size) is int and size > 0 for size in shape):
        raise refusal(f"{name} has an axis without entries", file, value=shape, allowed="positive whole numbers")
    return ArrayHeader(shape, dtype, by_columns, stream.tell())


def array_of(content: bytes, header: ArrayHeader, file: str) -> Floats:
    """The array of a whole file, as float64.

    Raises:
        InputError: the file is shorter or longer than its header says.
    """
    need = header.bytes_in_file
    if len(content) != need:
        value = f"{len(content)} bytes"
        raise refusal("content and header of the file disagree", file, value=value, allowed=str(need))
    entries = np.frombuffer(content, dtype=header.dtype, offset=header.begin)
    with np.errstate(all="ignore"):  # what is beyond the range of float64 becomes infinite, and is refused as such
        values = entries.astype(np.float64)
    return values.reshape(header.shape, order="F" if header.by_columns else "C")
