"""Files are written whole or not at all, and nothing is replaced by accident; tables and plots are such files.

Who writes holds a lock on the temporary file; one that nobody holds was left by a process that was killed, and is
removed by the next that writes the same thing.
"""

from __future__ import annotations

import contextlib
import csv
import fcntl
import io
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from topoopt.core.errors import InputError, MachineError, Problem, TopooptError, is_of_machine, raise_any
from topoopt.core.process import end_if_interrupted


class WriteError(TopooptError):
    """A result cannot be written where the user wants it (no such folder, no permission)."""

    exit_code = 2


def failed_write(message: str, error: OSError | ValueError) -> TopooptError:
    """What to raise for an error of the system: the place is wrong, or the machine cannot write now."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (MachineError if is_of_machine(error) else WriteError)(f"{message}: {reason}")


def make_directory(path: str | os.PathLike[str]) -> None:
    """Make a folder and those above it.

    Raises:
        WriteError: it cannot be made, or something else has its name.
        MachineError: no space, and the like.
    """
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise failed_write(f"{os.fspath(path)}: the folder cannot be made", error) from None


@contextlib.contextmanager
def _beside(path: str, taken: Callable[[str], str | None], make: Callable[[str], int]) -> Iterator[tuple[str, int]]:
    """A temporary name in the folder where `path` will be, renamed to it at the end; its handle, locked.

    A link is followed, so what it points to is replaced and the link stays.
    """
    temporary: str | None = None
    handle = -1
    try:
        target = os.path.realpath(path)
        if os.path.lexists(target) and (why := taken(target)):
            raise WriteError(f"{path}: cannot be written: {why}")
        folder, name = os.path.dirname(target), os.path.basename(target)[:100]
        _remove_leftovers(folder, name)
        while True:
            temporary = os.path.join(folder, f".{name}.{secrets.token_hex(8)}.tmp")
            handle = make(temporary)
            with contextlib.suppress(OSError):  # a file system without locks: nothing is removed there either
                fcntl.flock(handle, fcntl.LOCK_EX)
            if os.path.lexists(temporary):  # not taken for a leftover before it was locked
                break
            os.close(handle)
            handle = -1
        yield temporary, handle
        end_if_interrupted()
        os.rename(temporary, target)
        temporary = None
    except (OSError, ValueError) as error:
        raise failed_write(f"{path}: cannot be written", error) from None
    finally:
        # Reached with a name also when interrupted, so that Ctrl-C leaves nothing behind either.
        if temporary is not None:
            _remove(temporary)
        if handle >= 0:
            os.close(handle)


def _remove_leftovers(folder: str, name: str) -> None:
    left = re.compile(rf"\.{re.escape(name)}\.[0-9a-f]{{16}}\.tmp")
    with contextlib.suppress(OSError):
        for entry in [item.path for item in os.scandir(folder) if left.fullmatch(item.name)]:
            with contextlib.suppress(OSError):
                handle = os.open(entry, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(entry)
                finally:
                    os.close(handle)


def _remove(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _write(handle: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]
    os.fsync(handle)


def write_bytes_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write so that the file has its old content or the whole new one, whatever happens.

    A link is followed, so what it points to is replaced and the link stays.

    Raises:
        WriteError, MachineError: the file cannot be written; nothing is left behind.
    """

    def taken(target: str) -> str | None:
        return None if os.path.isfile(target) else "not a regular file"

    def make(temporary: str) -> int:
        return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)

    with _beside(os.fspath(path), taken, make) as (_, handle):
        _write(handle, data)


