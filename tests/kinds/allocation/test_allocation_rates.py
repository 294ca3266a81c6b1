"""Rates of transfers, held against closed forms and textbook examples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from formulations.bandwidth_allocation import network_of, shares_of
from solvers.allocation import raise_levels
from solvers.stop import Stop
from tests.support.allocation_cases import along, line, network, problem, rates, shortest
from topoopt.core.allocation import AllocationProblem, Route, Transfer
from topoopt.core.proofs import Status, StopReason
from topoopt.core.result import SearchSettings
from topoopt.kinds.allocation.methods import ALLOCATION_METHODS
from topoopt.kinds.kind import Effort, SolveOptions
from topoopt.kinds.pipeline import judged, solve
from topoopt.workloads.transfer_routes import mixed_route, path_route

METHODS = list(ALLOCATION_METHODS)


def parking_lot(links: int, **long: float) -> AllocationProblem:
    """One transfer over all links of a line, and one over each."""
    net = line(links + 1)
    each = [shortest(net, f"link {i}", i, i + 1) for i in range(links)]
    return problem(net, [shortest(net, "long", 0, links, **long), *each])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("links", [1, 2, 5])
def test_parking_lot(method: str, links: int) -> None:
    """Everybody gets half, however many links the long transfer crosses."""
    assert rates(parking_lot(links), method) == pytest.approx([50.0] * (links + 1))


@pytest.mark.parametrize("method", METHODS)
def test_weighted_parking_lot(method: str) -> None:
    """Weight 3 against 1: three quarters for the long one."""
    case = replace(parking_lot(3, weight=3.0), goal="weighted")
    assert rates(case, method) == pytest.approx([75.0, 25.0, 25.0, 25.0])


@pytest.mark.parametrize("method", METHODS)
def test_textbook_example(method: str) -> None:
    """After Bertsekas and Gallager, section 6.5.2: 1/3 fills 2 -> 3, then 2/3 fills 3 -> 5, then 1 fills 4 -> 5."""
    net = network(6, [(1, 3), (2, 3), (3, 5), (4, 5)])
    ways = [(1, 3, 5), (2, 3), (2, 3, 5), (4, 5), (2, 3)]
    case = problem(net, [along(net, f"session {k}", way) for k, way in enumerate(ways, start=1)], 1.0)
    assert rates(case, method) == pytest.approx([2 / 3, 1 / 3, 1 / 3, 1.0, 1 / 3])


@pytest.mark.parametrize("method", METHODS)
def test_second_bottleneck(method: str) -> None:
    """Links of 10 and 100: what the narrow link keeps from the long transfer goes to the wide link's own."""
    net = line(3)
    case = replace(
        problem(net, [shortest(net, "long", 0, 2), shortest(net, "a", 0, 1), shortest(net, "b", 1, 2)]),
        capacity_gbps=np.array([10.0, 100.0]),
    )
    assert rates(case, method) == pytest.approx([5.0, 5.0, 95.0])


@pytest.mark.parametrize("method", METHODS)
def test_limits_of_transfers_and_servers(method: str) -> None:
    """A limit of 10 leaves the rest to the others; a server may send 30 and receive 20."""
    net = network(3, [(0, 1), (0, 2), (1, 2)])
    case = problem(
        net,
        [shortest(net, "a", 0, 1, max_gbps=10.0), shortest(net, "b", 0, 2), shortest(net, "c", 1, 2)],
        egress_gbps=np.array([30.0, np.inf, np.inf]),
        ingress_gbps=np.array([np.inf, np.inf, 40.0]),
    )
    assert rates(case, method) == pytest.approx([10.0, 20.0, 20.0])
    wider = replace(case, ingress_gbps=np.array([np.inf, np.inf, 70.0]))
    assert rates(wider, method) == pytest.approx([10.0, 20.0, 50.0])


