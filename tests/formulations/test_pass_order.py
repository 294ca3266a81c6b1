"""The program of the order of passes: rows written by hand, and the readable twin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from formulations.parts.write_model import model_text
from formulations.pipeline.pass_order import PassOrder, build_arrays
from formulations.pipeline.pass_order_pyomo import build_pyomo
from tests.support.formulation_cases import rows_of
from tests.support.same_program import assert_same

TINY = PassOrder(
    time=np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    hold=np.array([[0.5, 0.0], [0.0, 0.5], [0.0, 0.0]]),
    adds=np.array([[3.0, 3.0], [-1.0, -1.0], [-2.0, -2.0]]),
    room=np.array([5.0, np.inf]),
    transfer=0.5,
    micro_batches=2,
    upper=100.0,
)
"""Two ranks, two micro-batches; what is sent blocks for half a unit; rank 0 has room for 5."""

ROWS = {
    "first": ["first_2_1: + _end_2_1_0 >= 6"],
    "turn": ["turn_0_0_1: - _end_0_0_0 + _end_0_0_1 >= 1.5"],
    "ahead": ["ahead_1_1: - _end_0_0_1 + _end_0_1_1 >= 2.5"],
    "back": ["back_0_0: + _end_1_0_0 - _end_1_1_0 >= 3.5"],
    "own": ["own_1_0_1: - _end_0_0_1 + _end_1_0_1 >= 3.5"],
    "before": ["before_1_0_0_1_1: + _end_0_1_1 - _end_1_1_0 - 102.5 _early_1_0_0_1_1 >= -100"],
    "after": ["after_1_0_0_1_1: - _end_0_1_1 + _end_1_1_0 + 104 _early_1_0_0_1_1 >= 4"],
    "fit": ["fit_0_1: - _early_1_0_0_1_0 - 2 _early_2_0_0_1_0 <= -1"],
    "all": ["all_1: - _end_2_1_1 + span >= 0"],
}
"""One row of each family, from the algebra in the text of the module and the numbers above."""


@pytest.mark.parametrize("family", ROWS)
def test_rows_by_hand(family: str) -> None:
    """The rows of LP text; of rank 1, which has no limit of memory, none says what fits."""
    rows = rows_of(model_text(build_arrays(TINY), "lp"), family)
    assert set(ROWS[family]) <= set(rows), rows
    if family == "fit":
        assert rows == ROWS["fit"]


@pytest.mark.parametrize("data", [TINY, replace(TINY, longest_rank=True), replace(TINY, micro_batches=3)])
def test_both_builders_are_one_program(data: PassOrder) -> None:
    """Arrays and the readable model."""
    assert_same(build_arrays(data), build_pyomo(data))
