"""Whether the pages are plain English: short sentences, no refused words, terms linked, figures with their source.

`python docs/hooks/prose.py` prints what is wrong; the build of the pages refuses it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

MEAN_WORDS = 18
LONG_WORDS, LONG_SHARE = 35, 0.05

REFUSED = (
    *("by the clock", "parted by", "stands in", "stand in", "is told of", "are told of", "set anew", "sets anew"),
    *(
        "falls without end",
        "constraints that clash",
        "nothing leads into",
        "starts late",
        "must be done by one resource",
    ),
    *("reliefs?", "narrowed", "anew", "judged?", "whoever", "heat of", "dust", "hurry", "crew"),
)
"""Words of the project that the field does not use."""

UNORDERED: tuple[str, ...] = ()
"""Pages whose sentences are not in order yet."""

NO_PROSE = ("docs/promises.md",)
"""A list of tests."""

GLOSSARY = "docs/glossary.md"

MEASURED = ("docs/results", "docs/checking.md")
"""Pages of results, and of tolerances."""

OTHER = re.compile(
    r"^---\n.*?^---\n|^```.*?^```|^\$\$.*?^\$\$|<!--.*?-->|<iframe.*?</iframe>|^#.*?$|^\|.*?$|^\*\*[^*\n]+\*\*$",
    re.MULTILINE | re.DOTALL,
)
"""What is no prose: blocks, formulas, comments, headings, tables, terms of the glossary."""

BLOCK = re.compile(r"^```.*?^```|^\|.*?$", re.MULTILINE | re.DOTALL)
ITEM = re.compile(r"^(?:\s*(?:[-*]|\d+\.)\s+|:\s+)")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
CODE, FORMULA = re.compile(r"`[^`]*`"), re.compile(r"\$[^$]+\$")
END = re.compile(r"(?<=[.!?])[)\"*]*\s+(?=[A-Z\d\"(*`\[$])")
ABBREVIATED = re.compile(r"\b(?:e\.g|i\.e|et al|vs|cf|[A-Z])\.$")
TERM = re.compile(r"^\*\*(.+)\*\*$", re.MULTILINE)
FIGURE = re.compile(
    r"(?<![\w.,-])(\d[\d ,]*(?:\.\d+)?) ?(?:ms|us|s|%|GB/s|MB|kB|USD|MHz|minutes|hours|seconds)(?![\w/])"
)
RESULTS = re.compile(r"\]\([^)]*results/[\w-]*(?:\.md)?[^)]*\)")


def pages() -> list[Path]:
    """All pages that people write."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def _plain(text: str) -> str:
    return re.sub(r"[*_]{1,2}(?=\S)|(?<=\S)[*_]{1,2}", "", LINK.sub(r"\1", text))


def paragraphs(text: str) -> Iterator[str]:
    """Paragraphs and items of lists, each in one line, as Markdown."""
    for block in re.split(r"\n\s*\n", OTHER.sub("\n\n", text)):
        lines: list[str] = []
        for line in block.strip("\n").splitlines():
            if ITEM.match(line) and lines:
                yield " ".join(lines)
                lines = []
            lines.append(ITEM.sub("", line).strip())
        if any(lines):
            yield " ".join(lines)


def sentences(text: str) -> list[str]:
    """The sentences of a page; code and formulas count as one word."""
    found = []
    for paragraph in paragraphs(text):
        line = _plain(FORMULA.sub("x", CODE.sub("code", paragraph)))
        begun = ""
        for piece in END.split(line):
            begun = f"{begun} {piece}".strip()
            if not ABBREVIATED.search(begun):
                found.append(begun)
                begun = ""
        if begun:
            found.append(begun)
    return [sentence for sentence in found if words_of(sentence) > 2]


def words_of(sentence: str) -> int:
    """How many words it has."""
    return sum(bool(re.search(r"\w", word)) for word in sentence.split())


def _lengths(text: str) -> Iterator[str]:
    found = sentences(text)
    if not found:
        return
    counts = [words_of(sentence) for sentence in found]
    mean, long = sum(counts) / len(counts), [s for s, n in zip(found, counts, strict=True) if n > LONG_WORDS]
    if mean > MEAN_WORDS:
        yield f"{mean:.1f} words a sentence in the mean, at most {MEAN_WORDS}"
    if len(long) > max(1.0, LONG_SHARE * len(found)):
        yield f"{len(long)} of {len(found)} sentences have more than {LONG_WORDS} words, the first: {long[0][:90]}"


def _refused(text: str) -> Iterator[str]:
    for sentence in sentences(text):
        for word in REFUSED:
            if re.search(rf"\b{word}\b", sentence, re.IGNORECASE):
                yield f"the words {word!r}: {sentence[:90]}"


def terms() -> list[str]:
    """Terms of the glossary."""
    return TERM.findall((ROOT / GLOSSARY).read_text())


def slug(term: str) -> str:
    """The anchor of a term."""
    return re.sub(r"[^a-z0-9]+", "-", term.lower()).strip("-")


def _terms(text: str) -> Iterator[str]:
    """Terms that a page uses and never links to the glossary."""
    linked = set(re.findall(r"glossary\.md#([\w-]+)", text))
    prose = " ".join(LINK.sub(" ", FORMULA.sub(" ", CODE.sub(" ", paragraph))) for paragraph in paragraphs(text))
    for term in terms():
        if slug(term) not in linked and re.search(rf"(?<![\w-]){re.escape(term)}s?(?![\w-])", prose, re.IGNORECASE):
            yield f"the term {term!r} is not linked to the glossary"


def _figures(text: str) -> Iterator[str]:
    """Measured figures that stand neither in a block of the page nor beside a link to the results."""
    blocks = " ".join(BLOCK.findall(text))
    for paragraph in paragraphs(text):
        if not RESULTS.search(paragraph):
            for number in FIGURE.findall(CODE.sub("", paragraph)):
                if number.strip() not in blocks:
                    yield f"{number.strip()} has no block and no link to the results: {paragraph[:70]}"


def issues_of(name: str, text: str) -> list[str]:
    """What is wrong with a page."""
    if name in UNORDERED or name in NO_PROSE:
        return []
    found = [*_lengths(text), *_refused(text)]
    if name != GLOSSARY:
        found += _terms(text)
        if not name.startswith(MEASURED):
            found += _figures(text)
    return [f"{name}: {issue}" for issue in found]


def issues() -> list[str]:
    """What is wrong with all pages."""
    return [issue for page in pages() for issue in issues_of(str(page.relative_to(ROOT)), page.read_text())]


if __name__ == "__main__":
    wanted = sys.argv[1:]
    told = [issue for issue in issues() if not wanted or issue.split(":")[0] in wanted]
    print("\n".join(told) or "The pages are in order.")
    sys.exit(bool(told))
