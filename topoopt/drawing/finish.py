"""The last step of a page: terms lead to their meaning, and wide tables scroll by themselves, by finger and key too."""

from __future__ import annotations

import re
from collections.abc import Iterator

from markupsafe import Markup, escape

from topoopt.drawing.glossary import TERMS, GlossaryEntry, found_terms

_TAG = re.compile(r"(<[^>]*>)")
_NAME = re.compile(r"</?([a-zA-Z0-9]+)")
VOID = {"meta", "br", "hr", "img", "input", "link"}
UNTOUCHED = {"head", "script", "style", "svg", "a", "button", "title", "h1", "nav", "code", "label", "summary"}
"""Whose text stays as it is: no page, a picture, or what does something already."""

SCROLLER = (
    '<div class="scroller"><div class="scroll" tabindex="0" role="region" aria-label="{label}, scrolls sideways">',
    '</div><p class="hint screen" hidden>scrolls sideways →</p></div>',
)
GLOSSARY = "<!-- glossary -->"
"""Where a page has the meaning of its terms."""


def finished(page: str) -> str:
    """The page with a link at the first place of every term in a section, and the glossary of those terms.

    Args:
        page: well formed; markup stands in it only as such, everything else is escaped.
    """
    used: dict[str, GlossaryEntry] = {}
    text = "".join(_linked(_scrolling(page), used))
    return text.replace(GLOSSARY, _glossary(used))


def _scrolling(page: str) -> str:
    """Every table in a box that scrolls sideways, can be reached by keys, and says so."""
    parts: list[str] = []
    boxes: list[bool] = []  # of each open div, whether it scrolls
    wrapped: list[bool] = []  # of each open table, whether it has got a box here
    for part in _TAG.split(page):
        name, closing = _name(part), part.startswith("</")
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


def _linked(page: str, used: dict[str, GlossaryEntry]) -> Iterator[str]:
    """Parts of the page, terms linked, each once a section."""
    closed: list[str] = []
    seen: set[str] = set()
    for part in _TAG.split(page):
        if part.startswith("<"):
            name = _name(part)
            if name == "section" and not part.startswith("</"):
                seen = set()
            if name in UNTOUCHED and not part.endswith("/>"):
                if part.startswith("</"):
                    closed.pop()
                else:
                    closed.append(name)
            yield part
        elif closed or not part.strip():
            yield part
        else:
            yield _with_terms(part, seen, used)


def _with_terms(text: str, seen: set[str], used: dict[str, GlossaryEntry]) -> str:
    parts, at = [], 0
    for begin, end, term in found_terms(text):
        if term.name in seen:
            continue
        seen.add(term.name)
        used[term.name] = term
        tip = escape(f"{term.name}: {term.meaning}")
        parts += [text[at:begin], f'<a class="term" href="#{term.anchor}" data-tip="{tip}">{text[begin:end]}</a>']
        at = end
    return "".join([*parts, text[at:]])


def _glossary(used: dict[str, GlossaryEntry]) -> str:
    if not used:
        return ""
    entries = "\n".join(
        f'<dt id="{term.anchor}">{escape(term.name)}</dt><dd>{escape(term.meaning)}</dd>'
        for term in TERMS
        if term.name in used
    )
    return Markup(f'<section id="glossary">\n<h2>Terms</h2>\n<dl class="glossary">\n{entries}\n</dl>\n</section>')


def _name(part: str) -> str:
    match = _NAME.match(part)
    return "" if match is None else match.group(1)
