"""Stages of a model on groups of servers of their own."""

from __future__ import annotations

import pytest

from solvers.job.starts import reduced_of, stages, starting_strategies, work_of
from topoopt.core.cluster import Cluster
from topoopt.core.workload import Operator, OperatorInput, Placement, Split, Workload

WAYS = (8, 4, 2, 1)


def _layer(index: int, work: float, weights: int) -> Operator:
    inputs = (OperatorInput(index - 1),) if index else ()
    splits = tuple(Split(k, work / k, 0.0, 1) for k in WAYS)
    return Operator(f"layer{index}", "dense", 8, 4, (weights,), inputs, splits)


def _table(index: int) -> Operator:
    return Operator(f"table{index}", "embedding", 8, 4, (1000,), (), (Split(1, 1.0, 0.0, 1),))


WORKLOAD = Workload(
    "row", 64, (*(_layer(i, w, g) for i, (w, g) in enumerate([(6, 1), (1, 1), (1, 2), (4, 4)])), _table(4))
)


def test_sizes() -> None:
    """Server-milliseconds and weights; a table that is on one server wherever it stands reduces nothing."""
    assert work_of(8, WORKLOAD) == pytest.approx([6, 1, 1, 4, 1])
    assert reduced_of(8, WORKLOAD) == [1, 1, 2, 4, 0]


def test_two_stages_of_like_work_and_of_like_gradients() -> None:
    """Half of 13 server-milliseconds end within the second layer, half of 8 weights behind the third. The table goes to
    the first server with least to do: 6 / 4 ms are on all by work, 8 / 4 and 4 / 4 ms on the halves by gradients."""
    even, odd = Placement(WAYS.index(4), 0), Placement(WAYS.index(4), 1)
    by_work = stages(8, WORKLOAD, 4, work_of(8, WORKLOAD)).placements
    assert by_work == (even, odd, odd, odd, Placement(0, 0))
    by_gradients = stages(8, WORKLOAD, 4, reduced_of(8, WORKLOAD)).placements
    assert by_gradients[:4] == (even, even, even, odd)
    assert by_gradients[4] == Placement(0, 1)


def test_they_are_among_the_starts() -> None:
    """Of two and four stages; of eight only where memory is limited."""
    names = {start.name for start in starting_strategies(Cluster(8, 1, 2, 100.0), WORKLOAD)}
    assert {"2 stages of like work", "2 stages of like gradients", "4 stages of like work"} <= names
    assert "8 stages of like work" not in names
    limited = starting_strategies(Cluster(8, 1, 2, 100.0, gpu_memory_bytes=2**30), WORKLOAD)
    assert "8 stages of like work" in {start.name for start in limited}
