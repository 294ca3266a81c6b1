"""Do one run of a study again and compare."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topoopt.core.arrays import GIB
from topoopt.core.comparison import RunLimits, StudyRun
from topoopt.core.errors import InputError, Problem
from topoopt.core.proofs import StopReason
from topoopt.files.faults import value_text
from topoopt.files.untrusted import file_sha256, read_text
from topoopt.studies.collect import read_plan
from topoopt.studies.execute import execute
from topoopt.studies.file_options import faults_of_options, options_of
from topoopt.studies.identity import code_versions
from topoopt.studies.process import PROGRAM, Worker
from topoopt.studies.rows import TIMES, row_of
from topoopt.studies.schema import COMMANDS
from topoopt.studies.stopping import StudyStop
from topoopt.studies.store import Store

MAX_BYTES = GIB

SOLVE_OPTIONS = ("method", "seed", "time-limit", "budget")
"""Those that a study gives to `solve`."""


LIMITS = (StopReason.TIME, StopReason.MEMORY, StopReason.INTERRUPTED)
"""What ends a search at a point that no seed determines."""


@dataclass(frozen=True)
class Reproduction:
    """A run beside itself.

    Attributes:
        identity: of the run.
        command: as it was run.
        differences: column -> (then, now), times left out; empty when all is the same.
        same_files: file -> whether its bytes are the same (solution.json, where there is one).
        versions_differ: name -> (then, now) of code and libraries.
        folder: where the new run is.
        cut_short: limits that ended the run, then or now; such a run gets as far as the machine lets it.
    """

    identity: str
    command: tuple[str, ...]
    differences: dict[str, tuple[Any, Any]]
    same_files: dict[str, bool]
    versions_differ: dict[str, tuple[str | None, str | None]]
    folder: Path
    cut_short: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether the run came out as before."""
        return not self.differences and all(self.same_files.values())

    @property
    def comparable(self) -> bool:
        """Whether it should have: not where a limit of time or memory ended it."""
        return not self.cut_short


def find_run(directory: Path, name: str) -> dict[str, Any]:
    """The planned run whose identity begins with `name`.

    Raises:
        InputError: none, or several.
    """
    runs = {run["identity"]: run for run in read_plan(directory)["runs"]}
    found = [run for identity, run in runs.items() if name and identity.startswith(name)]
    if len(found) != 1:
        text = "several runs begin so" if found else "no such run"
        allowed = "the beginning of a hash in the column `run` of the table"
        raise InputError([Problem(text, file=str(directory), value=name, allowed=allowed)])
    run: dict[str, Any] = found[0]
    return run


def reproduce(directory: Path, name: str, scratch: Path, *, program: str = PROGRAM) -> Reproduction:
    """Run again what a finished run of a study ran, from the instance kept in its folder, in `scratch`.

    Raises:
        InputError: no such run, or it was never done.
    """
    plan = read_plan(directory)
    planned = find_run(directory, name)
    store = Store(directory)
    before = store.record(planned["identity"])
    if before is None:
        raise InputError([Problem("this run was not done yet", file=str(directory), value=name)])
    _refuse_writes(directory, planned)
    run = _run(planned, store.folder(planned["identity"]))
    worker = Worker(program)
    again = Store(scratch)
    try:
        after = execute(run, again, worker, StudyStop(), replace=True)
    finally:
        worker.close()
    rows = [row_of(planned, record) for record in (before, after)]
    names = [key for key in dict.fromkeys([*rows[0], *rows[1]]) if key not in TIMES]
    differences = {key: (rows[0].get(key), rows[1].get(key)) for key in names if rows[0].get(key) != rows[1].get(key)}
    folders = (store.folder(run.identity), again.folder(run.identity))
    same_files = {
        file: (folders[1] / file).is_file() and len({file_sha256(folder / file, MAX_BYTES) for folder in folders}) == 1
        for file in ("solution.json",)
        if (folders[0] / file).is_file()
    }
    now = dict(code_versions())
    then = plan["versions"]
    differ = {key: (then.get(key), now.get(key)) for key in {**then, **now} if then.get(key) != now.get(key)}
    ended = dict.fromkeys(str(row["stopped_by"]) for row in rows if row["stopped_by"] in LIMITS)
    return Reproduction(
        run.identity, (*run.command, *run.arguments), differences, same_files, differ, folders[1], tuple(ended)
    )


def _refuse_writes(directory: Path, planned: dict[str, Any]) -> None:
    """Refuse what no study file asks for: the folder may come from a stranger.

    Raises:
        InputError: another command, or options that would write anywhere but into the folder of the run.
    """
    command = " ".join(planned["command"])
    faults = faults_of_options(options_of(planned["arguments"]))
    words = SOLVE_OPTIONS if command == "solve" else None
    others = [key for key in options_of(planned["arguments"]) if words is not None and key not in words]
    if command not in ("solve", *COMMANDS) or faults or others:
        text = "not a run of a study" if not faults else faults[0].message
        raise InputError([Problem(text, str(directory), None, planned["identity"], value_text(command))])


def _run(planned: dict[str, Any], folder: Path) -> StudyRun:
    """The run as planned, with the instance that was kept beside its result."""
    kept = folder / "instance.json"
    return StudyRun(
        position=0,
        identity=planned["identity"],
        instance=planned["instance"],
        command=tuple(planned["command"]),
        arguments=tuple(planned["arguments"]),
        document=read_text(kept, MAX_BYTES).rstrip("\n") if kept.is_file() else None,
        source=planned["source"],
        method=planned["method"],
        seed=planned["seed"],
        repetition=planned["repetition"],
        factors=tuple(planned["factors"].items()),
        limits=RunLimits(**planned["limits"]),
    )
