"""Do what is missing of a study, before somebody's eyes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from solvers.processes import TRIES
from solvers.stop import Stop, stop_on_signals
from topoopt.core.arrays import GIB
from topoopt.core.errors import InputError, MachineError, Problem, extra
from topoopt.files import codec
from topoopt.files.atomic import make_directory, write_text_atomically
from topoopt.files.documents import Limits as FileLimits
from topoopt.files.documents import load_document, parse_document
from topoopt.files.reader_fields import Findings
from topoopt.page.options import solving_bar
from topoopt.page.output import Output, say
from topoopt.studies.execute import FAILURES, ONE_THREAD, PROGRAM, clean, elsewhere, in_forks, locked, read_rows
from topoopt.studies.executors import gather_of
from topoopt.studies.expand import MEMORY_MIB, WALL_S
from topoopt.studies.results import TABLE_FILE, TABLES, ResultRow, table_of, write_parquet
from topoopt.studies.schema import Run, Study

STUDY_FILE = "study.json"
PLAN_LIMITS = FileLimits(json_bytes=GIB, json_nodes=50_000_000)
"""Of study.json: a hundred thousand runs with all that varies."""

MOST_RUNS = 32
"""Runs of a task elsewhere at most: what is lost is done again, what waits cannot be shared out."""

SPARE_MIB = 1024
"""Memory of the process that watches a run, beside the run's own."""

SAID = "finishing: runs in flight keep the best they have, no more begin; Ctrl-C again to stop with what is there"


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
    root, stop = Path(out), stop or Stop()
    local = executor == "local"
    gather_of(executor, options, jobs, root)  # refuses what is none before anything is written
    open_folder(study, root)
    todo = missing_runs(study, read_rows(root), FAILURES if retry_failed else ("interrupted",))
    on_plan(len(todo))
    ran, failure = 0, ""
    jobs = max(1, min(jobs, len(todo)))
    chunks = [[run] for run in todo] if local else chunks_of(todo, 4 * jobs)
    seconds = max((sum((run.limits.wall_s or WALL_S) + 5 for run in runs) for runs in chunks), default=0)
    memory_mib = max((run.limits.memory_mib or MEMORY_MIB for run in todo), default=0) + SPARE_MIB
    limits = int(seconds // 60) + 5, memory_mib
    gather = gather_of(executor, options, jobs, root / "unfinished", limits, tries=TRIES, variables=ONE_THREAD)
    waiting = (chunk for chunk in chunks if stop.reason() is None)
    with gather(in_forks if local else elsewhere, (str(root.absolute()), program), stop) as crew:
        for run in (run for _, done in crew(waiting, lambda *_: None) for run in done.result()):
            if run.outcome == "environment":
                failure = failure or run.reason
                stop.interrupted.set()
                stop.second_interrupt.set()
            elif run.outcome != "interrupted":
                ran += 1
            on_row(run)
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
    total, done, failed = 0, 0, 0
    with solving_bar(output) as bar:

        def on_plan(number: int) -> None:
            nonlocal total
            total = number
            bar("study", 0, total)

        def on_row(run: Run) -> None:
            nonlocal done, failed
            done += 1
            if run.outcome in (*FAILURES, "environment"):
                failed += 1
                if run.outcome != "interrupted":
                    say(output.remarks, f"{run.outcome}: {run.instance} {run.method or ''} {run.reason}")
            bar(f"study, {failed} failed" if failed else "study", done, total)

        counts = run_study(study, out, on_plan=on_plan, on_row=on_row, **settings)
    rows = collect_rows(out)
    write_parquet(rows, out / TABLE_FILE)
    return counts, rows
