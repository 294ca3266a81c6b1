"""Fragmentation: the largest ring that can be placed, against trying all sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.shards import fragmentation
from tests.support.shard_cases import exists, random_layer, rings
from topoopt.core.optical_layer import block_layer


@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_largest_job_by_trying_all_sizes(seed: int, servers: int, planes: int, interfaces: int) -> None:
    """Rings of 2, 3, ... on so many interfaces by brute force; a single server has no ring."""
    rng = np.random.default_rng(seed)
    layer = random_layer(rng, servers, planes, 2)
    free = rng.random(servers) < 0.7
    used = min(interfaces, planes)
    sizes = [k for k in range(2, int(free.sum()) + 1) if exists(layer, free, rings(k, *[1] * used))]
    found = fragmentation(layer, free, used)
    assert found.exact
    assert found.free == free.sum()
    assert found.largest_job == max(sizes, default=min(1, found.free))


def test_blocks() -> None:
    """Two and three of four free: the larger part counts; nothing free is not fragmented."""
    layer = block_layer(8, 2, 4, 0.01)
    found = fragmentation(layer, np.array([1, 1, 0, 0, 1, 1, 1, 0], dtype=bool))
    assert (found.free, found.largest_job) == (5, 3)
    assert found.index == pytest.approx(0.4)
    assert fragmentation(layer, np.zeros(8, dtype=bool)).index == 0.0
    with pytest.raises(ValueError, match="1 to 2"):
        fragmentation(layer, np.ones(8, dtype=bool), 3)
