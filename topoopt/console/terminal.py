"""What reaches a terminal: control characters of file names, cells and messages are shown, never obeyed.

An escape sequence in a name could clear the screen, set the title, or write what looks like our own words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters (ECMA-48, sets C0 and C1) but tab and line feed; marks that turn the direction of text."""


def shown(text: str) -> str:
    """The text with what a terminal would obey written out: `\\x1b`."""
    return _OBEYED.sub(lambda found: ascii(found[0])[1:-1], text)


class SafeConsole(Console):
    """A console for text of unknown origin; colours and positions are its own alone."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Text of a string, its control characters shown."""
        return super().render_str(shown(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments of anything; what was made of strings elsewhere is looked through as well."""
        for segment in super().render(renderable, options):
            if segment.control or not _OBEYED.search(segment.text):
                yield segment
            else:
                yield Segment(shown(segment.text), segment.style)
