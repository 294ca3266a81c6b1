"""The joint program of tiny clusters: every family of rows written out, and the arrays against the Pyomo reference."""

from __future__ import annotations

import re

import numpy as np
import pytest

from formulations.job_plans import JointPlan, PlanOption, joint_plan_arrays
from formulations.programs import model_text
from solvers.backends import SOLVERS
from solvers.backends.pyomo_backends import arrays_of
from tests.support.formulation_cases import rows_of
from tests.support.pyomo_networks import joint_plan_pyomo


def two_servers(*, bidirectional: bool = True, memory_limited: bool = True) -> JointPlan:
    """Two servers with one interface: a table on server 0 feeds a layer on server 0 or halved on both.

    Halved, 3 ms of a link go each way and each server sends 2 ms of AllReduce in the one ring.
    """
    on_first, on_both = np.array([1.0, 0.0]), np.array([1.0, 1.0])
    table = PlanOption(1.0, 2.0, 3 * on_first, 0.5 * on_first, {})
    whole = PlanOption(4.0, 8.0, 12 * on_first, 0.75 * on_first, {})
    halves = PlanOption(2.0, 4.0, 6 * on_both, 0.25 * on_both, {0: 2.0})
    demand = np.zeros((1, 2, 2, 2))
    demand[0, 1] = [[0.0, 3.0], [3.0, 0.0]]
    return JointPlan(
        2, 1, bidirectional, ((table,), (whole, halves)), ((0, 1),), (demand,), (((0, 1),),), 9.0, memory_limited
    )


ROWS = {
    "choose": ["+ y_0_0 = 1", "+ y_1_0 + y_1_1 = 1"],
    "producer": ["- y_0_0 + p_0_0_0 + p_0_0_1 = 0"],
    "consumer": ["- y_1_0 + p_0_0_0 = 0", "- y_1_1 + p_0_0_1 = 0"],
    "memory": ["+ 0.5 y_0_0 + 0.75 y_1_0 + 0.25 y_1_1 <= 1", "+ 0.25 y_1_1 <= 1"],
    "load": ["+ 3 y_0_0 + 12 y_1_0 + 6 y_1_1 - C <= 0", "+ 6 y_1_1 - C <= 0"],
    "forward": ["- y_0_0 - first_0 + first_1 >= 0"],
    "backward": ["- 8 y_1_0 - 4 y_1_1 + turned_0 - turned_1 >= 0"],
    "turn": ["- y_0_0 - first_0 + turned_0 >= 0", "- 4 y_1_0 - 2 y_1_1 - first_1 + turned_1 >= 0"],
    "chain": ["- 2 y_0_0 - turned_0 + C >= 0", "- 8 y_1_0 - 4 y_1_1 - turned_1 + C >= 0"],
    "bundle": ["+ links_0_1_0 + links_0_1_1 = 1"],
    "out_degree": ["+ links_0_1_1", "+ links_0_1_1"],
    "split": ["+ part_0_1_0 + part_0_1_1 - theta = 0"],
    "only": ["- 9 links_0_1_0 + part_0_1_0 <= 0", "- 9 links_0_1_1 + part_0_1_1 <= 0"],
    "cut_out": ["+ part_0_1_1 - theta <= 0", "+ part_0_1_1 - theta <= 0"],
    "reduce": ["- 2 y_1_1 + ring_0_0 = 0"],
    "deliver": [
        "- 3 p_0_0_1 - ring_0_0 + flow_0_0_1 = 0",
        "- 3 p_0_0_1 - ring_0_0 + flow_1_1_0 = 0",
    ],
    "fit": ["- part_0_1_1 + flow_0_0_1 <= 0", "- part_0_1_1 + flow_1_1_0 <= 0"],
    "reach_fit": ["- links_0_1_1 + reach_0_1 <= 0", "- links_0_1_1 + reach_1_0 <= 0"],
    "reach": ["+ reach_0_1 - reach_1_0 = 1"],
}
"""Rows of two_servers() by family, written by hand from the algebra, variables in column order; ranged rows without
their sides."""


@pytest.mark.parametrize("family", list(ROWS))
def test_rows_are_the_algebra(family: str) -> None:
    """The rows of the family, word for word, no more and no fewer."""
    found = [row.partition(": ")[2] for row in rows_of(model_text(joint_plan_arrays(two_servers()), "lp"), family)]
    if family == "out_degree":
        found = [re.sub(r" (<=|>=) .*", "", row) for row in found][::2]
    assert found == ROWS[family]


def test_every_family_is_written_out() -> None:
    """No row of the program belongs to a family that is not in the list; directed links add in-degrees and returns."""
    families = {re.sub(r"(_[0-9]+)+$", "", name) for name in joint_plan_arrays(two_servers()).row_names or ()}
    assert families == set(ROWS)
    directed = {
        re.sub(r"(_[0-9]+)+$", "", name) for name in joint_plan_arrays(two_servers(bidirectional=False)).row_names or ()
    }
    assert directed - families == {"in_degree", "cut_in", "back", "back_fit"}


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("memory_limited", [True, False])
def test_both_builders_have_one_optimum(bidirectional: bool, memory_limited: bool) -> None:
    """Whole: 3 + 12 ms, which the memory of server 0 forbids. Halved: 3 + 6 ms of compute, 3 + 2 ms on the link."""
    data = two_servers(bidirectional=bidirectional, memory_limited=memory_limited)
    for program in (joint_plan_arrays(data), arrays_of(joint_plan_pyomo(data))):
        assert SOLVERS["highs"](program).objective == pytest.approx(14.0)
    slow = two_servers(bidirectional=bidirectional, memory_limited=memory_limited)
    slow.demand[0][:] *= 1.5  # 4.5 + 2 ms on the link: 15.5 ms, so the whole layer is better if it fits
    for program in (joint_plan_arrays(slow), arrays_of(joint_plan_pyomo(slow))):
        assert SOLVERS["highs"](program).objective == pytest.approx(15.5 if memory_limited else 15.0)
