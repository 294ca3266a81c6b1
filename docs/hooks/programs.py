"""A page a formulation, from the docstring of its module: the text as it is, objective and constraints typeset."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

import algebra

from formulations.table import FORMULATIONS

ROOT = Path(__file__).parents[2]

NUMBERED = r"\(\d+'?\)(?: [a-z]\w*(?=\s))?"
INDEXED = r"\d+\. [a-z]\w*(?:\[[^\]]*\])?(?:, \w+\[[^\]]*\])*(?=[:,])"
FURTHER = r"[a-z]\w*(?=\s{3,})"
LABEL = re.compile(rf"^(?P<label>\s{{2,}}{NUMBERED}|\s*{INDEXED}|\s{{6,}}{FURTHER})(?P<rest>.*)$")
GOAL = re.compile(r"^\s*(minimise|maximise)\b(?P<rest>.*)$")
SYMBOL = r"[A-Za-z]\w*'?(?:\[[^\]]*\])?(?: (?:>=|<=|>|<|in|=) (?:\{[^}]*\}|\[[^\]]*\]|[\w.]+))?(?:, )?"
DEFINITION = re.compile(rf"^((?:{SYMBOL})+?)(: |, (?=[a-z]{{3,}} )|$)(.*)$")
SYMBOLS = re.compile(r"^(Sets?|Parameters|Variables|Short)\b:?(?:,| *)(.*)$")
RELATION = re.compile(r">=|<=|!=|=| in \{")
PROSE = re.compile(r"[a-z]{3,} [a-z]{2,} [a-z]{2,}")

INDEXED_NAME = r"\b[A-Za-z]\w*'?\[[^\[\]`]*\]"
SUM = r"(?:(?:\bsum(?:_\w+|_\{[^}]*\})? )+(?:[b-z] (?=\w+\[))?)?"
WORD = r"\b(?!(?:sum|the|of|all|each|or|and|with)\b)[A-Za-z]\w*\b'?(?![(\[])"
PRODUCT = rf"{INDEXED_NAME}(?: {INDEXED_NAME})*"
TERM = rf"{SUM}(?:{PRODUCT}|\d+\.\.\w+(?:-\d+)?|{WORD}|\d+(?:\.\d+)?\b|\{{[^}}]*\}}|\[0, 1\])"
SIGN = r"(?:>=|<=|!=|=|<|>|in(?= [{\[]))"
STEP = rf"(?: (?:{SIGN}|[-+*/]) |/){TERM}"
INLINE = re.compile(rf"{SUM}{PRODUCT}(?:{STEP})*|{TERM} {SIGN} {TERM}(?:{STEP})*")
GOES_ON = re.compile(r" ?(?:[-+*/^]|[<>!]?=|\(\w+ [-+]) ?[\w(]")
"""After algebra: it is not read to its end."""


def _summary(text: str) -> str:
    return text.split("\n\n", maxsplit=1)[0].replace("\n", " ")


def _modules() -> Iterator[tuple[str, str, str]]:
    """(name, file, docstring) of every formulation: whatever states variables and constraints."""
    for path in sorted((ROOT / "formulations").glob("*/*.py")):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        if re.search(r"^\s*(Variables|Decided|minimise|maximise)\b", text, re.MULTILINE | re.IGNORECASE):
            yield path.stem, str(path.relative_to(ROOT)), text


def _expression(text: str) -> str:
    """Typeset what is algebra; leave words as they are."""
    text = text.strip()
    if not text:
        return ""
    return f"<span>{_sentence(text)}</span>" if PROSE.search(text) else algebra.mathml(text)


def _sentence(text: str) -> str:
    """Words as they are; names with an index and relations between them typeset, where they are whole."""
    out, at = "", 0
    for found in INLINE.finditer(text):
        if not GOES_ON.match(text, found.end()):
            out += escape(text[at : found.start()]) + algebra.mathml(found[0])
            at = found.end()
    return out + escape(text[at:])


def _row(label: str, rest: str) -> str:
    parts = [part for part in re.split(r"\s{3,}", rest.lstrip(" :,")) if part.strip()]
    formula, where = (parts[0], "; ".join(parts[1:])) if parts else ("", "")
    cells = (escape(label.strip()), _expression(formula), escape(where))
    return (
        "<tr>"
        + "".join(
            f'<td class="{name}">{cell}</td>' for name, cell in zip(("label", "formula", "where"), cells, strict=True)
        )
        + "</tr>"
    )


def _program(lines: list[str]) -> str:
    """Lines of objective and constraints, each with the lines that go on."""
    rows: list[list[str]] = []
    for line in lines:
        goal, label = GOAL.match(line), LABEL.match(line)
        if goal:
            rows.append([goal[1], goal["rest"]])
        elif label:
            rows.append([label["label"], label["rest"]])
        elif rows and line.startswith(" " * 5):
            rows[-1][1] += " " + line.strip() if rows[-1][1].strip() else line
        else:
            rows.append(["", line])
    return '<div class="program"><table class="rows">' + "".join(_row(*row) for row in rows) + "</table></div>"


def _symbols(lines: list[str]) -> str:
    """Sets, parameters and variables as a list of definitions."""
    items: list[tuple[str, str]] = []
    head = ""
    for line in lines:
        found = SYMBOLS.match(line)
        if found and not line.startswith("Sets, parameters and variables of"):
            head = found[1]
            items.append((head, found[2].strip()))
        elif items:
            items[-1] = (items[-1][0], f"{items[-1][1]} {line.strip()}")
        else:
            items.append(("", line))
    out = []
    for name, text in items:
        parts = "".join(f"<dd>{_definition(part)}</dd>" for part in re.split(r"; +", text) if part.strip())
        out.append(f"<dt><em>{name}</em></dt>{parts}")
    return f'<dl class="symbols">{"".join(out)}</dl>'


def _definition(text: str) -> str:
    """A symbol with its range, typeset, and what it means."""
    found = DEFINITION.match(text)
    if not found or PROSE.search(found[1]):
        return _sentence(text)
    return f"{algebra.mathml(found[1])}{escape(found[2])}{_sentence(found[3])}"


def _body(text: str) -> Iterator[str]:
    """Paragraphs: prose as it is, symbols and programs set."""
    for paragraph in text.split("\n\n")[1:]:
        lines = paragraph.rstrip().split("\n")
        if SYMBOLS.match(lines[0]):
            at = next((i for i, line in enumerate(lines) if GOAL.match(line) or LABEL.match(line)), len(lines))
            yield _symbols(lines[:at])
            if lines[at:]:
                yield _program(lines[at:])
        elif any(GOAL.match(line) or LABEL.match(line) for line in lines):
            at = next(
                i for i, line in enumerate(lines) if GOAL.match(line) or LABEL.match(line) or line.startswith("    ")
            )
            if at:
                yield _prose("\n".join(lines[:at]))
            yield _program(lines[at:])
        elif all(line.startswith("    ") for line in lines):
            yield _program(lines)
        else:
            yield _prose(paragraph)


def _prose(text: str) -> str:
    """Text whose brackets and underscores mean themselves; names in code style stay so."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([\\*_\[\]<>{}|#])", r"\\\1", part) for part in parts)


def _page(name: str, file: str, text: str, named: list[str]) -> str:
    written = "".join(f"`topoopt dump-model INSTANCE --formulation {each}` writes it. " for each in named)
    parts = [f"# `{name}`", _prose(_summary(text)), f"{written}Module: `{file}`.", *_body(text)]
    return "\n\n".join(parts) + "\n"


HEAD = """# Formulations

Mathematical programs, each a module whose docstring is its page.

| formulation | |
|---|---|
"""


def pages() -> dict[str, str]:
    """A page a formulation, and their list."""
    found = list(_modules())
    names = "|".join(name for name, _, _ in found)
    pages = {}
    for name, file, text in found:
        others = re.compile(rf"`(?!{name}`)({names})`")
        page = _page(name, file, text, [each for each in FORMULATIONS if each == name])
        pages[f"reference/formulations/{name}.md"] = others.sub(r"[`\1`](\1.md)", page)
    rows = "\n".join(f"| [`{name}`]({name}.md) | {_prose(_summary(text))} |" for name, _, text in found)
    pages["reference/formulations/index.md"] = f"{HEAD}{rows}\n"
    return pages
