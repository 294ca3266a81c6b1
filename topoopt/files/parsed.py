"""What a parser hands back, shared by YAML and JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from topoopt.files.faults import Fault, Path, value_text

MAX_DEPTH = 64
"""Mappings and lists inside each other."""

MAX_INTEGER_DIGITS = 400


@dataclass(frozen=True, eq=False)
class Parsed:
    """Data with its lines; `broken`: parsing stopped at the last fault, the data are worth nothing."""

    data: object
    locate: Callable[[frozenset[Path]], dict[Path, int]]
    faults: tuple[Fault, ...] = ()
    broken: bool = False


def broken(message: str, line: int | None, *, allowed: str | None = None, path: Path = ()) -> Parsed:
    """A document that cannot be parsed, and why."""
    return Parsed(None, lambda _: {}, (Fault(path, message, allowed=allowed, line=line),), broken=True)


_HALF = re.compile("[\ud800-\udfff]")


def half_characters(data: object) -> list[Fault]:
    """Texts with half a character (a surrogate alone, which both formats can name): no file can hold them."""
    faults = []
    stack: list[tuple[Path, object]] = [((), data)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, dict):
            stack.extend(((*path, key), item) for key, item in value.items())
            texts = [(path, key) for key in value]
        elif isinstance(value, list):
            stack.extend(((*path, index), item) for index, item in enumerate(value))
            texts = []
        else:
            texts = [(path, value)] if isinstance(value, str) else []
        faults += [
            Fault(where, "half a character", value_text(text), "characters that UTF-8 can hold")
            for where, text in texts
            if _HALF.search(text)
        ]
    return faults


def not_finite(path: Path, value: float, line: int | None = None) -> Fault:
    """NaN or infinity where a number stands."""
    text = "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return Fault(path, "not a finite number", value=text, allowed="a finite number", line=line, general=True)
