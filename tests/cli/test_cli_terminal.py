"""What is printed is of unknown origin: a terminal never obeys it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

from tests.support.cli_cases import run
from topoopt.core.errors import Problem
from topoopt.page.output import SafeConsole, shown

ESCAPES = {
    "colour": "\x1b[31mred",
    "clear": "\x1b[2J\x1b[H",
    "title": "\x1b]0;owned\x07",
    "one byte": "\x9b31m",
    "back": "ok\b\b\bno",
    "return": "first\rsecond",
    "direction": "\u202egnp.yaml",
}


def printed(*things: object, **options: object) -> str:
    """What a terminal without colours gets."""
    stream = io.StringIO()
    SafeConsole(file=stream, width=200, force_terminal=False).print(*things, **options)  # type: ignore[arg-type]
    return stream.getvalue()


@pytest.mark.parametrize("name", ESCAPES)
def test_control_characters_are_written_out(name: str) -> None:
    """In lines, with and without markup, in Text, in cells and headings of tables: all is printable but line feeds."""
    text = ESCAPES[name]
    table = Table(text)
    table.add_row(text)
    for output in (printed(text), printed(text, markup=False), printed(Text(text)), printed(Text.from_ansi(text), text),
                   printed(table)):  # fmt: skip
        assert all(mark.isprintable() or mark == "\n" for mark in output)
    assert ascii(text[0])[1:-1] in printed(text) or text[0].isprintable()


def test_text_that_is_none_of_that_stays() -> None:
    """Letters of all scripts, signs, tabs and line feeds are not touched; colours of our own work."""
    text = "Größe 漢字 עברית 🚀 ×\n\tend"
    assert shown(text) == text
    assert SafeConsole(file=io.StringIO(), force_terminal=True, color_system="standard").render_str("[red]x[/]").spans


def test_names_of_files_in_messages(tmp_path: Path) -> None:
    """A missing file with a name that would clear the screen, and one that would speak for us on a line of its own."""
    result = run("validate", tmp_path / "\x1b[2Jx.yaml")
    assert result.code == 2
    assert "\x1b[2J" not in result.stdout + result.stderr
    assert "\\x1b[2Jx.yaml" in (result.stdout + result.stderr).replace("\n", "")
    assert "\n" not in str(Problem("no such file", file="a\nerror: all is well"))


def test_wrong_arguments_are_repeated_safely() -> None:
    """An option that does not exist is named, its escape written out."""
    result = run("solve", "x.yaml", "--\x1b[31mred", "1")
    assert result.code == 2
    assert "\x1b[31m" not in result.stderr
    assert "\\x1b[31mred" in result.stderr
    assert "\x1b" not in run("check", "\x1b[31m", "--json").stderr
