"""Pairs that nothing is sent between need no path: a routing topology may leave them apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from topoopt.core.cluster import LinkDirection
from topoopt.core.network import RoutingProblem
from topoopt.core.topology import Topology
from topoopt.kinds import kind_of
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve

CHAIN = Topology.of_arcs(3, [(0, 1), (1, 2)], degree=1, links=LinkDirection.UNIDIRECTIONAL, origin="chain")
"""No server reaches one before it."""

DEMAND = np.array([[0.0, 1.0, 2.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
"""Link 0 to 1 carries 1 + 2, link 1 to 2 carries 2 + 3."""

CASES: dict[str, dict[str, Any]] = {
    "free": {},
    "hops": {"max_hops": 2},
    "common": {"demand": np.array([DEMAND, DEMAND / 2])},
    "adapted": {"demand": np.array([DEMAND, DEMAND / 2]), "routing": "adapted"},
}

ROUGH = {"pdlp": 1e-3, "frank-wolfe": 1e-2, "softmin": 1e-2}
"""Methods that end at a gap."""


FREE_ONLY = ("frank-wolfe", "softmin")
"""Methods that know no limits of hops."""


@pytest.mark.parametrize("case", CASES)
def test_every_method_routes_what_there_is(case: str) -> None:
    """There is one routing, whose fullest link carries 5; the checker accepts it."""
    problem = RoutingProblem("case", CHAIN, **{"demand": DEMAND, **CASES[case]})
    ran = 0
    for method, line in kind_of(problem).methods(problem).items():
        if line.covers(problem) is not None or method == "orbits" or (method in FREE_ONLY and case != "free"):
            continue
        found = solve(problem, SolveOptions(method=method, seed=0))
        assert found.check.ok, (method, found.check.violations)
        assert found.objective.value == pytest.approx(5.0, rel=ROUGH.get(method, 1e-6)), method
        ran += 1
    assert ran >= 2
