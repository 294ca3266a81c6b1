"""Degree 1: a server has one peer, so that demand between pairs can be met, and any other cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import topoopt
from tests.support.network_files import TOPOLOGY, load, refused, with_


def matching(servers: int, *pairs: tuple[int, int, float]) -> list[list[float]]:
    """A demand matrix of some entries."""
    demand = np.zeros((servers, servers))
    for tail, head, amount in pairs:
        demand[tail, head] = amount
    return [list(map(float, row)) for row in demand]


def case(servers: int, *pairs: tuple[int, int, float], **changes: Any) -> dict[str, Any]:
    return with_(TOPOLOGY, servers=servers, degree=1, demand={"matrix": matching(servers, *pairs)}, **changes)


@pytest.mark.parametrize(
    ("document", "theta"),
    [
        (case(3, (0, 1, 1.0)), 1.0),
        (case(3, (0, 2, 2.0), (2, 0, 0.5)), 2.0),
        (case(12, (0, 5, 2.0), (5, 0, 1.0), (3, 4, 3.0), (7, 11, 1.0)), 3.0),  # more than exact methods take
        (case(12, (0, 5, 2.0), kept=[[1, 2], [0, 3]], max_changed=1), 2.0),
        (case(3, (0, 1, 1.0), links="unidirectional"), 1.0),
    ],
)
def test_demand_between_pairs_is_met(tmp_path: Path, document: dict[str, Any], theta: float) -> None:
    """The largest entry goes over one link, which no other links can better; the checker accepts it."""
    problem = load(tmp_path, document)
    solution = topoopt.solve(problem)
    assert solution.check.ok, solution.check.violations
    assert solution.objective.value == pytest.approx(theta)
    assert solution.status.value == "optimal"
    assert topoopt.check(problem, solution).ok


def test_several_demands_between_the_same_pairs(tmp_path: Path) -> None:
    demands = [{"matrix": matching(4, (0, 1, 1.0))}, {"matrix": matching(4, (1, 0, 2.0), (2, 3, 3.0))}]
    solution = topoopt.solve(load(tmp_path, {**case(4, (0, 1, 1.0)), "demand": None, "demands": demands}))
    assert solution.check.ok
    assert solution.objective.value == pytest.approx(3.0)


@pytest.mark.parametrize(
    "document",
    [case(3, (0, 1, 1.0), (1, 2, 1.0)), case(3, (0, 1, 1.0), (2, 1, 1.0)), case(4, (0, 1, 1.0), max_hops=2)],
)
def test_any_other_is_refused(tmp_path: Path, document: dict[str, Any]) -> None:
    assert "one link a server cannot connect more than two servers" in refused(tmp_path, document)
