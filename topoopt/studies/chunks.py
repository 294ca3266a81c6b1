"""Runs handed to another machine in chunks: several to a task, so that a warm process is shared and little is sent."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topoopt.core.comparison import StudyRun
from topoopt.studies.execute import ENVIRONMENT, execute
from topoopt.studies.process import Worker
from topoopt.studies.stopping import StudyStop
from topoopt.studies.store import Store

MOST_RUNS = 32
"""Runs of a chunk at most: what dies with a machine is done again, what waits cannot be shared out."""


@dataclass(frozen=True)
class Chunk:
    """Runs done one after another, somewhere that sees the directory of the study.

    Attributes:
        runs: what to do.
        root: directory of the study.
        replace, program: as of `ExecutorWork`.
        stop_file: the study is to end once this file is there, and to hurry once one with HURRY behind its name is.
    """

    runs: tuple[StudyRun, ...]
    root: str
    replace: bool
    program: str
    stop_file: str


HURRY = ".now"


class FileEvent(threading.Event):
    """An event that another machine sets by making a file."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def is_set(self) -> bool:
        """Whether the file is there."""
        return super().is_set() or os.path.exists(self.path)


def tell_stop(stop: StudyStop, path: Path) -> None:
    """Make the files that tell other machines what was asked for here."""
    for event, file in ((stop.interrupted, path), (stop.hurry, path.with_name(path.name + HURRY))):
        if event.is_set() and not file.exists():
            file.touch()


def new_stop_file(root: Path) -> Path:
    """A name for a stop file in the directory of a study."""
    folder = root / "unfinished"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"stop.{secrets.token_hex(8)}"


def chunks_of(runs: Sequence[StudyRun], number: int, most: int = MOST_RUNS) -> list[tuple[StudyRun, ...]]:
    """Runs dealt out like cards, so that long ones that stand together do not end up together."""
    count = max(1, min(len(runs), max(number, -(-len(runs) // most))))
    return [tuple(runs[start::count]) for start in range(count)]


def do_chunk(chunk: Chunk) -> list[tuple[str, dict[str, Any]]]:
    """Do the runs of a chunk that are not there yet; (identity, record) of each that is there at the end."""
    store = Store(Path(chunk.root))
    stop = StudyStop(interrupted=FileEvent(chunk.stop_file), hurry=FileEvent(chunk.stop_file + HURRY))
    worker = Worker(chunk.program)
    records = []
    try:
        for run in chunk.runs:
            if stop.interrupted.is_set():
                break
            record = None if chunk.replace else store.record(run.identity)
            if record is None:
                record = execute(run, store, worker, stop, replace=chunk.replace)
            records.append((run.identity, record))
            if record["outcome"] == ENVIRONMENT:
                break
    finally:
        worker.close()
    return records


def remove(path: Path) -> None:
    """Remove the files of `tell_stop` that are there."""
    for file in (path, path.with_name(path.name + HURRY)):
        with suppress(OSError):
            file.unlink()
