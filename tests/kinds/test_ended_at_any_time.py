"""A search that ends or is left at any moment has nothing, or what passes the check."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from solvers.stop import Stop
from tests.cli.test_cli_kept import CASES
from tests.support.cli_cases import write
from tests.support.sized_instances import shipped
from topoopt.core.errors import LimitError
from topoopt.core.proofs import StopReason
from topoopt.kinds import kind_of
from topoopt.kinds.files import read_instance
from topoopt.kinds.kind import Effort
from topoopt.kinds.pipeline import judged, solve

SEARCHES = {**CASES, "language model on two networks": shipped("llm-training/rails-32.yaml")}

SLOW = ("job", "designs")
"""Left at fewer moments."""


@dataclass
class CountedStop(Stop):
    """Time is up when so many have asked whether it is; shared by all stops that are made of one."""

    asked: Iterator[int] = field(default_factory=itertools.count)
    last: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def reason(self) -> StopReason | None:
        """No clock is looked at."""
        if next(self.asked) >= self.last:
            self.over.set()
        return StopReason.TIME if self.over.is_set() else None

    def remaining_s(self) -> float | None:
        """Plenty, then nothing."""
        return 0.0 if self.over.is_set() else 3600.0


def read(folder: Path, name: str) -> Any:
    """One of them, from a file."""
    document: dict[str, Any] = {"schema_version": 1, "name": "case", **SEARCHES[name]}
    return read_instance(write(folder, document))


@pytest.mark.parametrize("name", SEARCHES)
def test_what_is_kept_passes_the_check(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long before the limit: the first, second, fourth and so on of what is offered."""
    problem = read(tmp_path, name)
    original, offered, judgements = Effort.keep, 0, []

    def keep(effort: Effort, found: Any, rough: bool = False) -> None:
        nonlocal offered
        original(effort, found, rough)
        offered += 1
        if offered & (offered - 1) == 0:
            judgements.append(judged(problem, found(), replace(effort, timing=None)).check)

    monkeypatch.setattr(Effort, "keep", keep)
    solve(problem)
    assert judgements
    assert all(one.ok for one in judgements), [one.violations for one in judgements if not one.ok]


@pytest.mark.parametrize("name", SEARCHES)
def test_what_a_cut_search_returns_passes_the_check(tmp_path: Path, name: str) -> None:
    """Cut at the first, second, third, fifth and so on of the places that look at the clock."""
    problem = read(tmp_path, name)
    solver = kind_of(problem).solver()
    found = 0
    asks = [4, 40] if name in SLOW else [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144]
    for ask in asks:
        effort = Effort(problem.search, CountedStop(last=ask))
        try:
            choice = solver.methods(problem)[problem.search.method].run(problem, effort)
        except LimitError:
            continue
        found += 1
        check = judged(problem, choice, replace(effort, stop=Stop())).check
        assert check.ok, (ask, check.violations)
    assert found
