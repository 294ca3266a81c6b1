"""Finding a shard for one job: against brute force, and where the answer is plain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.shards import find_shard, search_shard
from tests.support.layers import layer_from_table
from tests.support.shard_cases import exists, pairs, random_layer, random_shape, rings
from topoopt.core.cluster import ShardShape, block_layer, staggered_layer
from topoopt.verify.shared_cluster.servers import shard_violations


def free_servers(servers: int, busy: tuple[int, ...] = ()) -> np.ndarray:
    """bool[n], these are busy."""
    free = np.ones(servers, dtype=bool)
    free[list(busy)] = False
    return free


@given(st.integers(0, 10**6), st.integers(2, 7), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4))
@settings(max_examples=150)
def test_verdicts_are_true(seed: int, servers: int, planes: int, switches: int, wanted: int) -> None:
    """What is found passes the checker, and what is proven impossible is so by brute force."""
    rng = np.random.default_rng(seed)
    layer = random_layer(rng, servers, planes, switches)
    shape = random_shape(rng, wanted, int(rng.integers(1, planes + 1)))
    free = rng.random(servers) < 0.8
    shard, reason, impossible = search_shard(layer, free, shape, seed)
    if shard is not None:
        assert not impossible
        assert not shard_violations(layer, [("a", shape, shard)])
        assert free[list(shard.servers)].all()
    elif impossible:
        assert not exists(layer, free, shape)
    else:
        assert reason


@given(st.integers(0, 10**6), st.integers(2, 7), st.integers(1, 3), st.integers(2, 4), st.integers(1, 3))
@settings(max_examples=80)
def test_rings_over_all_ranks_are_decided(seed: int, servers: int, planes: int, wanted: int, used: int) -> None:
    """When every interface joins all ranks, the search always knows."""
    rng = np.random.default_rng(seed)
    layer = random_layer(rng, servers, planes, 3)
    free = rng.random(servers) < 0.8
    shape = rings(wanted, *([1] * min(used, planes)))
    shard, _, impossible = search_shard(layer, free, shape)
    assert (shard is not None) != impossible
    assert (shard is not None) == exists(layer, free, shape)


def test_the_fullest_block_with_room_is_taken() -> None:
    """Two servers go where exactly two are left, so that the empty block stays whole."""
    layer = block_layer(8, 2, 4, 0.01)
    shard = find_shard(layer, free_servers(8, (4, 5)), rings(2, 1, 1))
    assert shard is not None
    assert set(shard.servers) == {6, 7}


def test_a_job_straddles_a_border_in_the_plane_that_has_none_there() -> None:
    """Servers 3 and 4 share a switch in plane 1 only; one interface can use it, two cannot."""
    layer = staggered_layer(8, 2, 4, 0.01, shift=2)
    free = free_servers(8, (0, 1, 2, 5, 6, 7))
    shard = find_shard(layer, free, rings(2, 1))
    assert shard is not None
    assert shard.planes == (1,)
    assert search_shard(layer, free, rings(2, 1, 1))[2]


def test_a_ring_and_pairs_over_two_classes() -> None:
    """The ring takes the plane whose switch spans all; pairs stay within their halves."""
    layer = layer_from_table([[0, 0, 1, 1], [0, 0, 0, 0]], 4, 0.01)
    ring, pairing = rings(4, 1).arcs, pairs(4, [(0, 2), (1, 3)]).arcs
    shape = ShardShape(np.concatenate((ring, pairing)))
    shard = find_shard(layer, free_servers(4), shape)
    assert shard is not None
    assert shard.planes == (1, 0)
    assert {frozenset((shard.servers[0], shard.servers[2])), frozenset((shard.servers[1], shard.servers[3]))} == {
        frozenset((0, 1)),
        frozenset((2, 3)),
    }


def test_a_square_of_pairs_is_cut_where_its_interfaces_allow() -> None:
    """Pairings that chain all ranks: one stays under a common switch, the other is cut between two."""
    layer = layer_from_table([[0, 0, 1, 1], [0, 0, 0, 0]], 4, 0.01)
    shape = pairs(4, [(0, 1), (2, 3)], [(1, 2), (3, 0)])
    shard = find_shard(layer, free_servers(4), shape)
    assert shard is not None
    assert not shard_violations(layer, [("square", shape, shard)])


def test_many_pairs_find_their_switches() -> None:
    """A job of 64 pairs over blocks of two."""
    layer = block_layer(128, 3, 2, 0.01)
    shape = pairs(128, [(i, i + 64) for i in range(64)])
    shard = find_shard(layer, free_servers(128), shape)
    assert shard is not None
    assert not shard_violations(layer, [("pairs", shape, shard)])


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (rings(9, 1), "8 servers are free, the job takes 9"),
        (rings(2, 1, 1, 1), "3 interfaces, a server 2"),
        (rings(3, 0), "sends to itself"),
        (ShardShape(np.array([[1, 0, 0]], dtype=np.int32)), "two ranks send to one"),
        (ShardShape(np.array([[3, 0]], dtype=np.int32)), "outside 0 to 1"),
        (rings(5, 1), "at most 4 free servers share a switch"),
        (pairs(8, [(0, 1)], [(0, 1), (1, 2)]), "two ranks send to one"),
    ],
)
def test_impossible_for_a_reason(shape: ShardShape, words: str) -> None:
    """The reason names what is short."""
    _, reason, impossible = search_shard(block_layer(8, 2, 4, 0.01), free_servers(8), shape)
    assert impossible
    assert words in reason


def test_sets_that_no_plane_holds_are_counted() -> None:
    """Three pairs under switches with three free ports each fit two at most."""
    layer = block_layer(6, 2, 3, 0.01)
    _, reason, impossible = search_shard(layer, free_servers(6), pairs(6, [(0, 1), (2, 3), (4, 5)]))
    assert impossible
    assert "3 sets of 2 ranks" in reason
    assert not exists(layer, free_servers(6), pairs(6, [(0, 1), (2, 3), (4, 5)]))


def test_switches_that_join_in_pairs_take_no_one_way_ring() -> None:
    """A ring of three needs transmit and receive apart; pairs do not."""
    layer = layer_from_table([[0, 0, 0]], 3, 0.01, paired=True)
    assert search_shard(layer, free_servers(3), rings(3, 1))[2]
    assert find_shard(layer, free_servers(3), pairs(3, [(0, 2)])) is not None


def test_a_dark_job_takes_any_servers() -> None:
    """No circuits, no condition; single servers too."""
    layer = block_layer(6, 1, 1, 0.01)
    assert find_shard(layer, free_servers(6), pairs(6, [])) is not None
    assert find_shard(layer, free_servers(6), pairs(1, [])) is not None


def test_same_seed_same_shard() -> None:
    """Planes are tried in an order fixed by the seed."""
    rng = np.random.default_rng(3)
    layer, shape = random_layer(rng, 12, 4, 3), random_shape(rng, 6, 3)
    assert search_shard(layer, free_servers(12), shape, 5) == search_shard(layer, free_servers(12), shape, 5)


def test_free_must_fit_the_layer() -> None:
    """Neither another length nor another type."""
    layer = block_layer(4, 1, 4, 0.01)
    for free in (np.ones(3, dtype=bool), np.ones(4, dtype=np.int64)):
        with pytest.raises(ValueError, match="truth value"):
            find_shard(layer, free, rings(2, 1))  # type: ignore[arg-type]
