"""Traces of demand matrices in NumPy files; sizes are known before memory is taken, and nothing is unpickled."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path as FilePath

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.units import MIB
from topoopt.files.fields import MAX_SERVERS
from topoopt.files.numpy_files import START_BYTES, ArrayHeader, array_header, array_of
from topoopt.files.untrusted import opened_zip, read_bytes, refusal

MOST_BYTES = 256 * MIB
"""Of a file, and of all its matrices as float64."""

MOST_ARRAYS = 1000


def read_trace(path: str | os.PathLike[str]) -> Floats:
    """float64[k, n, n]: the matrices of an .npy or .npz file, arrays of the latter in the order of their names.

    Raises:
        InputError: another ending, no such file, no NumPy file, arrays that are no square matrices of one size.
    """
    file = os.fspath(path)
    ending = FilePath(file).suffix.lower()
    if ending not in _READERS:
        raise refusal("unknown kind of trace", file, value=ending, allowed=", ".join(_READERS))
    return _READERS[ending](file)


def _one_array(file: str) -> Floats:
    content = read_bytes(file, MOST_BYTES, "an NPY file")
    header = array_header(content[:START_BYTES], file)
    _fit({"the array": header}, file)
    return _stack(array_of(content, header, file))


def _archive(file: str) -> Floats:
    with opened_zip(file, MOST_BYTES, "an NPZ file") as archive:
        names = sorted((name for name in archive.sizes if name.endswith(".npy")), key=_order)
        if not 0 < len(names) <= MOST_ARRAYS:
            allowed = f"1 to {MOST_ARRAYS} arrays (*.npy) in the archive"
            raise refusal("wrong number of arrays", file, value=len(names), allowed=allowed)
        headers = {name: array_header(archive.unpacked(name, START_BYTES), file, name) for name in names}
        _fit(headers, file)
        for name, header in headers.items():
            if header.bytes_in_file != archive.sizes[name]:
                value = f"{name}: {archive.sizes[name]} bytes"
                raise refusal("content and header disagree", file, value=value, allowed=str(header.bytes_in_file))
        parts = [
            _stack(array_of(archive.unpacked(name, header.bytes_in_file), header, file))
            for name, header in headers.items()
        ]
    return np.concatenate(parts)


_READERS: Mapping[str, Callable[[str], Floats]] = {".npy": _one_array, ".npz": _archive}

TRACE_ENDINGS = tuple(_READERS)


def _order(name: str) -> tuple[int, str]:
    """`arr_2` before `arr_10`."""
    return len(name), name


def _fit(headers: Mapping[str, ArrayHeader], file: str) -> None:
    """Refuse arrays that are no square matrices of one size, or that take too much memory.

    Raises:
        InputError: they are not, or they do.
    """
    for name, header in headers.items():
        shape = header.shape
        if len(shape) not in (2, 3) or shape[-1] != shape[-2] or shape[-1] > MAX_SERVERS:
            text = " x ".join(map(str, shape))
            allowed = f"n x n, or k x n x n, n at most {MAX_SERVERS}"
            raise refusal(f"{name} is no square matrix and no stack of them", file, value=text, allowed=allowed)
    sizes = sorted({header.shape[-1] for header in headers.values()})
    if len(sizes) > 1:
        raise refusal("matrices of different size", file, value=sizes, allowed="one number of servers")
    total = sum(header.bytes_as_floats for header in headers.values())
    if total > MOST_BYTES:
        raise refusal("too many matrices", file, value=f"{total} bytes", allowed=f"at most {MOST_BYTES} as float64")


def _stack(array: Floats) -> Floats:
    return array.reshape(-1, *array.shape[-2:])
