"""The strategy program: hand-computed choices, brute force, and arrays against the Pyomo reference."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pyomo.environ as pyo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyomo.contrib.appsi.solvers.highs import Highs
from scipy.optimize import Bounds, LinearConstraint, milp

from formulations.job_plans import (
    EventLaw,
    StrategyChoice,
    chosen_splits,
    longest_path,
    strategy_choice_arrays,
)
from formulations.programs import LpArrays, model_text
from tests.support.formulation_cases import rows_of
from tests.support.pyomo_placements import strategy_choice_pyomo


def solve(program: LpArrays, *, whole: bool = True) -> tuple[float, np.ndarray]:
    """Optimum and point by scipy's own call of HiGHS."""
    found = milp(
        program.cost,
        integrality=program.is_integer.astype(int) if whole else None,
        bounds=Bounds(program.lower, program.upper),
        constraints=LinearConstraint(program.matrix(), program.row_lower, program.row_upper),
    )
    return float(found.fun), found.x


def solve_reference(data: StrategyChoice, *, whole: bool) -> float:
    """Optimum of the Pyomo model."""
    model = strategy_choice_pyomo(data)
    if not whole:
        pyo.TransformationFactory("core.relax_integer_vars").apply_to(model)
    Highs().solve(model)
    return float(pyo.value(model.end))


def two_operators(transfer: float, room: float | None = None) -> StrategyChoice:
    """Whole or in two parts each: 4 or 2 ms; a chain; unlike splits move data for `transfer` ms."""
    moved = np.array([[0.0, transfer], [transfer, 0.0]])
    quantities = ((0, np.array([4.0, 2.0])), (1, np.array([4.0, 3.5])), (0, moved))
    laws = (EventLaw("a", 0, 1, 1.0, ((0, 1.0), (2, 1.0))), EventLaw("b", 1, 2, 0.0, ((1, 2.0),)))
    rooms = None if room is None else (np.array([0.0, room]), np.array([0.5, 0.5]))
    return StrategyChoice((2, 2), ((0, 1),), quantities, laws, 3, rooms)


@pytest.mark.parametrize(
    ("transfer", "room", "value", "splits"),
    [
        (0.5, None, 10.0, (1, 1)),  # 1 + 2 + 2 * 3.5
        (0.5, 0.6, 12.5, (0, 1)),  # no room for the first in two parts: 1 + 4 + 0.5 + 7 against 1 + 4 + 8
        (1.5, 0.6, 13.0, (0, 0)),
    ],
)
def test_hand_computed_choices(transfer, room, value, splits) -> None:
    """Two operators in a chain: the sum on the path of the best pair, with and without a limit of memory."""
    data = two_operators(transfer, room)
    found, x = solve(strategy_choice_arrays(data))
    assert found == pytest.approx(value)
    assert chosen_splits(data, x) == splits
    assert longest_path(data, splits) == pytest.approx(value)


ROWS = {
    "choose": ["+ z_0_0 + z_0_1 = 1", "+ z_1_0 + z_1_1 = 1"],
    "producer": ["- z_0_0 + p_0_0_0 + p_0_0_1 = 0", "- z_0_1 + p_0_1_0 + p_0_1_1 = 0"],
    "consumer": ["- z_1_0 + p_0_0_0 + p_0_1_0 = 0", "- z_1_1 + p_0_0_1 + p_0_1_1 = 0"],
    "measure": [
        "- 4 z_0_0 - 2 z_0_1 + y_0 = 0",
        "- 4 z_1_0 - 3.5 z_1_1 + y_1 = 0",
        "- 0.5 p_0_0_1 - 0.5 p_0_1_0 + y_2 = 0",
    ],
    "law": ["- y_0 - y_2 + x_1 >= 1", "- 2 y_1 - x_1 + x_2 >= 0"],
    "memory": ["+ 0.6 z_0_1 + 0.5 z_1_0 + 0.5 z_1_1 <= 1"],
}
"""Rows of two_operators(0.5, 0.6) by family, written by hand from the algebra, variables in column order."""


