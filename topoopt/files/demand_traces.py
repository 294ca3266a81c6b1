"""Traces of demand matrices in NumPy files; sizes are known before memory is taken, and nothing is unpickled."""

from __future__ import annotations

import io
import math
import os
import zipfile
from pathlib import Path as FilePath

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError, Problem
from topoopt.core.units import MIB
from topoopt.files.demand_files import npy_header

MOST_BYTES = 512 * MIB
MOST_ARRAYS = 1000
TRACE_ENDINGS = (".npy", ".npz")


def _bad(message: str, file: str, value: object = None, allowed: str | None = None) -> InputError:
    return InputError([Problem(message, file=file, value=None if value is None else str(value), allowed=allowed)])


def read_trace(path: str | os.PathLike[str]) -> Floats:
    """float64[k, n, n]: the matrices of an .npy or .npz file, arrays of the latter in the order of their names.

    Raises:
        InputError: another ending, no such file, no NumPy file, arrays that are no square matrices of one size.
    """
    file = os.fspath(path)
    if FilePath(file).suffix.lower() not in TRACE_ENDINGS:
        raise _bad("unknown kind of trace", file, FilePath(file).suffix, ", ".join(TRACE_ENDINGS))
    try:
        if FilePath(file).suffix.lower() == ".npy":
            if os.path.getsize(path) > MOST_BYTES:
                raise _bad("the file is too large", file, allowed=f"at most {MOST_BYTES} bytes")
            parts = [("the array", _array(FilePath(path).read_bytes(), file, "the array"))]
        else:
            parts = _members(path, file)
    except OSError as error:
        raise _bad(f"cannot be read: {error.strerror}", file) from None
    except (zipfile.BadZipFile, ValueError, EOFError) as error:
        raise _bad("not a NumPy file", file, str(error)[:80]) from None
    sizes = {part.shape[1] for _, part in parts}
    if len(sizes) > 1:
        raise _bad("matrices of different size", file, ", ".join(map(str, sorted(sizes))), "one number of servers")
    return np.concatenate([part for _, part in parts])


def _members(path: str | os.PathLike[str], file: str) -> list[tuple[str, Floats]]:
    with zipfile.ZipFile(path) as archive:
        found = sorted((info for info in archive.infolist() if info.filename.endswith(".npy")), key=_order)
        if not found:
            raise _bad("no arrays in this file", file)
        if len(found) > MOST_ARRAYS or sum(info.file_size for info in found) > MOST_BYTES:
            raise _bad("too much in this file", file, allowed=f"{MOST_ARRAYS} arrays of {MOST_BYTES} bytes in all")
        return [(info.filename, _array(_unpacked(archive, info), file, info.filename)) for info in found]


def _order(info: zipfile.ZipInfo) -> tuple[int, str]:
    """`arr_2` before `arr_10`."""
    return len(info.filename), info.filename


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Not more than the archive's own table says, whatever is packed."""
    with archive.open(info) as stream:
        return stream.read(info.file_size)


def _array(content: bytes, file: str, name: str) -> Floats:
    stream = io.BytesIO(content)
    shape, dtype, _ = npy_header(stream)
    if dtype.hasobject or dtype.kind not in "iuf":
        raise _bad(f"{name} is not an array of numbers", file, dtype, "integers or floats")
    if len(shape) not in (2, 3) or shape[-1] != shape[-2] or 0 in shape:
        text = " x ".join(map(str, shape))
        raise _bad(f"{name} is no square matrix and no stack of them", file, text, "n x n, or k x n x n")
    if math.prod(shape) * dtype.itemsize != len(content) - stream.tell():
        raise ValueError("content and header disagree")
    stream.seek(0)
    values = np.lib.format.read_array(stream, allow_pickle=False).astype(np.float64)
    return values.reshape(-1, shape[-1], shape[-1])
