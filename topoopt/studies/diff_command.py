"""`topoopt study diff`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from topoopt.console.output import JsonOption, Output
from topoopt.console.tables import TerminalTable

if TYPE_CHECKING:
    from topoopt.studies.diff import StudyDiff


def diff(
    first: Annotated[Path, typer.Argument(help="Directory of a study.")],
    second: Annotated[Path, typer.Argument(help="Directory of the same study with other code or settings.")],
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """What got better or worse between two studies, case by case, with a paired test."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.studies.diff import plain, study_diff

        found = study_diff(first, second)
        output.result(plain(found), lambda console: _show(console, found))
        return 0

    output.run(command)


def _show(console: Console, found: StudyDiff) -> None:
    text = f"{found.pairs} cases in both, {found.only_first} only in the first, {found.only_second} only in the second"
    console.print(text, highlight=False)
    for name, (then, now) in found.versions.items():
        console.print(f"{name}: {then} → {now}", markup=False, highlight=False)
    table = TerminalTable("column", "pairs", "better", "worse", "same", "median ratio", "p (Wilcoxon)")
    for change in found.changes:
        ratio = "-" if change.median_ratio is None else f"{change.median_ratio:.4g}"
        p_value = "-" if change.p_value is None else f"{change.p_value:.2g}"
        counts = (change.pairs, change.better, change.worse, change.same)
        table.add_row(change.column, *(str(count) for count in counts), ratio, p_value)
    console.print(table)
    for pair in found.outcomes[:20]:
        console.print(f"{pair.case}: {pair.outcomes[0]} → {pair.outcomes[1]}", markup=False, soft_wrap=True)
    if found.largest:
        table = TerminalTable("case", "first", "second", "ratio", title="largest changes of the objective")
        for pair in found.largest:
            values = ("-" if value is None else f"{value:.6g}" for value in pair.values)
            table.add_row(escape(pair.case), *values, f"{pair.ratio:.4f}")
        console.print(table)
