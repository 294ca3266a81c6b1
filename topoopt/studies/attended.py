"""A study runs before somebody's eyes: progress, its end by signal or time, its table, and one run done again."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

from solvers.stop import stop_on_signals
from topoopt.core.arrays import GIB
from topoopt.core.comparison import Study, StudyRun
from topoopt.core.errors import CheckError, InputError, Problem, extra
from topoopt.core.proofs import StopReason
from topoopt.files.issues import value_text
from topoopt.files.untrusted import file_sha256, read_text
from topoopt.page.output import Output
from topoopt.studies.execute import ENVIRONMENT, FAILURES, PROGRAM, RUN_INTERRUPTED, Store, StudyStop, Worker, execute
from topoopt.studies.executors import Event, default_jobs
from topoopt.studies.expand import code_versions, command_line_of, option_issues, options_of
from topoopt.studies.results import TABLE_FILE, TABLES, TIMES, ResultRow, collect_rows, read_plan, row_of, write_parquet
from topoopt.studies.runner import Tally, run_study

SAID = "finishing: runs in flight keep the best they have, no more begin; Ctrl-C again to stop with what is there"


@contextmanager
def ended_early(time_limit_s: float | None) -> Iterator[StudyStop]:
    """Look after signals, and a limit, while the block runs; the first signal says at once what comes of it."""

    def on_signal(signals: int) -> None:
        text = SAID if signals == 1 else "stopping"
        os.write(2, f"\n{text}\n".encode())  # a handler of signals must not wait for a lock of the console

    with stop_on_signals(None, two_stage=True, notify=on_signal) as signalled:
        stop = StudyStop(signalled.interrupted, signalled.second_interrupt)

        def over() -> None:
            stop.late.set()
            stop.interrupted.set()

        timer = threading.Timer(time_limit_s or 0.0, over)
        timer.daemon = True
        if time_limit_s is not None:
            timer.start()
        try:
            yield stop
        finally:
            timer.cancel()


QUIET_S = 60.0
"""Seconds between lines where standard error is no terminal."""


class StudyProgress:
    """A bar on a terminal, a line a minute elsewhere."""

    def __init__(self, output: Output, study: Study, jobs: int) -> None:
        self.output = output
        self.jobs = jobs
        self.began = self.said = time.monotonic()
        self.left = len({run.identity for run in study.runs})
        self.running: dict[str, str] = {}
        self.done = self.failed = 0
        self.bar = Progress(
            TextColumn("study"),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TextColumn("{task.fields[text]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
            TimeElapsedColumn(),
            console=output.remarks,
            expand=True,
            transient=True,
            disable=not output.remarks.is_terminal,
        )
        self.task = self.bar.add_task("study", total=self.left, text="")

    def __enter__(self) -> StudyProgress:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def planned(self, total: int) -> None:
        """Only so many runs are missing."""
        self.bar.update(self.task, total=total)
        self.left = total

    def event(self, event: Event) -> None:
        """Take notice of a run that starts or ends."""
        if event.record is None:
            self.running[event.run.identity] = f"{event.run.instance} {event.run.method or ''}".strip()
        else:
            self.running.pop(event.run.identity, None)
            self.done += 1
            outcome = event.record["outcome"]
            if outcome in (*FAILURES, ENVIRONMENT):
                self.failed += 1
                if outcome != RUN_INTERRUPTED:
                    text = f"{outcome}: {event.run.instance} {event.run.method or ''} {event.record['reason']}"
                    self.output.remarks.print(text, markup=False, soft_wrap=True, highlight=False)
        at_work = ", ".join(list(self.running.values())[:3])
        running = f", {len(self.running)} running ({escape(at_work)})" if at_work else ""
        text = f"{self.failed} failed{self._time_left()}{running}"
        self.bar.update(self.task, completed=self.done, text=text)
        if not self.output.remarks.is_terminal and time.monotonic() - self.said >= QUIET_S:
            self.said = time.monotonic()
            self.output.remarks.print(f"{self.done} of {self.left} runs, {text}", highlight=False, soft_wrap=True)

    def _time_left(self) -> str:
        if not self.done:
            return ""
        seconds = (time.monotonic() - self.began) / self.done * max(0, self.left - self.done)
        return f", about {seconds / 60:.0f} min left" if seconds >= 90 else f", about {seconds:.0f} s left"


def attend(
    output: Output,
    study: Study,
    folder: Path,
    stop: StudyStop,
    jobs: int | None = None,
    executor: str = "local",
    retry_failed: bool = False,
    options: tuple[tuple[str, str], ...] = (),
) -> tuple[Tally, list[ResultRow], int]:
    """Do the runs that are missing, telling how far it is, and write the table; counts, its rows, runs side by side.

    Args:
        output: where progress is told.
        study: expanded.
        folder: of the study.
        stop: what ends it, see `run_study`.
        jobs: runs side by side; None: from cores and free memory.
        executor, retry_failed, options: see `run_study`.

    Raises:
        InputError, WriteError, MachineError: see `run_study`; MissingExtraError: what writes tables is not installed.
    """
    extra("pyarrow", TABLES)  # not after hours of runs
    number = jobs or default_jobs(max((run.limits.memory_mib for run in study.runs), default=1))
    with StudyProgress(output, study, number) as progress:
        tally = run_study(
            study,
            folder,
            jobs=number,
            executor=executor,
            retry_failed=retry_failed,
            stop=stop,
            on_event=progress.event,
            on_plan=progress.planned,
            options=options,
        )
    rows = collect_rows(folder)
    write_parquet(rows, folder / TABLE_FILE)
    return tally, rows, number


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


def find_run(study: Study, directory: Path, name: str) -> StudyRun:
    """The planned run whose identity begins with `name`.

    Raises:
        InputError: none, or several.
    """
    runs = {run.identity: run for run in study.runs}
    matches = [run for identity, run in runs.items() if name and identity.startswith(name)]
    if len(matches) != 1:
        text = "several runs begin so" if matches else "no such run"
        allowed = "the beginning of a hash in the column `run` of the table"
        raise InputError([Problem(text, file=str(directory), value=name, allowed=allowed)])
    return matches[0]


def reproduce(directory: Path, name: str, scratch: Path, *, program: str = PROGRAM) -> Reproduction:
    """Run again what a finished run of a study ran, from the instance kept in its folder, in `scratch`.

    Raises:
        InputError: no such run, or it was never done.
    """
    study = read_plan(directory)
    planned = find_run(study, directory, name)
    store = Store(directory)
    before = store.record(planned.identity)
    if before is None:
        raise InputError([Problem("this run was not done yet", file=str(directory), value=name)])
    _refuse_writes(directory, planned)
    instance = store.folder(planned.identity) / "instance.json"  # which was kept beside the result
    run = replace(planned, document=read_text(instance, MAX_BYTES).rstrip("\n") if instance.is_file() else None)
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
    then = study.versions
    differ = {key: (then.get(key), now.get(key)) for key in {**then, **now} if then.get(key) != now.get(key)}
    ended = dict.fromkeys(str(row["stopped_by"]) for row in rows if row["stopped_by"] in LIMITS)
    return Reproduction(
        run.identity, (*run.command, *run.arguments), differences, same_files, differ, folders[1], tuple(ended)
    )


def _refuse_writes(directory: Path, planned: StudyRun) -> None:
    """Refuse what no study file asks for: the folder may come from a stranger.

    Raises:
        InputError: another command, or options that would write anywhere but into the folder of the run.
    """
    command = " ".join(planned.command)
    issues = option_issues(options_of(planned.arguments))
    words = SOLVE_OPTIONS if command == "solve" else None
    others = [key for key in options_of(planned.arguments) if words is not None and key not in words]
    if (command != "solve" and command_line_of(planned.command) is None) or issues or others:
        text = "not a run of a study" if not issues else issues[0].message
        raise InputError([Problem(text, str(directory), None, planned.identity, value_text(command))])


def compared_again(output: Output, directory: Path, name: str) -> int:
    """Do a run of a study once more, in a folder that is not kept; the exit code."""
    with tempfile.TemporaryDirectory() as scratch:
        again = reproduce(directory, name, Path(scratch))
    document = {
        "run": again.identity,
        "command": list(again.command),
        "same": again.same,
        "comparable": again.comparable,
        "cut_short_by": list(again.cut_short),
        "differences": {name: list(pair) for name, pair in again.differences.items()},
        "same_files": again.same_files,
        "versions_differ": {name: list(pair) for name, pair in again.versions_differ.items()},
    }

    def show(console: Console) -> None:
        lines = [f"version of {name}: then {then}, now {now}" for name, (then, now) in again.versions_differ.items()]
        lines += [f"{name}: then {then}, now {now}" for name, (then, now) in again.differences.items()]
        lines += [f"{name}: {'the same bytes' if same else 'different'}" for name, same in again.same_files.items()]
        for line in (*lines, _verdict(again)):
            console.print(line, markup=False, soft_wrap=True, highlight=False)

    output.result(document, show)
    return 0 if again.same or not again.comparable else CheckError.exit_code


def _verdict(again: Reproduction) -> str:
    if again.same:
        return "reproduced"
    if again.comparable:
        return "NOT reproduced"
    limit = ", ".join(again.cut_short)
    return (
        f"not comparable: a limit ({limit}) ended the search, which gets as far as the machine lets it; with `budget` "
        "instead of `time_limit_s` the same seed gives the same plan"
    )
