"""Parallel switches: values by hand and by all sets of permutations, bounds that hold, bad input."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import topoopt
from solvers.parallel_circuits import _exchange, coloured, greedy, partitions, spread, timed
from solvers.parallel_proofs import Prices
from solvers.stop import Stop
from tests.support.cli_cases import run
from tests.support.paths import INSTANCES
from topoopt.core.arrays import Floats
from topoopt.core.proofs import Status
from topoopt.core.regional_circuits import ParallelCircuitsProblem
from topoopt.core.result import Result
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.verify.parallel_circuits import CHECKER, dearest_permutations

SHIFTS = [[0, 6, 3, 1], [1, 0, 6, 3], [3, 1, 0, 6], [6, 3, 1, 0]]
TREE = [[0, 9, 8, 5], [9, 0, 9, 0], [4, 6, 0, 3], [6, 8, 5, 0]]


def problem(demand: Any, switches: int = 1, delay: float = 0.5, *, first_pays: bool = True) -> ParallelCircuitsProblem:
    """A problem in microseconds."""
    matrix: Floats = np.array(demand, dtype=np.float64)
    return ParallelCircuitsProblem("case", len(matrix), switches, delay, first_pays, matrix)


def drawn(servers: int, seed: int, largest: int = 9) -> Floats:
    """Whole numbers without a diagonal."""
    demand: Floats = np.random.default_rng(seed).integers(0, largest + 1, (servers, servers)).astype(np.float64)
    np.fill_diagonal(demand, 0.0)
    return demand


def solved(case: ParallelCircuitsProblem) -> Result[Any, Any]:
    """Solved and checked."""
    result: Result[Any, Any] = solve(case, SolveOptions())
    assert result.check.ok, result.check.violations
    return result


def least(demand: Floats, delay: float, switches: int) -> float:
    """All choices of permutations of three servers on every switch, durations of each by a linear program."""
    served = {p: {(i, j) for i, j in enumerate(p) if demand[i, j]} for p in itertools.permutations(range(len(demand)))}
    permutations = [p for p in served if served[p] and not any(served[p] < other for other in served.values())]
    cells = [(i, j) for i, j in np.argwhere(demand > 0).tolist()]
    subsets = [
        set(c) for k in range(len(permutations) + 1) for c in itertools.combinations(range(len(permutations)), k)
    ]
    best = np.inf
    for chosen in itertools.combinations_with_replacement(subsets, switches):
        used = [(switch, permutations[k]) for switch, subset in enumerate(chosen) for k in subset]
        if not all(any(p[i] == j for _, p in used) for i, j in cells):
            continue
        covers = [[-float(p[i] == j) for _, p in used] + [0.0] for i, j in cells]
        loads = [[float(h == switch) for h, _ in used] + [-1.0] for switch in range(switches)]
        right = [-demand[i, j] for i, j in cells] + [-delay * len(subset) for subset in chosen]
        result = linprog([0.0] * len(used) + [1.0], A_ub=covers + loads, b_ub=right)
        if result.success:
            best = min(best, float(result.fun))
    return best


@pytest.mark.parametrize(
    ("switches", "delay", "makespan"), [(1, 1.0, 13.0), (2, 1.0, 7.0), (1, 0.1, 10.3), (2, 0.1, 5.2)]
)
def test_three_shifts(switches: int, delay: float, makespan: float) -> None:
    """By hand: 12 pairs need three permutations; of two switches one has 6 alone, or four pieces share the work."""
    result = solved(problem(SHIFTS, switches, delay))
    assert result.status is Status.OPTIMAL
    assert result.objective.value == pytest.approx(makespan)
    free = solved(problem(SHIFTS, switches, delay, first_pays=False))
    assert free.status is Status.OPTIMAL
    assert free.objective.value == pytest.approx(makespan - delay)


@pytest.mark.parametrize("switches", [1, 2, 3])
def test_two_servers(switches: int) -> None:
    """One permutation, cut into equal pieces: the larger demand over the switches, and a delay."""
    result = solved(problem([[0, 8], [5, 0]], switches, 0.25))
    assert result.status is Status.OPTIMAL
    assert result.objective.value == pytest.approx(8 / switches + 0.25)


@pytest.mark.parametrize(("seed", "switches"), [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)])
def test_against_all_choices(seed: int, switches: int) -> None:
    """Three servers: the optimum of all sets of permutations, and every bound below it."""
    demand = drawn(3, seed)
    case = problem(demand, switches, 0.7)
    optimum = least(demand, 0.7, switches)
    result = solved(case)
    assert result.objective.value == pytest.approx(optimum, rel=1e-6)
    assert result.status is Status.OPTIMAL
    for derive in CHECKER.arguments(case).values():
        assert derive(case, result.certificates) <= optimum * (1 + 1e-9)


def test_against_all_choices_of_two_switches() -> None:
    """The same on two switches, with permutations that serve three servers in three steps."""
    demand = np.array([[0.0, 5.0, 2.0], [1.0, 0.0, 4.0], [6.0, 1.0, 0.0]])
    demand[0, 2] = 0.0
    assert solved(problem(demand, 2, 0.7)).objective.value == pytest.approx(least(demand, 0.7, 2), rel=1e-6)


def test_bounds_with_certificates_hold_what_they_say() -> None:
    """A tree for four servers and prices for five prove optima that lines do not; less of either proves less."""
    for case in (problem(TREE), topoopt.read_instance(INSTANCES / "parallel-circuits/drawn-5.yaml")):
        result = solved(case)
        assert result.status is Status.OPTIMAL
        by_lines = [derive(case, ()) for derive in CHECKER.arguments(case).values()]
        assert max(by_lines) < result.bound.value * (1 - 1e-6)
        (certificate,) = result.certificates
        name = "multipliers" if "tree" in certificate.arrays else "length"
        arrays = {**certificate.arrays, name: certificate.arrays[name] * np.linspace(0.5, 1.0, certificate[name].size)}
        weaker = CHECKER.bound(case, certificate.argument, [replace(certificate, arrays=arrays)])
        assert weaker < result.bound.value


def test_damaged_certificates_prove_nothing() -> None:
    """Negative or infinite prices, trees that leave cases out, and too many servers."""
    case = problem(TREE)
    (tree,) = solved(case).certificates
    for name, array in (
        ("multipliers", -tree["multipliers"]),
        ("multipliers", np.full_like(tree["multipliers"], np.inf)),
        ("multipliers", np.zeros_like(tree["multipliers"])),
        ("tree", tree["tree"][:-1]),
        ("tree", np.append(tree["tree"], -1)),
        ("tree", np.where(tree["tree"] >= 0, 10_000, -1)),
        ("switches", np.array([7])),
    ):
        with pytest.raises(ValueError, match=r".+"), np.errstate(invalid="ignore"):
            CHECKER.bound(case, tree.argument, [replace(tree, arrays={**tree.arrays, name: array})])
    larger = problem(np.pad(case.demand_us, (0, 1), constant_values=0))
    with pytest.raises(ValueError, match="at most 4"):
        CHECKER.bound(larger, tree.argument, [tree])


def test_a_tree_that_skips_the_worst_case_is_refused() -> None:
    """A case closed at the root proves only what its multipliers give."""
    case = problem(TREE)
    result = solved(case)
    (tree,) = result.certificates
    rows = 2 * int((case.demand_us > 0).sum()) + 1
    root = {**tree.arrays, "tree": np.array([-1]), "multipliers": tree["multipliers"][:rows]}
    assert CHECKER.bound(case, tree.argument, [replace(tree, arrays=root)]) < result.bound.value * (1 - 1e-6)


def test_dearest_permutation_against_all() -> None:
    """Sets of targets gone through give what all permutations give."""
    worths = np.random.default_rng(1).random((3, 4, 4))
    expected = [max(sum(m[i, p[i]] for i in range(4)) for p in itertools.permutations(range(4))) for m in worths]
    assert dearest_permutations(worths) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(4))
def test_steps_serve_the_demand(seed: int) -> None:
    """Colourings and greedy starts leave nothing over; a colouring has a step for each peer of the busiest server."""
    demand = drawn(6, seed, 3)
    coloured_steps = coloured(demand)
    assert not coloured_steps.remainder(demand).any()
    sends = demand > 0
    assert len(coloured_steps.durations) == max(sends.sum(axis=0).max(), sends.sum(axis=1).max())
    steps = greedy(demand, 0.5, np.random.default_rng(seed), 3.0, np.inf, 6)
    assert not steps.remainder(demand).any()


@pytest.mark.parametrize(("second", "durations"), [((4.0, 4.0), (5.0, 4.0)), ((4.0, 5.0), (5.0, 4.0))])
def test_cycles_are_exchanged_for_a_gain_alone(second: tuple[float, float], durations: tuple[float, float]) -> None:
    """Two pairs of servers that send (5, 3), then `second`: to exchange those of the second pair gains 0 or 1."""
    targets = [np.array([1, 0, 3, 2]), np.arange(4)]
    carried = [np.array([5.0, 5.0, 3.0, 3.0]), np.repeat(second, 2)]
    gains = second[1] > 4.0
    _exchange(carried, targets, 0.0)
    assert tuple(float(one.max()) for one in carried) == durations
    assert targets[1].tolist() == ([0, 1, 3, 2] if gains else [0, 1, 2, 3])


def test_prices_are_the_same_for_any_number_of_switches() -> None:
    """What they prove is divided by the switches, so the same prices prove most."""
    demand = drawn(5, 0)
    prices = [Prices(demand, 0.5, demand.max()).best([], switches, np.inf, Stop()).arrays for switches in (1, 3)]
    for name, array in prices[0].items():
        np.testing.assert_array_equal(array, prices[1][name])


@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_durations_do_not_depend_on_the_unit_of_time(unit: float) -> None:
    """Three shifts on two switches: as many steps, in proportion."""
    demand = np.array(SHIFTS, dtype=np.float64)
    usual = timed(demand, 0.5, 2, coloured(demand))
    plan = timed(demand * unit, 0.5 * unit, 2, coloured(demand * unit))
    assert plan.makespan == pytest.approx(usual.makespan * unit, rel=1e-9, abs=0.0)
    assert len(plan.steps.durations) == len(plan.steps.targets) == len(usual.steps.targets)


def test_pieces_of_a_group_add_up() -> None:
    """One long step on three switches is cut into three; all of it is there, with a delay for each piece."""
    value, steps, switches = spread(np.array([9.0]), 0.5, partitions(3, 3))
    assert value == pytest.approx(9 / 3 + 0.5)
    assert steps.tolist() == [0, 0, 0]
    assert sorted(switches.tolist()) == [0, 1, 2]


@pytest.mark.parametrize("method", ["spectra", "eclipse"])
def test_published_methods_are_no_better(method: str) -> None:
    """Plans of published methods serve the demand, and are no shorter than the bound of ours."""
    case = problem(drawn(4, 3), 2, 0.2)
    ours, theirs = solved(case), solve(case, SolveOptions(method=method))
    assert theirs.check.ok
    assert ours.objective.value <= theirs.objective.value * (1 + 1e-9)
    assert theirs.objective.value >= ours.bound.value * (1 - 1e-9)


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    """Two runs write the same file."""
    case = topoopt.read_instance(INSTANCES / "parallel-circuits/drawn-5.yaml")
    texts = []
    for name in ("a.json", "b.json"):
        topoopt.write_solution(solve(case, SolveOptions(seed=3)), tmp_path / name)
        texts.append((tmp_path / name).read_text())
    assert texts[0] == texts[1]


def test_bytes_and_microseconds_are_the_same_demand() -> None:
    """50 kB at 400 Gbit/s are a microsecond."""
    common = {"servers": 4, "switches": 2, "delay_us": 0.1}
    by_time = topoopt.ParallelCircuitsInstance(**common, demand={"matrix": SHIFTS})
    sizes = (np.array(SHIFTS) * 50_000.0).tolist()
    by_size = topoopt.ParallelCircuitsInstance(**common, demand={"matrix": sizes}, link_gbps=400)
    assert topoopt.solve(by_size).objective.value == pytest.approx(topoopt.solve(by_time).objective.value)


def test_the_mode_of_regional_circuits(tmp_path: Path) -> None:
    """Regional circuits with `switches` are parallel circuits, with the same hash; its result can be checked alone."""
    text = (INSTANCES / "parallel-circuits/shifts-4.yaml").read_text()
    other = tmp_path / "other.yaml"
    other.write_text(text.replace("kind: parallel-circuits", "kind: regional-circuits"))
    same = topoopt.read_instance(other)
    assert same.sha256 == topoopt.read_instance(INSTANCES / "parallel-circuits/shifts-4.yaml").sha256
    done = run("solve", str(other), "-o", str(tmp_path / "out"), "--json")
    assert done.code == 0, done.stderr
    assert json.loads(done.stdout)["makespan_us"] == pytest.approx(5.2)
    assert run("check", str(tmp_path / "out/solution.json")).code == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"switches": 0}, "switches"),
        ({"delay_us": -1}, "delay_us"),
        ({"first": "sometimes"}, "first"),
        ({"demand": {"matrix": [[0, 1], [1, 0]]}}, "4 rows of 4"),
        ({"demand": {"matrix": [[0] * 4] * 4}}, "no demand at all"),
        ({"demand": {"family": "hot-experts", "steps": 3, "scale": 1.0}}, "several matrices"),
        ({"delay_ms": 1}, "delay_ms"),
    ],
)
def test_bad_input(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """Each error is named, with exit code 2."""
    document = {"schema_version": 1, "kind": "parallel-circuits", "name": "bad", "servers": 4, "switches": 2}
    document |= {"delay_us": 0.1, "demand": {"matrix": SHIFTS}} | change
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(document))
    done = run("validate", str(file))
    assert done.code == 2
    assert message in done.stdout
