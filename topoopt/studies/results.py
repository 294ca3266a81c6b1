"""Results of a study: one row a run, one table of all, and groups of rows with statistics and comparisons."""

from __future__ import annotations

import io
import json
import math
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from topoopt.core.comparison import ComparedBy, Scalar, Study, StudyRun
from topoopt.core.errors import InputError, Problem, extra
from topoopt.files.atomic import write_bytes_atomically
from topoopt.files.documents import parse_document
from topoopt.files.findings import Findings
from topoopt.studies.execute import Store
from topoopt.studies.runner import PLAN_LIMITS, STUDY_FILE

TIMES = ("solve_wall_s", "wall_s", "cpu_s", "peak_memory_mib", "finished_at")
"""Columns that differ between two runs of the same thing; they come last, and comparisons leave them out."""

LONGEST_LIST = 16
"""Numbers of a list that get a column each."""

_LEFT_OUT = {"solution", "report", "notes", "versions", "wall_s", "exit_code", "problems", "error", "kind", "name"}
_OWN = {
    "objective",
    "bound",
    "claimed_bound",
    "check",
    "status",
    "stopped_by",
    "gap",
    "method",
    "seed",
    "instance_sha256",
}


def row_of(run: StudyRun, record: Mapping[str, Any] | None) -> dict[str, Scalar]:
    """The row of a planned run; `record` is its run.json, None if it was not run."""
    output = _mapping((record or {}).get("output"))
    objective, bound, claimed, check = (
        _mapping(output.get(key)) for key in ("objective", "bound", "claimed_bound", "check")
    )
    row: dict[str, Scalar] = {
        "run": run.identity,
        "instance": run.instance,
        "kind": _scalar(output.get("kind")),
        "command": " ".join(run.command),
        "method": run.method,
        "seed": run.seed,
        "repetition": run.repetition,
    }
    for path, value in run.factors.items():
        row.setdefault(path, value)
    row |= {
        "outcome": "missing" if record is None else record.get("outcome"),
        "reason": "" if record is None else record.get("reason"),
        "status": _scalar(output.get("status")),
        "stopped_by": _scalar(output.get("stopped_by")),
        "objective": _number(objective.get("value")),
        "objective_name": _scalar(objective.get("name")),
        "objective_unit": _scalar(objective.get("unit")),
        "bound": _number(bound.get("value")),
        "proved_by": _scalar(bound.get("proved_by")),
        "claimed_bound": _number(claimed.get("value")),
        "claimed_by": _scalar(claimed.get("proved_by")),
        "gap": _number(output.get("gap")),
        "check": _scalar(check.get("ok")),
        "ran_method": _scalar(output.get("method")),
        "instance_sha256": _scalar(output.get("instance_sha256")),
        "versions": json.dumps(output["versions"], sort_keys=True) if "versions" in output else None,
    }
    for key, value in output.items():
        if key not in _OWN and key not in _LEFT_OUT:
            _spread(row, key, value)
    record = record or {}
    row["solve_wall_s"] = _number(output.get("wall_s"))
    for name in TIMES[1:]:
        row[name] = record.get(name)
    return {_text(name): _cell(value) for name, value in row.items()}


