"""Results of a study: one row a run, one table of all, and groups of rows with statistics and comparisons."""

from __future__ import annotations

import io
import json
import math
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from topoopt.core.errors import extra
from topoopt.files.atomic import write_bytes_atomically
from topoopt.studies.schema import Cell, ComparedBy, Run, Study

TIMES = ("solve_wall_s", "wall_s", "cpu_s", "peak_memory_mib", "finished_at")
"""Columns that differ between two runs of the same thing; they come last, and comparisons leave them out."""

LONGEST_LIST = 16
"""Numbers of a list that get a column each."""

_OWN = {
    "objective", "bound", "claimed_bound", "check", "status", "stopped_by", "gap", "method", "seed", "instance_sha256",
    "solution", "report", "notes", "versions", "wall_s", "exit_code", "problems", "error", "kind", "name",
}  # fmt: skip
"""Keys of the output that have columns of their own, or none."""


def cells_of(run: Run) -> dict[str, Cell]:
    """The row of a run for people: what it was, how it ended, and every figure of its output in a column of its own.

    The name of a column is a path into the JSON object that the command printed, such as `breakdown_s.data`.
    """
    output = run.output or {}
    objective, bound, claimed, check = (
        _mapping(output.get(key)) for key in ("objective", "bound", "claimed_bound", "check")
    )
    row: dict[str, Cell] = {
        "run": run.identity,
        "instance": run.instance,
        "kind": _plain(output.get("kind")),
        "command": " ".join(run.command),
        "method": run.method,
        "seed": run.seed,
        "repetition": run.repetition,
    }
    for path, value in run.factors.items():
        row.setdefault(path, value)
    row |= {
        "outcome": run.outcome,
        "reason": run.reason,
        "status": _plain(output.get("status")),
        "stopped_by": _plain(output.get("stopped_by")),
        "objective": _number(objective.get("value")),
        "objective_name": _plain(objective.get("name")),
        "objective_unit": _plain(objective.get("unit")),
        "bound": _number(bound.get("value")),
        "proved_by": _plain(bound.get("proved_by")),
        "claimed_bound": _number(claimed.get("value")),
        "claimed_by": _plain(claimed.get("proved_by")),
        "gap": _number(output.get("gap")),
        "check": _plain(check.get("ok")),
        "ran_method": _plain(output.get("method")),
        "instance_sha256": _plain(output.get("instance_sha256")),
        "versions": json.dumps(output["versions"], sort_keys=True) if "versions" in output else None,
    }
    for key, value in output.items():
        if key not in _OWN:
            _spread(row, key, value)
    row["solve_wall_s"] = _number(output.get("wall_s"))
    row |= {name: getattr(run, name) for name in TIMES[1:]}
    return {_text(name): _cell(value) for name, value in row.items()}


