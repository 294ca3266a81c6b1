"""The tables of `topoopt compare`: one for each instance, a row for each run or, with several seeds, each method."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.measure import Measurement

from topoopt.console.tables import TerminalTable
from topoopt.core.comparison import Best, Comparison, best_of

WIDEST = 500
"""Columns of a table in a file at most."""


def show_comparison(console: Console, rows: Sequence[Comparison], files: Sequence[Path | None]) -> None:
    """Print the tables, what the gaps are to, why methods found nothing, and the files written."""
    for file in dict.fromkeys(row.run.file for row in rows):
        _show_instance(console, [row for row in rows if row.run.file == file])
    if not rows:
        _line(console, "no run was made")
    for written in files:
        if written is not None:
            _line(console, f"written: {written}")


def _line(console: Console, text: str) -> None:
    console.print(text, markup=False, soft_wrap=True, highlight=False)


def _show_instance(console: Console, rows: Sequence[Comparison]) -> None:
    first = rows[0].run
    best = best_of([row.run for row in rows])
    named = next((row.run for row in rows if row.run.objective), None)
    what = "value" if named is None else named.objective.replace("_", " ")
    if named is not None and named.unit in {"ms", "s"}:
        what += f", {named.unit}"
    several = len({row.run.seed for row in rows}) > 1
    middle = [what, "median", "worst"] if several else [what]
    worth = ["it/s per M USD"] if any(row.run.value_per_million_usd is not None for row in rows) else []
    bounds = ["bound", "to best", "to optimum" if best.proven else "to bound"]
    headings = ["method", *middle, *bounds, *worth, "time", "outcome"]
    title = escape(
        first.instance if not several else f"{first.instance}, seeds 0 to {max(row.run.seed for row in rows)}"
    )
    table = TerminalTable(title=title)
    for place, text in enumerate(headings):
        side: JustifyMethod = "left" if place in {0, len(headings) - 1} else "right"
        table.add_column(escape(text), overflow="fold", justify=side)
    for method in dict.fromkeys(row.run.method for row in rows):
        mine = [row for row in rows if row.run.method == method]
        cells = _summary(mine) if several else _single(mine[0])
        if worth:
            cells[-2:-2] = [_worth(mine)]
        table.add_row(*map(escape, cells))
    if not console.is_terminal:  # a file has no width that a table must fit
        console.width = max(
            console.width, Measurement.get(console, console.options.update(width=WIDEST), table).maximum
        )
    console.print(table)
    _say_best(console, best)
    for run in {row.run.method: row.run for row in rows if row.run.claimed_bound is not None}.values():
        claim = run.claimed_bound
        if claim is not None:
            _line(console, f"{run.method}: bound {claim.value:.6g} {claim.proved_by}")
    for run in {row.run.method: row.run for row in rows if row.run.value is None}.values():
        _line(console, f"{run.method}: {run.outcome}: {' '.join(run.reason.split())}")


def _outcome(row: Comparison) -> str:
    run = row.run
    return (
        "REJECTED"
        if run.rejected
        else f"{run.outcome}, interrupted"
        if run.stopped_by == "interrupted"
        else run.outcome
    )


def _gap(gap: float | None) -> str:
    return "-" if gap is None else f"{gap:.2%}"


def _worth(rows: Sequence[Comparison]) -> str:
    """What the best run buys for a million dollars of network, iterations a second."""
    known = [row.run.value_per_million_usd for row in rows if row.run.value_per_million_usd is not None]
    return f"{max(known):.6g}" if known else "-"


def _single(row: Comparison) -> list[str]:
    run = row.run
    figures = ["-"] * 4
    if run.value is not None and run.bound is not None:
        figures = [f"{run.value:.6g}", f"{run.bound.value:.6g}", _gap(row.gap_to_best), _gap(row.gap_to_bound)]
    return [run.method, *figures, f"{run.wall_s:.2f} s", _outcome(row)]


def _summary(rows: Sequence[Comparison]) -> list[str]:
    """Best, median and worst value, tightest bound, gaps of the best, mean time, and how often each outcome was."""
    found = [row for row in rows if row.run.value is not None and row.run.bound is not None]
    outcomes = Counter(map(_outcome, rows))
    said = next(iter(outcomes)) if len(outcomes) == 1 else ", ".join(f"{n} {text}" for text, n in outcomes.items())
    figures = ["-"] * 6
    if found:
        sign = -1.0 if found[0].run.maximise else 1.0
        ordered = sorted(found, key=lambda row: sign * (row.run.value or 0.0))
        values = [row.run.value or 0.0 for row in ordered]
        bounds = [row.run.bound.value for row in found if row.run.bound is not None]
        tightest = min(bounds) if found[0].run.maximise else max(bounds)
        numbers = (values[0], median(values), values[-1], tightest)
        figures = [
            *(f"{number:.6g}" for number in numbers),
            _gap(ordered[0].gap_to_best),
            _gap(ordered[0].gap_to_bound),
        ]
    mean_s = sum(row.run.wall_s for row in rows) / len(rows)
    return [rows[0].run.method, *figures, f"{mean_s:.2f} s", said]


def _say_best(console: Console, best: Best) -> None:
    if best.by is None or best.bound is None:
        return
    side = "lowest" if best.by.maximise else "highest"
    verdict = "reached, so the best is optimal" if best.proven else "not reached"
    _line(
        console,
        f"{side} bound {best.bound.value:.6g} ({best.bound.proved_by}), {verdict}; "
        "gaps are to it and to the best value",
    )
