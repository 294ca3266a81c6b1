"""Layers to stages, against all splits tried."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from solvers.pipeline.stage_split import LayerLoads, stage_split
from topoopt.core.errors import InfeasibleError


def longest(loads: LayerLoads, ends: tuple[int, ...]) -> float | None:
    """Time of the longest stage of a split, None if some rank cannot hold its layers."""
    times = []
    for rank, (begin, end) in enumerate(itertools.pairwise((0, *ends))):
        held = loads.state[begin:end].sum() + loads.in_flight[rank] * loads.activations[begin:end].sum()
        if held > loads.room:
            return None
        times.append(float(loads.time[begin:end].sum()))
    return max(times)


def least_of_all(loads: LayerLoads) -> float | None:
    """Over all splits with a layer on each rank at least."""
    layers, ranks = len(loads.time), len(loads.in_flight)
    cuts = itertools.combinations(range(1, layers), ranks - 1)
    return min((value for cut in cuts if (value := longest(loads, (*cut, layers))) is not None), default=None)


def drawn_loads(rng: np.random.Generator) -> LayerLoads:
    """Whole numbers, zeros among them; ranks with different numbers on their way, in any order."""
    ranks = int(rng.integers(1, 5))
    layers = int(rng.integers(ranks, 9))
    time, state = rng.integers(0, 6, (2, layers)).astype(float)
    held, room = rng.integers(0, 3, layers).astype(float), float(rng.choice([3, 8, 12, 20, np.inf]))
    return LayerLoads(time, state, held, rng.integers(0, 6, ranks).astype(float), room)


def test_against_all_splits() -> None:
    """The least longest stage of all splits that fit, or none fits; and the room that is said to do does, no less."""
    rng = np.random.default_rng(23)
    fitting = 0
    for _ in range(300):
        loads = drawn_loads(rng)
        least = least_of_all(loads)
        if least is None:
            with pytest.raises(InfeasibleError, match="would do") as caught:
                stage_split(loads)
            room = float(str(caught.value).split(":")[1].split()[0])
            parts = (loads.time, loads.state, loads.activations, loads.in_flight)
            assert least_of_all(LayerLoads(*parts, room)) is not None
            assert least_of_all(LayerLoads(*parts, room - 0.5)) is None
        else:
            fitting += 1
            split = stage_split(loads)
            assert min(split) >= 1
            assert longest(loads, tuple(np.cumsum(split).tolist())) == least
    assert 100 < fitting < 250


def test_early_ranks_hold_less() -> None:
    """1F1B: rank 0 has four micro-batches on their way, rank 3 one; with 6 a layer and 4 in flight 24 hold one layer,
    30 hold two where three are."""
    ones = np.ones(12)
    roomy = LayerLoads(ones, 2 * ones, ones, np.array([4.0, 3.0, 2.0, 1.0]))
    assert stage_split(roomy) == (3, 3, 3, 3)
    tight = LayerLoads(ones, 2 * ones, ones, roomy.in_flight, 15.0)
    assert longest(tight, tuple(np.cumsum(stage_split(tight)).tolist())) == least_of_all(tight) == 4.0
    assert stage_split(tight)[0] == 2


def test_more_stages_than_layers() -> None:
    """Three layers do not fill four stages."""
    with pytest.raises(InfeasibleError, match="3 layers do not fill 4 stages"):
        stage_split(LayerLoads(np.ones(3), np.ones(3), np.ones(3), np.ones(4)))
