"""Ways to corrupt one place of a JSON document: every number, text, list and mapping, drawn with a seed where long."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Path = tuple[str | int, ...]

FEW = 5
"""Entries of a long list that are looked into: the first, the last, and others drawn."""

LARGE = 1e3
"""Floating-point numbers up to this are changed by 1 as well, a thousandth or more."""

NUMBERS: Mapping[str, Any] = {
    "x1.5": lambda value: value * 1.5,
    "x0.5": lambda value: value * 0.5,
    "x1.001": lambda value: value * 1.001,
    "x0.999": lambda value: value * 0.999,
    "+1": lambda value: value + 1,
    "-1": lambda value: value - 1,
    "negated": lambda value: -value,
    "zero": lambda value: 0 * value,
}
"""What becomes of a number; an integer stays one."""


@dataclass(frozen=True)
class Mutation:
    """One place that is changed.

    Attributes:
        path: keys and places from the top.
        how: what is done there.
        document: the whole, changed.
    """

    path: Path
    how: str
    document: Any

    @property
    def where(self) -> str:
        """The path with dots: `transfers.0.rate_gbps`."""
        return ".".join(map(str, self.path))

    def __str__(self) -> str:
        return f"{self.where}: {self.how}"


def mutations(document: Any, enumerations: Mapping[str, tuple[str, ...]], seed: int = 0) -> Iterator[Mutation]:
    """Every place of a document with everything that is done to it; of long lists a few entries.

    Args:
        document: plain data.
        enumerations: other texts that may stand where one stands.
        seed: of the entries drawn.
    """
    rng = np.random.default_rng(seed)
    for path, value in _places(document, (), rng):
        for how, other in _changed(value, enumerations, rng):
            if path:
                yield Mutation(path, how, with_value(document, path, other))
        if isinstance(value, Mapping):
            for key in value:
                yield Mutation((*path, key), "key dropped", without_key(document, (*path, key)))


def _places(value: Any, path: Path, rng: np.random.Generator) -> Iterator[tuple[Path, Any]]:
    yield path, value
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _places(item, (*path, key), rng)
    elif isinstance(value, list):
        for place in _drawn(len(value), rng):
            yield from _places(value[place], (*path, place), rng)


def _drawn(count: int, rng: np.random.Generator) -> list[int]:
    """First, last and some others."""
    if count <= FEW:
        return list(range(count))
    middle = rng.choice(np.arange(1, count - 1), FEW - 2, replace=False)
    return sorted({0, count - 1, *middle.tolist()})


def _changed(
    value: Any, enumerations: Mapping[str, tuple[str, ...]], rng: np.random.Generator
) -> Iterator[tuple[str, Any]]:
    if isinstance(value, bool):
        yield "turned", not value
    elif isinstance(value, int | float):
        yield from _numbers(value)
    elif isinstance(value, str):
        for other in enumerations.get(value, ()):
            yield f"now {other!r}", other
        yield "another text", f"{value}x"
        yield "no text", ""
    elif isinstance(value, list):
        yield from _lists(value, rng)
    elif value is None:
        yield "now 1.0", 1.0
        yield "now 1", 1
        yield "now a text", "x"
    if value is not None:
        yield "null", None


def _numbers(value: float) -> Iterator[tuple[str, Any]]:
    seen = {value}
    for how, change in NUMBERS.items():
        if how in ("+1", "-1") and isinstance(value, float) and abs(value) > LARGE:
            continue  # within the tolerance of large figures
        other = round(change(value)) if isinstance(value, int) else change(value)
        if other not in seen:
            seen.add(other)
            yield how, other


def _lists(value: list[Any], rng: np.random.Generator) -> Iterator[tuple[str, Any]]:
    if value:
        place = int(rng.integers(len(value)))
        yield "entry dropped", value[:place] + value[place + 1 :]
        yield "entry doubled", value[: place + 1] + value[place:]
        yield "emptied", []
    if len(value) > 1:
        one, two = (int(place) for place in rng.choice(len(value), 2, replace=False))
        swapped = list(value)
        swapped[one], swapped[two] = value[two], value[one]
        if not _alike(value[one], value[two]):
            yield "two swapped", swapped


def _alike(one: Any, two: Any) -> bool:
    """Whether two values are the same, numbers within what sums of doubles may differ by."""
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(_alike, one, two))
    if isinstance(one, float) and isinstance(two, float):
        return math.isclose(one, two, rel_tol=1e-12)
    return bool(one == two)


def with_value(document: Any, path: Path, value: Any) -> Any:
    """The document with another value at a path; what is not on the way is shared."""
    if not path:
        return value
    changed = copy.copy(document)
    changed[path[0]] = with_value(document[path[0]], path[1:], value)
    return changed


def without_key(document: Any, path: Path) -> Any:
    """The document without the last key of a path."""
    changed = copy.copy(document)
    if len(path) == 1:
        del changed[path[0]]
    else:
        changed[path[0]] = without_key(document[path[0]], path[1:])
    return changed


def at(document: Any, path: Path) -> Any:
    """What stands at a path."""
    for key in path:
        document = document[key]
    return document


def scaled(document: Any, factor: float, *paths: str) -> Any:
    """All numbers at or below the paths times a factor.

    Args:
        document: plain data; what is changed is copied.
        factor: of the numbers.
        paths: with dots; `*` stands for every entry. What the document has not is left out.
    """
    for text in paths:
        for path in _expanded(document, text.split("."), ()):
            document = with_value(document, path, _times(at(document, path), factor))
    return document


def _expanded(document: Any, words: list[str], before: Path) -> list[Path]:
    """The paths that stand for one with stars; none where the document has no such place."""
    if not words:
        return [before]
    keys: list[str | int] = []
    if isinstance(document, Mapping):
        keys = [key for key in document if words[0] in ("*", key)]
    elif isinstance(document, list):
        keys = [place for place in range(len(document)) if words[0] in ("*", str(place))]
    return [path for key in keys for path in _expanded(document[key], words[1:], (*before, key))]


def _times(value: Any, factor: float) -> Any:
    if isinstance(value, list):
        return [_times(item, factor) for item in value]
    if isinstance(value, dict):
        return {key: _times(item, factor) for key, item in value.items()}
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return value * factor
