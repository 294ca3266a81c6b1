"""A report as the tests read it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """Collects what the tests look at, and complains about tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[str] = []
        self.issues: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.ids: list[str] = []
        self._open_text = False  # whether what comes next goes on where the last text ended
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._element(tag, attrs)
        self._open_text = False
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._element(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if not self.stack or self.stack[-1] != tag:
            self.issues.append(f"</{tag}> closes {self.stack[-1:]}")
        else:
            self.stack.pop()
        self._open_text = False

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] not in {"style", "script"}:
            if self._open_text and self.texts:
                self.texts[-1] += data
            else:
                self.texts.append(data)
            self._open_text = True

    def _element(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(set(names)) != len(names):
            self.issues.append(f"<{tag}> repeats an attribute")
        self.elements.append((tag, dict(attrs)))
        if found := dict(attrs).get("id"):
            self.ids.append(found)

    @property
    def text(self) -> str:
        """All visible text, blanks collapsed."""
        return re.sub(r"\s+", " ", " ".join(self.texts))
