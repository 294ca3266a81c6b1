"""Linear programs that a time limit cuts off: what the solver then has may break any row, and is not believed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from formulations.hierarchical_bandwidth import plain_program
from solvers import hierarchy as cuts
from solvers.backends import SOLVERS, LpResult
from solvers.hierarchy import minimise, starting_point
from solvers.stop import Stop
from tests.support.paths import INSTANCES
from topoopt.core.proofs import Status, StopReason
from topoopt.kinds.files import read_instance


@pytest.mark.parametrize("cut", [1, 2, 3])
@pytest.mark.parametrize("part", [0.0, 0.5, 2.0])
def test_a_cut_program_breaks_no_row(cut: int, part: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cheapest network for a time; one of its programs ends at a multiple of its optimum, outside the budget."""
    problem = read_instance(INSTANCES / "hierarchical" / "gpt3-3d.yaml")
    plain = plain_program(problem.designs[0], problem)
    fastest = minimise(plain, starting_point(plain), Stop())
    limited = replace(plain, time_limit_ns=1.2 * fastest.objective)
    optimum = minimise(limited, fastest.bandwidth, Stop(), near=True)
    asked = 0

    def cut_off(*given: Any) -> LpResult:
        nonlocal asked
        asked += 1
        found: LpResult = SOLVERS["highs-simplex"](*given)
        if asked < cut:
            return found
        assert found.raw_x is not None
        point = part * found.raw_x
        return replace(found, status=Status.UNKNOWN, stopped_by=StopReason.TIME, x=None, raw_x=point)

    monkeypatch.setattr(cuts, "SOLVERS", {"highs-simplex": cut_off})
    found = minimise(limited, fastest.bandwidth, Stop(), near=True)
    assert asked == cut
    assert limited.time_of(found.bandwidth) <= 1.2 * fastest.objective * (1 + 1e-9)
    held, room = limited.rows @ found.bandwidth, 1e-9 * np.abs(limited.rows) @ found.bandwidth
    assert (held <= limited.row_upper + room).all()
    assert (held >= limited.row_lower - room).all()
    assert found.bound <= optimum.objective <= found.objective * (1 + 1e-9)
