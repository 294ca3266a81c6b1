"""Tables in the terminal have one style, in one place."""

from __future__ import annotations

import io
import re

from tests.support.paths import ROOT
from topoopt.page.output import SafeConsole
from topoopt.page.render import TerminalTable, stacked


def test_no_other_tables() -> None:
    """Nobody takes those of rich as they are, or draws boxes of their own."""
    for path in (ROOT / "topoopt").rglob("*.py"):
        text = path.read_text()
        if path.name != "render.py":
            assert not re.search(r"from rich\.table import .*\bTable\b|import rich\.table", text), path
        assert "rich.box" not in text or path.name == "render.py", path


def test_a_table_is_plain_text() -> None:
    """Headings, a line, cells; nothing around them, so that columns can be cut out of a log."""
    stream = io.StringIO()
    table = TerminalTable("part", "state", title="what is here")
    table.add_row("numpy", "ok")
    SafeConsole(file=stream, width=80).print(table)
    lines = [line.rstrip() for line in stream.getvalue().splitlines() if line.strip()]
    assert lines[0].startswith("what is here")
    assert lines[1].split() == ["part", "state"]
    assert set(lines[2]) <= {"─", " "}
    assert lines[3].split() == ["numpy", "ok"]


def test_no_heading_is_cut_where_columns_are_many() -> None:
    """Words of headings stand below each other, and all of them are there at 80 letters a line."""
    names = ("spare servers", "circuits", "mean", "99 % of days", "worst day", "days without loss", "exchanged a day")
    table, stream = TerminalTable(dense=True), io.StringIO()
    for name in names:
        table.add_column(stacked(name))
    table.add_row(*["100.0 %"] * len(names))
    SafeConsole(file=stream, width=80).print(table)
    assert "…" not in stream.getvalue()
    assert {word for name in names for word in name.split()} <= set(stream.getvalue().split())
