"""Do what is missing of a study, before somebody's eyes; and do one run again, beside itself."""

from __future__ import annotations

import json
import os
import queue
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

from solvers.stop import Stop, stop_on_signals
from topoopt.core.arrays import GIB
from topoopt.core.errors import InputError, MachineError, Problem, extra
from topoopt.core.proofs import StopReason
from topoopt.files import codec
from topoopt.files.atomic import make_directory, write_text_atomically
from topoopt.files.documents import Limits as FileLimits
from topoopt.files.documents import load_document, parse_document
from topoopt.files.findings import Findings
from topoopt.files.issues import value_text
from topoopt.files.untrusted import file_sha256, read_text
from topoopt.page.output import Output
from topoopt.studies.execute import (
    FAILURES,
    PROGRAM,
    Worker,
    clean,
    do_runs,
    execute,
    locked,
    read_rows,
    run_folder,
)
from topoopt.studies.executors import completed, end_by_file, opener_of, scratch_folder
from topoopt.studies.expand import MEMORY_MIB, WALL_S, code_versions, command_line_of, option_issues, options_of
from topoopt.studies.results import TABLE_FILE, TABLES, TIMES, ResultRow, cells_of, ended_as, table_of, write_parquet
from topoopt.studies.schema import Run, Study

STUDY_FILE = "study.json"
PLAN_LIMITS = FileLimits(json_bytes=GIB, json_nodes=50_000_000)
"""Of study.json: a hundred thousand runs with all that varies."""

MOST_RUNS = 32
"""Runs of a task elsewhere at most: what is lost is done again, what waits cannot be shared out."""

SPARE_MIB = 1024
"""Memory of the process that watches a run, beside the run's own."""

SAID = "finishing: runs in flight keep the best they have, no more begin; Ctrl-C again to stop with what is there"
QUIET_S = 60.0
"""Seconds between lines where standard error is no terminal."""

SOLVE_OPTIONS = ("method", "seed", "time-limit", "budget")
"""Those that a study gives to `solve`."""

LIMITS = (StopReason.TIME, StopReason.MEMORY, StopReason.INTERRUPTED)
"""What ends a search at a point that no seed determines."""


