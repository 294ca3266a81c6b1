"""What a parser hands back, shared by YAML and JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
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


def values(data: object) -> Iterator[tuple[Path, object]]:
    """Everything in the data with its path, mappings and lists themselves too."""
    stack: list[tuple[Path, object]] = [((), data)]
    while stack:
        path, value = stack.pop()
        yield path, value
        if isinstance(value, dict):
            stack.extend(((*path, key), item) for key, item in value.items())
        elif isinstance(value, list):
            stack.extend(((*path, index), item) for index, item in enumerate(value))


def half_characters(data: object) -> list[Fault]:
    """Texts with half a character (a surrogate alone, which both formats can name): no file can hold them."""
    return [
        Fault(path, "half a character", value_text(text), "characters that UTF-8 can hold")
        for path, value in values(data)
        for text in (value if isinstance(value, dict) else [value])
        if isinstance(text, str) and _HALF.search(text)
    ]


def not_finite(path: Path, value: float, line: int | None = None) -> Fault:
    """NaN or infinity where a number stands."""
    text = "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return Fault(path, "not a finite number", value=text, allowed="a finite number", line=line, general=True)
