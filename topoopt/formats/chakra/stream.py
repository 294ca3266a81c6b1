"""Chakra execution traces as streams of nodes: one node in memory at a time, every length checked before it is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any, BinaryIO

from google.protobuf.message import DecodeError

from topoopt.core.arrays import GIB
from topoopt.core.errors import InputError
from topoopt.files.untrusted import opened, refusal
from topoopt.formats.chakra.content import MAX_LENGTH_BYTES, MAX_MESSAGE_BYTES, Metadata, Node, NodeType

TRACE = "a Chakra execution trace (length-delimited protobuf: metadata, then nodes)"
SUFFIX = ".et"
MAX_FILE_BYTES = 16 * GIB
_TYPES = frozenset(int(kind) for kind in NodeType if kind is not NodeType.INVALID)


def _bad(message: str, file: str, *, value: object = None, allowed: str | None = TRACE) -> InputError:
    return refusal(message, file, value=value, allowed=allowed)


def _length(stream: BinaryIO, file: str, count: int) -> int | None:
    """Length of the next message, None at the end of the file."""
    number = 0
    for place in range(MAX_LENGTH_BYTES):
        byte = stream.read(1)
        if not byte:
            if place == 0:
                return None
            raise _bad(f"the file ends inside the length of message {count}: it is truncated", file)
        number |= (byte[0] & 0x7F) << (7 * place)
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
    """The metadata of one rank's trace, then its nodes, as protobuf messages of `topoopt.formats.chakra.content`.

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


def trace_files(path: str | os.PathLike[str]) -> dict[int, FilePath]:
    """The file of every rank: PATH is a folder, a prefix of `PREFIX.RANK.et`, or one file (alone, whatever its rank).

    Raises:
        InputError: none there, several traces in a folder, ranks missing.
    """
    given = FilePath(os.fspath(path))
    try:
        return _trace_files(given)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _bad(f"cannot be read: {reason}", str(given), allowed=None) from None


def _trace_files(given: FilePath) -> dict[int, FilePath]:
    if given.suffix == SUFFIX and given.exists():
        number = given.stem.rpartition(".")[2]
        return {int(number) if _is_rank(number) else 0: given}
    folder, prefix = (given, None) if given.is_dir() else (given.parent, given.name)
    found: dict[str, dict[int, FilePath]] = {}
    for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
        stem, _, rank = entry.name.removesuffix(SUFFIX).rpartition(".")
        if entry.suffix == SUFFIX and _is_rank(rank) and prefix in (None, stem):
            ranks = found.setdefault(stem, {})
            if int(rank) in ranks:
                raise _bad("two files of one rank", str(entry), value=int(rank), allowed=None)
            ranks[int(rank)] = entry
    if not found:
        allowed = "a folder of PREFIX.RANK.et files, such a PREFIX, or one .et file"
        raise _bad("no execution traces here" if folder.is_dir() else "no such folder", str(given), allowed=allowed)
    if len(found) > 1:
        allowed = "one of: " + ", ".join(str(folder / stem) for stem in sorted(found)[:20])
        raise _bad("traces of several workloads in this folder", str(given), value=len(found), allowed=allowed)
    ranks = next(iter(found.values()))
    missing = sorted(set(range(max(ranks) + 1)) - set(ranks)) if max(ranks) < 1 << 20 else [0]
    if missing:
        listed = ", ".join(str(rank) for rank in missing[:20])
        raise _bad("traces of some ranks are missing", str(given), value=listed, allowed="ranks 0 to n-1, each once")
    return dict(sorted(ranks.items()))
