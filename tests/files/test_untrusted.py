"""Files of unknown origin: only regular files of bounded size are opened, and every fault is an InputError."""

from __future__ import annotations

import io
import os
import random
import resource
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support.parquet_by_hand import packed_matrix
from topoopt.core.arrays import MIB
from topoopt.core.errors import InputError
from topoopt.files import untrusted
from topoopt.files.demand_files import DEMAND_READERS, read_demand, read_trace
from topoopt.files.graph_files import GRAPH_READERS, read_graph
from topoopt.files.job_document import read_profile
from topoopt.files.untrusted import file_sha256, opened, parsing, read_bytes, read_csv_rows, read_text
from topoopt.formats.chakra import read_trace as read_chakra_trace
from topoopt.formats.flexnet import read_flexnet_taskgraph
from topoopt.kinds.files import read_instance

READERS: dict[str, Callable[[Path], object]] = {
    "instance.yaml": read_instance,
    "profile.json": read_profile,
    "graph.fbuf": read_flexnet_taskgraph,
    "trace.0.et": lambda path: list(read_chakra_trace(path)),
    "trace.npy": read_trace,
    "trace.npz": read_trace,
    **{f"demand{ending}": read_demand for ending in DEMAND_READERS},
    **{f"graph{ending}": read_graph for ending in GRAPH_READERS},
}
"""A reader for each kind of file, by a name of such a file."""


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("what", ["pipe", "device", "folder", "nothing", "socket name"])
def test_what_is_no_regular_file_is_refused(tmp_path: Path, name: str, what: str) -> None:
    """A pipe without a writer, a link to /dev/zero, a folder, nothing: each is refused at once, by every reader."""
    path = tmp_path / name
    if what == "pipe":
        os.mkfifo(path)
    elif what == "device":
        path.symlink_to("/dev/zero")
    elif what == "folder":
        path.mkdir()
    elif what == "socket name":
        path = tmp_path / ("x" * 300 + name)
    with pytest.raises(InputError) as caught:
        READERS[name](path)
    assert caught.value.problems[0].file == str(path)


@pytest.mark.parametrize("name", READERS)
def test_a_file_of_a_terabyte_is_refused_unread(tmp_path: Path, name: str) -> None:
    """The size is looked at before anything is read."""
    path = tmp_path / name
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(InputError, match="too large"):
        READERS[name](path)


def packed(arrays: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive with these files."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in arrays.items():
            archive.writestr(name, content)
    return stream.getvalue()


def npy(array: object) -> bytes:
    """An NPY file."""
    stream = io.BytesIO()
    np.save(stream, np.asarray(array))
    return stream.getvalue()


def header_of(shape: str, dtype: str = "<f8") -> bytes:
    """Beginning of an NPY file that claims a shape."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def test_an_archive_that_unpacks_to_much_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a megabyte of zeros that claims 512 MB: known from the table of contents, no byte unpacked."""
    path = tmp_path / "bomb.npz"
    zeros = np.zeros((8, 1024, 1024), dtype=np.int8)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(64):
            archive.writestr(f"arr_{number}.npy", npy(zeros), compresslevel=1)
    assert path.stat().st_size < 4 * MIB
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("unpacked"))
    with pytest.raises(InputError, match=r"too much in this file once it is unpacked \(value: 5\d{8} bytes\)"):
        read_trace(path)


