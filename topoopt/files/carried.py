"""Files that an instance names, carried in the instance itself: then one document is all that anybody needs.

The key `files` of an instance maps the name of a file, as the instance names it, to its content: compressed by zlib,
written in base64. `topoopt solve` fills it in the instance that a solution carries.
"""

from __future__ import annotations

import base64
import binascii
import os
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from topoopt.core.errors import InputError, Problem
from topoopt.core.units import MIB
from topoopt.files.documents import Document
from topoopt.files.faults import Fault
from topoopt.files.untrusted import read_bytes

FILES = "files"
MAX_FILES = 1000
MAX_BYTES = 256 * MIB
"""Of all files together, before compression."""

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": {"type": "string", "contentEncoding": "base64"},
    "maxProperties": MAX_FILES,
    "description": "files that this instance names, by name: zlib in base64; filled in by topoopt, not by hand",
}
"""JSON Schema of the key."""


def with_files(document: Mapping[str, Any], folder: str, paths: tuple[str, ...]) -> dict[str, Any] | None:
    """Return a document that carries the files it names, or None where they are too large or gone.

    Parameters
    ----------
    document : of an instance.
    folder : where it stands.
    paths : of the files, as they were opened.
    """
    names: dict[str, str] = {}
    files: dict[str, str] = {}
    total = 0
    for index, path in enumerate(paths):
        name = Path(os.path.relpath(path, folder or ".")).as_posix()
        if os.path.isabs(path) or name.startswith(".."):
            names[os.path.normpath(path)] = name = f"{index}-{os.path.basename(path)}"
        try:
            content = read_bytes(path, MAX_BYTES)
        except InputError:
            return None
        total += len(content)
        if total > MAX_BYTES or len(paths) > MAX_FILES:
            return None
        files[name] = base64.b64encode(zlib.compress(content, 9)).decode("ascii")
    return {**_renamed(document, folder, names), FILES: files}


def _renamed(value: Any, folder: str, names: Mapping[str, str]) -> Any:
    """Return a document whose names of files outside of its folder are those that they are carried by."""
    if isinstance(value, str):
        return names.get(os.path.normpath(os.path.join(folder, value)), value) if names else value
    if isinstance(value, Mapping):
        return {key: _renamed(entry, folder, names) for key, entry in value.items()}
    return [_renamed(entry, folder, names) for entry in value] if isinstance(value, list) else value


@contextmanager
def laid_out(document: Document) -> Iterator[Document]:
    """Yield a document whose carried files stand beside it while it is read; one without such files as it is.

    Raises
    ------
    InputError
        The key is damaged, or whatever is raised inside, with the names of the document and of its files.
    """
    data = document.data
    if not isinstance(data, Mapping) or FILES not in data:
        yield document
        return
    contents = _contents(document, data[FILES])
    with tempfile.TemporaryDirectory(prefix="topoopt-") as folder:
        for name, content in contents.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        file = os.path.join(folder, os.path.basename(document.file))
        rest = {key: value for key, value in data.items() if key != FILES}
        try:
            yield replace(document, file=file, data=rest)
        except InputError as error:
            raise InputError([_original(problem, document.file, file, folder) for problem in error.problems]) from None


def _original(problem: Problem, name: str, file: str, folder: str) -> Problem:
    if problem.file == file:
        return replace(problem, file=name)
    if problem.file is not None and problem.file.startswith(folder):
        return replace(problem, file=f"{name}#/{FILES}/{os.path.relpath(problem.file, folder)}")
    return problem


def _contents(document: Document, files: object) -> dict[str, bytes]:
    """Return the files by name; every one stays inside the folder that it is laid out in."""
    if not isinstance(files, Mapping) or len(files) > MAX_FILES:
        document.refuse([Fault((FILES,), "not a mapping of names to contents", allowed=f"at most {MAX_FILES} files")])
        raise AssertionError("refuse returned with a fault")
    contents: dict[str, bytes] = {}
    faults, left = [], MAX_BYTES
    for name, text in files.items():
        pure = PurePosixPath(name)
        if pure.is_absolute() or not pure.parts or ".." in pure.parts or "\0" in name or "\\" in name:
            faults.append(Fault((FILES, name), "no name of a file below the instance", name, "a relative path"))
            continue
        try:
            unpack = zlib.decompressobj()
            content = unpack.decompress(base64.b64decode(text, validate=True), left + 1)
            whole = unpack.eof and not unpack.unused_data
        except (binascii.Error, zlib.error, TypeError, ValueError):
            whole, content = False, b""
        if not whole:
            allowed = f"zlib in base64, at most {MAX_BYTES} bytes in all"
            faults.append(Fault((FILES, name), "no content of a file", allowed=allowed))
        left -= len(content)
        contents[name] = content
    document.refuse(faults)
    return contents
