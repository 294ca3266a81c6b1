"""The largest shipped job: every figure of its solution is recomputed, within minutes."""

from __future__ import annotations

import time

import pytest

from tests.support.paths import INSTANCES
from topoopt.kinds.files import read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.verify.checker import CheckDepth
from topoopt.verify.job.check import CHECKER
from topoopt.verify.job.simulation import FIGURES


@pytest.mark.heavy
def test_dlrm_128_is_simulated_again_within_five_minutes() -> None:
    """In a solve most of it is left out, and said to be; afterwards nothing but the history of the search is."""
    instance = read_instance(INSTANCES / "dlrm-128.yaml")
    solution = solve(instance, SolveOptions(budget=10, seed=0))
    assert solution.check.ok
    assert FIGURES in [each.figure for each in solution.check.not_recomputed]
    told: list[tuple[int, int | None]] = []
    begun = time.perf_counter()
    findings = CHECKER(instance, solution, CheckDepth(tell=lambda what, done, total: told.append((done, total))))
    assert time.perf_counter() - begun < 300
    assert findings.violations == ()
    assert findings.not_recomputed == ()
    assert told
    assert all(0 <= done <= (total or 0) for done, total in told)
    quick = CHECKER(instance, solution, CheckDepth(events=0))
    assert quick.ok
    assert [left.figure for left in quick.not_recomputed] == [FIGURES]
