"""Objective latency from problem to checked solution: laws, bounds, limits."""

import itertools
from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.placement.makespan_search import device_of
from solvers.placement.static_rates import pack_links
from solvers.stop import Stop
from tests.support.placed_graphs import problem, random_place, random_problems
from tests.support.settled import settled
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.placement import Link, LinkShare, Server
from topoopt.core.proofs import Argument, Bound, StopReason
from topoopt.core.result import SearchResult, SearchSettings
from topoopt.kinds.kind import Effort, SolveOptions
from topoopt.kinds.pipeline import judged, solve
from topoopt.kinds.placement.methods import LATENCY_METHODS, plan_of
from topoopt.simulate.placement import placement_arrays, simulated, uniform_rates
from topoopt.verify.checker import FULL
from topoopt.verify.placement.bounds import latency_bounds, latency_floor
from topoopt.verify.placement.check import check, fair_rates


def placed(instance, place):
    """The solution of a placement of the groups at uniform rates, as the simulator schedules it."""
    a = placement_arrays(instance)
    best = simulated(a, device_of(a, place), uniform_rates(a))
    rates = best.rates / 125_000
    if instance.objective.rates == "optimised":  # only pairs that send something are given a rate
        server = [device.server for device in instance.devices]
        sends = np.zeros_like(rates, dtype=bool)
        for way in best.transfers:
            tensor = instance.tensors[way.tensor]
            sends[server[best.device[tensor.producer]], server[way.target]] |= tensor.size_bytes > 0
        rates = np.where(sends, rates, 0.0)
    _, shares = pack_links(instance.servers, rates)
    static = instance.objective.sharing == "static"
    plan = plan_of(instance, best, shares if static else ())
    search = SearchResult(plan=plan, stopped_by=StopReason.CONVERGED, method="test")
    return judged(instance, search, Effort(SearchSettings(), Stop()))


@settings(max_examples=120)
@given(random_problems(), st.integers(0, 1000))
def test_the_checker_accepts_whatever_the_simulator_does(instance, seed):
    """The independent replay agrees on durations, order, sharing and makespan, for all kinds of sharing."""
    groups = len(placement_arrays(instance).group_ptr) - 1
    solution = placed(instance, random_place(groups, len(instance.devices), seed))
    assert solution.check.violations == ()
    assert latency_floor(instance).value <= solution.objective.value * (1 + 1e-12)


@settings(max_examples=40)
@given(random_problems(), st.integers(0, 1000))
def test_figures_are_what_the_simulator_did(instance, seed):
    """Ends and transfers that follow from the decisions are those of the simulated schedule, bit for bit."""
    a = placement_arrays(instance)
    place = random_place(len(a.group_ptr) - 1, len(instance.devices), seed)
    solution = placed(instance, place)
    done = simulated(a, device_of(a, place), uniform_rates(a))
    assert solution.figures.end_ms.tolist() == done.end_ms.tolist()
    assert solution.objective.value == done.makespan_ms
    if instance.objective.sharing != "static":  # there rates are sums over links
        assert solution.figures.transfers == done.transfers
    assert [row[:2] for row in map(astuple, solution.figures.transfers)] == [
        row[:2] for row in map(astuple, done.transfers)
    ]


def changed(solution, **fields):
    """The same with other decisions."""
    return replace(solution, plan=replace(solution.plan, **fields))


@pytest.mark.parametrize("sharing", ["fair", "fifo", "static", "none"])
def test_the_checker_rejects_corrupted_schedules(sharing):
    """A start too early or too late, a transfer too early, too few starts, a wrong makespan: each is rejected."""
    instance = problem(
        [2, 1, 1, 1], [(0, [1], 2), (0, [2], 1), (1, [3], 1), (2, [3], 1)], [1, 1, 1], sharing=sharing, rates="uniform"
    )
    good = placed(instance, np.array([0, 1, 2, 0]))
    assert good.check.ok
    plan = good.plan
    start = plan.start_ms.copy()
    start[3] -= 0.5
    bad = [
        changed(good, start_ms=start),
        changed(good, start_ms=plan.start_ms + 0.1),
        changed(good, start_ms=plan.start_ms[1:]),
        changed(good, start_ms=None),
        changed(good, send_ms=np.append(plan.send_ms, 1.0)),
        replace(good, objective=replace(good.objective, value=good.objective.value - 0.1)),
        replace(good, bound=Bound(good.objective.value * 2, Argument.OPERATOR_CHAIN)),
    ]
    if sharing in ("fifo", "static"):
        assert len(plan.send_ms) == 4
        bad += [changed(good, send_ms=plan.send_ms[1:]), changed(good, send_ms=plan.send_ms - 0.5)]
        bad += [changed(good, send_ms=plan.send_ms + 0.5)]
    else:
        assert not len(plan.send_ms)
    if sharing == "static":
        shares = plan.link_shares
        bad += [
            changed(good, link_shares=tuple(replace(share, gbps=2 * share.gbps) for share in shares)),
            changed(good, link_shares=()),
            changed(good, link_shares=shares[1:]),
        ]
    else:
        bad.append(changed(good, link_shares=(LinkShare(0, 1, 0, 0.5),)))
    for solution in bad:
        assert check(instance, solution, FULL).violations


