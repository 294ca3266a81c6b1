"""The checker's own bound on what can be placed: cases counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from topoopt.core.cluster import ShardShape, block_layer, staggered_layer
from topoopt.verify.shared_cluster.servers import placing_bound


def ring(servers: int, interfaces: int = 1) -> ShardShape:
    """Every interface joins all ranks."""
    row = (np.arange(servers) + 1) % servers
    return ShardShape(np.tile(row, (interfaces, 1)).astype(np.int32))


PAIRS = ShardShape(np.array([[1, 0, 3, 2]], dtype=np.int32))


@pytest.mark.parametrize(
    ("shapes", "worth", "bound"),
    [
        ([ring(3)] * 4, [3.0] * 4, 6.0),  # two blocks of five take one ring of three each
        ([ring(3), ring(2)], [3.0, 2.0], 10.0),  # each block could take both: jobs are not shared out
        ([ring(6)], [6.0], 0.0),
        ([PAIRS] * 3, [4.0] * 3, 8.0),  # pairs may leave a block: ten servers hold two jobs of four
        ([ring(3)] * 3 + [PAIRS], [3.0] * 3 + [0.5], 9.0),
        ([], [], 0.0),
    ],
)
def test_counted_by_hand(shapes: list[ShardShape], worth: list[float], bound: float) -> None:
    """Ten free servers in two blocks of five."""
    assert placing_bound(block_layer(10, 2, 5, 0.01), np.ones(10, dtype=bool), shapes, worth) == bound


def test_staggered_planes_cut_when_all_are_used() -> None:
    """Two planes cut eight servers into fours at unlike borders: together into twos; each alone does not bind."""
    layer = staggered_layer(8, 2, 4, 0.01)
    free = np.ones(8, dtype=bool)
    assert placing_bound(layer, free, [ring(2, 2)] * 5, [2.0] * 5) == 8.0
    assert placing_bound(layer, free, [ring(3, 2)] * 5, [3.0] * 5) == 0.0
    assert placing_bound(layer, free, [ring(3, 1)] * 5, [3.0] * 5) == 6.0


def test_only_free_servers_count() -> None:
    """Three free in one block, one in the other; and none."""
    layer = block_layer(8, 1, 4, 0.01)
    free = np.array([1, 1, 1, 0, 0, 0, 0, 1], dtype=bool)
    assert placing_bound(layer, free, [ring(2)] * 3, [2.0] * 3) == 2.0
    assert placing_bound(layer, np.zeros(8, dtype=bool), [ring(2)], [2.0]) == 0.0
