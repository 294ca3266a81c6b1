"""What limits a collective, and what faster links gain: bounds by hand on a ring, solved again on the limiting cut."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.paths import INSTANCES
from topoopt.core.collective import CollectiveOp
from topoopt.core.errors import InputError
from topoopt.kinds.collective.explain import explain
from topoopt.kinds.files import read_instance
from topoopt.kinds.pipeline import Question, solve


def test_ring_of_five() -> None:
    """Each rank takes 4 parts of 200 kB over two links of 12.5 GB/s: 32 us; faster links at one rank help no other."""
    problem = replace(read_instance(INSTANCES / "collectives/ring-5.yaml"), collective=CollectiveOp.ALLGATHER)
    solution = solve(problem)
    found = explain(solution, Question())
    assert found.figures["least_bytes_us"] == pytest.approx(32.0)
    assert found.figures["latency_us"] + found.figures["bytes_us"] == pytest.approx(solution.figures.time_us)
    assert len(found.figures["links_of_the_cut"]) == 2
    assert all(gain["least_bytes_us"] == pytest.approx(32.0) for gain in found.figures["faster"])
    assert any("another cut is as narrow" in line for line in found.words)
    with pytest.raises(InputError, match="not a solution"):
        explain(replace(solution, problem=replace(problem, vector_bytes=2)), Question())


def test_the_only_slow_link() -> None:
    """Two ranks, 1 GB/s one way and 10 back: half the vector over the slow link; twice as fast takes half as long."""
    base = read_instance(INSTANCES / "collectives/ring-5.yaml")
    slow = base.network.of_links([False, False], [(0, 1, 1), (1, 0, 10)])
    problem = replace(base, network=slow, collective=CollectiveOp.ALLGATHER, vector_bytes=2_000_000)
    found = explain(solve(problem), Question())
    assert found.figures["least_bytes_us"] == pytest.approx(1000.0)
    (gain,) = found.figures["faster"]
    assert (gain["links"], gain["added_gbytes_per_s"]) == (["0 → 1"], 10.0)
    assert gain["least_bytes_us"] == pytest.approx(100.0)  # 11 GB/s there, 10 GB/s back
