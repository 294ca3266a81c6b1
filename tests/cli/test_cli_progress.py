"""Bars of progress on a terminal: a line, never wider than it, with what is done and an estimate."""

from __future__ import annotations

import io

import pytest

from topoopt.page.options import solving_bar
from topoopt.page.output import Output, SafeConsole


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_bar_fits_the_terminal(width: int) -> None:
    """Whatever is being done, however long its name; the time that is left stands in it."""
    stream = io.StringIO()
    terminal = SafeConsole(file=stream, width=width, force_terminal=True, color_system=None, legacy_windows=False)
    with solving_bar(Output(False, terminal, terminal, terminal)) as tell:
        for done in range(3):
            tell("strategy search over a fabric with a name longer than any terminal is wide " * 2, done, 1000)
    lines = [part for line in stream.getvalue().split("\n") for part in line.split("\r")]
    shown = [line.split("\x1b[2K")[-1] for line in lines]
    drawn = [line for line in shown if "/1000" in line]
    assert drawn
    assert all("left" in line for line in drawn)
    assert max(len(line.rstrip("\x1b[?25lh").replace("\x1b[?25l", "")) for line in drawn) <= width
