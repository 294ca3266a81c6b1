"""Files are written whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from topoopt.core.errors import MachineError, TopooptError
from topoopt.files.atomic import make_directory, write_folder_atomically, write_text_atomically


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    """The content is UTF-8 with plain line ends, and nothing else is left in the folder."""
    path = tmp_path / "a.txt"
    write_text_atomically(path, "old\n")
    write_text_atomically(path, "n\N{LATIN SMALL LETTER E WITH ACUTE}w\n")
    assert path.read_bytes() == b"n\xc3\xa9w\n"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_new_files_follow_the_umask(tmp_path: Path) -> None:
    """Others may read a result as far as the user's umask lets them, unlike a usual temporary file."""
    before = os.umask(0o022)
    try:
        write_text_atomically(tmp_path / "a.txt", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o644


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk fills up the message says so, the old content stays, the temporary file is gone."""
    path = tmp_path / "a.txt"
    path.write_text("old")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TopooptError, match="No space left on device") as caught:
        write_text_atomically(path, "new")
    assert str(path) in str(caught.value)
    assert isinstance(caught.value, MachineError), "nothing is wrong with what was given"
    assert caught.value.exit_code == 7
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of writing removes the temporary file."""

    def interrupt(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_text_atomically(tmp_path / "a.txt", "new")
    assert os.listdir(tmp_path) == []


def test_text_that_cannot_be_encoded_leaves_nothing_behind(tmp_path: Path) -> None:
    """A lone surrogate is no text."""
    with pytest.raises(TopooptError, match="cannot be written"):
        write_text_atomically(tmp_path / "a.txt", "\ud800")
    assert os.listdir(tmp_path) == []


def test_places_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    """A missing folder, a folder and a device are refused; a device is never replaced by a file."""
    for path in (tmp_path / "none" / "a.txt", tmp_path, Path("/dev/null"), tmp_path / "a\0b"):
        with pytest.raises(TopooptError, match="cannot be written"):
            write_text_atomically(path, "x")
    assert not Path("/dev/null").is_file()
    assert os.listdir(tmp_path) == []


def test_a_link_is_followed(tmp_path: Path) -> None:
    """Writing through a link changes what it points to and keeps the link."""
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    write_text_atomically(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


def test_folders_are_made_or_refused(tmp_path: Path) -> None:
    """Folders above are made too; a file in the way is named."""
    make_directory(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("x")
    with pytest.raises(TopooptError, match="the folder cannot be made"):
        make_directory(tmp_path / "file" / "c")


def test_a_folder_is_made_whole(tmp_path: Path) -> None:
    """Files stand under their names, an empty folder may be in the place, nothing else is left."""
    write_folder_atomically(tmp_path / "a" / "b", {"x.txt": b"1", "y.et": b"\x00"})
    assert (tmp_path / "a" / "b" / "y.et").read_bytes() == b"\x00"
    (tmp_path / "c").mkdir()
    write_folder_atomically(tmp_path / "c", {"x.txt": b"2"})
    assert os.listdir(tmp_path / "c") == ["x.txt"]
    assert sorted(os.listdir(tmp_path)) == ["a", "c"]
    assert os.listdir(tmp_path / "a") == ["b"]


@pytest.mark.parametrize("taken", ["file", "folder"])
def test_a_folder_in_the_way_stays(tmp_path: Path, taken: str) -> None:
    """A file or a folder with something in it is never replaced."""
    if taken == "folder":
        (tmp_path / "x").mkdir()
        (tmp_path / "x" / "mine").write_text("keep")
    else:
        (tmp_path / "x").write_text("keep")
    with pytest.raises(TopooptError, match=r"is not (an empty|a) folder"):
        write_folder_atomically(tmp_path / "x", {"a": b"1"})
    assert ((tmp_path / "x" / "mine") if taken == "folder" else tmp_path / "x").read_text() == "keep"
    assert os.listdir(tmp_path) == ["x"]


def test_a_full_disk_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk fills up at the second file nothing is left behind."""
    done: list[int] = []

    def full(handle: int) -> None:
        done.append(handle)
        if len(done) > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TopooptError, match="No space left"):
        write_folder_atomically(tmp_path / "x", {"a": b"1", "b": b"2"})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["../a", "a/b", "", ".", "..", ".hidden", "/etc/passwd", "a\nb"])
def test_names_lead_nowhere(tmp_path: Path, name: str) -> None:
    """Only plain names are taken."""
    with pytest.raises(ValueError, match="plain file name"):
        write_folder_atomically(tmp_path / "x", {name: b""})
    assert os.listdir(tmp_path) == []


KILLED = """
import os, signal, sys
from topoopt.files import atomic
os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "file":
    atomic.write_text_atomically(sys.argv[1], "half")
else:
    atomic.write_folder_atomically(sys.argv[1], {"a": b"1", "b": b"2"})
"""


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_killed_process_left_goes_with_the_next(tmp_path: Path, kind: str) -> None:
    """A process is killed while it writes; the next that writes the same removes its temporary name, nothing else."""
    path = tmp_path / "x.[1]"
    assert subprocess.run([sys.executable, "-c", KILLED, path, kind], check=False).returncode == -signal.SIGKILL
    (left,) = os.listdir(tmp_path)
    assert left.startswith(".x.[1].")
    (tmp_path / ".x.[1].tmp").write_text("of another program")
    (tmp_path / ".y.0123456789abcdef.tmp").write_text("of another file")
    if kind == "file":
        write_text_atomically(path, "whole")
    else:
        write_folder_atomically(path, {"a": b"1"})
    assert sorted(os.listdir(tmp_path)) == [".x.[1].tmp", ".y.0123456789abcdef.tmp", "x.[1]"]


def test_what_is_being_written_is_not_taken_away(tmp_path: Path) -> None:
    """The temporary name of a process that is at work stays: it holds a lock."""
    busy = tmp_path / ".a.txt.0123456789abcdef.tmp"
    with busy.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        write_text_atomically(tmp_path / "a.txt", "x")
        assert sorted(os.listdir(tmp_path)) == [busy.name, "a.txt"]
    write_text_atomically(tmp_path / "a.txt", "y")
    assert os.listdir(tmp_path) == ["a.txt"]


def test_many_writers_of_one_file(tmp_path: Path) -> None:
    """Threads that write one file at once all succeed, and it is always one of theirs."""
    path = tmp_path / "a.txt"
    texts = [str(number) * 1000 for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda k: write_text_atomically(path, texts[k % 8]), range(200)))
    assert path.read_text() in texts
    assert os.listdir(tmp_path) == ["a.txt"]
