"""What a parser hands back, shared by YAML and JSON."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from topoopt.files.faults import Fault, Path

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


def not_finite(path: Path, value: float, line: int | None = None) -> Fault:
    """NaN or infinity where a number stands."""
    text = "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return Fault(path, "not a finite number", value=text, allowed="a finite number", line=line, general=True)