@pytest.mark.parametrize("family", list(ROWS))
def test_rows_are_the_algebra(family: str) -> None:
    """The rows of the family, word for word, no more and no fewer."""
    found = rows_of(model_text(strategy_choice_arrays(two_operators(0.5, 0.6)), "lp"), family)
    assert [row.partition(": ")[2] for row in found] == ROWS[family]


@st.composite
def programs(draw) -> StrategyChoice:
    """Random tables and laws over up to four operators."""
    splits = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=4)))
    number = st.integers(0, 20).map(float)
    pairs = tuple((u, v) for v in range(len(splits)) for u in range(v) if draw(st.booleans()))
    quantities = []
    for o, count in enumerate(splits):
        for _ in range(2):
            quantities.append((o, np.array(draw(st.lists(number, min_size=count, max_size=count)))))
    for e, (u, v) in enumerate(pairs):
        cells = draw(st.lists(number, min_size=splits[u] * splits[v], max_size=splits[u] * splits[v]))
        quantities.append((e, np.array(cells).reshape(splits[u], splits[v])))
    laws = [EventLaw("begin", 0, k, 0.0, ()) for k in range(1, 5)]
    for a in range(draw(st.integers(1, 8))):
        tail = draw(st.integers(0, 3))
        head = draw(st.integers(tail + 1, 4))
        terms = draw(st.dictionaries(st.integers(0, len(quantities) - 1), st.integers(1, 2).map(float), max_size=4))
        laws.append(EventLaw(f"law{a}", tail, head, draw(number), tuple(terms.items())))
    room = tuple(np.array([1.0 / (len(splits) + s) for s in range(count)]) for count in splits)
    return StrategyChoice(splits, pairs, tuple(quantities), tuple(laws), 5, draw(st.sampled_from([None, room])))


def plain_value(data: StrategyChoice, choice: tuple[int, ...]) -> float:
    """x[K] of a choice, by going round the laws until no time moves."""
    times = [0.0] + [-np.inf] * (data.events - 1)
    for _ in range(data.events):
        for law in data.laws:
            cost = law.constant
            for q, coefficient in law.terms:
                index, values = data.quantities[q]
                if values.ndim == 2:
                    u, v = data.pairs[index]
                    cost += coefficient * values[choice[u], choice[v]]
                else:
                    cost += coefficient * values[choice[index]]
            times[law.head] = max(times[law.head], times[law.tail] + cost)
    return times[-1]


@given(programs())
@settings(max_examples=60)
def test_brute_force_and_reference_agree(data: StrategyChoice) -> None:
    """Optimum = least of all choices in plain Python = Pyomo; relaxations agree and are no higher."""
    least = min(plain_value(data, choice) for choice in itertools.product(*map(range, data.splits)))
    program = strategy_choice_arrays(data)
    found, x = solve(program)
    assert found == pytest.approx(least, abs=1e-6)
    assert longest_path(data, chosen_splits(data, x)) == pytest.approx(least, abs=1e-6)
    assert solve_reference(data, whole=True) == pytest.approx(least, abs=1e-6)
    relaxed, _ = solve(program, whole=False)
    assert solve_reference(data, whole=False) == pytest.approx(relaxed, abs=1e-6)
    assert relaxed <= least + 1e-6


def test_splits_that_are_not_allowed_and_names() -> None:
    """With only the whole split of the first operator: 1 + 4 + 0.5 + 7; rows and columns are named by family."""
    data = replace(two_operators(0.5), allowed=(np.array([True, False]), np.array([True, True])))
    program = strategy_choice_arrays(data)
    assert solve(program)[0] == pytest.approx(12.5)
    assert solve_reference(data, whole=True) == pytest.approx(12.5)
    assert program.columns == 2 + 2 + 4 + 3 + 2
    assert program.rows == 2 + 4 + 3 + 2
    assert program.column_names is not None
    assert program.column_names[2:] == (
        *("z_1_0", "z_1_1", "p_0_0_0", "p_0_0_1", "p_0_1_0", "p_0_1_1"),
        *("y_0", "y_1", "y_2", "x_1", "x_2"),
    )
    assert program.row_names is not None
    assert program.row_names[:4] == ("choose_0", "choose_1", "producer_0_0", "producer_0_1")
