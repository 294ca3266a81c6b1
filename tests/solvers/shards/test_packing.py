"""Regions filled by knapsacks: against trying all subsets, and as a bound on all placings."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.shard_assignment import classes_of, parts_of
from solvers.shard_assignment import assign_shards
from solvers.shards import fill_regions, knapsack, knapsack_bound, separate_regions
from tests.support.layers import layer_from_table
from tests.support.shard_cases import most_placed, pairs, rings
from topoopt.core.cluster import block_layer, staggered_layer
from topoopt.core.proofs import Argument, Status
from topoopt.verify.shared_cluster.servers import shard_violations


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 9)), max_size=7),
    st.integers(0, 15),
)
@settings(max_examples=100)
def test_knapsack_by_all_subsets(jobs: list[tuple[int, int]], room: int) -> None:
    """The same worth, and a choice that fits and has it."""
    sizes = np.array([size for size, _ in jobs], dtype=np.int64)
    gains = np.array([gain for _, gain in jobs], dtype=np.float64)
    subsets = chain.from_iterable(combinations(range(len(jobs)), count) for count in range(len(jobs) + 1))
    best = max(gains[list(chosen)].sum() for chosen in subsets if sizes[list(chosen)].sum() <= room)
    value, chosen = knapsack(sizes, gains, room)
    assert value == best == gains[chosen].sum()
    assert sizes[chosen].sum() <= room
    assert len(set(chosen)) == len(chosen)


@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(1, 4))
@settings(max_examples=30)
def test_filling_is_below_brute_force_and_brute_force_below_the_bound(seed: int, ports: int, jobs: int) -> None:
    """Rings on two planes of blocks alike."""
    rng = np.random.default_rng(seed)
    layer = block_layer(7, 2, ports, 0.01)
    free = rng.random(7) < 0.9
    shapes = [rings(int(rng.integers(2, 5)), 1, 1) for _ in range(jobs)]
    gains = rng.integers(1, 5, jobs).astype(float)
    classes = classes_of(layer)
    region = separate_regions(classes, [parts_of(shape) for shape in shapes])
    assert region is not None
    best = most_placed(layer, free, shapes, gains.tolist())
    sizes = np.array([shape.servers for shape in shapes])
    assert knapsack_bound(region, classes.count(free), sizes, gains) >= best
    for fullest_first in (False, True):
        found = fill_regions(layer, free, shapes, gains, fullest_first=fullest_first)
        assert found is not None
        placed = [(str(k), shapes[k], shard) for k, shard in enumerate(found) if shard is not None]
        assert shard_violations(layer, placed) == ()
        assert sum(gains[int(name)] for name, _, _ in placed) <= best


def test_sizes_that_leave_servers_over_are_proven_without_a_solver() -> None:
    """Two blocks of seven hold one ring of four and one of two each: 12 of 14 servers, by filling."""
    layer = block_layer(14, 3, 7, 0.01)
    result = assign_shards(layer, np.ones(14, dtype=bool), [rings(4, 1, 3, 1)] * 3 + [rings(2, 1, 1, 1)] * 3)
    assert (result.value, result.bound, result.status, result.argument) == (
        12.0,
        12.0,
        Status.OPTIMAL,
        Argument.REGIONS_LEFT,
    )


@pytest.mark.parametrize("used", [1, 2])
def test_where_regions_overlap(used: int) -> None:
    """Staggered planes: rings on both have common blocks, rings on one have not, pairs never."""
    classes = classes_of(staggered_layer(8, 2, 4, 0.01))
    region = separate_regions(classes, [parts_of(rings(2, *[1] * used))])
    assert (region is not None) == (used == 2)
    assert separate_regions(classes, [parts_of(pairs(4, [(0, 1), (2, 3)]))]) is None
    assert separate_regions(classes, []) is None
    layer = layer_from_table([[0, 0, 1]], 2, 0.01)
    assert fill_regions(layer, np.ones(3, dtype=bool), [pairs(4, [(0, 1), (2, 3)])], np.ones(1)) is None