@pytest.mark.parametrize("method", METHODS)
def test_guarantees_come_first(method: str) -> None:
    """60 guaranteed of 100: the 40 left are shared 1 to 3 by weight."""
    net = line(2)
    goal = {"goal": "min-guarantee"}
    case = problem(net, [shortest(net, "a", 0, 1, min_gbps=60.0), shortest(net, "b", 0, 1, weight=3.0)], **goal)
    assert rates(case, method) == pytest.approx([70.0, 30.0])
    full = problem(net, [shortest(net, "a", 0, 1, min_gbps=60.0), shortest(net, "b", 0, 1, min_gbps=40.0)], **goal)
    assert rates(full, method) == pytest.approx([60.0, 40.0])


@pytest.mark.parametrize("method", ["auto", "lp"])
def test_largest_sum(method: str) -> None:
    """The long transfer keeps its guarantee only: each of its units costs one on every link."""
    case = replace(parking_lot(3, min_gbps=10.0), goal="min-guarantee", surplus="sum")
    solution = solve(case, SolveOptions(method=method))
    assert solution.figures.rates_gbps.tolist() == pytest.approx([10.0, 90.0, 90.0, 90.0])
    assert solution.objective.value == pytest.approx(280.0)
    assert (solution.status, solution.check.ok) == (Status.OPTIMAL, True)


@pytest.mark.parametrize("method", METHODS)
def test_completion_time(method: str) -> None:
    """10 and 30 GB over 100 Gbit/s take 3.2 s; a transfer of 1 GB beside the second has the 25 left on its link."""
    net = line(3)
    case = problem(
        net,
        [
            shortest(net, "a", 0, 1, size_bytes=10e9),
            shortest(net, "b", 0, 2, size_bytes=30e9),
            shortest(net, "c", 1, 2, size_bytes=1e9),
        ],
        goal="completion-time",
    )
    solution = solve(case, SolveOptions(method=method))
    assert solution.figures.completion_time_s == pytest.approx(3.2)
    assert solution.figures.rates_gbps.tolist() == pytest.approx([25.0, 75.0, 25.0])
    assert list(solution.figures.completion_times_s) == pytest.approx([3.2, 3.2, 0.32])
    assert solution.bound.value == pytest.approx(3.2)


@pytest.mark.parametrize("method", ["auto", "lp"])
def test_choice_of_paths(method: str) -> None:
    """Two disjoint paths of 100: alone 200; with a competitor on one of them both get 100."""
    net = network(4, [(0, 1), (1, 3), (0, 2), (2, 3)])
    free = along(net, "free", (0, 1, 3), (0, 2, 3))
    assert rates(problem(net, [free]), method) == pytest.approx([200.0])
    assert rates(problem(net, [free, along(net, "bound", (0, 1))]), method) == pytest.approx([100.0, 100.0])
    # three on the first half: 200 shared by four that all can reach 50
    rivals = [along(net, f"r{k}", (0, 1)) for k in range(3)]
    assert rates(problem(net, [free, *rivals]), method) == pytest.approx([100.0, 100 / 3, 100 / 3, 100 / 3])


def test_given_shares() -> None:
    """A transfer split 3 to 1 over two links of 100 can have 100 / 0.75."""
    net = network(3, [(0, 1), (1, 2), (0, 2)])
    route = mixed_route([(path_route(net, (0, 2)), 0.75), (path_route(net, (0, 1, 2)), 0.25)])
    assert rates(problem(net, [Transfer("a", 0, 2, (route,))])) == pytest.approx([400 / 3])


def test_even_split_over_parallel_links() -> None:
    """ECMP counts links one by one: two links to 1 and one to 2 make a third each, so 300 in all."""
    net = network(4, [(0, 1), (0, 1), (0, 2), (1, 3), (1, 3), (2, 3)])
    transfer = shortest(net, "a", 0, 3)
    used = {
        tuple(net.arcs[arc].tolist()): part
        for arc, part in zip(transfer.routes[0].arcs, transfer.routes[0].fraction, strict=True)
    }
    assert used == pytest.approx({(0, 1): 2 / 3, (0, 2): 1 / 3, (1, 3): 2 / 3, (2, 3): 1 / 3})
    assert rates(problem(net, [transfer])) == pytest.approx([300.0])


