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
TOKEN = re.compile(
    r"(?P<sum>\b(?:sum|max|min)_(?:\{|\w+))|(?P<name>[A-Za-z](?:_?[A-Za-z0-9])*'?)(?P<index>\[)?|(?P<sign>>=|<=|!=|->|\.\.+|\*|%)"
    r"|(?P<power>\^\{?[\w-]+\}?)|(?P<brace>[{}])|(?P<space>\s+)|(?P<other>.)"
)


def _name(name: str) -> str:
    base, _, below = name.partition("_")
    prime = "'" if name.endswith("'") else ""
    base = base.rstrip("'")
    if base in GREEK:
        shown = f"\\{base} "
    elif len(base) == 1:
        shown = base
    else:
        shown = rf"\mathrm{{{base}}}"
        if below:
            return rf"\mathrm{{{name.rstrip(chr(39))}}}".replace("_", r"\_") + prime
    return f"{shown}_{{{below.rstrip(chr(39))}}}{prime}" if below else f"{shown}{prime}"


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
                yield rf"{_name(name)}_{{{tex(text[at:end])}}} " if "_" not in name else _indexed(name, text[at:end])
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
            yield r"\; " if len(token["space"]) > 1 else r"\, "
        else:
            yield {"&": r"\&", "#": r"\#", "_": r"\_", "'": "'", "|": "|", "^": ""}.get(token["other"], token["other"])


def _indexed(name: str, index: str) -> str:
    shown = r"\mathrm{" + name.replace("_", r"\_") + "}"
    return f"{shown}_{{{tex(index)}}} "


def mathml(text: str) -> str:
    """An expression for a page."""
    return convert(tex(text.strip()))
