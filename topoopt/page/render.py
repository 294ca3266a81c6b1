"""The three renderings of a page: HTML, terminal, JSON."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup
from rich.console import Console
from rich.markup import escape

from topoopt.console.solution_tables import show_figures
from topoopt.console.tables import TerminalTable
from topoopt.core.proofs import Status
from topoopt.core.result import Result
from topoopt.drawing.format import percent
from topoopt.drawing.page import Card, closing_cards, render_page, run_rows, versions_row
from topoopt.drawing.sentences import bound_text
from topoopt.page.blocks import Column, Page, Plot, Side, Table

TEMPLATE = "page/page.html.j2"
SHOWN_VIOLATIONS = 20


def to_json(page: Page, *, tables: bool = False) -> dict[str, Any]:
    """Return every fact by its key, and on request every table as a list of mappings."""
    document: dict[str, Any] = {fact.key: fact.value for fact in page.facts if fact.key}
    for table in page.tables() if tables else ():
        columns = [(index, column.key) for index, column in enumerate(table.columns) if column.html is None]
        document[table.key] = [{key: row[index] for index, key in columns} for row in table.rows]
    return document


def to_terminal(page: Page, console: Console, result: Result[Any, Any], wall_s: float | None) -> None:
    """Print the facts, then the first rows of every table."""
    if page.cause:
        console.print(escape(page.cause))
    facts = [(fact.name, fact.text(fact.value)) for fact in page.facts if fact.name]
    show_figures(console, result, wall_s, [facts[0], ("bound", bound_text(result)), *facts[1:]])
    for violation in result.check.violations[:SHOWN_VIOLATIONS]:
        console.print(violation, markup=False, soft_wrap=True, highlight=False)
    for table in page.tables():
        if table.terminal_rows:
            console.print(_terminal_table(table))
    for command, purpose in page.next_commands:
        console.print(f"next: {escape(command)}  [dim]{escape(purpose)}[/dim]")


def _terminal_table(table: Table) -> TerminalTable:
    columns = [(index, column) for index, column in enumerate(table.columns) if column.html is None]
    hidden = len(table.rows) - table.terminal_rows
    title = (
        f"the first {table.terminal_rows} of {len(table.rows)} {table.key.replace('_', ' ')}" if hidden > 0 else None
    )
    shown = TerminalTable(*(column.heading for _, column in columns), title=title)
    for row in table.rows[: table.terminal_rows]:
        shown.add_row(*(escape(column.text(row[index])) for index, column in columns))
    return shown


def to_html(page: Page, result: Result[Any, Any]) -> str:
    """Return a self-contained page; equal results give equal bytes. Text of the instance is escaped."""
    cards = [
        Card(fact.name, fact.text(fact.value), fact.detail, fact.css) for fact in page.facts if fact.card and fact.name
    ]
    proven = "good" if result.status is Status.OPTIMAL else ""
    gap = Card("gap to the bound", percent(result.gap), f"bound {bound_text(result)}", proven)
    objective = Card(cards[0].title, cards[0].value, cards[0].detail, "main")
    return render_page(
        TEMPLATE,
        " ".join(text for text in (page.answer, page.cause) if text),
        result.check,
        solution=result,
        page=page,
        sections=[section for section in page.sections if section.blocks],
        verdict=(objective, gap, *closing_cards(result)),
        comparisons=cards[1:],
        shape=_shape,
        cell=_cell,
        provenance=(*run_rows(result), ("bound", bound_text(result)), *page.provenance, versions_row(result)),
    )


def _cell(column: Column, value: Any) -> Markup | str:
    return column.text(value) if column.html is None else column.html(value)


def _shape(block: object) -> str:
    """Return the name of the macro that draws a block."""
    return (
        "table"
        if isinstance(block, Table)
        else "plot"
        if isinstance(block, Plot)
        else ("side" if isinstance(block, Side) else "text")
    )
