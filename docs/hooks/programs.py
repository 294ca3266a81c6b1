"""A page a formulation, from the docstring of its module: the text as it is, objective and constraints typeset."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

import algebra
from sentences import set_algebra

from formulations.table import FORMULATIONS

ROOT = Path(__file__).parents[2]

INDEXED = r"[a-z]\w*\[[^\]]*\]"
LABEL = re.compile(
    r"^(?P<label>"
    r"\s{2,}\(\d+'?\)(?: [a-z]\w*(?=\s|$))?"  # (3) limit
    r"|\s{4}\([a-z_]+\)(?: \([a-z_]+\))?(?=\s{2})"  # (leave) (enter)
    rf"|\s*\d+\. {INDEXED}(?:, {INDEXED})*(?=[:,])|\s{{3,4}}{INDEXED}(?=:)"  # 3. limit[t]:
    r"|\s{6,}[a-z]\w*(?=\s{3,})"  # a further row of the same number
    r")(?P<rest>.*)$"
)
ANOTHER = re.compile(r"[;,]?\s{2,}(?=\(\d+'?\) [a-z]|\([a-z_]+\)\s{2})")
"""Between two rows on a line."""

GOAL = re.compile(r"^\s*(minimise|maximise)\b(?P<rest>.*)$")
DEFINED = re.compile(r"(?![A-Z]{2})[A-Za-z]\w*(?=[:,]| \(|\.?$)")
"""A plain word that is a symbol: whatever is defined begins with it."""

SECTION = re.compile(r"^(\w+)\n-+\n", re.MULTILINE)
"""The head of a formulation among others in a docstring."""

SYMBOLS = re.compile(r"^(Sets?|Parameters|Variables|Short)\b:?(?:,| *)(.*)$")


def _summary(text: str) -> str:
    return text.split("\n\n", maxsplit=1)[0].replace("\n", " ")


def _formulations() -> Iterator[tuple[str, str, str]]:
    """(name, file, text) of every formulation: whatever states variables and constraints.

    A module with one formulation has its name; of several, each is a section of the docstring under its own name.
    """
    for path in sorted((ROOT / "formulations").glob("*.py")):
        docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
        first, *others = SECTION.split(docstring)
        for name, text in [(path.stem, first), *zip(others[::2], others[1::2], strict=True)]:
            if re.search(r"^\s*(Variables|Decided|minimise|maximise)\b", text, re.MULTILINE | re.IGNORECASE):
                yield name, str(path.relative_to(ROOT)), text.strip()


def _sentence(text: str) -> str:
    """Words as they are, algebra typeset."""
    return set_algebra(text, algebra.mathml, _html)


def _html(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text, quote=False))


def _row(label: str, rest: str) -> str:
    formula, *where = [part for part in re.split(r"\s{3,}", rest.lstrip(" :,")) if part.strip()] or [""]
    name = label.strip()
    shown = (_sentence(name) if "[" in name else escape(name), _definition(formula), _sentence("; ".join(where)))
    cells = zip(("label", "formula", "where"), shown, strict=True)
    return '<div class="row">' + "".join(f'<span class="{kind}">{text}</span>' for kind, text in cells) + "</div>"


def _program(lines: list[str]) -> str:
    """Lines of objective and constraints, each with the lines that go on."""
    rows: list[list[str]] = []
    for line in (each for whole in lines for each in _rows_of(whole)):
        goal, label = GOAL.match(line), LABEL.match(line)
        if goal:
            rows.append([goal[1], goal["rest"]])
        elif label:
            rows.append([label["label"], label["rest"]])
        elif rows and line.startswith(" " * 5):
            rows[-1][1] += " " + line.strip() if rows[-1][1].strip() else line
        else:
            rows.append(["", line])
    return '<div class="program">' + "".join(_row(*row) for row in rows) + "</div>"


def _rows_of(line: str) -> list[str]:
    first, *others = ANOTHER.split(line)
    return [first, *(f"    {other}" for other in others)]


def _symbols(lines: list[str]) -> str:
    """Sets, parameters and variables as a list of definitions."""
    items: list[tuple[str, str]] = []
    head = ""
    for line in lines:
        found = SYMBOLS.match(line)
        if found:
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
    found = DEFINED.match(text)
    return f"{algebra.mathml(found[0])}{_sentence(text[found.end() :])}" if found else _sentence(text)


def _program_line(line: str) -> bool:
    return bool(GOAL.match(line) or LABEL.match(line) or line.startswith("    "))


def _body(text: str) -> Iterator[str]:
    """Paragraphs: prose, lists, symbols and programs, each set as what it is."""
    for paragraph in text.split("\n\n")[1:]:
        lines = paragraph.rstrip().split("\n")
        at = next((i for i, line in enumerate(lines) if GOAL.match(line) or LABEL.match(line)), len(lines))
        if SYMBOLS.match(lines[0]):
            yield _symbols(lines[:at])
        elif lines[0].startswith("* "):
            yield "\n".join(("-   " if line[0] == "*" else "    ") + _prose(line[2:]) for line in lines)
        else:
            at = next((i for i, line in enumerate(lines) if _program_line(line)), len(lines))
            yield from [_prose("\n".join(lines[:at]))][: at > 0]
        end = next(
            (i for i in range(at, len(lines)) if not lines[i].startswith(" ") and not _program_line(lines[i])),
            len(lines),
        )
        yield from [_program(lines[at:end])][: end > at]
        yield from [_prose("\n".join(lines[end:]))][: len(lines) > end]


def _prose(text: str) -> str:
    """Text in Markdown whose brackets and underscores mean themselves, with its algebra."""
    return set_algebra(text.replace("\n", " "), lambda found: rf"\({algebra.tex(found)}\)", _words)


def _words(text: str) -> str:
    """Names in code style stay so."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([\\*_\[\]<>{}|#])", r"\\\1", part) for part in parts)


def _page(name: str, file: str, text: str, named: list[str]) -> str:
    written = "".join(f"`topoopt export INSTANCE --to lp --set formulation={each}` writes it. " for each in named)
    parts = [
        f"---\nhide: [toc]\n---\n\n# `{name}`",
        _prose(_summary(text)),
        f"{written}Module: `{file}`.",
        *_body(text),
    ]
    return "\n\n".join(parts) + "\n"


HEAD = """# Formulations

Mathematical programs; the docstring of a module, or a section of it, is the page of each.

| formulation | |
|---|---|
"""


def pages() -> dict[str, str]:
    """A page a formulation, and their list."""
    found = sorted(_formulations())
    names = "|".join(name for name, _, _ in found)
    pages = {}
    for name, file, text in found:
        others = re.compile(rf"`(?!{name}`)({names})`")
        page = _page(name, file, text, [each for each in FORMULATIONS if each == name])
        coded = re.compile(rf"<code>(?!{name}<)({names})</code>")
        linked = coded.sub(r'<a href="\1.html"><code>\1</code></a>', others.sub(r"[`\1`](\1.md)", page))
        pages[f"reference/formulations/{name}.md"] = linked
    rows = "\n".join(f"| [`{name}`]({name}.md) | {_prose(_summary(text))} |" for name, _, text in found)
    pages["reference/formulations/index.md"] = f"{HEAD}{rows}\n"
    return pages