@pytest.mark.parametrize("sharing", ["fifo", "static"])
def test_the_checker_sees_transfers_that_do_not_wait_for_each_other(sharing):
    """Both tensors of one queue sent at once, at full speed."""
    instance = problem([0, 1, 1], [(0, [1], 2), (0, [2], 2)], [1, 2], sharing=sharing, rates="uniform")
    good = placed(instance, np.array([0, 1, 2]))
    forged = changed(good, start_ms=np.array([0.0, 2.0, 2.0]), send_ms=np.zeros(2))
    forged = replace(forged, objective=replace(good.objective, value=3.0))
    assert good.objective.value == 5
    assert any(violation.code == "contention" for violation in check(instance, forged, FULL).violations)


def test_fair_rates_of_the_checker():
    """Three flows, two out of one server and two into another: 1/2, 1/2, then 1/2 is left for the third."""
    assert fair_rates([(0, 1), (0, 2), (3, 2)], [1.0, 1.0, 1.0, 1.0]) == pytest.approx([0.5, 0.5, 0.5])
    assert fair_rates([(0, 1), (0, 2), (3, 2)], [1.0, 1.0, 4.0, 4.0]) == pytest.approx([0.5, 0.5, 3.5])


def best_of_all(instance):
    """Least makespan over all placements, for all orders of priority (brute force)."""
    a = placement_arrays(instance)
    n, groups = len(a.needs), len(a.group_ptr) - 1
    best = np.inf
    for place in itertools.product(range(len(instance.devices)), repeat=groups):
        device = device_of(a, np.array(place))
        for order in itertools.permutations(range(n)):
            best = min(best, simulated(a, device, uniform_rates(a), np.array(order, dtype=float)).makespan_ms)
    return best


@settings(max_examples=12)
@given(random_problems(most=5, sharing=("none", "fifo", "fair")))
def test_bound_below_brute_force_below_heuristics(instance):
    """On up to five operators: floor <= proven bound <= best of all orders <= methods, and exact meets it."""
    best = best_of_all(instance)
    assert latency_floor(instance).value <= best * (1 + 1e-9)
    exact = solve(instance, SolveOptions(method="exact", seed=1))
    assert exact.check.ok
    assert exact.bound.value <= best * (1 + 1e-9)
    assert exact.objective.value <= best * (1 + 1e-9)
    listed = solve(instance, SolveOptions(method="list"))
    assert listed.check.ok
    assert listed.objective.value >= exact.bound.value * (1 - 1e-9)


def test_memory_forces_cuts_on_a_chain():
    """Four operators of one unit of memory, two a device: one cut, at the cheapest place."""
    chain = problem(
        [1, 1, 1, 1], [(0, [1], 5), (1, [2], 3), (2, [3], 1)], [1, 1], sharing="none", memory=[1] * 4, room=3
    )
    bounds = latency_bounds(chain)
    assert bounds[Argument.OPERATOR_CHAIN] == 4
    assert bounds[Argument.MEMORY_CUTS] == 5
    solution = solve(chain)
    assert solution.objective.value == 5
    assert settled(solution)


def test_refusals_name_what_does_not_fit():
    """An operator larger than every device, too little memory in all, and a method that does not exist."""
    with pytest.raises(InfeasibleError, match="op1"):
        solve(problem([1, 1], [], [1, 1], memory=[1, 9], room=5))
    with pytest.raises(InfeasibleError, match="devices have 10"):
        solve(problem([1] * 3, [], [1, 1], memory=[4] * 3, room=5))
    with pytest.raises(InfeasibleError):  # 3 x 4 into 2 x 7: enough bytes, but not whole operators
        solve(problem([1] * 3, [], [1, 1], memory=[4] * 3, room=7))
    with pytest.raises(InputError, match="unknown method"):
        solve(problem([1], [], [1]), SolveOptions(method="magic"))


