"""Algebra among words: where expressions such as `sum_a use[r, a] <= peak` begin and end in a sentence of a docstring.

An expression is *sure* when it has what English has not: an index, a letter that stands alone, an underscore, a Greek
name, a size such as |ARCS|. Plain words count only as operands: in `gain = weight`, not in `with equal gain`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from algebra import GREEK

WORDS = re.compile(
    r"`[^`]*`|\b[KMGT]?(?:B|bits?|bytes?)/s\b|\w+(?:/\w+)+\.\w+|\b\d+[A-Za-z]\w*|\b\w\w+'\w*"
    r"|\b[A-Z]\. (?=[A-Z])|\b[Aa]ppendix [A-Z]\b"
)
"""What is never algebra: code, units, paths, initials of authors, years and genitives."""

NAME = re.compile(r"(?!sum\b)[A-Za-z](?:_?[A-Za-z0-9])*(?:'(?!s\b))?")
SYMBOL = re.compile(r"\w+_\w+|[A-Za-z]\d")
NUMBER = re.compile(r"\d+(?:\.\d+)?(?![A-Za-z])")
PREFIX = re.compile(r"(?:sum|max|min)_(?:\{[^{}]*\}|\w+) |sum (?=[A-Za-z]\d?\b|[A-Za-z]\w*\[|[A-Za-z]\w*_)")
POWER = re.compile(r"\^(?:\{[^{}]*\}|[+*]|-?\w+)|!(?!=)")
SIZE = re.compile(r"\|[A-Za-z]\w*\|")
MEMBER = re.compile(
    r" in (?:\{[^{}]*\}|\[[^\[\]]*, [^\[\]]*\]|\d+, \d+, \.\.|[A-Z]\w*\[[^\[\]]*\]|[A-Z]{2,}\b|\d+\.\.)"
)
RELATION = re.compile(r" (?:>=|<=|!=|=|<|>|->) |(?:>=|<=|!=|=|>)")
SIGN = re.compile(r" [-+*/] |[-+/]|\.\.")
ARTICLE = re.compile(r"[-\s](?!(?:>=|<=|!=|=|<|>|\+|and\b|in [\[{A-Z]|\())")
"""Behind `a`: a word, so that it is no symbol."""

CLOSING = {"(": ")", "[": "]"}


@dataclass(frozen=True)
class Part:
    """A stretch of algebra: where it ends, whether it is sure, whether it has a relation or sign, and is a number."""

    end: int
    sure: bool = False
    relation: bool = False
    sign: bool = False
    number: bool = False


def _closed(text: str, at: int) -> int | None:
    """Behind the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    return None


def _letter(text: str, at: int) -> bool:
    """Whether a letter that stands alone is a symbol: `a` may be the article, `A` too where a sentence begins."""
    if text[at] == "a":
        return not ARTICLE.match(text, at + 1)
    if text[at] == "A":
        return bool(re.search(r"[a-z,=|>] $|[(\[-]$", text[:at])) or not ARTICLE.match(text, at + 1)
    return text[at] != "I"


def _list(text: str) -> Part | None:
    """A text that is expressions with commas between them; a sign only where it is a single one."""
    at, sure = 0, False
    while True:
        part = _expression(text, at)
        if part is None:
            return None
        sure |= part.sure
        if part.end == len(text):
            return replace(part, sure=sure, sign=part.sign and at == 0)
        if text[part.end] != ",":
            return None
        at = part.end + 1 + (text[part.end + 1 : part.end + 2] == " ")


def _named(text: str, at: int) -> Part | None:
    """A name, with its index or its arguments."""
    found = NAME.match(text, at)
    if not found:
        return None
    base, end = found[0].rstrip("'"), found.end()
    if text[end : end + 1] == "[":
        closed = _closed(text, end)
        return Part(closed, sure=True) if closed else None
    if text[end : end + 1] == "(":
        closed = _closed(text, end)
        inside = _list(text[end + 1 : closed - 1]) if closed else None
        return Part(closed, sure=True) if closed and inside and inside.sure else None
    return Part(end, sure=bool(SYMBOL.fullmatch(base)) or base in GREEK or (len(base) == 1 and _letter(text, at)))


