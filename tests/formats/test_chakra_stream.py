"""Framing of execution traces: what is whole is read, what is damaged or foreign is refused by name."""

from __future__ import annotations

import contextlib
import hashlib
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.chakra_files import METADATA, node, shared, stream, varint, write
from topoopt.core.errors import InputError
from topoopt.formats import chakra
from topoopt.formats.chakra import read_trace, trace_files
from topoopt.formats.chakra.read import read_rank

MICROBENCHMARKS = ("all_reduce", "all_to_all")


@pytest.mark.parametrize("length", [0, 1, 127, 128, 300, 16383, 16384, 2**32, 2**63])
def test_lengths(length: int) -> None:
    """Our varint is the base-128 form of the protobuf encoding."""
    assert chakra.varint(length) == varint(length)


@pytest.mark.parametrize("name", [f"{one}/8npus_1MB/{one}.{rank}.et" for one in MICROBENCHMARKS for rank in range(8)])
def test_microbenchmarks_round_trip(name: str) -> None:
    """Every shared microbenchmark comes out of our writer byte for byte."""
    file = shared(f"chakra/{name}")
    assert b"".join(chakra.frame(message) for message in read_trace(file)) == file.read_bytes()


def test_shared_traces_round_trip() -> None:
    """So do the custom collective and the real trace, with lists, texts and inputs."""
    folder = shared("chakra/custom_ring_allreduce_8npus_1MB")
    for file in (*folder.glob("*.et"), shared("chakra/ddp_resnet50_rank0.et")):
        assert b"".join(chakra.frame(message) for message in read_trace(file)) == file.read_bytes()


VALUES = {
    **{f"{kind}_val": st.integers(-(2**31), 2**31 - 1) for kind in ("int32", "sint32", "sfixed32")},
    **{f"{kind}_val": st.integers(-(2**63), 2**63 - 1) for kind in ("int64", "sint64", "sfixed64")},
    **{f"{kind}_val": st.integers(0, 2**32 - 1) for kind in ("uint32", "fixed32")},
    **{f"{kind}_val": st.integers(0, 2**64 - 1) for kind in ("uint64", "fixed64")},
    "double_val": st.floats(allow_nan=False),
    "bool_val": st.booleans(),
    "string_val": st.text(max_size=10),
    "bytes_val": st.binary(max_size=10),
}
IDS = st.integers(0, 2**64 - 1)


@st.composite
def messages(draw: st.DrawFn) -> list[bytes]:
    """Nodes of any content, as they stand in a file."""
    made = []
    for _ in range(draw(st.integers(1, 4))):
        one = chakra.Node(
            id=draw(IDS),
            name=draw(st.text(max_size=8)),
            type=draw(st.integers(1, 7)),
            ctrl_deps=draw(st.lists(IDS, max_size=3)),
            data_deps=draw(st.lists(IDS, max_size=3)),
            duration_micros=draw(IDS),
        )
        for kind in draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=3)):
            one.attr.add(name=draw(st.text(max_size=5)), **{kind: draw(VALUES[kind])})
        made.append(one.SerializeToString(deterministic=True))
    return made


@settings(max_examples=60)
@given(messages(), st.data())
def test_any_content(scratch: Path, content: list[bytes], data: st.DataObject) -> None:
    """Any nodes come back as written; cut anywhere, the file is read up to there or refused with its name."""
    file = scratch / "any.et"
    whole = stream(*content)
    file.write_bytes(whole)
    assert [one.SerializeToString(deterministic=True) for one in read_trace(file)] == [METADATA, *content]
    cut = data.draw(st.integers(0, len(whole) - 1))
    file.write_bytes(whole[:cut])
    boundaries = [len(stream(*content[:k])) for k in range(len(content))]
    if cut in boundaries:
        assert len(list(read_trace(file))) == boundaries.index(cut) + 1
    else:
        with pytest.raises(InputError, match=r"any\.et"):
            list(read_trace(file))


