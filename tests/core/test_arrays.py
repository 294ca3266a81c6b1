"""Orders of arrays, against numpy's stable sort."""

from __future__ import annotations

import numpy as np
import pytest

from topoopt.core.arrays import stable_order


@pytest.mark.parametrize("different", [1, 3, 1000, 10**9])
def test_equal_values_stay_in_order(different: int) -> None:
    """Many, some, few and no equal values; none at all."""
    rng = np.random.default_rng(different)
    for size in (0, 1, 2, 50, 3000):
        values = rng.integers(0, different, size).astype(np.float64)
        assert np.array_equal(stable_order(values), np.argsort(values, kind="stable"))
