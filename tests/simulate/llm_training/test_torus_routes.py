"""Routes over a torus against what can be counted."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from topoopt.simulate.llm_training.links import torus_routes


@pytest.mark.parametrize("sides", [(5,), (5, 4), (4, 4, 4), (3, 2, 5)])
def test_two_paths_wherever_a_pair_has_two(sides: tuple[int, ...]) -> None:
    """Every path is shortest; pairs apart along more than one axis have two different ones."""
    places = np.arange(np.prod(sides)).reshape(sides)
    steps = np.stack([np.roll(places, -1, axis=axis).ravel() for axis in range(len(sides))])
    pairs = np.array(list(itertools.permutations(range(places.size), 2)))
    table = torus_routes(steps, pairs[:, 0], pairs[:, 1])
    for index, (source, target) in enumerate(pairs.tolist()):
        apart = np.subtract(np.unravel_index(target, sides), np.unravel_index(source, sides)) % sides
        around = np.minimum(apart, np.subtract(sides, apart))
        rows = range(int(table.pair_ptr[index]), int(table.pair_ptr[index + 1]))
        paths = [table.node[table.path_ptr[row] : table.path_ptr[row + 1]].tolist() for row in rows]
        assert table.share[rows.start : rows.stop].sum() == 1
        for path in paths:
            assert (path[0], path[-1], len(path) - 1) == (source, target, around.sum())
            for tail, head in itertools.pairwise(path):
                assert head in steps[:, tail] or tail in steps[:, head]
        if (around > 0).sum() > 1:
            assert len({tuple(path) for path in paths}) == 2
