"""Pipelines over links of unequal speed: the optimum is that of trying every assignment, and proven."""

from __future__ import annotations

import numpy as np
import pytest

from solvers.placement.pipelines import Search, enumerate_assignments, polish, slice_orders, to_devices
from solvers.placement.slices import _State
from solvers.stop import Stop
from tests.support.settled import settled
from tests.support.unequal_placements import VARIANTS, least_load, unequal_load, unequal_problem
from topoopt.core.errors import InfeasibleError
from topoopt.core.proofs import StopReason
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("variant", list(VARIANTS))
def test_every_assignment_is_no_better(variant: str, seed: int) -> None:
    """Six operators on three devices that differ in class, memory and links: the enumerated optimum, and a proof."""
    problem = unequal_problem(
        seed, operators=6, backward=seed % 2 == 0, memory=seed % 3 == 0, settings=VARIANTS[variant]
    )
    best = least_load(problem)
    if best is None:
        with pytest.raises(InfeasibleError):
            solve(problem)
        return
    solution = solve(problem, SolveOptions(time_limit_s=900))
    assert solution.check.ok, solution.check.violations
    assert solution.objective.value == pytest.approx(best, rel=1e-9)
    assert settled(solution)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_ten_operators_on_four_unequal_devices_are_proven(seed: int) -> None:
    """A million assignments, nothing drawn from them better; without a limit of time, so by a count of steps."""
    problem = unequal_problem(seed, operators=10, devices=4, settings=VARIANTS["free" if seed % 2 else "1f1b"])
    solution = solve(problem)
    assert solution.check.ok, solution.check.violations
    assert settled(solution)
    rng = np.random.default_rng(seed)
    if seed % 2:  # any set of operators is a stage
        label = [operator.colocation or operator.name for operator in problem.operators]
        for _ in range(300):
            at = dict(zip(label, rng.integers(0, 4, 10).tolist(), strict=True))
            drawn = tuple(at[name] for name in label)
            assert unequal_load(problem, drawn) >= solution.objective.value * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_cut_short_it_still_bounds_the_optimum(seed: int) -> None:
    """After a few partial assignments: bound <= optimum <= value."""
    problem = unequal_problem(seed, operators=7, settings=VARIANTS["1f1b"])
    best = least_load(problem)
    assert best is not None
    search = Search(problem)
    slice_orders(search, 0, Stop())
    bound, why = enumerate_assignments(search, Stop(), most_rows=10)
    assert bound <= best * (1 + 1e-9) <= search.value * (1 + 2e-9)
    assert why is StopReason.BUDGET or bound == search.value


@pytest.mark.parametrize("seed", range(3))
def test_program_bounds_the_optimum(seed: int) -> None:
    """The stage-order program takes transfers at the fastest link of each device, which no assignment can beat."""
    problem = unequal_problem(seed, operators=6, memory=seed % 2 == 0)
    best = least_load(problem)
    assert best is not None
    solution = solve(problem, SolveOptions(method="cp-sat", time_limit_s=900))
    assert solution.bound.value <= best * (1 + 1e-9) <= solution.objective.value * (1 + 2e-9)


@pytest.mark.parametrize("seed", range(6))
def test_local_search_counts_what_links_cost(seed: int) -> None:
    """After moves and exchanges of devices the loads it kept are those of the placement, from the definition."""
    problem = unequal_problem(seed, operators=12, devices=4)
    search = Search(problem)
    slice_orders(search, 0, Stop())
    assert search.best is not None
    state = _State(search.graph, search.settings, search.best.stage.tolist(), search.best.group.tolist())
    rng = np.random.default_rng(seed)
    for _ in range(200):
        one, other = rng.integers(0, 4, 2).tolist()
        if one != other and rng.random() < 0.5:
            after = list(state.group)
            if state.swap(one, other):
                after[one], after[other] = after[other], after[one]
            assert state.group == after
        block = int(rng.integers(search.graph.size))
        if other != state.slot[block] and state.fits(block, other):
            state.move(block, other)
    hosts = [search.graph.groups[q].host for q in state.group]
    kept = max(sum(state.compute[s]) + (0.0 if hosts[s] else sum(state.sent[s])) for s in range(4))
    positions = type(search.best)(np.array(state.slot), np.array(state.group))
    device = to_devices(search.graph, search.settings, positions)
    assert kept == pytest.approx(unequal_load(problem, tuple(device.tolist())), rel=1e-9)


def test_local_search_is_no_worse_than_slicing() -> None:
    """Thirty operators on six unequal devices: polishing only ever replaces the best."""
    for seed in range(3):
        search = Search(unequal_problem(seed, operators=30, devices=6))
        slice_orders(search, 0, Stop())
        before = search.value
        polish(search, 0, Stop(), 2000)
        assert search.value <= before
