"""Files and folders written whole or not at all: a temporary name beside them, flushed to the disk, then renamed."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from topoopt.core.errors import TopooptError


class WriteError(TopooptError):
    """A result cannot be written where the user wants it (no such folder, no permission, disk full)."""

    exit_code = 2


def _reason(error: OSError | ValueError) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def make_directory(path: str | os.PathLike[str]) -> None:
    """Make a folder and those above it.

    Raises:
        WriteError: it cannot be made, or something else has its name.
    """
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise WriteError(f"{os.fspath(path)}: the folder cannot be made: {_reason(error)}") from None


def write_bytes_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write so that the file has its old content or the whole new one, whatever happens.

    A link is followed, so what it points to is replaced and the link stays.

    Raises:
        WriteError: the file cannot be written; nothing is left behind.
    """
    file = os.fspath(path)
    temporary: str | None = None
    try:
        target = os.path.realpath(file)
        if os.path.lexists(target) and not os.path.isfile(target):
            raise WriteError(f"{file}: cannot be written: not a regular file")
        name = f".{os.path.basename(target)[:100]}.{secrets.token_hex(8)}.tmp"
        temporary = os.path.join(os.path.dirname(target), name)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
        temporary = None
    except (OSError, ValueError) as error:
        raise WriteError(f"{file}: cannot be written: {_reason(error)}") from None
    finally:
        # Reached with a name also when interrupted, so that Ctrl-C leaves nothing behind either.
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def write_text_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text, whole or not at all.

    Raises:
        WriteError: the file cannot be written; nothing is left behind.
    """
    try:
        data = text.encode("utf-8")
    except ValueError as error:
        raise WriteError(f"{os.fspath(path)}: cannot be written: {error}") from None
    write_bytes_atomically(path, data)


def write_folder_atomically(path: str | os.PathLike[str], files: Mapping[str, bytes]) -> None:
    """Make a folder with the given files, by their plain names; nothing that is there already is touched.

    Raises:
        WriteError: the name is taken by anything but an empty folder, or it cannot be written; nothing is left behind.
    """
    folder = os.fspath(path)
    for name in files:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,200}", name):
            raise ValueError(f"not a plain file name: {name!r}")
    temporary: str | None = None
    try:
        target = os.path.realpath(folder)
        if os.path.lexists(target) and not (os.path.isdir(target) and not os.listdir(target)):
            raise WriteError(f"{folder}: cannot be written: it exists and is not an empty folder")
        parent = os.path.dirname(target)
        os.makedirs(parent, exist_ok=True)
        temporary = os.path.join(parent, f".{os.path.basename(target)[:100]}.{secrets.token_hex(8)}.tmp")
        os.mkdir(temporary)
        for name, data in files.items():
            with open(os.path.join(temporary, name), "xb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        os.rename(temporary, target)
        temporary = None
    except (OSError, ValueError) as error:
        raise WriteError(f"{folder}: cannot be written: {_reason(error)}") from None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
