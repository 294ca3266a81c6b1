"""The report of a study is one page: its answer, how the runs ended, the figures and tables, and every run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from topoopt.page.render import Card, render_page
from topoopt.page.text import counted, number
from topoopt.page.vega import MISSING, installed
from topoopt.studies.figures import Compared, Drawing, agreement, draw, set_beside, signed_percent
from topoopt.studies.results import (
    FAILED,
    REJECTED,
    Row,
    chosen,
    compared,
    number_of,
    pivot,
    text_of,
)
from topoopt.studies.runner import collect_rows, read_plan
from topoopt.studies.schema import Cell, Figure, Study, Table


def answer(rows: Sequence[Row]) -> str:
    """Runs, failures, verdicts of the checker and proofs of optimality."""
    done = sum(row.get("outcome") == "done" for row in rows)
    failed = sum(row.get("outcome") in FAILED for row in rows)
    rejected = sum(row.get("outcome") == REJECTED for row in rows)
    proven = sum(row.get("status") == "optimal" for row in rows)
    judged = any(row.get("check") is not None for row in rows)
    lost = f", {failed:,} failed or {'is' if failed == 1 else 'are'} missing" if failed else ""
    verdict = f"; the checker rejects {counted(rejected, 'result')}" if rejected else ""
    optimal = f"; {counted(proven, 'result')} {'is' if proven == 1 else 'are'} proven optimal" if judged else ""
    return f"{done:,} of {counted(len(rows), 'run')} gave a value{lost}{verdict}{optimal}."


MOST_RUNS = 5000
"""Runs listed one by one; figures that lead to later ones lead nowhere, which the page says."""

PLAIN_FIGURES = (Figure("performance-profile"), Figure("box", y="gap"))
"""What is drawn when a study asks for nothing."""


@dataclass(frozen=True)
class Grid:
    """A table as text; `numeric` says which columns are figures."""

    title: str
    headings: tuple[str, ...]
    numeric: tuple[bool, ...]
    lines: tuple[tuple[str, ...], ...]


def cell(value: Cell) -> str:
    """A cell of a table."""
    return number(value) if isinstance(value, float) else text_of(value)


def render_study(study: Study, rows: Sequence[Row], factors: Sequence[str]) -> str:
    """Self-contained HTML.

    Args:
        study: the study.
        rows: of the table of results.
        factors: columns that tell cases apart (instance, method, seed, whatever was varied).
    """
    figures = study.study.figures or PLAIN_FIGURES
    drawings: list[Drawing] = [
        draw(figure, rows, factors, study.study.compare, study.study.published, study.study.names)
        for figure in figures
        if installed() or figure.kind == "heat-map"
    ]
    beside = set_beside(study.study.published, rows)
    provenance = (
        ("study", f"{study.name}, from {study.file}"),
        ("hash of the study", study.sha256),
        ("versions", ", ".join(f"{name} {value}" for name, value in study.versions.items())),
    )
    return render_page(
        "studies/page.html.j2",
        f"{answer(rows)} {agreement(beside)}".strip(),
        study=study.study,
        title=study.study.title or study.name,
        provenance=provenance,
        cards=_cards(rows),
        comparison=_comparison_grid(study, rows, factors),
        published=_published_grid(beside) if beside else None,
        drawings=[drawing for drawing in drawings if drawing.picture],
        left_out="" if installed() else MISSING,
        undrawn=[drawing.title for drawing in drawings if not drawing.picture],
        grids=[grid for table in study.study.tables if (grid := _grid(table, rows, study.study.names)).lines],
        failures=[_line(row, factors) for row in rows if row.get("outcome") in FAILED],
        runs=[_line(row, factors) for row in rows[:MOST_RUNS]],
        hidden=max(0, len(rows) - MOST_RUNS),
    )


def _cards(rows: Sequence[Row]) -> list[Card]:
    done = sum(row.get("outcome") == "done" for row in rows)
    bad = sum(row.get("outcome") in FAILED for row in rows)
    rejected = sum(row.get("outcome") == REJECTED for row in rows)
    checked = sum(row.get("check") is True for row in rows)
    seconds = sum(number_of(row, "wall_s") or 0.0 for row in rows)
    proven = sum(row.get("status") == "optimal" for row in rows)
    other = len(rows) - done - bad
    judged = any(row.get("check") is not None for row in rows)
    cards = [
        Card("runs", f"{len(rows):,}", f"{done:,} gave a value" + (f", {other:,} have none" if other else ""), "main"),
        Card("failed or missing", f"{bad:,}", "listed below" if bad else "none", "bad" if bad else "good"),
        Card(
            "independent check",
            "failed" if rejected else f"{checked:,} passed",
            f"{rejected:,} rejected" if rejected else "no result rejected",
            "bad" if rejected else "good",
        ),
        Card("proven optimal", f"{proven:,}", "value meets a proven bound"),
    ]
    time = f"{seconds / 3600:.2f} h" if seconds >= 3600 else f"{seconds:,.0f} s"
    # Commands that solve nothing have neither a verdict nor a proof.
    return [*(cards if judged or rejected else cards[:2]), Card("time", time, "of all runs together")]


def _comparison_grid(study: Study, rows: Sequence[Row], factors: Sequence[str]) -> Grid | None:
    """Each value of the compared column: runs, wins, distance from the reference; None where there is only one."""
    ratios = compared(rows, factors, study.study.compare)
    groups = list(dict.fromkeys(ratio.group for ratio in ratios))
    if len(groups) < 2:
        return None
    lines = []
    for group in groups:
        own = [ratio for ratio in ratios if ratio.group == group]
        available = sorted(ratio.ratio for ratio in own if ratio.ratio is not None)
        wins = sum(ratio.wins for ratio in own)
        texts = ["-"] * 3
        if available:
            mean = sum(available) / len(available)
            texts = [f"{value:+.2%}" for value in (mean, available[len(available) // 2], available[-1])]
        lines.append((group, str(len(own)), str(len(available)), str(wins), *texts))
    against = study.study.compare.baseline or "the best"
    by, value = (
        study.study.names.get(column, column) for column in (study.study.compare.by, study.study.compare.value)
    )
    headings = (by, "runs", "with a value", "best of the case", "mean", "median", "worst")
    title = f"{value} against {against} of the same case"
    return Grid(title, headings, (False, True, True, True, True, True, True), tuple(lines))


def _grid(table: Table, rows: Sequence[Row], names: Mapping[str, str]) -> Grid:
    headings, lines = pivot(chosen(rows, table.where), table.rows, table.values, table.columns, table.statistic, names)
    numeric = tuple(index >= len(table.rows) for index in range(len(headings)))
    title = table.title if table.statistic == "mean" else f"{table.title} ({table.statistic})"
    return Grid(title, tuple(headings), numeric, tuple(tuple(cell(value) for value in line) for line in lines))


def _published_grid(beside: Sequence[Compared]) -> Grid:
    lines = []
    for figure in beside:
        ours = "-" if figure.ours is None else number(figure.ours)
        difference = "-" if figure.difference is None else signed_percent(figure.difference)
        why = "" if figure.agrees or figure.ours is None else figure.published.why or ""
        lines.append(
            (figure.published.what, ours, number(figure.published.value), difference, figure.published.source, why)
        )
    headings = ("figure", "ours", "published", "difference", "source", "why")
    numeric = (False, True, True, True, False, False)
    shown = len(headings) if any(line[-1] for line in lines) else len(headings) - 1
    cut = tuple(line[:shown] for line in lines)
    return Grid("Ours and the published figures", headings[:shown], numeric[:shown], cut)


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
        "objective": _with_unit(figures[0], row.get("objective_unit")),
        "bound": "" if figures[1] is None else number(figures[1]),
        "gap": "" if gap is None else f"{gap:.2%}",
        "check": {True: "passed", False: "FAILED"}.get(check, "") if isinstance(check, bool) else "",
        "seconds": "" if seconds is None else f"{seconds:.2f}",
        "instance_hash": str(row.get("instance_sha256") or "")[:12],
        "command": str(row.get("command") or ""),
    }


def _with_unit(value: float | None, unit: Cell) -> str:
    return "" if value is None else f"{number(value)} {unit or ''}".strip()


FACTORS = ("instance", "method", "seed", "repetition")


def factor_columns(study: Study, rows: Sequence[Row]) -> tuple[str, ...]:
    """Columns that tell the runs of a study apart: what was varied, and of the fixed ones those that differ."""
    varied = dict.fromkeys(name for run in study.runs for name in run.factors)
    fixed = [name for name in FACTORS if name in {"instance", "method"} or len({row.get(name) for row in rows}) > 1]
    return (*fixed, *(name for name in varied if name not in FACTORS))


def study_report(directory: str | os.PathLike[str]) -> str:
    """Self-contained HTML.

    Raises:
        InputError: no study directory.
    """
    study, rows = read_plan(directory), collect_rows(directory)
    return render_study(study, rows, factor_columns(study, rows))
