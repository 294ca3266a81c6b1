"""Which cases are slow: a list in the repository, the choice of `--cases`, and the list made again by `--write-times`.

`tests/slow_cases.tsv` has a line for each case that takes longer than `QUICK_S` with all that it sets up: seconds and
name, the longest first. A case without a line is quick. A slice takes every `of`-th slow case, so slices take about the
same time and together all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

LIST = Path(__file__).parents[1] / "slow_cases.tsv"

QUICK_S = 0.5
"""The longest that a quick case takes, on the machine where the list was made."""


def read_times(path: Path = LIST) -> dict[str, float]:
    """Seconds of the slow cases by their names, the longest first; nothing where there is no list."""
    rows = (line.split("\t", 1) for line in path.read_text(encoding="utf-8").splitlines()) if path.is_file() else ()
    return {name: float(seconds) for seconds, name in rows}


def write_times(seconds: Mapping[str, float], path: Path = LIST) -> None:
    """Write the list with the slow ones among the cases that were measured; lines of other cases stay."""
    times = {**read_times(path), **seconds}
    slow = sorted((-round(s, 1), name) for name, s in times.items() if s > QUICK_S)
    path.write_text("".join(f"{-s}\t{name}\n" for s, name in slow), encoding="utf-8")


def chosen(names: Sequence[str], slow: Mapping[str, float], choice: str) -> set[str]:
    """The cases of a choice: `quick`, `slow`, or `slow:K/N`, the K-th of N slices of the slow ones (K from 0).

    Raises
    ------
    ValueError
        The choice is none of these.
    """
    if choice == "quick":
        return set(names) - set(slow)
    kind, _, part = ("slow:0/1" if choice == "slow" else choice).partition(":")
    k, _, n = part.partition("/")
    if kind != "slow" or not (k.isdigit() and n.isdigit() and int(k) < int(n)):
        raise ValueError(f"--cases {choice!r}; allowed: quick, slow, slow:K/N with K below N")
    present = set(names)
    return set([name for name in slow if name in present][int(k) :: int(n)])


class CaseTimes:
    """Adds up what each case took, in the process that hears of all of them."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the time of setting up, of the case and of clearing away."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the list where all cases ran."""
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            write_times(self.seconds)