def test_rates_at_servers() -> None:
    """Every server on the way of a transfer has its row, with own and forwarded traffic apart."""
    solution = solve(parking_lot(2))
    rows = {(server, destination): hops for server, destination, hops in solution.figures.server_rates}
    assert set(rows) == {(0, 1), (0, 2), (1, 2)}
    assert rows[0, 2] == ((1, pytest.approx(50.0)),)
    assert solution.figures.local_gbps[1, 2] == pytest.approx(50.0)
    assert sum(rate for _, rate in rows[1, 2]) == pytest.approx(100.0)
    assert solution.figures.link_gbps == pytest.approx([100.0, 100.0])


def test_very_different_sizes() -> None:
    """A transfer of one byte beside one of 10^18 bytes still gets its exact part of the time."""
    net = line(2)
    case = problem(
        net,
        [shortest(net, "huge", 0, 1, size_bytes=1e18), shortest(net, "tiny", 0, 1, size_bytes=1.0)],
        goal="completion-time",
    )
    got = rates(case, "water-filling")
    assert got[1] / got[0] == pytest.approx(1e-18, rel=1e-9)
    assert sum(got) == pytest.approx(100.0)


class Impatient(Stop):
    """Stops when it was asked often enough."""

    asked = 0

    def reason(self) -> StopReason | None:
        """None once, then time is up."""
        self.asked += 1
        return StopReason.TIME if self.asked > 1 else None


def test_time_limit_keeps_what_was_proven() -> None:
    """After one level of two the rates are feasible, checked, and not called optimal; the objective is proven."""
    net = network(4, [(0, 1), (1, 3), (0, 2), (2, 3)])
    case = problem(net, [along(net, "free", (0, 1, 3), (0, 2, 3)), *(along(net, f"r{k}", (0, 1)) for k in range(3))])
    result = raise_levels(network_of(case), shares_of(case), Impatient())
    solution = judged(case, result, Effort(SearchSettings(), Stop()))
    assert (solution.status, solution.stopped_by) == (Status.FEASIBLE, StopReason.TIME)
    assert solution.check.ok, solution.check.violations
    assert solution.objective.value == pytest.approx(100 / 3)
    assert solution.bound.value == pytest.approx(100 / 3)


@pytest.mark.parametrize("method", ["auto", "lp"])
@pytest.mark.parametrize("part", [1e-8, 1e-10, 1e-12])
@pytest.mark.parametrize("capacity", [1e-3, 100.0, 1e6])
def test_tiny_parts_of_a_transfer(part: float, capacity: float, method: str) -> None:
    """A transfer that sends next to nothing over two full links has half of the third link, and takes nothing of them.

    b has the first link, c two ways of which one is the second link alone; e shares that. The level after the first
    is a program whose held rates are a solution but for rounding.
    """
    net = network(4, [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)])
    fractions = np.array([part, 1.0 - part, part, 1.0 - part])
    split = Transfer("a", 0, 3, (Route(np.array([0, 1, 3, 4]), fractions),))
    others = [along(net, "b", (0, 1)), along(net, "c", (1, 3), (1, 2, 3)), along(net, "d", (2, 3))]
    case = problem(net, [split, *others, along(net, "e", (1, 3))], capacity)
    solution = solve(case, SolveOptions(method=method))
    assert (solution.status, solution.check.violations) == (Status.OPTIMAL, ())
    half = capacity / 2  # a and d share (2, 3), c and e (1, 3); b has (0, 1)
    assert solution.figures.rates_gbps == pytest.approx([half, capacity, half, half, half], rel=1e-6)
