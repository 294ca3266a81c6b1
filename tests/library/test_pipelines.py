"""Schedules of a pipeline from the library, against makespans known by hand."""

from __future__ import annotations

from typing import Any

import pytest

import topoopt


def test_schedules_side_by_side() -> None:
    """Eight stages, 24 micro-batches, F = B = W = 1 ms: (24 + 7) 3 ms for GPipe and 1F1B, less for those that put the
    gradients of weights off."""
    found = topoopt.pipeline_schedules(8, 24)
    expected = {"gpipe": 93.0, "1f1b": 93.0, "zb-h1": 79.0, "zb-2p": 79.0, "dualpipe": 78.0}
    assert {name: row.makespan_ms for name, row in found.items()} == pytest.approx(expected)
    assert found["zb-2p"].longest_rank_ms == pytest.approx(72.0)
    assert found["1f1b"].bubble_ms == pytest.approx(7 * 3.0)
    assert found["1f1b"].in_flight == (8, 7, 6, 5, 4, 3, 2, 1)
    assert found["dualpipe"].bound_ms is None
    assert all(row.bound_ms is None or row.bound_ms <= row.makespan_ms * (1 + 1e-12) for row in found.values())


def test_stages_of_their_own() -> None:
    """One slow stage sets the pace: GPipe takes 1 + 1 + 3 and 2 + 2 + 2, and 3 (3 + 2) more."""
    (row,) = topoopt.pipeline_schedules(3, 4, ["gpipe"], forward_ms=[1, 3, 1]).values()
    assert row.makespan_ms == pytest.approx(5 + 6 + 3 * 5)


@pytest.mark.parametrize(
    ("more", "paths"),
    [
        ({"schedules": ["2f2b", "zb"]}, ["schedules", "schedules"]),
        ({"forward_ms": [1, 2]}, ["forward_ms"]),
        ({"backward_ms": -1}, ["backward_ms"]),
        ({"weights_ms": 3}, ["weights_ms"]),
        ({"schedules": ["dualpipe"], "chunks": 2}, ["chunks", "stages"]),
        ({"chunks": 0}, ["chunks"]),
    ],
)
def test_wrong_values(more: dict[str, Any], paths: list[str]) -> None:
    """Names, lists of another length, more weights than backward pass, sizes that a schedule does not allow."""
    with pytest.raises(topoopt.InputError) as refused:
        topoopt.pipeline_schedules(3, 8, **more)
    assert [problem.path for problem in refused.value.problems] == paths
