"""The checker of shards accepts what stands and names what is corrupted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.layers import layer_from_table
from topoopt.core.cluster import OpticalLayer, Shard, ShardShape, block_layer
from topoopt.verify.shared_cluster.servers import PlacedJob, layer_violations, shard_violations

LAYER = block_layer(8, 2, 4, 0.01)
RING = ShardShape(np.array([[1, 2, 0], [2, 0, 1]], dtype=np.int32))
JOBS = [("a", RING, Shard((0, 1, 2), (0, 1))), ("b", RING, Shard((5, 4, 7), (1, 0)))]


def codes(layer: OpticalLayer, jobs: list[PlacedJob]) -> set[str]:
    """What is reported."""
    return {violation.code for violation in shard_violations(layer, jobs)}


def test_sound_shards_pass() -> None:
    """Two rings under two switches; no job at all."""
    assert shard_violations(LAYER, JOBS) == ()
    assert shard_violations(LAYER, []) == ()


@pytest.mark.parametrize(
    ("shard", "code"),
    [
        (Shard((0, 1, 1), (0, 1)), "servers"),
        (Shard((0, 1, 5), (0, 1)), "servers"),  # 5 is of job b
        (Shard((0, 1, 8), (0, 1)), "servers"),
        (Shard((0, 1, -1), (0, 1)), "servers"),
        (Shard((0, 1), (0, 1)), "ranks"),
        (Shard((0, 1, 2, 3), (0, 1)), "ranks"),
        (Shard((0, 1, 2), (0, 0)), "planes"),
        (Shard((0, 1, 2), (0,)), "planes"),
        (Shard((0, 1, 2), (0, 2)), "planes"),
        (Shard((0, 1, 6), (0, 1)), "switch"),  # 6 is under the other switch
    ],
)
def test_each_corruption_has_its_code(shard: Shard, code: str) -> None:
    """One thing wrong with job a."""
    assert code in codes(LAYER, [("a", RING, shard), JOBS[1]])


@pytest.mark.parametrize(
    ("arcs", "code"),
    [
        ([[1, 0, 0], [-1, -1, -1]], "interface"),
        ([[0, 2, 1], [-1, -1, -1]], "circuit"),
        ([[3, 2, 1], [-1, -1, -1]], "shape"),
        ([[-2, 2, 1], [-1, -1, -1]], "shape"),
    ],
)
def test_shapes_are_not_trusted(arcs: list[list[int]], code: str) -> None:
    """Two circuits into one interface, a circuit to itself, ranks that are none."""
    shape = ShardShape(np.array(arcs, dtype=np.int32))
    assert code in codes(LAYER, [("a", shape, JOBS[0][2])])


def test_junk_is_a_violation_not_a_crash() -> None:
    """Shapes and shards of the wrong kind."""
    assert codes(LAYER, [("a", ShardShape(np.array(["x"])), JOBS[0][2])]) == {"shape"}  # type: ignore[arg-type]
    assert codes(LAYER, [("a", RING, Shard(("x", 1.5, True), (0, 1)))]) == {"servers"}  # type: ignore[arg-type]
    assert codes(LAYER, [("a", RING, None)]) == {"job"}  # type: ignore[arg-type]


def test_ports_are_counted() -> None:
    """A switch of two ports with three interfaces, whatever the jobs."""
    layer = OpticalLayer(np.array([[0, 0, 0]], dtype=np.int32), 2, 0.1)
    assert [v.code for v in layer_violations(layer)] == ["ports"]
    assert codes(layer, []) == {"ports"}
    for table in (np.zeros((0, 0), dtype=np.int32), np.array([[-1]], dtype=np.int32)):
        assert codes(OpticalLayer(table, 2, 0.1), []) == {"layer"}
    assert codes(replace(LAYER, switching_time_s=float("nan")), []) == {"layer"}


def test_paired_switches_carry_both_ways() -> None:
    """Where ports are joined in pairs, each circuit needs its way back."""
    layer = layer_from_table([[0, 0, 0, 0]], 4, 0.1, paired=True)
    swap = ShardShape(np.array([[1, 0]], dtype=np.int32))
    one_way = ShardShape(np.array([[1, -1]], dtype=np.int32))
    assert codes(layer, [("a", swap, Shard((0, 3), (0,)))]) == set()
    assert codes(layer, [("a", one_way, Shard((0, 3), (0,)))]) == {"pair"}