def _text(text: str) -> str:
    """Text that every file can hold: half characters, which JSON can name, are written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _cell(value: Cell) -> Cell:
    """A value that a table can hold: whole numbers beyond all floats are text."""
    if isinstance(value, int) and abs(value) >= 2**1023:
        return str(value)
    return _text(value) if isinstance(value, str) else value


def _mapping(value: object) -> Mapping[str, Any]:
    """A part of the output; what should be a mapping and is none is empty."""
    return value if isinstance(value, Mapping) else {}


def _plain(value: object) -> Cell:
    """What can stand in a cell; anything else as text."""
    return value if value is None or isinstance(value, str | int | float | bool) else json.dumps(value)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) >= 2**1023:
        return None
    return float(value)


def _spread(row: dict[str, Cell], key: str, value: object) -> None:
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

ResultRow = dict[str, Cell]


def table_of(study: Study, rows: Mapping[str, Run]) -> list[ResultRow]:
    """One row for each run of a plan, in its order; runs that were not done have the outcome `missing`.

    Args:
        study: the plan.
        rows: of the table, by identity.
    """
    table = []
    for run in study.runs:
        row = rows.get(run.identity)
        table.append(cells_of(run if row is None else ended_as(run, row)))
    names = column_names(table)
    return [{name: row.get(name) for name in names} for row in table]


def ended_as(planned: Run, row: Run) -> Run:
    """A planned run that ended as a row of the table says: rows of another study may have done it by another name."""
    names = ("outcome", "reason", "exit_code", "wall_s", "cpu_s", "peak_memory_mib", "finished_at", "output")
    return replace(planned, **{name: getattr(row, name) for name in names})


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


def _column(values: list[Cell]) -> Any:
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


Row = Mapping[str, Cell]

REJECTED = "check-failed"
FAILED = ("refused", REJECTED, "crashed", "timed-out", "out-of-memory", "interrupted", "missing")


def text_of(value: Cell) -> str:
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


def chosen(rows: Iterable[Row], where: Mapping[str, Cell]) -> list[Row]:
    """Rows whose cells have these values (4 and 4.0 are the same)."""
    return [row for row in rows if all(text_of(row.get(column)) == text_of(value) for column, value in where.items())]


def starred(column: str, pattern: str) -> float | None:
    """The number for which the star of a pattern stands in the name of a column, None where it stands for none."""
    head, star, tail = pattern.partition("*")
    if not star or not (column.startswith(head) and column.endswith(tail)):
        return None
    try:
        return float(column[len(head) : len(column) - len(tail)])
    except ValueError:
        return None


def in_order(values: Iterable[Cell]) -> list[Cell]:
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


SAME = 1e-9
"""Relative difference below which two values tie."""

Ratio = tuple[Row, str, float | None, bool]
"""A run against the others of its case: the run, its value of the compared column, value / reference - 1 (None without
both), and whether no other run of the case has a smaller value."""


def compared(rows: Sequence[Row], factors: Sequence[str], comparison: ComparedBy) -> list[Ratio]:
    """Each run against the baseline of its case, or against the best where none is named.

    A case is a combination of all factors but the compared one. Values that the checker rejected set no reference.
    """
    cases: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        key = tuple(text_of(row.get(name)) for name in factors if name != comparison.by)
        cases.setdefault(key, []).append(row)
    result: list[Ratio] = []
    for peers in cases.values():
        values = [number_of(row, comparison.value) if row.get("outcome") == "done" else None for row in peers]
        groups = [text_of(row.get(comparison.by)) for row in peers]
        best = min((value for value in values if value is not None), default=None)
        named = [value for value, group in zip(values, groups, strict=True) if group == comparison.baseline]
        reference = best if comparison.baseline is None else next((v for v in named if v is not None), None)
        for row, group, value in zip(peers, groups, values, strict=True):
            ratio = None if value is None or not reference or reference < 0 else value / reference - 1.0
            wins = value is not None and best is not None and value <= best * (1 + SAME)
            result.append((row, group, ratio, wins))
    return result


def performance_profile(ratios: Sequence[Ratio]) -> dict[str, list[tuple[float, float]]]:
    """For each group the steps (factor, part of its runs within that factor of the reference); Dolan and More 2002.

    Runs without a value count as never within any factor.
    """
    groups: dict[str, list[float | None]] = {}
    for _, group, ratio, _ in ratios:
        groups.setdefault(group, []).append(ratio)
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
) -> tuple[list[str], list[list[Cell]]]:
    """Headings and lines of a table: a statistic of each value over each group; None where there is nothing.

    `names` says what columns are called.
    """
    spread = [text_of(item) for item in in_order(row.get(across or "") for row in rows)]
    cells: dict[tuple[str, ...], dict[tuple[str, str], list[float]]] = {}
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for row in rows:
        key = tuple(text_of(row.get(name)) for name in by)
        groups.setdefault(key, [row.get(name) for name in by])
        for value in values:
            amount = number_of(row, value)
            if amount is not None:
                cells.setdefault(key, {}).setdefault((value, text_of(row.get(across or ""))), []).append(amount)
    headings = [names.get(name, name) for name in by]
    if across is not None and across in names:
        headings[-1] += f" / {names[across]}"
    for value in values:
        name = names.get(value, value)
        headings += [name] if across is None else [item if len(values) == 1 else f"{name}, {item}" for item in spread]
    lines: list[list[Cell]] = []
    for key, group in groups.items():
        amounts = [cells.get(key, {}).get((value, item), []) for value in values for item in spread]
        lines.append([*group, *(STATISTICS[statistic](amount) if amount else None for amount in amounts)])
    return headings, lines
