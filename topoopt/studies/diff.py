"""What got better or worse between two studies of the same cases, with a paired test."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from topoopt.studies.collect import Row, collect_rows, read_plan
from topoopt.studies.report import FACTORS
from topoopt.studies.report_data import number_of, text_of

COLUMNS = ("objective", "bound", "gap", "solve_wall_s", "peak_memory_mib")
LARGER_IS_BETTER = ("bound",)
SAME = 1e-9
"""Relative difference that counts as none."""


@dataclass(frozen=True)
class Change:
    """One column over all pairs that have a value on both sides.

    Attributes:
        column: name.
        pairs: number of them.
        better, worse, same: pairs, from the first study to the second.
        median_ratio: of second over first; None where some first value is 0 or below.
        p_value: of the Wilcoxon signed-rank test (two-sided) that differences are symmetric about 0; None without
            differences. Small: the change is no accident.
    """

    column: str
    pairs: int
    better: int
    worse: int
    same: int
    median_ratio: float | None
    p_value: float | None


@dataclass(frozen=True)
class Pair:
    """A case in both studies whose value or outcome differs most, for a list."""

    case: str
    runs: tuple[str, str]
    outcomes: tuple[str, str]
    values: tuple[float | None, float | None]
    ratio: float | None


@dataclass(frozen=True)
class StudyDiff:
    """Two studies beside each other.

    Attributes:
        pairs: cases in both.
        only_first, only_second: cases in one of them.
        versions: name -> (first, second), those that differ.
        changes: by column.
        outcomes: pairs whose outcome differs.
        largest: pairs with the largest change of the objective, largest first.
    """

    pairs: int
    only_first: int
    only_second: int
    versions: dict[str, tuple[str | None, str | None]]
    changes: tuple[Change, ...]
    outcomes: tuple[Pair, ...]
    largest: tuple[Pair, ...]


def study_diff(first: str | os.PathLike[str], second: str | os.PathLike[str], *, listed: int = 20) -> StudyDiff:
    """Compare two study directories case by case; a case is an instance with all that was varied, a method and a seed.

    Raises:
        InputError: one of them is no study directory.
    """
    plans = [read_plan(directory) for directory in (first, second)]
    names = tuple(
        dict.fromkeys([*FACTORS, *(name for plan in plans for run in plan["runs"] for name in run["factors"])])
    )
    cases = [_by_case(collect_rows(directory), names) for directory in (first, second)]
    shared = [case for case in cases[0] if case in cases[1]]
    pairs = [(cases[0][case], cases[1][case]) for case in shared]
    versions = [plan["versions"] for plan in plans]
    differ = {
        name: (versions[0].get(name), versions[1].get(name))
        for name in {**versions[0], **versions[1]}
        if versions[0].get(name) != versions[1].get(name)
    }
    described = [_pair(case, names, *rows) for case, rows in zip(shared, pairs, strict=True)]
    moved = [pair for pair in described if pair.ratio is not None and abs(pair.ratio - 1) > SAME]
    moved.sort(key=lambda pair: -abs(math.log(pair.ratio or 1.0)))
    return StudyDiff(
        pairs=len(shared),
        only_first=len(cases[0]) - len(shared),
        only_second=len(cases[1]) - len(shared),
        versions=differ,
        changes=tuple(_change(column, pairs) for column in COLUMNS),
        outcomes=tuple(pair for pair in described if pair.outcomes[0] != pair.outcomes[1]),
        largest=tuple(moved[:listed]),
    )


def _by_case(rows: Sequence[Row], names: Sequence[str]) -> dict[tuple[str, ...], Row]:
    return {tuple(text_of(row.get(name)) for name in names): row for row in rows}


def _change(column: str, pairs: Sequence[tuple[Row, Row]]) -> Change:
    known = [
        (a, b)
        for one, two in pairs
        if (a := _value(one, column)) is not None and (b := _value(two, column)) is not None
    ]
    scale = [max(abs(a), abs(b)) for a, b in known]
    up = sum(b - a > SAME * size for (a, b), size in zip(known, scale, strict=True))
    down = sum(a - b > SAME * size for (a, b), size in zip(known, scale, strict=True))
    better, worse = (up, down) if column in LARGER_IS_BETTER else (down, up)
    ratios = [b / a for a, b in known if a > 0]
    median = statistics.median(ratios) if ratios and len(ratios) == len(known) else None
    return Change(column, len(known), better, worse, len(known) - up - down, median, _wilcoxon(known))


def _wilcoxon(known: Sequence[tuple[float, float]]) -> float | None:
    """p-value of the signed-rank test, zeros left out (Wilcoxon 1945); None where all pairs are the same."""
    from scipy.stats import wilcoxon

    differences = [b - a for a, b in known if abs(b - a) > SAME * max(abs(a), abs(b))]
    if not differences:
        return None
    return float(wilcoxon(differences).pvalue)


def _value(row: Row, column: str) -> float | None:
    return number_of(row, column) if row.get("outcome") == "done" else None


def _pair(case: tuple[str, ...], names: Sequence[str], one: Row, two: Row) -> Pair:
    values = (_value(one, "objective"), _value(two, "objective"))
    ratio = values[1] / values[0] if values[0] is not None and values[1] is not None and values[0] > 0 else None
    if ratio is not None and ratio <= 0:
        ratio = None
    plain = ("instance", "method")
    words = [text if name in plain else f"{name} {text}" for name, text in zip(names, case, strict=True) if text]
    runs = (str(one.get("run")), str(two.get("run")))
    return Pair(", ".join(words), runs, (str(one.get("outcome")), str(two.get("outcome"))), values, ratio)


def plain(found: StudyDiff) -> dict[str, Any]:
    """The comparison as data for JSON."""
    return asdict(found)
