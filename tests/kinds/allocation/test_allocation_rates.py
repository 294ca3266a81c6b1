"""Rates of transfers, held against closed forms, textbook examples and plain programs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from solvers.allocation import network_of, raise_levels, shares_of
from solvers.stop import Stop
from tests.support.allocation_cases import along, line, network, plain_filling, plain_levels, problem, shortest
from topoopt.core.allocation import AllocationGoal, AllocationProblem, Surplus, Transfer
from topoopt.core.errors import InfeasibleError, InputError, LimitError
from topoopt.core.search_settings import SearchSettings
from topoopt.core.verdict import Status, StopReason
from topoopt.kinds.allocation.methods import ALLOCATION_METHODS
from topoopt.kinds.kind import Effort, SolveOptions
from topoopt.kinds.pipeline import judged, solve
from topoopt.simulate.engine.max_min import max_min_rates
from topoopt.workloads.transfer_routes import mixed_route, path_route

METHODS = list(ALLOCATION_METHODS)


def rates(case: AllocationProblem, method: str = "auto") -> list[float]:
    """Rates of a solution that is optimal and passes its check."""
    solution = solve(case, SolveOptions(method=method))
    assert solution.check.ok, solution.check.violations
    assert solution.status is Status.OPTIMAL
    return solution.rates_gbps.tolist()


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
    case = replace(parking_lot(3, weight=3.0), goal=AllocationGoal.WEIGHTED)
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
    goal = {"goal": AllocationGoal.MIN_GUARANTEE}
    case = problem(net, [shortest(net, "a", 0, 1, min_gbps=60.0), shortest(net, "b", 0, 1, weight=3.0)], **goal)
    assert rates(case, method) == pytest.approx([70.0, 30.0])
    full = problem(net, [shortest(net, "a", 0, 1, min_gbps=60.0), shortest(net, "b", 0, 1, min_gbps=40.0)], **goal)
    assert rates(full, method) == pytest.approx([60.0, 40.0])


@pytest.mark.parametrize("method", ["auto", "lp", "lp-glop"])
def test_largest_sum(method: str) -> None:
    """The long transfer keeps its guarantee only: each of its units costs one on every link."""
    case = replace(parking_lot(3, min_gbps=10.0), goal=AllocationGoal.MIN_GUARANTEE, surplus=Surplus.SUM)
    solution = solve(case, SolveOptions(method=method))
    assert solution.rates_gbps.tolist() == pytest.approx([10.0, 90.0, 90.0, 90.0])
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
        goal=AllocationGoal.COMPLETION_TIME,
    )
    solution = solve(case, SolveOptions(method=method))
    assert solution.completion_time_s == pytest.approx(3.2)
    assert solution.rates_gbps.tolist() == pytest.approx([25.0, 75.0, 25.0])
    assert [row.completion_time_s for row in solution.transfers] == pytest.approx([3.2, 3.2, 0.32])
    assert solution.bound.value == pytest.approx(3.2)


@pytest.mark.parametrize("method", ["auto", "lp", "lp-glop"])
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
    rows = {(row.server, row.destination): row for row in solution.servers}
    assert set(rows) == {(0, 1), (0, 2), (1, 2)}
    assert rows[0, 2].next_hops == ((1, pytest.approx(50.0)),)
    assert (rows[1, 2].own_gbps, rows[1, 2].forwarded_gbps) == pytest.approx((50.0, 50.0))
    assert rows[1, 2].rate_gbps == pytest.approx(100.0)


def test_clashing_guarantees_are_named() -> None:
    """The three that clash and their link are named, the one that has nothing to do with it is not."""
    net = line(3)
    wanted = [
        shortest(net, "a", 0, 1, min_gbps=40.0),
        shortest(net, "b", 0, 1, min_gbps=40.0),
        shortest(net, "c", 0, 2, min_gbps=40.0),
        shortest(net, "d", 1, 2, min_gbps=50.0),
    ]
    case = problem(net, wanted, goal=AllocationGoal.MIN_GUARANTEE)
    with pytest.raises(InfeasibleError) as caught:
        solve(case)
    message = str(caught.value)
    assert all(name in message for name in ("a (40", "b (40", "c (40", "link 0 -> 1 (100"))
    assert "d (50" not in message
    assert "link 1 -> 2" not in message


def test_clashing_guarantees_over_all_choices() -> None:
    """Two paths of 100 carry no 250; both links are named."""
    net = network(4, [(0, 1), (1, 3), (0, 2), (2, 3)])
    wanted = along(net, "free", (0, 1, 3), (0, 2, 3), min_gbps=250.0)
    with pytest.raises(InfeasibleError, match="the guaranteed rate of free"):
        solve(problem(net, [wanted], goal=AllocationGoal.MIN_GUARANTEE))


def test_what_methods_do_not_cover() -> None:
    """Water-filling refuses a choice of routes and sums; names of methods are checked; no time finds nothing."""
    net = network(3, [(0, 1), (1, 2), (0, 2)])
    choice = problem(net, [along(net, "a", (0, 2), (0, 1, 2))])
    with pytest.raises(InputError, match="needs one route"):
        solve(choice, SolveOptions(method="water-filling"))
    total = problem(net, [along(net, "a", (0, 2))], goal=AllocationGoal.MIN_GUARANTEE, surplus=Surplus.SUM)
    with pytest.raises(InputError, match="largest sum"):
        solve(total, SolveOptions(method="water-filling"))
    with pytest.raises(InputError, match="unknown method"):
        solve(choice, SolveOptions(method="best"))
    for case in (choice, total, problem(net, [along(net, "a", (0, 2))])):
        with pytest.raises(LimitError):
            solve(case, SolveOptions(time_limit_s=0.0))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"weight": 2.0}, "plays no part"),
        ({"min_gbps": 2.0}, "plays no part"),
        ({"weight": float("nan")}, "out of range"),
        ({"max_gbps": -1.0}, "out of range"),
        ({"size_bytes": -5.0}, "out of range"),
        ({"destination": 0}, "itself"),
        ({"source": 7}, "unknown server"),
        ({"routes": ()}, "no route"),
    ],
)
def test_unsound_problems_are_refused(changes: dict[str, object], words: str) -> None:
    """The library says what is wrong with a problem built by hand."""
    net = line(3)
    transfer = replace(shortest(net, "a", 0, 2), **changes)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=words):
        solve(problem(net, [transfer]))


def test_problems_without_sense_are_refused() -> None:
    """No transfers, a path to somewhere else, links without capacity, two transfers of one name."""
    net = line(3)
    good = shortest(net, "a", 0, 2)
    with pytest.raises(InputError, match="no transfer"):
        solve(problem(net, []))
    with pytest.raises(InputError, match="does not lead"):
        solve(problem(net, [replace(good, destination=1)]))
    with pytest.raises(InputError, match="capacity"):
        solve(problem(net, [good], 0.0))
    with pytest.raises(InputError, match="another transfer"):
        solve(problem(net, [good, good]))
    with pytest.raises(InputError, match="no path"):
        shortest(net, "back", 2, 0)


@st.composite
def cases(draw: st.DrawFn, *, goal: AllocationGoal | None = None) -> AllocationProblem:
    """A one-way ring with chords, and transfers of one route each: a shortest one, or the way round the ring."""
    n = draw(st.integers(2, 7))
    pairs = [(i, (i + 1) % n) for i in range(n)]
    ends = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda pair: pair[0] != pair[1])
    pairs += draw(st.lists(ends, max_size=2 * n))
    net = network(n, pairs)
    goal = goal or draw(st.sampled_from(list(AllocationGoal)))
    few = st.sampled_from([0.5, 1.0, 2.0, 7.0])
    weighted = goal in (AllocationGoal.WEIGHTED, AllocationGoal.MIN_GUARANTEE)
    timed = goal is AllocationGoal.COMPLETION_TIME
    transfers = []
    for k, (i, j) in enumerate(draw(st.lists(ends, min_size=1, max_size=12))):
        fields = {
            "weight": draw(few) if weighted else 1.0,
            "min_gbps": draw(st.sampled_from([0.0, 0.5])) if goal is AllocationGoal.MIN_GUARANTEE else 0.0,
            "max_gbps": draw(st.sampled_from([float("inf"), 3.0, 20.0])),
        }
        size = draw(st.sampled_from([1e6, 3e9, 5e10])) if timed else None
        way = tuple((i + step) % n for step in range((j - i) % n + 1))
        made = along(net, f"t{k}", way, **fields) if draw(st.booleans()) else shortest(net, f"t{k}", i, j, **fields)
        transfers.append(replace(made, size_bytes=size))
    limits = st.lists(st.sampled_from([float("inf"), 9.0, 40.0]), min_size=n, max_size=n)
    return replace(
        problem(net, transfers, goal=goal),
        capacity_gbps=np.array(
            draw(st.lists(st.sampled_from([10.0, 25.0, 100.0]), min_size=len(net.arcs), max_size=len(net.arcs)))
        ),
        egress_gbps=np.array(draw(limits)),
    )


@given(case=cases())
@settings(max_examples=250, deadline=None, derandomize=True)
def test_water_filling_and_programs_agree(case: AllocationProblem) -> None:
    """On hundreds of random problems both give the rates of exact rational filling, proven and accepted."""
    expected = [float(rate) for rate in plain_filling(case)]
    assert rates(case, "water-filling") == pytest.approx(expected, rel=1e-9)
    assert rates(case, "lp") == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(case=cases(goal=AllocationGoal.MAX_MIN))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_agrees_with_the_simulator(case: AllocationProblem) -> None:
    """Whole paths without limits get the rates of the fluid simulator's filling."""
    whole = [t for t in case.transfers if (t.routes[0].fraction == 1).all()]
    if not whole:
        return
    plain = replace(case, transfers=tuple(replace(t, max_gbps=float("inf")) for t in whole), egress_gbps=None)
    lengths = [len(t.routes[0].arcs) for t in plain.transfers]
    high = np.cumsum(lengths)
    found = np.zeros(len(lengths))
    links = np.concatenate([t.routes[0].arcs for t in plain.transfers]).astype(np.int32)
    max_min_rates(np.arange(len(lengths)), high - lengths, high, links, plain.capacity_gbps, found)
    assert rates(plain) == pytest.approx(found.tolist(), rel=1e-9)