def test_small_entries_that_become_large_are_refused_by_their_headers(tmp_path: Path) -> None:
    """What counts is the memory as float64: 64 MB of bytes would be 512 MB."""
    path = tmp_path / "bytes.npz"
    path.write_bytes(packed({"a.npy": npy(np.zeros((60, 1024, 1024), dtype=np.int8))}))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match="too many matrices"):
        read_trace(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024, "kibibytes"


def test_an_archive_may_unpack_a_hundredfold(tmp_path: Path) -> None:
    """Sparse traces are packed well; below 64 MiB nothing is said about it."""
    trace = np.zeros((40, 64, 64))
    trace[:, 0, 1] = 1.0
    np.savez_compressed(tmp_path / "t.npz", trace)
    assert (read_trace(tmp_path / "t.npz") == trace).all()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_of_packing_are_refused(tmp_path: Path, method: int) -> None:
    """Their unpackers give megabytes a kilobyte, whatever is asked for."""
    (tmp_path / "t.npz").write_bytes(packed({"a.npy": npy(np.eye(3))}, method))
    with pytest.raises(InputError, match="packed in a way that is not read"):
        read_trace(tmp_path / "t.npz")


def test_a_table_of_contents_of_any_size_is_not_read(tmp_path: Path) -> None:
    """A hundred thousand names of files in an archive of five megabytes."""
    (tmp_path / "t.npz").write_bytes(packed({f"{k:050d}": b"" for k in range(60_000)}, zipfile.ZIP_STORED))
    with pytest.raises(InputError, match="table of contents"):
        read_trace(tmp_path / "t.npz")


BROKEN_HEADERS = {
    "no end of a text": b"\x93NUMPY\x01\x00\x0a\x00" + b"{'''''''''",
    "not a dict": b"\x93NUMPY\x01\x00\x04\x00" + b"[1]\n",
    "a token": b"\x93NUMPY\x01\x00\x04\x00" + b"{(\\\n",
    "negative": header_of("(-1, -1)"),
    "enormous": header_of("(2, 99999999999999999999999)"),
    "truth for numbers": header_of("(True, True)"),
    "no such type": header_of("(3, 3)", "<f9"),
    "a type in a type": header_of("(3, 3)", "(3,)f8"),
    "bytes that are no text": b"\x93NUMPY\x02\x00\x04\x00\x00\x00\xff\xfe\xff\xfe",
    "version 3": b"\x93NUMPY\x03\x00" + header_of("(3, 3)")[8:],
    "nothing": b"",
    "no entries": header_of("(0, 0)"),
}


@pytest.mark.parametrize("name", BROKEN_HEADERS)
@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_broken_headers_of_arrays_are_refused(tmp_path: Path, name: str, ending: str) -> None:
    """Whatever the parser of headers raises, the user is told that this is no such file."""
    path = tmp_path / f"t{ending}"
    content = BROKEN_HEADERS[name]
    path.write_bytes(content if ending == ".npy" else packed({"a.npy": content}))
    for reader in (read_trace, read_demand) if ending == ".npy" else (read_trace,):
        with pytest.raises(InputError) as caught:
            reader(path)
        assert caught.value.problems[0].file == str(path)


def whole_files() -> dict[str, bytes]:
    """A good file of each packed format."""
    matrix = np.arange(16.0).reshape(4, 4)
    return {
        "a.npy": npy(matrix),
        "a.npz": packed({"arr_0.npy": npy(matrix), "arr_1.npy": npy(matrix)}),
        "b.npz": packed({"arr_0.npy": npy(matrix)}, zipfile.ZIP_STORED),
        "a.parquet": packed_matrix(matrix, "zstd"),
        "b.parquet": packed_matrix(matrix, "gzip"),
        "c.parquet": packed_matrix(matrix, "none"),
    }


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "b.npz", "a.parquet", "b.parquet", "c.parquet"])
@pytest.mark.filterwarnings("ignore")
def test_damaged_arrays_and_tables_are_read_or_refused(tmp_path: Path, name: str) -> None:
    """Bytes flipped, removed, put in, the end cut off: a matrix or an InputError, never another exception."""
    good = whole_files()[name]
    rng = random.Random(name)
    path = tmp_path / name
    reader = read_trace if name.endswith(".npz") else read_demand
    refused = 0
    for _ in range(40 if name.endswith(".parquet") else 400):
        content = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(content))
            wound = rng.randrange(4)
            if wound == 0:
                content[at] = rng.randrange(256)
            elif wound == 1:
                del content[at : at + rng.randrange(1, 9)]
            elif wound == 2:
                content[at:at] = rng.randbytes(rng.randrange(1, 5))
            else:
                del content[max(at, 8) :]
        path.write_bytes(content)
        try:
            reader(path)
        except InputError:
            refused += 1
    assert refused > 5


def test_whatever_a_parser_raises_is_told(tmp_path: Path) -> None:
    """Errors of any class become one; those of topoopt and Ctrl-C go through."""
    for error in (RuntimeError("x"), NotImplementedError(), MemoryError(), RecursionError(), OSError(28, "full")):
        with pytest.raises(InputError, match=r"some file: .*a thing"), parsing("some file", "a thing"):
            raise error
    own = InputError("own")
    with pytest.raises(InputError) as caught, parsing("f", "a thing"):
        raise own
    assert caught.value is own
    with pytest.raises(KeyboardInterrupt), parsing("f", "a thing"):
        raise KeyboardInterrupt


def test_contents_and_limits(tmp_path: Path) -> None:
    """A file as large as allowed is read whole, one byte more is refused; links are followed."""
    path, link = tmp_path / "a", tmp_path / "l"
    path.write_bytes(b"\xef\xbb\xbf12345")
    link.symlink_to(path)
    assert read_bytes(link, 8) == b"\xef\xbb\xbf12345"
    assert read_text(path, 8) == "12345"
    with opened(path, 8) as stream:
        assert stream.read() == path.read_bytes()
    # printf '\xef\xbb\xbf12345' | sha256sum
    assert file_sha256(path, 8) == "ad72a04d16b5967516cebc5e0faebd4863ff3a67c050311c9e72d89aac8882dd"
    for reader in (read_bytes, read_text, file_sha256):
        with pytest.raises(InputError, match="too large"):
            reader(path, 7)
    path.write_bytes(b"ab\n\xff")
    with pytest.raises(InputError, match="a:2: not UTF-8 text"):
        read_text(path, 8)


def test_rows_of_tables(tmp_path: Path) -> None:
    """Rows have the names of the first line; one of another length, or an open quote, is refused."""
    path = tmp_path / "a.csv"
    path.write_text('a,b\n1,"x\ny"\n')
    assert read_csv_rows(path, 100) == [{"a": "1", "b": "x\ny"}]
    for text in ("", "a,b\n1\n", 'a,b\n1,"x\n', "a,b\n1,2,3\n"):
        path.write_text(text)
        with pytest.raises(InputError, match="not a CSV file"):
            read_csv_rows(path, 100)


def test_entities_are_not_defined(tmp_path: Path) -> None:
    """A billion laughs: refused for its document type."""
    path = tmp_path / "a.xml"
    path.write_text('<?xml version="1.0"?>\n<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><l>&b;</l>')
    with pytest.raises(InputError, match="document type"):
        untrusted.read_xml_text(path, 1000)


def test_the_shape_of_an_array_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """The head says more servers than there may be; nothing of the array is in the file."""
    file = tmp_path / "demand.npy"
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (70_000, 70_000)})
    file.write_bytes(head.getvalue())
    with pytest.raises(InputError, match="no square matrix and no stack of them"):
        read_trace(str(file))
