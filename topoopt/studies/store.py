"""The directory of a study: one folder a finished run, named by the run's identity, which appears whole or not at all.

    DIR/study.json            the runs of the last `study run`, in order, and what the report shows
    DIR/runs/ab/abcd.../      run.json (how it ended), output.json, log.txt, instance.json, solution.json, report.html
    DIR/unfinished/           runs in flight; what a killed study left there is removed by the next one
    DIR/results.parquet       one row a run

No file is ever changed after its folder has got its name, so two studies can work in one directory.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topoopt.core.comparison import StudyRun
from topoopt.core.errors import InputError
from topoopt.files.documents import load_document
from topoopt.studies.kept_files import is_record

RUN_FILE = "run.json"


@dataclass(frozen=True)
class Store:
    """A study directory."""

    root: Path

    def folder(self, identity: str) -> Path:
        """Where a finished run is, or will be."""
        return self.root / "runs" / identity[:2] / identity

    def finished(self) -> set[str]:
        """Identities of all finished runs."""
        found: set[str] = set()
        top = self.root / "runs"
        if not top.is_dir():
            return found
        for shelf in os.scandir(top):
            if shelf.is_dir():
                found.update(entry.name for entry in os.scandir(shelf.path) if not entry.name.startswith("."))
        return found

    def record(self, identity: str) -> dict[str, Any] | None:
        """run.json of a finished run; None if there is none, or none that can be read: such a run is done again."""
        try:
            data = load_document(self.folder(identity) / RUN_FILE).data
        except InputError:
            return None
        return data if isinstance(data, dict) and is_record(data, identity) else None

    @contextlib.contextmanager
    def working(self, run: StudyRun) -> Iterator[Path]:
        """A folder to do a run in; gone afterwards unless `publish` took it."""
        place = self.root / "unfinished" / f"{socket.gethostname()}.{os.getpid()}.{secrets.token_hex(4)}"
        place.mkdir(parents=True)
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def publish(self, place: Path, identity: str, *, replace: bool) -> bool:
        """Give a folder its final name; False if another study was quicker.

        `replace`: the run was there already and was made again.
        """
        final = self.folder(identity)
        final.parent.mkdir(parents=True, exist_ok=True)
        if replace and final.exists():
            aside = self.root / "unfinished" / f"{socket.gethostname()}.{os.getpid()}.{secrets.token_hex(4)}"
            with contextlib.suppress(OSError):
                os.rename(final, aside)
            shutil.rmtree(aside, ignore_errors=True)
        try:
            os.rename(place, final)
        except OSError:
            if final.exists():
                return False
            raise
        return True

    def clean(self) -> None:
        """Remove what studies that are no longer alive on this machine left unfinished."""
        place = self.root / "unfinished"
        if not place.is_dir():
            return
        host = socket.gethostname()
        for entry in place.iterdir():
            owner = entry.name.rsplit(".", 2)
            if len(owner) == 3 and owner[0] == host and owner[1].isdigit() and not _alive(int(owner[1])):
                shutil.rmtree(entry, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