@st.composite
def choices(draw: st.DrawFn) -> AllocationProblem:
    """Transfers on a two-way ring that may go either way round."""
    n = draw(st.integers(3, 6))
    net = network(n, [(i, (i + step) % n) for i in range(n) for step in (1, -1)])
    goal = draw(st.sampled_from([AllocationGoal.WEIGHTED, AllocationGoal.MIN_GUARANTEE]))
    ends = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda pair: pair[0] != pair[1])
    transfers = []
    for k, (i, j) in enumerate(draw(st.lists(ends, min_size=1, max_size=7))):
        up = tuple((i + step) % n for step in range((j - i) % n + 1))
        down = tuple((i - step) % n for step in range((i - j) % n + 1))
        ways = draw(st.sampled_from([(up, down), (up,), (down,)]))
        transfers.append(
            along(
                net,
                f"t{k}",
                *ways,
                weight=draw(st.sampled_from([1.0, 2.0, 5.0])),
                min_gbps=draw(st.sampled_from([0.0, 1.0])) if goal is AllocationGoal.MIN_GUARANTEE else 0.0,
                max_gbps=draw(st.sampled_from([float("inf"), 12.0])),
            )
        )
    capacity = draw(st.lists(st.sampled_from([10.0, 30.0]), min_size=len(net.arcs), max_size=len(net.arcs)))
    return replace(problem(net, transfers, goal=goal), capacity_gbps=np.array(capacity))


