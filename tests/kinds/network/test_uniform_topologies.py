"""`auto` takes orbits of links for uniform demand, under a limit as well; other problems are refused by that method."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import topoopt
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.network import TopologyProblem

UNIFORM = TopologyProblem("case", 24, 3, LinkDirection.BIDIRECTIONAL, np.ones((24, 24)) - np.eye(24))


def test_a_limit_leaves_the_best_construction_at_least() -> None:
    """At 0 seconds there is a topology that passes the check."""
    result = topoopt.solve(UNIFORM, time_limit_s=0.0)
    assert result.method == "orbits"
    assert result.check.ok


@pytest.mark.parametrize(
    ("change", "path"),
    [({"max_hops": 6}, "max_hops"), ({"forbidden": ((0, 1),)}, "forbidden"), ({"parallel_links": False}, "parallel")],
)
def test_constraints_are_refused(change: dict[str, object], path: str) -> None:
    """By their names; `auto` takes the portfolio then."""
    with pytest.raises(InputError, match=path):
        topoopt.solve(replace(UNIFORM, **change), method="orbits")


def test_other_demand_is_refused() -> None:
    """One entry that differs is enough."""
    demand = UNIFORM.demand.copy()
    demand[3, 4] = 2.0
    with pytest.raises(InputError, match="uniform demand"):
        topoopt.solve(replace(UNIFORM, demand=demand), method="orbits")
