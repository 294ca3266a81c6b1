"""The one style of tables in the terminal: a line under the headings, none around cells, titles on the left."""

from __future__ import annotations

import rich.table
from rich.box import SIMPLE_HEAD


class TerminalTable(rich.table.Table):
    """A table for people; columns and rows are added as to those of rich."""

    def __init__(self, *headings: str, title: str | None = None, show_header: bool = True) -> None:
        super().__init__(
            *headings,
            title=title,
            title_justify="left",
            title_style="bold",
            box=SIMPLE_HEAD if show_header else None,
            padding=(0, 2, 0, 0),
            pad_edge=False,
            show_header=show_header,
            header_style="dim",
        )