@settings(max_examples=200)
@given(st.binary(max_size=80), st.booleans())
def test_any_bytes(scratch: Path, content: bytes, framed: bool) -> None:
    """Bytes of any origin are read or refused, nothing else happens."""
    file = scratch / "bytes.et"
    file.write_bytes(stream() + content if framed else content)
    with contextlib.suppress(InputError):
        read_rank(file, 0, 4)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (stream(node(0, 7))[:-1], "truncated"),
        (stream() + b"\x80", "truncated"),
        (stream() + b"\xff" * 11, "impossible length"),
        (stream() + varint(2**40), "impossible length"),
        (stream(node(0, 4), metadata=b"\x08\x03\x18\x04"), "does not begin with trace metadata"),
        (stream(node(5, 0)), "no known type"),
        (stream(node(5, 8)), "no known type"),
        (stream(b"\x0a"), "not a node"),
        (bytes(200), "no known type"),
        (b"# a comment in a text file\n" * 20, "sample.0.et"),
        (b'{"schema": "1.0.1", "nodes": []}' * 9, "sample.0.et"),
        (b"\x1f\x8b\x08\x00" + bytes(range(256)), "sample.0.et"),
    ],
)
def test_damaged(tmp_path: Path, content: bytes, message: str) -> None:
    """Empty, truncated and foreign files are told apart."""
    file = tmp_path / "sample.0.et"
    file.write_bytes(content)
    with pytest.raises(InputError, match=message):
        list(read_trace(file))


def test_files_of_a_job(tmp_path: Path) -> None:
    """A folder, a prefix and one file find their ranks, in order of number; other files do not count."""
    nodes = [node(0, 4, us=1)]
    prefix = write(tmp_path, dict.fromkeys(range(12), nodes))
    (tmp_path / "readme.txt").write_text("x")
    (tmp_path / "x.et").write_text("x")
    expected = {rank: tmp_path / f"job.{rank}.et" for rank in range(12)}
    assert trace_files(tmp_path) == trace_files(prefix) == expected
    assert list(trace_files(prefix)) == list(range(12))
    assert trace_files(tmp_path / "job.3.et") == {3: expected[3]}


def test_no_files(tmp_path: Path) -> None:
    """Nothing there, ranks missing, two jobs in one folder, one rank twice."""
    with pytest.raises(InputError, match="no execution traces here"):
        trace_files(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        trace_files(tmp_path / "a" / "b")
    write(tmp_path, {0: [], 3: []})
    with pytest.raises(InputError, match=r"missing.*1, 2"):
        trace_files(tmp_path)
    write(tmp_path, {0: []}, prefix="other")
    with pytest.raises(InputError, match="several workloads"):
        trace_files(tmp_path)
    write(tmp_path / "twice", {0: []})
    (tmp_path / "twice" / "job.00.et").write_bytes(b"")
    with pytest.raises(InputError, match="two files of one rank"):
        trace_files(tmp_path / "twice")


def test_streams_in_bounded_memory(tmp_path: Path) -> None:
    """Nodes are not kept: reading many takes a small part of what holding them does, and they add up."""
    count = 20_000
    file = tmp_path / f"big.{count}.et"
    file.write_bytes(stream(*(node(k, 4, us=3, after=[k - 1] if k else []) for k in range(count))))

    def peak(read: Callable[[], object]) -> int:
        tracemalloc.start()
        kept = read()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        del kept
        return most

    assert read_rank(file, 0, 2).compute_us == 3 * count
    assert peak(lambda: read_rank(file, 0, 2)) < peak(lambda: list(read_trace(file))) / 2


def test_published_hashes() -> None:
    """Two files of the reference repository, known by hash only, made from their description."""
    from topoopt.formats.chakra import collective_node, trace_bytes

    for n, rank, size, digest in (
        (4, 0, 81, "b6c97dd5366d439fe95f5db9b34ded4163f5e131584c941de0764a8957ba10fe"),
        (8, 3, 83, "bbf35adc612dc2b7ffae5522353cad9095f6cb283c09ee5f1bc4e7e5f0ecc5a5"),
    ):
        made = trace_bytes([collective_node(rank, f"all_reduce_{n}npus_1MB", chakra.CommType.ALL_REDUCE, 1 << 20)])
        assert len(made) == size
        assert hashlib.sha256(made).hexdigest() == digest
