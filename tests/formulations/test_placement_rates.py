"""Best static rates and link packing against closed forms and search."""

import itertools

import numpy as np
import pytest

from formulations.placed_graphs import RateProblem, placement_rates_arrays
from formulations.placed_graphs import link_packing_arrays as pack_arrays
from solvers.backends import SOLVERS
from solvers.placement.static_rates import allocated, optimal_rates, rate_problem
from solvers.stop import Stop
from tests.support.placed_graphs import problem
from topoopt.core.proofs import Status
from topoopt.simulate.placement import placement_arrays, simulated, uniform_rates


def fork(volumes, chained):
    """Transfers of server 0 to others, all at once or one after another."""
    count = len(volumes)
    arcs = tuple((u, u + 1, 0.0) for u in range(count - 1)) if chained else ()
    pairs = tuple((0, u + 1) for u in range(count))
    return RateProblem(np.zeros(count), np.array(volumes, dtype=float), pairs, arcs, np.ones(count + 1))


@pytest.mark.parametrize("volumes", [(4, 1), (1, 1, 1), (9, 4, 1)])
def test_at_once_rates_are_proportional_to_volume(volumes):
    """min max v/b with sum b = 1: all end at sum v."""
    fractions = {(0, u + 1): 1 / len(volumes) for u in range(len(volumes))}
    rates, bound = optimal_rates(fork(volumes, chained=False), fractions, Stop())
    assert bound == pytest.approx(sum(volumes), rel=1e-5)
    assert [rates[0, u + 1] for u in range(len(volumes))] == pytest.approx(
        [v / sum(volumes) for v in volumes], rel=1e-3
    )


@pytest.mark.parametrize("volumes", [(4, 1), (9, 4, 1)])
def test_one_after_another_rates_follow_square_roots(volumes):
    """min sum v/b with sum b = 1: b proportional to sqrt(v), value (sum sqrt v)^2 (Cauchy)."""
    fractions = {(0, u + 1): 1 / len(volumes) for u in range(len(volumes))}
    rates, bound = optimal_rates(fork(volumes, chained=True), fractions, Stop())
    roots = np.sqrt(volumes)
    assert bound == pytest.approx(roots.sum() ** 2, rel=1e-5)
    assert [rates[0, u + 1] for u in range(len(volumes))] == pytest.approx(roots / roots.sum(), rel=1e-2)


def test_incast_is_held_below_the_links_of_the_receiver():
    """Two servers to a third at once: each gets half of the way in, though its own way out is free."""
    incast = RateProblem(np.zeros(2), np.array([1.0, 1.0]), ((0, 2), (1, 2)), (), np.ones(3))
    rates, bound = optimal_rates(incast, {(0, 2): 0.5, (1, 2): 0.5}, Stop())
    assert bound == pytest.approx(2.0, rel=1e-5)
    assert sum(rates.values()) <= 1 + 1e-6


def test_the_best_split_of_a_schedule_beats_every_split_on_a_grid():
    """Fixed placement and orders: no pair of rates on a fine grid is better than the program's, up to its tangents."""
    instance = problem([1, 3, 1, 2], [(0, [1], 2), (0, [2], 1), (1, [3], 1), (2, [3], 2)], [1, 1, 1], sharing="static")
    a = placement_arrays(instance)
    begin = simulated(a, np.array([0, 1, 2, 0]), uniform_rates(a))
    best = allocated(a, begin, Stop())
    assert best.makespan_ms < begin.makespan_ms
    grid = []
    for share in np.linspace(0.05, 0.95, 91):
        rates = np.zeros((3, 3))
        rates[0, 1], rates[0, 2], rates[1, 0], rates[2, 0] = share, 1 - share, 0.5, 0.5
        for back in np.linspace(0.1, 0.9, 17):
            rates[1, 0], rates[2, 0] = back, 1 - back
            grid.append(simulated(a, begin.device, rates * 125_000, begin.start_ms).makespan_ms)
    assert best.makespan_ms <= min(grid) * (1 + 1e-4)
    found, _ = rate_problem(a, begin)
    assert found.pairs == ((0, 1), (0, 2), (1, 0), (2, 0))


def test_names_and_rows_of_the_rate_program():
    """Two transfers of one server: arcs, span and tangent rows are named and hold at a known point."""
    program = placement_rates_arrays(fork((4, 1), chained=True), [{(0, 1): 2.0, (0, 2): 2.0}])
    assert program.column_names == ("start_0", "start_1", "slow_0_1", "slow_0_2", "span")
    assert program.row_names == ("follow_0_1", "span_0", "span_1", "out_0_0", "into_1_0", "into_2_0")
    point = np.array([0.0, 8.0, 2.0, 2.0, 10.0])  # half the link each: 8 ms, then 2 ms
    slack = program.matrix() @ point - program.row_lower
    assert slack == pytest.approx([0, 2, 0, 0, 0.5, 0.5])


def least_splits(rate, capacity):
    """Fewest (pair, link) used, by trying all supports with a linear program each (brute force)."""
    pairs = [tuple(pair) for pair in np.argwhere(rate > 0)]
    links = capacity.shape[1]
    subsets = [s for k in range(1, links + 1) for s in itertools.combinations(range(links), k)]
    best = np.inf
    for choice in itertools.product(subsets, repeat=len(pairs)):
        size = sum(map(len, choice))
        if size >= best:
            continue
        program = pack_arrays(rate, capacity)
        upper = program.upper.copy()
        for column, name in enumerate(program.column_names):
            if name.startswith("share"):
                s, t, link = map(int, name.split("_")[1:])
                if link not in choice[pairs.index((s, t))]:
                    upper[column] = 0.0
        result = SOLVERS["highs"](type(program)(**{**vars(program), "upper": upper}))
        if result.status is Status.OPTIMAL and result.x is not None and -result.objective >= 1 - 1e-9:
            best = size
    return best


def test_packing_uses_as_few_links_as_possible():
    """A small incast, where a greedy split breaks an ingress row, against brute force over supports."""
    rate = np.array([[0, 7, 6], [3, 0, 5], [0, 0, 0.0]])
    capacity = np.full((3, 2), 10.0)
    result = SOLVERS["highs"](pack_arrays(rate, capacity, 1.0))
    assert result.objective == pytest.approx(least_splits(rate, capacity))
