"""What every page keeps to: faults of a page, by rule."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache

import topoopt.core
from tests.support.paths import ROOT
from tests.support.report_page import Page

UNITS = {"B", "GB", "TB", "PB", "MB", "GiB", "MiB", "KB", "USD", "W", "M"}
WORDS = {"CSV", "SVG", "HTML", "JSON", "INSTANCE", "DIR", "RUN", "FAILED", "HTTP", "SQL", "OK", "AND", "OR", "NOT"}
"""Names of files and of arguments in commands, which stand for themselves."""

SINGULAR = {
    "sends",
    "receives",
    "ms",
    "ns",
    "us",
    "s",
    "is",
    "has",
    "was",
    "less",
    "as",
    "plus",
    "its",
    "this",
    "bus",
    "loss",
    "across",
}
"""Words on -s of which there can be one."""


@cache
def field_names() -> frozenset[str]:
    """Names of the fields of all data, those of several words: none of them is for people."""
    names: set[str] = set()
    for found in pkgutil.iter_modules(topoopt.core.__path__):
        module = importlib.import_module(f"topoopt.core.{found.name}")
        for thing in vars(module).values():
            if dataclasses.is_dataclass(thing) and isinstance(thing, type):
                names |= {field.name for field in dataclasses.fields(thing) if "_" in field.name}
    return frozenset(names | {"iteration_time", "max_load", "min_rate", "completion_time"})


def tips(page: Page) -> Iterator[str]:
    """Texts that a mark or a link tells when it is pointed at."""
    for _, attributes in page.elements:
        yield from (text for text in (attributes.get("data-tip"), attributes.get("aria-label")) if text)


def long_figures(page: Page) -> list[str]:
    """Figures of more than six digits behind a point, or in the notation of programs."""
    text = " ".join((page.text, *tips(page)))
    found = [each for each in re.findall(r"(?<![\w.])-?[\d,]+\.\d+(?![\w.]*\.\d)", text) if _digits(each) > 6]
    return found + re.findall(r"(?<![\w])\d(?:\.\d+)?e[-+]?\d{1,3}(?!\w)", text)


def _digits(figure: str) -> int:
    return len(re.sub(r"\D", "", figure).lstrip("0"))


def field_names_shown(page: Page) -> list[str]:
    """Names of fields, as they stand in code."""
    return sorted(set(re.findall(r"\w+_\w+", " ".join((page.text, *tips(page))))) & field_names())


def plural_ones(page: Page) -> list[str]:
    """`1 links`."""
    found = (re.findall(r"(?<![\d.,:–−/-])\b1 ([a-z]{2,}s)\b", text) for text in (*page.texts, *tips(page)))
    return [f"1 {word}" for words in found for word in words if word not in SINGULAR]


def other_signs(page: Page) -> list[str]:
    """Arrows other than →, and letters for ×."""
    signs = r"[=-]>|⟶|➔|⇒|(?<![\w-])\d+ ?x ?\d+|\b\d+(?:\.\d+)?x\b|\d \* \d"
    return [sign for text in (*page.texts, *tips(page)) for sign in re.findall(signs, text)]


@cache
def glossary_terms() -> frozenset[str]:
    """Terms of the glossary of the documentation."""
    return frozenset(re.findall(r"^\*\*(.+)\*\*$", (ROOT / "docs" / "glossary.md").read_text("utf-8"), re.M))


def unexplained(page: Page) -> list[str]:
    """Abbreviations that the glossary does not have."""
    listed = " ".join(glossary_terms())
    shown = re.findall(r"(?<![\w-])[A-Z]{2,5}(?=s?\b)(?![\w-])", page.text)
    return sorted({each for each in shown if each not in listed and each not in UNITS | WORDS})


def silent_tables(page: Page) -> list[str]:
    """Tables that are in no box that scrolls, or whose box cannot be reached by keys or does not say so."""
    boxes = [attributes for _, attributes in page.elements if attributes.get("class") == "scroll"]
    issues = [f"{box}" for box in boxes if box.get("tabindex") != "0" or "scrolls sideways" not in str(box)]
    hints = sum(str(attributes.get("class", "")).startswith("hint") for _, attributes in page.elements)
    tables = sum(tag == "table" for tag, _ in page.elements)
    if hints != len(boxes) or tables > len(boxes):
        issues.append(f"{tables} tables, {len(boxes)} boxes, {hints} hints")
    return issues


def silent_marks(text: str) -> list[str]:
    """Pictures whose marks tell something when pointed at, out of reach of the keyboard."""
    pictures = re.findall(r"<svg[^>]*aria-label[^>]*>", text)
    told = re.split(r"<svg[^>]*aria-label[^>]*>", text)[1:]
    return [
        picture[:120]
        for picture, inside in zip(pictures, told, strict=True)
        if ("<title>" in inside or "data-values" in picture) and 'tabindex="0"' not in picture
    ]


def no_answer(page: Page) -> list[str]:
    """A page without the sentence that answers."""
    count = sum(attributes.get("class") == "answer" for _, attributes in page.elements)
    return [] if count == 1 else [f"{count} answers"]


RULES: Mapping[str, Callable[[Page], list[str]]] = {
    "well-formed": lambda page: page.issues,
    "one answer": no_answer,
    "no figures of programs": long_figures,
    "no names of fields": field_names_shown,
    "plurals": plural_ones,
    "one arrow, one multiplication sign": other_signs,
    "every abbreviation explained": unexplained,
    "tables say that they scroll": silent_tables,
}


def issues_of(text: str) -> dict[str, list[str]]:
    """What a page breaks, by rule."""
    page = Page(text)
    found = {name: rule(page) for name, rule in RULES.items()} | {"marks by keyboard": silent_marks(text)}
    return {name: issues for name, issues in found.items() if issues}
