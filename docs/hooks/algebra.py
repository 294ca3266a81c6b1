"""Algebra as it stands in docstrings, such as `sum_{a into v} flow[s, a] <= c[a] theta`, as MathML."""

from __future__ import annotations

import re
from collections.abc import Iterator

from latex2mathml.converter import convert

GREEK = {
    *("alpha", "beta", "gamma", "delta", "epsilon", "theta", "lambda", "mu", "omega", "pi", "rho", "sigma", "tau"),
    *("phi", "Theta", "Omega", "Sigma", "Phi"),
}
SIGNS = {">=": r"\ge ", "<=": r"\le ", "!=": r"\ne ", "->": r"\to ", "..": r"\dots ", "*": r"\cdot ", "%": r"\%"}
WORDS = {"in": r"\in ", "min": r"\min ", "max": r"\max ", "log": r"\log ", "infinite": r"\text{ infinite}"}
SIGN = r"(?:[<>!]?=|[-+*/<>]|->|in)"
BEHIND_SIGN, BEFORE_SIGN = re.compile(rf"(?:^|\s){SIGN}$"), re.compile(rf"{SIGN}(?:$|\s)")
"""Signs that stand apart from what is beside them without our help."""

TOKEN = re.compile(
    r"(?P<sum>\b(?:sum|max|min)_(?:\{|\w+))|(?P<name>[A-Za-z](?:_?[A-Za-z0-9])*'?)(?P<index>\[)?|(?P<sign>>=|<=|!=|->|\.\.+|\*|%)"
    r"|(?P<power>\^\{?(?:[\w-]+|\+)\}?)|(?P<brace>[{}])|(?P<space>\s+)|(?P<other>.)"
)


def _name(name: str) -> str:
    """x_ij and dist_l with what stands below, next to whole words, which stand upright."""
    prime = "'" if name.endswith("'") else ""
    base, _, below = name.rstrip("'").partition("_")
    if len(base) > 1 and len(below) > 1:
        return r"\mathrm{" + f"{base}_{below}".replace("_", r"\_") + "}" + prime
    if re.fullmatch(r"[A-Za-z]\d", base) and not below:
        base, below = base
    shown = rf"\{base} " if base in GREEK else base if len(base) == 1 else rf"\mathrm{{{base}}}"
    lower = rf"\mathrm{{{below}}}" if len(below) > 2 else below
    return f"{shown}_{{{lower}}}{prime}" if below else f"{shown}{prime}"


def _close(text: str, at: int) -> int:
    """Where the bracket before `at` is closed."""
    depth = 1
    while depth:
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(text[at], 0)
        at += 1
    return at - 1


def _prose(text: str) -> str:
    return r"\text{ " + text.replace("_", r"\_") + " }"


PLAIN = {
    *("into", "out", "of", "for", "all", "every", "and", "or", "with", "the", "to", "behind", "before", "not"),
    *("known", "so", "far", "given"),
}
"""Words inside an expression that are English, not names."""


def tex(text: str) -> str:
    """An expression in the notation of LaTeX."""
    return "".join(_pieces(text))


def _pieces(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        token = TOKEN.match(text, at)
        assert token is not None
        at = token.end()
        if token["sum"]:
            word, _, below = token["sum"].partition("_")
            if below == "{":
                end = _close(text, at)
                inside, at = tex(text[at:end]), end + 1
            else:
                inside = ", ".join(below) if below.islower() else below
            yield rf"\{word}_{{{inside}}} "
        elif token["name"]:
            name = token["name"]
            if token["index"]:
                end = _close(text, at)
                plain = re.fullmatch(r"[A-Za-z]+'?", name)
                yield rf"{_name(name)}_{{{tex(text[at:end])}}} " if plain else _indexed(name, text[at:end])
                at = end + 1
            elif name == "sum":
                yield r"\sum "
            elif name in PLAIN:
                yield _prose(name)
            else:
                yield WORDS.get(name) or f"{_name(name)} "
        elif token["sign"]:
            yield SIGNS.get(token["sign"], r"\dots ")
        elif token["power"]:
            yield "^{" + token["power"].strip("^{}") + "}"
        elif token["brace"]:
            yield "\\" + token["brace"]
        elif token["space"]:
            tight = BEHIND_SIGN.search(text[: token.start()]) or BEFORE_SIGN.match(text[at:])
            yield "" if tight else r"\; " if re.match("[A-Za-z]{2}", text[at:]) else r"\, "
        else:
            yield {"&": r"\&", "#": r"\#", "_": r"\_", "'": "'", "|": "|", "^": "", "<": r"\lt ", ">": r"\gt "}.get(
                token["other"], token["other"]
            )


def _indexed(name: str, index: str) -> str:
    shown = r"\mathrm{" + name.replace("_", r"\_") + "}"
    return f"{shown}_{{{tex(index)}}} "


def mathml(text: str) -> str:
    """An expression for a page."""
    return convert(tex(text.strip()))
