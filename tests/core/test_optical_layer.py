"""Optical layers and shapes: builders, faults, and what is realisable."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.layers import layer_from_table
from topoopt.core.cluster import Shard, ShardShape, block_layer, realisable, staggered_layer

RING = ShardShape(np.array([[1, 2, 0]], dtype=np.int32))


def test_blocks_are_the_same_in_every_plane() -> None:
    """Five servers under switches of two ports: three switches, the last half empty."""
    layer = block_layer(5, 2, 2, 0.5)
    assert layer.switch_of.tolist() == [[0, 0, 1, 1, 2]] * 2
    assert (layer.planes, layer.servers) == (2, 5)


def test_staggered_planes_overlap() -> None:
    """By default the borders of four planes are a quarter block apart; no switch is overbooked."""
    layer = staggered_layer(8, 4, 4, 0.5)
    assert layer.switch_of.tolist() == [
        [0, 0, 0, 0, 1, 1, 1, 1],
        [0, 0, 0, 1, 1, 1, 1, 0],
        [0, 0, 1, 1, 1, 1, 0, 0],
        [0, 1, 1, 1, 1, 0, 0, 0],
    ]
    assert max(np.bincount(row).max() for row in layer.switch_of) == 4
    assert (staggered_layer(7, 3, 2, 0.5, shift=0).switch_of == block_layer(7, 3, 2, 0.5).switch_of).all()


@pytest.mark.parametrize("counts", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_counts_are_at_least_one(counts: tuple[int, int, int]) -> None:
    """Nothing is built of nothing."""
    for build in (block_layer, staggered_layer):
        with pytest.raises(ValueError, match="at least 1"):
            build(*counts, 0.1)
    with pytest.raises(ValueError, match="shift"):
        staggered_layer(4, 2, 2, 0.1, shift=-1)


@pytest.mark.parametrize(
    ("servers", "planes", "good"),
    [
        ((0, 1, 2), (0,), True),
        ((2, 0, 1), (1,), True),
        ((1, 2, 3), (1,), True),
        ((1, 2, 3), (0,), False),  # 3 is under another switch in plane 0
        ((0, 1, 1), (0,), False),
        ((0, 1), (0,), False),
        ((0, 1, 4), (0,), False),
        ((0, 1, 2), (2,), False),
        ((0, 1, 2), (0, 1), False),
    ],
)
def test_what_is_realisable(servers: tuple[int, ...], planes: tuple[int, ...], good: bool) -> None:
    """A ring of three on four servers, all under one switch in plane 1."""
    layer = layer_from_table([[0, 0, 0, 1], [0, 0, 0, 0]], 4, 0.1)
    assert realisable(layer, RING, Shard(servers, planes)) is good


def test_paired_switches_need_a_way_back() -> None:
    """A one-way ring is no set of pairs; two ranks that send to each other are."""
    layer = layer_from_table([[0, 0, 0]], 3, 0.1, paired=True)
    assert not realisable(layer, RING, Shard((0, 1, 2), (0,)))
    assert realisable(layer, ShardShape(np.array([[1, 0, -1]], dtype=np.int32)), Shard((0, 1, 2), (0,)))
