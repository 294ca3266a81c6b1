"""The shard program: rows against golden files written from its algebra, arrays against the Pyomo reference."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.programs import model_text
from formulations.shard_assignment import (
    ShardAssignment,
    build_arrays,
    choices_of,
    classes_of,
    parts_of,
    planes_of,
    waiting_jobs,
)
from tests.support.formulation_cases import rows_of
from tests.support.layers import layer_from_table
from tests.support.pyomo_networks import shard_assignment_pyomo
from tests.support.same_program import assert_same
from topoopt.core.cluster import ShardShape, block_layer

PAIR = ShardShape(np.array([[1, 0]], dtype=np.int32))
LAYER = classes_of(layer_from_table([[0, 0, 1], [0, 1, 1]], 3, 0.01))
"""Three servers, each a class: 0 and 1 share a switch of plane 0, 1 and 2 one of plane 1."""

DATA = ShardAssignment(LAYER, np.array([1, 1, 1]), waiting_jobs([PAIR, PAIR], [2.0, 2.0]))
"""Two equal pairs wait."""

GOLDEN = Path(__file__).parent / "golden" / "shard_assignment"
FILES = sorted(path.stem for path in GOLDEN.glob("*.lp"))


@pytest.mark.parametrize("family", FILES)
def test_rows_are_the_algebra(family: str) -> None:
    """The rows of the family, word for word, no more and no fewer."""
    expected = rows_of((GOLDEN / f"{family}.lp").read_text(), family)
    assert rows_of(model_text(build_arrays(DATA), "lp"), family) == expected
    assert expected


def test_every_family_has_a_file() -> None:
    """No row without its golden file."""
    assert {re.sub(r"(_[0-9]+)+$", "", row) for row in build_arrays(DATA).row_names or ()} == set(FILES)


def test_both_builders_give_one_program() -> None:
    """The case of the golden files."""
    assert_same(build_arrays(DATA), shard_assignment_pyomo(DATA))


@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=20)
def test_builders_agree_on_random_layers(seed: int, servers: int, planes: int, jobs: int) -> None:
    """Atoms, groups and components of any partial permutations."""
    rng = np.random.default_rng(seed)
    classes = classes_of(layer_from_table(rng.integers(0, 2, (planes, servers)), servers, 0.01))
    free = classes.count(rng.random(servers) < 0.9)
    shapes = []
    for _ in range(jobs):
        order = np.array([rng.permutation(3) for _ in range(int(rng.integers(1, planes + 1)))])
        shapes.append(ShardShape(np.where(order == np.arange(3), -1, order).astype(np.int32)))
    waiting = waiting_jobs(shapes, rng.integers(1, 3, jobs).tolist())
    data = ShardAssignment(classes, free, waiting)
    assert_same(build_arrays(data), shard_assignment_pyomo(data))


def test_alike_servers_planes_and_ranks_are_merged() -> None:
    """Blocks: one group of planes, a class a block; four rings over all ranks: one atom, one group."""
    classes = classes_of(block_layer(12, 4, 4, 0.01))
    assert (classes.classes, classes.widths) == (3, (4,))
    ranks = np.arange(6)
    parts = parts_of(ShardShape(np.array([(ranks + step) % 6 for step in (1, 5, 2, 3)], dtype=np.int32)))
    # steps 1 and 5 join all six; step 2 joins the even and the odd; step 3 opposite pairs
    assert [(group.interfaces, group.components) for group in parts.groups] == [((0, 1), 1), ((2,), 2), ((3,), 3)]
    assert [atom.tolist() for atom in parts.atoms] == [[0], [1], [2], [3], [4], [5]]
    data = ShardAssignment(classes, np.array([4, 4, 4]), waiting_jobs([PAIR], [1.0]))
    # 3 classes, place, assign and open of one plane group, its 3 switches
    assert build_arrays(data).columns == 3 + 1 + 2 + 3


def test_dark_interfaces_take_the_planes_left() -> None:
    """The pair takes the plane it is given; an interface without arcs any other; there must be one."""
    dark = parts_of(ShardShape(np.array([[-1, -1], [1, 0]], dtype=np.int32)))
    assert planes_of(LAYER, dark, np.array([[1, 0]])) == (1, 0)
    wide = parts_of(ShardShape(np.full((3, 2), -1, dtype=np.int32)))
    with pytest.raises(ValueError, match="more interfaces"):
        planes_of(LAYER, wide, np.zeros((0, 2), dtype=int))


def test_choices_are_read_back() -> None:
    """Job 0 placed on servers 1 and 2 by plane 1, job 1 waits."""
    program = build_arrays(DATA)
    on = {"place_0", "ranks_0_0_1", "ranks_0_0_2", "assign_0_0_1", "open_0_0_1", "at_0_0_0_1_1"}
    x = np.array([float(name in on) for name in program.column_names or ()])
    choices = choices_of(DATA, program, x)
    assert [placed for placed, _, _ in choices] == [True, False]
    assert choices[0][1].tolist() == [[0, 1, 1]]
    assert choices[0][2].tolist() == [[0, 1]]


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 3))
@settings(max_examples=20)
def test_columns_are_counted_beforehand(seed: int, servers: int, planes: int) -> None:
    """The stated number of variables is that of the program."""
    rng = np.random.default_rng(seed)
    classes = classes_of(layer_from_table(rng.integers(0, 2, (planes, servers)), servers, 0.01))
    order = np.array([rng.permutation(4) for _ in range(planes)])
    shape = ShardShape(np.where(order == np.arange(4), -1, order).astype(np.int32))
    jobs = waiting_jobs([shape, PAIR, PAIR], [1.0, 1.0, 1.0])
    data = ShardAssignment(classes, classes.count(np.ones(servers, dtype=bool)), jobs)
    assert data.columns == build_arrays(data).columns