@pytest.mark.parametrize("method", [name for name in LATENCY_METHODS if name != "auto"])
def test_every_method_obeys_a_time_limit_of_nothing(method):
    """With no time at all there is still a placement, checked, and its bound."""
    sharing = "static" if method == "joint" else "fair"
    instance = problem([1, 2, 3], [(0, [1, 2], 1)], [1, 1], sharing=sharing)
    solution = solve(instance, SolveOptions(method=method, time_limit_s=0.0))
    assert solution.check.ok
    assert solution.method == method
    assert 0 < solution.bound.value <= solution.objective.value


@pytest.mark.parametrize("sharing", ["fair", "static"])
def test_same_seed_same_solution(sharing):
    """Without a time limit a run is repeated exactly."""
    instance = problem(
        [2, 3, 4, 3, 2], [(0, [1, 2, 3], 2), (1, [4], 1), (2, [4], 1), (3, [4], 1)], [1, 1, 1], sharing=sharing
    )
    one, other = (solve(instance, SolveOptions(method="anneal", seed=5)) for _ in range(2))
    assert one.plan.device.tolist() == other.plan.device.tolist()
    assert one.plan.start_ms.tolist() == other.plan.start_ms.tolist()
    assert one.objective == other.objective


@pytest.mark.parametrize("seed", range(3))
def test_windows_alone_reach_the_optimum_of_a_small_graph(seed):
    """Without a move of annealing, CP-SAT on windows gets from the first placement to what is proven best."""
    rng = np.random.default_rng(seed)
    tensors = [(i, sorted({i + 1, int(rng.integers(i + 1, 8))}), float(rng.integers(0, 3))) for i in range(7)]
    instance = problem([float(t) for t in rng.integers(1, 6, 8)], tensors, [1, 1, 1], sharing="none")
    best = solve(instance, SolveOptions(method="exact"))
    assert settled(best)
    found = solve(instance, SolveOptions(method="windows", budget=0))
    assert found.check.ok
    assert found.objective.value == pytest.approx(best.objective.value)


def test_static_rates_are_chosen_no_worse_than_uniform():
    """Unequal tensors out of one server: uniform rates take 8 ms for the large one, the best split 5."""
    labels = ["a", "b", "c", "d"]
    tensors = [(0, [1], 4), (0, [2], 1)]
    for rates, expected in (("uniform", 8.0), ("optimised", 5.0)):
        instance = problem(
            [0, 20, 20, 20],
            tensors,
            [1, 1, 1],
            sharing="static",
            rates=rates,
            memory=[9, 9, 9, 0],
            room=10,
            labels=labels,
        )
        solution = solve(replace(instance, operators=instance.operators[:3]), SolveOptions(method="anneal"))
        assert solution.check.ok
        assert solution.objective.value == pytest.approx(20 + expected, rel=1e-6)


def test_rates_are_packed_onto_two_links_as_in_the_worked_example():
    """Specification d.2: A->B 14, A->C 6, B->A 3, B->C 9, C->A 2, C->B 1 over two links of 10: one pair is split."""
    servers = tuple(Server(name, (Link("eth1", 10.0), Link("eth2", 10.0))) for name in "ABC")
    rate = np.array([[0, 14, 6], [3, 0, 9], [2, 1, 0.0]])
    packed, shares = pack_links(servers, rate)
    assert packed == pytest.approx(rate)
    assert len(shares) == 7
    for end in ("source", "target"):
        load = np.zeros((3, 2))
        for share in shares:
            load[getattr(share, end), share.link] += share.gbps
        assert (load <= 10 * (1 + 1e-9)).all()


def test_rates_that_no_plane_can_carry_are_scaled_down():
    """Links of different planes: A has 10 + 0.1, B 0.1 + 10, so that only 0.2 fit between them."""
    servers = (Server("A", (Link("x", 10.0), Link("y", 0.1))), Server("B", (Link("x", 0.1), Link("y", 10.0))))
    packed, shares = pack_links(servers, np.array([[0, 10.0], [0, 0]]))
    assert packed[0, 1] == pytest.approx(0.2)
    assert sum(share.gbps for share in shares) == pytest.approx(0.2)
