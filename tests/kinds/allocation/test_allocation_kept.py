"""What an allocation has when its time is up: fair as far as it came, and within every limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from solvers.allocation import AllocationResult, first_rates, network_of, shares_of, water_fill
from solvers.stop import Stop
from tests.support.allocation_cases import along, line, network, problem
from topoopt.core.allocation import AllocationGoal, AllocationProblem, Surplus
from topoopt.core.allocation_solution import AllocationSolution
from topoopt.core.verdict import Status, StopReason
from topoopt.kinds.kind import Effort
from topoopt.kinds.pipeline import judged


@dataclass
class StopAfter(Stop):
    """Says that time is up once it was asked so many times."""

    asked: int = 0
    most: int = 1

    def reason(self) -> StopReason | None:
        """Counts."""
        self.asked += 1
        return StopReason.TIME if self.asked > self.most else None


# 0 -> 1 carries a and b, 50 each; c is alone on 1 -> 2 and d, at most 70, on 2 -> 3.
FOUR = problem(
    line(4),
    [
        along(line(4), "a", (0, 1)),
        along(line(4), "b", (0, 1)),
        along(line(4), "c", (1, 2)),
        along(line(4), "d", (2, 3), max_gbps=70.0),
    ],
)


def rates_of(case: AllocationProblem, found: AllocationResult) -> AllocationSolution:
    """The solution that rates amount to, accepted by the checker."""
    solution: AllocationSolution = judged(case, found, Effort(case.search, Stop()))
    assert solution.check.ok, solution.check.violations
    return solution


@pytest.mark.parametrize(("levels", "expected"), [(1, [50, 50, 50, 50]), (2, [50, 50, 70, 70]), (9, [50, 50, 100, 70])])
def test_filling_stops_at_a_level(levels: int, expected: list[float]) -> None:
    """All that still rise have what the last full thing gave; nothing is called optimal before the end."""
    offered: list[Callable[[], AllocationResult]] = []
    found = water_fill(network_of(FOUR), shares_of(FOUR), StopAfter(most=levels + 1), offered.append)
    for each in (found, offered[min(levels, 3) - 1]()):
        solution = rates_of(FOUR, each)
        assert [row.rate_gbps for row in solution.transfers] == pytest.approx(expected)
        assert solution.bound.value == pytest.approx(50.0), "the least rate of any allocation"
    if levels < 3:
        assert found.stopped_by is StopReason.TIME


def test_a_largest_total_has_rates_at_once() -> None:
    """Fair rates on the first routes are within the guarantees, and bounded by what routes give a transfer alone."""
    both_ways = network(3, [(0, 1), (0, 2), (2, 1)])
    transfers = [
        along(both_ways, "a", (0, 1), (0, 2, 1), weight=2.0),
        along(both_ways, "b", (0, 1), min_gbps=20.0),
    ]
    case = problem(both_ways, transfers, goal=AllocationGoal.MIN_GUARANTEE, surplus=Surplus.SUM)
    found = first_rates(network_of(case), shares_of(case), Stop())
    assert found is not None
    solution = rates_of(case, found)
    # Above the 20 of b, the 80 that are left of the first link are shared two to one.
    assert [row.rate_gbps for row in solution.transfers] == pytest.approx([160 / 3, 20 + 80 / 3])
    assert solution.bound.value == pytest.approx(2.0 * 200 + 100), "both of the routes of a, and the one of b, alone"
    assert solution.status is not Status.OPTIMAL


def test_no_rates_where_the_first_routes_do_not_carry_the_guarantees() -> None:
    """150 do not fit on the first route, though on both together."""
    both_ways = network(3, [(0, 1), (0, 2), (2, 1)])
    case = problem(both_ways, [along(both_ways, "a", (0, 1), (0, 2, 1), min_gbps=150.0)])
    assert first_rates(network_of(case), shares_of(case), Stop()) is None
