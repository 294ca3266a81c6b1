"""A study directory as one page."""

from __future__ import annotations

import os
from typing import Any

from topoopt.core.comparison import ComparedBy, Figure, Published, Table
from topoopt.studies.collect import Row, collect_rows, read_plan
from topoopt.studies.report_html import StudyPage, render_study

FACTORS = ("instance", "method", "seed", "repetition")


def factor_columns(plan: dict[str, Any], rows: list[Row]) -> tuple[str, ...]:
    """Columns that tell the runs of a study apart: what was varied, and of the fixed ones those that differ."""
    varied = dict.fromkeys(name for run in plan["runs"] for name in run["factors"])
    fixed = [name for name in FACTORS if name in {"instance", "method"} or len({row.get(name) for row in rows}) > 1]
    return (*fixed, *(name for name in varied if name not in FACTORS))


def study_page(directory: str | os.PathLike[str]) -> StudyPage:
    """What the report of a study directory shows.

    Raises:
        InputError: no study directory.
    """
    plan, rows = read_plan(directory), collect_rows(directory)
    code = ", ".join(f"{name} {value}" for name, value in plan["versions"].items())
    return StudyPage(
        title=plan["title"],
        name=plan["name"],
        notes=tuple(plan["notes"]),
        provenance=(
            ("study", f"{plan['name']}, from {plan['file']}"),
            ("hash of the study", plan["sha256"]),
            ("versions", code),
        ),
        factors=factor_columns(plan, rows),
        rows=rows,
        comparison=ComparedBy(**plan["comparison"]),
        figures=tuple(
            Figure(**{**one, "columns": tuple(one["columns"]), "where": _pairs(one["where"])})
            for one in plan["figures"]
        ),
        tables=tuple(
            Table(**{**one, "rows": tuple(one["rows"]), "values": tuple(one["values"]), "where": _pairs(one["where"])})
            for one in plan["tables"]
        ),
        published=tuple(Published(**{**one, "where": _pairs(one["where"])}) for one in plan["published"]),
        names=plan["names"],
    )


def _pairs(listed: list[list[Any]]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, value) for name, value in listed)


def study_report(directory: str | os.PathLike[str]) -> str:
    """Self-contained HTML.

    Raises:
        InputError: no study directory.
    """
    return render_study(study_page(directory))
