"""All runs of a study directory in one table, rebuilt from the run directories."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from topoopt.core.comparison import Scalar
from topoopt.core.errors import InputError, Problem, extra
from topoopt.files.atomic import write_bytes_atomically
from topoopt.files.documents import parse_document
from topoopt.files.findings import Findings
from topoopt.studies.kept_files import PlanFile
from topoopt.studies.rows import TIMES, row_of
from topoopt.studies.runner import PLAN_LIMITS, STUDY_FILE
from topoopt.studies.store import Store

TABLE_FILE = "results.parquet"

TABLES = "tables of studies"
"""What the libraries of the extra are needed for."""

Row = dict[str, Scalar]


def read_plan(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """study.json of a study directory.

    Raises:
        InputError: no study directory, or a plan that was damaged: everything wrong with it.
    """
    file = Path(directory) / STUDY_FILE
    if not file.exists():
        text = "not a study directory"
        raise InputError([Problem(text, file=str(directory), allowed="what `topoopt study run --out` made")])
    document = parse_document(file, PLAN_LIMITS)
    findings = Findings()
    return findings.settled(document, findings.shaped(PlanFile, document)).model_dump()


def collect_rows(directory: str | os.PathLike[str]) -> list[Row]:
    """One row for each run of the plan, in its order; runs that were not done have the outcome `missing`.

    Raises:
        InputError: no study directory.
    """
    plan = read_plan(directory)
    store = Store(Path(directory))
    finished = store.finished()
    rows = [row_of(run, store.record(run["identity"]) if run["identity"] in finished else None) for run in plan["runs"]]
    names = column_names(rows)
    return [{name: row.get(name) for name in names} for row in rows]


def column_names(rows: Sequence[Row]) -> list[str]:
    """Columns of all rows, in order of appearance, times last."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [*(name for name in names if name not in TIMES), *TIMES]


def write_parquet(rows: Sequence[Row], path: str | os.PathLike[str]) -> None:
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
