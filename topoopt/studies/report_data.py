"""Rows of a study put into groups: statistics, comparisons and performance profiles."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from topoopt.core.comparison import ComparedBy, Scalar

Row = Mapping[str, Scalar]

ANSWERED = ("done",)
"""Outcomes of runs that gave a value."""

REJECTED = "check-failed"
FAILED = ("refused", REJECTED, "crashed", "timed-out", "out-of-memory", "interrupted", "missing")


def text_of(value: Scalar) -> str:
    """A cell for people; the same number looks the same whether whole or not."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return "" if value is None else str(value)


def number_of(row: Row, column: str) -> float | None:
    """A finite number in a cell, else None."""
    value = row.get(column)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def chosen(rows: Iterable[Row], where: Sequence[tuple[str, Scalar]]) -> list[Row]:
    """Rows whose cells have these values (4 and 4.0 are the same)."""
    return [row for row in rows if all(text_of(row.get(column)) == text_of(value) for column, value in where)]


def starred(column: str, pattern: str) -> float | None:
    """The number for which the star of a pattern stands in the name of a column, None where it stands for none."""
    head, star, tail = pattern.partition("*")
    if not star or not (column.startswith(head) and column.endswith(tail)):
        return None
    try:
        return float(column[len(head) : len(column) - len(tail)])
    except ValueError:
        return None


def in_order(values: Iterable[Scalar]) -> list[Scalar]:
    """Different values: numbers by size, then text in order of appearance."""
    kept = list({text_of(value): value for value in values}.values())
    numbers = [value for value in kept if isinstance(value, int | float) and not isinstance(value, bool)]
    return [*sorted(numbers), *(value for value in kept if value not in numbers or isinstance(value, bool))]


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that at least `part` of all values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


STATISTICS: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "min": min,
    "max": max,
    "count": lambda values: float(len(values)),
    "p99": lambda values: percentile(values, 0.99),
}


@dataclass(frozen=True)
class Ratio:
    """A run against the others of its case.

    Attributes:
        row: the run.
        group: its value of the compared column.
        ratio: value / reference - 1; None without both.
        wins: whether no other run of the case has a smaller value.
    """

    row: Row
    group: str
    ratio: float | None
    wins: bool


SAME = 1e-9
"""Relative difference below which two values tie."""


def compared(rows: Sequence[Row], factors: Sequence[str], comparison: ComparedBy) -> list[Ratio]:
    """Each run against the baseline of its case, or against the best where none is named.

    A case is a combination of all factors but the compared one. Values that the checker rejected set no reference.
    """
    cases: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        key = tuple(text_of(row.get(name)) for name in factors if name != comparison.by)
        cases.setdefault(key, []).append(row)
    result = []
    for peers in cases.values():
        values = [_value(row, comparison.value) for row in peers]
        best = min((value for value in values if value is not None), default=None)
        reference = best
        if comparison.baseline is not None:
            own = [
                value
                for row, value in zip(peers, values, strict=True)
                if text_of(row.get(comparison.by)) == comparison.baseline and value is not None
            ]
            reference = own[0] if own else None
        for row, value in zip(peers, values, strict=True):
            known = value is not None and reference is not None and reference > 0
            ratio = value / reference - 1.0 if known and value is not None and reference is not None else None
            wins = value is not None and best is not None and value <= best * (1 + SAME)
            result.append(Ratio(row, text_of(row.get(comparison.by)), ratio, wins))
    return result


def _value(row: Row, column: str) -> float | None:
    return number_of(row, column) if row.get("outcome") in ANSWERED else None


def performance_profile(ratios: Sequence[Ratio]) -> dict[str, list[tuple[float, float]]]:
    """For each group the steps (factor, part of its runs within that factor of the reference); Dolan and More 2002.

    Runs without a value count as never within any factor.
    """
    groups: dict[str, list[float | None]] = {}
    for one in ratios:
        groups.setdefault(one.group, []).append(one.ratio)
    result = {}
    for name, values in groups.items():
        known = sorted(1.0 + max(0.0, value) for value in values if value is not None)
        result[name] = [(factor, (place + 1) / len(values)) for place, factor in enumerate(known)]
    return result


def pivot(
    rows: Sequence[Row],
    by: Sequence[str],
    values: Sequence[str],
    across: str | None,
    statistic: str,
    names: Mapping[str, str] = MappingProxyType({}),
) -> tuple[list[str], list[list[Scalar]]]:
    """Headings and lines of a table: a statistic of each value over each group; None where there is nothing.

    `names` says what columns are called.
    """
    spread = in_order(row.get(across) for row in rows) if across is not None else [None]
    cells: dict[tuple[str, ...], dict[tuple[str, str], list[float]]] = {}
    shown: dict[tuple[str, ...], list[Scalar]] = {}
    for row in rows:
        key = tuple(text_of(row.get(name)) for name in by)
        shown.setdefault(key, [row.get(name) for name in by])
        place = text_of(row.get(across)) if across is not None else ""
        for value in values:
            amount = number_of(row, value)
            if amount is not None:
                cells.setdefault(key, {}).setdefault((value, place), []).append(amount)
    heads = (_heading(names.get(value, value), across, item, len(values)) for value in values for item in spread)
    sides = [names.get(name, name) for name in by]
    if across is not None and across in names:
        sides[-1] += f" / {names[across]}"
    headings = [*sides, *heads]
    lines = []
    for key, group in shown.items():
        found = cells.get(key, {})
        amounts = [found.get((value, text_of(item)), []) for value in values for item in spread]
        lines.append([*group, *(STATISTICS[statistic](amount) if amount else None for amount in amounts)])
    return headings, lines


def _heading(value: str, across: str | None, item: Scalar, number: int) -> str:
    if across is None:
        return value
    return text_of(item) if number == 1 else f"{value}, {text_of(item)}"
