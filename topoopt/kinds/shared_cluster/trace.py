"""Traces of jobs: CSV files with the columns job, arrival_s, class and, if need be, servers and iterations."""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence

from topoopt.core.arrays import MIB
from topoopt.core.errors import InputError, Problem
from topoopt.core.shared_cluster import MAX_JOBS, MAX_SECONDS, JobClass, TracedJob
from topoopt.files.issues import MAX_LISTED, nearest_text, value_text
from topoopt.files.reader_fields import FieldTable, used
from topoopt.files.untrusted import read_text

MAX_ITERATIONS = 10**12
REQUIRED = ("job", "arrival_s", "class")
OPTIONAL = ("servers", "iterations")
FIELDS: FieldTable = {
    "job": used("name"),
    "arrival_s": used("seconds; lines are sorted by it"),
    "class": used("a class of the instance"),
    "servers": used("must be those of the class; empty: they are"),
    "iterations": used("of the job; empty: those of the class"),
}

MAX_TRACE_BYTES = 64 * MIB
LABEL = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,200}")


Report = Callable[[int, str, str, str | None, str | None], None]
"""Notes a problem: line, column, message, value, what is allowed."""


def _number(text: str) -> float:
    """NaN when it is none; underscores and blanks make no numbers here."""
    try:
        return float(text) if re.fullmatch(r"[-+0-9.eE]+", text) else math.nan
    except ValueError:
        return math.nan


def _header(header: Sequence[str], report: Report) -> None:
    names = [name.strip() for name in header]
    allowed = ", ".join(REQUIRED) + "; also " + ", ".join(OPTIONAL)
    for name in REQUIRED:
        if name not in names:
            report(1, name, "no such column", None, allowed)
    for name in dict.fromkeys(names):
        if name not in (*REQUIRED, *OPTIONAL):
            report(1, "header", "unknown column", name, allowed)
        elif names.count(name) > 1:
            report(1, "header", "a column more than once", name, allowed)


def read_trace(path: str | os.PathLike[str], classes: Sequence[JobClass]) -> tuple[TracedJob, ...]:
    """The jobs of a trace.

    Raises:
        InputError: everything wrong with the file, line by line.
    """
    file = os.fspath(path)
    text = read_text(file, MAX_TRACE_BYTES)
    problems: list[Problem] = []

    def report(line: int, column: str, message: str, value: str | None, allowed: str | None) -> None:
        shown = None if value is None else value_text(value)
        problems.append(Problem(message, file, line, column, shown, allowed))

    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    jobs: list[TracedJob] = []
    index = {row.name: number for number, row in enumerate(classes)}
    seen: dict[str, int] = {}
    last = 0.0
    try:
        header = next(reader, [])
        names = [name.strip() for name in header]
        _header(header, report)
        for cells in () if problems else reader:
            if not cells:
                continue
            if len(cells) != len(names):
                allowed = f"{len(names)}, as the header has"
                report(reader.line_num, "line", "wrong number of cells", str(len(cells)), allowed)
                continue
            row = {name: cell.strip() for name, cell in zip(names, cells, strict=True)}
            job = _job(row, reader.line_num, classes, index, last, seen, report)
            last = max(last, job.arrival_s)
            jobs.append(job)
    except csv.Error as error:
        report(reader.line_num, "line", f"no CSV: {error}", None, None)
    if not jobs and not problems:
        report(1, "job", "no jobs", None, f"1 to {MAX_JOBS} jobs")
    if len(jobs) > MAX_JOBS:
        report(1, "job", "too many jobs", str(len(jobs)), f"1 to {MAX_JOBS} jobs")
    if problems:
        more = len(problems) - MAX_LISTED
        rest = [Problem(f"{more} further problems are not listed", file=file)] if more > 0 else []
        raise InputError(problems[:MAX_LISTED] + rest)
    return tuple(jobs)


def _job(
    row: Mapping[str, str],
    line: int,
    classes: Sequence[JobClass],
    index: Mapping[str, int],
    last: float,
    seen: dict[str, int],
    report: Report,
) -> TracedJob:
    name = row["job"]
    if not LABEL.fullmatch(name):
        report(line, "job", "no name", name, "1 to 200 characters on one line")
    elif name in seen:
        report(line, "job", "a job more than once", name, f"another name than in line {seen[name]}")
    seen.setdefault(name, line)
    arrival = _number(row["arrival_s"])
    if not 0 <= arrival <= MAX_SECONDS:
        report(line, "arrival_s", "out of range", row["arrival_s"], f"a number of 0 to {MAX_SECONDS:g} seconds")
        arrival = last
    elif arrival < last:
        report(line, "arrival_s", "out of order", row["arrival_s"], f"at least {last!r}, as lines are sorted by it")
    number = index.get(row["class"])
    if number is None:
        report(line, "class", "unknown class", row["class"], nearest_text(row["class"], index))
    elif row.get("servers"):
        servers = classes[number].servers
        if _whole(row["servers"]) != servers:
            report(line, "servers", "not the servers of the class", row["servers"], f"{servers}, or nothing")
    iterations = None
    if row.get("iterations"):
        iterations = _whole(row["iterations"])
        if iterations is None or not 1 <= iterations <= MAX_ITERATIONS:
            report(line, "iterations", "out of range", row["iterations"], f"a whole number of 1 to {MAX_ITERATIONS:g}")
    elif number is not None and classes[number].iterations is None and classes[number].duration_s is None:
        report(line, "iterations", "missing", None, "a number here, or iterations or duration_s in the class")
    return TracedJob(name, arrival, number or 0, iterations)


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None
