"""A solution of any kind in the terminal: its figures, its notes, the files it went to."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from topoopt.console.tables import TerminalTable
from topoopt.core.result import CUT_OFF, SolutionHead


def verdict_of(solution: SolutionHead) -> str:
    """What the checker says, in words."""
    check = solution.check
    if check.cut_off:
        return f"not made: {CUT_OFF.reason}"
    left_out = f"; not recomputed: {', '.join(one.figure for one in check.not_recomputed)}"
    count = len(check.violations)
    verdict = check.outcome if check.ok else f"FAILED: {count} violation{'' if count == 1 else 's'}"
    return verdict + (left_out if check.not_recomputed else "")


def show_figures(
    console: Console, solution: SolutionHead, wall_s: float | None, rows: Iterable[tuple[str, str]], *, title: str = ""
) -> None:
    """A table of names and values, closed by the run and its check; the title is by default the status."""
    table = TerminalTable(title=f"{escape(solution.name)}: {title or solution.status}", show_header=False)
    claim, unit = solution.claimed_bound, solution.objective.unit
    claimed = [] if claim is None else [("claimed bound", f"{claim.value:.6g} {unit} ({claim.proved_by})")]
    took = "" if wall_s is None else f", {wall_s:.2f} s"
    run = ("method", f"{solution.method}{took}, stopped by {solution.stopped_by}")
    for name, value in (*rows, *claimed, run, ("check", verdict_of(solution))):
        table.add_row(name, escape(value))
    console.print(table)


def show_end(console: Console, solution: SolutionHead, files: Iterable[Path]) -> None:
    """The notes, and the files written."""
    for note in solution.notes:
        console.print(f"note: {note}", markup=False, soft_wrap=True, highlight=False)
    written = ", ".join(map(str, files))
    console.print(f"[dim]{escape(f'written: {written}')}[/]", soft_wrap=True, highlight=False)
