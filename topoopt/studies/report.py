"""The report of a study is one page: its answer, how the runs ended, the figures and tables, and every run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from topoopt.page.render import Card, render_page
from topoopt.page.text import counted, number
from topoopt.page.vega import MISSING, installed
from topoopt.studies.figures import Beside, Rows, agreement, agrees, draw, set_beside, signed_percent
from topoopt.studies.results import FAILED, REJECTED, Row, chosen, compared, number_of, pivot, text_of
from topoopt.studies.runner import collect_rows, read_plan
from topoopt.studies.schema import Figure, Study, StudyFile, Table


def _counts(rows: Rows) -> dict[str, int]:
    """Runs that gave a value, that failed or are missing, that the checker rejects, and that are proven optimal."""
    return {
        "done": sum(row.get("outcome") == "done" for row in rows),
        "failed": sum(row.get("outcome") in FAILED for row in rows),
        "rejected": sum(row.get("outcome") == REJECTED for row in rows),
        "proven": sum(row.get("status") == "optimal" for row in rows),
        "judged": sum(row.get("check") is not None for row in rows),
    }


def answer(rows: Rows) -> str:
    """Runs, failures, verdicts of the checker and proofs of optimality."""
    done, failed, rejected, proven, judged = _counts(rows).values()
    lost = f", {failed:,} failed or {'is' if failed == 1 else 'are'} missing" if failed else ""
    verdict = f"; the checker rejects {counted(rejected, 'result')}" if rejected else ""
    optimal = f"; {counted(proven, 'result')} {'is' if proven == 1 else 'are'} proven optimal" if judged else ""
    return f"{done:,} of {counted(len(rows), 'run')} gave a value{lost}{verdict}{optimal}."


MOST_RUNS = 5000
"""Runs listed one by one; figures that lead to later ones lead nowhere, which the page says."""

PLAIN_FIGURES = (Figure("performance-profile"), Figure("box", y="gap"))
"""What is drawn when a study requests nothing."""

FACTORS = ("instance", "method", "seed", "repetition")
Grid = dict[str, Any]
"""A table as text: `title`, `headings`, `lines`, and `numeric`, which says which columns are figures."""


def study_report(directory: str | os.PathLike[str]) -> str:
    """Self-contained HTML.

    Raises:
        InputError: no folder of a study.
    """
    study, rows = read_plan(directory), collect_rows(directory)
    file, factors = study.study, factor_columns(study, rows)
    drawings = [
        draw(figure, rows, factors, file)
        for figure in file.figures or PLAIN_FIGURES
        if installed() or figure.kind == "heat-map"
    ]
    beside = set_beside(file.published, rows)
    return render_page(
        "studies/page.html.j2",
        f"{answer(rows)} {agreement(beside)}".strip(),
        study=file,
        title=file.title or file.name,
        provenance=(
            ("study", f"{study.name}, from {study.file}"),
            ("hash of the study", study.sha256),
            ("versions", ", ".join(f"{name} {value}" for name, value in study.versions.items())),
        ),
        cards=_cards(rows),
        comparison=_comparison_grid(file, rows, factors),
        published=_published_grid(beside) if beside else None,
        drawings=[drawing for drawing in drawings if drawing["picture"]],
        left_out="" if installed() else MISSING,
        undrawn=[drawing["title"] for drawing in drawings if not drawing["picture"]],
        grids=[grid for table in file.tables if (grid := _grid(table, rows, file))["lines"]],
        failures=[_line(row, factors) for row in rows if row.get("outcome") in FAILED],
        runs=[_line(row, factors) for row in rows[:MOST_RUNS]],
        hidden=max(0, len(rows) - MOST_RUNS),
    )


def factor_columns(study: Study, rows: Rows) -> tuple[str, ...]:
    """Columns that tell the runs of a study apart: what was varied, and of the fixed ones those that differ."""
    varied = dict.fromkeys(name for run in study.runs for name in run.factors)
    fixed = [name for name in FACTORS if name in {"instance", "method"} or len({row.get(name) for row in rows}) > 1]
    return (*fixed, *(name for name in varied if name not in FACTORS))


def _cards(rows: Rows) -> list[Card]:
    done, bad, rejected, proven, judged = _counts(rows).values()
    checked = sum(row.get("check") is True for row in rows)
    seconds = sum(number_of(row, "wall_s") or 0.0 for row in rows)
    other = len(rows) - done - bad
    verdict = (f"{checked:,} passed", "no result rejected", "good")
    if rejected:
        verdict = ("failed", f"{rejected:,} rejected", "bad")
    cards = [
        Card("runs", f"{len(rows):,}", f"{done:,} gave a value" + (f", {other:,} have none" if other else ""), "main"),
        Card("failed or missing", f"{bad:,}", "listed below" if bad else "none", "bad" if bad else "good"),
        Card("independent check", *verdict),
        Card("proven optimal", f"{proven:,}", "value meets a proven bound"),
    ]
    time = f"{seconds / 3600:.2f} h" if seconds >= 3600 else f"{seconds:,.0f} s"
    # Commands that solve nothing have neither a verdict nor a proof.
    return [*(cards if judged or rejected else cards[:2]), Card("time", time, "of all runs together")]


def _text_grid(title: str, headings: Sequence[str], lines: Sequence[Sequence[str]], texts: Sequence[int]) -> Grid:
    """A table whose columns are figures but for those at `texts`."""
    numeric = [index not in texts for index in range(len(headings))]
    return {"title": title, "headings": headings, "numeric": numeric, "lines": lines}


def _comparison_grid(file: StudyFile, rows: Rows, factors: Sequence[str]) -> Grid | None:
    """Each value of the compared column: runs, wins, distance from the reference; None where there is only one."""
    ratios = compared(rows, factors, file.compare)
    lines = []
    for group in dict.fromkeys(ratio[1] for ratio in ratios):
        peers = [ratio for ratio in ratios if ratio[1] == group]
        available = sorted(ratio for _, _, ratio, _ in peers if ratio is not None)
        texts = ["-"] * 3
        if available:
            values = (sum(available) / len(available), available[len(available) // 2], available[-1])
            texts = [f"{value:+.2%}" for value in values]
        lines.append((group, str(len(peers)), str(len(available)), str(sum(peer[3] for peer in peers)), *texts))
    if len(lines) < 2:
        return None
    by, value = (file.names.get(name, name) for name in (file.compare.by, file.compare.value))
    headings = (by, "runs", "with a value", "best of the case", "mean", "median", "worst")
    return _text_grid(f"{value} against {file.compare.baseline or 'the best'} of the same case", headings, lines, (0,))


def _grid(table: Table, rows: Rows, file: StudyFile) -> Grid:
    local = chosen(rows, table.where)
    headings, lines = pivot(local, table.rows, table.values, table.columns, table.statistic, file.names)
    texts = [[number(cell) if isinstance(cell, float) else text_of(cell) for cell in line] for line in lines]
    title = table.title if table.statistic == "mean" else f"{table.title} ({table.statistic})"
    return _text_grid(title, headings, texts, range(len(table.rows)))


def _published_grid(beside: Sequence[Beside]) -> Grid:
    lines = []
    for figure, ours, difference in beside:
        texts = ("-", "-") if ours is None or difference is None else (number(ours), signed_percent(difference))
        reason = "" if agrees(difference) or ours is None else figure.why or ""
        lines.append((figure.what, texts[0], number(figure.value), texts[1], figure.source, reason))
    headings = ("figure", "ours", "published", "difference", "source", "why")
    shown = len(headings) if any(line[-1] for line in lines) else len(headings) - 1
    return _text_grid("Ours and the published figures", headings[:shown], [line[:shown] for line in lines], (0, 4, 5))


def _line(row: Row, factors: Sequence[str]) -> dict[str, str]:
    """A run of the list: where it is, what it was, how it ended."""
    key = str(row.get("run"))
    outcome = str(row.get("outcome"))
    named = [
        text_of(row.get(name)) if name in {"instance", "method"} else f"{name} {text_of(row.get(name))}"
        for name in factors
        if row.get(name) is not None
    ]
    figures = [number_of(row, name) for name in ("objective", "bound")]
    gap, seconds, check = number_of(row, "gap"), number_of(row, "wall_s"), row.get("check")
    return {
        "key": key[:16],
        "folder": f"runs/{key[:2]}/{key}/",
        "hash": key[:12],
        "case": ", ".join(named),
        "outcome": outcome,
        "css": "bad" if outcome in FAILED else "",
        "reason": str(row.get("reason") or ""),
        "objective": "" if figures[0] is None else f"{number(figures[0])} {row.get('objective_unit') or ''}".strip(),
        "bound": "" if figures[1] is None else number(figures[1]),
        "gap": "" if gap is None else f"{gap:.2%}",
        "check": {True: "passed", False: "FAILED"}.get(check, "") if isinstance(check, bool) else "",
        "seconds": "" if seconds is None else f"{seconds:.2f}",
        "instance_hash": str(row.get("instance_sha256") or "")[:12],
        "command": str(row.get("command") or ""),
    }
