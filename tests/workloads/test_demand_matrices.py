"""Generated demand matrices: mean, balance, shares, seeds, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from topoopt.core.errors import InputError
from topoopt.workloads.demands import DEMAND_FAMILIES, demand_matrix


@pytest.mark.parametrize("family", DEMAND_FAMILIES)
@pytest.mark.parametrize("n", [2, 3, 17])
def test_mean_one_and_no_demand_to_oneself(family: str, n: int) -> None:
    """Every family has mean 1 over the ordered pairs, a zero diagonal, and repeats with its seed."""
    matrix = demand_matrix(family, n, seed=3)
    assert matrix.shape == (n, n)
    assert matrix.sum() == pytest.approx(n * (n - 1))
    assert not np.diag(matrix).any()
    assert (matrix >= 0).all()
    np.testing.assert_array_equal(matrix, demand_matrix(family, n, seed=3))


def test_balanced_skew_is_balanced_and_skewed() -> None:
    """Row and column sums are n - 1 each, while single demands differ by orders of magnitude."""
    matrix = demand_matrix("balanced-skew", 32, seed=1)
    np.testing.assert_allclose(matrix.sum(axis=0), 31.0, rtol=1e-9)
    np.testing.assert_allclose(matrix.sum(axis=1), 31.0, rtol=1e-9)
    off = matrix[~np.eye(32, dtype=bool)]
    assert off.max() / np.median(off) > 10


def test_skew_follows_its_lognormal() -> None:
    """The standard deviation of the logarithm is 1.5 within sampling error."""
    matrix = demand_matrix("skew", 64, seed=2)
    assert np.log(matrix[~np.eye(64, dtype=bool)]).std() == pytest.approx(1.5, abs=0.08)


def test_sparse_has_three_heavy_targets() -> None:
    """Each server sends 95 % of its traffic to three others, and has n - 1 in all."""
    matrix = demand_matrix("sparse", 20, seed=4)
    np.testing.assert_allclose(matrix.sum(axis=1), 19.0)
    heavy = np.sort(matrix, axis=1)[:, -3:]
    np.testing.assert_allclose(heavy.sum(axis=1), 19.0 * (0.95 + 3 * 0.05 / 19))
    assert len({tuple(np.argsort(row)[-3:]) for row in matrix}) > 10


def test_hotspots_carry_their_share() -> None:
    """At 30 servers, three hot ones take part in all but 5 % of the traffic plus their own uniform part."""
    matrix = demand_matrix("hotspot", 30, seed=5)
    hot = np.sort(np.argsort(matrix.sum(axis=1))[-3:])
    cold = np.setdiff1d(np.arange(30), hot)
    assert matrix[np.ix_(cold, cold)].sum() / matrix.sum() == pytest.approx(0.05 * 27 * 26 / (30 * 29))


def test_bad_requests_are_refused() -> None:
    """Unknown family, one server and a negative seed are all named at once."""
    with pytest.raises(InputError) as caught:
        demand_matrix("spiky", 1, seed=-1)
    assert len(caught.value.problems) == 3