def _bracketed(text: str, at: int) -> Part | None:
    """(m - 1), (i, j), or [v = t]: one where it holds."""
    closed = _closed(text, at)
    inside = _list(text[at + 1 : closed - 1]) if closed else None
    if not closed or not inside or (text[at] == "[" and not inside.relation):
        return None
    return replace(inside, end=closed, relation=False)


def _factor(text: str, at: int) -> Part | None:
    size, number = SIZE.match(text, at), NUMBER.match(text, at)
    if size:
        part: Part | None = Part(size.end(), sure=True)
    elif number:
        part = Part(number.end(), number=True)
    else:
        part = _bracketed(text, at) if text[at : at + 1] in CLOSING else _named(text, at)
    power = POWER.match(text, part.end) if part else None
    return Part(power.end(), sure=True) if power else part


def _term(text: str, at: int) -> Part | None:
    """Factors side by side; a plain word stands alone or behind a sum."""
    if prefix := PREFIX.match(text, at):
        summed = _term(text, prefix.end())
        return replace(summed, sure=True, number=False) if summed else None
    part = _factor(text, at)
    while part and (part.sure or part.number or part.sign):
        start = part.end + (text[part.end : part.end + 1] == " ")
        further = _term(text, start) if PREFIX.match(text, start) else _factor(text, start)
        if not further or not further.sure or (text[start] in CLOSING and not further.sign):
            break
        part = Part(further.end, sure=True)
    return part


def _expression(text: str, at: int) -> Part | None:
    """Terms with signs and relations between them."""
    start = at + 1 if text.startswith("-", at) else at
    part = last = _term(text, start)
    while part and last:
        member = MEMBER.match(text, part.end)
        if member and (part.sure or member[0].endswith(("]", "}"))):
            end = member.end() - (2 if member[0].endswith("..") and ", " not in member[0] else 0)
            further = _term(text, end - 1) if end < member.end() else Part(end)
            part = last = Part(further.end if further else end, sure=True, relation=True, sign=part.sign)
            continue
        relation, sign = RELATION.match(text, part.end), SIGN.match(text, part.end)
        link = relation or sign
        if not link:
            break
        tuple_like = relation and text[link.end() : link.end() + 1] == "("
        further = _term(text, link.end() + (text.startswith("-", link.end()) and bool(relation)))
        if further is None and tuple_like:
            closed = _closed(text, link.end())
            further = Part(closed) if closed and re.fullmatch(r"[\w, ]+", text[link.end() + 1 : closed - 1]) else None
        if further is None or not (relation or _joined(last, further, link[0])):
            break
        inverse = link[0].strip() == "/" and last.number and not further.number
        sure, related = part.sure or further.sure or inverse, part.relation or relation is not None
        part, last = Part(further.end, sure, related, part.sign or sign is not None), further
    return part


def _joined(left: Part, right: Part, sign: str) -> bool:
    """Whether a sign is one: words with a hyphen or a slash are not; 1/cost and k - 1 are."""
    if sign.startswith(" "):
        return left.sure or right.sure or right.number or (left.number and "/" in sign)
    return (left.sure or left.number) and (right.sure or right.number or (sign == "/" and left.number))


def _taken(text: str, at: int) -> Part | None:
    """The algebra that begins here, if it does: ended by no word, and no remark in brackets."""
    if not re.match(r"[\w(\[|]", text[at]) or re.match(r"[\w'`]", text[at - 1 : at] or " "):
        return None
    part = _expression(text, at)
    if part is None or not (part.sure or (part.relation and not part.number)):
        return None
    remark = text[at] == "(" and part.end == _closed(text, at) and "," not in text[at : part.end]
    return None if remark or re.match(r"[\w\[]", text[part.end : part.end + 1]) else part


def set_algebra(text: str, algebra: Callable[[str], str], words: Callable[[str], str]) -> str:
    """A text with its algebra and its words each written in their way."""
    out, at, plain = "", 0, 0
    while at < len(text):
        kept = WORDS.match(text, at)
        part = None if kept else _taken(text, at)
        if part:
            out += words(text[plain:at]) + algebra(text[at : part.end])
            plain = part.end
        at = kept.end() if kept else part.end if part else at + 1
    return out + words(text[plain:])