def _text(text: str) -> str:
    """Text that every file can hold: half characters, which JSON can name, are written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _cell(value: Scalar) -> Scalar:
    """A value that a table can hold: whole numbers beyond all floats are text."""
    if isinstance(value, int) and abs(value) >= 2**1023:
        return str(value)
    return _text(value) if isinstance(value, str) else value


def _mapping(value: object) -> Mapping[str, Any]:
    """A part of the output; what should be a mapping and is none is empty."""
    return value if isinstance(value, Mapping) else {}


def _scalar(value: object) -> Scalar:
    """What can stand in a cell; anything else as text."""
    return value if value is None or isinstance(value, str | int | float | bool) else json.dumps(value)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) >= 2**1023:
        return None
    return float(value)


def _spread(row: dict[str, Scalar], key: str, value: object) -> None:
    """A figure of the output in columns of its own: mappings by key, short lists of numbers by place."""
    if value is None or isinstance(value, str | int | float | bool):
        row.setdefault(key, value)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            _spread(row, f"{key}.{name}", inner)
    elif isinstance(value, list) and len(value) <= LONGEST_LIST and all(_number(item) is not None for item in value):
        for index, item in enumerate(value):
            row.setdefault(f"{key}.{index}", item)
    elif isinstance(value, list) and len(value) <= LONGEST_LIST and all(isinstance(item, Mapping) for item in value):
        for item in value:  # each is named by its first field
            label, *others = item.items() if item else [("", None)]
            for name, inner in others:
                _spread(row, f"{key}.{label[1]}.{name}", inner)


TABLE_FILE = "results.parquet"

TABLES = "tables of studies"
"""What the libraries of the extra are needed for."""

ResultRow = dict[str, Scalar]


def read_plan(directory: str | os.PathLike[str]) -> Study:
    """The study of a study directory.

    Raises:
        InputError: no study directory, or a plan that was damaged: everything wrong with it.
    """
    file = Path(directory) / STUDY_FILE
    if not file.exists():
        text = "not a study directory"
        raise InputError([Problem(text, file=str(directory), allowed="what `topoopt study run` made")])
    document = parse_document(file, PLAN_LIMITS)
    findings = Findings()
    return findings.settled(document, findings.shaped(Study, document))


def collect_rows(directory: str | os.PathLike[str]) -> list[ResultRow]:
    """One row for each run of the plan, in its order; runs that were not done have the outcome `missing`.

    Raises:
        InputError: no study directory.
    """
    store = Store(Path(directory))
    finished = store.finished()
    runs = read_plan(directory).runs
    rows = [row_of(run, store.record(run.identity) if run.identity in finished else None) for run in runs]
    names = column_names(rows)
    return [{name: row.get(name) for name in names} for row in rows]


def column_names(rows: Sequence[ResultRow]) -> list[str]:
    """Columns of all rows, in order of appearance, times last."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [*(name for name in names if name not in TIMES), *TIMES]


def write_parquet(rows: Sequence[ResultRow], path: str | os.PathLike[str]) -> None:
    """The table as a Parquet file; the same rows give the same bytes.

    Raises:
        WriteError: it cannot be written.
    """
    pa, pq = extra("pyarrow", TABLES), extra("pyarrow.parquet", TABLES)
    columns = {name: _column([row[name] for row in rows]) for name in (rows[0] if rows else column_names([]))}
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream, compression="zstd")
    write_bytes_atomically(path, stream.getvalue())


def _column(values: list[Scalar]) -> Any:
    """One type a column: truth, whole numbers, numbers, else text."""
    pa = extra("pyarrow", TABLES)
    present = [value for value in values if value is not None]
    if all(isinstance(value, bool) for value in present) and present:
        return pa.array(values, pa.bool_())
    if any(isinstance(value, bool | str) for value in present) or not present:
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    if all(isinstance(value, int) and -(2**63) <= value < 2**63 for value in present):
        return pa.array(values, pa.int64())
    return pa.array([None if value is None else float(value) for value in values], pa.float64())


Row = Mapping[str, Scalar]

ANSWERED = ("done",)
"""Outcomes of runs that gave a value."""

REJECTED = "check-failed"
FAILED = ("refused", REJECTED, "crashed", "timed-out", "out-of-memory", "interrupted", "missing")


