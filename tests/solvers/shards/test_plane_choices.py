"""Planes for interfaces: all ways when they are few, sensible ones when they are many."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from formulations.shard_assignment import classes_of, parts_of
from solvers.shards import plane_choices
from tests.support.layers import layer_from_table
from tests.support.shard_cases import pairs, rings
from topoopt.core.cluster import ShardShape, block_layer, staggered_layer

MIXED = ShardShape(np.concatenate((rings(6, 1, 1).arcs, pairs(6, [(0, 1), (2, 3), (4, 5)]).arcs)))
"""Two interfaces that join all, one of pairs."""


@pytest.mark.parametrize("layer", [staggered_layer(12, 4, 4, 0.01), block_layer(12, 4, 4, 0.01)])
def test_all_ways_by_permutations(layer: object) -> None:
    """The distinct tables of all ways to put three interfaces on four planes."""
    classes, parts = classes_of(layer), parts_of(MIXED)  # type: ignore[arg-type]
    group_of = {plane: p for p, planes in enumerate(classes.plane_groups) for plane in planes}
    expected = set()
    for planes in permutations(range(4), 3):
        table = np.zeros((2, len(classes.widths)), dtype=np.int64)
        for interface, g in ((0, 0), (1, 0), (2, 1)):
            table[g, group_of[planes[interface]]] += 1
        expected.add(table.tobytes())
    found, complete = plane_choices(classes, parts, np.ones(classes.classes, dtype=int), np.random.default_rng(0), 16)
    assert complete
    assert {table.tobytes() for table in found} == expected
    assert len(found) == len(expected)


def test_of_many_ways_those_with_room_are_drawn() -> None:
    """Six unlike planes and three tries: the two spanning interfaces get planes 4 and 5, whose switch holds all."""
    rng = np.random.default_rng(1)
    table = np.array([*(rng.permutation([0, 0, 0, 1, 1, 1, 2, 2]) for _ in range(4)), [0] * 7 + [1], [1] + [0] * 7])
    classes, parts = classes_of(layer_from_table(table, 8, 0.01)), parts_of(MIXED)
    found, complete = plane_choices(classes, parts, np.ones(classes.classes, dtype=int), rng, 3)
    assert not complete
    assert 1 <= len(found) <= 3
    assert all(choice.sum(axis=1).tolist() == [2, 1] and (choice.sum(axis=0) <= 1).all() for choice in found)
    assert all(choice[0, 4] == choice[0, 5] == 1 for choice in found)