def write_text_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text, whole or not at all.

    Raises:
        WriteError, MachineError: the file cannot be written; nothing is left behind.
    """
    try:
        data = text.encode("utf-8")
    except ValueError as error:
        raise WriteError(f"{os.fspath(path)}: cannot be written: {error}") from None
    write_bytes_atomically(path, data)


def write_folder_atomically(path: str | os.PathLike[str], files: Mapping[str, bytes], *, replace: bool = False) -> None:
    """Make a folder with the given files, by their plain names; nothing that is there already is touched.

    Args:
        path: of the folder.
        files: content by name.
        replace: put it in the place of a folder that holds files of the same sorts (suffixes), and nothing else.

    Raises:
        WriteError: the name is taken by anything but an empty folder, or one that may be replaced, or it cannot be
            written; nothing is left behind.
        MachineError: no space, and the like; nothing is left behind.
    """
    folder = os.fspath(path)
    for name in files:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,200}", name):
            raise ValueError(f"not a plain file name: {name!r}")

    def taken(target: str) -> str | None:
        if not os.path.isdir(target):
            return "it exists and is not a folder"
        entries = list(os.scandir(target))
        if not entries or (replace and _alike(entries, files)):
            return None
        return "it exists and holds other things" if replace else "it exists and is not an empty folder"

    def make(temporary: str) -> int:
        os.makedirs(os.path.dirname(temporary), exist_ok=True)
        os.mkdir(temporary)
        return os.open(temporary, os.O_RDONLY)

    target, former = os.path.realpath(folder), None
    try:
        with _beside(folder, taken, make) as (temporary, _):
            for name, data in files.items():
                handle = os.open(os.path.join(temporary, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
                try:
                    _write(handle, data)
                finally:
                    os.close(handle)
            if os.path.isdir(target) and os.listdir(target):
                former = f"{temporary}-former"
                os.rename(target, former)
    finally:
        if former is not None and os.path.lexists(target):
            _remove(former)
        elif former is not None:  # the new one could not be put there
            os.rename(former, target)


def _alike(entries: list[os.DirEntry[str]], files: Mapping[str, bytes]) -> bool:
    sorts = {os.path.splitext(name)[1] for name in files}
    return all(entry.is_file(follow_symlinks=False) and os.path.splitext(entry.name)[1] in sorts for entry in entries)


def refuse_existing(files: Iterable[Path], allowed: str) -> None:
    """Stop where a file is there already.

    Args:
        allowed: what the user may do instead.

    Raises:
        InputError: all those that are there.
    """
    there = [path for path in files if path.exists()]
    if there:
        raise InputError([Problem("exists already", file=str(path), allowed=allowed) for path in there])


def sole_target(files: Sequence[Path] | None, default: Path) -> Path:
    """The one file or folder that a command writes.

    Args:
        files: of `--output`.
        default: where none is named.

    Raises:
        InputError: several are named.
    """
    if files and len(files) > 1:
        raise InputError([Problem("too many", path="--output", value=str(files[-1]), allowed="one file or folder")])
    return files[0] if files else default


def require_new(file: Path, force: bool) -> Path:
    """The same file, once it may be written.

    Raises:
        InputError: it is there already, and nothing may be replaced.
    """
    if not force:
        refuse_existing([file], "--force replaces it")
    return file


PLOTS = (".html", ".svg")


def targets(files: Sequence[Path] | None, force: bool, *forms: Sequence[str]) -> list[Path | None]:
    """Files by their sort, before minutes are spent on what should go there.

    Args:
        files: of `--output`.
        force: whether files that are there may be replaced.
        forms: the endings of each sort.

    Returns:
        A file of each sort; None where none is named.

    Raises:
        InputError: no folder to write to, a folder of that name, a file that is there, an unknown ending, two files
            of one sort.
    """
    problems: list[Problem] = []
    selected: list[Path | None] = [None] * len(forms)
    for file in files or ():
        sort = next((i for i, endings in enumerate(forms) if file.suffix.lower() in endings), None)
        wrong, allowed = "", None
        if file.is_dir() or not file.parent.is_dir():
            wrong, allowed = "cannot be written", "a file in a folder"
        elif sort is None:
            wrong, allowed = "unknown format", ", ".join(ending for endings in forms for ending in endings)
        elif selected[sort] is not None:
            wrong, allowed = "two files of one sort", "one"
        elif file.exists() and not force:
            wrong, allowed = "exists already", "--force replaces it"
        else:
            selected[sort] = file
        if wrong:
            problems.append(Problem(wrong, path="--output", value=str(file), allowed=allowed))
    raise_any(problems)
    return selected


def csv_text(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A table as CSV, its lines ended by a newline alone; None is an empty cell."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return stream.getvalue()


def write_targets(
    table: Path | None, plot: Path | None, *, text: Callable[[], str], svg: Callable[[], str], html: Callable[[], str]
) -> dict[str, str | None]:
    """Write what was asked for; `text` is the CSV, the plot is by the extension of its file.

    Returns:
        The names as given, under `csv` and `plot`.

    Raises:
        WriteError: a file cannot be written.
    """
    if table is not None:
        write_text_atomically(table, text())
    if plot is not None:
        write_text_atomically(plot, svg() if plot.suffix.lower() == ".svg" else html())
    return {"csv": None if table is None else str(table), "plot": None if plot is None else str(plot)}