def text_of(value: Scalar) -> str:
    """A cell for people; the same number looks the same whether whole or not."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return "" if value is None else str(value)


def number_of(row: Row, column: str) -> float | None:
    """A finite number in a cell, else None."""
    value = row.get(column)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def chosen(rows: Iterable[Row], where: Sequence[tuple[str, Scalar]]) -> list[Row]:
    """Rows whose cells have these values (4 and 4.0 are the same)."""
    return [row for row in rows if all(text_of(row.get(column)) == text_of(value) for column, value in where)]


def starred(column: str, pattern: str) -> float | None:
    """The number for which the star of a pattern stands in the name of a column, None where it stands for none."""
    head, star, tail = pattern.partition("*")
    if not star or not (column.startswith(head) and column.endswith(tail)):
        return None
    try:
        return float(column[len(head) : len(column) - len(tail)])
    except ValueError:
        return None


def in_order(values: Iterable[Scalar]) -> list[Scalar]:
    """Different values: numbers by size, then text in order of appearance."""
    kept = list({text_of(value): value for value in values}.values())
    numbers = [value for value in kept if isinstance(value, int | float) and not isinstance(value, bool)]
    return [*sorted(numbers), *(value for value in kept if value not in numbers or isinstance(value, bool))]


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that at least `part` of all values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


STATISTICS: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "min": min,
    "max": max,
    "count": lambda values: float(len(values)),
    "p99": lambda values: percentile(values, 0.99),
}


@dataclass(frozen=True)
class Ratio:
    """A run against the others of its case.

    Attributes:
        row: the run.
        group: its value of the compared column.
        ratio: value / reference - 1; None without both.
        wins: whether no other run of the case has a smaller value.
    """

    row: Row
    group: str
    ratio: float | None
    wins: bool


SAME = 1e-9
"""Relative difference below which two values tie."""


def compared(rows: Sequence[Row], factors: Sequence[str], comparison: ComparedBy) -> list[Ratio]:
    """Each run against the baseline of its case, or against the best where none is named.

    A case is a combination of all factors but the compared one. Values that the checker rejected set no reference.
    """
    cases: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        key = tuple(text_of(row.get(name)) for name in factors if name != comparison.by)
        cases.setdefault(key, []).append(row)
    result = []
    for peers in cases.values():
        values = [_value(row, comparison.value) for row in peers]
        best = min((value for value in values if value is not None), default=None)
        reference = best
        if comparison.baseline is not None:
            own = [
                value
                for row, value in zip(peers, values, strict=True)
                if text_of(row.get(comparison.by)) == comparison.baseline and value is not None
            ]
            reference = own[0] if own else None
        for row, value in zip(peers, values, strict=True):
            comparable = value is not None and reference is not None and reference > 0
            ratio = value / reference - 1.0 if comparable and value is not None and reference is not None else None
            wins = value is not None and best is not None and value <= best * (1 + SAME)
            result.append(Ratio(row, text_of(row.get(comparison.by)), ratio, wins))
    return result


def _value(row: Row, column: str) -> float | None:
    return number_of(row, column) if row.get("outcome") in ANSWERED else None


def performance_profile(ratios: Sequence[Ratio]) -> dict[str, list[tuple[float, float]]]:
    """For each group the steps (factor, part of its runs within that factor of the reference); Dolan and More 2002.

    Runs without a value count as never within any factor.
    """
    groups: dict[str, list[float | None]] = {}
    for ratio in ratios:
        groups.setdefault(ratio.group, []).append(ratio.ratio)
    result = {}
    for name, values in groups.items():
        factors = sorted(1.0 + max(0.0, value) for value in values if value is not None)
        result[name] = [(factor, (index + 1) / len(values)) for index, factor in enumerate(factors)]
    return result


def pivot(
    rows: Sequence[Row],
    by: Sequence[str],
    values: Sequence[str],
    across: str | None,
    statistic: str,
    names: Mapping[str, str] = MappingProxyType({}),
) -> tuple[list[str], list[list[Scalar]]]:
    """Headings and lines of a table: a statistic of each value over each group; None where there is nothing.

    `names` says what columns are called.
    """
    spread = in_order(row.get(across) for row in rows) if across is not None else [None]
    cells: dict[tuple[str, ...], dict[tuple[str, str], list[float]]] = {}
    shown: dict[tuple[str, ...], list[Scalar]] = {}
    for row in rows:
        key = tuple(text_of(row.get(name)) for name in by)
        shown.setdefault(key, [row.get(name) for name in by])
        spread_key = text_of(row.get(across)) if across is not None else ""
        for value in values:
            amount = number_of(row, value)
            if amount is not None:
                cells.setdefault(key, {}).setdefault((value, spread_key), []).append(amount)
    heads = (_heading(names.get(value, value), across, item, len(values)) for value in values for item in spread)
    sides = [names.get(name, name) for name in by]
    if across is not None and across in names:
        sides[-1] += f" / {names[across]}"
    headings = [*sides, *heads]
    lines = []
    for key, group in shown.items():
        group_cells = cells.get(key, {})
        amounts = [group_cells.get((value, text_of(item)), []) for value in values for item in spread]
        lines.append([*group, *(STATISTICS[statistic](amount) if amount else None for amount in amounts)])
    return headings, lines


def _heading(value: str, across: str | None, item: Scalar, number: int) -> str:
    if across is None:
        return value
    return text_of(item) if number == 1 else f"{value}, {text_of(item)}"