@given(case=choices())
@settings(max_examples=80, deadline=None, derandomize=True)
def test_choice_agrees_with_solving_for_each_transfer(case: AllocationProblem) -> None:
    """With routes to choose, both backends find the rates of the plain method that tries to raise every transfer."""
    expected = plain_levels(case)
    assert rates(case, "lp") == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert rates(case, "lp-glop") == pytest.approx(expected, rel=1e-5, abs=1e-5)


@given(case=choices())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_largest_sum_agrees_with_scipy(case: AllocationProblem) -> None:
    """The weighted sum is that of a dense program, and never below that of the fair rates."""
    fair = replace(case, goal=AllocationGoal.MIN_GUARANTEE, surplus=Surplus.MAX_MIN)
    total = replace(fair, surplus=Surplus.SUM)
    solution = solve(total)
    assert (solution.status, solution.check.ok) == (Status.OPTIMAL, True)
    weights = np.array([t.weight for t in case.transfers])
    routes = [(t, route) for t, transfer in enumerate(case.transfers) for route in transfer.routes]
    use = np.zeros((len(case.capacity_gbps), len(routes)))
    of = np.zeros((len(weights), len(routes)))
    for k, (t, route) in enumerate(routes):
        use[route.arcs, k] = route.fraction
        of[t, k] = 1
    most = np.array([min(t.max_gbps, 1e6) for t in case.transfers])
    least = np.array([t.min_gbps for t in case.transfers])
    found = linprog(-weights @ of, np.vstack((use, of, -of)), np.concatenate((case.capacity_gbps, most, -least)))
    assert solution.objective.value == pytest.approx(-found.fun, rel=1e-6)
    assert solution.objective.value >= float(weights @ np.array(rates(fair))) * (1 - 1e-6)


@given(case=choices(), factor=st.sampled_from([0.5, 4.0]))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_scaling_and_order(case: AllocationProblem, factor: float) -> None:
    """Rates scale with the capacities and limits, and the order of the transfers plays no part."""
    once = rates(case)
    scaled = tuple(
        replace(t, min_gbps=t.min_gbps * factor, max_gbps=t.max_gbps * factor) for t in reversed(case.transfers)
    )
    again = rates(replace(case, capacity_gbps=case.capacity_gbps * factor, transfers=scaled))
    assert again[::-1] == pytest.approx([factor * rate for rate in once], rel=1e-5, abs=1e-5)


def test_very_different_sizes() -> None:
    """A transfer of one byte beside one of 10^18 bytes still gets its exact part of the time."""
    net = line(2)
    case = problem(
        net,
        [shortest(net, "huge", 0, 1, size_bytes=1e18), shortest(net, "tiny", 0, 1, size_bytes=1.0)],
        goal=AllocationGoal.COMPLETION_TIME,
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
    result = raise_levels(network_of(case), shares_of(case), "highs-simplex", Impatient())
    solution = judged(case, result, Effort(SearchSettings(), Stop()))
    assert (solution.status, solution.stopped_by) == (Status.FEASIBLE, StopReason.TIME)
    assert solution.check.ok, solution.check.violations
    assert solution.objective.value == pytest.approx(100 / 3)
    assert solution.bound.value == pytest.approx(100 / 3)
