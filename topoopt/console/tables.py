"""The one style of tables in the terminal: a line under the headings, none around cells, titles on the left."""

from __future__ import annotations

import textwrap

import rich.table
from rich.box import SIMPLE_HEAD

HEADING_WIDTH = 7
"""Columns of letters, at least, on a line of a heading that stands on several."""


class TerminalTable(rich.table.Table):
    """A table for people; columns and rows are added as to those of rich. Dense: many columns stand side by side."""

    def __init__(self, *headings: str, title: str | None = None, show_header: bool = True, dense: bool = False) -> None:
        super().__init__(
            *headings,
            title=title,
            title_justify="left",
            title_style="bold",
            box=SIMPLE_HEAD if show_header else None,
            padding=(0, 1 if dense else 2, 0, 0),
            pad_edge=False,
            show_header=show_header,
            header_style="dim",
        )


def stacked(heading: str) -> str:
    """A heading on as many lines as keep its column narrow: no word is cut where many columns stand side by side."""
    return "\n".join(textwrap.wrap(heading, max(HEADING_WIDTH, *map(len, heading.split()))))
