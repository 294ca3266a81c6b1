"""Files of unknown origin are opened here alone, with bounds on size; so are the instances of the package.

A named pipe would be waited for, a device read without end, a packed array unpacked beyond all memory, and parsers made
by others fail each in its own way. Here the first two are refused, the third is known before it is unpacked, and
whatever a parser raises becomes one `InputError` with the name of the file. How long a parser takes is bounded by the
size and the number of values that its caller admits.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
import stat
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from topoopt.core.arrays import MIB
from topoopt.core.errors import InputError, Problem, TopooptError
from topoopt.files.issues import nearest_text, value_text

PathName = str | os.PathLike[str]

FREE_UNPACKED = 64 * MIB
"""Unpacked size below which it does not matter how well a file is packed."""

MOST_RATIO = 100
"""Unpacked over packed size beyond that: deflate reaches 1030 on data that say nothing."""

DIRECTORY_BYTES = 4 * MIB
"""Table of contents of an archive; a name takes 47 bytes at least."""


def refusal(
    message: str, file: str, *, line: int | None = None, value: object = None, allowed: str | None = None
) -> InputError:
    """One problem with a file, the value in a form for people."""
    shown = None if value is None else value_text(value)
    return InputError([Problem(message, file=file, line=line, value=shown, allowed=allowed)])


@contextmanager
def parsing(file: str, what: str, allowed: str | None = None) -> Iterator[None]:
    """Whatever a parser of others raises in here says that the file is not `what`.

    Raises:
        InputError: anything but the errors of topoopt was raised; a lack of memory is told as such.
    """
    try:
        yield
    except TopooptError:
        raise
    except MemoryError:
        raise refusal(f"{what} that takes more memory than there is", file, allowed=allowed) from None
    except Exception as error:
        raise refusal(f"not {what}", file, value=f"{type(error).__name__}: {error}", allowed=allowed) from None


_SEEN: ContextVar[list[str] | None] = ContextVar("seen", default=None)


@contextmanager
def files_seen() -> Iterator[list[str]]:
    """The names of all files that are opened here inside the block."""
    names: list[str] = []
    token = _SEEN.set(names)
    try:
        yield names
    finally:
        _SEEN.reset(token)


@contextmanager
def opened(path: PathName, max_bytes: int, allowed: str | None = None) -> Iterator[io.BufferedReader[io.FileIO]]:
    """A regular file, for reading.

    Args:
        path: of the file; a link is followed.
        max_bytes: its size.
        allowed: what it should be, for messages.

    Raises:
        InputError: missing, a folder, a pipe or device, unreadable, too large.
    """
    file = os.fspath(path)
    seen = _SEEN.get()
    if seen is not None:
        seen.append(file)
    try:
        # Without O_NONBLOCK, opening a named pipe would wait for a writer for ever.
        handle = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
        with io.BufferedReader(io.FileIO(handle), 1 << 18) as stream:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                what = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
                raise refusal(f"this is {what}", file, allowed=allowed)
            if status.st_size > max_bytes:
                value = f"{status.st_size} bytes"
                raise InputError([Problem("the file is too large", file, None, None, value, _at_most(max_bytes))])
            yield stream
    except IsADirectoryError:
        raise refusal("this is a folder", file, allowed=allowed) from None
    except FileNotFoundError:
        raise refusal("no such file", file) from None
    except OSError as error:
        raise refusal(f"cannot be read: {error.strerror or error}", file) from None
    except ValueError as error:  # a name that no file can have
        raise refusal(f"cannot be read: {error}", file) from None


def _at_most(max_bytes: int) -> str:
    return f"at most {max_bytes} bytes"


def read_bytes(path: PathName, max_bytes: int, allowed: str | None = None) -> bytes:
    """Content of a regular file.

    Raises:
        InputError: as `opened`; also when it grew beyond `max_bytes` meanwhile.
    """
    content = bytearray()  # piece by piece: a buffer of `max_bytes` would be laid out at once
    with opened(path, max_bytes, allowed) as stream:
        while len(content) <= max_bytes and (piece := stream.read(1 << 20)):
            content += piece
    if len(content) > max_bytes:
        raise refusal("the file is too large", os.fspath(path), allowed=_at_most(max_bytes))
    return bytes(content)


def read_text(path: PathName, max_bytes: int, allowed: str | None = None) -> str:
    """Text of a regular file in UTF-8, a byte order mark left out.

    Raises:
        InputError: as `read_bytes`; not UTF-8.
    """
    content = read_bytes(path, max_bytes, allowed)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise refusal("not UTF-8 text", os.fspath(path), line=line, allowed=allowed) from None


def read_xml_text(path: PathName, max_bytes: int) -> str:
    """Text of an XML file without a document type, which could define entities that multiply.

    Raises:
        InputError: as `read_text`; a document type declaration.
    """
    text = read_text(path, max_bytes, "an XML file")
    if re.search(r"<!\s*(DOCTYPE|ENTITY)", text, re.IGNORECASE):
        raise refusal("document type declarations are not read", os.fspath(path), allowed="XML without <!DOCTYPE ...>")
    return text


def read_csv_rows(path: PathName, max_bytes: int) -> list[dict[str, str]]:
    """Rows of a CSV file by the names of its first line, each of as many cells as that has.

    Raises:
        InputError: as `read_text`; no CSV, a row of another length.
    """
    file = os.fspath(path)
    text = read_text(path, max_bytes, "a CSV file")
    with parsing(file, "a CSV file"):
        names, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
        return [dict(zip(names, row, strict=True)) for row in rows]


def file_sha256(path: PathName, max_bytes: int) -> str:
    """SHA-256 of the content of a regular file, in hexadecimal.

    Raises:
        InputError: as `opened`.
    """
    with opened(path, max_bytes) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class _Stepwise(io.BufferedReader):
    """Gives little at once: `zipfile` takes the whole table of contents in one read, however large that is."""

    def read(self, size: int | None = -1, /) -> bytes:
        most = DIRECTORY_BYTES + 1
        data = super().read(most if size is None or size < 0 else min(size, most))
        if len(data) == most:
            raise ValueError(f"a table of contents of more than {DIRECTORY_BYTES} bytes")
        return data


def unpacked(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """The first `most` bytes of a file in an archive, never more than it claims."""
    with archive.open(name) as stream:
        parts, left = [], min(most, archive.getinfo(name).file_size)
        while left and (part := stream.read(min(left, MIB))):
            parts.append(part)
            left -= len(part)
    return b"".join(parts)


@contextmanager
def opened_zip(path: PathName, max_bytes: int, what: str) -> Iterator[zipfile.ZipFile]:
    """A zip archive whose files together unpack to at most `max_bytes`, and to what its own size makes likely.

    Raises:
        InputError: as `opened`; no archive; encrypted, packed in another way than `deflate`; too much in it, which is
            known before anything is unpacked; whatever is raised while it is open, as by `parsing`.
    """
    file = os.fspath(path)
    with opened(path, max_bytes, what) as stream, parsing(file, what):
        packed = os.fstat(stream.fileno()).st_size
        with _Stepwise(stream.raw) as source, zipfile.ZipFile(source) as archive:
            entries = archive.infolist()
            for info in entries:
                if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise refusal("packed in a way that is not read", file, value=info.filename, allowed="deflate")
            most = min(max_bytes, max(FREE_UNPACKED, MOST_RATIO * packed))
            total = sum(info.file_size for info in entries)
            if total > most:
                text = "too much in this file once it is unpacked"
                raise InputError([Problem(text, file, None, None, f"{total} bytes", _at_most(most))])
            yield archive


MOST_BYTES = 10_000_000
"""Of one of them."""

SUFFIXES = (".yaml", ".json")

KIND = re.compile(r'^\s*"?kind"?: *"?([\w-]+)', re.MULTILINE)

NAMED = re.compile(r"[\w./+*-]+\.(?:yaml|json|csv|npy|parquet|graphml|txt)\b")
"""What may be the name of a file, or a pattern of names, in an instance."""


@dataclass(frozen=True)
class ShippedFile:
    """An instance, or a study, that comes with the package.

    Attributes:
        name: path below the folder, without its suffix.
        path: where it is.
        kind: as in the file.
        summary: its first comment; empty without one.
    """

    name: str
    path: Path
    kind: str
    summary: str


def shipped_folder() -> Path:
    """The folder of the instances: in the package once it is installed, beside it in a clone."""
    package = Path(__file__).parents[1]
    inside = package / "instances"
    return inside if inside.is_dir() else package.parent / "instances"


def shipped_files() -> tuple[ShippedFile, ...]:
    """All of them, by name; those in no sub-folder first."""
    folder = shipped_folder()
    paths = [path for path in folder.rglob("*") if path.suffix in SUFFIXES]
    return tuple(_shipped(path, folder) for path in sorted(paths, key=lambda path: (path.parent != folder, path)))


def _shipped(path: Path, folder: Path) -> ShippedFile:
    text = read_text(path, MOST_BYTES)
    comment = re.match(r"(?:# .*\n)+", text)
    summary = "" if comment is None else " ".join(line.removeprefix("# ") for line in comment[0].splitlines())
    kind = KIND.search(text)
    return ShippedFile(
        path.relative_to(folder).with_suffix("").as_posix(), path, "" if kind is None else kind[1], summary
    )


def shipped_named(name: str, others: Iterable[str] = ()) -> ShippedFile:
    """The one of that name; the folder and the suffix may be left out where that leaves one.

    Args:
        name: of an example.
        others: names that are allowed beside those of examples.

    Raises:
        InputError: none, or several.
    """
    files = shipped_files()
    wanted = name.removeprefix("instances/")
    for suffix in SUFFIXES:
        wanted = wanted.removesuffix(suffix)
    matches = [file for file in files if file.name == wanted] or [
        file for file in files if file.name.rsplit("/", 1)[-1] == wanted
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        allowed = ", ".join(file.name for file in matches)
        raise InputError([Problem("several examples have this name", value=value_text(name), allowed=allowed)])
    allowed = nearest_text(wanted, (*others, *(file.name for file in files)))
    raise InputError([Problem("no such example", value=value_text(name), allowed=allowed)])


def copied(file: ShippedFile) -> dict[str, bytes]:
    """What a copy of one file needs: file name -> content, the files it names beside it, its own name first."""
    made: dict[str, bytes] = {}
    waiting = [file.path]
    for path in waiting:  # grows as files are found
        text = read_text(path, MOST_BYTES)
        for name in dict.fromkeys(NAMED.findall(text)) if path.suffix in SUFFIXES else ():
            files = sorted(input_file for input_file in path.parent.glob(name) if input_file.is_file())
            if files:
                text = text.replace(name, _beside(name))
                queued = {item.resolve() for item in waiting}
                waiting += [input_file for input_file in files if input_file.resolve() not in queued]
        made[path.name] = text.encode()
    return made


def _beside(name: str) -> str:
    """The name of a file, or a pattern, in the same folder; YAML takes a leading star for something else."""
    last = name.rsplit("/", 1)[-1]
    return f"./{last}" if last.startswith("*") else last
