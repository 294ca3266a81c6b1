"""A page as data: an answer, facts, tables and plots. A page is rendered three times: as HTML, in the terminal, and as
JSON.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import rich.table
from markupsafe import Markup
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.text import Text

from topoopt.core.process import verbose
from topoopt.core.proofs import Status
from topoopt.core.result import CUT_OFF, CheckResult, Result, SolutionHead
from topoopt.page.charts import use_style
from topoopt.page.output import say, shown
from topoopt.page.text import ROUNDING, bound_text, counted, full_answer, objective_text, percent, quantity

if TYPE_CHECKING:
    from jinja2 import Environment


Wording = Callable[[Any], str]


@dataclass(frozen=True)
class Fact:
    """One figure.

    Attributes:
        key: in JSON; empty where the head of the result has the figure.
        name: for people; empty for a fact that is for programs alone.
        value: plain data.
        text: how the value is written.
        detail: a line of explanation on the card.
        card: whether it is one of the cards at the top of the page.
        css: colour class of the card: good, bad, claimed or none.
    """

    key: str
    name: str
    value: Any
    text: Wording = str
    detail: str = ""
    card: bool = True
    css: str = ""


@dataclass(frozen=True)
class Column:
    """A column of a table: key in JSON, heading for people, how a value is written, and whether it is a number.

    `html` writes the cell of a page where it is more than text, such as a bar; the terminal leaves such a column out.
    """

    key: str
    heading: str
    text: Wording = str
    number: bool = False
    html: Callable[[Any], Markup] | None = None


@dataclass(frozen=True)
class Table:
    """Rows of plain values, in the order of the columns.

    Attributes:
        key: in JSON.
        columns, rows: as many values in a row as there are columns; without headings the table has no head.
        title, note: above the table and below it.
        members: index of a row -> rows that it stands for, folded away on the page.
        totals: rows below a rule.
        max_rows: rows on the page; the rest is counted.
        terminal_rows: rows in the terminal; 0 for no table there.
    """

    key: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    note: str = ""
    members: Mapping[int, Sequence[Sequence[Any]]] = field(default_factory=dict)
    totals: Sequence[Sequence[Any]] = ()
    max_rows: int = 60
    terminal_rows: int = 8

    @property
    def headed(self) -> bool:
        """Whether a column has a heading."""
        return any(column.heading for column in self.columns)


@dataclass(frozen=True)
class Plot:
    """A drawing, made when a page is rendered; `title` stands above it, `caption` below."""

    svg: Callable[[], Markup]
    caption: str = ""
    title: str = ""


@dataclass(frozen=True)
class Side:
    """Blocks side by side where the screen is wide."""

    blocks: Sequence[Block]


Block = Table | Plot | Side | str
"""A string is a paragraph, for the page alone."""


@dataclass(frozen=True)
class Swatch:
    """An entry of a legend: a line, box or dot in the colour of a CSS class, and what it stands for."""

    css: str
    text: str
    shape: Literal["line", "box", "dot"] = "line"


@dataclass(frozen=True)
class Section:
    """Blocks under a title; a section without blocks is left out of the page."""

    title: str
    blocks: Sequence[Block]
    note: str = ""
    legend: Sequence[Swatch] = ()

    @property
    def anchor(self) -> str:
        """The title as a fragment of an address."""
        return self.title.lower().replace(" ", "-")


@dataclass(frozen=True)
class Page:
    """What people and programs see of a result.

    Attributes:
        subtitle: the size of the problem, in one line.
        answer: one sentence that answers the question of the instance.
        cause: the second sentence: what the objective mostly consists of, or what limits it.
        facts: the first one is the objective.
        sections: in the order of the page; one without blocks is left out.
        provenance: (name, value) of what is particular about the instance.
        next_commands: (command, what it answers), without the name of the solution file.
    """

    subtitle: str
    answer: str
    facts: Sequence[Fact]
    sections: Sequence[Section]
    provenance: Sequence[tuple[str, str]] = ()
    cause: str = ""
    next_commands: Sequence[tuple[str, str]] = ()

    def tables(self) -> Iterable[Table]:
        for section in self.sections:
            yield from _tables(section.blocks)


def _tables(blocks: Iterable[Block]) -> Iterable[Table]:
    for block in blocks:
        if isinstance(block, Table):
            yield block
        elif isinstance(block, Side):
            yield from _tables(block.blocks)


HEADING_WIDTH = 7
"""Columns of letters, at least, on a line of a heading that stands on several."""


SHOWN_ROWS = 15
"""Rows of a table with headings, unless `--verbose` is given."""

LONG_CELL = 16
"""Cells above are texts, which may be cut where a table is too wide."""

SHOWN_LINES = 40
"""Lines of a result in the terminal, unless `--verbose` is given."""

OTHER_LINES = 8
"""Of these for the answer, its cause, notes, and what may be asked next."""


class TerminalTable(rich.table.Table):
    """A table for people; columns and rows are added as to those of rich. Dense: many columns stand side by side.

    Under headings every row takes one line, and rows beyond `max_rows` are counted, unless `--verbose` is given.
    """

    def __init__(
        self,
        *headings: str,
        title: str | None = None,
        show_header: bool = True,
        dense: bool = False,
        max_rows: int = SHOWN_ROWS,
    ) -> None:
        super().__init__(
            *headings,
            title=title,
            title_justify="left",
            title_style="bold",
            caption_justify="left",
            box=SIMPLE_HEAD if show_header else None,
            padding=(0, 1 if dense else 2, 0, 0),
            pad_edge=False,
            show_header=show_header,
            header_style="dim",
        )
        self.max_rows = max_rows
        self.hidden_rows = 0

    def add_row(self, *cells: Any, **options: Any) -> None:
        """As of rich; a row beyond the limit is counted."""
        if not self.show_header or verbose():
            super().add_row(*cells, **options)
        elif len(self.rows) < self.max_rows:
            super().add_row(*map(_on_one_line, cells), **options)
        else:
            self.hidden_rows += 1
            self.caption = f"and {self.hidden_rows} more, with --verbose"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """As of rich; where columns are too wide together, headings are broken, and long texts are cut first."""
        cells = [max((cell_width(cell) for cell in column.cells), default=0) for column in self.columns]
        heads = [cell_width(column.header) for column in self.columns]
        wide = sum(map(max, cells, heads)) + 3 * len(cells) > options.max_width
        if wide and self.show_header and not verbose():
            for column, width in zip(self.columns, cells, strict=True):
                column.no_wrap = width <= LONG_CELL
                column.header = Text(stacked(str(column.header), width))
        return super().__rich_console__(console, options)


def cell_width(cell: object) -> int:
    """Columns that a text takes, its longest line where it has several."""
    return max((cell_len(line) for line in str(cell).splitlines()), default=0)


def _on_one_line(cell: Any) -> Any:
    """A cell whose text ends with … where its column is too narrow."""
    text = Text.from_markup(shown(cell)) if isinstance(cell, str) else cell
    if isinstance(text, Text):
        text.no_wrap, text.overflow = True, "ellipsis"
    return text


def stacked(heading: str, width: int = 0) -> str:
    """A heading on as many lines as keep its column narrow: no word is cut where many columns stand side by side."""
    return "\n".join(textwrap.wrap(heading, max(HEADING_WIDTH, width, *map(len, heading.split()))))


def verdict_of(solution: SolutionHead) -> str:
    check = solution.check
    if check.cut_off:
        return f"not made: {CUT_OFF.reason}"
    left_out = f"; not recomputed: {', '.join(entry.figure for entry in check.not_recomputed)}"
    count = len(check.violations)
    verdict = check.outcome if check.ok else f"FAILED: {count} violation{'' if count == 1 else 's'}"
    return verdict + (left_out if check.not_recomputed else "")


def show_figures(
    console: Console, solution: SolutionHead, wall_s: float | None, rows: Iterable[tuple[str, str]]
) -> int:
    """A table of names and values, closed by the run and its check.

    Returns:
        The number of its lines.
    """
    table = TerminalTable(title=f"{escape(solution.name)}: {solution.status}", show_header=False)
    claim, unit = solution.claimed_bound, solution.objective.unit
    claimed = [] if claim is None else [("claimed bound", f"{claim.value:.6g} {unit} ({claim.proved_by})")]
    took = "" if wall_s is None else f", {wall_s:.2f} s"
    run = ("method", f"{solution.method}{took}, stopped by {solution.stopped_by}")
    for name, value in (*rows, *claimed, run, ("check", verdict_of(solution))):
        table.add_row(name, escape(value))
    console.print(table)
    return len(console.render_lines(table))


def show_end(console: Console, solution: SolutionHead, files: Iterable[Path]) -> None:
    """The notes, and the files written."""
    say(console, notes=solution.notes)
    written = ", ".join(map(str, files))
    console.print(f"[dim]{escape(f'written: {written}')}[/]", soft_wrap=True, highlight=False)


_TAG = re.compile(r"(<[^>]*>)")
_NAME = re.compile(r"</?([a-zA-Z0-9]+)")
SCROLLER = (
    '<div class="scroller"><div class="scroll" tabindex="0" role="region" aria-label="{label}, scrolls sideways">',
    '</div><p class="hint screen" hidden>scrolls sideways →</p></div>',
)


def with_scroll_boxes(page: str) -> str:
    """Put every table into a box that scrolls sideways, can be reached by keys, and says so.

    Args:
        page: well formed; markup stands in it only as such, everything else is escaped.
    """
    parts: list[str] = []
    boxes: list[bool] = []  # of each open div, whether it scrolls
    wrapped: list[bool] = []  # of each open table, whether it has got a box here
    for part in _TAG.split(page):
        match = _NAME.match(part)
        name, closing = ("" if match is None else match.group(1)), part.startswith("</")
        if name == "div":
            scrolls = boxes.pop() if closing else part.startswith('<div class="scroll"')
            if not closing:
                boxes.append(scrolls)
            label = "timeline" if "timeline" in part else "table"
            parts.append((SCROLLER[1] if closing else SCROLLER[0].format(label=label)) if scrolls else part)
        elif name == "table" and not closing:
            wrapped.append(not any(boxes))
            parts += [SCROLLER[0].format(label="table"), part] if wrapped[-1] else [part]
        elif name == "table":
            parts += [part, SCROLLER[1]] if wrapped.pop() else [part]
        else:
            parts.append(part)
    return "".join(parts)


LISTED_VIOLATIONS = 50


@dataclass(frozen=True)
class Card:
    """A headline figure: what it is, its value, a line of explanation, and a colour class."""

    title: str
    value: str
    detail: str
    css: str = ""


def check_card(check: CheckResult) -> Card:
    if check.cut_off:
        return Card("independent check", "not made", CUT_OFF.reason, "claimed")
    verdict = "no violations" if check.ok else f"{counted(len(check.violations), 'violation')}, listed below"
    left_out = f"; not recomputed: {counted(len(check.not_recomputed), 'figure')}" if check.not_recomputed else ""
    css = "good" if check.holds else "claimed" if check.ok else "bad"
    return Card("independent check", check.outcome, verdict + left_out, css)


def closing_cards(solution: SolutionHead) -> tuple[Card, ...]:
    """A claimed bound, if there is one, and the verdict of the checker."""
    claim = solution.claimed_bound
    if claim is None:
        return (check_card(solution.check),)
    value = quantity(claim.value, solution.objective.unit)
    return Card("claimed bound", value, claim.proved_by, "claimed"), check_card(solution.check)


def run_rows(solution: SolutionHead) -> tuple[tuple[str, str], ...]:
    claim, unit = solution.claimed_bound, solution.objective.unit
    claims = () if claim is None else (("claimed bound", f"{quantity(claim.value, unit)}, {claim.proved_by}"),)
    return (
        ("instance", f"{solution.name} ({solution.kind})"),
        ("instance SHA-256", solution.instance_sha256 or "not recorded"),
        ("method", solution.method),
        ("seed", str(solution.seed)),
        ("status", f"{solution.status.value}; stopped by: {solution.stopped_by.value}"),
        ("objective", f"{objective_text(solution.objective.name)}, {quantity(solution.objective.value, unit)}"),
        *claims,
    )


@cache
def _environment() -> Environment:
    """Templates are compiled once; their compiler is loaded with the first, as many a run has no page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("topoopt", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render_page(template: str, answer: str, check: CheckResult | None = None, **values: object) -> str:
    """A self-contained page from a template of this package; every value that is no markup is escaped.

    Args:
        template: its path in the package.
        answer: one sentence that answers the question, before all else.
        check: whose violations to list.
        values: of the template; one that is missing is an error.
    """
    violations = () if check is None else check.violations
    page = (
        _environment()
        .get_template(template)
        .render(
            answer=answer if check is None else full_answer(answer, check),
            use_style=use_style(),
            violations=[text.replace(" -> ", " → ") for text in violations[:LISTED_VIOLATIONS]],
            hidden_violations=max(0, len(violations) - LISTED_VIOLATIONS),
            **values,
        )
    )
    return with_scroll_boxes(page)


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
    height = show_figures(console, result, wall_s, [facts[0], ("bound", bound_text(result)), *facts[1:]])
    say(console, *result.check.violations[:SHOWN_VIOLATIONS])
    free = SHOWN_LINES - OTHER_LINES - height
    hidden = []
    for table in page.tables():
        if not table.terminal_rows:
            continue
        terminal_table = _terminal_table(table)
        height = len(console.render_lines(terminal_table))
        if height <= free or verbose():
            console.print(terminal_table)
            free -= height
        else:
            hidden.append(table.key.replace("_", " "))
    if hidden:
        console.print(f"[dim]more with --verbose: {escape(', '.join(hidden))}[/dim]")
    for command, purpose in page.next_commands:
        console.print(f"next: {escape(command)}  [dim]{escape(purpose)}[/dim]")


def _terminal_table(table: Table) -> TerminalTable:
    columns = [(index, column) for index, column in enumerate(table.columns) if column.html is None]
    terminal_table = TerminalTable(*(column.heading for _, column in columns), max_rows=table.terminal_rows)
    for row in table.rows:
        terminal_table.add_row(*(escape(column.text(row[index])) for index, column in columns))
    return terminal_table


def to_html(page: Page, result: Result[Any, Any]) -> str:
    """Return a self-contained page; equal results give equal bytes. Text of the instance is escaped."""
    named = [fact for fact in page.facts if fact.card and fact.name]
    cards = [Card(fact.name, fact.text(fact.value), fact.detail, fact.css) for fact in named]
    proven = "good" if result.status is Status.OPTIMAL else ""
    gap = Card("gap to the bound", percent(result.gap), _bound(result, named[0]), proven)
    objective = Card(cards[0].title, cards[0].value, cards[0].detail, "main")
    words = " ".join(text for text in (page.answer, page.cause) if text)
    versions = ", ".join(f"{name} {version}" for name, version in result.versions) or "not recorded"
    return render_page(
        TEMPLATE,
        words,
        result.check,
        solution=result,
        page=page,
        sections=[section for section in page.sections if section.blocks],
        verdict=(objective, gap, *closing_cards(result)),
        comparisons=[card for card in cards[1:] if not _said(card, words)],
        shape=_shape,
        cell=_cell,
        provenance=(*run_rows(result), ("bound", bound_text(result)), *page.provenance, ("versions", versions)),
    )


def _said(card: Card, words: str) -> bool:
    """Return whether the first sentences have the figure of a card; a plain count only with what it counts."""
    text = f"{card.value} {card.title}" if card.value.isdigit() else card.value
    return re.search(rf"(?<![\w.,]){re.escape(text)}(?!\w)", words) is not None


def _bound(result: Result[Any, Any], first: Fact) -> str:
    """Return who proves the bound, and the bound itself, worded like the objective, where the two differ."""
    proof = f"proved by: {result.bound.proved_by}"
    if result.gap <= ROUNDING:
        return proof
    if first.value != result.objective.value:  # in another unit, or no number
        return f"bound {bound_text(result)}"
    return f"bound {first.text(result.bound.value)}, {proof}"


def _cell(column: Column, value: Any) -> Markup | str:
    return column.text(value) if column.html is None else column.html(value)


def _shape(block: object) -> str:
    return (
        "table"
        if isinstance(block, Table)
        else "plot"
        if isinstance(block, Plot)
        else ("side" if isinstance(block, Side) else "text")
    )
