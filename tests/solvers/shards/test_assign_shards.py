"""Several waiting jobs: the exact method against brute force, the one-by-one heuristic never above it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.shard_assignment import ShardLimits, assign_shards
from solvers.shards import place_jobs
from solvers.stop import Stop
from tests.support.layers import layer_from_table
from tests.support.shard_cases import most_placed, pairs, random_layer, random_shape, rings
from topoopt.core.cluster import block_layer
from topoopt.core.proofs import Argument, Status, StopReason
from topoopt.verify.shared_cluster.servers import placing_bound, shard_violations


@given(st.integers(0, 10**6), st.integers(3, 6), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=60)
def test_exact_is_brute_force(seed: int, servers: int, planes: int, switches: int, jobs: int) -> None:
    """Same worth, proven; the shards pass the checker; the heuristic never has more."""
    rng = np.random.default_rng(seed)
    layer = random_layer(rng, servers, planes, switches)
    free = rng.random(servers) < 0.9
    shapes = [random_shape(rng, int(rng.integers(1, 4)), int(rng.integers(1, planes + 1))) for _ in range(jobs)]
    worth = rng.integers(1, 5, jobs).tolist()
    best = most_placed(layer, free, shapes, worth)
    result = assign_shards(layer, free, shapes, worth, ShardLimits(seed=seed))
    assert result.status is Status.OPTIMAL
    assert result.value == result.bound == best
    placed = [
        (str(k), shape, shard)
        for k, (shape, shard) in enumerate(zip(shapes, result.shards, strict=True))
        if shard is not None
    ]
    assert shard_violations(layer, placed) == ()
    assert sum(worth[int(name)] for name, _, _ in placed) == best
    assert all(free[list(shard.servers)].all() for _, _, shard in placed)
    assert placing_bound(layer, free, shapes, worth) >= best
    found = place_jobs(layer, free, shapes, worth, seed)
    assert sum(w for w, shard in zip(worth, found, strict=True) if shard is not None) <= best


@given(st.integers(0, 10**6), st.integers(4, 10), st.integers(1, 3))
@settings(max_examples=25)
def test_names_of_servers_planes_and_jobs_do_not_matter(seed: int, servers: int, jobs: int) -> None:
    """Servers, planes, switches and jobs renumbered: the same worth. One more free server: never less."""
    rng = np.random.default_rng(seed)
    layer = random_layer(rng, servers, 2, 2)
    free = rng.random(servers) < 0.7
    shapes = [random_shape(rng, int(rng.integers(1, 5)), int(rng.integers(1, 3))) for _ in range(jobs)]
    value = assign_shards(layer, free, shapes).value
    order = rng.permutation(servers)
    other = layer_from_table(1 - layer.switch_of[::-1, order], servers, 0.01)
    assert assign_shards(other, free[order], shapes[::-1]).value == value
    free[rng.integers(servers)] = True
    assert assign_shards(layer, free, shapes).value >= value


def test_blocks_are_filled_to_the_last_server() -> None:
    """Three blocks of 10 hold 7 + 3, 6 + 4 and 5 + 5, every server used."""
    layer = block_layer(30, 1, 10, 0.01)
    shapes = [rings(size, 1) for size in (7, 6, 5, 5, 4, 3)]
    result = assign_shards(layer, np.ones(30, dtype=bool), shapes)
    assert result.value == result.bound == 30.0


def test_equal_jobs_are_interchangeable() -> None:
    """Five equal rings for room of three: three are placed, whichever, and it is proven."""
    layer = block_layer(12, 2, 4, 0.01)
    result = assign_shards(layer, np.ones(12, dtype=bool), [rings(3, 1, 2)] * 5)
    assert (result.value, result.bound, result.status) == (9.0, 9.0, Status.OPTIMAL)


def test_jobs_that_fit_nowhere_are_left_out_of_the_bound() -> None:
    """A ring wider than a switch counts nothing, so one pair is optimal by counting."""
    layer = block_layer(8, 1, 4, 0.01)
    result = assign_shards(layer, np.ones(8, dtype=bool), [rings(5, 1), pairs(2, [(0, 1)])], [10.0, 1.5])
    assert (result.value, result.status, result.shards[0]) == (1.5, Status.OPTIMAL, None)


def test_no_jobs_and_no_servers() -> None:
    """Nothing to place, nothing to place it on."""
    layer = block_layer(4, 1, 2, 0.01)
    assert assign_shards(layer, np.ones(4, dtype=bool), []).status is Status.OPTIMAL
    result = assign_shards(layer, np.zeros(4, dtype=bool), [rings(2, 1)])
    assert (result.shards, result.value, result.bound) == ((None,), 0.0, 0.0)


def test_a_stop_keeps_what_is_known() -> None:
    """After an interrupt no program is solved: the heuristic's shards and the counting bound come back."""
    # plane 0 joins 0 and 1, plane 1 joins 1 and 2, nothing joins 3: one pair, where four servers count for two
    layer = layer_from_table([[0, 0, 1, 2], [0, 1, 1, 2]], 4, 0.01)
    stop = Stop()
    stop.interrupted.set()
    free, waiting = np.ones(4, dtype=bool), [rings(2, 1), rings(2, 1)]
    result = assign_shards(layer, free, waiting, [1.5, 1.0], ShardLimits(stop=stop))
    assert (result.status, result.stopped_by) == (Status.FEASIBLE, StopReason.INTERRUPTED)
    assert (result.value, result.bound, result.argument) == (1.5, 2.5, Argument.SERVERS_LEFT)
    result = assign_shards(layer, free, waiting, [1.5, 1.0])
    assert (result.status, result.value, result.bound) == (Status.OPTIMAL, 1.5, 1.5)


def test_programs_too_large_are_left_to_the_heuristic() -> None:
    """The same case, with no variables allowed."""
    layer = layer_from_table([[0, 0, 1, 2], [0, 1, 1, 2]], 4, 0.01)
    result = assign_shards(layer, np.ones(4, dtype=bool), [rings(2, 1)] * 2, [1.5, 1.0], ShardLimits(most_columns=0))
    assert (result.status, result.stopped_by) == (Status.FEASIBLE, StopReason.BUDGET)
    assert (result.value, result.bound) == (1.5, 2.5)


def test_worth_is_finite_and_for_every_job() -> None:
    """A negative, an infinite and a missing worth are refused."""
    layer = block_layer(4, 1, 2, 0.01)
    for worth in ([-1.0], [float("inf")], []):
        with pytest.raises(ValueError, match="worth"):
            assign_shards(layer, np.ones(4, dtype=bool), [rings(2, 1)], worth)