def default_jobs(memory_mib: int) -> int:
    """Runs side by side: as many as there are cores, and as fit into the memory that is free now."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open("/proc/meminfo", encoding="ascii") as stream:
            fields = dict(line.split(":", 1) for line in stream)
        available_mib = int(fields["MemAvailable"].split()[0]) // 1024
    except (OSError, KeyError, ValueError):
        available_mib = 1 << 20
    return max(1, min(cores, (available_mib - 512) // max(1, memory_mib)))


def read_plan(directory: str | os.PathLike[str]) -> Study:
    """The study of a folder.

    Raises:
        InputError: no folder of a study, or a plan that was damaged: everything wrong with it.
    """
    file = Path(directory) / STUDY_FILE
    if not file.exists():
        text = "not a study directory"
        raise InputError([Problem(text, file=str(directory), allowed="what `topoopt study run` made")])
    document = parse_document(file, PLAN_LIMITS)
    _refuse_old(document.data, Path(directory))
    findings = Findings()
    return findings.settled(document, findings.shaped(Study, document))


def _refuse_old(plan: object, out: Path) -> None:
    if isinstance(plan, dict) and plan.get("schema_version") == 1 and plan.get("kind") == "study-plan":
        text = "this directory holds a study of an earlier version, which is not gone on with"
        raise InputError([Problem(text, file=str(out), allowed="a new directory")])


def open_folder(study: Study, out: Path) -> None:
    """Make the folder of a study if need be, write its plan, and remove what killed studies left.

    Raises:
        InputError: the folder holds another study, or one of an earlier version.
        WriteError: it cannot be written.
    """
    make_directory(out)
    with locked(out):
        plan = out / STUDY_FILE
        if plan.exists():
            try:
                data = load_document(plan, PLAN_LIMITS).data
            except InputError:
                data = None
            _refuse_old(data, out)
            name = str(data.get("name")) if isinstance(data, dict) else "unreadable"
            if name != study.name:
                text, allowed = "this directory holds another study", f"a new directory, or study {study.name}"
                raise InputError([Problem(text, file=str(out), value=name, allowed=allowed)])
        elif any(not entry.name.startswith(".") for entry in out.iterdir()):
            text = "this directory is not empty and holds no study"
            raise InputError([Problem(text, file=str(out), allowed="a new or empty directory")])
        head = codec.plain(replace(study, runs=()))
        dump = codec.adapter(Run).dump_python
        lines = ",\n".join(
            "  " + json.dumps(dump(replace(run, document=None), exclude_defaults=True), separators=(",", ":"))
            for run in study.runs
        )
        del head["runs"]
        write_text_atomically(plan, json.dumps(head, indent=1)[:-2] + ',\n "runs": [\n' + lines + "\n ]\n}\n")
        clean(out)


def run_study(
    study: Study,
    out: str | os.PathLike[str],
    *,
    jobs: int,
    executor: str = "local",
    options: Mapping[str, str] = {},
    retry_failed: bool = False,
    stop: Stop | None = None,
    on_row: Callable[[Run], None] = lambda run: None,
    on_plan: Callable[[int], None] = lambda number: None,
    program: str = PROGRAM,
) -> dict[str, Any]:
    """Do the runs of a study that are missing, and with `retry_failed` those that failed.

    Args:
        study: expanded study file.
        out: folder of the study; continued when it exists.
        jobs: runs at the same time.
        executor, options: see `opener_of`.
        retry_failed: do failed runs again.
        stop: once it has a reason no run begins; those in flight are asked for the best they have, which is kept till
            they are done again. At the second interrupt they are killed.
        on_row: called in this thread as runs end.
        on_plan: called with the number of runs to do.
        program: see `PROGRAM`.

    Returns:
        See `tally`.

    Raises:
        InputError: the folder holds another study, or no such executor.
        WriteError: the folder cannot be written.
        MachineError: disk full, and the like; what was done is kept, the rest is missing.
    """
    opener = opener_of(executor, options, jobs)
    root, stop = Path(out), stop or Stop()
    open_folder(study, root)
    todo = missing_runs(study, read_rows(root), FAILURES if retry_failed else ("interrupted",))
    on_plan(len(todo))
    ran, failure = 0, ""

    def give_up(now: bool = True) -> None:
        if now:
            stop.interrupted.set()
            stop.second_interrupt.set()

    local, jobs = executor == "local", max(1, min(jobs, len(todo)))
    chunks = [[run] for run in todo] if local else chunks_of(todo, 4 * jobs)
    workers: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    with nullcontext(root) if local else scratch_folder(root / "unfinished") as scratch:
        stop_file = scratch / "stop"
        if local:
            for _ in range(jobs):
                workers.put(Worker(program))
            task, end = partial(do_runs, str(root), program, stop, workers), give_up
        else:
            task, end = (
                partial(do_runs, str(root.absolute()), program, str(stop_file), None),
                partial(end_by_file, stop_file),
            )
        seconds = max((sum((run.limits.wall_s or WALL_S) + 5 for run in runs) for runs in chunks), default=0)
        memory_mib = max((run.limits.memory_mib or MEMORY_MIB for run in todo), default=0) + SPARE_MIB
        opened = partial(opener, scratch, int(seconds // 60) + 5, memory_mib)
        waiting = (chunk for chunk in chunks if stop.reason() is None)
        try:
            for run in (run for _, done in completed(opened, task, waiting, jobs, stop, end) for run in done):
                if run.outcome == "environment":
                    failure = failure or run.reason
                    give_up()
                elif run.outcome != "interrupted":
                    ran += 1
                on_row(run)
        finally:
            while not workers.empty():
                workers.get().close()
    if failure:
        text = f"{out}: stopped after {ran} runs, for the machine failed; the same command goes on later"
        raise MachineError(f"{text} ({failure})")
    return tally(study, read_rows(root), ran)


def missing_runs(study: Study, rows: Mapping[str, Run], again: Sequence[str]) -> list[Run]:
    """Runs of a study without a row, then those whose row has an outcome that is not left so; as they stand."""
    runs = {run.identity: run for run in study.runs}
    ended = {identity: rows[identity] for identity in runs if identity in rows and rows[identity].outcome in again}
    return [
        *(run for identity, run in runs.items() if identity not in rows),
        *(replace(runs[key], outcome=row.outcome, finished_at=row.finished_at) for key, row in ended.items()),
    ]


def chunks_of(runs: list[Run], number: int) -> list[list[Run]]:
    """Runs dealt out like cards, so that long ones that stand together do not end up together."""
    count = max(1, min(len(runs), max(number, -(-len(runs) // MOST_RUNS))))
    return [runs[start::count] for start in range(count)]


def tally(study: Study, rows: Mapping[str, Run], ran: int = 0) -> dict[str, Any]:
    """How a study stands: `total` runs that differ, those `done` that gave an answer, `failed` ones by outcome, those
    `missing`, and `ran` just now."""
    identities = {run.identity for run in study.runs}
    outcomes = [rows[identity].outcome for identity in identities & rows.keys()]
    failed = {outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes) & set(FAILURES))}
    return {
        "total": len(identities),
        "done": len(outcomes) - sum(failed.values()),
        "failed": failed,
        "missing": len(identities) - len(outcomes),
        "ran": ran,
    }


def collect_rows(directory: str | os.PathLike[str]) -> list[ResultRow]:
    """The rows of the folder of a study, see `table_of`.

    Raises:
        InputError: no folder of a study.
    """
    return table_of(read_plan(directory), read_rows(Path(directory)))


@contextmanager
def ended_early(time_limit_s: float | None) -> Iterator[Stop]:
    """Look after signals, and a limit, while the block runs; the first signal says at once what comes of it."""

    def on_signal(signals: int) -> None:
        text = SAID if signals == 1 else "stopping"
        os.write(2, f"\n{text}\n".encode())  # a handler of signals must not wait for a lock of the console

    with stop_on_signals(time_limit_s, two_stage=True, notify=on_signal) as stop:
        yield stop


def attend(output: Output, study: Study, out: Path, **settings: Any) -> tuple[dict[str, Any], list[ResultRow]]:
    """`run_study` with its settings, telling how far it is: a bar on a terminal, a line a minute elsewhere.

    Returns:
        See `tally`, and the rows of the table, which is written.

    Raises:
        InputError, WriteError, MachineError: see `run_study`, or no library that writes tables.
    """
    extra("pyarrow", TABLES)  # not after hours of runs
    remarks = output.remarks
    began = last_s = time.monotonic()
    total, done, failed = 0, 0, 0
    columns = (BarColumn(bar_width=12), MofNCompleteColumn())
    text_column = TextColumn("{task.fields[text]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"))
    bar = Progress(
        TextColumn("study"),
        *columns,
        text_column,
        TimeElapsedColumn(),
        console=remarks,
        expand=True,
        transient=True,
        disable=not remarks.is_terminal,
    )
    task = bar.add_task("study", total=None, text="")

    def on_plan(number: int) -> None:
        nonlocal total
        total = number
        bar.update(task, total=number)

    def on_row(run: Run) -> None:
        nonlocal done, failed, last_s
        done += 1
        if run.outcome in (*FAILURES, "environment"):
            failed += 1
            if run.outcome != "interrupted":
                text = f"{run.outcome}: {run.instance} {run.method or ''} {run.reason}"
                remarks.print(text, markup=False, soft_wrap=True, highlight=False)
        left_s = (time.monotonic() - began) / done * max(0, total - done)
        text = f"{failed} failed, about " + (f"{left_s / 60:.0f} min" if left_s >= 90 else f"{left_s:.0f} s") + " left"
        bar.update(task, completed=done, text=text)
        if not remarks.is_terminal and time.monotonic() - last_s >= QUIET_S:
            last_s = time.monotonic()
            remarks.print(f"{done} of {total} runs, {text}", highlight=False, soft_wrap=True)

    with bar:
        counts = run_study(study, out, on_plan=on_plan, on_row=on_row, **settings)
    rows = collect_rows(out)
    write_parquet(rows, out / TABLE_FILE)
    return counts, rows


def find_run(study: Study, directory: Path, name: str) -> Run:
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


def reproduce(directory: Path, name: str, *, program: str = PROGRAM) -> dict[str, Any]:
    """Run again what a finished run of a study ran, from the instance kept in its folder, in a folder that is not kept.

    Returns:
        Of the run its hash and command; `differences` of columns, times left out, and `versions_differ` of code and
        libraries, (then, now); `same_files`: whether solution.json has the same bytes; `same` if nothing differs;
        `comparable`: not where a limit of time or memory ended it (`cut_short_by`), as such a run gets as far as the
        machine lets it.

    Raises:
        InputError: no such run, or it was never done.
    """
    study = read_plan(directory)
    planned = find_run(study, directory, name)
    before = read_rows(directory).get(planned.identity)
    if before is None:
        raise InputError([Problem("this run was not done yet", file=str(directory), value=name)])
    _refuse_writes(directory, planned)
    instance = run_folder(directory, planned.identity) / "instance.json"  # which was kept beside the result
    document = read_text(instance, GIB).rstrip("\n") if instance.is_file() else None
    worker = Worker(program)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            after = execute(replace(planned, document=document), Path(scratch), worker, Stop())
        finally:
            worker.close()
        files = [run_folder(root, planned.identity) / "solution.json" for root in (directory, Path(scratch))]
        same_files = {}
        if files[0].is_file():
            same = files[1].is_file() and file_sha256(files[0], GIB) == file_sha256(files[1], GIB)
            same_files["solution.json"] = same
    rows = [cells_of(ended_as(planned, run)) for run in (before, after)]
    names = [key for key in dict.fromkeys([*rows[0], *rows[1]]) if key not in TIMES]
    differences = {key: [row.get(key) for row in rows] for key in names if rows[0].get(key) != rows[1].get(key)}
    then, now = study.versions, dict(code_versions())
    ended = [*dict.fromkeys(str(row["stopped_by"]) for row in rows if row["stopped_by"] in LIMITS)]
    return {
        "run": planned.identity,
        "command": [*planned.command, *planned.arguments],
        "same": not differences and all(same_files.values()),
        "comparable": not ended,
        "cut_short_by": ended,
        "differences": differences,
        "same_files": same_files,
        "versions_differ": {
            key: [then.get(key), now.get(key)] for key in {**then, **now} if then.get(key) != now.get(key)
        },
    }


def _refuse_writes(directory: Path, planned: Run) -> None:
    """Refuse what no study file asks for: the folder may come from a stranger.

    Raises:
        InputError: another command, or options that would write anywhere but into the folder of the run.
    """
    command = " ".join(planned.command)
    issues = option_issues(options_of(planned.arguments))
    others = [key for key in options_of(planned.arguments) if command == "solve" and key not in SOLVE_OPTIONS]
    if (command != "solve" and command_line_of(planned.command) is None) or issues or others:
        text = "not a run of a study" if not issues else issues[0].message
        raise InputError([Problem(text, str(directory), None, planned.identity, value_text(command))])
