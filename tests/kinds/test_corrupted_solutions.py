"""Any place of a valid solution file is corrupted, alone or with all that depends on it: reader or checker objects."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.corruption import accepted, accepted_together, case_of
from tests.support.valid_solutions import CASES
from topoopt.kinds import KINDS
from topoopt.kinds.pipeline import solve


@cache
def solved(case: str) -> tuple[Any, Any]:
    """A problem with its solution."""
    problem = CASES[case].problem()
    return problem, solve(problem, CASES[case].options)


def test_every_kind_is_corrupted() -> None:
    """A kind without a case here is an error."""
    assert {CASES[case].problem().kind for case in CASES} == set(KINDS)


@pytest.mark.parametrize("case", CASES)
def test_any_place_corrupted_is_rejected(case: str, tmp_path: Path) -> None:
    """Numbers, names, flags, rows, keys: each by itself."""
    known = CASES[case]
    assert accepted(case_of(*solved(case), tmp_path), known.harmless, seed=3, most=known.most) == []


@pytest.mark.heavy
@pytest.mark.parametrize("case", CASES)
def test_every_place_corrupted_is_rejected(case: str, tmp_path: Path) -> None:
    """All changes, but of long lists."""
    assert accepted(case_of(*solved(case), tmp_path), CASES[case].harmless, seed=4) == []


@pytest.mark.parametrize("case", CASES)
def test_figures_corrupted_together_are_rejected(case: str, tmp_path: Path) -> None:
    """A figure with those that depend on it: what they rest on gives them away."""
    assert accepted_together(case_of(*solved(case), tmp_path), CASES[case].together) == []
