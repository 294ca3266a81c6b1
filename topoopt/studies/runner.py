"""Do what is missing of a study."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from topoopt.core.arrays import GIB
from topoopt.core.comparison import Study, StudyRun
from topoopt.core.errors import InputError, MachineError, Problem
from topoopt.files.atomic import failed_write, make_directory, write_text_atomically
from topoopt.files.documents import Limits, load_document
from topoopt.studies.execute import ENVIRONMENT, FAILURES, PROGRAM, RUN_INTERRUPTED, Store, StudyStop
from topoopt.studies.executors import EXECUTORS, Event, ExecutorWork

STUDY_FILE = "study.json"

PLAN_LIMITS = Limits(json_bytes=GIB, json_nodes=50_000_000)
"""Of study.json: a hundred thousand runs with all that varies."""


@dataclass(frozen=True)
class Tally:
    """How a study stands.

    Attributes:
        total: runs of the study that differ.
        done: that gave an answer; failed: outcome -> number of the others; missing: not run yet.
        ran: runs done just now.
    """

    total: int
    done: int
    failed: dict[str, int]
    missing: int
    ran: int


def plan_document(study: Study) -> dict[str, Any]:
    """study.json: all that the table and the report need of the study file."""
    document = asdict(study)
    for run in document["runs"]:
        del run["document"]
    return document


def open_store(study: Study, out: Path) -> Store:
    """The directory of a study, made if need be, its plan written.

    Raises:
        InputError: the directory holds another study.
        WriteError: it cannot be written.
    """
    make_directory(out)
    with _locked(out):
        _write_plan(study, out)
        store = Store(out)
        store.clean()
    return store


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Only one study at a time looks at what is there and tidies up."""
    try:
        lock = os.open(root / ".lock", os.O_WRONLY | os.O_CREAT, 0o644)
    except OSError as error:
        raise failed_write(f"{root}: cannot be written", error) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _write_plan(study: Study, out: Path) -> None:
    plan = out / STUDY_FILE
    if plan.exists():
        name = _plan_name(plan)
        if name != study.name:
            text = "this directory holds another study"
            raise InputError(
                [Problem(text, file=str(out), value=name, allowed=f"a new directory, or study {study.name}")]
            )
    elif any(not entry.name.startswith(".") for entry in out.iterdir()):
        text = "this directory is not empty and holds no study"
        raise InputError([Problem(text, file=str(out), allowed="a new or empty directory")])
    head = plan_document(study)
    lines = ",\n".join("  " + json.dumps(run, separators=(",", ":")) for run in head.pop("runs"))
    text = json.dumps(head, indent=1)[:-2] + ',\n "runs": [\n' + lines + "\n ]\n}\n"
    write_text_atomically(plan, text)


def _plan_name(plan: Path) -> str:
    try:
        data = load_document(plan, PLAN_LIMITS).data
    except InputError:
        return "unreadable"
    return str(data.get("name")) if isinstance(data, dict) else "unreadable"


def missing_runs(study: Study, store: Store, *, retry_failed: bool) -> tuple[list[StudyRun], list[StudyRun]]:
    """Runs never begun, and others: with a damaged record, cut short, and with `retry_failed` those that failed."""
    finished = store.finished()
    unique = list({run.identity: run for run in study.runs}.values())
    new = [run for run in unique if run.identity not in finished]
    again = []
    for run in unique:
        if run.identity in finished:
            record = store.record(run.identity)
            if record is None or record["outcome"] in (FAILURES if retry_failed else (RUN_INTERRUPTED,)):
                again.append(run)
    return new, again


def run_study(
    study: Study,
    out: str | os.PathLike[str],
    *,
    jobs: int,
    executor: str = "local",
    retry_failed: bool = False,
    stop: StudyStop | None = None,
    on_event: Callable[[Event], None] | None = None,
    on_plan: Callable[[int], None] | None = None,
    program: str = PROGRAM,
    options: tuple[tuple[str, str], ...] = (),
) -> Tally:
    """Do the runs of a study that are missing, and with `retry_failed` those that failed.

    Args:
        study: expanded study file.
        out: directory of the study; continued when it exists.
        jobs: runs at the same time.
        executor: name in EXECUTORS.
        retry_failed: do failed runs again.
        stop: once interrupted no run begins; those in flight are asked for the best they have, which is kept till they
            are done again. Once `kill` is set they are killed.
        on_event: called in this thread as runs start and end.
        on_plan: called with the number of runs to do.
        program: see `ExecutorWork`.
        options: of the executor.

    Raises:
        InputError: the directory holds another study, or no such executor.
        WriteError: the directory cannot be written.
        MachineError: disk full, and the like; what was done is kept, the rest is missing.
    """
    if executor not in EXECUTORS:
        allowed = ", ".join(EXECUTORS)
        raise InputError([Problem("no such executor", path="--executor", value=executor, allowed=allowed)])
    store = open_store(study, Path(out))
    stop = stop or StudyStop()
    ran, failure = 0, ""
    new, again = missing_runs(study, store, retry_failed=retry_failed)
    if on_plan is not None:
        on_plan(len(new) + len(again))
    for runs, replace in ((new, False), (again, True)):
        if not runs or stop.interrupted.is_set():
            continue
        work = ExecutorWork(runs, store, jobs, replace, stop, program, options)
        for event in EXECUTORS[executor](work):
            outcome = None if event.record is None else event.record["outcome"]
            if event.record is not None and outcome == ENVIRONMENT:
                failure = failure or str(event.record["reason"])
                stop.give_up()
            elif outcome not in (None, RUN_INTERRUPTED):
                ran += 1
            if on_event is not None:
                on_event(event)
    if failure:
        text = f"{out}: stopped after {ran} runs, for the machine failed; the same command goes on later"
        raise MachineError(f"{text} ({failure})")
    return tally(study, store, ran)


def tally(study: Study, store: Store, ran: int = 0) -> Tally:
    """Count how all runs of a study stand."""
    finished = store.finished()
    identities = {run.identity for run in study.runs}
    failed: dict[str, int] = {}
    done = 0
    for identity in identities & finished:
        record = store.record(identity)
        if record is None:
            continue
        if record["outcome"] in FAILURES:
            failed[record["outcome"]] = failed.get(record["outcome"], 0) + 1
        else:
            done += 1
    missing = len(identities) - done - sum(failed.values())
    return Tally(len(identities), done, dict(sorted(failed.items())), missing, ran)
