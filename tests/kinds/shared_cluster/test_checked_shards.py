"""Shards placed for several jobs are handed out only when the checker has passed them."""

from __future__ import annotations

import numpy as np
import pytest

from solvers.network.routes import circulant_topology
from solvers.shards import search_shard
from tests.support.shard_cases import rings
from topoopt.core.cluster import LinkDirection, ShardShape, block_layer, realisable
from topoopt.core.errors import CheckError
from topoopt.core.proofs import Argument, Status
from topoopt.kinds.shared_cluster import methods as exact
from topoopt.verify.checker import Violation

LAYER = block_layer(8, 4, 4, 0.01)
FREE = np.ones(8, dtype=bool)


def test_a_planned_topology_is_placed() -> None:
    """The circulant of a job of four becomes a shard of a block."""
    shape = ShardShape(circulant_topology(4, 2, LinkDirection("bidirectional"), (1,)).switches)
    shard, _, impossible = search_shard(LAYER, FREE, shape)
    assert shard is not None
    assert not impossible
    assert realisable(LAYER, shape, shard)
    result = exact.place(LAYER, FREE, [shape] * 3)
    assert (result.value, result.status, result.argument) == (8.0, Status.OPTIMAL, Argument.SERVER_COUNTS)


def test_nothing_unchecked_is_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the checker rejects is an error of ours."""
    monkeypatch.setattr(exact, "shard_violations", lambda *_: (Violation("switch", "corrupted"),))
    with pytest.raises(CheckError, match="corrupted"):
        exact.place(LAYER, FREE, [rings(2, 1)])
    monkeypatch.undo()
    monkeypatch.setattr(exact, "placing_bound", lambda *_: 1.0)
    with pytest.raises(CheckError, match="possible by counting"):
        exact.place(LAYER, FREE, [rings(2, 1)])


def test_a_cluster_of_432() -> None:
    """The experiment's cluster under three switches a plane: 27 of 28 jobs of 16 servers, worked out by hand."""
    layer, free = block_layer(432, 8, 144, 0.01), np.ones(432, dtype=bool)
    shape = ShardShape(circulant_topology(16, 8, LinkDirection("bidirectional"), (1, 3, 5, 7)).switches)
    result = exact.place(layer, free, [shape] * 28)
    assert (result.value, result.status, result.shards.count(None)) == (432.0, Status.OPTIMAL, 1)
